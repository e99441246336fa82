"""`support-elimination` for many rows at once: the program of the players on counts, inside the allowed actions."""

from typing import cast

from resetfree.core import InvalidInput
from resetfree.players import BatchedForm
from resetfree.players.elimination import EliminationState
from resetfree.players.elimination.support_elimination import SupportElimination
from resetfree.players.tabular.batched import Optimistic, learned_ties
from resetfree.problems import Problem


def support_form(player: SupportElimination, problem: Problem, episodes: int) -> BatchedForm:
    """The same counts and sets in every row; planning beyond the episode has no batched form."""
    if player.objective != "episode":
        must = "The batched engine plays 'support-elimination' with objective='episode' only."
        raise InvalidInput(f"{must} Got 'long-run' instead.")
    ties, fresh = learned_ties(player.name, player.ties), cast(EliminationState, player.init(problem, episodes, 0))
    data, layers = fresh.data, len(fresh.allowed)
    noisy = data.noise > 0
    program = Optimistic(len(data.tried), player.form, ties, noisy, allowed_layers=layers, endless=fresh.endless)
    return BatchedForm(program, {"log_term": data.log_term, "noise": data.noise, "cost_part": 0.0})
