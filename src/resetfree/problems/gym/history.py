"""A history of observations and actions as the state, where one observation does not say enough.

Actions that come late, velocities that are not seen, and noise are hidden from a single observation and show in the
last few. The state is then the observation, those before it, and the actions between them, newest first.

Whether a history is needed is a question of prediction (`advised_history`): the next observation is predicted from the
present one and the action, and from the last four of both, by kernel regression on the same steps. If the second errs
much less on steps that were left out, something is hidden.

Legend: D numbers in an observation, n observations in a state, A numbers in an action (`ActionNumbers`), T steps.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.problems.action_spaces import ActionSpace, Box
from resetfree.problems.contract import Episode
from resetfree.problems.gym.observations import Observer

MOST = 64  # observations in a state
ONE_HOT = 8  # choices up to which each has a number of its own
TRIED = 4  # observations in the state that is compared
FIRST, USED = 300, 600  # steps before the first look; the most that are looked at
LESS = 0.5  # of the error of a single observation: then a history is advised
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
        while len(self._seen) < self.n:
            self._seen.append(self._seen[-1])
        neutral = np.clip(0.0, self._numbers.low, self._numbers.high)
        done = [*self._done, *[neutral] * (self.n - 1 - len(self._done))]
        return np.concatenate([*self._seen, *done])


class HiddenState:
    """Looks at the first steps of a run for a hidden state, once there are 300 and once there are 600."""

    def __init__(self, actions: ActionSpace) -> None:
        self._numbers = ActionNumbers(actions)
        self._episodes: list[tuple[Floats, Floats]] = []
        self._due, self._steps = FIRST, 0

    def see(self, episode: Episode) -> str | None:
        """Take in an episode; what to say, as the rest of a sentence, if a history is advised."""
        if self._steps >= USED or len(episode.actions) < TRIED + 2:
            return None
        end = -1 if episode.reset else None
        states = np.asarray(episode.states, dtype=np.float64)[:end]
        actions = np.array([self._numbers(one) for one in episode.actions])
        self._episodes.append((states, actions))
        self._steps += len(actions)
        if self._steps < self._due:
            return None
        self._due = USED
        one, several = errors(self._episodes)
        if several >= LESS * one:
            return None
        self._steps = USED
        return (
            f"hides something: the next observation is predicted with an error of {one:.2g} from the present one and "
            f"the action, and of {several:.2g} from the last {TRIED} of both. Actions that come late, or what is not "
            f"observed. In another run try history={TRIED} (docs/own_environment.md)."
        )


def errors(episodes: Sequence[tuple[Floats, Floats]]) -> tuple[float, float]:
    """Errors of prediction from one observation and action, and from the last four of both, on every third step.

    Of the change of the observation, in standard deviations of the changes: 1 is no better than their mean; the median
    over the numbers of an observation that change.
    """
    rows = [_rows(states, actions) for states, actions in episodes if len(states) > TRIED]
    inputs, changes = (np.concatenate(part)[:USED] for part in zip(*rows, strict=True))
    scale = changes.std(axis=0)
    moving = scale > 0
    if not moving.any() or len(inputs) < FIRST // 2:
        return 0.0, 0.0
    changes = (changes[:, moving] - changes[:, moving].mean(axis=0)) / scale[moving]
    single = inputs.shape[1] // TRIED
    return _error(inputs[:, :single], changes), _error(inputs, changes)


def _rows(states: Floats, actions: Floats) -> tuple[Floats, Floats]:
    """[T, TRIED (D + A)] the last observations and actions, newest first; [T, D] the changes that follow."""
    n = len(states) - TRIED
    both = [np.concatenate([states[i : i + n], actions[i : i + n]], axis=1) for i in range(TRIED - 1, -1, -1)]
    return np.concatenate(both, axis=1), states[TRIED:] - states[TRIED - 1 : -1]


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
