"""Optimistic and randomised value iteration on counts, against the fixed penalty C = B.

With no width for the cost, which a comparator that is never reset does not need, the realised dual and the fixed
penalty play nearly the same games (the first reset throws the multiplier close to B); the penalty has the better bound.
"""

from __future__ import annotations

from typing import Any

from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.players.dual.constant_penalty import ConstantPenalty
from resetfree.players.primal.rlsvi import RLSVI
from resetfree.players.primal.ucbvi import UCBVI
from resetfree.studies.suites.method import Method, Setting


def _hoeffding(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return UCBVI("hoeffding", scale=s.width, pooled=s.pooled), ConstantPenalty(B=s.B), "realised"


def _bernstein(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return UCBVI("bernstein", scale=s.width, pooled=s.pooled), ConstantPenalty(B=s.B), "realised"


def _with_cost(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return UCBVI("bernstein", scale=s.width, cost_part=True, pooled=s.pooled), ConstantPenalty(B=s.B), "realised"


def _proved(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return UCBVI("hoeffding", width="theory", pooled=s.pooled), ConstantPenalty(B=s.B), "realised"


def _rlsvi(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return RLSVI(scale=s.width, pooled=s.pooled), ConstantPenalty(B=s.B), "realised"


METHODS = [
    Method("ucbvi, hoeffding", "ours", "Optimistic value iteration on counts, no width for the cost.", _hoeffding),
    Method("ucbvi, bernstein", "ours", "The same with variance-aware widths.", _bernstein),
    Method("ucbvi, bernstein, cost width", "ours", "The same with a variance-aware width for the cost.", _with_cost),
    Method("ucbvi, proved width", "ours", "Hoeffding's width with the proved L.", _proved, widths=(), guaranteed=True),
    Method("rlsvi", "ours", "Randomised value iteration on counts, no noise for the cost.", _rlsvi),
]
