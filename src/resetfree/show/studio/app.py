"""What can be asked of the studio: the page, its data as JSON, and a stream of frames for whoever watches."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from resetfree.core.arguments import whole
from resetfree.core.errors import InvalidInput, ResetFreeError, RunError
from resetfree.core.settings import record
from resetfree.runs.learn import load
from resetfree.runs.ledger import read_spec_of
from resetfree.show.report import style
from resetfree.show.report.html.page import PALETTE
from resetfree.show.studio import drawing, limits
from resetfree.show.studio.aside import aside
from resetfree.show.studio.catalogue import catalogue
from resetfree.show.studio.children import ChildFailed
from resetfree.show.studio.files import NAME, Folder, rounds_in
from resetfree.show.studio.following import Followed, Following
from resetfree.show.studio.page_requests import Control, Reply
from resetfree.show.studio.scenes import scene_of
from resetfree.show.studio.security import Guard, TooLarge, body_of, refuse
from resetfree.show.studio.sessions import Sessions, pace_of
from resetfree.show.studio.watching import Channel, View

KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
CELLS = {  # on a light and on a dark page
    "pit": (style.PIT, "#e0435a"), "risk": (style.UNSAFE, "#a8512f"), "wall": (style.WALL, "#05070a"),
    "grid": (style.EDGE, "#2b323a"), "floor": ("#ffffff", "#1a1f25"), "keep": ("#c9e6cf", "#24503f"),
}  # fmt: skip


class Studio:
    """The routes and what they share: the folder, the sessions, and who watches."""

    def __init__(self, folder: Path, token: str = "") -> None:
        self.folder = Folder(folder)
        self.sessions = Sessions(self.folder)
        self.watching = 0
        self._places: set[Path] = set()  # temporary folders with what is being downloaded
        self._channels: dict[View, Channel] = {}  # of what is watched
        self._opening = threading.Lock()
        self._certifying, self._claimed = asyncio.Lock(), dict[str, asyncio.Task[dict[str, Any]]]()
        self._followed: WeakValueDictionary[str, Following] = WeakValueDictionary()  # as long as somebody watches
        self._certified: dict[str, tuple[int, float, dict[str, Any]]] = {}
        self._assets = {
            one.name: (one.read_bytes(), KINDS[Path(one.name).suffix])
            for one in files("resetfree.show.studio").joinpath("static").iterdir()
            if Path(one.name).suffix in KINDS
        }
        self._assets["theme.css"] = (theme().encode(), KINDS[".css"])
        routes = [
            Route("/", self._page), Route("/static/{name}", self._asset),
            Route("/api/catalogue", _json(catalogue)), Route("/api/runs", _json(self._runs)),
            Route("/api/check", _posted(drawing.check), methods=["POST"]),
            Route("/api/start", _posted(self._start), methods=["POST"]),
            Route("/api/control", _posted(self._control), methods=["POST"]),
            Route("/api/answer", _posted(self._answer), methods=["POST"]),
            Route("/api/watch", self._watch), Route("/api/certificates", self._certificates),
            Route("/api/file", self._file), Route("/api/report", self._report),
        ]  # fmt: skip
        self._routes = Starlette(routes=routes, exception_handlers={404: _unknown, 405: _unknown, 500: _failed})
        self.app = Guard(self._routes, token)

    def end(self) -> None:
        """In the event loop: let streams, reports and games end; nobody is waited for, and nothing begins any more."""
        for channel in self._channels.values():
            channel.end()
        self.folder.reporters.close()
        self.sessions.end()

    def close(self) -> None:
        """After the event loop: wait until every game is saved, and leave nothing behind."""
        self.folder.reporters.close()
        while self.sessions.end():
            self.sessions.stop_all()
        for place in list(self._places):
            self._remove(place)

    async def _page(self, request: Request) -> Response:
        content, kind = self._assets["index.html"]
        return Response(content, media_type=kind)

    async def _asset(self, request: Request) -> Response:
        found = self._assets.get(request.path_params["name"])
        return refuse(404, "There is no such file.") if found is None else Response(found[0], media_type=found[1])

    def _runs(self) -> dict[str, Any]:
        active = self.sessions.active()
        rows = [{**row, "here": active.get(row["name"])} for row in self.folder.listing()]
        return {"folder": self.folder.path.name, "runs": rows}

    def _start(self, asked: Any) -> dict[str, Any]:
        return {"name": self.sessions.start(asked).name}

    def _control(self, asked: Any) -> dict[str, Any]:
        told = record(Control, asked, "request")
        name, action = told.name, told.action
        if action == "resume":
            return {"name": self.sessions.resume(name, pace_of(told.pace), told.paused).name}
        session = self.sessions.get(name)
        if session is None:
            raise RunError(f"The run '{name[:60]}' does not go on here.")
        if action == "speed":
            session.gate.set(pace=pace_of(told.pace))
        elif action == "step":
            session.gate.step()
        elif action == "stop":
            session.stop()
        else:
            session.gate.set(paused=action == "pause")
        session.version += 1
        return {"name": name}

    def _answer(self, asked: Any) -> dict[str, Any]:
        told = record(Reply, asked, "request")
        view = self._view(told.name)
        whole(told.lane, "'lane' of the request", 0, len(view.lanes) - 1)
        reply = {"id": told.id, "who": told.who or "operator at the studio", "note": told.note}
        view.answer(told.lane, reply if told.stop is None else {**reply, "stop": told.stop})
        return {"ok": True}

    def _view(self, name: Any) -> View:
        """What goes on here, or the files."""
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            self.folder.free(name)
        found = self.sessions.get(name)
        if found is not None and (found.active or not any(Followed(lane.path).being_written for lane in found.lanes)):
            return found
        with self._opening:
            return self._followed.get(name) or self._followed.setdefault(name, Following(name, self.folder))

    async def _watch(self, request: Request) -> Response:
        if self.watching >= limits.WATCHING:
            return refuse(503, f"At most {limits.WATCHING} pages watch at a time. Close one.")
        self.watching += 1  # from now on, so that many who ask at once are counted
        try:
            view = await aside(self._view, request.query_params.get("name"))
            channel = self._channels.get(view)
            if channel is None or channel.ended:
                channel = self._channels[view] = Channel(view, lambda: self._replaced(view))
            channel.join()
            return _Stream(channel.stream(), lambda: self._left(channel))
        except BaseException as error:
            self.watching -= 1
            if isinstance(error, ResetFreeError):
                return refuse(400, str(error))
            raise

    def _left(self, channel: Channel) -> None:
        self.watching -= 1
        if channel.leave() and self._channels.get(channel.view) is channel:
            del self._channels[channel.view]

    def _replaced(self, view: View) -> bool:
        """Whether what was followed from its file goes on here by now."""
        current = self.sessions.get(view.name)
        return current is not None and current is not view and current.active

    async def _certificates(self, request: Request) -> Response:
        """Every claim that can be checked on what is saved of a run so far; computed once, whoever asks meanwhile."""
        name = request.query_params.get("name", "")
        task = self._claimed.get(name)
        if task is None:
            task = self._claimed[name] = asyncio.create_task(self._certify(name))
            task.add_done_callback(lambda done: self._claimed.pop(name))
        return await _answered(asyncio.shield(task))

    async def _certify(self, name: str) -> dict[str, Any]:
        began = time.monotonic()
        async with self._certifying:  # one at a time, and nobody waits in a thread that others need
            lanes = await aside(lambda: [self._claims(path) for path in self.folder.lanes(name)])
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

    async def _file(self, request: Request) -> Response:
        name = request.query_params.get("name", "")
        return await self._download(self.folder.copy, name, f"{name}.rfrun")

    async def _report(self, request: Request) -> Response:
        name = request.query_params.get("name", "")
        return await self._download(self.folder.report, name, f"{name}.html")

    async def _download(self, make: Callable[[str, Path], Path], name: str, shown: str) -> Response:
        """What is made in a folder of its own, from the disk to whoever asked; never as a page of ours."""
        place = Path(tempfile.mkdtemp(prefix="resetfree-"))
        self._places.add(place)
        try:
            made = await aside(make, name, place)
        except BaseException as error:
            self._remove(place)
            if isinstance(error, ResetFreeError):
                return refuse(error.status if isinstance(error, ChildFailed) else 400, str(error))
            raise
        gone = BackgroundTask(self._remove, place)
        return FileResponse(made, media_type="application/octet-stream", filename=shown, background=gone)

    def _remove(self, place: Path) -> None:
        shutil.rmtree(place, ignore_errors=True)
        self._places.discard(place)


def theme() -> str:
    """The report's colours, light and dark, and those of the cells of a map."""
    light, dark = (";".join(f"--{name}:{pair[i]}" for name, pair in {**PALETTE, **CELLS}.items()) for i in (0, 1))
    return (
        f':root{{{light}}}\n[data-theme="dark"]{{{dark}}}\n'
        f'@media (prefers-color-scheme:dark){{:root:not([data-theme="light"]){{{dark}}}}}\n'
    )


