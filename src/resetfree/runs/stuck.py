"""A run notices when it is stuck: it earns little, and ends where it ended before.

An episode is still if it has neither a reset nor a goal, earns little, and ends at one of a few places:

- little: since the first still episode none earned more than a quarter of the way from the worst to the best episode
  without a reset of the whole run, and the best one earned more by a tenth of the largest reward in every step, or a
  hundred times as much. A balanced pole and a converged policy earn what they ever earned, so they are never stuck;
  a problem that pays nothing before its first goal may, if nothing moves either. If the best one began at one of
  these places, noise may have made it: then little is also at most a third of what it earned.
- a few places: 3, and one more for every 8 episodes. States that are counted are places; vectors are one place if
  they differ by at most 5 % of what was seen of each number, and by 0.2 % of its bounds where these are stated. A
  quarter of the numbers may differ by any amount: a battery, a clock.

It is stuck when enough episodes in a row are still: 20, and 500 steps, and twice as many as it was ever still and then
went on by itself. It is said again each time that number has doubled. All of it is computed from the columns of a run
and the record of who moved the agent, so a resumed run knows what the run knew.

It also says when its reward does not rise, though nothing need be wrong: it may be as good as it gets. It looks after
30 episodes and 3,000 steps, and whenever there are four times as many: the reward is flat if the last half of all
episodes earned no more than the first quarter did, up to one standard error and 5 % of that. What earns 90 % of the
largest reward has little to gain, and is never called flat.
"""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf, sqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput, Notice
from resetfree.core.readable import number
from resetfree.problems.contract import Intervention, Note, Problem, State

WHEN_STUCK = "when-stuck"  # to ask for a reset
STUCK = "stuck"  # why it is requested
EPISODES, STEPS = 20, 500  # still for at least so long
LONGER = 2  # times as long as it was ever still and then went on by itself
QUARTER = 0.25  # little: of the way from the worst to the best episode
GAP = 0.1  # that the best episode earned more in every step, of the largest reward; or
MANY = 100  # times as much
THIRD = 1 / 3  # little, where the best episode began at the same place: of what it earned
PLACES, PER_PLACE = 3, 8  # a few: 3, and one more for every 8 episodes
NEAR, FINE = 0.05, 0.002  # one place: of what was seen of a number; of its stated bounds
FREE = 4  # one number in 4 may differ
SHOWN = 8  # numbers of a state in a sentence
Range: TypeAlias = tuple[Floats, Floats]


