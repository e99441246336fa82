"""The paper's Algorithm 1, and its primal player against other duals: fixed penalties, and none."""

from __future__ import annotations

from typing import Any

from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.players.dual.constant_penalty import ConstantPenalty
from resetfree.players.dual.projected_gradient import ProjectedGradient
from resetfree.players.primal.linear_ucb import LinearUCB
from resetfree.studies.suites.method import Method, Setting


def _primal(s: Setting, reg: float | None = None) -> LinearUCB:
    return LinearUCB(B=s.B, scale=s.width, pooled=s.pooled, reg=reg)


def _algorithm1(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return _primal(s, reg=1.0), ProjectedGradient(B=s.B), "optimistic"


def _small_ridge(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return _primal(s), ProjectedGradient(B=s.B), "optimistic"


def _realised(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return _primal(s), ProjectedGradient(B=s.B), "realised"


def _penalty(factor: float) -> Any:
    def build(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
        return (
            LinearUCB(B=max(factor, 1.0) * s.B, scale=s.width, pooled=s.pooled),
            ConstantPenalty(C=factor * s.B),
            "realised",
        )

    return build


METHODS = [
    Method("algorithm 1", "paper", "Softmax LSVI-UCB against projected gradient, ridge 1, tuned width.", _algorithm1),
    Method("algorithm 1, ridge b^2", "paper", "The same with the ridge of our tuned default.", _small_ridge),
    Method("algorithm 1, realised", "paper", "The same, the dual told the realised resets.", _realised),
    Method("fixed penalty B/4", "baseline", "Its primal player against a constant multiplier B/4.", _penalty(0.25)),
    Method("fixed penalty B", "baseline", "Its primal player against a constant multiplier B.", _penalty(1.0)),
    Method("fixed penalty 4B", "baseline", "Its primal player against a constant multiplier 4B.", _penalty(4.0)),
    Method("no constraint", "baseline", "Its primal player with multiplier zero: resets are free.", _penalty(0.0)),
]
