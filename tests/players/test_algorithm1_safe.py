"""Algorithm 1 with elimination inside: both theorems, on many problems."""

from __future__ import annotations

import numpy as np
import pytest

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players import make_player
from resetfree.problems.finite.safe_sets import safe_sets
from resetfree.problems.finite.safety import feasibility, unsafe_pairs
from resetfree.theory.certificates import OPTIMISM, RATES, certify

PROBLEMS = [("random-v0", {"seed": s, "n_states": 5, "n_actions": 3, "horizon": 4}) for s in range(8)]


@pytest.mark.parametrize("boundary", ["physical", "literal"])
@pytest.mark.parametrize(("name", "options"), PROBLEMS)
def test_resets_are_at_most_unsafe_pairs_and_the_best_policy_is_never_excluded(
    name: str, options: dict[str, int], boundary: str
) -> None:
    mdp = rf.make(name, **options).replace(boundary=boundary)
    if not feasibility(mdp).holds:
        pytest.skip("some start has no reset-free policy")
    problem = mdp.problem()
    primal, dual = make_player("primal", "algorithm1-safe", {}), make_player("dual", "constant-penalty", {"C": 3.0})
    game = begin(problem, primal, dual, episodes=300, seed=1)
    falls, best = 0, rf.solve(mdp)
    safe = safe_sets(mdp)
    for round in play(problem, primal, dual, episodes=300, game=game):
        falls += round.episode.reset
        assert round.plan.v_c == 0.0
        assert round.plan.upper >= best.value[round.s1] - 1e-9 or falls == 0
        for h in range(1, mdp.n_transitions + 1):
            allowed = game.primal.allowed[min(h, len(game.primal.allowed)) - 1]
            # what an episode can reach without a reset stays allowed where pi* may go
            assert allowed[safe.states(h)].any(axis=1).all()
    assert falls <= unsafe_pairs(mdp, per_step=primal.keeps_steps_apart(problem))
