"""`auto`: the players that suit a problem, and why. Each player ranks itself for it; the highest rank is taken."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from resetfree.core.errors import InvalidInput
from resetfree.game.capabilities import Suits
from resetfree.problems.contract import LIST_THEM, Problem


@dataclass(frozen=True)
class Choice:
    """Two players, the dual player's feedback, their settings, and the reason in one sentence."""

    primal: str
    dual: str
    feedback: str
    why: str
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)


def choose(problem: Problem, players: Mapping[str, Any], *, bound_known: bool, before: str | None = None) -> Choice:
    """The players of `auto`.

    players: the classes of primal players by name, as `discover("primal")`; of two with one rank the first is taken.
    bound_known: whether a bound B on the multipliers is given or can be computed by an oracle.
    before: the player of a run that goes on, which is kept if it suits: what is installed since changes no run.

    >>> import resetfree as rf
    >>> from resetfree.players import discover
    >>> choose(rf.make("grid-v0").problem(), discover("primal"), bound_known=True).feedback
    'realised'
    """
    ranked = {name: player for name, player in players.items() if isinstance(player, Suits)}
    answers = {name: player.suits(problem, bound_known=bound_known) for name, player in ranked.items()}
    offers = {name: offer for name, offer in answers.items() if offer is not None}
    if not offers and problem.actions.n is None:
        raise InvalidInput(
            f"'auto' has no player for '{problem.name}', whose actions are {problem.actions} and whose states are "
            f"{'no vectors' if problem.low is None else 'vectors with dynamics that change with the step'}. "
            f"{LIST_THEM} Or name a player that takes them as they are."
        )
    if not offers:
        raise InvalidInput(
            f"'auto' chooses players for states that are counted or vectors. Got '{problem.name}' instead."
        )
    primal, best = max(offers.items(), key=lambda one: (one[0] == before, one[1].rank))
    settings = {"primal": best.settings, "dual": best.partner.settings}
    return Choice(
        primal=primal,
        dual=best.partner.dual,
        feedback=best.partner.feedback,
        why=best.why,
        settings={role: own for role, own in settings.items() if own},
    )
