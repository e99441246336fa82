"""A lane: one run in its own thread, `learn` with a gate after every round.

The gate implements pause, step, speed and stop. A lane that is stopped is saved as by Ctrl-C, and can be resumed.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, SupportsFloat

import gymnasium

from resetfree.core import state as states
from resetfree.core.errors import ResetFreeError, RunError
from resetfree.core.readable import counted, number
from resetfree.game.contract import Round
from resetfree.game.loop import Game
from resetfree.problems.contract import Note, Problem
from resetfree.problems.operators import Answer, Request
from resetfree.problems.operators.channel import accept, as_json, check_reply, sentence
from resetfree.runs.file.ledger import read, read_episodes_of, read_spec_of
from resetfree.runs.learn import Stopped, fulfil
from resetfree.runs.stuck import STUCK, requested_after
from resetfree.show.report.filming import FilmedEnv, filmed, jpeg
from resetfree.show.studio import limits
from resetfree.show.studio.catalogue import MACHINES
from resetfree.show.studio.following import address, stamp_of
from resetfree.show.studio.frames import History, PastEpisode, Picture, RunScene, read_past, scene_of
from resetfree.studies.trial import NamedTrial

WORKS = 0.01  # seconds of learning after which the thread yields to the server and to other lanes
RESTS = 0.0005
LEAD = 256  # episodes that one of two lanes may be ahead at a pace where it cannot be seen
SEEN = 30.0  # episodes per second up to which two lanes play the same episode at the same time
LATELY = 2.0  # seconds over which the rate is measured
HISTORY = ("s1", "lam", "reset", "v_r", "v_c", "v_c_hat", "reward", "steps")  # columns that are shown
REAL_TIME = 1.0  # episodes per second up to which a machine moves as slowly as it really does
KEPT = 60  # pictures of a machine before each reset
ACTIVE = ("starting", "running", "paused", "waiting")


class LaneRequest(NamedTuple):
    """A run to start, or to resume from its file."""

    trial: NamedTrial
    resume: bool = False
    ask: Literal["never", "when-stuck"] | None = None  # None: as the file says


class Gate:
    """Pace and pauses of the lanes of a session; every field may change at any time."""

    def __init__(self, pace: float, paused: bool) -> None:
        self.changed = threading.Condition()
        self.pace, self.paused, self.stopping = pace, paused, False
        self.lanes: list[Live] = []

    def set(self, **changes: Any) -> None:
        """Change fields, and notify the lanes."""
        with self.changed:
            for name, value in changes.items():
                setattr(self, name, value)
            if self.paused:
                for lane in self.lanes:
                    lane.stepping = False
            self._wake()

    def step(self) -> None:
        """One more episode for each lane, then a pause."""
        with self.changed:
            for lane in self.lanes:
                lane.steps += 1
            self.paused = True
            self._wake()

    def _wake(self) -> None:
        """Have every lane look at the gate again; those that were paused say so anew, or play."""
        for lane in self.lanes:
            if lane.state == "paused":
                lane.state = "running"
        self.changed.notify_all()

    def ahead(self, lane: Live) -> bool:
        """Whether another lane that is playing is too far behind this one."""
        lead = 0 if self.paused or 0 < self.pace <= SEEN else LEAD
        return any(other.k + lead < lane.k for other in self._others(lane))

    def late(self, lane: Live) -> bool:
        """Whether another lane has played more: then a pause comes when both have played the same."""
        return any(other.k > lane.k for other in self._others(lane))

    def playing(self, lane: Live) -> bool:
        """Whether another lane is in the middle of an episode: until it ends, it is open which has played more."""
        return any(not other.at_gate and other.request is None for other in self._others(lane))

    def _others(self, lane: Live) -> list[Live]:
        return [other for other in self.lanes if other is not lane and other.state in ("running", "paused")]


class Live:
    """A lane: the thread, and its state as shown."""

    def __init__(self, wanted: LaneRequest, path: Path, gate: Gate, changed: Callable[[], None]) -> None:
        self.trial, self.resumes, self._ask = wanted
        self.path, self._gate, self._notify = path, gate, changed
        self.state, self.error, self.k, self.steps = "starting", "", 0, 0
        self.stuck, self.requested = "", 0  # since when the run is stuck, and where; resets requested then
        self.at_gate = False  # whether it waits between two episodes
        self.stepping = False  # whether it plays this episode to its end though the game is paused
        self.desk = Desk()
        self.made = False  # whether this lane created the file
        self.begun = threading.Event()  # the first round is played, a reset is requested, or it failed
        self.scene: RunScene | None = None
        self.history: History | None = None
        self.picture: Picture | None = None
        self.last: dict[str, Any] | None = None
        self.push, self.view = 0.0, ""  # by hand, a share of the most in [-1, 1]; the newest picture of a machine
        self.pushed = 0  # episodes with a push, of which the run file has a note each
        self._recent: deque[PastEpisode] = deque(maxlen=limits.RECENT)  # also those that are not saved yet
        self._due = self._rest = self._next = self._seen = 0.0
        self._lock = threading.Lock()
        self._marks: list[tuple[float, int]] = []  # when how many rounds were played, for the rate
        self.thread = threading.Thread(target=self._play, name=f"lane {path.stem}", daemon=True)

    @property
    def active(self) -> bool:
        """Whether it is starting, running, paused or waiting."""
        return self.state in ACTIVE

    @property
    def request(self) -> dict[str, Any] | None:
        """The pending reset request."""
        return self.desk.show()

    def frame(self, curves: bool) -> dict[str, Any]:
        """What is shown now."""
        with self._lock:
            request = self.request
            state = "waiting" if request is not None and self.active else self.state
            result: dict[str, Any] = {
                "state": state,
                "error": self.error,
                "stuck": self.stuck,
                "k": self.k,
                "rate": self._rate(),
                "last": self.last,
                "request": request,
                "view": self.view,
                "pictures": "" if self.active else stamp_of(self.path),
            }
            if self.history is not None and self.picture is not None:
                counts = {"asked": self.requested, "pushed": self.pushed}
                result |= {"now": {**self.history.now, **counts}, "map": self.picture.shown}
                if curves:
                    result["curves"] = self.history.curves()
            return result

    def past(self, k: int) -> dict[str, Any] | None:
        """An episode that was played: one of the newest, or from the file; None if it is not saved yet."""
        found = next((one for one in list(self._recent) if one.k == k), None)
        if found is None and self.scene is not None:
            found = read_past(self.path, self.scene, k)
        return None if found is None else found.to_dict()

    def _play(self) -> None:
        trial = self.trial
        try:
            if self.resumes:
                self._open()
            operator = _ReportingDesk(self) if trial.problem.endswith("by-hand-v0") else None
            how = {"progress": self._progress, "operator": operator, "ask": self._ask}
            request = trial.request(path=self.path, resume=self.resumes).changed("around", **how)
            kept, how_filmed = KEPT if trial.problem in MACHINES else None, {"resume": self.resumes, "real_time": False}
            with request.world() as world, filmed(world, kept, self.path, **how_filmed) as camera:
                if camera is not None:
                    world.problem.env = PushedEnv(camera, world.problem, trial.problem, self)
                run = fulfil(request, world)
            self._end("done" if len(run) >= trial.episodes else "stopped")
        except Stopped:
            self._end("stopped")
        except ResetFreeError as error:
            self._end("failed", str(error))
        except BaseException as error:  # an error of a player, even exit(): other lanes are not affected
            self._end("failed", f"The run failed: {type(error).__name__}: {error}")

    def _end(self, state: str, error: str = "") -> None:
        with self._lock:
            self.state, self.error = state, error
        self.begun.set()
        with self._gate.changed:
            self._gate.changed.notify_all()
        self._notify()

    def _open(self) -> None:
        """Read scene and history from the file; of a resumed run, up to its checkpoint."""
        with self._lock:
            if self.history is not None:
                return
            self.made = not self.resumes  # `learn` has called back, so the file exists
            self.scene = scene_of(read_spec_of(self.path), read_episodes_of(self.path))
            self.history, self.picture = History(self.scene), Picture(self.scene)
            if self.resumes:
                contents = read(self.path)
                c, k = contents.columns, contents.k
                for row in zip(*(c[name][:k] for name in HISTORY), strict=True):
                    self.history.add(*row)
                self.k, self.requested = k, len(requested_after(contents.interventions))
                self.pushed = sum(one.pushed > 0 for one in contents.notes)

    def _progress(self, game: Game, this: Round) -> None:
        """After every round: record it, show it if a frame is due, and wait at the gate."""
        if self.history is None or self.picture is None:
            self._open()
            assert self.history is not None
            assert self.picture is not None
            self.state = "running"
        episode = this.episode
        v_r, v_c = this.exact or (math.nan, math.nan)
        reward, steps = float(episode.rewards.sum()), len(episode.actions)
        self.history.add(
            this.s1, this.lam, episode.reset, v_r=v_r, v_c=v_c, v_c_hat=this.plan.v_c, reward=reward, steps=steps
        )
        if len(self.picture.visits):
            self.picture.note(episode.states, episode.reset)
            self._recent.append(PastEpisode(this.k, episode.states.copy(), bool(episode.reset), reward, steps))
        self.k, self.stuck = this.k, game.stuck
        now = time.monotonic()
        if now >= self._due or this.k >= self.trial.episodes:  # the last one stays on the page
            self._due = now + 1.0 / limits.FRAMES
            self._show(game, this)
        if not self.begun.is_set():
            self._show(game, this)
            self.begun.set()
        gate = self._gate
        if gate.stopping or gate.paused or gate.pace or len(gate.lanes) > 1:
            self._wait(game, this)
        elif now >= self._rest:
            time.sleep(RESTS)
            self._rest = time.monotonic() + WORKS

    def see(self, picture: Any, seconds: float) -> None:
        """Show a machine after a step, and wait as long as the step takes it if the pace is slow."""
        gate, now = self._gate, time.monotonic()
        if now >= self._seen:
            self._seen, self.view = now + 1.0 / limits.FRAMES, address(jpeg(picture))
            self._notify()
        with gate.changed:
            while gate.paused and self.begun.is_set() and not (gate.stopping or self.stepping):
                if self.steps:
                    self.steps, self.stepping, self.state = self.steps - 1, True, "running"
                    break
                self.state = "paused"
                gate.changed.wait()
        if 0 < gate.pace <= REAL_TIME and self.begun.is_set() and not gate.stopping:
            time.sleep(seconds)

    def _wait(self, game: Game, this: Round) -> None:
        gate, shown = self._gate, False
        with gate.changed:
            self.at_gate = True
            while not gate.stopping:
                now = time.monotonic()
                rest: float | None = 0.0
                if gate.paused and self.steps == 0 and not gate.late(self):
                    if gate.playing(self):
                        rest = 0.002
                    else:
                        self.state, rest = "paused", None
                elif gate.ahead(self):
                    rest = 0.002
                elif gate.pace and not gate.paused and now < self._next:
                    rest = self._next - now
                if rest == 0.0:
                    break
                if not shown and (rest is None or rest > 0.01):
                    shown = True
                    gate.changed.release()  # a picture may take a while, and other threads need the gate
                    try:
                        self._show(game, this)
                    finally:
                        gate.changed.acquire()
                    continue
                gate.changed.wait(rest)
            if gate.stopping:
                self._show(game, this)
                raise KeyboardInterrupt  # `learn` saves what was played
            self.steps = max(self.steps - 1, 0) if gate.paused else 0
            self.stepping, self.state, self.at_gate = gate.paused, "running", False
            if gate.pace:
                self._next = max(self._next, time.monotonic() - 0.1) + 1.0 / gate.pace
        if time.monotonic() >= self._rest:
            time.sleep(RESTS)
            self._rest = time.monotonic() + WORKS

    def _show(self, game: Game, this: Round) -> None:
        """Update the picture of the current moment."""
        assert self.history is not None
        assert self.picture is not None
        episode = this.episode
        with self._lock:
            self.history.pairs = self.picture.learn(states.dump(game.primal, "primal."), this)
            path = episode.states.tolist() if len(self.picture.visits) else []
            self.last = {
                "k": this.k,
                "path": path[: limits.HORIZON + 1],
                "reset": bool(episode.reset),
                "reward": float(episode.rewards.sum()),
            }
            now = time.monotonic()
            self._marks = [
                *(mark for mark in self._marks[:-1] if mark[0] > now - LATELY),
                *self._marks[-1:],
                (now, self.k),
            ]
        self._notify()

    def _rate(self) -> float:
        """Rounds per second over the last `LATELY` seconds."""
        if len(self._marks) < 2 or self.state != "running":
            return 0.0
        (t0, k0), (t1, k1) = self._marks[0], self._marks[-1]
        return round((k1 - k0) / max(t1 - t0, 1e-3), 1)


class PushedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A filmed machine that is watched at every step, and pushed by hand: a disturbance that no sensor reports.

    Each episode with a push leaves a note in the run file, since what happened in it is not the machine's alone.
    """

    def __init__(self, camera: FilmedEnv, problem: Problem, name: str, lane: Live) -> None:
        super().__init__(camera)
        self._camera, self._lane, self._seconds = camera, lane, 1.0 / camera.metadata["render_fps"]
        self._state, self._entry, self._most = MACHINES[name]
        self._noted = problem.noted
        self._pushes: list[float] = []  # of the episode that the newest note is about

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Push it, take the step, and look."""
        push = self._lane.push * self._most
        if push:
            getattr(self.unwrapped, self._state)[self._entry] += push
            self._note(push)
        found = self.env.step(action)
        self._lane.see(self._camera.newest, self._seconds)
        return found

    def _note(self, push: float) -> None:
        """Note the push; the notes of an episode are taken when it is over."""
        last = next((i for i, one in enumerate(self._noted) if one.pushed), None)
        if last is None:
            self._lane.pushed += 1
            self._pushes = []
        else:
            del self._noted[last]
        self._pushes.append(push)
        n, ends = len(self._pushes), sorted({min(self._pushes), max(self._pushes)})
        words = (
            f"pushed by hand in {counted(n, 'step')}, which changed entry {self._entry} of the machine's state by "
            f"{' to '.join(map(number, ends))} before each: what followed is not the machine's alone"
        )
        self._noted.append(Note(0, words, pushed=n))


class _ReportingDesk:
    """The desk of a lane, which also reports to the page that a request is pending."""

    def __init__(self, lane: Live) -> None:
        self._lane = lane

    def perform(self, request: Any) -> Any:
        """Hand the request to the desk, and wait for its answer."""
        lane = self._lane
        lane.requested += request.why == STUCK
        if lane.history is None and lane.path.exists():
            lane._open()
        lane.begun.set()
        lane._notify()
        try:
            return lane.desk.perform(request)
        finally:
            lane.state = "running"
            lane._notify()


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
