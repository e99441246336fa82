"""The two tables of Triple-Q (Wei, Liu, Ying 2021): optimistic Q-learning of reward and of utility.

Legend: h from 0; Q, C [H, S, A] in [0, H], reward and utility still to come; the utility of an episode is H without a
reset and 0 with one; n visits since the frame began; chi of the learning rate (chi + 1) / (chi + n).
"""

from __future__ import annotations

from math import sqrt

from resetfree.core.compiled import jit
from resetfree.problems.finite.backward import Floats, Ints


@jit
def learn_tables(
    q: Floats,
    c: Floats,
    n: Ints,
    chi: float,
    bonus: float,
    states: Ints,  # [m or m + 1]
    actions: Ints,  # [m]
    rewards: Floats,  # [m]
    reset: bool,
) -> None:
    """One episode, first step first: each step learns from the entry that the next one has not changed yet."""
    top = float(len(q))
    for h in range(len(actions)):
        s, a = states[h], actions[h]
        v, w = 0.0, top
        if h + 1 < len(actions):
            v, w = q[h + 1, states[h + 1], actions[h + 1]], c[h + 1, states[h + 1], actions[h + 1]]
        elif reset:
            w = 0.0
        n[h, s, a] += 1
        rate = (chi + 1.0) / (chi + n[h, s, a])
        more = bonus * sqrt(rate)
        q[h, s, a] = min(max((1.0 - rate) * q[h, s, a] + rate * (rewards[h] + v + more), 0.0), top)
        c[h, s, a] = min(max((1.0 - rate) * c[h, s, a] + rate * (w + more), 0.0), top)


@jit
def start_frame(q: Floats, c: Floats, n: Ints, lift: float) -> None:
    """Forget the visits and raise Q by `lift`, both tables back at H where they reach it."""
    top = float(len(q))
    n[...] = 0
    for h in range(q.shape[0]):
        for s in range(q.shape[1]):
            for a in range(q.shape[2]):
                q[h, s, a] = min(q[h, s, a] + lift, top)
                c[h, s, a] = min(c[h, s, a], top)
