"""With whom a primal player is played where only it is named."""

from __future__ import annotations

from typing import Any

from resetfree.game.capabilities import NamesPartner, Partner
from resetfree.players import discover

OF_ALGORITHM_1 = Partner("projected-gradient", "optimistic")


def partner_of(primal: Any) -> Partner:
    """The partner that a primal player, or the one of that name, names; else the dual player of Algorithm 1.

    >>> partner_of("uniform").dual
    'projected-gradient'
    """
    player = discover("primal").get(primal) if isinstance(primal, str) else primal
    return player.partner() if isinstance(player, NamesPartner) else OF_ALGORITHM_1