@dataclass(slots=True)
class Watch:
    """Watches the episodes of a run for standing still.

    >>> watch = Watch(horizon=50)
    >>> first = [watch.see(k, 0, 30.0, False, 3, goals=0, steps=50) for k in range(1, 11)]
    >>> later = [watch.see(k, 3, 0.0, False, 3, goals=0, steps=50) for k in range(11, 211)]
    >>> [k for k, stuck in enumerate([*first, *later], start=1) if stuck]
    [30, 50, 90, 170]
    >>> print(watch.sentence)
    Stuck: in the last 160 episodes (8,000 steps) it earned at most 0 an episode, after 30 at best, and ended all of
    them at 3, without a reset and without a goal. Such a stretch is reported from 20 episodes on.
    >>> watch.since
    11
    >>> watch.see(211, 3, 25.0, False, 7, goals=0, steps=50), watch.since, watch.window
    (False, None, 400)
    """

    horizon: int
    bounds: Range | None = None  # [D] of vector states, if they are stated
    still: int = 0  # episodes in a row
    steps: int = 0  # of these
    since: int | None = None  # the first of them, once it is stuck
    sentence: str = ""  # what was said last
    _first: int = 0
    _due: int = 0
    _most: float = -inf  # that one of them earned
    _ends: list[State] = field(default_factory=list)
    _longest: int = 0  # it was ever still and went on by itself
    _top: float = -inf  # that any episode earned
    _best: float = -inf  # episodes without a reset and without a goal
    _began: State = None  # where the best one did
    _worst: float = inf
    _seen: Range | None = None  # [D] of vector states
    flat: FlatReward = field(init=False)
    is_flat: bool = False  # whether it is time to say that the reward has not risen

    def __post_init__(self) -> None:
        self.flat = FlatReward(self.horizon)

    @classmethod
    def of(cls, problem: Problem) -> Watch:
        """A watch before the first episode."""
        low, high = problem.low, problem.high
        if problem.n_states is not None or low is None or high is None:
            return cls(problem.horizon)
        return cls(problem.horizon, (np.ravel(low), np.ravel(high)))

    def replay(self, columns: Mapping[str, NDArray[Any]], interventions: Sequence[Intervention]) -> None:
        """See the recorded rounds of a run again, and who moved the agent between them."""
        put = {one.k for one in interventions}
        goals = columns["goals"].tolist() if "goals" in columns else [0] * len(columns["k"])
        names = ("k", "s1", "reward", "reset", "next_start")
        rows = zip(*(columns[name].tolist() for name in names), strict=True)
        for row, reached, steps in zip(rows, goals, columns["steps"].tolist(), strict=True):
            if row[0] - 1 in put:
                self.moved()
            self.see(*row, goals=reached, steps=steps)

    @property
    def words(self) -> str:
        """Since when it is stuck, and where, for a display; "" if it is not."""
        if self.since is None:
            return ""
        where = shown(self._ends[-1])
        return f"STUCK since episode {self.since:,} at {where}: earns at most {number(self._most)} an episode"

    @property
    def window(self) -> int:
        """Still episodes after which it is stuck."""
        return max(EPISODES, ceil(STEPS / self.horizon), LONGER * self._longest)

    def moved(self) -> None:
        """The agent was moved: whatever comes now is new."""
        self.still, self.steps, self.since, self._due, self._most, self._ends = 0, 0, None, 0, -inf, []

    def see(self, k: int, start: State, reward: float, reset: bool, end: State, *, goals: int, steps: int) -> bool:
        """Take in episode k; whether the run is found to be stuck now, for the first time or for twice as long."""
        self.is_flat = self.flat.see(reward, steps)
        vector = isinstance(end, np.ndarray)
        if vector or isinstance(start, np.ndarray):
            self._widen(start, end if vector else start)
        self._top = max(self._top, reward)
        if reset or goals:
            self._went_on()
            return False
        if reward > self._best:
            self._best, self._began = reward, start
        self._worst = min(self._worst, reward)
        self._most = max(self._most, reward)
        if not self._little():
            self._went_on()
            return False
        if not any(self._same(end, place) for place in reversed(self._ends)):
            if self._ends and len(self._ends) >= PLACES + self.still // PER_PLACE:
                self._went_on()
                self._most = reward
            self._ends.append(end)
        self._first = self._first if self.still else k
        self.still, self.steps = self.still + 1, self.steps + steps
        if self.still < max(self.window, self._due) or not self._worse_here():
            return False
        self.since, self._due = self._first, 2 * self.still
        self.sentence = self._words(end)
        return True

    def _went_on(self) -> None:
        self._longest = max(self._longest, self.still)
        self.moved()

    def _little(self) -> bool:
        """Whether no episode since the first still one earned more than little."""
        most, best = self._most, self._best
        low = most <= self._worst + QUARTER * (best - self._worst)
        return low and (best - most >= GAP * self.horizon or MANY * most <= max(best, 0.0))

    def _worse_here(self) -> bool:
        """Whether more was earned elsewhere, or far more here."""
        if self._most <= THIRD * self._best:
            return True
        return not any(self._same(self._began, place) for place in self._ends)

    def _widen(self, *states: State) -> None:
        flat = [np.ravel(state).astype(np.float64) for state in states]
        low, high = (flat[0], flat[0]) if self._seen is None else self._seen
        self._seen = np.minimum.reduce([low, *flat]), np.maximum.reduce([high, *flat])

    def _same(self, end: State, place: State) -> bool:
        if not isinstance(end, np.ndarray) or self._seen is None:
            return bool(end == place)
        near = NEAR * (self._seen[1] - self._seen[0])
        if self.bounds is not None:
            fine = FINE * (self.bounds[1] - self.bounds[0])
            near = np.where(np.isfinite(fine), np.maximum(near, fine), near)
        apart = np.abs(np.ravel(end) - np.ravel(place)) > near
        return bool(np.count_nonzero(apart) <= apart.size // FREE)

    def _words(self, end: State) -> str:
        n = len(self._ends)
        where = f"ended all of them at {shown(end)}" if n == 1 else f"ended them at {n} places, now at {shown(end)}"
        return (
            f"Stuck: in the last {self.still:,} episodes ({self.steps:,} steps) it earned at most "
            f"{number(self._most)} an episode, after {number(self._top)} at best, and {where}, without a reset "
            f"and without a goal. Such a stretch is reported from {self.window:,} episodes on."
        )


def notice(watch: Watch, problem: Problem, asks: bool) -> None:
    """Leave the watch's sentence for the run, with what to do about it; warn about an environment or a machine."""
    text = advised(watch, problem, asks)
    problem.noted.append(Note(0, text, stuck=True))
    if problem.persistent:
        warnings.warn(text, Notice, stacklevel=2)


def advised(watch: Watch, problem: Problem, asks: bool) -> str:
    """The watch's sentence, with what to do about it."""
    if asks:
        advice = "A reset is requested."
    elif problem.persistent:
        advice = 'To have it put back then: ask="when-stuck", --ask when-stuck (docs/goals.md).'
    else:
        advice = "Where a reset may pay for itself: with_help, --set help=PRICE (docs/goals.md)."
    return f"{watch.sentence} {advice}"


def requested_after(interventions: Sequence[Intervention]) -> list[int]:
    """The rounds after which a reset was requested because the run was stuck."""
    return [one.k for one in interventions if one.why == STUCK]


def check_asking(problem: Problem) -> None:
    """Raise InvalidInput for a problem that cannot be reset between two episodes."""
    if not problem.persistent:
        raise InvalidInput(
            f"The problem '{problem.name}' cannot be reset from outside, so no operator can help when it is stuck. "
            "Make help an action of it: rf.with_help(problem, price), or --set help=PRICE."
        )


def shown(state: State) -> str:
    """A state as a sentence quotes it."""
    if not isinstance(state, np.ndarray):
        return f"{state:.4g}" if isinstance(state, float) else str(state)
    entries = [f"{x:.4g}" for x in np.ravel(state)[:SHOWN]]
    return f"[{', '.join(entries)}{', ...' if state.size > SHOWN else ''}]"


FLAT_EPISODES, FLAT_STEPS = 30, 3000  # before the first look
LATER = 4  # times as many episodes before the next one
ERRORS, LEAST = 1.0, 0.05  # a rise: standard errors, and of what was earned at first
HIGH = 0.9  # of the largest reward
TRY = (
    "It may be as good as it gets. If not: a reward that tells better from worse in every step (a goal says nothing "
    "before it is reached), its true range (reward_range), a longer horizon, a few episodes of any controller as data "
    "(docs/goals.md)."
)


@dataclass(slots=True)
class FlatReward:
    """Watches the rewards of episodes.

    >>> flat = FlatReward(horizon=100)
    >>> [k for k in range(1, 900) if flat.see(11.0, steps=15)]
    [200, 800]
    >>> print(flat.sentence)
    The reward has not risen in 800 episodes (12,000 steps): 11 an episode in the first 200, 11 in the last 400.
    """

    horizon: int
    sentence: str = ""  # what was said last
    _rewards: array[float] = field(default_factory=lambda: array("d"))  # 8 bytes an episode
    _steps: int = 0
    _due: int = FLAT_EPISODES

    def see(self, reward: float, steps: int) -> bool:
        """Take in an episode; whether it is time to say that the reward is flat."""
        self._rewards.append(reward)
        self._steps += steps
        n = len(self._rewards)
        if n < self._due or self._steps < FLAT_STEPS:
            return False
        self._due = LATER * n
        first, last = np.array(self._rewards[: n // 4]), np.array(self._rewards[n // 2 :])
        error = sqrt(first.var() / len(first) + last.var() / len(last))
        risen = last.mean() > first.mean() + max(ERRORS * error, LEAST * abs(first.mean()))
        if risen or last.mean() >= HIGH * self.horizon:
            return False
        self.sentence = (
            f"The reward has not risen in {n:,} episodes ({self._steps:,} steps): "
            f"{number(first.mean())} an episode in the first {len(first)}, "
            f"{number(last.mean())} in the last {len(last)}."
        )
        return True


def note_flat(flat: FlatReward, problem: Problem) -> None:
    """Leave the sentence for the run of an environment, with what to try."""
    if problem.persistent:
        problem.noted.append(Note(0, f"{flat.sentence} {TRY}"))
