"""`politex-trap-v0`: players that add up values over episodes with different multipliers never stop resetting here."""

from __future__ import annotations

import numpy as np

from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import register
from resetfree.problems.zoo._tables import ANY, table_mdp

STATES = ("A", "s", "B", "b2", "pit")
ACTIONS = ("safe", "risky")


@register("politex-trap-v0", "Frequent harmless starts outvote a rare dangerous one in any player that sums values.")
def politex_trap() -> FiniteMDP:
    """Episodes from A meet s, where "risky" pays 1 and resets; episodes from B never do, and are ten times as frequent.

    With one-hot xi the multiplier of B stays 0, so a sum over episodes of Q_r - lambda(s_1) Q_c favours "risky" at s.
    """
    moves = {
        ("A", ANY): {"s": 1.0},
        ("s", "safe"): {"B": 1.0},
        ("s", "risky"): {"pit": 1.0},
        ("B", ANY): {"b2": 1.0},
        ("b2", ANY): {"B": 0.9, "A": 0.1},
    }
    pay, home = {("s", "risky"): 1.0}, STATES.index("B")
    return table_mdp(
        "politex-trap-v0", STATES, ACTIONS, moves, pay, horizon=2, start=home, restart=home, xi=np.eye(len(STATES))
    )
