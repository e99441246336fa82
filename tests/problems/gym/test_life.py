"""Environments that refuse to go on after a time limit of their own restart for free, which is no reset."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers

import resetfree as rf
from resetfree.core.errors import EnvironmentFailed


class Press(gymnasium.Env[Any, Any]):
    """Counts its steps, and refuses to go on after 40 of them, as Meta-World does after 500."""

    def __init__(self, how: str = "raises") -> None:
        self.observation_space, self.action_space = spaces.Box(0.0, 99.0, (1,)), spaces.Discrete(2)
        self.how, self.resets = how, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A new life."""
        super().reset(seed=seed)
        self.at, self.resets = 0, self.resets + 1
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step of at most 40; action 0 breaks it at step 30."""
        if self.at >= 40 and self.how == "raises":
            raise ValueError("Max path length reached. You must reset the environment.")
        self.at += 1
        late = np.nan if self.at > 40 and self.how == "shows nothing" else float(self.at)
        seen = np.array([late], dtype=np.float32)
        return seen, 0.5, bool(self.at == 30 and action == 0), self.at >= 40 and self.how != "silent", {}


def always(action: int) -> Any:
    return lambda h, s: np.eye(2)[action]


@pytest.mark.filterwarnings("ignore::resetfree.core.errors.Notice")
@pytest.mark.parametrize("how", ["raises", "shows nothing"])
@pytest.mark.parametrize(("horizon", "drops"), [(16, [41]), (40, [41]), (100, [41, 80, 120, 160])])
def test_it_restarts_between_two_episodes_once_the_limit_is_known(how: str, horizon: int, drops: list[int]) -> None:
    problem = rf.from_gym(Press(how), horizon=horizon, reward_range=(0, 1))
    played = list(rf.simulate(problem, always(1), 200 // horizon, seed=1))
    before = [horizon * k + np.flatnonzero(np.diff(one.states[:, 0]) < 0) + 1 for k, one in enumerate(played)]
    assert np.concatenate(before).tolist() == drops  # transitions within an episode that show a restart
    assert not any(one.reset for one in played)
    assert [one.why for one in problem.interventions()] == ["start"]
    assert problem.life.limit == 40


@pytest.mark.filterwarnings("ignore::resetfree.core.errors.Notice")
def test_the_limit_is_said_counted_apart_and_known_to_a_resumed_run(tmp_path: Path) -> None:
    given: dict[str, Any] = {"primal": "uniform", "episodes": 40, "seed": 1, "B": 1.0, "path": tmp_path / "a.rfrun"}
    problem = rf.from_gym(Press(), horizon=10, reset_when="never", reward_range=(0, 1))
    run = rf.learn(problem, **given)
    assert int(run.realised_resets[-1]) == 0
    said = [(one.k, one.what.partition(" (")[0]) for one in run.notes]
    assert said[0] == (5, "'Press' does not go on after its own time limit of 40 steps")
    assert [text for _, text in said[1:]] == [
        f"'Press' has restarted for free {n} times at its own time limit of 40 steps" for n in (2, 4, 8)
    ]
    assert problem.life.limits == 10
    again = rf.from_gym(Press(), horizon=10, reset_when="never", reward_range=(0, 1))
    again.restore(problem.saved())
    assert (again.life.limit, again.life.limits) == (40, 10)
    with pytest.raises(ValueError, match="two whole numbers"):
        again.restore({"limit": np.array([0, 1])})


def test_an_error_before_the_limit_is_an_error() -> None:
    env = Press()
    problem = rf.from_gym(env, horizon=45, reward_range=(0, 1))
    start = problem.perform_reset(0.5, "start")
    env.at = 40
    with pytest.raises(EnvironmentFailed, match="raised ValueError: Max path length"):
        problem.rollout(always(1), start, np.zeros(45))


@pytest.mark.filterwarnings("ignore::resetfree.core.errors.Notice")
@pytest.mark.parametrize("checked", [False, True])
def test_wrappers_of_gymnasium_go_on(checked: bool) -> None:
    env: Any = Press("silent")
    if checked:
        env = wrappers.PassiveEnvChecker(env)
    problem = rf.from_gym(wrappers.TimeLimit(wrappers.OrderEnforcing(env), 10), horizon=60, reward_range=(0, 1))
    (played,) = rf.simulate(problem, always(1), 1, seed=1)
    assert played.states[:, 0].tolist() == list(range(61))
    assert env.unwrapped.resets == 1
