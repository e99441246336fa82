"""Three ways to the exact answer that must agree (dynamic programming, linear program, fractions), and quadrature."""

from __future__ import annotations

from typing import overload

from numpy.typing import ArrayLike

from resetfree.problems.finite.mdp import FiniteMDP, check_model
from resetfree.problems.zoo.continuous_box import ContinuousBoxMDP
from resetfree.problems.zoo.continuous_linear import ContinuousLinearMDP
from resetfree.theory.oracle import dynamic_programming, nodes, quadrature


@overload
def solve(mdp: FiniteMDP, starts: ArrayLike | None = None) -> dynamic_programming.Solution: ...
@overload
def solve(mdp: ContinuousLinearMDP) -> quadrature.ContinuousSolution: ...
@overload
def solve(mdp: ContinuousBoxMDP) -> nodes.NodeSolution: ...
def solve(
    mdp: FiniteMDP | ContinuousLinearMDP | ContinuousBoxMDP, starts: ArrayLike | None = None
) -> dynamic_programming.Solution | quadrature.ContinuousSolution | nodes.NodeSolution:
    """The exact answer: `dynamic_programming.solve` for a finite problem, `quadrature.solve` for states in [0, 1].

    For states in [0, 1]^D it is `nodes.solve`, whose error is that of quadrature.

    >>> import resetfree as rf
    >>> float(rf.solve(rf.make("grid-v0")).value[3]), float(rf.solve(rf.make("continuous-linear-v0")).value(0.5)) > 0
    (8.0, True)
    """
    if isinstance(mdp, FiniteMDP):
        return dynamic_programming.solve(mdp, starts)
    if isinstance(mdp, ContinuousBoxMDP):
        return nodes.solve(mdp)
    if not isinstance(mdp, ContinuousLinearMDP):
        check_model(mdp, "The exact answer")
    return quadrature.solve(mdp)
