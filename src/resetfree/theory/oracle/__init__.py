"""The oracle: exact answers from a known model, by three ways that must agree, and by quadrature on a continuum.

dynamic_programming   read first: the best reset-free value, its policy and lambda_hat of a finite problem; `Evaluator`
linear_program        the same from occupancy measures; `fractions`: the same in exact arithmetic, for small problems
long_run              the best average reward of a life without end; `extended_range`: values beyond the range of floats
quadrature, nodes     problems on the interval [0, 1], and on a cube of any dimension

`solve` picks the method by the type of the problem. Tests hold that the three agree.
"""

from typing import overload

from numpy.typing import ArrayLike

from resetfree.problems import FiniteMDP, check_model
from resetfree.problems.zoo.continuous_box import ContinuousBoxMDP
from resetfree.problems.zoo.continuous_linear import ContinuousLinearMDP
from resetfree.theory.oracle import dynamic_programming, nodes, quadrature
from resetfree.theory.oracle.dynamic_programming import Evaluator as Evaluator
from resetfree.theory.oracle.dynamic_programming import evaluator_of as evaluator_of


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
