"""An episode at a fixed rate, in a world that does not wait.

At a tick the sensors are read, the policy acts, and the command goes out at once; the result of a step is read at the
next tick. An environment whose world goes on by itself says so by commands and sensors of their own (`Continuing`); any
other is simulated within the tick, and then waits for the next one.

When something is late:
  the loop      ticks that have passed are skipped and counted, never caught up. The machine holds the last action
                meanwhile; the next step is that of `fallback`, if there is one. After `most_missed` skipped ticks in a
                row one step of the safe action ends the episode, without a reset.
  the sensors   without new ones nothing is commanded. After SILENT ticks the safe action is sent, once, and the episode
                ends when they come back; if they do not, the environment has failed.
  anything else that goes wrong: the safe action is sent once.

While no episode is played nothing waits without a command either: the safe action is commanded at every tick
(`Holding`), unless the machine itself says that it is held.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np

from resetfree.core import Floats, InvalidInput, Positive, PositiveInt, check, expect
from resetfree.core.ticks import MONOTONIC, SECOND, Rate, Ticks
from resetfree.problems.action_spaces import Box, Choices
from resetfree.problems.contract import Episode, Policy, State
from resetfree.problems.gym.making import layers
from resetfree.problems.remote.remote_machine import MachineSilent
from resetfree.problems.stepping import SteppedProblem, playable

SILENT = 3  # ticks without new sensors after which the safe action is sent
TIMEOUT = 1.0  # seconds without new sensors after which an environment that states no `timeout` has failed
AFTER = 0.1  # of its period after a machine's sensors come: where the ticks are put
GOOD = (0.05, 0.25)  # the same: where they are left
WHOLE = 1e-3  # how close to a whole number the ratio of two rates must be, so that their ticks keep their distance


@runtime_checkable
class Continuing(Protocol):
    """An environment whose world goes on by itself: `step` in two halves.

    Optional besides: `rate` (Hz, of its sensors), `neutral` (its safe action), `timeout` (seconds), and
      arrival(seconds)  waits for the next sensors and returns when they came, in ns of the monotonic clock
      is_held()         whether it is held until the first command; called while nothing is commanded, so that it
                        can read what came meanwhile
      release()         nothing more will be commanded before the next reset
    """

    def send(self, action: Any) -> None:
        """Command an action; returns at once."""
        ...

    def observe(self) -> tuple[Any, Any, bool, bool, dict[str, Any]] | None:
        """The result of a step from the newest sensors; None if none came since the last."""
        ...


@dataclass(frozen=True)
class Deadlines:
    """What is expected of every step, and what happens if it is not met."""

    rate: float  # steps per second
    most_missed: int = 10  # skipped ticks in a row that end the episode
    fallback: Any = None  # a policy that acts in the step after a skipped tick; None: the plan's own
    safe: Any = None  # the safe action; None: see `safe_action`
    patience: float = (
        120.0  # seconds of its own time in which a learner that finishes nothing hangs: see `live.hanging`
    )

    def __post_init__(self) -> None:
        check(self.rate, Rate, "'rate'")
        check(self.most_missed, PositiveInt, "'most_missed'")
        check(self.patience, Positive, "'patience'")
        known = self.fallback is None or isinstance(self.fallback, Policy) or callable(self.fallback)
        expect(known, "'fallback'", "be a policy", self.fallback)


def rate_for(problem: SteppedProblem, rate: float | None = None) -> float:
    """The rate to play at: the given one, or the environment's own; raises InvalidInput if its sensors are slower."""
    own = getattr(_base(problem), "rate", None)
    if rate is None:
        if own is None:
            raise InvalidInput(f"The environment of '{problem.name}' states no rate of its own: give one in Hz.")
        return float(own)
    check(rate, Rate, "'rate'")
    if own is not None and rate > own * (1.0 + WHOLE):
        raise InvalidInput(
            f"The rate must be at most {own:g} Hz, at which sensors of '{problem.name}' come. Got {rate:g} instead."
        )
    return float(rate)


def safe_action(problem: SteppedProblem, stated: Any = None) -> Any:
    """The action when something went wrong: the stated one, else the machine's own, else the middle, else number 0."""
    space, neutral = problem.actions, getattr(_base(problem), "neutral", None)
    if stated is not None:
        action = np.array(stated, dtype=np.float64, ndmin=1) if isinstance(space, Box) else stated
        expect(space.holds(action), f"safe action of '{problem.name}'", f"be {space}", stated)
        return action
    if neutral is None or any(isinstance(layer, gymnasium.ActionWrapper) for layer in layers(_environment(problem))):
        return 0 if isinstance(space, Choices) else space.clip((space.ends[0] + space.ends[1]) / 2.0)
    if isinstance(space, Box):
        return space.clip(neutral)
    return int(np.argmin([np.abs(np.ravel(value) - np.ravel(neutral)).sum() for value in space]))


