"""Imagined lives: what they come to by hand, their gradient against differences, and a search that uses it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cmaes import CMA
from numpy.typing import NDArray

import resetfree as rf
from resetfree.players.model_based import machine_search
from resetfree.players.model_based.machine_model import (
    EXPECTED,
    FIRST,
    SHARPNESS,
    Forecast,
    MachineModel,
    RolloutRules,
    learned_caution,
    rollout,
    value_and_gradient,
)
from resetfree.players.model_based.machine_search import LONGER, MachineSearch
from resetfree.players.model_based.reset_classifier import ResetClassifier
from resetfree.players.model_based.search_state import AT_REST, Candidate, late_counts, unscaled_policy
from resetfree.players.model_based.smooth_regression import Draws
from resetfree.problems.features.scaling import Scaling
from resetfree.problems.formula import TanhPolicy, no_policy

Floats = NDArray[np.float64]
NEVER = 1 / (1 + np.exp(SHARPNESS))  # the probability of a reset in the gradient, where the judge knows of none


def linear(weight: list[float]) -> Draws:
    """One output of the input (z, a), both numbers: weight.(1, z, a), without noise."""
    return Draws(np.ones(2), np.zeros((0, 2)), np.array(weight).reshape(1, 3, 1), np.zeros(1))


def machine(step: list[float], reward: list[float], caution: float) -> MachineModel:
    """One sensor, lived in from -1 to 1, and one motor; no reset state is known."""
    far = np.full(1, 30.0)
    return MachineModel(
        scaling=Scaling(np.zeros(1), np.ones(1)),
        steps=linear(step),
        rewards=linear(reward),
        smallest=np.full(2, -9.0),
        largest=np.full(2, 9.0),
        reset_classifier=ResetClassifier(np.array([-1.0, 0.0, 0.0])),
        low=-np.ones(1),
        high=np.ones(1),
        least=-far,
        most=far,
        caution=caution,
    )


def any_machine(rng: np.random.Generator) -> MachineModel:
    """Three sensors and two motors, two draws; all that cuts or ends a life is near."""

    def draws(outputs: int, *, edges: bool) -> Draws:
        weight = rng.normal(size=(2, 1 + 5 + 4, outputs)) * 0.3
        return Draws(rng.uniform(0.5, 2.0, 5), rng.normal(size=(4, 5)), weight, np.full(outputs, 0.1), edges)

    return MachineModel(
        scaling=Scaling(np.zeros(3), np.ones(3)),
        steps=draws(3, edges=False),
        rewards=draws(1, edges=True),
        smallest=np.full(4, -0.6),
        largest=np.full(4, 0.6),
        reset_classifier=ResetClassifier(np.concatenate([[-0.3], 0.1 * rng.normal(size=6)])),
        low=-np.array([0.3, 0.6, 0.5]),
        high=np.array([0.5, 0.9, 0.4]),
        least=np.full(3, -1.2),
        most=np.full(3, 1.2),
        caution=rng.uniform(0.2, 0.8),
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_gradient_is_that_of_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, theta = any_machine(rng), rng.normal(size=(2, 4))
    lives = rng.uniform(-0.4, 0.4, size=(5, 3)), rng.normal(size=(8, 5, 3)), 7.0
    _, slope = value_and_gradient(model, theta, *lives)
    rise = np.zeros_like(theta)
    for at in np.ndindex(*theta.shape):
        way = np.zeros_like(theta)
        way[at] = 1e-6
        rise[at] = value_and_gradient(model, theta + way, *lives)[0] - value_and_gradient(model, theta - way, *lives)[0]
    assert np.abs(slope).max() > 1e-2
    np.testing.assert_allclose(slope, rise / 2e-6, rtol=1e-5, atol=1e-6)


def test_a_gradient_is_of_the_same_lives() -> None:
    """But for the judge, which is made to say no here."""
    rng = np.random.default_rng(0)
    model = any_machine(rng)
    model.reset_classifier.weight[:] = [-9.0, *np.zeros(6)]
    theta, starts, noise = rng.normal(size=(2, 4)), rng.uniform(-0.4, 0.4, size=(5, 3)), rng.normal(size=(30, 5, 3))
    forecast = rollout(model, theta[None], starts, noise)
    assert 0.05 < forecast.reset.mean() < 0.95
    assert value_and_gradient(model, theta, starts, noise, 7.0)[0] == pytest.approx(forecast.value(7.0)[0], abs=1e-9)


def test_a_gradient_of_lives_that_end_is_not_taken_further() -> None:
    model = machine([20.0, 0.0, 0.0], [1.0, 0.0, 0.0], 1.0)  # 4.5 widths outside after one step: a sure reset
    noise = np.full((50, 3, 1), np.nan)
    noise[0] = 0.0
    worth, slope = value_and_gradient(model, np.zeros((1, 2)), np.zeros((3, 1)), noise, 7.0)
    assert worth == 1.0 - 7.0
    assert np.isfinite(slope).all()


def test_every_start_has_its_draw_and_its_place() -> None:
    """Two draws that earn z and 10 + z: start i is in draw i modulo 2."""
    model = machine([0.0, 0.0, 0.0], [0.0, 1.0, 0.0], 0.0)
    rewards = replace(model.rewards, weight=np.array([[[0.0], [1.0], [0.0]], [[10.0], [1.0], [0.0]]]))
    steps = replace(model.steps, weight=np.zeros((2, 3, 1)))
    model = replace(model, steps=steps, rewards=rewards, largest=np.full(2, 99.0))
    starts, noise = np.array([[0.1], [0.2], [0.3], [0.4], [0.5]]), np.zeros((1, 5, 1))
    forecast = rollout(model, np.zeros((3, 1, 2)), starts, noise)
    np.testing.assert_allclose(forecast.reward, np.tile([0.1, 10.2, 0.3, 10.4, 0.5], (3, 1)))
    assert value_and_gradient(model, np.zeros((1, 2)), starts, noise, 0.0)[0] == pytest.approx(21.5 / 5)


@pytest.mark.parametrize(
    ("step", "start", "risks"),
    [
        ([1.2, -1.0, 0.0], 0.0, [0.05, 0.0, 0.0, 0.0]),  # to 1.2, a tenth of the width outside, and stays there
        ([1.2, -1.0, 0.0], 1.2, [0.0, 0.0, 0.0, 0.0]),  # is there from the start
        ([-0.8, -2.0, 0.0], 0.4, [0.05, 0.0, 0.0, 0.0]),  # -1.2, 0.4, -1.2, 0.4: outside again, but not farther
        ([0.2, 0.0, 0.0], 1.0, [0.05, 0.05, 0.05, 0.05]),  # a tenth of the width farther in every step
    ],
)
def test_a_life_takes_the_risk_of_being_outside_once(step: list[float], start: float, risks: list[float]) -> None:
    """By hand: a width is 2, the caution 0.5, and a step that is lived in earns 1."""
    model = machine(step, [1.0, 0.0, 0.0], 0.5)
    lives = np.full((1, 1), start), np.zeros((4, 1, 1))
    alive = np.cumprod([1.0, *(1.0 - np.array(risks))])
    forecast = rollout(model, np.zeros((1, 1, 2)), *lives)
    assert forecast.reward[0, 0] == pytest.approx(alive[:4].sum())
    assert forecast.reset[0, 0] == pytest.approx(1.0 - alive[4])
    worth = alive[:4].sum() - 3.0 * (1.0 - alive[4])
    assert value_and_gradient(model, np.zeros((1, 2)), *lives, 3.0)[0] == pytest.approx(worth, abs=28.0 * NEVER)


def test_caution_is_learned_from_widths_that_were_lived_in_and_from_resets() -> None:
    """By hand: after a first box of width 2, half a width outside, then the same again, then farther than a width."""
    first = np.tile([[-1.0, 0.0], [1.0, 0.0]], (FIRST, 1))[: FIRST + 1]
    for more, widths in (([], 0.0), ([2.0], 0.5), ([2.0, 2.0], 0.5), ([2.0, 0.0, 10.0], 1.5), ([0.3], 0.0)):
        lived = np.concatenate([first, np.array([[z, 0.0] for z in more]).reshape(-1, 2)])
        for resets in (0, 3):
            expected = 0.3 * (EXPECTED + resets) / (EXPECTED + widths)
            assert learned_caution(lived, resets, 0.3) == pytest.approx(expected)
    assert learned_caution(np.array([[0.0], [9.0], [-9.0]]), 0, 0.3) == 0.3  # before there is a box


def search(model: MachineModel, **changes: Any) -> MachineSearch:
    """From three states of the machine with one sensor."""
    given: dict[str, Any] = {"lam": 9.0, "planning": 20, "population": 6, "rounds": 2, "seed": 5, **changes}
    return MachineSearch(model, np.array([[-0.5], [0.2], [0.6]]), **given)


def dear_motor() -> MachineModel:
    """A machine that moves as it is pushed, and earns exp(-a^2 / 2) of its action a."""
    earns = Draws(np.array([1e9, 1.0]), np.zeros((1, 2)), np.array([0.0, 0.0, 0.0, 1.0]).reshape(1, 4, 1), np.zeros(1))
    return replace(machine([0.0, 0.0, 0.1], [0.0, 0.0, 0.0], 0.5), rewards=earns)


def test_doing_nothing_is_one_of_the_policies_that_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the best of this machine, which random weights never are; and as a policy it does nothing, not anything."""
    monkeypatch.setattr(MachineSearch, "_polished", lambda self, theta, *rest: theta)
    found = search(dear_motor()).best(Candidate(np.ones((1, 2))), living=False)
    assert (found.theta == AT_REST).all()
    policy = unscaled_policy(*found, Scaling(np.zeros(1), np.ones(1)), no_policy(rf.Box(np.array([2.0]), 4.0), 1))
    assert isinstance(policy, TanhPolicy)
    assert policy.act(0, np.array([0.7]), np.array([0.9]))[0] == pytest.approx(3.0)


