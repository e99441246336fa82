"""One run that goes on in a thread of its own: `learn`, held back by a gate after every round.

The gate is what pause, step, speed and stop mean. A lane that is stopped is saved as by Ctrl-C, and can go on later.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resetfree.core import state as states
from resetfree.core.errors import ResetFreeError
from resetfree.game.contract import Round
from resetfree.game.loop import Game
from resetfree.runs.learn import Stopped, learn
from resetfree.runs.ledger import read, read_spec_of
from resetfree.show.studio import limits
from resetfree.show.studio.frames import History, Picture
from resetfree.show.studio.operators import Desk
from resetfree.show.studio.scenes import Scene, scene_of

WORKS = 0.01  # seconds of learning after which others (the server, other lanes) get their turn
RESTS = 0.0005
LEAD = 256  # episodes that one of two lanes may be ahead where nobody could see it
SEEN = 30.0  # episodes per second up to which two lanes play the same episode at the same time
LATELY = 2.0  # seconds over which the rate is measured
ACTIVE = ("starting", "running", "paused", "waiting")


@dataclass(frozen=True)
class Wanted:
    """What a lane is asked to play, as `learn` takes it."""

    problem: str
    primal: str
    dual: str
    episodes: int
    seed: int
    feedback: str
    B: float | None
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    resume: bool = False


class Gate:
    """What holds the lanes of a session back; all of it may change at any time."""

    def __init__(self, pace: float, paused: bool) -> None:
        self.changed = threading.Condition()
        self.pace, self.paused, self.stopping = pace, paused, False
        self.lanes: list[Live] = []

    def set(self, **changes: Any) -> None:
        """Change something, and let the lanes look at it."""
        with self.changed:
            for name, value in changes.items():
                setattr(self, name, value)
            self.changed.notify_all()

    def step(self) -> None:
        """One more episode for each lane, then a pause."""
        with self.changed:
            for lane in self.lanes:
                lane.steps += 1
            self.paused = True
            self.changed.notify_all()

    def ahead(self, lane: Live) -> bool:
        """Whether another lane that is playing is too far behind this one."""
        lead = 0 if self.paused or 0 < self.pace <= SEEN else LEAD
        return any(other.k + lead < lane.k for other in self._others(lane))

    def late(self, lane: Live) -> bool:
        """Whether another lane has played more: then a pause comes when both have played the same."""
        return any(other.k > lane.k for other in self._others(lane))

    def _others(self, lane: Live) -> list[Live]:
        return [other for other in self.lanes if other is not lane and other.state in ("running", "paused")]


class Live:
    """A lane: the thread, and what can be seen of it."""

    def __init__(self, wanted: Wanted, path: Path, gate: Gate, changed: Callable[[], None]) -> None:
        self.wanted, self.path, self._gate, self._tell = wanted, path, gate, changed
        self.state, self.error, self.k, self.steps = "starting", "", 0, 0
        self.desk = Desk()
        self.made = False  # whether the file was made here
        self.begun = threading.Event()  # the first round is played, or a reset is asked for, or it failed
        self.scene: Scene | None = None
        self.history: History | None = None
        self.picture: Picture | None = None
        self.last: dict[str, Any] | None = None
        self._due = self._rest = self._next = 0.0
        self._lock = threading.Lock()
        self._marks: list[tuple[float, int]] = []  # when how many rounds were played, for the rate
        self.thread = threading.Thread(target=self._play, name=f"lane {path.stem}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self.thread.start()

    @property
    def active(self) -> bool:
        """Whether it still goes on, or would if nothing held it back."""
        return self.state in ACTIVE

    @property
    def request(self) -> dict[str, Any] | None:
        """The reset that is asked for."""
        return self.desk.show()

    def frame(self, curves: bool) -> dict[str, Any]:
        """What is shown now."""
        with self._lock:
            asked = self.request
            state = "waiting" if asked is not None and self.active else self.state
            result: dict[str, Any] = {
                "state": state, "error": self.error, "k": self.k, "rate": self._rate(), "last": self.last,
                "request": asked,
            }  # fmt: skip
            if self.history is not None and self.picture is not None:
                result |= {"now": self.history.now, "map": self.picture.shown()}
                if curves:
                    result["curves"] = self.history.curves()
            return result

    def _play(self) -> None:
        wanted = self.wanted
        by_hand = wanted.problem.endswith("by-hand-v0")
        try:
            if wanted.resume:
                self._open()
            run = learn(
                wanted.problem, wanted.primal, wanted.dual, episodes=wanted.episodes, seed=wanted.seed,
                feedback=wanted.feedback, path=self.path, resume=wanted.resume, B=wanted.B, settings=wanted.settings,
                progress=self._progress, operator=_Watched(self) if by_hand else None,
            )  # fmt: skip
            self._end("done" if len(run) >= wanted.episodes else "stopped")
        except Stopped:
            self._end("stopped")
        except ResetFreeError as error:
            self._end("failed", str(error))
        except BaseException as error:  # a player's own mistake, if it be to call exit: the others go on
            self._end("failed", f"The run failed: {type(error).__name__}: {error}")

    def _end(self, state: str, error: str = "") -> None:
        with self._lock:
            self.state, self.error = state, error
        self.begun.set()
        with self._gate.changed:
            self._gate.changed.notify_all()
        self._tell()

    def _open(self) -> None:
        """What can be seen, from the file; of a run that goes on, up to the checkpoint it goes on from."""
        with self._lock:
            if self.history is not None:
                return
            self.made = not self.wanted.resume  # `learn` calls us back, so it has made the file
            self.scene = scene_of(read_spec_of(self.path))
            self.history, self.picture = History(self.scene), Picture(self.scene)
            if self.wanted.resume:
                contents = read(self.path)
                c, k = contents.columns, contents.k
                for row in zip(c["s1"][:k], c["lam"][:k], c["reset"][:k], c["v_r"][:k], c["v_c"][:k], strict=True):
                    self.history.add(*row)
                self.k = k

    def _progress(self, game: Game, this: Round) -> None:
        """After every round: note it, show it if it is time, and wait as long as the gate says."""
        if self.history is None or self.picture is None:
            self._open()
            assert self.history is not None
            assert self.picture is not None
            self.state = "running"
        episode = this.episode
        v_r, v_c = this.exact or (math.nan, math.nan)
        self.history.add(this.s1, this.lam, episode.reset, v_r, v_c)
        if len(self.picture.visits):
            self.picture.note(episode.states, episode.reset)
        self.k = this.k
        now = time.monotonic()
        if now >= self._due or this.k >= self.wanted.episodes:  # the last one is what stays
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

    def _wait(self, game: Game, this: Round) -> None:
        gate, shown = self._gate, False
        with gate.changed:
            while not gate.stopping:
                now = time.monotonic()
                rest: float | None = 0.0
                if gate.paused and self.steps == 0 and not gate.late(self):
                    self.state, rest = "paused", None
                elif gate.ahead(self):
                    rest = 0.002
                elif gate.pace and not gate.paused and now < self._next:
                    rest = self._next - now
                if rest == 0.0:
                    break
                if not shown and (rest is None or rest > 0.01):
                    shown = True
                    gate.changed.release()  # a picture may take a while, and others need the gate
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
            self.state = "running"
            if gate.pace:
                self._next = max(self._next, time.monotonic() - 0.1) + 1.0 / gate.pace
        if time.monotonic() >= self._rest:
            time.sleep(RESTS)
            self._rest = time.monotonic() + WORKS

    def _show(self, game: Game, this: Round) -> None:
        """A picture of this moment."""
        assert self.history is not None
        assert self.picture is not None
        episode = this.episode
        with self._lock:
            self.history.pairs = self.picture.learn(states.dump(game.primal, "primal."), this)
            path = episode.states.tolist() if len(self.picture.visits) else []
            self.last = {
                "k": this.k, "path": path[: limits.HORIZON + 1], "reset": bool(episode.reset),
                "reward": float(episode.rewards.sum()),
            }  # fmt: skip
            now = time.monotonic()
            self._marks = [
                *(mark for mark in self._marks[:-1] if mark[0] > now - LATELY),
                *self._marks[-1:],
                (now, self.k),
            ]
        self._tell()

    def _rate(self) -> float:
        """Rounds per second lately."""
        if len(self._marks) < 2 or self.state != "running":
            return 0.0
        (t0, k0), (t1, k1) = self._marks[0], self._marks[-1]
        return round((k1 - k0) / max(t1 - t0, 1e-3), 1)


class _Watched:
    """The desk; whoever waits for the run to begin learns that it asks."""

    def __init__(self, lane: Live) -> None:
        self._lane = lane

    def perform(self, request: Any) -> Any:
        """As the desk does."""
        lane = self._lane
        if lane.history is None and lane.path.exists():
            lane._open()
        lane.begun.set()
        lane._tell()
        try:
            return lane.desk.perform(request)
        finally:
            lane.state = "running"
            lane._tell()
