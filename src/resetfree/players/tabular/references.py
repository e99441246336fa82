"""The two ends of a comparison: the player that learns nothing, and the one that knows the model."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Floats
from resetfree.game.capabilities import PlanAges, PrimalRegretBound
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players import Method, penalised
from resetfree.problems import Problem, State, model_behind
from resetfree.problems.finite.backward import Model, best_lagrangian
from resetfree.theory.oracle.dynamic_programming import solve


@dataclass
class UniformState:
    """Nothing is learned; the policy is made once."""

    rows: Floats = field(metadata={"saved": False})  # [H, S, A], or [A] where states are not finite


@dataclass(frozen=True)
class Uniform(PrimalPlayer[UniformState]):
    """The player that learns nothing: every action equally likely, whatever the multiplier. A floor for comparisons.

    pi_h(a|s) = 1 / A.

    Its v_r = 0 and v_c = 0 are no estimates: it has none, and these are the numbers that promise nothing.

    >>> import resetfree as rf
    >>> player = Uniform()
    >>> player.plan(player.init(rf.make("grid-v0").problem(), 10, 0), 0, 1.0).policy[0, 0].tolist()
    [0.2, 0.2, 0.2, 0.2, 0.2]
    """

    name: ClassVar[str] = "uniform"
    prediction: ClassVar[Prediction] = "none"
    learns: ClassVar[bool] = False

    def init(self, problem: Problem, episodes: int, seed: int) -> UniformState:
        """The policy, in the form that the problem takes."""
        lead = () if problem.n_states is None else (problem.horizon, problem.n_states)
        return UniformState(np.full((*lead, problem.n_actions), 1.0 / problem.n_actions))

    def plan(self, state: UniformState, s1: State, lam: float) -> Plan:
        """The same for every start and multiplier."""
        rows = state.rows
        return Plan(rows if rows.ndim == 3 else lambda h, s: rows, 0.0, 0.0)

    def update(self, state: UniformState, round: Round) -> UniformState:
        """Nothing is learned."""
        return state

    @staticmethod
    def methods() -> list[Method]:
        """The floor of every comparison."""
        build = penalised(lambda s: Uniform(), 0.0)
        return [Method("uniform", "baseline", "Every action equally likely.", build, rank=59, widths=(), pools=False)]


@dataclass
class BestResponseState:
    """Nothing is learned: the model is known."""

    model: Model = field(metadata={"saved": False})
    safe: NDArray[np.int16] = field(metadata={"saved": False})  # [H, S] pi*, to which gains are relative


@dataclass(frozen=True)
class BestResponse(PrimalPlayer[BestResponseState]):
    """The player that knows the model: the exact best answer to every multiplier. For experiments with dual players.

    pi^k = argmax_pi V_r^pi - lam^k V_c^pi by dynamic programming on the true model; ties go to smaller V_c.

    It is the best at every state and step, so its policy depends on the multiplier alone and not on the start. It is
    no learner: it reads the model, and refuses problems that have no exact oracle.

    >>> import resetfree as rf
    >>> player = BestResponse()
    >>> state = player.init(rf.make("politex-trap-v0").problem(), 10, 0)
    >>> [(plan.v_r, plan.v_c) for plan in (player.plan(state, 0, lam) for lam in (0.5, 1.0))]
    [(1.0, 1.0), (0.0, 0.0)]
    """

    name: ClassVar[str] = "best-response"

    def init(self, problem: Problem, episodes: int, seed: int) -> BestResponseState:
        """Read the exact model; raises if the problem has none."""
        mdp = model_behind(problem)
        return BestResponseState(mdp.model, solve(mdp, starts=[]).policy)

    def plan(self, state: BestResponseState, s1: State, lam: float) -> Plan:
        """One backward pass; `upper` is V_r - lam V_c at s1, which is at least V*(s1) where a multiplier exists."""
        check_multiplier(lam)
        horizon, n_states = state.safe.shape
        policy = np.empty((horizon, n_states), dtype=np.int16)
        w, gain, v_c = np.empty(n_states), np.empty(n_states), np.empty(n_states)
        best_lagrangian(state.model, float(lam), state.safe, policy, w, gain, v_c)
        earned, cost = float(w[s1] + gain[s1]), float(v_c[s1])
        return Plan(policy, min(max(earned, 0.0), float(horizon)), min(max(cost, 0.0), 1.0), earned - lam * cost)

    def update(self, state: BestResponseState, round: Round) -> BestResponseState:
        """Nothing is learned: the model is known."""
        return state

    def primal_regret_bound(self, problem: Problem, episodes: int, rounds: int) -> PrimalRegretBound:
        """No policy is better in any round."""
        return PrimalRegretBound(0.0)

    def delayed_regret_bound(self, problem: Problem, episodes: int, ages: PlanAges) -> PrimalRegretBound:
        """Nor if the plan is old: the policy is best from every start under the multiplier that it is played with."""
        return PrimalRegretBound(0.0)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Its regret against any policy is at most zero in every round."""
        why = "an exact maximiser of V_r - lam V_c has primal regret at most 0 (it is given the model)"
        return Statement({}, True, why)
