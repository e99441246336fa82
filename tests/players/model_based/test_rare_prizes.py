"""model-search where a rare prize is all there is to win, and where nothing is ever a reset."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import resetfree as rf
from resetfree.players.model_based.exploring import SOONER, prizes
from resetfree.players.model_based.machine_model import Experience, MachineModel, fit_machine, rollout

FREE = np.full(2, -np.inf), np.full(2, np.inf)


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


def after_a_prize() -> MachineModel:
    """A place that moves by 0.1 a, and pays 1 beyond 0.9; what follows a prize is a new start."""
    rng = np.random.default_rng(0)
    before, action = np.column_stack([rng.uniform(-1.0, 0.85, 60), np.zeros(60)]), rng.uniform(-1, 1, (60, 1))
    before[:2, 0] = 0.92, 0.95
    reward, after = (before[:, 0] > 0.9).astype(float), before + 0.1 * np.eye(2)[0] * action
    after[:2, 0] = -0.9
    seen = Experience(before, action, reward, after, before, before[:0])
    return fit_machine(seen, FREE, draws=1, caution=0.0, rng=rng)


def test_a_prize_is_won_near_where_it_was_won_and_ends_the_rollout() -> None:
    """Forwards from 0 in steps of 0.1: after 9 steps nearer to 0.92 than to 0.85. It counts once, and soon is best."""
    model = after_a_prize()
    theta, steps = np.array([[[0.0, 0.0, 9.0]], [[0.0, 0.0, -9.0]]]), 40
    start = model.scaling(np.zeros((1, 2)))
    found = rollout(model, theta, start, np.zeros((steps, 1, 2)))
    assert found.reward[0, 0] == pytest.approx(1.0 + SOONER * (steps - 9) / steps, abs=1.5 * SOONER / steps)
    assert found.reward[1, 0] == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_array_equal(found.reset, 0.0)  # a prize is no reset


def test_a_run_finds_the_end_of_a_corridor_and_goes_there_again() -> None:
    again: dict[str, Any] = {"goal_when": "terminated", "after_goal": "restart for free", "reward_range": (0, 1)}
    found = rf.learn(rf.from_gym(Corridor(), horizon=50, reset_when="never", **again), episodes=30, seed=1)
    assert found.spec["primal"]["name"] == "model-search"
    assert found.columns["goals"][-10:].sum() >= 8  # 51 steps each, at best
