"""`drifting-v0`: a linear MDP whose dynamics change with the step, and its stationary twin: a test of pooling."""

from __future__ import annotations

from resetfree.core.settings import Count, PositiveInt
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import register
from resetfree.problems.zoo._options import LAYER, Horizon
from resetfree.problems.zoo.random_linear import AtLeastTwo, simplex_mdp


@register(
    "drifting-v0",
    "A random linear MDP whose dynamics are drawn anew for each step of the episode.",
    lambda n_states, n_actions, d, horizon, **_: (n_states * n_actions * (16 * n_states + d) + LAYER) * horizon,
)
def drifting(
    n_states: AtLeastTwo = 30,
    n_actions: PositiveInt = 4,
    d: AtLeastTwo = 6,
    horizon: Horizon = 6,
    seed: Count = 1,
    risk_pays: bool = True,
    stationary: bool = False,
) -> FiniteMDP:
    """As `random-linear-v0`, with new measures nu_h at each step h; features, rewards and risks stay.

    stationary: whether all steps have nu_1: the twin, equal to `random-linear-v0` with the same options.
    """
    n_layers = 1 if stationary else horizon
    return simplex_mdp(
        "drifting-v0", n_states, n_actions, d, horizon, seed=seed, risk_pays=risk_pays, n_layers=n_layers
    )
