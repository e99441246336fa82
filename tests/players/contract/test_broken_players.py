"""The battery catches what it is there to catch: for each clause a player that breaks it, and no other clause."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.players.contract.broken import (
    DUAL,
    PRIMAL,
    ClaimsBox,
    Good,
    GoodDual,
    Means,
    OnVectors,
    Pushes,
    Ranges,
    Rows,
    SaysSo,
    Stubborn,
    Stumbles,
    TakesAll,
    Weight,
)

import resetfree as rf
from resetfree.players.testing.battery import (
    Check,
    ContractBroken,
    check_dual,
    check_primal,
    dual_checks,
    primal_checks,
    usual,
)
from resetfree.players.testing.trial_problems import corners, played


def broken(checks: dict[str, Check], player: Any) -> set[str]:
    """The names of the clauses that a player breaks."""
    found = set()
    for name, check in checks.items():
        try:
            check(player)
        except ContractBroken:
            found.add(name)
    return found


def label(value: Any) -> str:
    return value if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize(("clause", "player"), PRIMAL, ids=label)
def test_a_broken_primal_player_breaks_its_clause_and_no_other(clause: str, player: Any) -> None:
    assert broken(primal_checks(), player) == {clause}


@pytest.mark.parametrize(("clause", "player"), DUAL, ids=label)
def test_a_broken_dual_player_breaks_its_clause_and_no_other(clause: str, player: Any) -> None:
    assert broken(dual_checks(), player) == {clause}


def test_good_players_break_nothing() -> None:
    check_primal(Good())
    check_primal(SaysSo())
    check_primal(OnVectors())
    check_primal(Pushes())
    check_dual(GoodDual())


def test_who_takes_both_kinds_of_actions_is_tried_on_both() -> None:
    for good in (SaysSo, Pushes):
        assert usual(good()) == ["physical" if good is SaysSo else "box"]
    assert usual(ClaimsBox()) == ["physical", "box"]
    assert usual(GoodDual()) == ["physical"]
    alone = {name for name, check in primal_checks().items() if check.corner not in (None, "physical", "box")}
    assert broken(primal_checks(), ClaimsBox()) == primal_checks().keys() - alone - {"works-physical", "settings"}


def test_who_takes_vectors_only_must_refuse_the_rest() -> None:
    finite = {f"works-{corner}" for corner in corners() if corner not in ("vectors", "box")}
    assert broken(primal_checks(), TakesAll()) == finite | {"learns"}


def test_finite_players_may_refuse_vectors_but_dual_players_may_not() -> None:
    @dataclass(frozen=True)
    class Finite(GoodDual):
        def init(self, problem: rf.Problem, episodes: int, seed: int) -> Weight:
            if problem.n_states is None:
                raise rf.InvalidInput("The states must be finite.")
            return super().init(problem, episodes, seed)

    assert broken(dual_checks(), Finite()) == {"works-vectors", "works-box"}
    with pytest.raises(rf.InvalidInput, match="A policy of 'vectors' must be a function"):
        played(corners()["vectors"], Good(), GoodDual(), 1)


def test_every_clause_has_a_player_that_breaks_it() -> None:
    # Every other check plays 'physical' or 'box' too, so nobody stumbles there alone.
    assert {clause for clause, _ in PRIMAL} == primal_checks().keys() - {"works-physical", "works-box"}
    assert {clause for clause, _ in DUAL} == dual_checks().keys() - {"works-physical"}


def test_a_player_declared_not_to_learn_is_not_asked_to() -> None:
    declared: Any = type("Declared", (Stubborn,), {"learns": False})
    assert broken(primal_checks(), declared()) == set()


def test_what_is_broken_is_said_in_one_sentence() -> None:
    with pytest.raises(ContractBroken, match=r"^The player 'good' must estimate 0 <= v_r <= H .* Got v_r = 0.5, v_c ="):
        check_primal(Ranges())
    with pytest.raises(AssertionError):  # so that it reads as a failed test where it is used in one
        check_primal(Rows())
    with pytest.raises(rf.ResetFreeError, match=r"Got IndexError \(not here\) instead\."):
        primal_checks()["works-literal"](Stumbles(corner="literal"))


def test_a_state_that_cannot_be_saved_is_named() -> None:
    @dataclass
    class Listed(Means):
        things: set[int] = field(default_factory=set)

    class Keeps(Good):
        def init(self, problem: rf.Problem, episodes: int, seed: int) -> Means:
            return Listed(**vars(super().init(problem, episodes, seed)))

    with pytest.raises(ContractBroken, match=r"must keep a state of arrays and numbers.*set in 'things'"):
        primal_checks()["plain-state"](Keeps())
