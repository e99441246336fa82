"""A shield with one step of lookahead: it forbids the actions that can be reset at the very next step, and no others.

Kept: the idea of one-step safety filters, whose constraint is on the next step's cost alone (as in Amani, Thrampoulidis
and Yang 2021), inside which an optimistic learner maximises rewards. Adapted: the one-step support is given by the
oracle, so that nothing but the missing foresight can be blamed; where every action can be reset at once, all are
allowed. From memory: nothing beyond UCBVI's form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from resetfree.core.settings import NonNegative
from resetfree.game.contract import Statement
from resetfree.players.method import Method, penalised
from resetfree.players.tabular.counts import Counted
from resetfree.players.tabular.shield import ShieldPlayer, ShieldState, one_step_safe
from resetfree.problems.contract import Problem
from resetfree.problems.finite.mdp import model_behind


@dataclass(frozen=True)
class OneStepShield(ShieldPlayer):
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
    baseline: ClassVar[bool] = True
    scale: NonNegative = 0.1
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> ShieldState:
        """Read the support of single steps from the exact model."""
        seen = Counted.nothing(problem, self.pooled, self.name)
        return ShieldState(seen, one_step_safe(model_behind(problem)), np.arange(problem.horizon))

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
