"""Mirror ascent on tables, which OPDOP and OptPrimalDual share: values of the last policy in the exponent of the next.

Legend: pi^k the policy of round k, Q_r^k and Q_c^k its values on the counts before round k, Y^k the multiplier played.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import log, sqrt
from typing import Any, ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import Bound, NonNegative
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players.method import Build, Method, against
from resetfree.players.requirements import bound_of, check_episodes, no_margin
from resetfree.players.tabular.counts import Counted, counted_values
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.backward import exponential_weights

FAST = 100.0  # factor on the steps in the fast rows of the comparison; one round number for all, not tuned
TRAP = (
    "each state's values are summed over episodes from different starts, so where multipliers differ by start resets "
    "can grow linearly (politex-trap-v0)"
)


@dataclass
class MirrorState:
    """The exponents of the next policy, and what was counted."""

    exponent: Floats  # [H, S, A]
    table: Counted
    step: float = field(metadata={"saved": False})  # of the ascent
    mixing: float = field(metadata={"saved": False})  # weight of the uniform policy before each step
    scale: float = field(metadata={"saved": False})  # of the bonus


class MirrorPlayer(PrimalPlayer[MirrorState]):
    """A player with the settings `scale`, `speed` and `pooled`, and steps of its own."""

    authors: ClassVar[str]  # whose theorem needs what is not there
    prediction: ClassVar[Prediction] = "low"
    scale: float
    speed: float
    pooled: bool

    @abstractmethod
    def steps(self, problem: Problem, episodes: int) -> tuple[float, float]:
        """The step of the ascent, and the weight of the uniform policy before each step."""

    def init(self, problem: Problem, episodes: int, seed: int) -> MirrorState:
        """The uniform policy."""
        step, mixing = self.steps(problem, episodes)
        table = Counted.nothing(problem, self.pooled, self.name)
        return MirrorState(np.zeros((problem.horizon, *table.tried.shape[1:])), table, step, mixing, self.scale)

    def plan(self, state: MirrorState, s1: State, lam: float) -> Plan:
        """The softmax of the exponents; the current multiplier does not enter, only past ones."""
        check_multiplier(lam)
        policy = np.empty(state.exponent.shape)
        exponential_weights(state.exponent, 1.0, policy)
        q_r, q_c = values(state, policy)
        v_r, v_c = float(policy[0, s1] @ q_r[0, s1]), float(policy[0, s1] @ q_c[0, s1])
        return Plan(policy, min(max(v_r, 0.0), float(len(policy))), min(max(v_c, 0.0), 1.0))

    def update(self, state: MirrorState, round: Round) -> MirrorState:
        """pi^{k+1} from pi^k mixed with the uniform policy and the values of what was played; then count."""
        policy = round.plan.policy
        q_r, q_c = values(state, policy)
        if state.mixing > 0.0:
            if round.rests_on < round.k - 1:  # an older policy was played: the step is made from the newest
                policy = np.empty(state.exponent.shape)
                exponential_weights(state.exponent, 1.0, policy)
            state.exponent = np.log((1.0 - state.mixing) * policy + state.mixing / policy.shape[2])
        state.exponent += state.step * (q_r - round.lam * q_c)
        state.table.absorb(round.episode)
        return state

    def not_covered(self, constants: dict[str, Any]) -> Statement:
        """The constants of this run; no theorem covers them."""
        return Statement({**constants, "scale": self.scale}, False, f"{no_margin(self.authors)}; {TRAP}")


def in_two_speeds(name: str, text: str, build: Callable[[float], Build], rank: int) -> list[Method]:
    """As in the original, and with faster steps."""
    fast = f"The same with steps {FAST:g} times as large."
    return [
        Method(name, "baseline", text, build(1.0), rank=rank),
        Method(f"{name}, fast", "baseline", fast, build(FAST), rank=rank),
    ]


def values(state: MirrorState, policy: Floats) -> tuple[Floats, Floats]:
    """Q_r from above and Q_c from below [H, S, A] of a policy, on the counts."""
    q_r, q_c = np.empty(policy.shape), np.empty(policy.shape)
    counted_values(state.table.counts, state.table.n_transitions, state.scale, policy, q_r, q_c)
    return q_r, q_c


@dataclass(frozen=True)
class Opdop(MirrorPlayer):
    """OPDOP, optimistic primal-dual proximal policy optimisation, on tables.

    Original: Ding, Wei, Yang, Wang, Jovanovic, "Provably efficient safe exploration via primal-dual policy
    optimization" (2020), for linear kernel (mixture) models.
    Kept: the policy step with its mixing, the step sizes, and values of the last policy that are optimistic for reward
    and for cost. Its dual is `one-multiplier` with the step 1/sqrt(K).
    Adapted: counts in place of the regression on value-dependent features; a bonus of H scale / sqrt(n) on rewards and
    of scale / sqrt(n) off costs; a cost on arrival in [0, 1] in place of the utility; the multiplier stays in [0, B],
    since the original's interval [0, 2 H / gamma] needs a policy that is safe with a margin gamma; `speed` multiplies
    the step.
    From memory: the constants of the steps, and that round k's values use the data before round k.

    pi^k proportional to pitilde^{k-1} exp(alpha (Q_r^{k-1} - Y^{k-1} Q_c^{k-1})).

    alpha = sqrt(log A) / (H^2 sqrt(K)); pitilde = (1 - theta) pi + theta / A with theta = 1/K.

    scale: of the bonus.  speed: factor on alpha (1 in the original).  pooled: one set of counts for all steps.

    >>> import resetfree as rf
    >>> round(Opdop().statement(rf.make("grid-v0").problem(), 100).constants["alpha"], 6)
    0.001982
    """

    name: ClassVar[str] = "opdop"
    baseline: ClassVar[bool] = True
    authors: ClassVar[str] = "Ding et al."
    scale: NonNegative = 0.1
    speed: NonNegative = 1.0
    pooled: bool = False

    def steps(self, problem: Problem, episodes: int) -> tuple[float, float]:
        """The steps alpha and theta."""
        root = sqrt(check_episodes(episodes, self.name))
        return self.speed * sqrt(log(problem.n_actions)) / (problem.horizon**2 * root), 1.0 / episodes

    @staticmethod
    def methods() -> list[Method]:
        """With its dual."""

        def build(speed: float) -> Build:
            dual = {"feedback": "optimistic", "step": "unit"}
            return lambda s: against(Opdop(**s.own, speed=speed), "one-multiplier", B=s.B, **dual)

        return in_two_speeds("OPDOP", "Ding et al. 2020 on counts: mirror ascent with its own small steps.", build, 11)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The constants of this run; no theorem covers them."""
        alpha, theta = self.steps(problem, episodes)
        return self.not_covered({"alpha": alpha, "theta": theta})


