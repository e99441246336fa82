"""Requests for resets through a folder, for shell scripts and other programs.

`request.json` exists while a request is open. It is answered by an `answer.json` beside it, or by removing it.
"""

import json
import os
import secrets
import time
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from resetfree.core.errors import InvalidInput, OperatorTimeout
from resetfree.problems.operators.channel import (
    Answer,
    Channel,
    Request,
    accept,
    announce,
    as_json,
    check_reply,
    clean,
    sentence,
    too_late,
)

POLL = 0.1  # seconds
LARGEST = 65_536  # bytes of an answer


class FolderChannel(Channel):
    """Requests through one folder, locked from the first request on: two runs would take each other's answers."""

    def __init__(self, folder: Path, who: str) -> None:
        if folder.exists() and not folder.is_dir():
            raise InvalidInput(f"The operator's folder must be a folder. Got the file '{folder}' instead.")
        self._folder, self._who = folder.absolute(), who
        self._request, self._answer = self._folder / "request.json", self._folder / "answer.json"
        self._lock = -1

    def ask(self, request: Request, deadline: float | None) -> Answer:
        """Write the request, and poll for the answer."""
        name = secrets.token_hex(8)
        try:
            self._hold()
            self._answer.unlink(missing_ok=True)  # it was not for this request
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
        """Unlock the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _wait(self, request: Request, name: str, deadline: float | None) -> Answer:
        end = None if deadline is None else time.monotonic() + deadline
        seen, announced = "", ""  # what is wrong with the present answer, and what was announced of it
        while True:
            removed = not self._request.exists()  # before the answer is read: it may come just before the removal
            try:
                reply = self._read()
                if reply is not None:
                    return accept(check_reply(reply, name, must_name=False), self._who)
                wrong = ""
            except (ValueError, LookupError) as error:
                wrong = clean(str(error.args[0]))
            if removed and not self._is_there():  # the whole folder was removed
                raise OperatorTimeout(
                    f"No operator performed the reset of '{clean(request.problem)}': the operator's folder "
                    f"'{self._folder}' is gone."
                )
            if removed and not self._answer.exists():
                return Answer(self._who)
            if wrong and wrong == seen != announced:  # twice the same: it was not just being written
                announce(f"The answer in '{self._answer}' is not taken: {wrong}")
                announced = wrong
            seen = wrong
            if end is not None and time.monotonic() >= end:
                assert deadline is not None
                raise too_late(request, deadline)
            time.sleep(POLL)

    def _read(self) -> Any:
        """The answer, None if there is none yet; raises ValueError for one that is wrong or not complete."""
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
        """Write the request atomically."""
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
        """Whether the folder is still the one that was locked."""
        try:
            return os.path.samestat(os.fstat(self._lock), os.stat(self._folder / "lock"))
        except OSError:
            return False
