"""Observations of several parts become one vector, whose numbers have names; images do not."""

from collections import OrderedDict
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from tests.problems.gym.reaching import Reach

import resetfree as rf
from resetfree.core import EnvironmentFailed
from resetfree.problems.features.basis import RandomFourier
from resetfree.problems.gym.events import Condition
from resetfree.problems.gym.flattening import flatten, is_image, names_of
from resetfree.problems.gym.observations import observer_for

NAMES = ["achieved_goal[0]", "achieved_goal[1]", "desired_goal[0]", "desired_goal[1]", "observation.lamp",
         "observation.speed[0]", "observation.speed[1]"]  # fmt: skip


class Push(rf.Policy):
    """The same action for ever."""

    def __init__(self, *action: float) -> None:
        self.action = np.array(action)

    def act(self, h: int, s: Any, u: Any) -> Any:
        return self.action


leaves: st.SearchStrategy[Any] = st.one_of(
    st.lists(st.integers(1, 3), max_size=2).map(lambda shape: spaces.Box(-1, 1, tuple(shape), np.float64)),
    st.integers(1, 5).map(spaces.Discrete),
    st.lists(st.integers(1, 4), min_size=1, max_size=3).map(spaces.MultiDiscrete),
    st.integers(1, 4).map(spaces.MultiBinary),
)
nested = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["a", "b", "goal"]), inner, min_size=1).map(spaces.Dict),
        st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
    ),
    max_leaves=5,
)


def naive(observation: Any) -> list[float]:
    """All numbers of what Gymnasium samples, in the order in which it lists them."""
    if isinstance(observation, dict | OrderedDict):
        return [x for part in observation.values() for x in naive(part)]
    if isinstance(observation, tuple):
        return [x for part in observation for x in naive(part)]
    return [float(x) for x in np.ravel(observation)]


@given(nested, st.integers(0, 1000))
def test_every_number_is_kept_once_and_has_its_own_name(space: Any, seed: int) -> None:
    space.seed(seed)
    one = space.sample()
    vector, names = flatten(space, one), names_of(space)
    assert vector.tolist() == naive(one)
    assert len(names) == len(set(names)) == len(vector)
    if not isinstance(space, spaces.Discrete):
        observer = observer_for(space, None, None, "x")
        assert observer.low is not None
        assert observer.high is not None
        assert ((observer.low <= vector) & (vector <= observer.high)).all()
        assert observer.names == names


def test_goal_observations_are_vectors_with_names() -> None:
    problem = rf.from_gym(Reach(), horizon=5)
    assert problem.names == NAMES
    assert problem.low is not None
    assert problem.high is not None
    assert problem.low.tolist() == [-2, -2, -2, -2, 0, -np.inf, -np.inf]
    assert problem.high.tolist() == [2, 2, 2, 2, 1, np.inf, np.inf]
    start = problem.first_start(0.5)
    seen = problem.env.unwrapped._seen()  # type: ignore[attr-defined]
    assert start.tolist() == [*seen["achieved_goal"], 0.5, -0.5, seen["observation"]["lamp"], 0.0, 0.0]
    assert rf.from_gym("gym:CartPole-v1").names == [f"observation[{i}]" for i in range(4)]
    assert rf.from_gym("gym:FrozenLake-v1").names is None


@pytest.mark.parametrize(
    ("condition", "entry"),
    [
        ("achieved_goal[1]>0.3", 1),
        ("observation.speed[0]>0.3", 5),
        ("not achieved_goal[0] < 0.4", 0),
        ("observation.lamp == 1", 4),
    ],
)
def test_conditions_call_numbers_by_name_or_count_them(condition: str, entry: int) -> None:
    problem = rf.from_gym(Reach(edge=1.9), horizon=40, reset_when=condition)
    assert isinstance(problem.terms.reset_when, Condition)
    episode = next(rf.simulate(problem, Push(0.7, 0.1 if entry == 1 else -0.6), 1, seed=3))
    watched = episode.states[1:, entry]
    limit = {0: 0.4, 1: 0.3, 5: 0.3, 4: 0.5}[entry]
    assert episode.reset
    assert watched[-1] > limit >= watched[:-1].max()


def test_the_numbers_of_a_dictionary_may_be_counted() -> None:
    class Named(Reach):
        def __init__(self) -> None:
            super().__init__(edge=1.9)
            self.observation_space = spaces.Dict(at=spaces.Box(-2, 2, (2,)), goal=spaces.Box(-2, 2, (2,)))

        def _seen(self) -> dict[str, Any]:
            return {"at": self.at, "goal": self.goal}

    both = [
        next(rf.simulate(rf.from_gym(Named(), horizon=40, reset_when=text), Push(0.7, 0.1), 1, seed=3))
        for text in ("observation[0]>0.4", "at[0]>0.4")
    ]
    assert both[0].reset
    assert both[0].states.tolist() == both[1].states.tolist()


@pytest.mark.parametrize(
    "text", ["achieved_goal>1", "goal[0]>1", "achieved_goal[2]>1", "observation>1", "observation[0]>1", "speed[0]>1"]
)
def test_a_condition_on_a_number_that_is_not_there_names_those_that_are(text: str) -> None:
    with pytest.raises(rf.InvalidInput) as caught:
        rf.from_gym(Reach(), reset_when=text)
    assert str(caught.value).endswith(
        "The numbers of its observations are called achieved_goal[0], achieved_goal[1], desired_goal[0], ..., "
        f"observation.speed[1]. Got '{text}' instead."
    )
    with pytest.raises(rf.InvalidInput, match=r"called observation\[0\], .* Got 'observation\[4\]>1' instead"):
        rf.from_gym("gym:CartPole-v1", reset_when="observation[4]>1")


