"""Whether a problem still behaves as in the data that a run began with: a test with a stated false-alarm probability.

Wealth is bet against "nothing has changed", so that its expectation is at most 1 while that is true; the probability
that it ever reaches 1 / ALARM is then at most ALARM (Ville's inequality).

Finite states: of a pair (s, a) whose n transitions in the data all led to one state, the first new one leads elsewhere,
after n that did not, with probability at most (n / (n + 1))^n / (n + 1) <= 1 / (2 (n + 1)), whatever the dynamics: so
2 (n + 1) is paid for it. Vectors: a model is fitted to a third of the data, and the typical error of its one-step
predictions in each episode is ranked among those of the others and of the episodes so far (a conformal test): the
ranks are uniform as long as episodes are exchangeable. Only steps from states within those of the data count.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import exp, log
from typing import Any, Protocol

import numpy as np

from resetfree.core import Floats
from resetfree.game.replay_buffer import vectors
from resetfree.problems import Choices, Episode, Note, Problem

ALARM = 0.01  # the probability of a false alarm, at most
STAKES = (0.3, 0.1, 0.03, 0.01)  # parts of the wealth that are bet on a transition, an account for each
POWERS = (0.2, 0.4, 0.6, 0.8)  # e of the factors e p^(e - 1) on a rank p in (0, 1), an account for each
LEAST_TRIES = 5  # of a pair in the data, to be tested
LEAST_EPISODES = 9  # of vectors in the data
FITTED = 3  # the model is fitted to one episode of so many; the others are ranked
LEAST_STEPS = 3  # of an episode within the data, to be ranked
CURVED = 16  # numbers in state and action up to which products of them are in the model
RIDGE = 1e-6


class Bets:
    """Wealth in several accounts, in logarithms: it neither overflows nor vanishes."""

    def __init__(self, accounts: int) -> None:
        self._logs = [0.0] * accounts

    def pay(self, factors: Sequence[float]) -> bool:
        """Multiply each account by a factor whose expectation is at most 1; whether their mean reached 1 / ALARM."""
        self._logs = [kept + log(factor) for kept, factor in zip(self._logs, factors, strict=True)]
        top = max(self._logs)
        return top + log(sum(exp(one - top) for one in self._logs) / len(self._logs)) >= -log(ALARM)


class DynamicsWatch(Protocol):
    """A test of episodes as they are played."""

    def __call__(self, episode: Episode) -> str:
        """What shows, with this episode, that the dynamics have changed; empty until then."""


class FiniteWatch:
    """Transitions that never happened in the data."""

    def __init__(self, episodes: Sequence[Episode], problem: Problem) -> None:
        self._layered = not problem.stationary
        self._led: dict[tuple[int, int, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for one in episodes:
            for pair, after in self._steps(one):
                self._led[pair][after] += 1
        self._bets, self._tested, self._odd = Bets(len(STAKES)), set[tuple[int, int, int]](), 0

    def _steps(self, one: Episode) -> list[tuple[tuple[int, int, int], int]]:
        states, actions = one.states.tolist(), one.actions.tolist()
        moved = range(min(len(actions), len(states) - 1))
        return [((h if self._layered else 0, states[h], actions[h]), states[h + 1]) for h in moved]

    def __call__(self, episode: Episode) -> str:
        """See `DynamicsWatch`; each pair is tested once, when it is first taken again."""
        for pair, after in self._steps(episode):
            led = self._led.get(pair)
            if led is None or pair in self._tested or (n := sum(led.values())) < LEAST_TRIES:
                continue
            self._tested.add(pair)
            odd = len(led) == 1 and after not in led
            self._odd += odd
            if self._bets.pay([1.0 - stake + stake * 2.0 * (n + 1) * odd for stake in STAKES]):
                _, s, a = pair
                return (
                    f"{self._odd} of {len(self._tested)} pairs that were tried again led where they never led in the "
                    f"data, last action {a} in state {s}, which led to {after} and not to {min(led)} as in {n} tries"
                )
        return ""


class VectorWatch:
    """Errors of the one-step predictions of a model that was fitted to a part of the data."""

    def __init__(self, episodes: Sequence[Episode], problem: Problem) -> None:
        self._choices = problem.actions.n if isinstance(problem.actions, Choices) else None
        rng = np.random.default_rng(0)
        order = rng.permutation(len(episodes))
        fitted = [episodes[i] for i in order[::FITTED].tolist()]
        before, action, after = (np.concatenate(part) for part in zip(*map(_moves, fitted), strict=True))
        self._centre, self._scale = before.mean(axis=0), before.std(axis=0) + 1e-9
        self._low, self._high = before.min(axis=0), before.max(axis=0)
        x, y = self._inputs(before, action), (after - before) / self._scale
        ridge = RIDGE * len(x) * np.eye(x.shape[1])
        self._weight = np.linalg.solve(x.T @ x + ridge, x.T @ y)
        self._errors = [
            e
            for i in np.delete(order, slice(None, None, FITTED)).tolist()
            if (e := self._error(episodes[i])) is not None
        ]
        self._rng, self._bets, self._usual = rng, Bets(len(POWERS)), float(np.median(self._errors or [0.0]))
        self._recent: list[float] = []

    def _inputs(self, before: Floats, action: Any) -> Floats:
        z = (before - self._centre) / self._scale
        u = np.asarray(action, dtype=np.float64)
        if self._choices is not None:
            u = np.eye(self._choices)[np.asarray(action, dtype=np.int64)][:, 1:]
        line = np.concatenate([np.ones((len(z), 1)), z, u], axis=1)
        if line.shape[1] > CURVED:
            return line
        pairs = np.triu_indices(line.shape[1])  # with 1: the line itself, and all products of two
        return np.asarray(line[:, pairs[0]] * line[:, pairs[1]])

    def _error(self, one: Episode) -> float | None:
        """The median error within the states of the data; None if too few steps are there."""
        before, action, after = _moves(one)
        inside = ((before >= self._low) & (before <= self._high)).all(axis=1)
        if inside.sum() < LEAST_STEPS:
            return None
        y = (after - before)[inside] / self._scale - self._inputs(before[inside], action[inside]) @ self._weight
        return float(np.median(np.sqrt((y**2).mean(axis=1))))

    def __call__(self, episode: Episode) -> str:
        """See `DynamicsWatch`."""
        error = self._error(episode)
        if error is None or len(self._errors) < LEAST_EPISODES // 2:
            return ""
        pool = np.array(self._errors)
        above, equal = int((pool > error).sum()), int((pool == error).sum())
        p = (above + self._rng.random() * (equal + 1)) / (len(pool) + 1)
        self._errors.append(error)
        self._recent = [*self._recent, error][-10:]
        if self._bets.pay([power * max(p, 1e-12) ** (power - 1.0) for power in POWERS]):
            now = float(np.median(self._recent))
            return f"a model of the data predicts steps with {now / max(self._usual, 1e-12):.3g} times its usual error"
        return ""


def _moves(one: Episode) -> tuple[Floats, Any, Floats]:
    """States, actions and next states."""
    states = vectors(one.states)
    n = min(len(one.actions), len(states) - 1)
    return states[:n], one.actions[:n], states[1 : n + 1]


def watch_for(episodes: Sequence[Episode], problem: Problem) -> DynamicsWatch | None:
    """The test for a problem and the data that a run began with; None if they are too few, or states are neither."""
    moved = [one for one in episodes if min(len(one.actions), len(one.states) - 1) > 0]
    if problem.n_states is not None:
        return FiniteWatch(moved, problem) if moved else None
    return VectorWatch(moved, problem) if problem.low is not None and len(moved) >= LEAST_EPISODES else None


def change_note(found: str) -> Note:
    """The sentence for the record."""
    return Note(
        0,
        f"The dynamics are not those of the data: {found} (a false alarm has probability at most {ALARM:g}). What was "
        "learned from the data may be wrong here: begin without them.",
    )
