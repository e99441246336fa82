"""Algorithm 1 transcribed line by line, with every sum written out: slow, and nothing shared with the fast player.

`data[h]` holds the steps taken at step h as (pair index, reward, successor or None, whether it was a reset).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.problems.contract import Episode

Floats = NDArray[np.float64]
Sample = tuple[int, float, int | None, bool]


class Pass(NamedTuple):
    policy: Floats  # [H, S, A]
    q_r: Floats  # [H, S, A]
    q_c: Floats  # [H, S, A]
    v_r: Floats  # [H, S]
    v_c: Floats  # [H, S]
    width: Floats  # [H, S, A] ||phi|| in the norm of Lam^-1


def record(data: list[list[Sample]], episode: Episode, n_actions: int) -> None:
    """Append the steps of an episode that were really taken."""
    for h, a in enumerate(episode.actions):
        there = h + 1 < len(episode.states)
        reset = episode.reset and h == len(episode.actions) - 1
        data[h].append(
            (
                int(episode.states[h]) * n_actions + int(a),
                float(episode.rewards[h]),
                int(episode.states[h + 1]) if there else None,
                reset,
            )
        )


def backward(
    data: list[list[Sample]], phi: Floats, *, alpha: float, lam: float, beta_r: float, beta_c: float, reg: float = 1.0,
    old: Floats | None = None,
) -> Pass:  # fmt: skip
    """Lines 12-20 at the start of an episode; `old` is the policy of the last one if values are lagged, as printed."""
    n_states, n_actions, d = phi.shape
    horizon = len(data)
    shape = (horizon, n_states, n_actions)
    policy, q_r, q_c, width = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    v_r, v_c = np.zeros((horizon + 1, n_states)), np.zeros((horizon + 1, n_states))
    flat = phi.reshape(-1, d)
    for h in reversed(range(horizon)):
        Lambda = reg * np.eye(d)
        target_r, target_c = np.zeros(d), np.zeros(d)
        for i, r, successor, reset in data[h]:
            Lambda += np.outer(flat[i], flat[i])
            next_r = 0.0 if reset or successor is None else v_r[h + 1, successor]
            next_c = 1.0 if reset else (0.0 if successor is None else v_c[h + 1, successor])
            target_r += flat[i] * (r + next_r)
            target_c += flat[i] * next_c
        inverse = np.linalg.inv(Lambda)
        w_r, w_c = inverse @ target_r, inverse @ target_c
        for s in range(n_states):
            for a in range(n_actions):
                x = phi[s, a]
                width[h, s, a] = np.sqrt(x @ inverse @ x)
                q_r[h, s, a] = max(min(w_r @ x + beta_r * width[h, s, a], horizon - h), 0.0)
                q_c[h, s, a] = max(min(w_c @ x - beta_c * width[h, s, a], 1.0), 0.0)
            score = alpha * (q_r[h, s] - lam * q_c[h, s])
            weights = np.exp(score - score.max())
            policy[h, s] = weights / weights.sum()
            average = policy[h, s] if old is None else old[h, s]
            v_r[h, s] = average @ q_r[h, s]
            v_c[h, s] = average @ q_c[h, s]
    return Pass(policy, q_r, q_c, v_r[:horizon], v_c[:horizon], width)
