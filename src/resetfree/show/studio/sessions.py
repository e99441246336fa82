"""Games of this process: one or two lanes on the same problem with the same random numbers, each in a run file.

All watchers of a game share its frames: each is made and encoded once, and a slow watcher gets fewer of them.
"""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from resetfree.core.arguments import whole
from resetfree.core.errors import InvalidInput, RunError
from resetfree.core.settings import check_names, record
from resetfree.players import BASES, discover
from resetfree.players import settings as defaults_of
from resetfree.problems.registry import make
from resetfree.runs.file.ledger import read_episodes_of, read_spec_of
from resetfree.show.studio import limits
from resetfree.show.studio.catalogue import (
    BY_HAND,
    DRAWN,
    MACHINES,
    GameRequest,
    LanePlayers,
    options_of,
    player_settings,
    problem_options,
)
from resetfree.show.studio.files import SIDES, RunFolder
from resetfree.show.studio.following import Following
from resetfree.show.studio.frames import RunScene
from resetfree.show.studio.lanes import Gate, LaneRequest, Live
from resetfree.show.studio.web import background
from resetfree.studies.trial import NamedPlayers, Trial, stored_settings

FIRST_ROUND = 120.0  # seconds to wait for it: kernels may have to be compiled


class GameSession:
    """Lanes behind one gate; a page watches it."""

    def __init__(self, name: str, wanted: list[LaneRequest], folder: RunFolder, pace: float, paused: bool) -> None:
        self.name, self.gate = name, Gate(pace, paused=True)
        self._paused = paused
        self.version = 0
        paths = [folder.free(f"{name}-{s}") for s in SIDES] if len(wanted) > 1 else [folder.free(name)]
        self.lanes = [Live(one, path, self.gate, self._changed) for one, path in zip(wanted, paths, strict=True)]
        self.gate.lanes = self.lanes

    def begin(self) -> None:
        """Start every lane. If one cannot play its first round, all are stopped and InvalidInput says why."""
        for lane in self.lanes:
            lane.thread.start()
        for lane in self.lanes:
            lane.begun.wait(FIRST_ROUND)
        failed = next((lane for lane in self.lanes if lane.state == "failed"), None)
        if failed is None:
            self.gate.set(paused=self._paused)
            return
        self.stop()
        for lane in self.lanes:
            if lane.made and not lane.active:  # a file that another process created meanwhile stays
                lane.path.unlink(missing_ok=True)
        raise InvalidInput(failed.error)

    @property
    def active(self) -> bool:
        """Whether some lane is still running, paused or waiting."""
        return any(lane.active for lane in self.lanes)

    def end(self) -> None:
        """Signal every lane to end, saved, after its current episode."""
        self.gate.set(stopping=True)
        for lane in self.lanes:
            lane.desk.close()

    def stop(self) -> None:
        """End every lane and wait until it is saved."""
        self.end()
        for lane in self.lanes:
            if lane.thread.is_alive():
                lane.thread.join(30.0)

    def scene(self) -> dict[str, Any]:
        """What does not change."""
        lanes = [{} if lane.scene is None else lane.scene.to_dict() for lane in self.lanes]
        return {"name": self.name, "live": True, "lanes": lanes, "files": [lane.path.stem for lane in self.lanes]}

    def frame(self, curves: bool) -> dict[str, Any]:
        """What is shown now."""
        gate, version = self.gate, self.version  # read first: later changes have a later version
        lanes = [lane.frame(curves) for lane in self.lanes]
        return {"version": version, "live": True, "paused": gate.paused, "pace": gate.pace, "lanes": lanes}

    def answer(self, lane: int, data: dict[str, Any]) -> None:
        """Answer a lane's reset request."""
        self.lanes[lane].desk.reply(data)

    def _changed(self) -> None:
        self.version += 1


