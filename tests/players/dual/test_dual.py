"""What every dual player is: discovered, given its bound, checked in what it is given, and clear in what it states."""

import math
from typing import Any

import numpy as np
import pytest
from tests.players.dual.rounds import (
    GRADIENTS,
    NAMES,
    B,
    K,
    Stub,
    a_player,
    a_round,
    never,
)

import resetfree as rf
from resetfree.core import Floats
from resetfree.players import discover
from resetfree.players.dual.one_multiplier import ConstantPenalty, Counting, Search
from resetfree.players.dual.online_gradient import AdagradNorm, ConstantStep, OptimisticGradient, ProjectedGradient
from resetfree.players.dual.unknown_bound import CoinBetting


def test_every_player_is_discovered() -> None:
    assert set(discover("dual")) == NAMES | {"one-multiplier", "virtual-queue"}  # those two belong to baselines


@pytest.mark.parametrize(
    "name",
    [*GRADIENTS, "search", "constant-penalty"],
)
def test_the_bound_is_asked_for(name: str) -> None:
    player = discover("dual")[name]()
    sentence = f"The 'B' of {name} must be a bound on the multipliers. Got None instead."
    with pytest.raises(rf.InvalidInput) as caught:
        player.init(Stub(), K, 0)
    assert str(caught.value) == sentence
    with pytest.raises(rf.InvalidInput) as caught:
        player.statement(Stub(), K)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("name", ["constant-step", "optimistic-gradient", "search"])
def test_constants_that_depend_on_the_number_of_rounds_need_some(name: str) -> None:
    with pytest.raises(rf.InvalidInput, match="The 'episodes' of a game must be a positive integer"):
        a_player(name).init(Stub(), 0, 0)


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.1, math.inf])
@pytest.mark.parametrize("name", [*GRADIENTS, "coin-betting"])
def test_a_cost_signal_that_is_no_cost_is_refused(name: str, bad: float) -> None:
    player = a_player(name)
    with pytest.raises(rf.InvalidInput, match=r"The 'cost_signal' of a round must lie in \[0, 1\]"):
        player.update(player.init(Stub(), K, 0), a_round(5, 0, 0.0, bad))
    player.update(player.init(Stub(), K, 0), a_round(5, 0, 0.0, 1.0 + 1e-15))  # rounding is forgiven


def test_features_of_the_wrong_shape_are_refused() -> None:
    problem = Stub(np.eye(3))
    problem.n_states = None
    with pytest.raises(rf.InvalidInput, match="The 'xi' of a problem must be finite numbers of shape"):
        ProjectedGradient(B=1.0).init(problem, K, 0)


def test_starts_that_are_not_finite_share_one_hint() -> None:
    player = OptimisticGradient(B=B)
    state = player.init(Stub(None, None), 100, 0)
    state = player.update(state, a_round(1, 0, 0.0, 1.0))
    eta = B / 10
    assert player.multiplier(state, np.array([0.3, 0.4]), never) == 2 * eta  # one step, and the same again as a hint


@pytest.mark.parametrize(
    ("player", "xi", "covered", "bound"),
    [
        (ProjectedGradient(B=2.0), None, True, 1.5 * 2 * 10),
        (ProjectedGradient(B=2.0), np.eye(3), True, 2.0 * 2 * 10),
        (ProjectedGradient(B=2.0), np.array([[1.0, 0.0], [0.6, 0.8]]), True, 3.0 * 2 * 10),
        (ProjectedGradient(B=2.0, feasible_set="ball"), np.eye(3), True, 3.0 * 2 * 10),
        (ProjectedGradient(B=2.0), 2 * np.eye(3), False, None),
        (ConstantStep(B=2.0), np.eye(3), True, 2 * 10),
        (ConstantStep(B=2.0, eta=0.4), None, True, 5.0 + 20.0),
        (ConstantStep(B=2.0, eta=0.001), None, False, 2000.0 + 0.05),
        (AdagradNorm(B=2.0), np.eye(3), True, 2.0 * 2 * 10),
        (AdagradNorm(B=2.0, gamma=1e-3), np.eye(3), False, None),
        (OptimisticGradient(B=2.0), np.eye(3), True, 2 * 10),
        (CoinBetting(), None, False, None),
        (ConstantPenalty(B=2.0), None, True, 0.0),
        (ConstantPenalty(B=2.0, C=3.0), None, True, 0.0),
        (ConstantPenalty(B=2.0, C=1.0), None, False, None),
        (ConstantPenalty(C=2.0), None, False, None),
        (Counting(), None, False, None),
        (Search(B=2.0), None, True, 2 * 10),
        (Search(B=2.0, tolerance=0.5), None, False, 100.0),
    ],
)
def test_statements(player: rf.DualPlayer[Any], xi: Floats | None, covered: bool, bound: float | None) -> None:
    stated = player.statement(Stub(xi), 100)
    assert stated.covered is covered
    assert stated.why
    assert all(isinstance(value, float | int | str | bool) for value in stated.constants.values())
    if bound is not None:
        assert stated.constants["dual_regret_bound"] == pytest.approx(bound)


def test_tuned_constants_are_told_apart() -> None:
    assert Counting().statement(Stub(), K).constants["tuned"] is True
    assert ConstantStep(B=1.0).statement(Stub(), K).constants["tuned"] is False
    assert ConstantStep(B=1.0, eta=0.1).statement(Stub(), K).constants["tuned"] is True
    assert "1/(2X)" in Counting().statement(Stub(), K).why
    assert "not bounded by B" in " ".join(CoinBetting().statement(Stub(), K).why.split())