def rollout_at_rate(
    problem: SteppedProblem,
    policy: Any,
    start: State,
    u: Floats,
    ticks: Ticks,
    deadlines: Deadlines,
    *,
    moved: bool = False,
) -> Episode:
    """Play an episode at a rate; it may be shorter than H without a reset (see above).

    ticks: a grid that goes on from episode to episode; it begins anew after a reset. Its `missed` and `latest_ns` are
      those of this episode.
    moved: whether the safe action was commanded since `start` was read (`Holding`). No policy acts on sensors that
      are so old: the first step goes on with the safe action, and its tick counts as missed.

    With a clock that is never late this is `problem.rollout`. The caller keeps the garbage collector away.
    """
    chance, last = problem.chances(u)
    space, acting = problem.actions, problem.actions.n_uniforms
    act = late = playable(policy, problem).act
    if deadlines.fallback is not None:
        late = playable(deadlines.fallback, problem).act
    safe = safe_action(problem, deadlines.safe)
    ticks.new_episode()
    state = problem.enter(start)
    record = _Record(problem, state)
    original, reset, goals, ending = 0.0, False, 0, False
    if not ticks.begun:
        begin(ticks, _base(problem))
    if moved:
        ticks.skip()
    with _pace(problem, ticks, safe) as pace:
        for h in range(1, problem.horizon + 1):
            now = chance[h - 1]
            if ending or (moved and h == 1):
                action = safe
            else:
                action = (late if pace.row else act)(h, state, now[0] if isinstance(space, Choices) else now[:acting])
            if not space.holds(action):
                raise problem.refuse(action, h)
            action = problem.applied(action)
            state, reward, reset, own, goal = problem.step(h, state, action, now[acting:])
            record.add(action, reward, state)
            original += own
            goals += goal
            pace.after_step(reset)
            if reset or ending or pace.silent:
                break
            ending = pace.row >= deadlines.most_missed
    next_start = problem.leave(state, reset, last)
    if next_start is None:
        ticks.stop()
    return problem.finish(record.episode(reset, next_start, original, goals))


class Holding:
    """Commands the safe action while no episode is played, at every tick, in a world that goes on by itself.

    One that is simulated waits anyway, and so does a machine that is held until the first command, which it would be
    freed by.
    """

    def __init__(self, problem: SteppedProblem, deadlines: Deadlines) -> None:
        base = _base(problem)
        self._base: Any = base if isinstance(base, Continuing) and not _lockstep(base) else None
        self._ticks = Ticks(deadlines.rate)
        self._safe = None if self._base is None else _native(problem, safe_action(problem, deadlines.safe))
        self.commanded = False  # whether the safe action was

    def look(self) -> None:
        """Command the safe action if a tick is due; returns at once."""
        ticks = self._ticks
        if self._base is None or (ticks.begun and ticks.clock.now() < ticks.next_ns):
            return
        if not ticks.begun:
            ticks.begin()
        else:
            ticks.wait()
        if not _is_held(self._base):
            self.commanded = True
            with suppress(Exception):  # whoever plays the next episode finds out what is wrong
                self._base.send(self._safe)

    def release(self) -> None:
        """Command the safe action once more, and nothing after it until the next reset."""
        if self._base is not None:
            with suppress(Exception):
                self._base.send(self._safe)
            if hasattr(self._base, "release"):
                with suppress(Exception):
                    self._base.release()


def _is_held(base: Any) -> bool:
    """Whether a world is held until the first command; one that does not say so goes on."""
    return bool(base.is_held()) if hasattr(base, "is_held") else False


class _Record:
    """The arrays of an episode, made before it begins."""

    def __init__(self, problem: SteppedProblem, state: State) -> None:
        first, h, space = np.asarray(state), problem.horizon, problem.actions
        self._states = np.empty((h + 1, *first.shape), first.dtype)
        self._actions = np.empty(h, np.int64) if isinstance(space, Choices) else np.empty((h, space.size))
        self._rewards = np.empty(h)
        self._states[0], self._n = first, 0

    def add(self, action: Any, reward: float, state: State) -> None:
        """One step."""
        self._actions[self._n], self._rewards[self._n] = action, reward
        self._n += 1
        self._states[self._n] = state

    def episode(self, reset: bool, next_start: State, original: float, goals: int) -> Episode:
        """What was recorded."""
        n = self._n
        states, actions, rewards = self._states[: n + 1], self._actions[:n], self._rewards[:n]
        return Episode(
            states.copy(), actions.copy(), rewards.copy(), reset, next_start, original_return=original, goals=goals
        )


