"""Reset requests on the page: those of runs of this process, and those of runs of other processes.

The latter are reached as described in docs/hardware.md: an address file beside the run file names a loopback address
and a token. No other address is ever contacted, whatever the file contains.
"""

import http.client
import json
import os
import re
import secrets
import stat
import threading
from pathlib import Path
from typing import Any

from resetfree.core.errors import RunError
from resetfree.core.system import NOFOLLOW, NONBLOCK, owned
from resetfree.core.web import TOKEN
from resetfree.problems.operators import Answer, Request
from resetfree.problems.operators.channel import accept, as_json, check_reply, sentence
from resetfree.problems.operators.http import LARGEST

ADDRESS = re.compile(r"http://127\.0\.0\.1:([1-9][0-9]{0,4})")
WAIT = 2.0  # seconds for an answer of another process
FIELDS = {"id": str, "problem": str, "why": str, "detail": str, "asked": str}


class Desk:
    """The operator of a run of this process: a request waits here until it is answered on the page."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._request: dict[str, Any] | None = None
        self._reply: dict[str, Any] | None = None
        self._closed = False

    def perform(self, request: Request) -> Answer:
        """Wait until the reset is performed; closing the desk ends the run as Ctrl-C does."""
        with self._changed:
            name = secrets.token_hex(8)
            self._request = {**as_json(request, name, None), "sentence": sentence(request)}
            self._reply = None
            try:
                while self._reply is None and not self._closed:
                    self._changed.wait()
                if self._reply is None:
                    raise KeyboardInterrupt
                return accept(self._reply, "operator")
            finally:
                self._request = None

    def show(self) -> dict[str, Any] | None:
        """The pending request, or None."""
        with self._changed:
            return None if self._reply is not None else self._request

    def reply(self, data: dict[str, Any]) -> None:
        """Answer the pending request; raises RunError if there is none or the answer does not fit it."""
        with self._changed:
            if self._request is None or self._reply is not None:
                raise RunError("No reset is requested at present.")
            try:
                self._reply = check_reply(data, self._request["id"], must_name=True)
            except (ValueError, LookupError) as error:
                raise RunError(str(error.args[0])) from error
            self._changed.notify_all()

    def close(self) -> None:
        """Answer no more requests."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Distant:
    """The operator's endpoint of a run that another process executes."""

    def __init__(self, run_file: Path) -> None:
        self._file = run_file.with_name(f"{run_file.name}.operator.json")

    def show(self) -> dict[str, Any] | None:
        """The pending request of that run; None if there is none or the run cannot be reached."""
        try:
            status, data = self._call("GET", "/request", None)
        except RunError:
            return None
        if status != 200 or not isinstance(data, dict) or not all(isinstance(data.get(k), FIELDS[k]) for k in FIELDS):
            return None
        request = {key: data[key][:4000] for key in FIELDS}
        return {**request, "sentence": sentence(Request(request["problem"], request["why"], request["detail"]))}

    def reply(self, data: dict[str, Any]) -> None:
        """Answer the pending request; raises RunError if the answer is refused."""
        status, response = self._call("POST", "/answer", data)
        if status != 200:
            why = response.get("error") if isinstance(response, dict) else None
            raise RunError(f"The answer was refused: {str(why)[:200]}")

    def _call(self, method: str, path: str, data: Any) -> tuple[int, Any]:
        port, token = self._address()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
        try:
            body = None if data is None else json.dumps(data)
            connection.request(method, path, body, {TOKEN: token, "Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read(LARGEST))
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise RunError("The run that requested a reset cannot be reached.") from error
        finally:
            connection.close()

    def _address(self) -> tuple[int, str]:
        """Loopback port and token, from a small plain file that this user owns."""
        try:
            handle = os.open(self._file, os.O_RDONLY | NOFOLLOW | NONBLOCK)
            try:
                about = os.fstat(handle)
                if not stat.S_ISREG(about.st_mode) or not owned(about):
                    raise ValueError("it is not a plain file of this user")
                data = json.loads(os.read(handle, 4096))
            finally:
                os.close(handle)
            found = ADDRESS.fullmatch(data["url"])
            token = data["token"]
            if found is None or not isinstance(token, str) or not token.isascii() or not token.isprintable():
                raise ValueError("it names no loopback address")
            return int(found[1]), token
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise RunError("No reset is requested at present.") from error
