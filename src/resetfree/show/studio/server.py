"""The server and its routes: the page, its data as JSON, and a stream of frames for each watcher.

It is bound to loopback unless a token is set, bounded in everything, and every run is saved when it ends.
"""

import asyncio
import errno
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from resetfree.core import settings
from resetfree.core.arguments import whole
from resetfree.core.errors import InvalidInput, ResetFreeError, RunError
from resetfree.core.settings import record
from resetfree.core.web import LOOPBACK, PortNumber
from resetfree.runs.file.ledger import read_spec_of
from resetfree.runs.learn import load
from resetfree.show.report import style
from resetfree.show.report.page import PALETTE, palette
from resetfree.show.studio import limits, web
from resetfree.show.studio.catalogue import TEMPLATES, Control, Named, Reply, catalogue, check_grid, playable
from resetfree.show.studio.files import NAME, RunFolder, rounds_in
from resetfree.show.studio.following import Followed, Following, pictures
from resetfree.show.studio.frames import scene_of, sought
from resetfree.show.studio.sessions import FrameChannel, Sessions, View, pace_of

KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
CELLS = {  # on a light and on a dark page
    "pit": (style.PIT, "#e0435a"),
    "risk": (style.UNSAFE, "#a8512f"),
    "wall": (style.WALL, "#05070a"),
    "grid": (style.EDGE, "#2b323a"),
    "floor": ("#ffffff", "#1a1f25"),
    "keep": ("#c9e6cf", "#24503f"),
}


