"""What can be asked of the studio: the page, its data as JSON, and a stream of frames for whoever watches."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from resetfree.errors import InvalidInput, ResetFreeError, RunError
from resetfree.report import style
from resetfree.report.html.page import PALETTE
from resetfree.runs.learning import load
from resetfree.runs.ledger import read_spec_of
from resetfree.studio import drawing, inputs, limits
from resetfree.studio.catalogue import catalogue
from resetfree.studio.files import NAME, Folder, rounds_in
from resetfree.studio.following import Followed, Following
from resetfree.studio.scenes import scene_of
from resetfree.studio.security import Guard, TooLarge, body_of, refuse
from resetfree.studio.sessions import Session, Sessions, pace_of

View: TypeAlias = Session | Following
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
CELLS = {  # on a light and on a dark page
    "pit": (style.PIT, "#e0435a"), "risk": (style.UNSAFE, "#a8512f"), "wall": (style.WALL, "#05070a"),
    "grid": (style.EDGE, "#2b323a"), "floor": ("#ffffff", "#1a1f25"), "keep": ("#c9e6cf", "#24503f"),
}  # fmt: skip
CURVES = 0.4  # seconds between two frames that carry curves
HEARTBEAT = 5.0  # seconds after which a stream says that it is still there


class Studio:
    """The routes and what they share: the folder, the sessions, and who watches."""

    def __init__(self, folder: Path, token: str = "") -> None:
        self.folder = Folder(folder)
        self.sessions = Sessions(self.folder)
        self.watching = 0
        self.closing = False
        self._certifying, self._opening = threading.Lock(), threading.Lock()
        self._followed: WeakValueDictionary[str, Following] = WeakValueDictionary()  # as long as somebody watches
        self._certified: dict[str, tuple[int, float, dict[str, Any]]] = {}
        self._assets = {
            one.name: (one.read_bytes(), KINDS[Path(one.name).suffix])
            for one in files("resetfree.studio").joinpath("static").iterdir()
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
            Route("/api/watch", self._watch), Route("/api/certificates", _named(self._certificates)),
            Route("/api/file", self._file), Route("/api/report", self._report),
        ]  # fmt: skip
        self._routes = Starlette(routes=routes, exception_handlers={404: _unknown, 405: _unknown, 500: _failed})
        self.app = Guard(self._routes, token)

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
        told = inputs.mapping(asked, "request", ("name", "action", "pace", "paused"))
        action = inputs.one_of(told.get("action"), "action", ("pause", "go", "step", "speed", "stop", "resume"))
        name = inputs.text(told.get("name"), "name")
        if action == "resume":
            paused = inputs.truth(told.get("paused", False), "'paused'")
            return {"name": self.sessions.resume(name, pace_of(told.get("pace", 0)), paused).name}
        session = self.sessions.get(name)
        if session is None:
            raise RunError(f"The run '{name[:60]}' does not go on here.")
        if action == "speed":
            session.gate.set(pace=pace_of(told.get("pace")))
        elif action == "step":
            session.gate.step()
        elif action == "stop":
            session.stop()
        else:
            session.gate.set(paused=action == "pause")
        session.version += 1
        return {"name": name}

    def _answer(self, asked: Any) -> dict[str, Any]:
        told = inputs.mapping(asked, "request", ("name", "lane", "id", "who", "note", "stop"))
        view = self._view(told.get("name"))
        lane = inputs.whole(told.get("lane", 0), "lane", 0, len(view.lanes) - 1)
        reply: dict[str, Any] = {"id": inputs.text(told.get("id"), "request's id")}
        reply["who"] = inputs.text(told.get("who", ""), "name of the operator") or "operator at the studio"
        reply["note"] = inputs.text(told.get("note", ""), "note", 2000)
        if "stop" in told:
            reply["stop"] = inputs.truth(told["stop"], "'stop'")
        view.answer(lane, reply)
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
            view = await run_in_threadpool(self._view, request.query_params.get("name"))
            return _Stream(self._frames(view), self._left)
        except BaseException as error:
            self._left()
            if isinstance(error, ResetFreeError):
                return refuse(400, str(error))
            raise

    def _left(self) -> None:
        self.watching -= 1

    async def _frames(self, view: View) -> AsyncIterator[bytes]:
        yield _event("scene", view.scene())
        seen, drawn, said, owed = -1, 0.0, time.monotonic(), True
        while not self.closing:
            if isinstance(view, Following):
                await run_in_threadpool(view.poll)
            current = self.sessions.get(view.name)
            if current is not None and current is not view and current.active:  # it goes on here by now
                return
            now = time.monotonic()
            due = now - drawn >= CURVES
            if view.version != seen or (owed and due):
                seen, said = view.version, now
                yield _event("frame", view.frame(curves=due))
                owed = not due
                drawn = now if due else drawn
            elif now - said >= HEARTBEAT:
                said = now
                yield b": still here\n\n"
            await asyncio.sleep(1.0 / limits.FRAMES)

    def _certificates(self, name: str) -> dict[str, Any]:
        """Every claim that can be checked on what is saved of a run so far; one at a time, and not twice."""
        began = time.monotonic()
        with self._certifying:
            lanes = [self._claims(path) for path in self.folder.lanes(name)]
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
        return await _download(self.folder.copy, name, f"{name}.rfrun")

    async def _report(self, request: Request) -> Response:
        name = request.query_params.get("name", "")
        return await _download(self.folder.report, name, f"{name}.html")


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


async def _download(make: Callable[[str, Path], Path], name: str, shown: str) -> Response:
    """What is made in a folder of its own, from the disk to whoever asked; never as a page of ours."""
    place = tempfile.mkdtemp(prefix="resetfree-")
    gone = BackgroundTask(shutil.rmtree, place, ignore_errors=True)
    try:
        made = await run_in_threadpool(make, name, Path(place))
    except BaseException as error:
        await gone()
        if isinstance(error, ResetFreeError):
            return refuse(400, str(error))
        raise
    return FileResponse(made, media_type="application/octet-stream", filename=shown, background=gone)


def _json(make: Callable[[], dict[str, Any]]) -> Any:
    async def answer(request: Request) -> Response:
        return await _answered(make)

    return answer


def _named(make: Callable[[str], dict[str, Any]]) -> Any:
    async def answer(request: Request) -> Response:
        return await _answered(lambda: make(request.query_params.get("name", "")))

    return answer


def _posted(make: Callable[[Any], dict[str, Any]]) -> Any:
    async def answer(request: Request) -> Response:
        try:
            asked = await body_of(request)
        except TooLarge as error:
            return refuse(413, str(error))
        except InvalidInput as error:
            return refuse(400, str(error))
        return await _answered(lambda: make(asked))

    return answer


async def _answered(make: Callable[[], dict[str, Any]]) -> Response:
    """In a thread, so that nobody else waits; what is refused is a sentence."""
    try:
        return JSONResponse(await run_in_threadpool(make))
    except ResetFreeError as error:
        return JSONResponse({"error": " ".join(str(error).split())}, 400)
    except (RecursionError, MemoryError, OverflowError):
        return JSONResponse({"error": "The request asks for more than there can be."}, 400)


async def _unknown(request: Request, error: Exception) -> Response:
    return refuse(404, "There is nothing here.")


async def _failed(request: Request, error: Exception) -> Response:
    return refuse(500, "The studio made a mistake with this request; what else goes on is not touched by it.")


def _event(kind: str, data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data, allow_nan=False, separators=(',', ':'))}\n\n".encode()