def test_the_policy_that_is_played_is_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MachineSearch, "_polished", lambda self, theta, *rest: theta)
    model = machine([0.0, 0.0, 0.1], [0.0, -1.0, 0.0], 0.0)  # earns -z: to push down is best, harder than a search does
    played = Candidate(np.array([[0.0, -50.0]]))
    assert search(model).best(played, living=False) is played


@pytest.mark.parametrize(("judged", "generations"), [(-1.0, 3), (1.0, 3 * LONGER)])
def test_where_lives_end_early_more_policies_are_compared(
    judged: float, generations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same time: all lives last 20 steps here, or they all end with the first."""
    model = replace(dear_motor(), reset_classifier=ResetClassifier(np.array([judged, 0.0, 0.0])), caution=0.0)
    plan, tells = search(model), []
    monkeypatch.setattr(CMA, "tell", lambda self, told: tells.append(len(told)))
    plan._evolved(Candidate(np.ones((1, 2))), 0.5, 3, 0, plan.starts, np.zeros((20, 3, 1)))
    assert tells == [6] * generations


def polish(model: MachineModel, theta: Floats) -> tuple[Floats, float]:
    """What the gradient makes of theta, and how much more it is worth."""
    plan = search(model)
    lives = plan.starts, np.random.default_rng(0).normal(size=(20, 3, 1))
    rules = RolloutRules(None, late_counts(20))
    before = float(rollout(model, theta[None], *lives, rules).value(9.0)[0])
    found = plan._polished(Candidate(theta), before, *lives).theta
    return found, float(rollout(model, found[None], *lives, rules).value(9.0)[0]) - before


def test_the_gradient_improves_a_policy() -> None:
    """Here to the best there is: no push, and 20 steps that earn 1."""
    found, gain = polish(dear_motor(), np.array([[0.4, 0.8]]))
    assert gain > 1.0
    assert np.abs(found).max() < 1e-2


@pytest.mark.parametrize("wrong", ["uphill", "far"])
def test_a_policy_that_the_gradient_makes_worse_is_kept(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the judge's yes or no differs from the smooth function whose gradient it is."""

    def misled(model: MachineModel, theta: Floats, *lives: Any, rules: Any) -> tuple[float, Floats]:
        goal = 3.0 if wrong == "far" else 0.5
        return -float(((theta - goal) ** 2).sum()), -2.0 * (theta - goal)

    monkeypatch.setattr(machine_search, "value_and_gradient", misled)
    theta = np.array([[0.0, 0.1]])
    found, gain = polish(dear_motor(), theta)
    assert found is theta
    assert gain == 0.0


def test_the_gradient_is_taken_oftener_of_many_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def never_done(model: MachineModel, theta: Floats, *lives: Any, rules: Any) -> tuple[float, Floats]:
        taken.append(theta)
        valley = np.arange(1.0, theta.size + 1.0).reshape(theta.shape) ** 4
        return -float(np.cosh(theta - 3.0).sum() + (valley * theta**2).sum()), -(
            np.sinh(theta - 3.0) + 2 * valley * theta
        )

    monkeypatch.setattr(machine_search, "value_and_gradient", never_done)
    monkeypatch.setattr(machine_search, "rollout", lambda *given: Forecast(np.zeros((1, 1)), np.zeros((1, 1))))
    counts = []
    for size in (12, 60, 200):
        taken.clear()
        search(dear_motor())._polished(Candidate(np.ones((1, size))), 0.0, np.zeros((3, 1)), np.zeros((20, 3, 1)))
        counts.append(len(taken))
    assert 15 <= counts[0] <= 17 < 30 <= counts[1] <= 32 < 40 <= counts[2] <= 42
