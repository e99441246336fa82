"""Policy search in a fitted model: its parts against naive ones, and the whole on worlds whose answer is known."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.core import state as saving
from resetfree.core.arrays import Floats
from resetfree.players.model_based.machine_search import MachineSearchState
from resetfree.players.model_based.model_search import ModelSearch
from resetfree.problems.formula import TanhChoice, no_choice
from resetfree.problems.stepping import Step, SteppedProblem

PUSH = np.array([[0.0, -0.1], [0.0, 0.0], [0.0, 0.1]])  # what each action adds to (place, speed)
MOVE = np.array([[1.0, 0.1], [0.05, 1.0]])  # place and speed, pushed outwards: left alone, the agent leaves [-1, 1]


class Unstable(SteppedProblem):
    """A linear world: s' = MOVE s + PUSH[a]; the reset is to leave [-1, 1], the reward is 1 - |place|."""

    end_uniforms = 1

    def __init__(self, bounds: float = np.inf) -> None:
        self.name, self.horizon, self.n_actions, self.n_states = "unstable", 40, 3, None
        self.stationary, self.n_transitions, self.end_resets, self.phi, self.xi = True, 40, False, None, None
        self.low, self.high = np.full(2, -bounds), np.full(2, bounds)

    def first_start(self, u: float) -> Floats:
        return np.array([0.4 * u - 0.2, 0.0])

    def step(self, h: int, state: Floats, action: int, u: Floats) -> Step:
        after = MOVE @ state + PUSH[action]
        return Step(after, max(0.0, 1.0 - abs(after[0])), bool(abs(after[0]) > 1))

    def leave(self, state: Floats, reset: bool, u: Floats) -> Floats:
        return self.first_start(u[0]) if reset else state


def uniform(h: int, s: Any) -> Floats:
    return np.full(3, 1.0 / 3.0)


def after_random(player: ModelSearch, episodes: int, seed: int = 0, bounds: float = np.inf) -> MachineSearchState:
    """What the player knows after some episodes of random actions."""
    state = player.init(Unstable(bounds), episodes, seed)
    for k, episode in enumerate(random_episodes(episodes, seed, bounds)):
        state = player.update(
            state, rf.Round(k + 1, episode.start, 0.0, rf.Plan(state.policy, 0.0, 0.0), episode, 0.0, None)
        )
    assert isinstance(state, MachineSearchState)
    return state


def random_episodes(episodes: int, seed: int = 0, bounds: float = np.inf) -> Iterator[rf.Episode]:
    """Episodes of random actions."""
    problem, rng = Unstable(bounds), np.random.default_rng(seed)
    start = problem.first_start(rng.random())
    for _ in range(episodes):
        episode = problem.rollout(uniform, start, rng.random(problem.n_uniforms))
        yield episode
        start = episode.next_start


def steady(policy: TanhChoice) -> list[int]:
    """The true world under a policy from five starts: how many of 1,000 steps each life lasted."""
    lengths = []
    for place in np.linspace(-0.2, 0.2, 5):
        s, steps = np.array([place, 0.0]), 0
        while steps < 1000 and abs(s[0]) <= 1:
            s = MOVE @ s + PUSH[int(policy(1, s).argmax())]
            steps += 1
        lengths.append(steps)
    return lengths


def test_it_keeps_an_unstable_world_in_place() -> None:
    """Left alone or at random the world runs away; the policy found in the model stays for 1,000 true steps."""
    state = after_random(ModelSearch(), 3)
    assert (
        max(
            steady(replace(no_choice(rf.Choices(3), 2), weight=np.full((3, 2), 1e-9), bias=np.array([0.0, 1.0, 0.0])))[
                :2
            ]
        )
        < 1000
    )  # no push
    found = state.search(state.rows.n, np.zeros(2), 200.0, ModelSearch())
    assert isinstance(found, TanhChoice)
    assert steady(found) == [1000] * 5


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_it_learns_within_a_few_resets(seed: int) -> None:
    """Uniform play is reset in nearly every one of 60 episodes."""
    run = rf.learn(Unstable(), episodes=60, seed=seed)
    assert run.spec["primal"]["name"] == "model-search"
    assert run.realised_resets[-1] <= 6
    assert run.columns["reset"][-40:].sum() == 0


