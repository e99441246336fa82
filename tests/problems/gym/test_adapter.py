"""The adapter: episodes in one environment, its own time limit, numbers of observations, and the record of a run."""

import dataclasses
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from numpy.typing import NDArray
from tests.problems.gym.reaching import even

import resetfree as rf
from resetfree.core import EnvironmentFailed, Notice
from resetfree.problems.operators import Answer, Request
from resetfree.theory.certificates.record import record_claims


def back_to_the_middle(h: int, state: Any) -> NDArray[np.float64]:
    return np.array([1.0, 0.0]) if state[0] > 0 else np.array([0.0, 1.0])


def test_reset_is_called_at_the_start_and_after_reset_events_and_never_otherwise(line: Any) -> None:
    env = line()
    problem = rf.from_gym(env, horizon=13)
    episodes = list(rf.simulate(problem, even, 500, seed=3))
    steps = sum(len(e.actions) for e in episodes)
    events = sum(e.reset for e in episodes[:-1])  # the reset after the last episode is for whoever plays on
    assert steps == env.steps > 4000
    assert events > 50
    assert len(env.reset_calls) == 1 + events
    assert len(set(env.reset_calls)) == len(env.reset_calls)  # each with a seed of its own
    assert [one.why for one in problem.interventions()] == ["start"] + ["reset"] * events
    assert problem.interventions() == []


def test_a_policy_that_never_falls_is_never_reset_over_thousands_of_steps(line: Any) -> None:
    env = line()
    wrapped: Any = wrappers.RecordEpisodeStatistics(wrappers.TimeLimit(env, max_episode_steps=10))
    episodes = list(rf.simulate(rf.from_gym(wrapped, horizon=40), back_to_the_middle, 150, seed=0))
    assert sum(len(e.actions) for e in episodes) == env.steps == 6000
    assert len(env.reset_calls) == 1
    assert all(np.array_equal(a.next_start, b.start) for a, b in pairwise(episodes))


def test_an_episode_holds_what_happened(line: Any) -> None:
    problem = rf.from_gym(line(length=4), horizon=30)
    start = problem.perform_reset(0.3, "start")
    episode = problem.rollout(lambda h, s: np.array([0.0, 1.0]), start, np.full(30, 0.5))
    assert episode.reset
    assert episode.next_start is None
    assert len(episode.states) == len(episode.actions) + 1 == len(episode.rewards) + 1 == episode.reset_at
    assert episode.states.dtype == np.float64
    assert (np.abs(episode.states[:-1, 0]) < 4).all()
    assert episode.states[-1, 0] >= 4  # what was seen on arrival belongs to it
    assert len(np.unique(episode.states[:, 0])) == len(episode.states)  # no array of the environment's own is kept
    assert np.isnan(episode.original_return)  # nothing was scaled


def test_truncation_is_not_a_reset_and_time_limits_are_lifted_at_any_depth() -> None:
    inner = gymnasium.make("MountainCar-v0", max_episode_steps=7)
    env = wrappers.TimeLimit(wrappers.RecordEpisodeStatistics(inner), max_episode_steps=3)
    problem = rf.from_gym(env, horizon=50, reward_range=(-1, 0))
    episodes = list(rf.simulate(problem, lambda h, s: np.array([0.0, 1.0, 0.0]), 4, seed=0))
    assert [len(e.actions) for e in episodes] == [50] * 4
    assert len(problem.interventions()) == 1
    assert env.step(1)[3] is False  # what watches the environment is told of no time limit either
    assert "TimeLimit" not in str(rf.from_gym("gym:MountainCar-v0").env)


class Person:
    def perform(self, request: Request) -> Answer:
        return Answer("a person")


def test_a_limit_of_the_environment_s_own_is_ignored_until_it_raises(line: Any) -> None:
    def stopped(**given: Any) -> tuple[Any, Any, Any]:
        env = line()
        env.own_limit = 20
        problem = rf.from_gym(env, horizon=30, **given)
        *_, last = rf.simulate(problem, back_to_the_middle, 3, seed=0)
        assert (env.steps, len(env.reset_calls)) == (90, 1)
        env.fail[100] = ValueError("You must reset the env manually once truncate==True")
        return env, problem, last.next_start

    _, problem, start = stopped(operator=Person())  # the environment itself cannot put back what an operator does
    with pytest.raises(EnvironmentFailed, match="after its own time limit, which only an option of the environment"):
        problem.rollout(back_to_the_middle, start, np.full(30, 0.5))
    env, problem, start = stopped()
    with pytest.warns(Notice, match=r"does not go on after its own time limit of 99 steps \(it raised ValueError: You"):
        episode = problem.rollout(back_to_the_middle, start, np.full(30, 0.5))
    assert (len(episode.actions), episode.reset, len(env.reset_calls), problem.life.limits) == (30, False, 2, 1)


@pytest.mark.filterwarnings("ignore:.*far outside of its declared space")
def test_cartpole_goes_on_after_it_terminated_without_a_word() -> None:
    problem = rf.from_gym("gym:CartPole-v1", horizon=100, reset_when="never")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*far outside of its declared space")  # the pole goes round
        episode = next(rf.simulate(problem, lambda h, s: np.array([0.0, 1.0]), 1, seed=0))
    assert len(episode.actions) == 100
    assert not episode.reset
    assert set(episode.rewards.tolist()) == {0.0, 1.0}  # after the fall CartPole pays nothing
    fallen = rf.from_gym("gym:CartPole-v1", horizon=100, reset_when=lambda o, r, t, i: abs(o[0]) > 1.5)
    far = next(rf.simulate(fallen, lambda h, s: np.array([0.0, 1.0]), 1, seed=0))
    assert far.reset
    assert far.states[-1, 0] > 1.5
    assert (far.states[:-1, 0] <= 1.5).all()


