"""Requests to the studio: which are allowed, and work for them outside the event loop.

`core.web` decides which requests are allowed; this module adds the headers and bounds the size, the time and the
number of connections by `limits`. Work is done in threads that do not delay the end of the server, and by commands in
child processes, such as reports for tabs of the browser. A tab cannot send the token in a header, so its address holds
a secret, which only the page that requested it knows. The report is made when the tab loads it, and loaded again from
there as long as it is among the newest.
"""

import asyncio
import json
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
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from resetfree.core.errors import InvalidInput, ResetFreeError, RunError
from resetfree.core.system import kill_group
from resetfree.core.web import body_size, has_token, origin_refusal
from resetfree.show.report.page import policy
from resetfree.show.studio import limits

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SILENT = 0.5  # seconds after which an idle connection may be closed in favour of a new one
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
}


class Guard:
    """Refuses requests that are not allowed, and adds the security headers to every response.

    token: required in every request for data; "" for none (loopback only).
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in own),
                ]
            await send(message)

        refusal = self._refusal(Request(scope))
        await (self._app if refusal is None else refusal)(scope, receive, headed)

    def _refusal(self, request: Request) -> Response | None:
        headers = request.headers
        sentence = origin_refusal(headers, headers.getlist("host"), any_name=bool(self._token))
        if sentence is not None:
            return refuse(403, sentence)
        if request.url.path.startswith("/api/") and not has_token(headers, self._token):
            return refuse(401, "The studio's token is missing or wrong: open the address that the terminal shows.")
        if request.method not in ("GET", "HEAD", "POST"):
            return refuse(405, "The method must be GET, HEAD or POST.")
        return None


def refuse(status: int, sentence: str) -> JSONResponse:
    """A refusal in one sentence; the connection is closed, since unread data may still be on its way."""
    return JSONResponse({"error": sentence}, status, {"connection": "close"})


class TooLarge(InvalidInput):
    """A request body that is larger than `limits.BODY`."""


async def body_of(request: Request) -> Any:
    """The JSON body of a request, bounded in size and time; its type must be JSON, which no HTML form can send."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise InvalidInput("The request must be of type application/json.")
    try:
        small = body_size(request.headers.get("content-length", "0"), limits.BODY) is not None
    except ValueError:
        small = False
    if not small:
        raise TooLarge(f"A request has at most {limits.BODY:,} bytes.")
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > limits.BODY:
                    raise TooLarge(f"A request has at most {limits.BODY:,} bytes.")
                parts.append(part)
    except TimeoutError as error:
        raise InvalidInput(f"The request did not arrive within {limits.PATIENCE:g} seconds.") from error
    try:
        return json.loads(b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise InvalidInput("The request must be JSON.") from error


class Protocol(H11Protocol):
    """HTTP with a bounded number of connections, of which idle ones are closed."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept it if there is room, or if an idle connection can be closed for it."""
        self._look: asyncio.TimerHandle | None = None
        self._since = self.loop.time()
        super().connection_made(transport)
        if len(self.connections) > limits.CONNECTIONS and not self._shed():
            self._drop()
            return
        self._look = self.loop.call_later(limits.PATIENCE, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop checking it."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    @property
    def idle(self) -> bool:
        """Whether no request is being answered: none has arrived, or only a part of one."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def _check(self) -> None:
        """Close the connection if it has sent no complete request in time."""
        if self.idle:
            self._drop()
        else:
            self._look = self.loop.call_later(limits.PATIENCE, self._check)

    def _drop(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    def _shed(self) -> bool:
        """Close the oldest idle connection, if it has been idle long enough; returns whether one was closed."""
        waiting = [one for one in self.connections if isinstance(one, Protocol) and one.idle and one is not self]
        first = min(waiting, key=lambda one: one._since, default=None)
        if first is None or self._since - first._since < SILENT:
            return False
        first._drop()
        return True


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
TAB_HEADERS = {
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
        named = {**TAB_HEADERS, "content-disposition": f'inline; filename="{tab.name}.html"'}
        return FileResponse(page, media_type="text/html", headers=named)