class Studio:
    """The routes and what they share: the folder, the sessions and the watchers."""

    def __init__(self, folder: Path, token: str = "") -> None:
        self.folder = RunFolder(folder)
        self.sessions = Sessions(self.folder)
        self.watching = 0
        self._folders: set[Path] = set()  # temporary folders of downloads
        self._tabs = web.ReportTabs(self.folder.report, self._folders.add, self._remove)
        self._channels: dict[View, FrameChannel] = {}  # of watched views
        self._opening = threading.Lock()
        self._certifying, self._claimed = asyncio.Lock(), dict[str, asyncio.Task[dict[str, Any]]]()
        self._watched: WeakValueDictionary[str, Following] = WeakValueDictionary()  # while they are watched
        self._certified: dict[str, tuple[int, float, dict[str, Any]]] = {}
        self._assets = {
            one.name: (one.read_bytes(), KINDS[Path(one.name).suffix])
            for one in files("resetfree.show.studio").joinpath("static").iterdir()
            if Path(one.name).suffix in KINDS
        }
        self._assets["theme.css"] = (palette({**PALETTE, **CELLS}).encode(), KINDS[".css"])
        routes = [
            Route("/", self._asset),
            Route("/static/{name}", self._asset),
            Route("/api/catalogue", _json(catalogue)),
            Route("/api/playable", _json(playable)),
            Route("/api/runs", _json(self._runs)),
            Route("/api/check", _posted(check_grid), methods=["POST"]),
            Route("/api/start", _posted(lambda body: {"name": self.sessions.start(body).name}), methods=["POST"]),
            Route("/api/control", _posted(self._control), methods=["POST"]),
            Route("/api/answer", _posted(self._answer), methods=["POST"]),
            Route("/api/watch", self._watch),
            Route("/api/certificates", self._certificates),
            Route("/api/file", self._download(self.folder.copy, "rfrun")),
            Route("/api/film", self._download(self.folder.film, "gif")),
            Route("/api/report", self._download(self.folder.report, "html"), methods=["GET"]),
            Route("/api/report", self._open_report, methods=["POST"]),
            Route(f"{web.ADDRESS}{{secret}}", self._tabs.show),
            Route("/api/episode", self._episode),
            Route("/api/pictures", self._pictures),
        ]
        self._routes = Starlette(routes=routes, exception_handlers={404: _unknown, 405: _unknown, 500: _failed})
        self.app = web.Guard(self._routes, token)

    def end(self) -> None:
        """In the event loop: end streams, reports and games without waiting, and start no more."""
        for channel in self._channels.values():
            channel.end()
        self.folder.reporters.close()
        self.sessions.end()

    def close(self) -> None:
        """After the event loop: wait until every game is saved, and remove temporary folders."""
        self.folder.reporters.close()
        while self.sessions.end():
            self.sessions.stop_all()
        for place in list(self._folders):
            self._remove(place)

    async def _asset(self, request: Request) -> Response:
        found = self._assets.get(request.path_params.get("name", "index.html"))
        return web.refuse(404, "There is no such file.") if found is None else Response(found[0], media_type=found[1])

    def _runs(self) -> dict[str, Any]:
        active = self.sessions.active()
        rows = [{**row, "here": active.get(row["name"])} for row in self.folder.listing()]
        return {"folder": self.folder.path.name, "runs": rows}

    def _control(self, body: Any) -> dict[str, Any]:
        given = record(Control, body, "request")
        name, action = given.name, given.action
        if action == "resume":
            try:
                return {"name": self.sessions.resume(name, pace_of(given.pace), given.paused).name}
            except ResetFreeError as error:  # the page names runs, not where they are
                raise RunError(str(error).replace(f"{self.folder.path}{os.sep}", "")) from error
        session = self.sessions.get(name)
        if session is None:
            raise RunError(f"The run '{name[:60]}' is not running in this studio.")
        if action == "speed":
            session.gate.set(pace=pace_of(given.pace))
        elif action == "push":
            for lane in session.lanes:
                lane.push = given.push
        elif action == "step":
            session.gate.step()
        elif action == "stop":
            session.stop()
        else:
            session.gate.set(paused=action == "pause")
        session.version += 1
        return {"name": name}

    async def _open_report(self, request: Request) -> Response:
        """Begin the report of a game, and name the address of the tab that shows it."""
        try:
            given = record(Named, await web.body_of(request), "request")
            await web.background(self.folder.lanes, given.name)
        except InvalidInput as error:
            return web.refuse(413 if isinstance(error, web.TooLarge) else 400, str(error))
        except ResetFreeError as error:
            return web.refuse(400, str(error))
        return JSONResponse({"address": self._tabs.open(given.name)})

    async def _episode(self, request: Request) -> Response:
        """An episode that was played, of every lane; null where it is not saved yet."""
        query = request.query_params

        def found() -> dict[str, Any]:
            view = self._view(query.get("name"))
            k = sought([lane.history for lane in view.lanes], query.get("k", ""), query.get("seek", ""))
            return {"k": k, "lanes": [lane.past(k) for lane in view.lanes]}

        return await _answered(web.background(found))

    async def _pictures(self, request: Request) -> Response:
        """The pictures that a run keeps of itself."""
        name = request.query_params.get("name", "")
        return await _answered(web.background(lambda: {"lanes": [pictures(path) for path in self.folder.lanes(name)]}))

    def _answer(self, body: Any) -> dict[str, Any]:
        given = record(Reply, body, "request")
        view = self._view(given.name)
        whole(given.lane, "'lane' of the request", 0, len(view.lanes) - 1)
        reply = {"id": given.id, "who": given.who or "operator at the studio", "note": given.note}
        view.answer(given.lane, reply if given.stop is None else {**reply, "stop": given.stop})
        return {"ok": True}

    def _view(self, name: Any) -> View:
        """The session of this name, or its files."""
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            self.folder.free(name)
        found = self.sessions.get(name)
        if found is not None and (found.active or not any(Followed(lane.path).being_written for lane in found.lanes)):
            return found
        with self._opening:
            return self._watched.get(name) or self._watched.setdefault(name, Following(name, self.folder))

    async def _watch(self, request: Request) -> Response:
        if self.watching >= limits.WATCHING:
            return web.refuse(503, f"At most {limits.WATCHING} pages watch at a time. Close one.")
        self.watching += 1  # counted before the first await, so that simultaneous requests are too
        try:
            view = await web.background(self._view, request.query_params.get("name"))
            channel = self._channels.get(view)
            if channel is None or channel.ended:
                channel = self._channels[view] = FrameChannel(view, lambda: self._replaced(view))
            channel.join()
            return _Stream(channel.stream(), lambda: self._left(channel))
        except BaseException as error:
            self.watching -= 1
            if isinstance(error, ResetFreeError):
                return web.refuse(400, str(error))
            raise

    def _left(self, channel: FrameChannel) -> None:
        self.watching -= 1
        if channel.leave() and self._channels.get(channel.view) is channel:
            del self._channels[channel.view]

    def _replaced(self, view: View) -> bool:
        """Whether a view of files has been replaced by an active session."""
        current = self.sessions.get(view.name)
        return current is not None and current is not view and current.active

    async def _certificates(self, request: Request) -> Response:
        """Every claim that can be checked on the saved part of a run; simultaneous requests share one computation."""
        name = request.query_params.get("name", "")
        task = self._claimed.get(name)
        if task is None:
            task = self._claimed[name] = asyncio.create_task(self._certify(name))
            task.add_done_callback(lambda done: self._claimed.pop(name))
        return await _answered(asyncio.shield(task))

    async def _certify(self, name: str) -> dict[str, Any]:
        began = time.monotonic()
        async with self._certifying:  # one at a time, without holding a thread while waiting
            lanes = await web.background(lambda: [self._claims(path) for path in self.folder.lanes(name)])
        return {"lanes": lanes, "seconds": round(time.monotonic() - began, 3)}

    def _claims(self, path: Path) -> dict[str, Any]:
        log = Path(f"{path}-wal")
        about = path.stat()
        stamp = (about.st_size + (log.stat().st_size if log.exists() else 0), about.st_mtime)
        known = self._certified.get(path.name)
        if known is not None and known[:2] == stamp:
            return known[2]
        scene = scene_of(read_spec_of(path))
        if not scene.bounded:
            return {"k": 0, "claims": [], "why": scene.why}
        played = rounds_in(path)
        if played > limits.CERTIFIED:
            why = f"more than {limits.CERTIFIED:,} rounds: use `resetfree certify` for them"
            return {"k": played, "claims": [], "why": why}
        run = load(path)
        result = {"k": len(run), "claims": [one.to_dict() for one in run.certificates()], "why": ""}
        self._certified = {**dict(list(self._certified.items())[-limits.KEPT :]), path.name: (*stamp, result)}
        return result

    def _download(self, make: Callable[[str, Path], Path], ending: str) -> Any:
        """Send a file that is made in a temporary folder; as a download, never as a page of this origin."""

        async def answer(request: Request) -> Response:
            name, place = request.query_params.get("name", ""), Path(tempfile.mkdtemp(prefix="resetfree-"))
            self._folders.add(place)
            try:
                made = await web.background(make, name, place)
            except BaseException as error:
                self._remove(place)
                if isinstance(error, ResetFreeError):
                    return web.refuse(error.status if isinstance(error, web.ChildFailed) else 400, str(error))
                raise
            how: dict[str, Any] = {"filename": f"{name}.{ending}", "background": BackgroundTask(self._remove, place)}
            return FileResponse(made, media_type="application/octet-stream", **how)

        return answer

    def _remove(self, place: Path) -> None:
        shutil.rmtree(place, ignore_errors=True)
        self._folders.discard(place)


