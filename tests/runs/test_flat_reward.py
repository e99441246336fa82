"""A run whose reward does not rise says so, once and then rarely; one whose reward rises does not."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import resetfree as rf
from resetfree.runs.stuck import FlatReward


class Lamp(gymnasium.Env[Any, Any]):
    """Pays `most` for the second action and nothing for the first."""

    def __init__(self, most: float) -> None:
        self.observation_space, self.action_space = spaces.Box(0.0, 1.0, (1,)), spaces.Discrete(2)
        self.most = most

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Somewhere."""
        super().reset(seed=seed)
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Somewhere else."""
        return np.array([self.np_random.random()], dtype=np.float32), self.most * action, False, False, {}


@pytest.mark.parametrize(("most", "notes"), [(0.8, [30, 120]), (0.0, [30, 120])])
def test_an_idle_player_is_noted_and_noted_again_after_four_times_as_long(most: float, notes: list[int]) -> None:
    problem = rf.from_gym(Lamp(most), horizon=100, reset_when="never", reward_range=(0, 1))
    run = rf.learn(problem, "uniform", episodes=130, seed=1, B=1.0)
    found = [one for one in run.notes if "has not risen" in one.what]
    assert [one.k for one in found] == notes
    assert found[0].what.startswith("The reward has not risen in 30 episodes (3,000 steps): ")
    assert "reward_range" in found[0].what


def test_what_rises_or_has_nothing_to_gain_is_not_flat() -> None:
    def said(rewards: Any, steps: int = 100) -> list[int]:
        flat = FlatReward(horizon=100)
        return [k for k, reward in enumerate(rewards, start=1) if flat.see(reward, steps)]

    rng = np.random.default_rng(0)
    assert said(10 + rng.normal(size=200)) == [30, 120]
    assert said(np.linspace(10, 60, 200) + rng.normal(size=200)) == []
    assert said(np.append(np.full(20, 5.0), np.full(180, 40.0))) == []
    assert said(np.full(200, 95.0)) == []
    assert said(np.full(899, 10.0), steps=15) == [200, 800]  # 3,000 steps that were taken, not that could have been
    assert said(np.append(np.full(100, 40.0), np.full(100, 10.0))) == [30, 120]


def test_a_finite_problem_with_a_model_is_left_alone() -> None:
    run = rf.learn("grid-v0", "uniform", episodes=1200, seed=1, B=1.0)
    assert not [one for one in run.notes if "has not risen" in one.what]
