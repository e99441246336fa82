"""A reset asked for through a folder: a request appears there as a file, and so does the answer.

For shell scripts and other programs: `request.json` is there while somebody is waited for. It is answered by an
`answer.json` beside it, or by removing it.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from resetfree.core.errors import InvalidInput, OperatorTimeout
from resetfree.problems.operators.channel import Channel
from resetfree.problems.operators.messages import accept, announce, as_json, check_reply, clean, sentence, too_late
from resetfree.problems.operators.request import Answer, Request

POLL = 0.1  # seconds
LARGEST = 65_536  # bytes of an answer


class Folder(Channel):
    """Asks through one folder, which it holds from the first request on: two runs in one would take each other's."""

    def __init__(self, folder: Path, who: str) -> None:
        if folder.exists() and not folder.is_dir():
            raise InvalidInput(f"The operator's folder must be a folder. Got '{folder}', which is none.")
        self._folder, self._who = folder.absolute(), who
        self._request, self._answer = self._folder / "request.json", self._folder / "answer.json"
        self._lock = -1

    def ask(self, request: Request, deadline: float | None) -> Answer:
        """Write the request, and look for the answer until it is there."""
        name = secrets.token_hex(8)
        try:
            self._hold()
            self._answer.unlink(missing_ok=True)  # what lies there was not an answer to this
            self._publish(as_json(request, name, deadline))
            try:
                announce(f"{sentence(request)} Waiting for '{self._answer}', or for '{self._request}' to be removed.")
                return self._wait(request, name, deadline)
            finally:
                if self._is_there():
                    self._request.unlink(missing_ok=True)
                    self._answer.unlink(missing_ok=True)
        except OSError as error:
            raise InvalidInput(f"The operator's folder '{self._folder}' cannot be used: {error.strerror}.") from error

    def close(self) -> None:
        """Let others use the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _wait(self, request: Request, name: str, deadline: float | None) -> Answer:
        end = None if deadline is None else time.monotonic() + deadline
        seen, told = "", ""  # what is wrong with the answer that lies there, and what of it was said
        while True:
            removed = not self._request.exists()  # looked at first: who writes an answer and removes it is heard
            try:
                reply = self._read()
                if reply is not None:
                    return accept(check_reply(reply, name, must_name=False), self._who)
                wrong = ""
            except (ValueError, LookupError) as error:
                wrong = clean(str(error.args[0]))
            if removed and not self._is_there():  # a folder that is gone says nothing
                raise OperatorTimeout(
                    f"Nobody performed the reset of '{clean(request.problem)}': the operator's folder "
                    f"'{self._folder}' is gone."
                )
            if removed and not self._answer.exists():
                return Answer(self._who)
            if wrong and wrong == seen != told:  # seen twice: it was not just being written
                announce(f"The answer in '{self._answer}' is not taken: {wrong}")
                told = wrong
            seen = wrong
            if end is not None and time.monotonic() >= end:
                assert deadline is not None
                raise too_late(request, deadline)
            time.sleep(POLL)

    def _read(self) -> Any:
        """The answer, None where there is none yet; one that is cut off may still be being written."""
        try:
            with self._answer.open("rb") as file:
                text = file.read(LARGEST + 1)
        except (FileNotFoundError, IsADirectoryError):
            return None
        if not text.strip():
            return None
        if len(text) > LARGEST:
            raise ValueError(f"An answer has at most {LARGEST} bytes.")
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError("It is not JSON (yet).") from error

    def _publish(self, data: dict[str, Any]) -> None:
        """Whole or not at all."""
        draft = self._folder / "request.json.new"
        draft.write_text(json.dumps(data, allow_nan=False) + "\n")
        draft.replace(self._request)

    def _hold(self) -> None:
        if self._lock >= 0:
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            free = lock_descriptor(handle, blocking=False)
        except OSError:
            os.close(handle)
            raise
        if not free:
            os.close(handle)
            raise InvalidInput(f"The operator's folder '{self._folder}' is used by another run. Name another one.")
        self._lock = handle

    def _is_there(self) -> bool:
        """Whether the folder is still the one that was asked in."""
        try:
            return os.path.samestat(os.fstat(self._lock), os.stat(self._folder / "lock"))
        except OSError:
            return False
