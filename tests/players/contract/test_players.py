"""Every player that is discovered keeps every clause of the contract."""

from typing import Any

import pytest
from tests.players.neural import small_networks

import resetfree as rf
from resetfree.players import Role, discover
from resetfree.players.testing.battery import Check, check_dual, check_primal, dual_checks, primal_checks
from resetfree.players.testing.trial_problems import corners

# A search is as long as its settings say, and networks as large; what is kept of the contract does not depend on them.
SEARCH: dict[str, Any] = {"population": 8, "rounds": 2, "planning": 10, "waves": 5}
SMALL: dict[str, dict[str, Any]] = {**small_networks.SMALL, "model-search": SEARCH}
CHECKS: dict[Role, dict[str, Check]] = {"primal": primal_checks(), "dual": dual_checks()}
LONG = {
    "neural-search-learns",
    "neural-search-same-seed",
    "neural-search-save-and-load",
}  # programs are compiled for every size of data
PAIRS = [
    pytest.param(cls(**SMALL.get(name, {})), check, id=id, marks=[pytest.mark.slow] if id in LONG else [])
    for role, checks in CHECKS.items()
    for name, cls in discover(role).items()
    for check in checks.values()
    for id in [f"{name}-{check.name}"]
]


@pytest.mark.parametrize(("player", "check"), PAIRS)
def test_every_player_keeps_every_clause(player: Any, check: Check) -> None:
    check(player)


def test_every_file_of_a_player_is_discovered() -> None:
    assert {"best-response", "linear-ucb", "politex", "uniform"} <= discover("primal").keys()
    assert "projected-gradient" in discover("dual")


@pytest.mark.parametrize(
    "options", [{"model": "exact"}, {"copies": True}, {"model": "exact", "copies": True}, {"scale": 0.0}], ids=str
)
def test_options_of_politex_keep_the_contract_too(options: dict[str, Any]) -> None:
    check_primal(discover("primal")["politex"](**options))


def test_the_battery_runs_on_a_problem_of_ones_own() -> None:
    problem = rf.make("grid-v0").problem()
    check_primal(discover("primal")["best-response"](), problem)
    check_dual(discover("dual")["projected-gradient"](), problem)
    check_primal(
        discover("primal")["uniform"](), rf.make("continuous-linear-v0").problem()
    )  # policies are functions there


def test_corners_are_what_their_names_say() -> None:
    c = corners()
    assert (c["physical"].n_transitions, c["literal"].n_transitions) == (3, 2)
    assert not c["layered"].stationary
    assert (c["one-step"].horizon, c["one-action"].n_actions) == (1, 1)
    assert c["features"].phi is not None
    assert c["vectors"].n_states is None
    assert c["vectors"].first_start(0.5).shape == (2,)
