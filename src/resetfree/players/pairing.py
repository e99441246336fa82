"""How a primal player is played where only it is named: with whom, and with which settings."""

from __future__ import annotations

from typing import Any

from resetfree.game.capabilities import AdaptsToProblem, NamesPartner, Partner
from resetfree.players import discover
from resetfree.problems.contract import Problem

OF_ALGORITHM_1 = Partner("projected-gradient", "optimistic")


def partner_of(primal: Any) -> Partner:
    """The partner that a primal player, or the one of that name, names; else the dual player of Algorithm 1.

    >>> partner_of("uniform").dual
    'projected-gradient'
    """
    player = _known(primal)
    return player.partner() if isinstance(player, NamesPartner) else OF_ALGORITHM_1


def paired(primal: Any, problem: Problem) -> tuple[Partner, dict[str, Any]]:
    """The partner of a named primal player on a problem, and its own settings there.

    A player that is given itself, not by its name or class, has settings already.
    """
    player = _known(primal)
    offer = player.named(problem) if isinstance(player, AdaptsToProblem) else None
    if offer is None:
        return partner_of(primal), {}
    return offer.partner, offer.settings if isinstance(primal, str | type) else {}


def _known(primal: Any) -> Any:
    return discover("primal").get(primal) if isinstance(primal, str) else primal