def test_planning_twice_gives_the_same_and_changes_nothing() -> None:
    player = ModelSearch(population=12, rounds=2)
    state = after_random(player, 4)
    state.stale = True
    before = {key: value.copy() for key, value in saving.dump(state).items()}
    first, second = (player.plan(state, np.array([0.1, 0.0]), 50.0) for _ in range(2))
    assert first.policy.same(second.policy)
    assert (first.v_r, first.v_c) == (second.v_r, second.v_c)
    for key, value in saving.dump(state).items():
        np.testing.assert_array_equal(value, before[key])


def test_before_anything_is_known_every_action_is_alike() -> None:
    player = ModelSearch()
    plan = player.plan(player.init(Unstable(), 5, 0), np.zeros(2), 1.0)
    np.testing.assert_allclose(plan.policy(1, np.zeros(2)), 1 / 3)


def test_it_refuses_states_that_are_counted() -> None:
    with pytest.raises(rf.NotCertifiable, match="needs states that are vectors"):
        ModelSearch().init(rf.make("grid-v0").problem(), 5, 0)


POINTS: dict[str, Any] = {"horizon": 12, "reward_range": (-17, 0), "reset_when": "reward<=-9.5"}


@pytest.mark.parametrize("actions", ["box", 3])
def test_by_its_name_alone_it_is_played_as_auto_plays_it(actions: str | int) -> None:
    """The same partner, feedback and settings, for both kinds of actions; and nobody asks for a bound B."""
    named, chosen = (
        rf.learn(rf.from_gym("gym:Pendulum-v1", actions=actions, **POINTS), player, episodes=2, seed=1).spec
        for player in ("model-search", "auto")
    )
    for part in ("primal", "dual", "feedback", "B"):
        assert named[part] == chosen[part]
    assert named["primal"]["settings"]["planning"] == 100
    assert (named["chosen"], named["dual"]["settings"]["C"]) == (None, 200.0)


def test_what_is_set_or_given_is_kept() -> None:
    problem = rf.from_gym("gym:Pendulum-v1", actions="box", **POINTS)
    ours: dict[str, dict[str, Any]] = {"primal": {"planning": 7}, "dual": {"C": 3.0}}
    spec = rf.learn(problem, "model-search", episodes=2, seed=1, settings=ours).spec
    assert (spec["primal"]["settings"]["planning"], spec["primal"]["settings"]["caution"]) == (7, 0.3)
    assert spec["dual"]["settings"]["C"] == 3.0
    spec = rf.learn(problem, ModelSearch(planning=9), episodes=2, seed=1).spec  # it has settings, and gets a partner
    assert (spec["primal"]["settings"]["planning"], spec["primal"]["settings"]["caution"]) == (9, 1.0)
    assert (spec["dual"]["name"], spec["dual"]["settings"]["C"]) == ("constant-penalty", 200.0)
    spec = rf.learn(problem, "model-search", "counting", episodes=2, seed=1).spec
    assert (spec["dual"]["name"], spec["primal"]["settings"]["planning"]) == ("counting", 100)


@pytest.mark.parametrize(
    ("primal", "what"), [("model-search", "model rollouts"), ("stored-linear", "weights of a plan")]
)
def test_plans_that_no_memory_holds_are_refused(primal: str, what: str) -> None:
    settings = {"primal": {"planning": 2**32}}
    with pytest.raises(rf.InvalidInput, match=rf"GB of {what} for this problem.*give less for 'planning'"):
        rf.learn("gym:CartPole-v1", primal, episodes=1, settings=settings)
