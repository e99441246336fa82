"""`grid-v0`: the default problem, twelve cells, two pits in the middle, a near small reward and a far large one."""

from __future__ import annotations

from resetfree.core.settings import Fraction
from resetfree.problems.finite.checks import Horizon
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import STEP, register
from resetfree.problems.zoo.drawn import drawn_mdp


@register(
    "grid-v0",
    "Twelve cells with two pits: the large reward is reached only along their edge, on slippery ground.",
    lambda slip, horizon: (60 + STEP) * horizon,
)
def grid(slip: Fraction = 0.2, horizon: Horizon = 8) -> FiniteMDP:
    """Rows `S..G / .XX. / g..S`: X reset, G pays 1 and g pays 0.3 for acting there, start and restart uniform on S."""
    return drawn_mdp("grid-v0", "S..G/.XX./g..S", slip, horizon, stay=True)
