"""OptCMDP: the best policy in the best model that the data allow, subject to the constraint.

Original: Efroni, Mannor, Pirotta, "Exploration-exploitation in constrained MDPs" (2020), their first algorithm: in each
episode a linear program over z_h(s,a,s'), with a Bernstein-type interval for every transition probability.
Kept: the intervals p +- (2 sqrt(p (1 - p) L / n) + 14 L / (3 n)), the bonus sqrt(L / n) on rewards, joint optimism over
  model and policy, and the constraint solved inside the episode; no multiplier.
Adapted: the start is the current s_1^k; the budget of resets is zero, charged on arrival in a state that has been seen
  to be a reset state; mean rewards with their bonus are cut to [0, 1]; where no allowed model has a reset-free policy
  the least reset probability is played (the original's program would have no solution); counts may be pooled.
  With budget zero no program need be solved: a sum of terms that are not negative is zero only if each of them is, so
  pairs that must touch a reset state are dropped and the rest is dynamic programming over intervals, for all starts
  at once. The tests compare it with the linear program.
From memory: the constants of the intervals, and L = ln(4 S^2 A H K / p).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from typing import ClassVar, Literal

import numpy as np

from resetfree.core.errors import InvalidInput
from resetfree.core.settings import NonNegative, Probability
from resetfree.game.contract import Plan, PrimalPlayer, Round, Statement
from resetfree.players.baselines.opt_cmdp_kernel import zero_budget_plan
from resetfree.players.shared.counts import Counted
from resetfree.players.shared.method import Method, penalised
from resetfree.players.shared.requirements import check_episodes, check_multiplier, finite_states
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.mdp import FiniteMDP

LARGEST_PASS = 200_000_000  # H S^2 A, the work of one plan, that is still sensible (about a second)


@dataclass
class OptCmdpState:
    """What was counted."""

    table: Counted
    horizon: int = field(metadata={"saved": False})
    log_term: float = field(metadata={"saved": False})  # L


@dataclass(frozen=True)
class OptCmdp(PrimalPlayer[OptCmdpState]):
    """max over models P allowed by the counts and policies pi of V_r^{pi,P}(s_1^k), subject to V_c^{pi,P}(s_1^k) = 0.

    A pair is given up once its intervals leave no model that avoids the reset states: with a proved L after about 12 L
    resets, with a small tuned one after the first.

    width: "tuned" (L = scale^2, so that an interval is at most about scale / sqrt(n)) or "theory" (L as above).
    scale: of the tuned intervals.  p: failure probability.  pooled: one set of counts for all steps.
    The multiplier is not used: give it a dual that names none.

    >>> import resetfree as rf
    >>> problem = rf.make("grid-v0").problem()
    >>> player = OptCmdp()
    >>> player.plan(player.init(problem, 100, 0), 0, 0.0).v_r
    8.0
    """

    name: ClassVar[str] = "opt-cmdp"
    width: Literal["tuned", "theory"] = "tuned"
    scale: NonNegative = 0.1
    p: Probability = 0.05
    pooled: bool = False

    def log_term(self, problem: Problem, episodes: int) -> float:
        """L, the logarithm in the confidence intervals."""
        n_states, episodes = finite_states(problem, self.name), check_episodes(episodes, self.name)
        if self.width == "tuned":
            return self.scale**2
        return log(4.0 * n_states**2 * problem.n_actions * problem.horizon * episodes / self.p)

    def init(self, problem: Problem, episodes: int, seed: int) -> OptCmdpState:
        """No data yet: every model is allowed."""
        work = problem.horizon * finite_states(problem, self.name) ** 2 * problem.n_actions
        if work > LARGEST_PASS:
            raise InvalidInput(
                f"The player 'opt-cmdp' plans over all triples (s, a, s') of each step, at most {LARGEST_PASS:,} of "
                f"them. Got {work:,} instead."
            )
        log_term = self.log_term(problem, episodes)
        return OptCmdpState(Counted.nothing(problem, self.pooled, self.name), problem.horizon, log_term)

    def plan(self, state: OptCmdpState, s1: State, lam: float) -> Plan:
        """One backward pass; v_c is the least reset probability that an allowed model admits, mostly 0."""
        check_multiplier(lam)
        n_states = state.table.tried.shape[1]
        policy = np.zeros((state.horizon, n_states), dtype=np.int16)
        v_r, v_c = np.empty(n_states), np.empty(n_states)
        zero_budget_plan(state.table.counts, state.table.n_transitions, state.log_term, policy, v_r, v_c)
        earn, cost = min(max(float(v_r[s1]), 0.0), float(state.horizon)), min(max(float(v_c[s1]), 0.0), 1.0)
        return Plan(policy, earn, cost, earn if cost == 0.0 else float("nan"))

    def update(self, state: OptCmdpState, round: Round) -> OptCmdpState:
        """Count the episode."""
        state.table.learn(round.episode)
        return state

    @staticmethod
    def methods() -> list[Method]:
        """Solved inside the episode; it needs no multiplier."""

        def too_large(mdp: FiniteMDP) -> str | None:
            work = mdp.horizon * mdp.n_states**2 * mdp.n_actions
            why = f"it plans over all triples (s, a, s'), and there are {work:,} here"
            return None if work <= LARGEST_PASS else why

        text = "Efroni et al. 2020: best allowed model without resets."
        build = penalised(lambda s: OptCmdp(**s.own), 0.0)
        return [Method("OptCMDP", "baseline", text, build, rank=12, inapplicable=too_large)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Not covered: tuned intervals, or constants that are not proved here."""
        log_term = self.log_term(problem, episodes)
        constants: dict[str, float | str | bool] = {"L": log_term, "width": self.width, "pooled": self.pooled}
        reason = "its intervals are tuned, not proved" if self.width == "tuned" else "its constants are not proved here"
        why = f"no theorem here: that of Efroni et al. is for one start that is the same in every episode, and {reason}"
        return Statement(constants, False, why)
