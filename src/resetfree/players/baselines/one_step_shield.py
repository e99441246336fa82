"""A shield with one step of lookahead: it forbids the actions that can be reset at the very next step, and no others.

Kept: the idea of one-step safety filters, whose constraint is on the next step's cost alone (as in Amani, Thrampoulidis
and Yang 2021), inside which an optimistic learner maximises rewards. Adapted: the one-step support is given by the
oracle, so that nothing but the missing foresight can be blamed; where every action can be reset at once, all are
allowed. From memory: nothing beyond UCBVI's form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from resetfree.core.settings import NonNegative
from resetfree.game.contract import Plan, PrimalPlayer, Round, Statement
from resetfree.players.baselines.shielded_kernel import one_step_actions, shielded_plan
from resetfree.players.shared.counts import Counted
from resetfree.players.shared.method import Method, penalised
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.mdp import model_behind
from resetfree.problems.finite.transitions import Bools


@dataclass
class OneStepShieldState:
    """Counts, and the shield."""

    seen: Counted
    allowed: Bools = field(metadata={"saved": False})  # [H, S, A]


@dataclass(frozen=True)
class OneStepShield(PrimalPlayer[OneStepShieldState]):
    """UCBVI on rewards among actions whose next step cannot be a reset; the multiplier does not enter.

    Where a danger lies several steps ahead (`doors-v0`) it walks into it, as rewards are good and no single step can be
    reset, and is reset episode after episode.

    scale: of the bonus scale H / sqrt(n).  pooled: one set of counts for all steps (stationary problems).

    >>> import resetfree as rf
    >>> player = OneStepShield()
    >>> state = player.init(rf.make("doors-v0").problem(), 10, 0)
    >>> state.allowed[0, 0].tolist()  # the fork: both doors are allowed
    [True, True]
    """

    name: ClassVar[str] = "one-step-shield"
    scale: NonNegative = 0.1
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> OneStepShieldState:
        """Read the support of single steps from the exact model."""
        seen = Counted.nothing(problem, self.pooled, self.name)
        mdp = model_behind(problem)
        allowed = np.empty((mdp.horizon, mdp.n_states, mdp.n_actions), dtype=np.bool_)
        one_step_actions(mdp.model, allowed)
        return OneStepShieldState(seen, allowed)

    def plan(self, state: OneStepShieldState, s1: State, lam: float) -> Plan:
        """One backward pass; it has no estimate of V_c, and v_c = 0 promises nothing."""
        horizon, n_states, _ = state.allowed.shape
        policy, v_r = np.empty((horizon, n_states), dtype=np.int16), np.empty(n_states)
        beta, steps = self.scale * horizon, np.arange(horizon)
        shielded_plan(state.seen.counts, state.seen.n_transitions, beta, state.allowed, steps, policy, v_r)
        return Plan(policy, float(v_r[s1]), 0.0)

    def update(self, state: OneStepShieldState, round: Round) -> OneStepShieldState:
        """Count the steps of the episode."""
        state.seen.learn(round.episode)
        return state

    @staticmethod
    def methods() -> list[Method]:
        """A shield with one step of lookahead."""
        build = penalised(lambda s: OneStepShield(**s.own), 0.0)
        text = "UCBVI among actions that cannot be reset at the next step."
        return [Method("one-step shield", "oracle", text, build, rank=57)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved."""
        why = "no theorem: a state from which a reset is certain later may be entered (given the one-step support)"
        return Statement({"scale": self.scale, "pooled": self.pooled, "oracle": True}, False, why)
