"""Goals in observations: what is reached is learned from, and what is requested is reached without a reset."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import resetfree as rf
from resetfree.players.neural import hindsight

pytest.importorskip("optax")


class Point(gymnasium.Env[Any, Any]):
    """A point in a square; 1 where it comes within 0.1 of its goal, which then moves. It never terminates."""

    def __init__(self, pays: bool = True) -> None:
        plane = spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.observation_space = spaces.Dict({"observation": plane, "achieved_goal": plane, "desired_goal": plane})
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float64)
        if not pays:
            setattr(self, "compute_reward", None)  # noqa: B010

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        """For many goals at once."""
        return (np.linalg.norm(achieved - desired, axis=-1) < 0.1).astype(float)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The middle."""
        super().reset(seed=seed)
        self.at, self.goal = np.zeros(2), self.np_random.uniform(-1, 1, 2)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move."""
        self.at = np.clip(self.at + 0.15 * np.clip(action, -1, 1), -1, 1)
        won = bool(np.linalg.norm(self.at - self.goal) < 0.1)
        if won:
            self.goal = self.np_random.uniform(-1, 1, 2)
        return self._seen(), float(won), False, False, {}

    def _seen(self) -> dict[str, Any]:
        return {"observation": self.at.copy(), "achieved_goal": self.at.copy(), "desired_goal": self.goal.copy()}


def won_late(run: rf.Run) -> float:
    """Goals in the last 500 steps."""
    return float(run.columns["reward"][-5:].sum())


@pytest.mark.parametrize("pays", [True, False], ids=["the task says what a goal pays", "it is learned"])
def test_goals_are_reached_by_the_default_call(pays: bool, tmp_path: Any) -> None:
    given: dict[str, Any] = {"settings": {"primal": {"begin": 300}}, "seed": 1, "path": tmp_path / "a.rfrun"}
    problem = rf.from_gym(Point(pays), reward_range=(0, 1))
    run = rf.learn(problem, episodes=20, **given)
    assert run.player_again("primal").name == "goal-search"
    assert won_late(run) >= 45  # at random it is 4
    assert int(run.realised_resets[-1]) == 0
    said = [one.what for one in run.decisions]
    assert any(one.startswith("goals are won") for one in said)
    action, _ = run.policy.predict({"observation": [0, 0], "achieved_goal": [0, 0], "desired_goal": [0.9, 0.0]})
    assert action[0] > 0.5  # it goes where it is sent


def test_without_hindsight_nothing_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hindsight, "LATER", 0.0)
    monkeypatch.setattr(hindsight, "ANY", 0.0)
    run = rf.learn(rf.from_gym(Point(), reward_range=(0, 1)), episodes=20, seed=1, settings={"primal": {"begin": 300}})
    assert won_late(run) < 15


def test_a_run_goes_on_as_if_it_had_not_stopped(tmp_path: Any) -> None:
    small: dict[str, Any] = {"settings": {"primal": {"begin": 40, "hidden": 8, "batch": 16}}, "seed": 1}

    def played(path: Any, episodes: int, **given: Any) -> rf.Run:
        return rf.learn(rf.from_gym(Point(), horizon=20, reward_range=(0, 1)), episodes=episodes, path=path, **given)

    whole, part = (played(tmp_path / name, 6, **small) for name in ("a.rfrun", "b.rfrun"))  # one seed, one result
    assert len(part) == len(whole)
    played(tmp_path / "c.rfrun", 6, callbacks=[lambda session: session.k == 4], **small)
    again = played(tmp_path / "c.rfrun", 6, resume=True, **small)
    tables = [run.policy.predict(Point().reset(seed=0)[0])[0] for run in (whole, part)]
    assert (tables[0] == tables[1]).all()
    assert len(again) == 6


def test_states_without_goals_are_refused() -> None:
    with pytest.raises(rf.NotCertifiable, match="'achieved_goal' and 'desired_goal'"):
        rf.learn("Pendulum-v1", "goal-search", episodes=1)
