"""Which players the batched engine knows, and how several of them become one program with numbers per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from resetfree.core.errors import InvalidInput
from resetfree.players.dual.constant_penalty import ConstantPenalty
from resetfree.players.dual.counting import Counting
from resetfree.players.dual.one_multiplier import OneMultiplier
from resetfree.players.dual.projected_gradient import ProjectedGradient
from resetfree.players.primal.greedy_composite import GreedyComposite
from resetfree.players.primal.linear_ucb import LinearUCB
from resetfree.players.primal.support_elimination import SupportElimination
from resetfree.players.primal.ucbvi import UCBVI
from resetfree.players.shared.batched.batched_duals import Count, Gradient, One, Penalty
from resetfree.players.shared.batched.batched_greedy import Greedy
from resetfree.players.shared.batched.batched_optimistic import Optimistic
from resetfree.players.shared.batched.batched_softmax import Softmax
from resetfree.problems.contract import Problem

PRIMAL: dict[type, Any] = {
    LinearUCB: Softmax, GreedyComposite: Greedy, UCBVI: Optimistic, SupportElimination: Optimistic,
}  # fmt: skip
DUAL: dict[type, Any] = {ProjectedGradient: Gradient, ConstantPenalty: Penalty, Counting: Count, OneMultiplier: One}


def refused(player: Any, known: dict[type, Any]) -> InvalidInput:
    """The sentence for a player that the engine does not know; a subclass of a known one may do something else."""
    names = ", ".join(sorted(cls.name for cls in known))  # type: ignore[attr-defined]
    what = getattr(player, "name", type(player).__name__)
    return InvalidInput(f"The batched engine plays {names}. Got '{what}' instead.")


def together(
    players: Sequence[Any], known: dict[type, Any], problem: Problem, episodes: int
) -> tuple[Any, list[dict[str, Any]]]:
    """One static part for all players, and the numbers of each; they must be of one kind."""
    parts = []
    for player in players:
        if type(player) not in known:
            raise refused(player, known)
        parts.append(known[type(player)].read(player, problem, episodes))
    for player, (static, _) in zip(players, parts, strict=True):
        if type(player) is not type(players[0]) or static != parts[0][0]:
            raise InvalidInput(
                f"The settings of one batch must differ in numbers only. Got {players[0]} and {player} instead."
            )
    return parts[0][0], [numbers for _, numbers in parts]


def per_row(numbers: Sequence[dict[str, Any]], setting: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Numbers as [rows], by the setting of each row; arrays are the same for all settings."""
    result: dict[str, Any] = {}
    for name, value in numbers[0].items():
        if isinstance(value, np.ndarray):
            result[name] = value
        else:
            result[name] = np.array([float(each[name]) for each in numbers])[setting]
    return result
