"""A history of observations and actions as the state, where one observation does not say enough.

Actions that come late, velocities that are not seen, and noise are hidden from a single observation and show in the
last few. The state is then the observation, those before it, and the actions between them, newest first.

Whether a history is needed is a question of prediction (`HiddenState`): the observation three steps ahead, in which
noise counts for less, is predicted from the present one and the actions until then, and from the last four of both, by
kernel regression on the same steps. If the second errs clearly less on steps that were left out, something is hidden.

Legend: D numbers in an observation, n observations in a state, A numbers in an action (`ActionNumbers`), T steps.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from resetfree.core import Floats
from resetfree.problems.action_spaces import ActionSpace, Box
from resetfree.problems.contract import Episode
from resetfree.problems.gym.observations import Observer
from resetfree.problems.stepping import SteppedProblem

MOST = 64  # observations in a state
ONE_HOT = 8  # choices up to which each has a number of its own
TRIED = 4  # observations in the state that is compared
AHEAD = 3  # steps that are predicted
LOOKS = (100, 200, 300, 600)  # steps after which it is looked at; the last are the most that are looked at
LEAST = 60  # steps that can be compared, below which nothing is said
LESS = 0.6  # of the error of a single observation: then a history is advised
NOTABLE = 0.25  # of the deviation of changes: a smaller error of a single observation hides nothing that matters
RIDGE = 1e-3  # of the largest kernel value


class ActionNumbers:
    """Actions as numbers [A]: a box as it is, choices of a grid by their levels, a few others one by one.

    >>> from resetfree.problems.action_spaces import Choices
    >>> ActionNumbers(Choices(3))(1), ActionNumbers(Choices(9))(3)
    (array([0., 1., 0.]), array([0.375]))
    """

    def __init__(self, space: ActionSpace) -> None:
        self._space = space
        if isinstance(space, Box):
            self.low, self.high = space.ends
        elif space.levels is not None:
            values = np.array([np.ravel(one) for one in space], dtype=np.float64)
            self.low, self.high = values.min(axis=0), values.max(axis=0)
        else:
            size = space.n if space.n <= ONE_HOT else 1
            self.low, self.high = np.zeros(size), np.ones(size)

    def __call__(self, action: Any) -> Floats:
        """[A] the numbers of an action."""
        space = self._space
        if isinstance(space, Box):
            return np.asarray(action, dtype=np.float64)
        if space.levels is not None:
            return np.ravel(space[action]).astype(np.float64)
        if space.n <= ONE_HOT:
            return np.asarray(np.arange(space.n) == action, dtype=np.float64)
        return np.array([action / (space.n - 1)])


class Recent(Observer):
    """The last n observations and the actions between them: [n D + (n - 1) A]; before the first ones, the first."""

    def __init__(self, inner: Observer, n: int, actions: ActionSpace) -> None:
        assert inner.low is not None
        assert inner.high is not None
        self.n, self._inner, self._numbers = n, inner, ActionNumbers(actions)
        self._seen: deque[Floats] = deque(maxlen=n)
        self._done: deque[Floats] = deque(maxlen=n - 1)
        self.low = np.concatenate([*[inner.low] * n, *[self._numbers.low] * (n - 1)])
        self.high = np.concatenate([*[inner.high] * n, *[self._numbers.high] * (n - 1)])

    @property
    def names(self) -> list[str]:
        """Each number with its age in steps."""
        actions = [f"action[{i}]" for i in range(len(self._numbers.low))]
        late = [(name, age) for age in range(1, self.n) for name in self._inner.names]
        late += [(name, age) for age in range(1, self.n) for name in actions]
        return [*self._inner.names, *(f"{name}, {age} ago" for name, age in late)]

    def stacked(self, episodes: Sequence[Episode]) -> list[Episode]:
        """Episodes of single observations as this would have shown them, one after another; it is then after the last.

        A reset state is in none of the episodes that follow it.
        """
        found, goes_on = [], False
        for one in episodes:
            if not goes_on:
                self.begin()
                self._seen.appendleft(one.states[0])
            rows = [self._state()]
            for action, after in zip(one.actions, one.states[1:], strict=False):
                self.acted(action)
                self._seen.appendleft(after)
                rows.append(self._state())
            goes_on = one.next_start is not None
            found.append(replace(one, states=np.array(rows), next_start=rows[-1] if goes_on else None))
        return found

    def begin(self) -> None:
        """Forget what was before a reset."""
        self._seen.clear()
        self._done.clear()

    def acted(self, action: Any) -> None:
        """Remember an action that is about to be taken."""
        self._done.appendleft(self._numbers(action))

    def check(self, observation: Any) -> None:
        """Raise `Unusable` for an observation that cannot be read."""
        self._inner.check(observation)

    def __call__(self, observation: Any) -> Floats:
        """The state after one more observation."""
        self._seen.appendleft(self._inner(observation))
        return self._state()

    def _state(self) -> Floats:
        while len(self._seen) < self.n:
            self._seen.append(self._seen[-1])
        neutral = np.clip(0.0, self._numbers.low, self._numbers.high)
        done = [*self._done, *[neutral] * (self.n - 1 - len(self._done))]
        return np.concatenate([*self._seen, *done])


class HiddenState:
    """Looks at the first steps of a run for a hidden state, a few times."""

    def __init__(self, actions: ActionSpace) -> None:
        self._numbers = ActionNumbers(actions)
        self._episodes: list[tuple[Floats, Floats]] = []
        self._looks, self._steps = list(LOOKS), 0

    @property
    def done(self) -> bool:
        """Whether it has looked for the last time."""
        return not self._looks

    def see(self, episode: Episode) -> str | None:
        """Take in an episode; what it found, as the rest of a sentence, if a history is advised."""
        if self.done or len(episode.actions) < TRIED + AHEAD:
            return None
        end = -1 if episode.reset else None
        states = np.asarray(episode.states, dtype=np.float64)[:end]
        actions = np.array([self._numbers(one) for one in episode.actions])
        self._episodes.append((states, actions))
        self._steps += len(actions)
        if self._steps < self._looks[0]:
            return None
        self._looks = [due for due in self._looks if due > self._steps]
        one, several = errors(self._episodes)
        if several >= LESS * one or one < NOTABLE:
            return None
        self._looks = []
        return (
            f"hides something: what is observed {AHEAD} steps later is predicted with an error of {one:.2g} from the "
            f"present observation and the actions, and of {several:.2g} from the last {TRIED} of both. Actions that "
            "come late, or what is not observed."
        )


class Remembering(SteppedProblem):
    """A problem whose state can become a history of observations, by itself where something is hidden."""

    _observer: Observer
    _hidden: HiddenState | None  # looks for it
    _auto_history: bool
    _state: Any

    @abstractmethod
    def _note(self, text: str, tuned: bool = False) -> None:
        """Leave a sentence for the run."""

    def _advise(self, found: str, could: bool) -> None:
        """Say that something is hidden, and have the run go on with a history, if it can."""
        self.advised_history = TRIED if could else 0
        what = (
            f"From here on its state is the last {TRIED} of both (history={TRIED}), and what was seen is learned anew"
        )
        if not self.advised_history:
            what = f"In another run try history={TRIED}"
        self._note(f"'{self.name}' {found} {what} (docs/own_environment.md).")

    @property
    def may_remember(self) -> bool:
        """Whether the state may still become a history by itself, in the first steps."""
        plain = self.xi is None and self.limits is None and self.goal_columns is None
        return plain and self._auto_history and self._hidden is not None and not self._hidden.done

    def review(self, episodes: Sequence[Episode]) -> None:
        """Look at the episodes of an earlier session for a hidden state."""
        for one in episodes:
            could = self.may_remember
            if self._hidden is not None and (found := self._hidden.see(one)) is not None:
                self._advise(found, could)

    def remember(self, n: int, episodes: Sequence[Episode] = ()) -> list[Episode]:
        """Have states be the last n observations and the actions between them; the episodes so far in that form."""
        recent = Recent(self._observer, n, self.actions)
        self._observer, self._hidden, self.advised_history = recent, None, 0
        self.low, self.high = recent.low, recent.high
        found = recent.stacked(episodes)
        self._state = found[-1].next_start if found else None
        return found


def errors(episodes: Sequence[tuple[Floats, Floats]]) -> tuple[float, float]:
    """Errors of prediction from one observation, and from the last four and their actions, on every third step.

    Of the change of the observation, in standard deviations of the changes: 1 is no better than their mean; the median
    over the numbers of an observation that change.
    """
    rows = [_rows(states, actions) for states, actions in episodes if len(states) >= TRIED + AHEAD]
    single, several, changes = (np.concatenate(part)[: LOOKS[-1]] for part in zip(*rows, strict=True))
    scale = changes.std(axis=0)
    moving = scale > 0
    if not moving.any() or len(changes) < LEAST:
        return 0.0, 0.0
    changes = (changes[:, moving] - changes[:, moving].mean(axis=0)) / scale[moving]
    return _error(single, changes), _error(several, changes)


def _rows(states: Floats, actions: Floats) -> tuple[Floats, Floats, Floats]:
    """[T, D + AHEAD A] the observation and the actions that follow, [T, .] those before too; [T, D] the changes."""
    first = TRIED - 1
    n = len(states) - first - AHEAD
    follow = [actions[first + i : first + i + n] for i in range(AHEAD)]
    before = [part[i : i + n] for i in range(first) for part in (states, actions)]
    now = np.concatenate([states[first : first + n], *follow], axis=1)
    return now, np.concatenate([now, *before], axis=1), states[first + AHEAD :] - states[first : first + n]


def _error(inputs: Floats, targets: Floats) -> float:
    """Of kernel regression (linear and Gaussian kernels together) on every third row, with the best of four widths."""
    spread = inputs.std(axis=0)
    z = (inputs - inputs.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    out = np.arange(len(z)) % 3 == 2
    square = np.maximum((z**2).sum(axis=1)[:, None] + (z**2).sum(axis=1) - 2 * z @ z.T, 0.0)
    found = []
    for width in (1.0, 2.0, 4.0, 8.0):
        kernel = np.exp(-square / (2 * width**2 * z.shape[1])) + z @ z.T / z.shape[1] + 1.0
        for ridge in (RIDGE, 100 * RIDGE):
            fit = np.linalg.solve(kernel[~out][:, ~out] + ridge * np.eye(int((~out).sum())), targets[~out])
            left = kernel[out][:, ~out] @ fit - targets[out]
            found.append(float(np.median(np.sqrt((left**2).mean(axis=0)))))
    return min(found)
