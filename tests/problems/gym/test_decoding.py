"""Named coordinates of an environment's states: known ids, parts of observations, and a user's `decode`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import resetfree as rf
from resetfree.core.errors import EnvironmentFailed
from resetfree.problems.factors import Factor


class Corridor(gymnasium.Env[Any, Any]):
    """Two lamps and a place in a corridor of five."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(lamps=spaces.MultiDiscrete([2, 2]), place=spaces.Discrete(5, start=1))
        self.action_space = spaces.Discrete(2)
        self._place = 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Back to the first place."""
        super().reset(seed=seed)
        self._place = 1
        return self._see(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One place on, or none."""
        self._place = min(self._place + action, 5)
        return self._see(), 0.0, False, False, {}

    def _see(self) -> Any:
        return {"lamps": np.array([1, self._place % 2]), "place": self._place}


def test_taxi_knows_its_places() -> None:
    taxi = rf.from_gym("gym:Taxi-v4", reset_when="reward<=-10", reward_range=(-10, 20)).factors
    assert taxi is not None
    assert [part.name for part in taxi.parts] == ["row", "column", "taxi", "passenger", "destination"]
    own: Any = gymnasium.make("Taxi-v4").unwrapped
    for place, (row, column) in enumerate(own.locs):
        assert taxi.values[own.encode(row, column, 4, 1)].tolist() == [row, column, place, 4, 1]
    assert taxi.values[own.encode(2, 2, 0, 3)].tolist() == [2, 2, 5, 0, 3]
    assert taxi.values[-1].tolist() == [-1] * 5  # the reset state
    assert taxi.action(4) == "pick-up"


def test_grids_have_rows_and_columns() -> None:
    cliff = rf.from_gym("gym:CliffWalking-v1").factors
    assert cliff is not None
    assert cliff.values[[0, 13, 47]].tolist() == [[0, 0], [1, 1], [3, 11]]
    assert rf.from_gym("gym:CartPole-v1").factors is None


def test_parts_that_are_whole_numbers_are_found_as_they_come_up() -> None:
    problem = rf.from_gym(Corridor(), horizon=3, states=9, reset_when="terminated", reward_range=(0, 1))
    assert problem.factors is not None
    assert problem.factors.known == 0
    state = problem.perform_reset(0.5, "start")
    assert [part.name for part in problem.factors.parts] == ["lamps[0]", "lamps[1]", "place"]
    assert problem.factors.values[state].tolist() == [1, 1, 0]
    problem.rollout(np.ones((10, 2)) * [0.0, 1.0], state, np.zeros(problem.n_uniforms))
    assert problem.factors.known == 4
    again = rf.from_gym(Corridor(), horizon=3, states=9, reset_when="terminated", reward_range=(0, 1))
    again.restore(problem.saved())
    assert again.factors is not None
    assert np.array_equal(again.factors.values, problem.factors.values)


def test_a_user_names_factors_and_their_kinds() -> None:
    rooms = {Factor("mine", kind="room"): 1, "hour": 2}
    lake = rf.from_gym("gym:FrozenLake-v1", decode=lambda s: {name: s // k for name, k in rooms.items()})
    assert lake.factors is not None
    assert [(part.name, part.kind) for part in lake.factors.parts] == [("mine", "room"), ("hour", "")]
    assert lake.factors.values[5].tolist() == [5, 2]


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(rf.InvalidInput, match="'decode' of 'gym:CartPole-v1' needs states that are counted"):
        rf.from_gym("gym:CartPole-v1", decode=lambda s: (s,))
    with pytest.raises(rf.InvalidInput, match="must be a function of the observation"):
        rf.from_gym("gym:FrozenLake-v1", decode=7)
    with pytest.raises(rf.InvalidInput, match="whole numbers from 0"):
        rf.from_gym("gym:FrozenLake-v1", decode=lambda s: (s - 1,))
    problem = rf.from_gym(Corridor(), states=9, decode=lambda o: 1 / 0, reset_when="terminated", reward_range=(0, 1))
    with pytest.raises(EnvironmentFailed, match="could not be decoded"):
        problem.perform_reset(0.5, "start")