class _Pace:
    """The ticks of an episode of an environment that is simulated within the tick."""

    silent = False  # whether the safe action was sent, because no sensors came

    def __init__(self, ticks: Ticks) -> None:
        self.ticks = ticks
        self.row = 0  # ticks skipped since one was taken on time

    def after_step(self, reset: bool) -> None:
        """Wait for the tick of the next step; after a reset there is none."""
        self.ticks.acted()
        if not reset:
            self.count(self.ticks.wait())

    def count(self, skipped: int) -> None:
        """The ticks that were skipped before this one."""
        self.row = self.row + skipped if skipped else 0


class _Continuing(_Pace):
    """The ticks of an episode of a world that goes on by itself: they pass within its step."""

    def __init__(self, ticks: Ticks, problem: SteppedProblem, base: Continuing, safe: Any) -> None:
        super().__init__(ticks)
        self._base, self._safe = base, _native(problem, safe)
        self._timeout = int(SECOND * getattr(base, "timeout", TIMEOUT))
        self._align = _can_align(ticks, base)

    def after_step(self, reset: bool) -> None:
        """The tick of the next step has come."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Command an action, and read its result at the next tick."""
        self._base.send(action)
        self.ticks.acted()
        if self._align:  # in the first step of an episode
            self._align = False
            align(self.ticks, self._base)
        sent, silent = self.ticks.clock.now(), 0
        skipped = self.ticks.wait()
        while (result := self._base.observe()) is None:
            self.ticks.skip()
            silent += 1
            if silent >= SILENT:
                self.send_safe()
                if self.ticks.clock.now() - sent >= self._timeout:
                    raise MachineSilent(f"no sensors came for {self._timeout / SECOND:g} s")
            skipped += 1 + self.ticks.wait()
        self.count(skipped)
        return result

    def send_safe(self) -> None:
        """Send the safe action, unless it was sent."""
        if not self.silent:
            self.silent = True
            with suppress(Exception):  # the other side may be gone
                self._base.send(self._safe)


def begin(ticks: Ticks, base: Any) -> None:
    """Lay the grid; what came meanwhile is read, so that the first command answers the newest sensors."""
    held = _is_held(base)
    ticks.begin()
    if held and _can_align(ticks, base):  # it waits: so the first command goes out when those after it will
        align(ticks, base)
        ticks.wait()
        _is_held(base)


def _can_align(ticks: Ticks, base: Any) -> bool:
    return ticks.clock is MONOTONIC and hasattr(base, "arrival") and not _lockstep(base)


def align(ticks: Ticks, base: Any) -> None:
    """Put the ticks of a loop a little after a machine's sensors come, if both keep their distance.

    A tick just before they come would act on old ones, and its command would come too late or in time as chance has it.
    Where ticks are moved, the next one is the first that is put so: none of the machine's is left out for it.
    """
    own = getattr(base, "rate", None)
    if own is None or abs(own / ticks.rate - round(own / ticks.rate)) > WHOLE or own < ticks.rate * (1.0 - WHOLE):
        return
    period = SECOND / own
    came = base.arrival(1.5 / own)
    if came is None:
        return
    after, late = (ticks.next_ns - came) % period / period, ticks.clock.now() - ticks.next_ns
    moved = 0.0 if GOOD[0] <= after <= GOOD[1] else (AFTER - after) % 1.0 * period
    if moved and moved - period > late:
        moved -= period
    elif moved <= late:  # sensors came so late that the next tick has passed
        moved += (late - moved) // period * period + period
    ticks.shift(round(moved))


@contextmanager
def _pace(problem: SteppedProblem, ticks: Ticks, safe: Any) -> Iterator[_Pace]:
    """How the ticks of an episode pass; if it raises, the safe action is sent and the grid ends."""
    base = _base(problem)
    if not isinstance(base, Continuing):
        try:
            yield _Pace(ticks)
        except BaseException:
            ticks.stop()
            raise
        return
    pace = _Continuing(ticks, problem, base, safe)
    # Wrappers, goals and rewards work on the result of `step`: so this one is replaced, and nothing around it.
    vars(base)["step"] = pace.step
    try:
        yield pace
    except BaseException:
        ticks.stop()
        pace.send_safe()
        raise
    finally:
        del vars(base)["step"]


def _environment(problem: SteppedProblem) -> Any:
    return getattr(problem, "env", None)


def _base(problem: SteppedProblem) -> Any:
    """The environment without its wrappers, None if there is none."""
    return getattr(_environment(problem), "unwrapped", None)


def _native(problem: SteppedProblem, action: Any) -> Any:
    """An action as the environment without its wrappers takes it."""
    found = problem.actions.native(action)
    for layer in layers(_environment(problem)):
        if isinstance(layer, gymnasium.ActionWrapper):
            found = layer.action(found)
    return found


def _lockstep(base: Any) -> bool:
    return bool(getattr(getattr(base, "statement", None), "lockstep", False))
