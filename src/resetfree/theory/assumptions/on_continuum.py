"""The paper's three assumptions on a continuum of states, checked at the nodes of a rule (see `oracle.nodes`)."""

from __future__ import annotations

import numpy as np

from resetfree.problems.continuum import Continuum
from resetfree.problems.finite.safety import AssumptionReport, Finding
from resetfree.theory.oracle import nodes

ROUNDING = 1e-9
EXACT = 5  # nodes in a tenth of a coordinate that integrate the densities exactly


def check_continuum(mdp: Continuum) -> AssumptionReport:
    """Feasibility, linearity and the dual class of constant multipliers.

    >>> import resetfree as rf
    >>> print(check_continuum(rf.make("continuous-linear-v0", dimension=2)))
    Assumptions of 'continuous-linear-v0'
      feasibility: holds. Action 0 never falls, so every state of the continuum admits a reset-free policy.
      linearity: holds. Features lie in the simplex and lead to 3 distributions and the reset state; d = 4.
      dual class: holds. With xi = 1 the least B is the largest lambda_hat + 1 = 8.68174778.
    """
    return AssumptionReport(mdp.name, (feasible(mdp), linear(mdp), constant_multipliers(mdp)))


def feasible(mdp: Continuum) -> Finding:
    """Whether some action never falls, at any node: then no state is a dead end."""
    fall = mdp.rows(nodes.rule(mdp).x)[..., -1].max(axis=0)
    if fall[0] > 0:
        return Finding("feasibility", False, f"Action 0 falls with a probability of up to {fall[0]:.6g}.")
    return Finding(
        "feasibility", True, "Action 0 never falls, so every state of the continuum admits a reset-free policy."
    )


def linear(mdp: Continuum) -> Finding:
    """Whether phi lies in the simplex and every nu_j is a distribution; then |phi| <= 1 and |mu| <= sqrt(d)."""
    at = nodes.rule(mdp, EXACT)
    total = at.volume @ mdp.densities(at.x)
    off = float(np.abs(total - 1.0).max(initial=0.0))
    if at.phi.min() < 0 or np.abs(at.phi.sum(axis=-1) - 1).max() > ROUNDING or off > ROUNDING:
        why = f"Features leave the simplex, or a component has a mass that differs from 1 by {off:.3g}."
        return Finding("linearity", False, why)
    why = f"Features lie in the simplex and lead to {mdp.d - 1} distributions and the reset state; d = {mdp.d}."
    return Finding("linearity", True, why)


def constant_multipliers(mdp: Continuum) -> Finding:
    """The least B for xi = 1: the largest lambda_hat + 1."""
    top = nodes.solve(mdp).largest_multiplier + 1.0
    why = f"With xi = 1 the least B is the largest lambda_hat + 1 = {top:.9g}."
    return Finding("dual class", True, why, detail={"B": top, "largest_lambda_star": top})
