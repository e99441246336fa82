"""Named coordinates of an environment's states: known ids, parts of observations, and a user's `decode`."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import resetfree as rf
from resetfree.core import EnvironmentFailed, Notice
from resetfree.problems import Factor
from resetfree.problems.gym import builder
from resetfree.problems.gym.flattening import flatten


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


class Shown(gymnasium.Env[Any, Any]):
    """Shows samples of a space."""

    def __init__(self, space: Any, actions: Any = None) -> None:
        self.observation_space, self.action_space = space, actions or spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A first sample."""
        super().reset(seed=seed)
        self.shown = self.observation_space.sample()
        return self.shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One more."""
        return self.observation_space.sample(), 0.5, False, False, {}


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


@pytest.mark.parametrize(
    ("space", "count"),
    [
        (spaces.MultiDiscrete([5, 4, 3]), 60),
        (spaces.MultiBinary(7), 128),
        (spaces.Tuple([spaces.Discrete(4), spaces.Dict(a=spaces.Discrete(3, start=-1), b=spaces.MultiBinary(2))]), 48),
        (spaces.Box(-2, 3, (3,), np.int8), 216),
        (spaces.Box(0, 9, (1,), np.int64), 10),
    ],
)
def test_few_combinations_of_whole_numbers_are_states_with_factors(space: Any, count: int) -> None:
    problem = rf.from_gym(Shown(space), reward_range=(0, 1))
    assert problem.n_states == count + 1
    state = problem.perform_reset(0.5, "start")
    assert problem.factors is not None
    low, found = rf.from_gym(Shown(space), states="vectors").low, problem.factors.values[state]
    assert low is not None
    assert len(problem.factors.parts) == len(low)
    assert (found >= 0).all()
    assert low + found == pytest.approx(flatten(space, problem.env.unwrapped.shown))  # type: ignore[attr-defined]
    assert rf.learn(problem, episodes=3).spec["primal"]["name"] == "rule-elimination"


@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (spaces.MultiDiscrete([21, 2]), spaces.Discrete(2)),  # an amount
        (spaces.MultiDiscrete([9] * 5), spaces.Discrete(2)),  # too many combinations
        (spaces.MultiDiscrete([5, 4]), spaces.Box(-1, 1, (1,))),  # no choices
        (spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (1,))]), spaces.Discrete(2)),
        (spaces.MultiDiscrete([20, 20, 20]), spaces.Discrete(30)),  # too large a plan: 8000 x 30 x 100
    ],
)
def test_all_others_are_vectors(space: Any, actions: Any) -> None:
    problem = rf.from_gym(Shown(space, actions), reward_range=(0, 1))
    assert problem.n_states is None
    assert problem.low is not None


def test_what_is_said_of_states_goes_before_the_default() -> None:
    space = spaces.MultiDiscrete([5, 4])
    assert rf.from_gym(Shown(space), states=7).n_states == 8
    for given in ({"observe": lambda o: o}, {"features": "polynomial"}, {"bounds": (0, 9)}, {"xi": "polynomial"}):
        assert rf.from_gym(Shown(space), **given).n_states is None


def test_grids_are_counted_and_what_comes_too_late_shares_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "SEEN", 5)
    problem = rf.from_gym("gym:MiniGrid-Empty-8x8-v0", horizon=60)
    with pytest.warns(Notice, match=r"showed more than 4 distinct observations: all others count as one .*states=50"):
        (episode,) = rf.simulate(problem, lambda h, s: np.array([0.4, 0.2, 0.4, 0, 0, 0, 0]), 1, seed=1)
    assert set(episode.states.tolist()) == {0, 1, 2, 3, 4}
    assert problem.factors is not None
    assert problem.factors.known == 4
    assert len(problem.saved()["seen"]) == 4


@pytest.mark.parametrize(
    "name", ["LavaGapS7", "LavaCrossingS9N1", "DistShift1", "Dynamic-Obstacles-5x5", "DoorKey-5x5"]
)
@pytest.mark.parametrize("wrapper", ["", "FullyObsWrapper", "ImgObsWrapper", "both"])
def test_minigrid_decodes_itself_in_every_variant(name: str, wrapper: str) -> None:
    wrap: Any = pytest.importorskip("minigrid.wrappers")
    env: Any = gymnasium.make(f"MiniGrid-{name}-v0")
    for one in ("FullyObsWrapper", "ImgObsWrapper"):
        env = getattr(wrap, one)(env) if wrapper in (one, "both") else env
    problem, own = rf.from_gym(env, horizon=50), env.unwrapped
    assert problem.factors is not None
    seen = []

    def even(h: int, s: int) -> Any:
        ahead = own.grid.get(*own.front_pos)
        kind = "empty" if ahead is None else ahead.type
        seen.append((s, own.dir_vec, "locked door" if kind == "door" and ahead.is_locked else kind, own.agent_pos))
        return np.full(problem.n_actions, 1 / problem.n_actions)

    ends = 0
    for episode in rf.simulate(problem, even, 12, seed=3):
        cell = own.grid.get(*own.agent_pos)
        if episode.reset and not name.startswith("Dynamic"):
            ends += 1
            assert cell.type == "lava"
    assert ends > 0 or name in ("Dynamic-Obstacles-5x5", "DoorKey-5x5")
    names = [part.name for part in problem.factors.parts]
    for state, _, kind, (x, y) in seen:
        row = dict(zip(names, problem.factors.values[state].tolist(), strict=True))
        assert problem.factors.parts[names.index("ahead")].word(row["ahead"]) == kind
        if "x" in names:
            assert (row["x"], row["y"]) == (x, y)
    assert ("x" in names) == (wrapper in ("FullyObsWrapper", "both"))


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