class _Stream(StreamingResponse):
    """Server-sent events; whoever counts them learns when it ends, however it does."""

    def __init__(self, events: AsyncIterator[bytes], left: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._left = left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Until either side has enough."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._left()


def _json(make: Callable[[], dict[str, Any]]) -> Any:
    async def answer(request: Request) -> Response:
        return await _answered(aside(make))

    return answer


def _posted(make: Callable[[Any], dict[str, Any]]) -> Any:
    async def answer(request: Request) -> Response:
        try:
            asked = await body_of(request)
        except TooLarge as error:
            return refuse(413, str(error))
        except InvalidInput as error:
            return refuse(400, str(error))
        return await _answered(aside(make, asked))

    return answer


async def _answered(made: Awaitable[dict[str, Any]]) -> Response:
    """What is refused is a sentence."""
    try:
        return JSONResponse(await made)
    except ResetFreeError as error:
        return JSONResponse({"error": " ".join(str(error).split())}, 400)
    except (RecursionError, MemoryError, OverflowError):
        return JSONResponse({"error": "The request asks for more than there can be."}, 400)


async def _unknown(request: Request, error: Exception) -> Response:
    return refuse(404, "There is nothing here.")


async def _failed(request: Request, error: Exception) -> Response:
    return refuse(500, "The studio made a mistake with this request; what else goes on is not touched by it.")
