"""A primal player that makes the costs of a run follow a pattern: dual players' bounds hold for every sequence."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import resetfree as rf
from resetfree.players.tabular.references import Uniform

Floats = NDArray[np.float64]
PATTERNS: dict[str, Callable[[Any, int], Any]] = {  # of rounds 0 .. K - 1
    "always": lambda k, K: np.ones(len(k)),
    "rarely": lambda k, K: 1.0 * (k % 25 == 24),
    "at last": lambda k, K: 1.0 * (k >= K - max(K // 8, 1)),
    "at first": lambda k, K: 1.0 * (k < K // 8),
    "growing": lambda k, K: ((k + 1) / K) ** 2,
    "in turns": lambda k, K: 1.0 * (k // 10 % 2),
    "tiny": lambda k, K: np.full(len(k), 1e-9),
}


def signalling(mdp: rf.FiniteMDP, pattern: str, episodes: int) -> Any:
    """A player that promises nothing, and plays the best safe policy with a part of chance: q_k of the pattern."""
    parts, seen, n = PATTERNS[pattern](np.arange(episodes), episodes), [0], mdp.n_actions
    safe = np.eye(n)[rf.solve(mdp, starts=[]).policy]

    class Signals(Uniform):
        def init(self, *given: Any) -> Any:
            seen[0] = 0
            return super().init(*given)

        def plan(self, state: Any, s1: Any, lam: float) -> rf.Plan:
            q = parts[min(seen[0], episodes - 1)]
            return super().plan(state, s1, lam)._replace(policy=(1 - q) * safe + q / n)

        def update(self, state: Any, round: rf.Round) -> Any:
            seen[0] += 1
            return super().update(state, round)

    return Signals()


def tempting(fall: float) -> rf.FiniteMDP:
    """One state in which the first action is safe and pays nothing, and each of the others pays 1 and may fall."""
    transition = [[[1.0, 0.0], *[[1 - fall, fall]] * 3], [[0.0, 1.0]] * 4]
    return rf.FiniteMDP(transition, [[0.0, 1.0, 1.0, 1.0], [0.0] * 4], [False, True], 1, name="tempting")
