"""`thresholds-v0`: two starts share a state, and would need different policies there if some resets were allowed."""

from __future__ import annotations

from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import register
from resetfree.problems.zoo._tables import ANY, table_mdp

STATES = ("A", "B", "s", "end", "pit")
ACTIONS = ("safe", "risky")


@register(
    "thresholds-v0", "Two starts share one risky state: only the budget of no resets at all has one policy for both."
)
def thresholds() -> FiniteMDP:
    """A leads to s for certain, B half of the time; at s the risky action pays 1 and resets.

    With a budget of 1/2 resets per episode the best probability of "risky" at s is 1/2 from A and 1 from B: no Markov
    policy is optimal for both. With a budget of zero "safe" is optimal for both, at the multiplier 1.
    """
    half = {"A": 0.5, "B": 0.5}
    moves = {
        ("A", ANY): {"s": 1.0},
        ("B", ANY): {"s": 0.5, "end": 0.5},
        ("s", "safe"): {"end": 1.0},
        ("s", "risky"): {"pit": 1.0},
        ("end", ANY): half,
    }
    start = [half.get(name, 0.0) for name in STATES]
    return table_mdp("thresholds-v0", STATES, ACTIONS, moves, {("s", "risky"): 1.0}, horizon=2, start=start)
