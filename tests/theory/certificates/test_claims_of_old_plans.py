"""Certificates of runs whose plans were old: each claim uses the ages of the plans, or does not apply."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.game.capabilities import Comparator, DualHistory
from resetfree.theory.certificates import EVERY_PATH, OPTIMISM, RATES, certify, claims_dual, primal_bound
from resetfree.theory.certificates.claims_dual import MISSED, dual_side, online_bound
from resetfree.theory.certificates.record import made_for, plan_ages

MULTIPLIERS = "the multipliers are those of the dual player on the recorded signals, bit for bit (rounds that differ)"
DUALS = ("projected-gradient", "constant-step", "adagrad-norm", "optimistic-gradient", "coin-betting")


@cache
def late(
    primal: str = "uniform", dual: str = "projected-gradient", delay: int = 5, feedback: str = "realised"
) -> rf.Run:
    small = {"dual": {"gamma": 1.0}} if dual == "adagrad-norm" else None  # else two steps reach the bound, for good
    return rf.learn("grid-v0", primal, dual, episodes=150, seed=1, feedback=feedback, delay=delay, settings=small)


def by_claim(run: rf.Run) -> dict[str, rf.Certificate]:
    return {c.claim: c for c in certify(run)}


def forged(run: rf.Run, **columns: Any) -> rf.Run:
    return dataclasses.replace(run, columns={**run.columns, **columns})


@pytest.mark.parametrize("dual", DUALS)
def test_the_multipliers_of_old_plans_are_found_again_and_the_bound_has_their_cost(dual: str) -> None:
    run = late(dual=dual, feedback="exact")
    assert run.columns["based_on"].tolist() != list(range(len(run)))
    found = by_claim(run)
    assert not [str(c) for c in found.values() if c.refuted]
    assert found[MULTIPLIERS].holds
    bound = found["the dual player's online regret against lambda* is at most its bound + what old plans cost"]
    assert bound.status == "proved"
    as_if_new = by_claim(forged(run, based_on=np.arange(len(run))))  # the mutant: plans taken for new
    assert not as_if_new[MULTIPLIERS].holds
    assert (MISSED in found) == (dual not in ("optimistic-gradient", "coin-betting"))


def test_with_realised_costs_a_multiplier_that_waits_for_resets_is_never_old() -> None:
    run = late()
    ages = plan_ages(run)
    assert ages is not None
    assert ages.delays.max() >= 4
    assert by_claim(forged(run, based_on=np.arange(len(run))))[MULTIPLIERS].holds
    assert by_claim(run)[MISSED].lhs == 0.0


def test_a_multiplier_is_that_of_the_start_that_its_plan_was_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one multiplier per start; the mutant evaluates it at other starts."""
    one_hot = rf.make("grid-v0").replace(xi=np.eye(12), name="one-hot")
    run = rf.learn(one_hot, "uniform", "projected-gradient", episodes=150, feedback="exact", delay=3)
    found = by_claim(run)
    assert not [str(c) for c in found.values() if c.refuted]
    assert found[MULTIPLIERS].holds
    assert found[MISSED].detail["starts"] != 0.0
    ages = plan_ages(run)
    assert ages is not None
    wrong = dataclasses.replace(ages, made_for=np.roll(ages.made_for, 1))
    monkeypatch.setattr(claims_dual, "plan_ages", lambda run: wrong)
    assert not by_claim(run)[MULTIPLIERS].holds


def tempting() -> rf.FiniteMDP:
    """A step that pays 1 and is a reset with probability 1/5000, or nothing: the multiplier must reach 5000."""
    transition = np.zeros((2, 2, 2))
    transition[0, 0, 0] = transition[1, :, 1] = 1
    transition[0, 1] = [0.9998, 0.0002]
    return rf.FiniteMDP(transition, np.array([[0.0, 1.0], [0.0, 0.0]]), [False, True], 1, name="tempting")


def test_a_bound_that_knows_nothing_of_delays_is_exceeded() -> None:
    run = rf.learn(tempting(), "best-response", "constant-step", episodes=150, feedback="exact", delay=140)
    assert not run.columns["reset"].any()
    lam, g, u = run.columns["lam"], run.columns["cost_signal"], 5.0
    side = dual_side(run, "not needed")
    assert isinstance(side.met, DualHistory)
    against = Comparator("u", u, np.full(len(run), u), u)
    new, old = (online_bound(side.player, side.met, against, late=late) for late in (False, True))
    online = np.cumsum((u - lam) * g)
    assert online[-1] > new[-1]
    assert (online <= old + 1e-9).all()
    found = by_claim(run)
    assert not [str(c) for c in found.values() if c.refuted]
    assert found[MISSED].detail["largest_delay"] == 140
    assert found[MISSED].rhs == pytest.approx(found[MISSED].lhs) != 0  # nothing was projected: every missed step counts


