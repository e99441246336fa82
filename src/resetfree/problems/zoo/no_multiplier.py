"""`no-multiplier-v0`: the finer the state space, the larger the multiplier; in the limit no multiplier is optimal."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from resetfree.core.settings import Fraction, PositiveInt
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import Size, register

ACTIONS = ("safe", "risky")


@register(
    "no-multiplier-v0",
    "A linear problem whose optimal multiplier grows with the square of the number of bins.",
    lambda bins, gap: Size((bins + 2) ** 2),
)
def no_multiplier(bins: PositiveInt = 10, gap: Fraction = 0.0) -> FiniteMDP:
    """From s1 to a uniform x; there "safe" pays 0 and draws a new x, "risky" pays 1 and resets with probability q(x).

    q(x) = max(x^2, gap) at the middle of each bin; without a reset "risky" goes back to s1. Two actions per episode.
    lambda_hat = 1 / min q = min(4 bins^2, 1 / gap) at every state: it grows with `bins` unless there is a gap.
    Linear with d = 3: phi(x, risky) = (q, 1 - q, 0), all else (0, 0, 1); the pit, without actions, has zeros.
    """
    odd = 2 * np.arange(bins) + 1
    square = odd**2 / (4 * bins**2)  # one division: the float nearest to the fraction
    rest = (4 * bins**2 - odd**2) / (4 * bins**2)
    q, not_q = np.maximum(square, gap), np.where(square >= gap, rest, 1.0 - gap)
    pit = bins + 1
    measures = np.zeros((3, bins + 2))  # where each feature leads: the pit, s1, a uniform x
    measures[0, pit] = measures[1, 0] = 1.0
    measures[2, 1:pit] = 1.0 / bins
    phi = np.zeros((bins + 2, 2, 3))
    phi[:pit, :, 2] = 1.0
    phi[1:pit, 1] = np.stack([q, not_q, np.zeros(bins)], axis=1)
    return FiniteMDP(
        sparse.csr_array(phi.reshape(-1, 3)) @ sparse.csr_array(measures),
        phi @ np.array([1.0, 1.0, 0.0]),
        reset=np.arange(bins + 2) == pit,
        horizon=2,
        start=0,
        phi=phi,
        name="no-multiplier-v0",
        state_names=["s1", *(f"x={i}/{2 * bins}" for i in odd), "pit"],
        action_names=ACTIONS,
    )
