"""What primal players share about the problems that suit them, for `auto`."""

from __future__ import annotations

from resetfree.game.capabilities import Partner, Suited
from resetfree.problems.contract import Problem

AHEAD = 200  # steps that are planned ahead where states are vectors: danger may come slowly


def for_vectors(problem: Problem, rank: float, how: str) -> Suited | None:
    """How a player that plans ahead suits a problem with bounded vectors for states; None for other problems.

    A reset is charged the most that the steps planned can earn.  how: what the player does, as a part of a sentence.
    """
    if problem.actions.n is None or problem.n_states is not None or problem.low is None:
        return None
    ahead = max(AHEAD, problem.horizon)
    charged = f"a reset is charged {ahead}, the most that {ahead} steps can earn"
    why = f"states are vectors of {len(problem.low)}, and {charged}; {how}, {ahead} steps ahead"
    return Suited(rank, why, Partner("constant-penalty", "realised", {"C": float(ahead)}), {"planning": ahead})


def features_words(dimension: int, pooled: bool) -> str:
    """Why players for features of pairs are chosen."""
    data = "pooled over the steps, as the dynamics are stationary" if pooled else "one regression per step"
    return f"features of dimension {dimension} are given, so one pair informs about others; {data}"
