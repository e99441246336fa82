"""Observations become states and indices become actions, or one sentence says why not."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from tests.problems.gym.reaching import evenly

import resetfree as rf
from resetfree.core import EnvironmentFailed
from resetfree.problems.action_spaces import Levels
from resetfree.problems.blueprint import action_array, actions_from, plain_array
from resetfree.problems.features import make_features
from resetfree.problems.features.basis import RandomFourier, UserFeatures
from resetfree.problems.gym.events import Unusable
from resetfree.problems.gym.flattening import learner_actions, list_actions
from resetfree.problems.gym.observations import Numbered, observer_for


def test_discrete_observations_count_from_zero_with_one_state_for_the_reset(line: Any) -> None:
    env = line(observation="discrete")
    problem = rf.from_gym(env, horizon=30)
    assert (problem.n_states, problem.low, problem.features) == (42, None, None)
    start = problem.perform_reset(0.5, "start")
    assert isinstance(start, int)
    assert start == round(env.at) + 20
    episode = problem.rollout(lambda h, s: np.array([0.0, 1.0]), start, np.zeros(30))
    assert episode.states.dtype == np.int64
    assert episode.reset
    assert episode.states[-1] == 41
    fell = round(env.at)
    problem.perform_reset(0.5, "reset")
    assert f"step {len(episode.actions)} of an episode, observed {fell}, reward 1, terminated" in [
        one.detail for one in problem.interventions()
    ]


@given(st.integers(0, 10_000))
def test_boxes_are_flattened_as_gymnasium_flattens_them(seed: int) -> None:
    space = spaces.Tuple([
        spaces.Box(-1, 1, (2, 3), np.float64), spaces.MultiBinary(4), spaces.Tuple([spaces.Box(0, 9, (), np.float64)]),
    ])  # fmt: skip
    space.seed(seed)
    one = space.sample()
    observer = observer_for(space, None, None, "x")
    assert observer(one).tolist() == np.asarray(spaces.flatten(space, one)).tolist()
    assert observer.low is not None
    assert observer.low.tolist() == [-1] * 6 + [0] * 5


def test_whole_numbers_in_a_tuple_stay_numbers() -> None:
    problem = rf.from_gym("gym:Blackjack-v1", reward_range=(-1, 1), horizon=3)
    assert problem.low is not None
    assert problem.high is not None
    assert (problem.low.tolist(), problem.high.tolist()) == ([0, 0, 0], [31, 10, 1])
    start = problem.first_start(0.2)
    assert start.shape == (3,)
    assert isinstance(problem.features, RandomFourier)
    observer = observer_for(spaces.MultiDiscrete([3, 4], start=[1, 2]), None, None, "x")
    assert observer.low is not None
    assert observer.high is not None
    assert (observer.low.tolist(), observer.high.tolist()) == ([1, 2], [3, 5])


def test_what_is_not_made_of_numbers_needs_a_function(line: Any) -> None:
    with pytest.raises(
        rf.InvalidInput,
        match=r"^The observations of 'Line' \('word' is Text, not numbers\) must be made into vectors: give ob.*$",
    ):
        rf.from_gym(line(observation="dictionary"))
    with pytest.raises(rf.InvalidInput, match="'word' is Text"):
        rf.from_gym(line(observation="dictionary"), features="random-fourier")
    with pytest.raises(rf.InvalidInput, match="'observation' is Text"):
        observer_for(spaces.Text(3), None, None, "x")
    with pytest.raises(rf.InvalidInput, match=r"'observation\[1\]' is Text"):
        observer_for(spaces.Tuple([spaces.Box(0, 1, (1,)), spaces.Text(3)]), None, None, "x")
    problem = rf.from_gym(
        line(observation="dictionary"), features=lambda o: [o["at"][0], o["word"] == "left"], horizon=9
    )
    start = problem.first_start(0.9)
    assert start.shape == (2,)
    assert problem.features == UserFeatures()
    assert problem.n_states is None
    assert problem.low is not None
    assert problem.low.tolist() == [-np.inf] * 2
    with pytest.raises(rf.InvalidInput, match=r"must turn any observation .* it raised KeyError: 'nothing' instead"):
        rf.from_gym(line(observation="dictionary"), features=lambda o: o["nothing"])


def test_features_by_name_and_by_object_and_nothing_else(line: Any) -> None:
    assert rf.from_gym(line(), features="polynomial").features == make_features("polynomial")
    given_map = RandomFourier(d=7)
    assert rf.from_gym(line(), features=given_map).features is given_map
    with pytest.raises(rf.UnknownName, match="no feature map 'fuorier'"):
        rf.from_gym(line(), features="fuorier")
    with pytest.raises(rf.InvalidInput, match="must be the name of a feature map, a FeatureMap or a function"):
        rf.from_gym(line(), features=3)
    with pytest.raises(rf.InvalidInput, match="are counted and take no feature map"):
        rf.from_gym(line(observation="discrete"), features="polynomial")


def test_features_of_starts(line: Any) -> None:
    assert rf.from_gym(line()).xi is None
    with pytest.raises(rf.InvalidInput, match=r"need a scale, and entry 0 .* is unbounded: state bounds=\(low, high\)"):
        rf.from_gym(line(), xi="random-fourier")
    with pytest.raises(rf.InvalidInput, match="entry 1 of"):
        rf.from_gym("gym:CartPole-v1", xi="random-fourier")
    problem = rf.from_gym(line(), xi="random-fourier", bounds=(-6, [6, 1]))
    assert problem.high is not None
    assert problem.high.tolist() == [6, 1]
    assert problem.xi(np.zeros((3, 2))).shape == (3, problem.xi.dimension)
    own = rf.from_gym(line(), xi=lambda s: [s[0] ** 2, 1.0]).xi
    assert own(np.array([[3.0, 1.0]])).tolist() == [[9.0, 1.0]]
    rows = rf.from_gym("gym:FrozenLake-v1", xi=lambda s: [1.0, s % 4]).xi
    assert rows.shape == (17, 2)
    assert rows[6].tolist() == [1.0, 2.0]
    assert not rows[16].any()
    wrongs: list[Any] = ["random-fourier", np.ones((3, 2)), RandomFourier(), lambda s: 1 / 0, np.full((16, 1), np.nan)]
    for wrong in wrongs:
        with pytest.raises(rf.InvalidInput, match=r"must be finite numbers \[16, d\]"):
            rf.from_gym("gym:FrozenLake-v1", xi=wrong)
    with pytest.raises(rf.InvalidInput, match=r"must be finite numbers \[5, d\], one row per state\. Got <function"):
        rf.from_gym(line(), states=5, xi=lambda s: [1.0])
    assert rf.from_gym(line(), states=5, xi=np.ones((5, 2))).xi.tolist() == [[1, 1]] * 5 + [[0, 0]]
    with pytest.raises(rf.InvalidInput, match=r"must turn a state .* It raised IndexError"):
        rf.from_gym(line(), xi=lambda s: s[9])
    with pytest.raises(rf.InvalidInput, match="must be two numbers or two vectors of 2"):
        rf.from_gym(line(), bounds=(1, 0))
    with pytest.raises(rf.InvalidInput, match="take no 'bounds'"):
        rf.from_gym("gym:FrozenLake-v1", bounds=(0, 1))


def test_distinct_observations_are_numbered_as_they_come(line: Any) -> None:
    env = line(observation="dictionary", length=4)
    problem = rf.from_gym(env, states=20, horizon=40)
    assert problem.n_states == 21
    watched: list[tuple[int, str]] = []
    show = env._seen

    def watch() -> Any:
        watched.append((round(env.at), "left" if env.at < 0 else "right"))
        return show()

    env._seen = watch
    states, fresh = [], True
    for episode in rf.simulate(problem, evenly(problem), 100, seed=2):
        states += episode.states.tolist()[0 if fresh else 1 :]
        fresh = episode.reset
    number: dict[tuple[int, str], int] = {}
    for state, seen in zip(states, watched, strict=True):
        assert state == 20 or state == number.setdefault(seen, len(number))
    assert states.count(20) > 10
    assert 8 <= len(number) <= 20


def test_the_numbering_can_be_saved_and_taken_back(line: Any) -> None:
    problem = rf.from_gym(line(observation="dictionary"), states=30, horizon=40)
    list(rf.simulate(problem, evenly(problem), 20, seed=2))
    kept = problem.saved()
    assert set(kept) == {"seen", "units"}
    again = rf.from_gym(line(observation="dictionary"), states=30, horizon=40)
    again.restore(kept)
    assert np.array_equal(again.saved()["seen"], kept["seen"])
    observe, same = problem._observer, again._observer
    for at in range(-5, 6):
        shown = {"at": np.array([at], dtype=np.float32), "word": "left" if at < 0 else "right"}
        assert observe(shown) == same(shown)
    assert rf.from_gym(line()).saved() == {}
    with pytest.raises(rf.InvalidInput, match="must be at most 2 hashes of 16 bytes"):
        rf.from_gym(line(), states=2).restore(kept)


def test_more_distinct_observations_than_said_end_the_run(line: Any) -> None:
    problem = rf.from_gym(line(), states=3, horizon=40)
    with pytest.raises(EnvironmentFailed, match=r"^At step 3 of an episode \(step 3 in all\), .* more than 3 distinct"):
        list(rf.simulate(problem, evenly(problem), 5, seed=2))
    for wrong in (0, True, 2.5):
        with pytest.raises(rf.InvalidInput, match="must be an integer from 1"):
            rf.from_gym(line(), states=wrong)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "ab"])), min_size=2, max_size=2))
def test_two_observations_get_one_number_only_if_they_are_equal(pair: list[tuple[int, str]]) -> None:
    observer = Numbered(5)
    first, second = (observer({"n": np.int64(n), "word": word, "both": (n, word)}) for n, word in pair)
    assert (first == second) == (pair[0] == pair[1])
    assert observer(np.zeros((2, 1))) != observer(np.zeros((1, 2))) != observer(np.zeros(2, dtype=np.int8))
    with pytest.raises(Unusable, match="cannot be hashed"):
        observer({"n": None})
    with pytest.raises(Unusable, match="not finite"):
        observer([1.0, np.nan])


@pytest.mark.parametrize("other", ["3", "\u0663", "", None, [3], np.nan, np.inf, 2.5])
def test_what_only_looks_like_a_number_is_none(other: Any) -> None:
    observer = observer_for(spaces.Discrete(5, start=1), None, None, "line")
    assert observer(np.int64(3)) == observer(3.0) == 2
    with pytest.raises(Unusable, match="which is not"):
        observer(other)


def test_minigrid_runs_with_numbered_observations() -> None:
    problem = rf.from_gym("gym:MiniGrid-LavaGapS5-v0", states=500, horizon=50, max_steps=10**9, reset_when="terminated")
    assert (problem.n_states, problem.n_actions) == (501, 7)
    episodes = list(rf.simulate(problem, evenly(problem), 60, seed=0))
    assert sum(e.reset for e in episodes) > 5
    assert 20 < len(problem.saved()["seen"]) < 500


def test_continuous_actions_are_a_box_unless_a_grid_or_a_list_is_requested() -> None:
    box = spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 4.0]), dtype=np.float64)
    for given_actions in (None, "box"):
        own = learner_actions(box, given_actions, "x")
        assert isinstance(own, rf.Box)
        assert (own.low.tolist(), own.high.tolist()) == ([-1, 0], [1, 4])
    assert isinstance(rf.from_gym("gym:Pendulum-v1").actions, rf.Box)
    grid = list_actions(box, 3, "x")
    assert [a.tolist() for a in grid] == [[x, y] for x in (-1, 0, 1) for y in (0, 2, 4)]
    assert [a.tolist() for a in list_actions(box, (2, 3), "x")] == [[x, y] for x in (-1, 1) for y in (0, 2, 4)]
    assert [a.tolist() for a in list_actions(box, "2,3", "x")] == [[x, y] for x in (-1, 1) for y in (0, 2, 4)]
    assert [a.tolist() for a in list_actions(box, [[0, 1], [0.5, 4]], "x")] == [[0, 1], [0.5, 4]]
    problem = rf.from_gym("gym:Pendulum-v1", actions=5, reward_range=(-17, 0), horizon=20)
    assert isinstance(problem.actions, rf.Choices)
    assert [a.tolist() for a in problem.actions] == [[-2], [-1], [0], [1], [2]]
    assert problem.actions[0].dtype == np.float32
    assert len(next(rf.simulate(problem, evenly(problem), 1)).actions) == 20


@pytest.mark.parametrize(
    ("space", "low", "high"),
    [
        (spaces.MultiDiscrete([5, 3], start=[1, 0]), [1, 0], [5, 2]),
        (spaces.MultiBinary(2), [0, 0], [1, 1]),
        (spaces.Box(-3, 3, (2,), np.int8), [-3, -3], [3, 3]),
    ],
)
def test_several_whole_numbers_are_every_combination_or_a_box_that_is_rounded(space: Any, low: Any, high: Any) -> None:
    listed = learner_actions(space, None, "x")
    assert isinstance(listed, list)
    choices, box = rf.Choices(len(listed), listed), learner_actions(space, "box", "x")
    assert choices.levels == tuple(b - a + 1 for a, b in zip(low, high, strict=True))
    assert isinstance(box, Levels)
    assert (box.low.tolist(), box.high.tolist()) == (low, high)
    for i, one in enumerate(listed):
        assert space.contains(one)
        level = np.unravel_index(i, choices.levels)
        native = box.native(np.array(low) + np.array(level) + 0.3)
        assert (native.tolist(), native.dtype) == (one.tolist(), space.dtype)
    again = actions_from({"n_actions": None, "actions": plain_array(action_array(box))})
    assert isinstance(again, Levels)
    assert again.native(np.array(low) + 0.4).tolist() == low
    assert rf.Choices(2, [[0, 0], [1, 1]]).levels is None
    assert (rf.Choices(2, [0, 1]).levels, rf.Choices(2, [{"a": 1}, {"a": 2}]).levels, rf.Choices(2).levels) == (
        None,
        None,
        None,
    )


def test_too_many_combinations_are_a_box_that_is_rounded() -> None:
    many = learner_actions(spaces.MultiDiscrete([11] * 7), None, "x")
    assert isinstance(many, Levels)
    assert many.size == 7


@pytest.mark.parametrize(
    ("space", "given_actions", "sentence"),
    [
        (spaces.Box(-1, 1, (2,)), 1, "must be a number of grid points from 2, or 2 of them. Got 1 instead"),
        (spaces.Box(-1, 1, (2,)), (3, 3, 3), "or 2 of them"),
        (spaces.Box(-1, 1, (2,)), "a,b", "as in 5 or 3,5. Got 'a,b' instead"),
        (spaces.Box(-np.inf, 1, (2,)), 3, "A grid of actions needs finite bounds"),
        (spaces.Box(-1, 1, (17,)), 3, "must have at most 10000 actions. Got 129140163 instead"),
        (spaces.Box(-1, 1, (2,)), [[0, 2]], r"must lie in Box.* Got \[0, 2\] instead"),
        (spaces.Box(-1, 1, (2,)), [], "must be a list of actions"),
        (spaces.Discrete(3), 5, "A grid of actions needs a continuous space"),
        (spaces.Discrete(3), [0, 3], r"must lie in Discrete\(3\). Got 3 instead"),
        (spaces.Discrete(3), [0.5], "Got 0.5 instead"),
        (spaces.Text(3), None, "must be listed"),
        (spaces.Dict(a=spaces.Box(-1, 1)), None, r"of 'x' \(Dict\) must be listed, actions=\[...\], or become one Box"),
        (spaces.Tuple([spaces.Discrete(2)]), None, r"of 'x' \(Tuple\) must be listed"),
        (spaces.Box(-np.inf, 1, (2,)), None, r"must have finite bounds. Got Box.*wrappers.TransformAction\(env"),
        (spaces.Box(-np.inf, 1, (2,)), "box", "must have finite bounds"),
        (spaces.Box(-(2**63), 2**63 - 1, (2,), np.int64), None, "must have at most 10000 actions"),
        (spaces.Discrete(3), "box", r'Got actions="box" for Discrete\(3\) instead: leave it out'),
    ],
)  # fmt: skip
def test_actions_that_do_not_fit_are_refused(space: Any, given_actions: Any, sentence: str) -> None:
    with pytest.raises(rf.InvalidInput, match=sentence):
        learner_actions(space, given_actions, "x")


def test_a_box_of_integers_is_all_its_points() -> None:
    dials = spaces.Box(np.array([-1, 0]), np.array([1, 1]), dtype=np.int16)
    ways = learner_actions(dials, None, "x")
    assert isinstance(ways, list)
    assert [way.tolist() for way in ways] == [[x, y] for x in (-1, 0, 1) for y in (0, 1)]
    assert all(dials.contains(way) for way in ways)


def test_a_wrapper_gives_bounds_to_actions_that_have_none() -> None:
    class Free(gymnasium.Env[Any, Any]):
        observation_space = spaces.Box(-1, 1, (2,))
        action_space = spaces.Box(-np.inf, np.inf, (2,))

    made = gymnasium.wrappers.TransformAction(Free(), lambda action: 5 * action, spaces.Box(-1, 1, (2,)))
    assert isinstance(rf.from_gym(made).actions, rf.Box)


def test_discrete_actions_keep_their_names() -> None:
    assert list_actions(spaces.Discrete(3, start=-1), None, "x") == [-1, 0, 1]
    assert list_actions(spaces.Discrete(4), [3, 1], "x") == [3, 1]
    assert list_actions(spaces.Discrete(4), (3, 1), "x") == [3, 1]
    ways = list_actions(spaces.MultiDiscrete([2, 3], start=[0, 5]), None, "x")
    assert [w.tolist() for w in ways] == [[0, 5], [0, 6], [0, 7], [1, 5], [1, 6], [1, 7]]
    assert all(spaces.MultiBinary(3).contains(w) for w in list_actions(spaces.MultiBinary(3), None, "x"))
    problem = rf.from_gym("gym:FrozenLake-v1", actions=[2, 1], is_slippery=False, horizon=6, reset_when="terminated")
    episode = problem.rollout(np.array([[0, 0, 1, 1, 1, 0]]).T.repeat(17, axis=1), problem.first_start(0), np.zeros(6))
    assert episode.states.tolist() == [0, 1, 2, 6, 10, 14, 16]
    assert problem.mdp.n_actions == 2


def test_mujoco_with_a_grid_of_actions() -> None:
    problem = rf.from_gym("gym:Hopper-v5", actions=2, reward_range=(-10, 20), horizon=20)
    assert problem.n_actions == 8
    episodes = list(rf.simulate(problem, evenly(problem), 10, seed=0))
    assert any(e.reset for e in episodes)
    assert all(np.isfinite(e.original_return) for e in episodes)


def test_highway_goes_on_after_its_own_time_limit_and_a_crash_is_the_event() -> None:
    config = {"vehicles_count": 4, "lanes_count": 2, "duration": 3, "simulation_frequency": 5}
    problem = rf.from_gym("gym:highway-v0", config=config, horizon=10, reset_when="info.crashed")
    assert (problem.n_states, problem.n_actions) == (None, 5)
    episodes = list(rf.simulate(problem, evenly(problem), 6, seed=1))
    calm = [e for e in episodes if not e.reset]
    assert all(len(e.actions) == 10 for e in calm)
    assert len(problem.interventions()) == 1 + sum(e.reset for e in episodes[:-1])
    assert calm


def test_vector_environments_and_autoreset_are_refused(line: Any) -> None:
    with pytest.raises(
        rf.InvalidInput, match=r"^Vector environments reset themselves, .* one single environment for '.*'\.$"
    ):
        rf.from_gym(gymnasium.make_vec("CartPole-v1", 2))
    with pytest.raises(rf.InvalidInput, match="The wrapper Autoreset resets 'TimeLimit' by itself"):
        rf.from_gym(gymnasium.wrappers.TimeLimit(gymnasium.wrappers.Autoreset(line()), 5))
    with pytest.raises(rf.InvalidInput, match=r"must be a gymnasium.Env. Got int instead"):
        rf.from_gym(5)
    with pytest.raises(
        rf.InvalidInput, match=r"'horizon' of 'Line' must be an integer from 1 to 100000. Got 0 instead"
    ):
        rf.from_gym(line(), horizon=0)
    with pytest.raises(rf.InvalidInput, match=r"given by its id takes options. Got map_name for 'Line' instead"):
        rf.from_gym(line(), map_name="8x8")
