"""Work outside the event loop: threads that do not delay the end of the server, commands in child processes, and the
reports that these make for tabs of the browser.

A tab cannot send the token in a header, so its address holds a secret, which only the page that requested it knows. The
report is made when the tab loads it, and loaded again from there as long as it is among the newest.
"""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from anyio.to_thread import current_default_thread_limiter
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from resetfree.core.errors import ResetFreeError, RunError
from resetfree.core.system import kill_group
from resetfree.show.report.html.page import policy
from resetfree.show.studio import limits

T = TypeVar("T")


async def background(make: Callable[..., T], *given: Any) -> T:
    """`make(*given)` in a daemon thread, without blocking the loop; as many at once as Starlette's own threads.

    Starlette's own threads would delay the end of the program until their requests are done.
    """
    async with current_default_thread_limiter():
        done: Future[T] = Future()

        def work() -> None:
            done.set_running_or_notify_cancel()  # from here on, cancelling only drops the result
            try:
                done.set_result(make(*given))
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=work, name="studio request", daemon=True).start()
        return await asyncio.wrap_future(done)


class ChildFailed(RunError):
    """A child process failed, and the request was not at fault; `status` is the HTTP status to answer with."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


class Children:
    """At most `most` processes at once; `close` kills all of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._live: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def run(self, command: Sequence[str], what: str, seconds: float) -> None:
        """Run a command to its end. Status 2 raises RunError with its standard error, any other failure ChildFailed.

        command: as for `subprocess`; it gets the environment, the import path and one thread for linear algebra.
        what: names the purpose of the command in messages, as "report of 'NAME'".
        seconds: after which it is killed.
        """
        with self._start(command, what) as child:
            try:
                _, error_text = child.communicate(timeout=seconds)
            except subprocess.TimeoutExpired as error:
                raise ChildFailed(f"The {what} took longer than {seconds:g} seconds, and was stopped.", 504) from error
            finally:
                with self._lock:
                    _kill(child)
                    self._live.discard(child)
        if child.returncode == 2:
            raise RunError(" ".join(error_text.split()) or f"The {what} cannot be made.")
        if self._closed and child.returncode:
            raise ChildFailed("The studio is shutting down.", 503)
        if child.returncode:
            raise ChildFailed(f"The {what} could not be made: its process {_fate(child.returncode)}.", 500)

    def close(self) -> None:
        """Kill the running processes and start no more."""
        with self._lock:
            self._closed = True
            for child in self._live:
                _kill(child)

    def _start(self, command: Sequence[str], what: str) -> subprocess.Popen[str]:
        path = os.pathsep.join(sys.path)  # the child imports from the same places
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with self._lock:
            if self._closed:
                raise ChildFailed("The studio is shutting down.", 503)
            if len(self._live) >= self._most:
                raise ChildFailed(f"The {what} has to wait: {self._most} are being made. Try again in a minute.", 503)
            try:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    env=environment,
                    start_new_session=True,  # Ctrl-C reaches this process only, which then ends the child
                )
            except OSError as error:
                raise ChildFailed(f"The {what} could not be made: {error.strerror}.", 500) from error
            self._live.add(child)
            return child


def _kill(child: subprocess.Popen[str]) -> None:
    """Kill a running process with its descendants."""
    if child.poll() is None:
        kill_group(child.pid)
        child.kill()


def _fate(code: int) -> str:
    if code > 0:
        return f"ended with status {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


ADDRESS = "/report/"
# A report is made from run files, which are untrusted: it has an origin of its own, and cannot reach the studio.
HEADERS = {
    "content-security-policy": f"{policy()}; frame-ancestors 'none'; sandbox allow-scripts allow-downloads",
    "cross-origin-opener-policy": "unsafe-none",  # browsers show no sandboxed page that has another one
}
GONE = "This report is gone: press Report in the studio again."


class _Tab(NamedTuple):
    name: str
    place: Path
    made: asyncio.Task[Path]


class ReportTabs:
    """The newest reports, by the secret in their address. Used in the event loop only."""

    def __init__(
        self, make: Callable[[str, Path], Path], opened: Callable[[Path], None], remove: Callable[[Path], None]
    ) -> None:
        self._make, self._opened, self._remove = make, opened, remove
        self._tabs: dict[str, _Tab] = {}

    def open(self, name: str) -> str:
        """Begin a report; returns the address of its tab."""
        secret, place = secrets.token_urlsafe(24), Path(tempfile.mkdtemp(prefix="resetfree-"))
        self._opened(place)
        made = asyncio.create_task(background(self._make, name, place))
        made.add_done_callback(lambda done: done.cancelled() or done.exception())  # the tab may be closed
        self._tabs[secret] = _Tab(name, place, made)
        while len(self._tabs) > limits.OPENED:
            old = self._tabs.pop(next(iter(self._tabs)))
            old.made.cancel()
            self._remove(old.place)
        return f"{ADDRESS}{secret}"

    async def show(self, request: Request) -> Response:
        """The page of a tab, when it is made; why there is none is one sentence."""
        tab = self._tabs.get(request.path_params["secret"])
        if tab is None:
            return PlainTextResponse(GONE, 404)
        try:
            page = await asyncio.shield(tab.made)
        except ResetFreeError as error:
            return PlainTextResponse(str(error), error.status if isinstance(error, ChildFailed) else 400)
        except asyncio.CancelledError:
            if not tab.made.cancelled():
                raise
            return PlainTextResponse(GONE, 404)
        named = {**HEADERS, "content-disposition": f'inline; filename="{tab.name}.html"'}
        return FileResponse(page, media_type="text/html", headers=named)