def test_a_part_called_observation_is_never_counted_on_into_others() -> None:
    space = spaces.Dict(observation=spaces.Box(-1, 1, (2,)), goal=spaces.Box(-1, 1, (2,)))

    class Plain(Reach):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = space

    assert names_of(space)[1:3] == ["observation[1]", "goal[0]"]
    found = rf.from_gym(Plain(), reset_when="observation[1]>0").terms.reset_when
    assert isinstance(found, Condition)
    assert found.groups[0][0].entry == 1
    with pytest.raises(rf.InvalidInput, match=r"Got 'observation\[2\]>0' instead"):
        rf.from_gym(Plain(), reset_when="observation[2]>0")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda o: o.pop("desired_goal"), "ValueError: no part 'desired_goal'"),
        (lambda o: o.update(achieved_goal=np.zeros(3)), "ValueError: 3 numbers in place of 2 in part 'achieved_goal'"),
        (lambda o: o.update(observation=7), "ValueError: int in place of a dictionary"),
        (lambda o: o.update(achieved_goal=["a", "b"]), "ValueError: could not convert string to float: 'a'"),
        (lambda o: o["observation"].update(lamp=np.nan), "nan in entry 4 of its observation (observation.lamp)"),
    ],
)
def test_a_part_that_does_not_fit_is_named(change: Any, sentence: str) -> None:
    for reset_when in ("terminated", "achieved_goal[0]>1"):
        env = Reach()
        problem = rf.from_gym(env, horizon=3, reset_when=reset_when)
        start, whole = problem.first_start(0.5), env._seen

        def broken(whole: Any = whole) -> Any:
            observation = whole()
            change(observation)
            return observation

        env._seen = broken  # type: ignore[method-assign]
        with pytest.raises(EnvironmentFailed) as caught:
            problem.rollout(Push(0.0, 0.0), start, np.zeros(problem.n_uniforms))
        assert sentence in str(caught.value)


def image(observation: Any) -> Any:
    return [observation.mean(), observation.max()]


class Camera(gymnasium.ObservationWrapper[Any, Any, Any]):
    """What a machine shows in place of its numbers."""

    def __init__(self, space: Any) -> None:
        super().__init__(Reach())
        self.observation_space = space

    def observation(self, observation: Any) -> Any:
        return np.full(self.observation_space.shape or (), 7, dtype=self.observation_space.dtype)


@pytest.mark.parametrize(
    "space",
    [spaces.Box(0, 255, (8, 8, 3), np.uint8), spaces.Box(0.0, 1.0, (64, 64)), spaces.Box(0, 255, (2, 2), np.uint8)],
)
def test_images_are_refused_with_the_way_out(space: Any) -> None:
    assert is_image(space)
    with pytest.raises(
        rf.InvalidInput,
        match=r"^The observations of 'Reach' \('observation' is an image, Box.*\) must be made into vectors: give "
        r"observe=f with f\(observation\) a vector, or states=N if at most N distinct ones come up\.$",
    ):
        rf.from_gym(Camera(space))
    problem = rf.from_gym(Camera(space), observe=image, horizon=4)
    assert problem.first_start(0.5).tolist() == [7.0, 7.0]
    assert problem.names == ["state[0]", "state[1]"]
    assert isinstance(problem.features, RandomFourier)  # features of what was observed
    assert rf.from_gym(Camera(space), observe="tests.problems.gym.test_flattening:image").low is not None


@pytest.mark.filterwarnings("ignore:.*far outside of its declared space")  # 7 in a space up to 1
def test_many_numbers_are_no_image() -> None:
    for space in (spaces.Box(0, 255, (100_000,), np.uint8), spaces.Box(-1.0, 1.0, (40, 40))):
        problem = rf.from_gym(Camera(space), horizon=2)
        assert problem.low is not None
        assert len(problem.low) == np.prod(space.shape)
        next(rf.simulate(problem, Push(0.0, 0.0), 1))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"observe": 3}, "must be a function of the observation, or module:function. Got 3 instead"),
        ({"observe": "math:nothing"}, "Got 'math:nothing', which does not import"),
        ({"observe": "math:pi"}, "or module:function. Got 'math:pi' instead"),
        ({"observe": image, "features": image}, "Got a second one in 'features': give one of the two"),
        ({"observe": lambda o: o["nothing"]}, "The 'observe' of 'Reach' must turn any observation"),
        ({"features": lambda o: o["nothing"]}, "The 'features' of 'Reach' must turn any observation"),
    ],
)
def test_functions_of_observations_that_are_none(options: Any, sentence: str) -> None:
    with pytest.raises(rf.InvalidInput) as caught:
        rf.from_gym(Reach(), **options)
    assert sentence in str(caught.value)


def test_spaces_without_numbers_are_refused() -> None:
    with pytest.raises(rf.InvalidInput, match="'observation' is Sequence, not numbers"):
        observer_for(spaces.Sequence(spaces.Discrete(3)), None, None, "x")
    with pytest.raises(rf.InvalidInput, match="must hold at least one number"):
        observer_for(spaces.Dict({}), None, None, "x")
