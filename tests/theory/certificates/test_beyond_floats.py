"""Multipliers whose squares are no floats: no crash, no warning, and no verdict on what is not a number."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.players import discover
from resetfree.theory import certificates
from resetfree.theory.certificates import RATES, certify
from resetfree.theory.certificates.replay import comparators, dual_start

FALLS = (1e-100, 1e-154, 1e-200, 1e-300, 1e-308, 1e-310, 5e-324)
BOUNDS = (1e-300, 5.0, 1e154, 1e300)
PRIMALS = ("uniform", "linear-ucb", "lsvi-ucb++", "support-elimination")


def steep(fall: float, xi: Any = None) -> rf.FiniteMDP:
    """Going on from 1 pays, and ends in a reset with probability `fall`: lambda_hat is about 1 / fall."""
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = transition[0, 1, 1] = transition[1, 0, 0] = transition[2, :, 2] = 1.0
    transition[1, 1] = [1.0 - fall, 0.0, fall]
    reward = np.array([[0.0, 0.1], [0.2, 1.0], [0.0, 0.0]])
    return rf.FiniteMDP(transition, reward, [False, False, True], 2, xi=xi)


def sound(run: rf.Run) -> None:
    assert np.isfinite(run.columns["lam"]).all()
    found = certify(run)
    assert len(found) > 20
    for c in found:
        assert c.status == "not applicable" or (math.isfinite(c.lhs) and math.isfinite(c.rhs)), str(c)
        assert not c.refuted, str(c)
        assert c.status != "not applicable" or c.why


@pytest.mark.parametrize("dual", sorted(discover("dual")))
def test_every_dual_player_is_certified_whatever_the_multipliers_are(dual: str) -> None:
    """Eight of all combinations for each, drawn with a seed; warnings are errors here."""
    cases = list(itertools.product(FALLS, BOUNDS, PRIMALS, (None, 4), ("optimistic", "realised", "exact"), (0, 1)))
    rng = np.random.default_rng(sorted(discover("dual")).index(dual))
    for i in rng.choice(len(cases), 8, replace=False):
        fall, B, primal, delay, feedback, rich = cases[int(i)]
        mdp = steep(fall, np.eye(3) if rich else None)
        own = {"B": B} if "B" in discover("dual")[dual].__dataclass_fields__ else {}
        settings: dict[str, Any] = {"dual": own, "primal": {"B": B} if primal == "linear-ucb" else {}}
        run = rf.learn(mdp, primal, dual, feedback=feedback, episodes=6, seed=1, delay=delay, settings=settings)
        sound(run)


@pytest.mark.parametrize("fall", [1e-154, 1e-200, 1e-300])
@pytest.mark.parametrize("rich", [False, True])
def test_a_comparator_outside_the_set_does_not_pass(fall: float, rich: bool) -> None:
    run = rf.learn(
        steep(fall, np.eye(3) if rich else None), "uniform", "adagrad-norm", feedback="realised", episodes=6,
        settings={"dual": {"B": 5.0}},
    )  # fmt: skip
    found = comparators(run, dual_start(run), run.solution.lambda_hat[run.columns["s1"]])["lambda*"]
    assert isinstance(found, str)
    assert "outside of the dual player's set" in found
    sound(run)


def test_a_multiplier_that_is_no_float_is_named_and_the_other_claims_stay() -> None:
    run = rf.learn(
        steep(1e-310), "uniform", "adagrad-norm", feedback="realised", episodes=6, settings={"dual": {"B": 5.0}}
    )
    found = {c.claim: c for c in certify(run)}
    assert found["Regret equals R_p(pi*) + R_d(0)"].status in ("identity", "not applicable")
    assert found["Resets are at most what the resets so far allow"].holds
    assert "exceeds what a float can hold" in next(
        c.why for c in found.values() if "online regret against lambda*" in c.claim
    )


def test_weights_by_variance_are_numbers_where_squares_are_not() -> None:
    settings = {"dual": {"B": 4e198}}
    run = rf.learn(
        steep(1e-200), "lsvi-ucb++", "constant-penalty", feedback="realised", episodes=12, delay=4, settings=settings
    )
    for column in ("v_r_hat", "v_c_hat", "upper"):
        assert np.isfinite(run.columns[column]).all()


def test_one_claim_that_cannot_be_computed_takes_no_other_down(monkeypatch: pytest.MonkeyPatch) -> None:
    run = rf.learn("grid-v0", "uniform", "projected-gradient", feedback="realised", episodes=10)
    whole = certify(run)

    def overflows(*_: Any) -> Any:
        raise OverflowError("numerical result out of range")

    monkeypatch.setattr(certificates, "rates", overflows)
    rest = certify(run)
    assert {c.claim for c in whole} - {c.claim for c in rest} == set(RATES)
    assert [c.why for c in rest if c.claim == "claims about the rates"] == [
        "they cannot be computed: numerical result out of range"
    ]
    assert len(rest) == len(whole) - 2


def test_a_record_with_numbers_that_are_none_still_fails() -> None:
    run = rf.learn("grid-v0", "uniform", "projected-gradient", feedback="realised", episodes=10)
    reward = run.columns["reward"].copy()
    reward[3] = np.nan
    forged = dataclasses.replace(run, columns={**run.columns, "reward": reward})
    assert any(c.refuted and "rewards collected" in c.claim for c in certify(forged))
