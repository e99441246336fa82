"""Shielding with known support: an optimistic learner that is let choose among the truly safe actions only.

Kept: the shield of safe reinforcement learning via shielding (Alshiekh et al. 2018), which passes exactly the actions
after which a reset is still avoidable for certain; inside, optimistic value iteration (UCBVI, Azar et al. 2017) on
rewards alone. Adapted: the shield comes from the oracle's safe sets and so needs the true support, which no other
learner has; the bonus is scale H / sqrt(n). From memory: UCBVI's form; its constants are not used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.settings import NonNegative
from resetfree.game.contract import Plan, PrimalPlayer, Round, Statement
from resetfree.players.baselines.shielded_kernel import shielded_plan
from resetfree.players.shared.counts import Counted
from resetfree.players.shared.method import Method, penalised
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.mdp import model_behind
from resetfree.problems.finite.safe_sets import safe_sets
from resetfree.problems.finite.safety import reachable_starts
from resetfree.problems.finite.transitions import Bools


@dataclass
class OracleShieldState:
    """Counts, and the shield."""

    seen: Counted
    allowed: Bools = field(metadata={"saved": False})  # [n, S, A] Abar
    layer_of_step: NDArray[np.int64] = field(metadata={"saved": False})  # [H]
    shape: tuple[int, int] = field(metadata={"saved": False})  # H, S


@dataclass(frozen=True)
class OracleShield(PrimalPlayer[OracleShieldState]):
    """UCBVI on rewards within Abar_h(s); the multiplier does not enter. The lower envelope of resets: none at all.

    scale: of the bonus scale H / sqrt(n).  pooled: one set of counts for all steps (stationary problems).

    >>> import resetfree as rf
    >>> player = OracleShield()
    >>> player.statement(rf.make("grid-v0").problem(), 100).covered
    True
    """

    name: ClassVar[str] = "oracle-shield"
    scale: NonNegative = 0.1
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> OracleShieldState:
        """Read the safe actions from the exact model."""
        seen = Counted.nothing(problem, self.pooled, self.name)
        mdp = model_behind(problem)
        safe = safe_sets(mdp)
        return OracleShieldState(seen, safe.layers, safe.layer_of_step, (mdp.horizon, mdp.n_states))

    def plan(self, state: OracleShieldState, s1: State, lam: float) -> Plan:
        """One backward pass; v_c = 0 is what the shield promises."""
        policy, v_r = np.empty(state.shape, dtype=np.int16), np.empty(state.shape[1])
        beta = self.scale * state.shape[0]
        shielded_plan(
            state.seen.counts, state.seen.n_transitions, beta, state.allowed, state.layer_of_step, policy, v_r
        )
        return Plan(policy, float(v_r[s1]), 0.0)

    def update(self, state: OracleShieldState, round: Round) -> OracleShieldState:
        """Count the steps of the episode."""
        state.seen.learn(round.episode)
        return state

    @staticmethod
    def methods() -> list[Method]:
        """The oracle line of the comparison: no resets."""
        text = "UCBVI among the truly safe actions: no resets at all."
        build = penalised(lambda s: OracleShield(**s.own), 0.0)
        return [Method("shield with known support", "oracle", text, build, rank=56, guaranteed=True)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """No resets on any path, if every start that can occur has a reset-free policy."""
        mdp = model_behind(problem)
        starts = reachable_starts(mdp).states
        constants: dict[str, float | str | bool] = {"scale": self.scale, "pooled": self.pooled, "oracle": True}
        if (starts & ~safe_sets(mdp).states(1)).any():
            return Statement(constants, False, "some start that can occur has no reset-free policy")
        return Statement(
            constants, True, "only actions of Abar are played, so no path has a reset (given the support; regret tuned)"
        )