class _Stream(StreamingResponse):
    """Server-sent events; `left` is called when the stream ends, for whatever reason."""

    def __init__(self, events: AsyncIterator[bytes], left: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._left = left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until either side ends."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._left()


def _json(make: Callable[[], dict[str, Any]]) -> Any:
    async def answer(request: Request) -> Response:
        return await _answered(web.background(make))

    return answer


def _posted(make: Callable[[Any], dict[str, Any]]) -> Any:
    async def answer(request: Request) -> Response:
        try:
            body = await web.body_of(request)
        except web.TooLarge as error:
            return web.refuse(413, str(error))
        except InvalidInput as error:
            return web.refuse(400, str(error))
        return await _answered(web.background(make, body))

    return answer


async def _answered(made: Awaitable[dict[str, Any]]) -> Response:
    """The result as JSON; a refusal as one sentence with status 400."""
    try:
        return JSONResponse(await made)
    except ResetFreeError as error:
        return JSONResponse({"error": " ".join(str(error).split())}, 400)
    except (RecursionError, MemoryError, OverflowError):
        return JSONResponse({"error": "The request is too large to be computed."}, 400)


async def _unknown(request: Request, error: Exception) -> Response:
    return web.refuse(404, "There is no such address.")


async def _failed(request: Request, error: Exception) -> Response:
    return web.refuse(500, "The studio failed on this request; running games are not affected.")


SWITCH = 0.001  # seconds after which a learning thread yields to the server
GRACE = 0.3  # seconds for pending responses when the server ends
LATE = 0.3  # seconds after which a message says what the end of the studio is waiting for
LOOK = 0.1  # seconds of one wait at most, so that a signal is noticed soon


def serve(
    folder: Path,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str = "",
    ready: Callable[[str], None] | None = None,
    late: Callable[[str], None] | None = None,
) -> None:
    """Serve until Ctrl-C or SIGTERM; then every active run is saved after its current episode.

    token: required of the page. Beyond loopback one is generated if none is given.
    ready: called with the address when the page can be opened.
    late: called with a sentence if saving takes long; a second Ctrl-C does not wait for it.
    """
    if token and not (token.isascii() and token.isprintable() and " " not in token and len(token) >= 8):
        raise InvalidInput(
            f"The '--token' must be at least 8 printable characters without spaces. Got {len(token)} instead."
        )
    if host not in LOOPBACK and not token:
        token = secrets.token_urlsafe(24)
    listening = _bind(host, port)
    try:
        studio = Studio(folder, token)
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
        server = Server(studio)
        warm_up()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM saves the runs too
        usual = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH)
        try:
            with suppress(KeyboardInterrupt), server.capture_signals():  # from when the address is known
                if ready is not None:
                    ready(address + (f"#token={token}" if token else ""))
                server.run([listening])
        finally:
            _save(studio, late)
            sys.setswitchinterval(usual)
    finally:
        listening.close()