def test_plans_from_the_future_or_from_before_a_reset_are_refuted() -> None:
    run = late("support-elimination", "constant-penalty")
    assert [c for c in certify(run) if c.claim in EVERY_PATH and c.holds]
    k = np.arange(len(run))
    wrong = certify(forged(run, based_on=k + 1))
    assert [c.refuted for c in wrong if "rests on rounds that were over" in c.claim] == [True]
    assert wrong[-1].why == "some plans rest on rounds that were not over"
    old = certify(forged(run, based_on=np.zeros(len(run), dtype=np.int64)))
    assert [c.refuted for c in old if "after every reset" in c.claim] == [True]
    cap = next(c for c in old if c.claim in EVERY_PATH)
    assert cap.status == "not applicable"
    assert "was made before the newest reset" in cap.why


def test_rates_have_the_price_of_delay_or_do_not_apply() -> None:
    new, old = (late("linear-ucb", delay=delay) for delay in (0, 5))
    assert primal_bound(old).most > np.sqrt(2) * primal_bound(new).most * 0.5
    assert primal_bound(old).most > primal_bound(new).most
    assert primal_bound(late("best-response")).most == 0.0
    found = by_claim(late("ucbvi"))
    assert found[RATES[0]].status == "not applicable"
    estimates = by_claim(late("linear-ucb", feedback="optimistic"))
    assert "another start" in estimates[RATES[2]].why
    assert by_claim(old)[RATES[2]].applies


def test_what_a_plan_says_is_compared_at_the_start_it_was_made_for() -> None:
    run = late("best-response", delay=3)
    ages = plan_ages(run)
    assert ages is not None
    assert not ages.own_start.all()
    found = by_claim(run)
    assert found[OPTIMISM[0]].holds
    assert found[OPTIMISM[3]].status == "not applicable"
    value = run.solution.value
    assert (value[run.columns["s1"]] > run.columns["upper"] + 1e-6).any()  # at the start of the round it fails
    assert "FAILS" not in "".join(map(str, certify(run)))


def test_the_upper_bounds_of_regret_use_plans_for_their_own_start_only() -> None:
    claim = "Regret is at most what the primal player's upper bounds and the rewards so far allow"
    run = late("best-response", delay=3)
    found = by_claim(run)[claim]
    as_if_own = by_claim(forged(run, based_on=np.arange(len(run))))[claim]
    assert found.holds
    assert found.rhs > as_if_own.rhs


def test_where_deadlines_were_missed_claims_about_what_plans_did_do_not_apply() -> None:
    """Resets by held actions: more than there are unsafe pairs, and more than the policies make likely."""
    run = late("support-elimination", "constant-penalty")
    missed, reset = np.zeros(len(run), dtype=np.int64), np.ones(len(run), dtype=np.bool_)
    missed[4] = 2
    broken = forged(run, reset=reset, based_on=np.arange(len(run)))
    assert [c.claim for c in certify(broken) if c.refuted and c.claim in EVERY_PATH]
    found = by_claim(forged(broken, missed=missed))
    claims = [c for c in found.values() if "deadlines were missed in 1 rounds (first in round 5)" in c.why]
    assert {c.status for c in claims} == {"not applicable"}
    assert {EVERY_PATH[0], *RATES} <= {c.claim for c in claims}
    assert not [c.claim for c in found.values() if c.refuted and "so far" in c.claim]
    assert found["Resets lie between what the resets so far need and allow"].status == "stated"


def test_starts_of_plans() -> None:
    s1, reset = np.array([7, 3, 5, 4]), np.array([False, True, False, False])
    assert made_for(s1, np.array([3, 5, 4, 2]), reset).tolist() == [7, 3, 5, 4]
    assert made_for(s1 / 2, np.array([1.5, np.nan, 2.0, 1.0]), reset).tolist() == [3.5, 1.5, 3.5, 2.0]
    states = np.empty(4, dtype=object)
    states[:] = [np.array([float(s)]) for s in s1]
    ends = np.empty(4, dtype=object)
    ends[:] = [states[1], None, states[3], states[0]]
    assert [float(s[0]) for s in made_for(states, ends, reset)] == [7, 3, 7, 4]
