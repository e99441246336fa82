"""What the baselines from reset-free learning share: tabular Q-learning, where steps lead, and epsilon-greedy rows."""

from __future__ import annotations

import numpy as np

from resetfree.core.compiled import jit
from resetfree.problems.contract import Episode
from resetfree.problems.finite.backward import Bools, Floats, Ints


def successors(episode: Episode) -> Ints:
    """[m] the state after each action; after the last one, the start of the next episode."""
    return np.append(episode.states[1 : len(episode.actions)], episode.next_start).astype(np.int64)


def epsilon_greedy(q: Floats, epsilon: float) -> Floats:
    """Rows over the last axis: uniform with probability epsilon, else uniform over the maximisers."""
    best = q == q.max(axis=-1, keepdims=True)
    return np.asarray((1.0 - epsilon) * best / best.sum(axis=-1, keepdims=True) + epsilon / q.shape[-1])


@jit
def learn_backwards(
    q: Floats,  # [L, S, A] changed; one layer for all steps, or one per step (step 1 follows step H)
    n: Ints,  # [L, S, A] changed: how often each was learned from
    states: Ints,  # [m]
    actions: Ints,  # [m]
    successors: Ints,  # [m]
    gains: Floats,  # [m]
    stops: Bools,  # [m] whether nothing comes after
    used: Bools,  # [m] whether to learn from the step
    discount: float,
    rate: float,
) -> None:
    """Backwards, so that what is found at the end of an episode reaches its beginning at once.

    Q += max(rate, 1/n) (gain + discount max Q(s', .) - Q), the maximum left out where nothing comes after.
    """
    n_layers, _, n_actions = q.shape
    for i in range(len(actions) - 1, -1, -1):
        if not used[i]:
            continue
        layer, s, a = i % n_layers, states[i], actions[i]
        target = gains[i]
        if not stops[i]:
            best = q[(i + 1) % n_layers, successors[i], 0]
            for b in range(1, n_actions):
                best = max(best, q[(i + 1) % n_layers, successors[i], b])
            target += discount * best
        n[layer, s, a] += 1
        q[layer, s, a] += max(rate, 1.0 / n[layer, s, a]) * (target - q[layer, s, a])
