"""Exact answers of a finite problem by dynamic programming on compressed rows: O(H nnz) per pass.

Legend: Z_h states from which a reset can be avoided for certain from step h on; Abar_h(s) the actions that stay in
Z_{h+1}; V* the best reset-free value; lambda_hat(s) the smallest y >= 0 with max_pi V_r - y V_c = V*(s).
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resetfree.core import AssumptionViolated, Bools, Floats, Ints, InvalidInput, arguments, jit
from resetfree.problems import FiniteMDP, Problem, check_model
from resetfree.problems.continuum import continuum_behind
from resetfree.problems.finite import backward as planning
from resetfree.problems.finite.backward import Model
from resetfree.problems.finite.safety import SafeSets, safe_sets
from resetfree.problems.finite.tabular_policy import LazyPolicy, as_policy, check_policy
from resetfree.theory.oracle import extended_range, nodes
from resetfree.theory.oracle.long_run import LongRunSolution, solve_long_run

SMALLEST_EXPONENT = -900  # of two; floats end at -1022, and some room is left for sums and quotients


@dataclass(frozen=True, eq=False)
class Solution:
    """The oracle's answer for every start.

    Paper: pi*, hat lambda, lambda*, V_r^{pi*}, V_c^*.
    """

    mdp: FiniteMDP = field(repr=False)
    safe: SafeSets = field(repr=False)
    feasible: Bools  # [S] whether a reset-free policy exists from here (reset states: no)
    value: Floats  # [S] V*, nan where infeasible
    policy: NDArray[np.int16]  # [H, S] pi*; where infeasible it minimises the reset probability
    cost: Floats  # [S] least reset probability, exactly 0 where feasible
    starts: NDArray[np.int64]  # feasible starts for which multipliers are requested

    @cached_property
    def safe_actions(self) -> Bools:
        """Abar as Boolean [H, S, A]: actions after which a reset is still avoidable for certain."""
        return np.asarray(self.safe.layers[self.safe.layer_of_step])

    @cached_property
    def lambda_hat(self) -> Floats:
        """[S] smallest optimal multiplier, nan where infeasible or not requested; computed when first read."""
        result = np.full(self.mdp.n_states, np.nan)
        result[self.starts] = _kernel(self.mdp).newton_multipliers(self.mdp.model, self.policy, self.starts)
        return result

    @cached_property
    def long_run(self) -> LongRunSolution:
        """The best average reward of a policy that is never reset, beside the paper's comparator of one episode."""
        return solve_long_run(self.mdp)

    @property
    def lambda_star(self) -> Floats:
        """[S] lambda_hat + 1, the paper's second saddle point."""
        return np.asarray(self.lambda_hat + 1.0)


class Values(NamedTuple):
    """The values of a policy from every start."""

    v_r: Floats  # [S] expected reward of an episode
    v_c: Floats  # [S] probability of a reset in it


def solve(mdp: FiniteMDP, starts: ArrayLike | None = None) -> Solution:
    """Safe sets, V*, pi* and (when read) multipliers of a finite problem.

    starts: states for which `lambda_hat` is computed (default: all feasible ones; each costs a few passes of O(H nnz)).

    >>> import resetfree as rf
    >>> sol = solve(rf.make("grid-v0"))
    >>> float(sol.value[3]), round(float(sol.lambda_hat[2]), 7)
    (8.0, 37.8664632)
    """
    safe = safe_sets(mdp)
    feasible = safe.states(1)
    policy = np.empty((mdp.horizon, mdp.n_states), dtype=np.int16)
    v_r, v_c = np.empty(mdp.n_states), np.empty(mdp.n_states)
    _kernel(mdp).best_restricted(mdp.model, safe.layers, safe.layer_of_step, policy, v_r, v_c)
    if starts is None:
        chosen = np.flatnonzero(feasible)
    else:
        chosen = arguments.array(starts, "'starts' of solve", np.int64).ravel()
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < mdp.n_states):
            raise InvalidInput(f"The 'starts' of solve must be states in 0..{mdp.n_states - 1}. Got {chosen} instead.")
        if not feasible[chosen].all():
            bad = int(chosen[~feasible[chosen]][0])
            why = f"No reset-free policy exists from state {mdp.state_names[bad]} (index {bad}): it has no multiplier."
            raise AssumptionViolated(why, assumption="feasibility", witness=bad)
    v_c[mdp.reset] = 1.0
    value = np.where(feasible, v_r, np.nan)
    return Solution(mdp, safe, feasible, value, policy, cost=v_c, starts=chosen)