def _save(studio: Studio, late: Callable[[str], None] | None) -> None:
    """Wait until every game is saved."""
    closing = threading.Thread(target=studio.close, daemon=True)
    began = time.monotonic()
    closing.start()
    while closing.is_alive():
        closing.join(LOOK)
        if late is not None and closing.is_alive() and time.monotonic() - began > LATE:
            late("An episode is still being played and will be saved; Ctrl-C again does not wait for it.")
            late = None


def warm_up() -> None:
    """Do in advance what takes a second the first time: discovering players, loading kernels."""
    catalogue()
    check_grid(TEMPLATES["bridge"])


class Server(uvicorn.Server):
    """Uvicorn with the limits of the studio; its streams end with it."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        quiet = {"log_level": "critical", "access_log": False, "server_header": False, "proxy_headers": False}
        bounds = {"backlog": 64, "timeout_keep_alive": 5, "h11_max_incomplete_event_size": 16_384}
        options: dict[str, Any] = {"ws": "none", "loop": "asyncio", "lifespan": "off", **quiet, **bounds}
        super().__init__(uvicorn.Config(studio.app, http=web.Protocol, **options))
        self.config.timeout_graceful_shutdown = GRACE  # type: ignore[assignment]  # used as a time to wait only

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End games, reports and streams first."""
        self._studio.end()
        await super().shutdown(sockets)


def _bind(host: str, port: int) -> socket.socket:
    settings.check(port, PortNumber, "'--port'")
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(limits.CONNECTIONS)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise InvalidInput(f"The port {port} of {host} is taken. Choose another with '--port' (0: any).") from error
        raise InvalidInput(f"The studio cannot be served at {host}, port {port}: {error.strerror or error}.") from error
    return listening
