"""No claim that is proved is false: a fixed part of the fuzz of claims here, a fresh one in `make test-all`.

True claims fail a part with probability at most 1e-3 (see `claims`). `python -m tests.fuzz.claims --case SEED:INDEX`
shows a case again.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from random import Random
from unittest.mock import patch

import pytest
from tests.fuzz.claims import AGAIN, campaign, check, faults, finite_players, make, summary

import resetfree as rf
from resetfree.players.dual.online_gradient import ConstantStep

Record = Callable[[str, object], None]
SEED, SHORT, LONG = 20230718, 60, 3000


def test_no_false_claim(record_property: Record) -> None:
    found = campaign(SEED, SHORT)
    record_property("table", f"Fuzz of claims, seed {SEED}: {summary(found)}")
    assert not faults(found), "\n".join(faults(found))


@pytest.mark.slow
def test_no_false_claim_in_a_long_campaign(record_property: Record) -> None:
    seed = time.time_ns() % 10**9
    print(f"seed {seed}: python -m tests.fuzz.claims --seed {seed} --cases {LONG}")
    found = campaign(seed, LONG)
    record_property("table", f"Fuzz of claims, seed {seed}: {summary(found)}")
    assert not faults(found), "\n".join(faults(found))


def test_a_false_bound_is_found() -> None:
    """A bound that forgets its second term, for the player and the settings of a case."""
    honest = ConstantStep.online_regret_bound
    cases = [case for i in range(400) if (case := make(3, i)).arguments["dual"] == "constant-step"]
    with patch.object(ConstantStep, "online_regret_bound", lambda self, met, u: 0.0 * honest(self, met, u)):
        assert any(check(case).faults for case in cases)


def test_what_fails_by_chance_is_no_fault_unless_it_does_so_too_often() -> None:
    case, rare = make(3, 0), rf.Certificate("may fail", 1.0, 0.0, detail={"may_fail": {"chance": 0.05}})
    for often, expected in ((0.05, False), (0.9, True)):
        coin = Random(1)
        later = [replace(rare, lhs=1.0 if coin.random() < often else 0.0) for _ in range(AGAIN)]
        with patch("tests.fuzz.claims.certificates", side_effect=[[one] for one in (rare, *later)]):
            assert bool(check(case).faults) == expected


def test_a_case_is_repeated_by_its_number() -> None:
    assert str(make(5, 2)) == str(make(5, 2))
    chosen = {str(make(5, i).arguments["primal"]) for i in range(400)}
    assert chosen >= set(finite_players("primal"))
