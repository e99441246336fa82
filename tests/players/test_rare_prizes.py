"""model-search where a rare prize is all there is to win, and where nothing is ever a reset."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import resetfree as rf
from resetfree.players.shared.choice_search import SOONER, FittedModel, _danger, imagine, prizes

SIZE = 2


def model(caution: float, **other: Any) -> FittedModel:
    """Action 0 moves by 0.1 in the first number, action 1 back; nothing is earned."""
    coefficient = np.zeros((2, 1 + SIZE, SIZE + 1))
    coefficient[0, 0, 0], coefficient[1, 0, 0] = 0.1, -0.1
    still, none = np.zeros((2, SIZE)), np.zeros((0, SIZE))
    ends = -np.ones(SIZE), np.ones(SIZE), np.full(SIZE, -9.0), np.full(SIZE, 9.0)
    return FittedModel(np.zeros((SIZE, 0)), np.zeros(0), coefficient, still, none, 0, *ends, caution, **other)


def life(world: FittedModel, steps: int) -> tuple[float, float]:
    """Reward and risk of action 0 alone, from the middle."""
    forwards, out = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), np.empty(2)
    imagine(world, forwards, np.zeros(SIZE), np.zeros((steps, SIZE)), out)
    return float(out[0]), float(out[1])


class Corridor(gym.Env[Any, Any]):
    """From 1 m, steps of 0.1 m; the end, at 6 m, pays 1. By chance it is hardly ever found."""

    observation_space = gym.spaces.Box(0.0, 10.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = 1.0
        return np.array([self.x]), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.x = float(np.clip(self.x + 0.1 * (int(action) - 1) + 0.01 * self.np_random.normal(), 0.0, 10.0))
        return np.array([self.x]), float(self.x >= 6.0), self.x >= 6.0, False, {}


@pytest.mark.parametrize(
    ("earned", "won"),
    [
        ([0.0] * 30 + [1.0], [30]),
        ([0.3] * 10 + [0.8] + [0.3] * 30, [10]),
        ([0.0] * 5 + [1.0] * 5, []),  # common
        ([0.0] * 30 + [0.1, 1.0], []),  # others differ: there is something to fit
        ([1.0] * 30, []),
        ([1.0] * 30 + [0.0], []),
        ([], []),
    ],
)
def test_a_prize_is_rare_and_all_else_is_the_same(earned: list[float], won: list[int]) -> None:
    assert np.flatnonzero(prizes(np.array(earned))).tolist() == won


def test_where_nothing_is_a_reset_what_is_new_pays_and_costs_nothing() -> None:
    """Steps 11 to 20 lead 0.1, .., 1.0 out of a box that is 2 wide."""
    assert _danger(model(-1.0), np.array([2.0, 0.0])) == pytest.approx(-0.5)
    assert _danger(model(-9.0), np.array([2.0, 0.0])) == -1.0
    assert life(model(-1.0), 20) == pytest.approx((sum(0.05 * i for i in range(1, 11)), 0.0), abs=1e-6)
    assert life(model(0.0), 20) == (0.0, 0.0)
    assert life(model(1.0), 20)[1] > 0.5


def test_a_prize_is_won_near_where_it_was_won_and_leads_where_it_led() -> None:
    """From 0 in steps of 0.1 to 0.5, the half of the way to where it was won, then back to 0: once in 6 steps."""
    paying, led = np.array([[1.0, 0.0], [-0.05, 0.0]]), np.zeros((1, SIZE))
    world = model(0.0, paying=paying, n_paid=1, led=led, prize=1.0)
    steps = 12
    times = [5, 11]  # steps before which it is there
    assert life(world, steps) == pytest.approx((sum(1.0 + SOONER * (steps - t) / steps for t in times), 0.0))


def test_a_run_finds_the_end_of_a_corridor_and_goes_there_again() -> None:
    again: dict[str, Any] = {"goal_when": "terminated", "after_goal": "restart for free", "reward_range": (0, 1)}
    found = rf.learn(rf.from_gym(Corridor(), horizon=50, reset_when="never", **again), episodes=30, seed=1)
    assert found.spec["primal"]["name"] == "model-search"
    assert found.columns["goals"][-10:].sum() >= 8  # 51 steps each, at best
    feared = rf.learn(rf.from_gym(Corridor(), horizon=50, reset_when="observation[0]<0", **again), episodes=30, seed=1)
    assert feared.columns["goals"].sum() < found.columns["goals"].sum()
