"""Our linear players: greedy on the composite, variance-weighted, perturbed; the dual is told the realised resets."""

from __future__ import annotations

from typing import Any

from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.players.dual.constant_penalty import ConstantPenalty
from resetfree.players.dual.projected_gradient import ProjectedGradient
from resetfree.players.primal.greedy_composite import GreedyComposite
from resetfree.players.primal.lsvi_ucb_pp import WeightedLSVI
from resetfree.players.primal.perturbed_history import PerturbedHistory
from resetfree.studies.suites.method import Method, Setting


def _greedy(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return GreedyComposite(B=s.B, scale=s.width, pooled=s.pooled), ProjectedGradient(B=s.B), "realised"


def _penalty(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return GreedyComposite(B=s.B, scale=s.width, pooled=s.pooled), ConstantPenalty(B=s.B), "realised"


def _rare(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    primal = GreedyComposite(B=s.B, scale=s.width, pooled=s.pooled, switching="rare")
    return primal, ConstantPenalty(B=s.B), "realised"


def _weighted(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return WeightedLSVI(scale=s.width, pooled=s.pooled, switching="rare"), ConstantPenalty(B=s.B), "realised"


def _monotone(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    primal = WeightedLSVI(scale=s.width, pooled=s.pooled, switching="rare", running=True)
    return primal, ConstantPenalty(B=s.B), "realised"


def _perturbed(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return PerturbedHistory(scale=s.width, pooled=s.pooled), ConstantPenalty(B=s.B), "realised"


METHODS = [
    Method("greedy composite", "ours", "Greedy LSVI-UCB on r - lam c against projected gradient.", _greedy),
    Method("greedy composite, penalty B", "ours", "The same against a constant multiplier B.", _penalty),
    Method("greedy composite, rare", "ours", "The same, planning only when a determinant has doubled.", _rare),
    Method("LSVI-UCB++", "ours", "Variance-weighted LSVI-UCB on r - B c.", _weighted),
    Method("LSVI-UCB++, running bounds", "ours", "The same with the running minimum of the original.", _monotone),
    Method("perturbed history", "ours", "RLSVI on r - B c, the largest of four draws.", _perturbed),
]
