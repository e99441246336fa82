"""`auto`, as `learn` chooses it, and support elimination with and without a proved width."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from resetfree.core.errors import InvalidInput
from resetfree.game.auto import choose
from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.players import discover, make_player
from resetfree.players.dual.constant_penalty import ConstantPenalty
from resetfree.players.primal.support_elimination import SupportElimination
from resetfree.studies.suites.method import Method, Setting


def _auto(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    if s.problem is None:
        raise InvalidInput("The method 'auto' must be shown a problem to choose by. Got none instead.")
    found = choose(s.problem, discover("primal"), bound_known=True)
    primal = make_player("primal", found.primal, found.settings.get("primal"))
    dual = make_player("dual", found.dual, found.settings.get("dual"))
    told = [replace(p, B=s.B) if getattr(p, "B", 0.0) is None else p for p in (primal, dual)]
    return told[0], told[1], found.feedback


def _elimination(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return SupportElimination(scale=s.width, pooled=s.pooled), ConstantPenalty(C=0.0), "realised"


def _proved(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return SupportElimination(width="theory", pooled=s.pooled), ConstantPenalty(C=0.0), "realised"


METHODS = [
    Method(
        "auto", "ours", "What `learn` chooses by default, with its default widths.", _auto, widths=(), pools=False,
    ),
    Method(
        "support elimination", "ours", "What was seen to lead to a reset is never done again; tuned reward bonus.",
        _elimination, guaranteed=True,
    ),
    Method(
        "support elimination, proved width", "ours", "The same with the reward bonus of its regret bound.",
        _proved, widths=(), guaranteed=True,
    ),
]  # fmt: skip
