"""What players require of a problem, of a run and of each other before they play; settings have `core.settings`."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from resetfree.core.errors import InvalidInput, NotCertifiable
from resetfree.core.settings import PositiveInt, check
from resetfree.game.contract import Statement
from resetfree.problems.contract import Problem


def finite_states(problem: Problem, name: str) -> int:
    """The number of states S; raises NotCertifiable if states are a continuum."""
    if problem.n_states is None:
        raise NotCertifiable(f"The player '{name}' needs a finite problem. Got a continuum of states instead.")
    return problem.n_states


def sizes(problem: Problem, pooled: bool, name: str) -> tuple[int, int, int]:
    """Layers, states and actions of a table; raises if the problem has no such table."""
    n_states = finite_states(problem, name)
    if pooled and not problem.stationary:
        raise InvalidInput(f"The 'pooled' of {name} must be false for dynamics that change with the step. Got True.")
    return 1 if pooled else problem.horizon, n_states, problem.n_actions


def check_room(problem: Problem, name: str, size: int, of: str, advice: str) -> None:
    """Refuse a player whose data would take more bytes than there is room for; advice: the end of a sentence."""
    if size > problem.room:
        raise InvalidInput(
            f"The player '{name}' keeps {size / 1e9:.1f} GB of {of} for this problem, which must be at most "
            f"{problem.room / 1e9:.0f} GB{advice and f': {advice}'}."
        )


def check_episodes(episodes: int, name: str) -> int:
    """K, for constants that must know it."""
    check(episodes, PositiveInt, f"'episodes' of {name}")
    return episodes


def check_multiplier(lam: float) -> float:
    """`lam` as a float; raises InvalidInput if it is no multiplier."""
    if not (lam >= 0 and isfinite(lam)):
        raise InvalidInput(f"A multiplier must be a finite number that is not negative. Got {lam} instead.")
    return float(lam)


def dyadic(lam: float, bound: float) -> float:
    """The smallest of 0, 1, 2, 4, ... that is not below `lam`, or `bound` if that is closer.

    >>> [dyadic(lam, 5.0) for lam in (0.0, 0.3, 1.0, 1.1, 4.5, 5.0, 7.0)]
    [0.0, 1.0, 1.0, 2.0, 5.0, 5.0, 8.0]
    """
    if lam == 0.0:
        return 0.0
    level = 1.0
    while level < lam:
        level *= 2.0
    return min(level, bound) if lam <= bound else level


def bound_of(player: Any) -> float:
    """B, the player's bound on the multipliers; a run fills it in from the oracle."""
    if player.B is None:
        raise InvalidInput(f"The 'B' of {player.name} must be a bound on the multipliers. Got None instead.")
    return float(player.B)


def covered_unless(lacks: Mapping[str, bool], constants: dict[str, Any], why: str) -> Statement:
    """What is proved and `why`, unless something is missing; lacks: sentences, and whether each is true."""
    if reasons := [reason for reason, missing in lacks.items() if missing]:
        return Statement(constants, False, "no theorem covers this run: " + "; ".join(reasons))
    return Statement(constants, True, why)


def pooled_lacks(problem: Problem, pooled: bool) -> dict[str, bool]:
    """For `covered_unless`: where data of all steps are no samples of one regression of r + V(s').

    An end that alone can be a reset makes V(s') of the last step another function; an action that leads nowhere
    (literal boundary) is a sample without s', which would be taken for one with V(s') = 0.
    """
    words = "data are pooled over the steps, and the"
    return {
        f"{words} end of an episode can call for a reset": pooled and problem.end_resets,
        f"{words} last action of an episode leads nowhere": pooled and problem.n_transitions < problem.horizon,
    }


def no_margin(authors: str, needs: str = "one start and ") -> str:
    """Why a theorem about constrained problems does not apply: what follows is up to the player."""
    none = "a policy that is safe with a margin, and at threshold zero there is none"
    return f"no theorem here: that of {authors} needs {needs}{none}"


def check_restarts(problem: Problem, name: str) -> None:
    """Refuse problems in which a reset episode does not report where the next one starts."""
    if problem.persistent:
        raise NotCertifiable(
            f"The player '{name}' must see where a reset puts the agent. Got '{problem.name}', in which an operator "
            "does that later, instead."
        )