class Sessions:
    """All sessions, by name."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._all: dict[str, GameSession] = {}
        self._lock = threading.Lock()
        self._ending = False

    def get(self, name: str) -> GameSession | None:
        """A session that is in memory."""
        with self._lock:
            return self._all.get(name)

    def active(self) -> dict[str, bool]:
        """Names of the sessions in memory, and whether each is active."""
        with self._lock:
            return {name: session.active for name, session in self._all.items()}

    def start(self, request: Any) -> GameSession:
        """Start the game that a request of the page describes."""
        wanted, pace, paused = parse_request(request)
        players = " vs ".join(one.trial.players.primal for one in wanted)
        with self.folder.reserved(f"{wanted[0].trial.problem}-{players}") as name:
            return self._begin(name, wanted, pace, paused)

    def resume(self, name: str, pace: float, paused: bool) -> GameSession:
        """Resume a game whose files are in the folder."""
        return self._begin(
            name,
            [resumed({**read_spec_of(path), "episodes": read_episodes_of(path)}) for path in self.folder.lanes(name)],
            pace,
            paused,
        )

    def end(self) -> list[GameSession]:
        """End every session after its current episode and start no more; returns those that are still active."""
        with self._lock:
            self._ending = True
            sessions = [one for one in self._all.values() if one.active]
        for session in sessions:
            session.end()
        return sessions

    def stop_all(self) -> None:
        """End and save everything."""
        for session in self.end():
            session.stop()

    def _begin(self, name: str, wanted: list[LaneRequest], pace: float, paused: bool) -> GameSession:
        session = GameSession(name, wanted, self.folder, pace, paused)
        with self._lock:
            before = self._all.get(name)
            if self._ending:
                raise RunError("The studio is shutting down: no run can be started.")
            if before is not None and before.active:
                raise RunError(f"The run '{name}' is already running.")
            if sum(one.active for one in self._all.values()) >= limits.RUNNING:
                raise RunError(f"At most {limits.RUNNING} games run at a time. Stop one first.")
            ended = [old for old, one in self._all.items() if not one.active]
            for old in ended[: max(len(self._all) - limits.KEPT + 1, 0)]:
                del self._all[old]
            self._all[name] = session
        try:
            session.begin()
        except BaseException:
            with self._lock:
                if self._all.get(name) is session:
                    del self._all[name]
                    if before is not None:
                        self._all[name] = before
            raise
        return session


def parse_request(request: Any) -> tuple[list[LaneRequest], float, bool]:
    """A request of the page, checked: its one or two lanes, the pace, and whether to start paused."""
    given = record(GameRequest, request, "request")
    problem, options = _problem(given)
    bound = None if given.bound is None else float(given.bound)
    wanted = []
    for lane in given.lanes:
        pair = record(LanePlayers, lane, "lane")
        check_names(pair.settings, BASES, "player with settings")
        chosen: dict[str, dict[str, Any]] = {
            role: player_settings(role, getattr(pair, role), pair.settings.get(role, {})) for role in BASES
        }
        players = NamedPlayers(pair.primal, pair.dual, given.feedback, bound, chosen)
        wanted.append(LaneRequest(Trial(problem, options, players, given.episodes, given.seed), ask=given.ask))
    return wanted, pace_of(given.pace), given.paused


def pace_of(pace: float) -> float:
    """Episodes per second; 0 for no limit."""
    return float(pace) if pace == 0 else max(float(pace), 0.05)


def _problem(given: GameRequest) -> tuple[str, dict[str, Any]]:
    if given.grid is not None:
        options = options_of(given.grid)
        name = BY_HAND if given.by_hand else DRAWN
    else:
        if given.by_hand:
            raise InvalidInput("Resets by hand need a drawn grid. Got a registered problem instead.")
        name = given.problem
        options = problem_options(name, given.options)
    if name in MACHINES:
        return name, options
    made = make(name, **options)
    states = made.n_states or 1
    if states > limits.STATES or states * made.n_actions * made.horizon > limits.TABLE:
        raise InvalidInput(
            f"A problem must have at most {limits.STATES:,} states here, and {limits.TABLE:,} entries in a table. "
            f"Got {states:,} states instead: use the command line for it."
        )
    return name, options


def resumed(spec: Mapping[str, Any]) -> LaneRequest:
    """What resumes the run of this spec. A file is untrusted data: all of it is checked again."""
    options = problem_options(spec["problem"], spec["problem_options"])
    settings: dict[str, dict[str, Any]] = {}
    for role in BASES:
        name = spec[role]["name"]
        known = discover(role).get(name)
        defaults = {} if known is None else defaults_of(known)
        settings[role] = player_settings(role, name, stored_settings(spec, role, defaults, bound=True))
    if len(json.dumps({"problem": options, **settings})) > limits.BODY:
        raise RunError(
            f"The settings of the run file take more than {limits.BODY:,} bytes: use the command line for it."
        )
    players = NamedPlayers(spec["primal"]["name"], spec["dual"]["name"], spec["feedback"], None, settings)
    episodes = whole(spec["episodes"], "number of episodes", 1, limits.EPISODES)
    return LaneRequest(Trial(spec["problem"], options, players, episodes, spec["seed"]), resume=True)


View: TypeAlias = GameSession | Following
CURVES = 0.4  # seconds between two frames that carry curves
HEARTBEAT = 5.0  # seconds after which an idle stream sends a sign of life


class Sent(NamedTuple):
    """A message to all watchers, and its sequence number."""

    number: int
    data: bytes


class FrameChannel:
    """One game and its watchers. Used in the event loop only; views are read in a thread.

    Nothing is queued: a watcher takes the newest frame, and before that the newest one with curves, if it is another.
    """

    def __init__(self, view: View, over: Callable[[], bool]) -> None:
        self.view, self._over = view, over
        self._watchers, self._number = 0, 0
        self._newest: dict[str, Sent] = {}  # the newest frame with curves, the newest one, the newest sign of life
        self._changed = asyncio.Event()
        self.ended = False
        self._task: asyncio.Task[None] | None = None
        self._stage: list[RunScene | None] = []
        self._scene = b""

    def join(self) -> None:
        """Add a watcher; frames are made while there is one."""
        self._watchers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._make())

    def leave(self) -> bool:
        """Remove a watcher; returns whether it was the last."""
        self._watchers -= 1
        if self._watchers == 0:
            self.end()
        return self._watchers == 0

    def end(self) -> None:
        """End every stream."""
        self.ended = True
        self._changed.set()
        if self._task is not None:
            self._task.cancel()

    async def stream(self) -> AsyncIterator[bytes]:
        """The messages to one watcher, as fast as it reads them."""
        yield await background(self.scene)
        seen = 0
        while not self.ended:
            for one in self.since(seen):
                seen = one.number
                yield one.data
            if not self.since(seen) and not self.ended:
                await self._changed.wait()

    def since(self, seen: int) -> list[Sent]:
        """Messages after number `seen`: at most the newest of each kind."""
        fresh = {one.number: one for one in self._newest.values() if one.number > seen}
        return [fresh[number] for number in sorted(fresh)]

    def scene(self) -> bytes:
        """The constant part of the view, encoded; made again only if it has changed."""
        stage = [lane.scene for lane in self.view.lanes]
        if stage != self._stage or not self._scene:
            self._scene, self._stage = _event("scene", self.view.scene()), stage
        return self._scene

    async def _make(self) -> None:
        """Publish a frame whenever there is something new."""
        view, seen, drawn, sent, owed = self.view, -1, 0.0, time.monotonic(), True
        try:
            while not self._over():
                if isinstance(view, Following):
                    await background(view.poll)
                now = time.monotonic()
                due = now - drawn >= CURVES
                if view.version != seen or (owed and due):
                    seen, frame = await background(self._frame, due)
                    sent, owed, drawn = now, not due, now if due else drawn
                    self._publish(frame, "newest", *(("curves",) if due else ()))
                elif now - sent >= HEARTBEAT:
                    sent = now
                    self._publish(b": still here\n\n", "life")
                await asyncio.sleep(1.0 / limits.FRAMES)
        finally:
            self.ended = True
            self._changed.set()

    def _frame(self, curves: bool) -> tuple[int, bytes]:
        made = self.view.frame(curves)
        return made["version"], _event("frame", made)

    def _publish(self, data: bytes, *kinds: str) -> None:
        self._number += 1
        self._newest.update(dict.fromkeys(kinds, Sent(self._number, data)))
        self._changed.set()
        self._changed = asyncio.Event()


def _event(kind: str, data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data, allow_nan=False, separators=(',', ':'))}\n\n".encode()
