"""What the baselines from reset-free learning share: where steps lead, and epsilon-greedy rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from resetfree.problems.contract import Episode
from resetfree.problems.finite.transitions import Floats


def successors(episode: Episode) -> NDArray[np.int64]:
    """[m] the state after each action; after the last one, the start of the next episode."""
    return np.append(episode.states[1 : len(episode.actions)], episode.next_start).astype(np.int64)


def epsilon_greedy(q: Floats, epsilon: float) -> Floats:
    """Rows over the last axis: uniform with probability epsilon, else uniform over the maximisers."""
    best = q == q.max(axis=-1, keepdims=True)
    return np.asarray((1.0 - epsilon) * best / best.sum(axis=-1, keepdims=True) + epsilon / q.shape[-1])
