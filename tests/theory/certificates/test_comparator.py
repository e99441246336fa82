"""lambda* is known before the first round: it depends on the problem alone, never on the starts that occurred."""

from __future__ import annotations

import dataclasses
from math import e, log, sqrt
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.game.capabilities import Comparator
from resetfree.theory.assumptions import dual_class, reachable_starts
from resetfree.theory.certificates import RATES, certify, primal_bound, truth
from resetfree.theory.certificates.anytime import DELTA
from resetfree.theory.certificates.claims_dual import dual_side


def star(run: rf.Run) -> Comparator | str:
    known = truth(run)
    assert not isinstance(known, str)
    return dual_side(run, known.hat).against["lambda*"]


def first(run: rf.Run, k: int) -> rf.Run:
    return dataclasses.replace(run, columns={name: column[:k] for name, column in run.columns.items()})


@pytest.mark.parametrize("dual", ["projected-gradient", "coin-betting"])
def test_it_covers_starts_that_did_not_occur(dual: str) -> None:
    """From 0,0 the grid's largest multiplier (at 0,2) is not met in the first rounds: it counts all the same."""
    whole = rf.learn("grid-v0", "linear-ucb", dual, feedback="realised", episodes=200, seed=1)
    few = first(whole, 2)
    assert whole.mdp is not None
    top = dual_class(whole.mdp).detail["B"]
    met = whole.solution.lambda_hat[np.unique(few.columns["s1"])].max() + 1
    assert met < 0.99 * top
    for run in (few, whole):
        found = star(run)
        assert isinstance(found, Comparator)
        assert found.u == pytest.approx(top, rel=1e-12)
        assert found.largest == pytest.approx(top, rel=1e-12)


def test_it_is_one_function_whatever_the_seed_with_features_too() -> None:
    mdp = rf.make("grid-v0").replace(xi=np.eye(12), name="one-hot")
    possible = reachable_starts(mdp).states
    wanted = rf.solve(mdp).lambda_hat[possible] + 1
    for seed in range(3):
        run = rf.learn(mdp, "uniform", "projected-gradient", feedback="realised", episodes=4, seed=seed)
        found = star(run)
        assert isinstance(found, Comparator)
        np.testing.assert_allclose(found.u[possible], wanted, rtol=1e-9)
        assert found.largest == pytest.approx(wanted.max())
        np.testing.assert_allclose(found.at_starts, found.u[run.columns["s1"]])


def test_a_start_that_no_behaviour_brings_about_has_none() -> None:
    mdp = alone()
    run = rf.learn(mdp, "uniform", "projected-gradient", feedback="realised", episodes=20)
    lost = int(np.flatnonzero(~reachable_starts(mdp).states & run.solution.feasible)[0])
    starts = run.columns["s1"].copy()
    starts[4] = lost
    moved = star(dataclasses.replace(run, columns={**run.columns, "s1": starts}))
    assert isinstance(moved, str)
    assert "round 5 starts in state" in moved
    assert "no behaviour starts an episode" in moved


def alone() -> rf.FiniteMDP:
    """Three states that lead to each other, and a fourth that nothing leads to."""
    transition = np.zeros((4, 2, 4))
    transition[0, 0, 0], transition[0, 1, [1, 2]], transition[1, :, 0], transition[3, :, 3] = 1, 0.5, 1, 1
    transition[2, :, 2] = 1
    reward = np.array([[0.1, 1.0], [0.5, 0.5], [0, 0], [1, 1]])
    return rf.FiniteMDP(transition, reward, [False, False, True, False], 3, start=[1, 0, 0, 0], restart=[1, 0, 0, 0])


@pytest.mark.parametrize(("dual", "cap"), [("projected-gradient", None), ("coin-betting", 200.0)])
def test_the_chance_of_realised_costs_is_bounded_by_what_is_known_before(dual: str, cap: float | None) -> None:
    """After two rounds neither the largest multiplier nor the largest lambda* has been met; the bound has both."""
    settings: dict[str, Any] = {"primal": {"width": "theory"}, "dual": {} if cap is None else {"ceiling": cap}}
    played = rf.learn("grid-v0", "linear-ucb", dual, feedback="realised", episodes=300, seed=1, settings=settings)
    run = first(played, 2)
    found = {c.claim: c for c in certify(run)}
    b, level = cap or run.spec["B"], log(2 / DELTA)
    assert run.columns["lam"].max() < b
    bound = primal_bound(run).most + found["the dual player's online regret against lambda* is at most its bound"].rhs
    chance = min(bound + b * sqrt(300 * level / 2), 2 * bound + 4 * (e - 2) * b**2 * level)
    assert found[RATES[2]].rhs == pytest.approx(chance, rel=1e-12)


def test_too_many_starts_are_not_replaced_by_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resetfree.theory.assumptions.multipliers.LARGEST_WORK", 10.0)
    run = rf.learn("grid-v0", "uniform", "projected-gradient", B=40.0, feedback="realised", episodes=20)
    found = star(run)
    assert isinstance(found, str)
    assert "must cover all 10 possible starts" in found
