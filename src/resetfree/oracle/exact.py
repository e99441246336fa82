"""The exact oracle behind a finite problem, for those who may look: measuring a run, and players that say so."""

from __future__ import annotations

from typing import Any

import numpy as np

from resetfree.errors import NotCertifiable
from resetfree.finite import FiniteMDP
from resetfree.kernels import planning
from resetfree.policy import as_policy
from resetfree.problem import FiniteProblem, Problem


def model_behind(problem: Problem) -> FiniteMDP:
    """The model that a problem hides from learners."""
    if not isinstance(problem, FiniteProblem):
        raise NotCertifiable(f"'{problem.name}' has no exact oracle: it is not a finite problem whose model is known.")
    return problem._mdp


class Evaluator:
    """V_r and V_c of a policy at one start, exactly; buffers are reused, since a run asks once per episode."""

    def __init__(self, mdp: FiniteMDP) -> None:
        self._mdp = mdp
        self._v_r, self._v_c = np.empty(mdp.n_states), np.empty(mdp.n_states)

    def __call__(self, policy: Any, s1: int) -> tuple[float, float]:
        """(V_r, V_c) of `policy` at `s1`."""
        planning.evaluate(self._mdp.model, as_policy(policy, self._mdp), self._v_r, self._v_c)
        return float(self._v_r[s1]), float(self._v_c[s1])
