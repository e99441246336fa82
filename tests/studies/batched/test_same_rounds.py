"""The batched engine plays the rounds of the reference engine, for every player it knows on every kind of problem."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from tests.studies.batched.same_rounds import assert_same_rounds, players

import resetfree as rf
from resetfree.players.linear.algorithm1 import algorithm1
from resetfree.problems.finite.composed import with_contexts

# Each primal player meets each dual player and each problem once: a Latin square, half of which is quick enough for
# every day (each program takes seconds to compile).
SQUARE = [
    ("linear-ucb", "projected-gradient", "pits-v0"),
    ("linear-ucb", "constant-penalty", "coin-chain-v0"),
    ("greedy-composite", "constant-penalty", "pits-v0"),
    ("greedy-composite", "counting", "random-linear-v0"),
    ("ucbvi", "projected-gradient", "grid-v0"),
    ("ucbvi", "counting", "coin-chain-v0"),
    ("support-elimination", "projected-gradient", "random-linear-v0"),
    ("support-elimination", "one-multiplier", "coin-chain-v0"),
]
REST = [
    ("linear-ucb", "counting", "grid-v0"),
    ("linear-ucb", "one-multiplier", "random-linear-v0"),
    ("greedy-composite", "projected-gradient", "coin-chain-v0"),
    ("greedy-composite", "one-multiplier", "grid-v0"),
    ("ucbvi", "constant-penalty", "random-linear-v0"),
    ("ucbvi", "one-multiplier", "pits-v0"),
    ("support-elimination", "constant-penalty", "grid-v0"),
    ("support-elimination", "counting", "pits-v0"),
]


@pytest.mark.parametrize(
    ("primal", "dual", "problem"), [*SQUARE, *(pytest.param(*case, marks=pytest.mark.slow) for case in REST)]
)
def test_known_pairs_play_the_reference_rounds(primal: str, dual: str, problem: str) -> None:
    mdp = rf.make(problem)
    for feedback in ("optimistic", "realised"):
        assert_same_rounds(mdp, *players(primal, dual), feedback, episodes=200, seeds=[0, 1, 2])


@pytest.mark.parametrize("problem", ["grid-v0", "random-linear-v0"])
def test_algorithm_1_keeps_to_the_reference_for_long(problem: str) -> None:
    assert_same_rounds(rf.make(problem), *algorithm1(), "optimistic", episodes=500, seeds=[3, 5, 2**40])


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["grid-v0", "pits-v0", "random-linear-v0"])
def test_algorithm_1_keeps_to_the_reference_for_two_thousand_episodes(problem: str) -> None:
    assert_same_rounds(rf.make(problem), *algorithm1(), "optimistic", episodes=2000, seeds=range(8))


def in_contexts(**changes: Any) -> rf.FiniteMDP:
    """The grid in two contexts, the second paying elsewhere, with one-hot features of the starts."""
    grid = rf.make("grid-v0", horizon=4).replace(**changes)
    other = grid.replace(reward=np.flip(grid.reward[0], axis=0))
    mdp = with_contexts([grid, other], [[0.25, 0.75], [0.5, 0.5]])
    return mdp.replace(xi=np.eye(mdp.n_states))


def test_contexts_noise_literal_boundary_and_features_of_starts() -> None:
    """Everything that a finite problem may have beside its model, at once; theta lies in an orthant with a ball."""
    mdp = in_contexts(boundary="literal", noise="bernoulli")
    assert_same_rounds(mdp, *players("linear-ucb", "projected-gradient", B=9.0), "optimistic", 200, [0, 1, 2])


VARIANTS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("linear-ucb", "projected-gradient", {"pooled": True, "lagged": True}, {"noise": 0.3}),
    ("linear-ucb", "projected-gradient", {"anytime": True, "width": "paper"}, {"boundary": "literal"}),
    ("linear-ucb", "projected-gradient", {}, {"phi": "dense"}),
    ("linear-ucb", "projected-gradient", {"pooled": True}, {"phi": "dense"}),
    ("greedy-composite", "constant-penalty", {"pooled": True, "variance_aware": False}, {"boundary": "literal"}),
    ("ucbvi", "counting", {"bonus": "bernstein", "cost_part": True, "noise": 0.5}, {"noise": "bernoulli"}),
    ("ucbvi", "counting", {"pooled": True, "monotone": True, "ties": "random"}, {"boundary": "literal"}),
    ("ucbvi", "constant-penalty", {"width": "theory", "bonus": "bernstein", "cost_part": True}, {}),
    ("support-elimination", "counting", {"pooled": False, "width": "theory"}, {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("primal", "dual", "options", "changes"), VARIANTS)
def test_settings_of_players_and_problems(
    primal: str, dual: str, options: dict[str, Any], changes: dict[str, Any]
) -> None:
    grid = rf.make("grid-v0", horizon=5)
    if changes.get("phi") == "dense":
        phi = np.random.default_rng(0).normal(size=(grid.n_states, grid.n_actions, 11))
        changes = {"phi": phi / np.linalg.norm(phi, axis=2, keepdims=True)}
    assert_same_rounds(grid.replace(**changes), *players(primal, dual, **options), "realised", 200, [0, 1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("primal", ["ucbvi", "support-elimination", "greedy-composite"])
@pytest.mark.parametrize("boundary", ["physical", "literal"])
def test_players_in_contexts(primal: str, boundary: str) -> None:
    mdp = in_contexts(boundary=boundary).replace(xi=None)
    assert_same_rounds(mdp, *players(primal, "counting"), "realised", 200, [0, 1, 2])


@pytest.mark.slow
def test_exact_feedback_and_a_ball_of_multipliers() -> None:
    mdp = rf.make("grid-v0", horizon=4)
    mdp = mdp.replace(xi=np.random.default_rng(1).normal(size=(mdp.n_states, 3)) / 4)
    primal, dual = players("linear-ucb", "projected-gradient", B=9.0)
    dual = dataclasses.replace(dual, B=9.0, feasible_set="ball")
    assert_same_rounds(mdp, primal, dual, "exact", 200, [0, 1, 2])