@dataclass(frozen=True)
class OptPrimalDual(MirrorPlayer):
    """OptPrimalDual-CMDP: mirror ascent on the policy with optimistic, truncated values.

    Original: Efroni, Mannor, Pirotta, "Exploration-exploitation in constrained MDPs" (2020), their third algorithm.
    Kept: pi^{k+1} proportional to pi^k exp(t_K (Q_r^k - lam^k Q_c^k)) with truncated optimistic values of pi^k on the
    data before round k; the multiplier lam <- [lam + V_c / t_lam]_+ without a cap (`one-multiplier` with capped=False).
    Adapted: maximised reward in place of minimised cost; one constraint, with threshold zero and a cost on arrival in
    [0, 1]; bonuses of H scale / sqrt(n) on rewards and scale / sqrt(n) off costs, which replace the sums of the
    original's reward and transition bonuses; `speed` multiplies the step.
    From memory: t_K = sqrt(2 log A / (H^2 (1 + rho^2) K)) and t_lam = H sqrt(K) / rho, where rho bounds the best
    multiplier: here B.

    pi^{k+1} proportional to pi^k exp(t_K (Q_r^k - lam^k Q_c^k)), t_K = sqrt(2 log A / (H^2 (1 + B^2) K)).

    B: bound on the multipliers.  scale: of the bonus.  speed: factor on t_K (1 in the original).
    pooled: one set of counts for all steps.

    >>> import resetfree as rf
    >>> round(OptPrimalDual(B=3.0).statement(rf.make("grid-v0").problem(), 100).constants["t_K"], 6)
    0.007092
    """

    name: ClassVar[str] = "opt-primal-dual"
    baseline: ClassVar[bool] = True
    authors: ClassVar[str] = "Efroni et al."
    B: Bound | None = None
    scale: NonNegative = 0.1
    speed: NonNegative = 1.0
    pooled: bool = False

    def steps(self, problem: Problem, episodes: int) -> tuple[float, float]:
        """t_K, and no mixing."""
        B = bound_of(self)
        # B * B is infinite where B**2 raises: a multiplier of 1e200 is what a reset probability of 1e-200 needs.
        squared = problem.horizon**2 * (1.0 + B * B) * check_episodes(episodes, self.name)
        return self.speed * sqrt(2.0 * log(problem.n_actions) / squared), 0.0

    @staticmethod
    def methods() -> list[Method]:
        """With its dual."""

        def build(speed: float) -> Build:
            dual: dict[str, Any] = {"feedback": "optimistic", "capped": False}
            return lambda s: against(OptPrimalDual(s.B, **s.own, speed=speed), "one-multiplier", B=s.B, **dual)

        return in_two_speeds("OptPrimalDual", "Efroni et al. 2020: mirror ascent, no cap.", build, 13)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The constants of this run; no theorem covers them."""
        return self.not_covered({"t_K": self.steps(problem, episodes)[0]})
