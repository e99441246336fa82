"""What every registered finite problem must do, found by discovery and never listed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import resetfree as rf
from resetfree.problems.finite.tabular_policy import uniform

FINITE = [id for id in rf.problems() if isinstance(rf.make(id), rf.FiniteMDP)]
FAILS_ON_PURPOSE = {"footnote-v0"}

# (states, actions, horizon, reset states, layers of dynamics)
SIZES = {
    "coin-chain-v0": (7, 2, 6, 1, 6),
    "contexts-v0": (36, 5, 8, 6, 1),
    "doors-v0": (6, 2, 10, 1, 10),
    "drifting-v0": (30, 4, 6, 1, 6),
    "edge-all-safe-v0": (3, 2, 4, 1, 1),
    "edge-first-step-v0": (2, 2, 3, 1, 1),
    "edge-no-reset-v0": (2, 2, 4, 0, 1),
    "edge-one-action-v0": (3, 1, 2, 1, 1),
    "edge-one-step-v0": (2, 2, 1, 1, 1),
    "footnote-v0": (3, 4, 4, 1, 1),
    "generated-v0": (30, 5, 13, 6, 1),
    "grid-v0": (12, 5, 8, 2, 1),
    "ledge-v0": (2, 2, 1, 1, 1),
    "no-multiplier-v0": (12, 2, 2, 1, 1),
    "pits-v0": (25, 4, 10, 5, 1),
    "politex-trap-v0": (5, 2, 2, 1, 1),
    "random-linear-v0": (30, 4, 6, 1, 1),
    "thresholds-v0": (5, 2, 2, 1, 1),
}

BAD_OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("coin-chain-v0", {"m": 0}),
    ("coin-chain-v0", {"m": 1001}),
    ("coin-chain-v0", {"m": 4, "horizon": 3}),
    ("contexts-v0", {"m": 0}),
    ("contexts-v0", {"m": 11}),
    ("contexts-v0", {"order": "backwards"}),
    ("doors-v0", {"length": 0}),
    ("doors-v0", {"length": 10}),
    ("drifting-v0", {"horizon": 0}),
    ("footnote-v0", {"n_actions": 0}),
    ("generated-v0", {"draw": -1}),
    ("grid-v0", {"slip": 1.2}),
    ("grid-v0", {"horizon": 0}),
    ("ledge-v0", {"places": 0}),
    ("ledge-v0", {"fall": 0.0}),
    ("no-multiplier-v0", {"bins": 0}),
    ("no-multiplier-v0", {"gap": 1.5}),
    ("no-multiplier-v0", {"gap": float("nan")}),
    ("pits-v0", {"n": 1}),
    ("pits-v0", {"slip": -0.1}),
    ("pits-v0", {"slip": float("nan")}),
    ("pits-v0", {"horizon": -1}),
    ("pits-v0", {"density": 1.01}),
    ("pits-v0", {"density": float("nan")}),
    ("pits-v0", {"seed": -1}),
    ("random-linear-v0", {"n_states": 1}),
    ("random-linear-v0", {"n_actions": 0}),
    ("random-linear-v0", {"d": 1}),
    ("random-linear-v0", {"horizon": 0}),
    ("random-linear-v0", {"epsilon": 1.5}),
    ("random-linear-v0", {"seed": -1}),
]


def possible_starts(mdp: rf.FiniteMDP) -> NDArray[np.bool_]:
    """[S] every state in which some behaviour can start an episode; slow and plain, on the support."""
    steps = []
    for layer in range(mdp.transition.n_layers):
        matrix = mdp.transition.matrix(layer)
        matrix.data[:] = 1.0
        steps.append(matrix.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states).any(axis=1))
    starts: NDArray[np.bool_] = (mdp.start > 0) | (mdp.restart.ravel() > 0)
    while True:
        here = starts
        for h in range(mdp.n_transitions):
            dead = mdp.last_reset if h == mdp.n_transitions - 1 else mdp.reset
            here = steps[0 if mdp.transition.stationary else h][here].any(axis=0) & ~dead
        if mdp.contexts is not None:
            here = ((mdp.contexts.T > 0).astype(int) @ here.reshape(len(mdp.contexts), -1) > 0).ravel()
        if not (here & ~starts).any():
            return starts
        starts = starts | here


@pytest.mark.parametrize("id", FINITE)
def test_name_options_and_sizes(id: str) -> None:
    spec = rf.problems()[id]
    mdp = rf.make(id, **spec.options)
    assert mdp.name == id
    assert spec.summary.endswith(".")
    assert all(isinstance(default, int | float | bool | str) for default in spec.options.values())
    assert len(set(mdp.state_names)) == mdp.n_states
    assert len(set(mdp.action_names)) == mdp.n_actions
    assert not mdp.reward[:, mdp.reset].any()
    if id in SIZES:
        sizes = (mdp.n_states, mdp.n_actions, mdp.horizon, int(mdp.reset.sum()), mdp.transition.n_layers)
        assert sizes == SIZES[id]


@pytest.mark.parametrize("id", FINITE)
def test_same_options_same_arrays(id: str) -> None:
    one, two = rf.make(id), rf.make(id)
    for a, b in zip(one.model, two.model, strict=True):
        np.testing.assert_array_equal(a, b)
    for name in ("start", "restart", "phi", "xi", "contexts", "end_reset"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("id", FINITE)
def test_uniform_policy_plays_200_episodes(id: str) -> None:
    mdp = rf.make(id)
    starts = possible_starts(mdp)
    n = 0
    for episode in rf.simulate(mdp.problem(), uniform(mdp), 200, seed=5):
        n += 1
        assert starts[episode.start]
        assert 1 <= len(episode.actions) <= mdp.horizon
        assert episode.reset or len(episode.actions) == mdp.horizon
    assert n == 200


@pytest.mark.parametrize("id", FINITE)
def test_every_possible_start_admits_a_reset_free_policy(id: str) -> None:
    mdp = rf.make(id)
    solution = rf.solve(mdp)
    stuck = possible_starts(mdp) & ~solution.feasible
    assert stuck.any() == (id in FAILS_ON_PURPOSE)
    assert np.isfinite(solution.value[solution.feasible]).all()
    assert np.isfinite(solution.lambda_hat[solution.feasible]).all()
    assert (solution.lambda_hat[solution.feasible] >= 0).all()


@pytest.mark.parametrize(
    ("id", "options"),
    [
        ("coin-chain-v0", {"m": 1}),
        ("coin-chain-v0", {"m": 3, "horizon": 8}),
        ("contexts-v0", {"m": 10, "order": "random"}),
        ("doors-v0", {"length": 1, "horizon": 2}),
        ("doors-v0", {"length": 4, "horizon": 9}),
        ("drifting-v0", {"stationary": True}),
        ("no-multiplier-v0", {"gap": 0.2}),
        ("pits-v0", {"slip": 0.1}),
        ("pits-v0", {"n": 9, "slip": 0.3, "density": 0.5, "seed": 4}),
        ("pits-v0", {"n": 12, "density": 0.6, "horizon": 3}),
        ("random-linear-v0", {"n_states": 2, "d": 2, "n_actions": 1, "horizon": 1}),
        ("random-linear-v0", {"n_states": 4, "d": 9, "risk_pays": False}),
    ],
)
def test_assumption_1_holds_with_other_options_too(id: str, options: dict[str, Any]) -> None:
    mdp = rf.make(id, **options)
    assert not (possible_starts(mdp) & ~rf.solve(mdp).feasible).any()


@pytest.mark.parametrize(("id", "options"), BAD_OPTIONS)
def test_bad_options_are_refused_in_one_sentence(id: str, options: dict[str, Any]) -> None:
    with pytest.raises(rf.InvalidInput, match=rf"^The option '\w+' of problem '{id}' must .* Got .* instead\.$"):
        rf.make(id, **options)