def test_operators_are_asked_before_the_environment_is_reset(line: Any) -> None:
    env = line()
    requests: list[tuple[Request, int]] = []

    class Person:
        def perform(self, request: Request) -> Answer:
            requests.append((request, len(env.reset_calls)))
            return Answer("Ada", "put back by hand")

    problem = rf.from_gym(env, horizon=20, operator=Person(), name="the line")
    list(rf.simulate(problem, even, 40, seed=1))
    assert [calls for _, calls in requests] == list(range(len(requests)))
    assert requests[0][0] == Request("the line", "start", "the run starts")
    assert requests[1][0].why == "reset"
    assert "of an episode, observed [" in requests[1][0].detail
    assert "reward 1, terminated" in requests[1][0].detail
    done = problem.interventions()
    assert {one.who for one in done} == {"Ada"}
    assert done[1].detail.endswith("terminated; put back by hand")
    assert done[1].asked.endswith("+00:00")
    assert done[1].asked <= done[1].answered
    assert done[1].seconds >= 0


def test_an_episode_starts_where_the_environment_stands(line: Any) -> None:
    problem = rf.from_gym(line(), horizon=5)
    u = np.full(5, 0.5)
    with pytest.raises(rf.InvalidInput, match=r"environment \(none before a reset\). Got \[0, 0\] instead"):
        problem.rollout(even, np.zeros(2), u)
    start = problem.first_start(0.1)
    with pytest.raises(rf.InvalidInput, match="must start at the present state of the environment"):
        problem.rollout(even, start + 1, u)
    with pytest.raises(rf.InvalidInput, match=r"needs 5 uniforms. Got 4 instead"):
        problem.rollout(even, start, u[:4])
    with pytest.raises(rf.InvalidInput, match=r"must be a function .* Got ndarray instead"):
        problem.rollout(np.full((5, 2), 0.5), start, u)
    with pytest.raises(rf.InvalidInput, match=r"distribution over 2 actions. Got \[0.5, 0.6\] at step 1"):
        problem.rollout(lambda h, s: np.array([0.5, 0.6]), start, u)


def test_arrays_are_policies_where_states_are_counted() -> None:
    problem = rf.from_gym("gym:FrozenLake-v1", horizon=9, is_slippery=False)
    right_down = np.ones((9, 17), dtype=np.int64)
    right_down[:2] = 2
    episode = problem.rollout(right_down, problem.perform_reset(0.5, "start"), np.full(9, 0.5))
    assert episode.states.tolist() == [0, 1, 2, 6, 10, 14, 14, 14, 14, 14]
    with pytest.raises(rf.InvalidInput, match="must be integers of shape"):
        problem.rollout(np.zeros((3, 3), dtype=np.int64), 14, np.full(9, 0.5))


def test_an_action_is_drawn_with_the_probability_that_the_policy_gives_it(line: Any) -> None:
    """Inverse cumulative draws: u below the first probability is action 0."""
    problem = rf.from_gym(line(length=1e9), horizon=1000)
    u = np.random.default_rng(0).random(1000)
    episode = problem.rollout(lambda h, s: np.array([0.3, 0.7]), problem.first_start(0.5), u)
    assert np.array_equal(episode.actions, (u >= 0.3).astype(np.int64))


def test_observations_far_outside_of_their_space_are_noted_once() -> None:
    class Drifting(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(np.array([-1.0, -np.inf]), np.array([1.0, np.inf]), dtype=np.float64)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **_: Any) -> Any:
            self.x = 0.0
            return np.zeros(2), {}

        def step(self, action: int) -> Any:
            self.x += 1.0
            return np.array([self.x, 1e9 * self.x]), 0.5, False, False, {}

    problem = rf.from_gym(Drifting(), horizon=2, name="drifting")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(rf.simulate(problem, even, 1, seed=0))  # a little outside: up to 2 in a space from -1 to 1
    with pytest.warns(Notice, match=r"'drifting' observed 4 for 'observation\[0\]', far outside .* from -1 to 1"):
        run = rf.learn(problem, "uniform", "counting", feedback="realised", episodes=3)
    assert [note.k for note in run.notes if "far outside" in note.what] == [2]


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


FOLLOWS = "every episode starts where the one before left the agent (rounds in which it does not)"


@pytest.mark.parametrize("name", ["gym:FrozenLake-v1", "gym:CartPole-v1"])
def test_starts_follow_ends_but_after_an_intervention(name: str) -> None:
    problem = rf.from_gym(name, horizon=4)
    run = rf.learn(problem, "uniform", "constant-penalty", episodes=40, settings={"dual": {"C": 1.0}}, seed=3)

    def claim(run: rf.Run) -> rf.Certificate:
        return next(one for one in record_claims(run) if one.claim == FOLLOWS)

    assert run.realised_resets[-1] > 0
    assert claim(run).holds
    assert claim(dataclasses.replace(run, interventions=())).lhs == run.columns["reset"][:-1].sum()
    k = int(np.flatnonzero(~run.columns["reset"][:-1])[0]) + 1  # starts where the one before ended
    starts = run.columns["s1"].copy()
    starts[k] = starts[k] + 1
    found = claim(dataclasses.replace(run, columns={**run.columns, "s1": starts}))
    assert (found.holds, found.lhs, found.witness) == (False, 1, f"round {k + 1}")
