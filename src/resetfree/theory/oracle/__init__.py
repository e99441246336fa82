"""Three ways to the exact answer that must agree (dynamic programming, linear program, fractions), and quadrature."""

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from resetfree.core.arrays import Bools, Floats, Ints
from resetfree.core.compiled import jit
from resetfree.problems.continuum import continuum_behind
from resetfree.problems.contract import Problem
from resetfree.problems.finite import backward as planning
from resetfree.problems.finite.backward import Model
from resetfree.problems.finite.mdp import FiniteMDP, check_model
from resetfree.problems.finite.tabular_policy import LazyPolicy, as_policy
from resetfree.problems.zoo.continuous_box import ContinuousBoxMDP
from resetfree.problems.zoo.continuous_linear import ContinuousLinearMDP
from resetfree.theory.oracle import dynamic_programming, nodes, quadrature


class Evaluator:
    """V_r and V_c of a policy at one start, exactly; buffers are reused, since a run evaluates once per episode.

    Arrays are evaluated backwards from every state. A lazy policy is evaluated forwards, through the states that it can
    be in: with m_h(s) the probability to be in s at step h without a reset so far,
        V_r = sum_h sum_s m_h(s) <pi_h(s), r_h(s)>,  V_c = sum_h (probability to be reset by step h's transition),
    sums of terms that are not negative, in time proportional to the non-zeros that the policy touches.
    """

    def __init__(self, mdp: FiniteMDP) -> None:
        self._mdp = mdp
        self._v_r, self._v_c = np.empty(mdp.n_states), np.empty(mdp.n_states)
        self._forward: tuple[Floats, Bools, Ints] | None = None

    def __call__(self, policy: Any, s1: int) -> tuple[float, float]:
        """(V_r, V_c) of `policy` at `s1`."""
        if not isinstance(policy, np.ndarray) and isinstance(policy, LazyPolicy):  # an array is the common case
            return self._onwards(policy, s1)
        planning.evaluate(self._mdp.model, as_policy(policy, self._mdp), self._v_r, self._v_c)
        return float(self._v_r[s1]), float(self._v_c[s1])

    def _onwards(self, policy: LazyPolicy, s1: int) -> tuple[float, float]:
        mdp, n = self._mdp, self._mdp.n_states
        if self._forward is None:
            self._forward = np.zeros(n), np.zeros(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
        mass, here, listed = self._forward
        states, share = np.array([s1]), np.ones(1)
        v_r = v_c = 0.0
        for h in range(mdp.horizon):
            if mdp.reset[s1]:
                break
            earned, cost, n_next = onwards(mdp.model, h, states, share, policy.rows(h, states), mass, here, listed)
            v_r, v_c = v_r + earned, v_c + cost
            states = np.sort(listed[:n_next])  # memory is then read from front to back
            share = mass[states]
            mass[states], here[states] = 0.0, False
        return v_r, v_c


def evaluator_of(mdp: FiniteMDP | None, problem: Problem) -> Evaluator | nodes.NodeEvaluator | None:
    """The oracle for the values of policies: of a finite model, or of one on a continuum; None if neither is known."""
    if mdp is not None:
        return Evaluator(mdp)
    behind = continuum_behind(problem)
    return None if behind is None else nodes.NodeEvaluator(behind)


@jit
def onwards(
    m: Model,
    h: int,
    states: Ints,  # [n] the states that can be reached at step h, each once
    share: Floats,  # [n] their probabilities
    rows: Floats,  # [n, A] the policy there
    mass: Floats,  # [S] zeros in; probabilities of the next states out
    here: Bools,  # [S] False in; whether a state is listed out
    listed: Ints,  # [S] out: the next states, in the order in which they are met
) -> tuple[float, float, int]:
    """One step of the distribution: its expected reward, the probability of a reset, and the number of next states."""
    earned, cost, n = 0.0, 0.0, 0
    n_actions = rows.shape[1]
    is_reset = m.last_reset if h == m.n_transitions - 1 else m.reset
    for k in range(len(states)):
        s = states[k]
        for a in range(n_actions):
            weight = share[k] * rows[k, a]
            if weight == 0.0:
                continue
            earned += weight * m.reward[m.reward_of_step[h], s, a]
            if h >= m.n_transitions:
                continue
            row = m.row_of_step[h] + s * n_actions + a
            for j in range(m.indptr[row], m.indptr[row + 1]):
                t = m.indices[j]
                if is_reset[t]:
                    cost += weight * m.prob[j]
                    continue
                if not here[t]:
                    here[t], listed[n] = True, t
                    n += 1
                mass[t] += weight * m.prob[j]
    return earned, cost, n


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
