"""Every player that is discovered keeps every clause of the contract."""

import math
import re
from dataclasses import fields
from itertools import product
from typing import Any

import pytest
from tests.players.neural import small_networks

import resetfree as rf
from resetfree.core.settings import declarations
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


# Settings beyond the defaults whose form of the player, or of its state, is another one.
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *(("politex", one) for one in ({"model": "exact"}, {"copies": True}, {"model": "exact", "copies": True})),
    ("politex", {"scale": 0.0}),
    *(("greedy-composite", one) for one in ({"switching": "rare"}, {"variance_aware": False}, {"width": "proved"})),
    ("greedy-composite", {"switching": "rare", "scale": 0.3}),
    ("linear-ucb", {"B": 5.0, "width": "proved"}),
    *(("lsvi-ucb++", one) for one in ({"running": True}, {"running": True, "switching": "rare"})),
    *(("stored-linear", one) for one in ({"planning": 7}, {"switching": "every"}, {"scale": 0.5, "refit": 4})),
    *(("ucbvi", one) for one in ({"bonus": "bernstein"}, {"width": "theory"}, {"cost_part": True})),
    ("ucbvi", {"bonus": "bernstein", "width": "theory", "cost_part": True}),
    *((name, {"monotone": True, "noise": 0.5}) for name in ("ucbvi", "rlsvi")),
    ("rlsvi", {"cost_part": True}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_options_keep_the_contract_too(name: str, options: dict[str, Any]) -> None:
    check_primal(discover("primal")[name](**options))


PRIMAL: list[Any] = list(discover("primal").values())


@pytest.mark.parametrize("cls", [*PRIMAL, *discover("dual").values()], ids=lambda cls: cls.name)
def test_every_setting_refuses_what_it_cannot_be(cls: Any) -> None:
    for one, bad in product(fields(cls), ("no such value", math.nan, -1.0)):
        with pytest.raises(rf.InvalidInput) as caught:
            cls(**{one.name: bad})
        assert re.fullmatch(
            rf"The '{one.name}' of {re.escape(cls.name)} must be .* Got {bad!r} instead\.", str(caught.value)
        )


# Numbers just outside of what settings may be, or of another kind.
OUTSIDE: dict[str, list[tuple[str, Any]]] = {
    **{name: [("B", 0.0), ("B", True)] for name in ("projected-gradient", "adagrad-norm", "search")},
    "constant-step": [("B", 0.0), ("eta", 0.0)], "optimistic-gradient": [("B", math.inf), ("eta", 0.0)],
    "coin-betting": [("eps", 0.0), ("ceiling", math.inf)], "counting": [("eta", 0.0)],
    "linear-ucb": [("reg", 0.0), ("p", 1.5)], "greedy-composite": [("reg", 0.0), ("p", 1.5)],
    "lsvi-ucb++": [("reg", 0.0)], "perturbed-history": [("reg", 0.0), ("draws", 0)],
    "stored-linear": [("reg", 0.0), ("growth", 1.0), ("planning", 0), ("planning", 2.5), ("refit", -1)],
    "ucbvi": [("p", 1.0)], "rlsvi": [("noise", math.inf)], "support-elimination": [("p", 0.0)],
    "opt-cmdp": [("p", 1.0)], "triple-q": [("scale", math.inf)], "ucrl2": [("delta", 0.0)],
    "olsvi-fh": [("length", -3)],
    "model-search": [("planning", 0), ("caution", -1.0), ("waves", -1), ("bandwidth", 0.0), ("reg", 0.0),
                     ("growth", 1.0), ("population", 3), ("rounds", 0), ("starts", -1), ("least", 0)],
    "sac": [("hidden", 0), ("hidden", 10**6), ("batch", 0), ("gamma", 1.0), ("tau", 0.0), ("gradient_steps", 0),
            ("price", 1e300)],
    "leave-no-trace": [("q_min", 1.5)], "medal": [("demonstrations", 0)], "oracle-shield": [("scale", math.inf)],
}  # fmt: skip


@pytest.mark.parametrize(("player", "setting", "bad"), [(p, *one) for p, found in OUTSIDE.items() for one in found])
def test_what_lies_just_outside_is_refused(player: str, setting: str, bad: Any) -> None:
    cls = {**discover("primal"), **discover("dual")}[player]
    with pytest.raises(rf.InvalidInput, match=re.escape(f"The '{setting}' of {player} must be")):
        cls(**{setting: bad})


@pytest.mark.parametrize(
    "cls", [cls for cls in PRIMAL if declarations(cls).get("pooled") is bool], ids=lambda cls: cls.name
)
def test_tables_are_finite_and_not_pooled_over_steps_that_differ(cls: Any) -> None:
    own = {"B": 1.0} if "B" in declarations(cls) else {}
    with pytest.raises(
        rf.InvalidInput, match=f"'pooled' of {re.escape(cls.name)} must be false for dynamics that change"
    ):
        cls(**own, pooled=True).init(corners()["layered"], 10, 0)
    with pytest.raises(rf.NotCertifiable, match="needs a finite problem"):
        cls(**own).init(corners()["vectors"], 10, 0)


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