def evaluate(mdp: FiniteMDP, policy: ArrayLike) -> Values:
    """V_r and V_c of any Markov policy, exactly, from every start.

    Paper: value function V_{r,h}^pi, V_{c,1}^pi, cost c_h, s^dagger.
    """
    check_model(mdp, "Exact evaluation")
    v_r, v_c = np.empty(mdp.n_states), np.empty(mdp.n_states)
    planning.evaluate(mdp.model, check_policy(policy, mdp), v_r, v_c)
    v_c[mdp.reset] = 1.0
    return Values(v_r, v_c)


class Response(NamedTuple):
    """The maximiser of V_r - y V_c over all policies, from every start."""

    v_r: Floats  # [S]
    v_c: Floats  # [S]
    gain: Floats  # [S] V_r less the baseline's V_r, free of cancellation


class Temptation(NamedTuple):
    """By how much the best of all policies exceeds a baseline under a multiplier, from every start."""

    excess: Floats  # [S] its V_r - y V_c, less the baseline's V_r
    need: Floats  # [S] the multiplier at which it would have no more: (V_r less the baseline's V_r) / V_c


def best_response(mdp: FiniteMDP, multiplier: float, baseline: NDArray[np.int16] | None = None) -> Response:
    """V_r and V_c of the policy that maximises V_r - y V_c over ALL policies, for y = `multiplier`.

    Paper: max_pi V_{r,1}^pi(s) - y V_{c,1}^pi(s).

    baseline: [H, S] actions to which `gain` is relative (default: always the first action); give pi* to get what
    leaving it brings.
    """
    if not multiplier >= 0:
        raise InvalidInput(f"A multiplier must be a number that is not negative. Got {multiplier} instead.")
    if baseline is None:
        baseline = np.zeros((mdp.horizon, mdp.n_states), dtype=np.int16)
    w, gain, v_c = np.empty(mdp.n_states), np.empty(mdp.n_states), np.empty(mdp.n_states)
    planning.best_lagrangian(mdp.model, float(multiplier), baseline, np.empty((0, 0), dtype=np.int16), w, gain, v_c)
    v_c[mdp.reset] = 1.0
    return Response(w + gain, v_c, gain)


def may_underflow(mdp: FiniteMDP) -> bool:
    """Whether a product of this problem's numbers can be too small for a float: a path's probability, or its gain.

    The smallest that is not zero is a reward, or the share of one that is more than rounding, behind the least likely
    path.
    """
    prob, reward = mdp.transition.prob, mdp.reward
    path = mdp.n_transitions * np.log2(prob.min(where=prob > 0, initial=1.0))
    gain = np.log2(reward.min(where=reward > 0, initial=1.0)) + np.log2(planning.EPS)
    return bool(path + gain < SMALLEST_EXPONENT)


def _kernel(mdp: FiniteMDP) -> Any:
    """The module whose passes suit the problem's numbers; both agree bit for bit where nothing underflows."""
    return extended_range if may_underflow(mdp) else planning


def temptation(mdp: FiniteMDP, multiplier: float, baseline: NDArray[np.int16]) -> Temptation:
    """By how much the policy that maximises V_r - y V_c over ALL policies exceeds `baseline` [H, S], for finite y.

    Products of probabilities that underflow count as what they are: nothing is lost in 1e-300 times 1e-300.
    """
    if not 0 <= multiplier < np.inf:
        raise InvalidInput(f"A multiplier must be a finite number that is not negative. Got {multiplier} instead.")
    excess, need = np.empty(mdp.n_states), np.empty(mdp.n_states)
    if may_underflow(mdp):
        extended_range.excess_and_need(mdp.model, float(multiplier), baseline, excess, need)
        return Temptation(excess, need)
    response = best_response(mdp, multiplier, baseline)
    np.subtract(response.gain, multiplier * response.v_c, out=excess)
    need = np.divide(response.gain, response.v_c, out=np.zeros(mdp.n_states), where=response.v_c > 0)
    return Temptation(excess, np.maximum(need, 0.0))


def can_reset(mdp: FiniteMDP, policy: ArrayLike) -> Bools:
    """[S] whether the policy can be reset from each start: V_c > 0, decided on the support."""
    nothing, layer = np.zeros((1, mdp.n_states, mdp.n_actions), dtype=np.bool_), np.zeros(mdp.horizon, dtype=np.int64)
    return planning.may_happen(mdp.model, check_policy(policy, mdp), nothing, layer, True)


def can_leave(mdp: FiniteMDP, policy: ArrayLike, safe: SafeSets) -> Bools:
    """[S] whether the policy can take an action outside Abar from each start, decided on the support."""
    return planning.may_happen(mdp.model, check_policy(policy, mdp), ~safe.layers, safe.layer_of_step, False)


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
