"""The paper's assumptions, each a check that returns a witness when it fails, and the repair of what fails."""

from numpy.typing import ArrayLike

from resetfree.core.errors import NotCertifiable
from resetfree.problems.continuum import Continuum
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.safety import (
    AssumptionReport,
    Finding,
    close,
    feasibility,
    largest_closed_set,
    reachable_starts,
    unsafe_pairs,
)
from resetfree.theory.assumptions.linearity import linearity
from resetfree.theory.assumptions.multipliers import check_continuum, dual_class

__all__ = [
    "AssumptionReport",
    "Finding",
    "check",
    "check_continuum",
    "close",
    "dual_class",
    "feasibility",
    "largest_closed_set",
    "linearity",
    "reachable_starts",
    "unsafe_pairs",
]


def check(
    mdp: FiniteMDP | Continuum,
    phi: ArrayLike | None = None,
    xi: ArrayLike | None = None,
    starts: ArrayLike | None = None,
) -> AssumptionReport:
    """All three assumptions; `bool(report)` is True if feasibility holds and no assumption is found to fail.

    On a continuum of states: see `on_continuum.check_continuum`, with the problem's own features and xi = 1.

    phi: [S, A, d] (default: the problem's own, else one-hot).  xi, starts: see `dual_class`.

    >>> import resetfree as rf
    >>> print(check(rf.make("grid-v0")))
    Assumptions of 'grid-v0'
      feasibility: holds. From every reachable start (10) some policy is never reset.
      linearity: holds. One-hot features make every finite problem linear: mu is P itself, with norm sqrt(d), and omega
        is r. Nothing was computed; d = 50.
      dual class: holds. With xi = 1 the least B is the largest lambda_hat + 1 = 38.8664632, at state 0,2; no other xi
        with norm at most 1 has a smaller one.
    """
    if isinstance(mdp, Continuum):
        return check_continuum(mdp)
    if not isinstance(mdp, FiniteMDP):
        raise NotCertifiable(
            f"The assumptions are checked on finite problems, whose model is known. Got {type(mdp).__name__} instead."
        )
    return AssumptionReport(mdp.name, (feasibility(mdp), linearity(mdp, phi), dual_class(mdp, xi, starts)))
