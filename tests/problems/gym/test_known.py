"""What is known of environments: what their ends mean, and the tables of those that have one."""

from collections import Counter
from math import log, sqrt
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from hypothesis import given
from hypothesis import strategies as st
from tests.problems.gym.reaching import evenly

import resetfree as rf
from resetfree.core import EnvironmentFailed
from resetfree.problems import model_behind
from resetfree.problems.finite.tabular_policy import random_policy
from resetfree.problems.gym import table_of
from resetfree.problems.gym.events import Condition
from resetfree.problems.gym.known import KNOWN, NewTarget, meaning_of, only_falls
from resetfree.theory.oracle import Evaluator


def sure(n: int, action: int) -> Any:
    return np.eye(n)[action]


def total(problem: Any, policy: Any, episodes: int, seed: int = 3) -> dict[str, Any]:
    """What happened: goals, resets, steps and rewards, and how often the environment was reset in all."""
    calls: list[Any] = []
    reset = problem.env.reset

    def spied(**given: Any) -> Any:
        calls.append(given.get("seed"))
        return reset(**given)

    problem.env.reset = spied
    played = list(rf.simulate(problem, policy, episodes, seed=seed))
    assert [one.why for one in problem.interventions()] == ["start"] + ["reset"] * sum(one.reset for one in played[:-1])
    return {
        "goals": sum(one.goals for one in played),
        "resets": sum(one.reset for one in played),
        "steps": sum(len(one.actions) for one in played),
        "reward": sum(one.total_reward for one in played),
        "own": sum(one.original_return for one in played),
        "free": sum(seed is None for seed in calls),
    }


@pytest.mark.parametrize(
    ("id", "policy", "episodes", "least", "own"),
    [
        # It pays -1 for each step, also at the goal.
        ("MountainCar-v0", lambda h, s: sure(3, 2 if s[1] >= 0 else 0), 10, 5, lambda found: -1000),
        ("Acrobot-v1", lambda h, s: sure(3, 2 if s[5] >= 0 else 0), 20, 2,
         lambda found: found["goals"] - found["steps"]),
        ("MountainCarContinuous-v0", lambda h, s: sure(2, int(s[1] >= 0)), 5, 2,
         lambda found: 100 * found["goals"] - 0.1 * found["steps"]),
    ],
)  # fmt: skip
def test_a_swing_comes_to_its_goal_again_and_again_without_a_reset(
    id: str, policy: Any, episodes: int, least: int, own: Any
) -> None:
    options: dict[str, Any] = {"actions": 2} if "Continuous" in id else {}
    found = total(rf.from_gym(f"gym:{id}", horizon=100, **options), policy, episodes)
    assert found["goals"] >= least
    assert (found["resets"], found["free"]) == (0, found["goals"])
    assert found["own"] == pytest.approx(own(found))
    if not options:
        assert found["reward"] == found["goals"]  # the goal is the reward


def test_frozen_lake_falls_into_holes_and_comes_to_its_goal() -> None:
    lake = rf.from_gym("gym:FrozenLake-v1", horizon=12, is_slippery=False)
    way = dict(zip([0, 4, 8, 9, 13, 14], [1, 1, 2, 1, 2, 2], strict=True))
    found = total(lake, lambda h, s: sure(4, way[s]), 3)
    assert (found["goals"], found["resets"], found["free"], found["reward"]) == (6, 0, 6, 6.0)
    hole = rf.from_gym("gym:FrozenLake-v1", horizon=12, is_slippery=False)
    found = total(hole, lambda h, s: sure(4, 2 if s == 4 else 1), 3)
    assert (found["goals"], found["resets"], found["free"]) == (0, 3, 0)


def test_cliff_walking_falls_off_the_cliff_and_comes_to_its_goal() -> None:
    def along(h: int, s: int) -> Any:
        return sure(4, 0 if s == 36 else 2 if s == 35 else 1)

    found = total(rf.from_gym("gym:CliffWalking-v1", horizon=26), along, 2)
    assert (found["goals"], found["resets"], found["free"], found["reward"], found["own"]) == (4, 0, 4, 4.0, -52.0)
    found = total(rf.from_gym("gym:CliffWalking-v1", horizon=26), lambda h, s: sure(4, 1), 2)
    assert (found["goals"], found["resets"], found["free"]) == (0, 2, 0)


def test_the_next_passenger_of_a_taxi_waits_where_it_stands() -> None:
    taxi = rf.from_gym("gym:Taxi-v4", horizon=60)
    model = taxi.mdp
    env: Any = taxi.env.unwrapped
    best = rf.solve(model, starts=[]).policy
    found = total(taxi, lambda h, s: sure(6, int(best[h - 1, s])), 6)
    assert found["goals"] >= 10
    assert (found["resets"], found["free"]) == (0, 0)
    delivering = env.encode(0, 0, 4, 0)  # the passenger is in the taxi, at the destination
    states, shares = model.transition.row(0, delivering, 5)
    places = {tuple(env.decode(int(s))) for s in states}
    assert places == {(0, 0, waits, to) for waits in range(4) for to in range(4) if waits != to}
    assert np.allclose(shares, 1 / 12)


def test_minigrid_tells_its_goal_from_lava_however_late_it_comes() -> None:
    empty = rf.from_gym("gym:MiniGrid-Empty-5x5-v0", states=300, horizon=100, max_steps=6)
    turns = [2, 2, 1, 2, 2]  # forward twice, right, forward twice
    late = total(empty, lambda h, s: sure(7, 0 if h <= 80 else turns[h - 81] if h <= 85 else 0), 1)
    assert (late["goals"], late["resets"], late["free"], late["reward"]) == (1, 0, 1, 1.0)
    assert late["own"] < 0  # what it pays falls with the time since its last reset, below zero without a limit
    lava = rf.from_gym("gym:MiniGrid-LavaGapS5-v0", states=300, horizon=30)
    found = total(lava, lambda h, s: np.array([0.3, 0.3, 0.4, 0, 0, 0, 0]), 12)
    assert found["resets"] >= 1
    assert found["free"] == found["goals"]


def test_a_landing_is_told_from_a_crash_and_targets_are_drawn_in_place() -> None:
    lander = KNOWN["LunarLander"]
    goal, fall = Condition.read(lander.goal_when, "x"), Condition.read(lander.reset_when, "x")
    ends = ((100.0, True), (-100.0, True), (-100.0, False), (3.0, False))
    said = [[when(0, reward, terminated, {}) for when in (goal, fall)] for reward, terminated in ends]
    assert said == [[True, False], [False, True], [False, False], [False, False]]

    class Fetch(gymnasium.Env[Any, Any]):
        goal = np.zeros(3)

        def _sample_goal(self) -> Any:
            return self.goal + 1.0

        def _get_obs(self) -> Any:
            return {"desired_goal": self.goal}

    assert NewTarget()(Fetch())["desired_goal"].tolist() == [1.0] * 3


@pytest.mark.parametrize("name", ["CartPole-v1", "InvertedPendulum-v5", "Hopper-v5"])
def test_where_all_ends_are_falls_nothing_is_another(name: str) -> None:
    env = gymnasium.make(name)
    assert meaning_of(env) is None
    assert only_falls(env)
    problem = rf.from_gym(env, reward_range=(-10, 20))
    assert (problem.goals, problem.after_goal) == (None, None)


def test_what_is_said_goes_before_what_is_known() -> None:
    def made(**given: Any) -> Any:
        return rf.from_gym("gym:MountainCar-v0", **given)

    assert made().goals.after == "restart for free"
    assert made(after_goal="go on").goals.after == "go on"
    assert made(reset_when="terminated").goals is None
    assert made(goal_when="never").goals is None
    assert made(goal_when="observation[0]>=0.4").goals.after == "go on"
    assert made(reward_range=(-1, 0)).terms.rewards.own is None
    wrapped = gymnasium.wrappers.TransformReward(gymnasium.make("MountainCar-v0"), lambda r: float(r) + 1)
    goals = rf.from_gym(wrapped).goals
    assert goals is not None
    assert not goals.stated  # its rewards are others, so nothing is taken as known


FAILURE = 1e-6  # the probability with which a statistical test here fails though nothing is wrong
LAKE: dict[str, Any] = {"reset_when": "terminated and observation!=15", "reward": lambda o, r, t, i: float(o == 15)}
CASES: dict[str, dict[str, Any]] = {
    "FrozenLake-v1": {},
    "FrozenLake-v1 8x8": {"map_name": "8x8", **LAKE},
    "CliffWalking-v1": {"reset_when": "reward<=-100", "reward_range": (-100, 0), "is_slippery": True},
    "Taxi-v4": {"reward_range": (-10, 20), "is_rainy": True},
}


def problem_of(case: str, horizon: int = 20) -> Any:
    return rf.from_gym(f"gym:{case.split()[0]}", horizon=horizon, **CASES[case])


class Tabular(gymnasium.Env[int, int]):
    """An environment that is its table."""

    def __init__(self, P: Any, first: Any) -> None:
        self.P, self.initial_state_distrib = P, np.array(first)
        self.observation_space: Any = spaces.Discrete(len(P))
        self.action_space: Any = spaces.Discrete(len(P[0]))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.s = int(self.np_random.choice(len(self.P), p=self.initial_state_distrib))
        return self.s, {}

    def step(self, a: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        outcomes = self.P[self.s][a]
        p, self.s, r, terminated = outcomes[self.np_random.choice(len(outcomes), p=[o[0] for o in outcomes])]
        return self.s, r, terminated, False, {"prob": p}


@st.composite
def tables(draw: st.DrawFn) -> Any:
    n, n_actions = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    P: dict[int, Any] = {}
    for s in range(n):
        P[s] = {}
        for a in range(n_actions):
            outcomes = rng.integers(1, 5)
            p = rng.dirichlet(np.ones(outcomes)) if outcomes > 1 else np.ones(1)
            rest = [(float(q), int(rng.integers(n)), float(rng.choice([-5, 0, 2.5])), bool(rng.integers(2))) for q in p]
            P[s][a] = [*rest, (0.0, 0, 99.0, True)]  # what cannot happen counts for nothing
    return P, rng.dirichlet(np.ones(n))


@given(tables())
def test_the_model_is_what_a_naive_reading_gives(case: Any) -> None:
    P, first = case

    def fails(observation: int, reward: float, terminated: bool, info: dict[str, Any]) -> bool:
        return terminated and reward < 0 and info["prob"] > 0.01

    mdp = table_of(Tabular(P, first), reset_when=fails, reward_range=(-5, 5), horizon=4)
    n, n_actions = len(P), len(P[0])
    assert (mdp.n_states, mdp.n_actions, mdp.horizon, mdp.stationary) == (n + 1, n_actions, 4, True)
    assert mdp.reset.tolist() == [False] * n + [True]
    assert np.allclose(mdp.start[:n], first)
    assert np.allclose(mdp.restart[0, :n], first)
    dense = mdp.transition.matrix().toarray().reshape(n + 1, n_actions, n + 1)
    for s in range(n):
        for a in range(n_actions):
            for t in range(n):
                stays = [p for p, to, r, end in P[s][a] if to == t and not (end and r < 0 and p > 0.01)]
                assert dense[s, a, t] == pytest.approx(sum(stays))
            falls = [p for p, _, r, end in P[s][a] if end and r < 0 and p > 0.01]
            assert dense[s, a, n] == pytest.approx(sum(falls))
            assert mdp.reward[0, s, a] == pytest.approx(sum(p * (r + 5) / 10 for p, _, r, _ in P[s][a]))


@pytest.mark.parametrize("case", CASES)
def test_twenty_thousand_random_steps_follow_the_model(case: str) -> None:
    """Every step is possible, and frequencies are near by Hoeffding, over all entries and all numbers of visits."""
    problem = problem_of(case)
    mdp = problem.mdp
    policy = np.full((mdp.horizon, mdp.n_states, mdp.n_actions), 1 / mdp.n_actions)
    counts: Counter[tuple[int, int, int]] = Counter()
    rewards: Counter[tuple[int, int]] = Counter()
    steps = 0
    for episode in rf.simulate(problem, policy, 100_000, seed=7):
        for s, a, to, r in zip(episode.states, episode.actions, episode.states[1:], episode.rewards, strict=False):
            counts[int(s), int(a), int(to)] += 1
            rewards[int(s), int(a)] += r
        steps += len(episode.actions)
        if steps >= 20_000:
            break
    visits: Counter[tuple[int, int]] = Counter()
    for (s, a, _), n in counts.items():
        visits[s, a] += n
    claims = 2 * 20_020 * (mdp.transition.nnz + mdp.n_states * mdp.n_actions)  # both sides, every number of visits
    for (s, a), n in visits.items():
        successors, probabilities = mdp.transition.row(0, s, a)
        assert {to for x, y, to in counts if (x, y) == (s, a)} <= set(successors.tolist())
        width = sqrt(log(claims / FAILURE) / (2 * n))
        for to, p in zip(successors.tolist(), probabilities, strict=True):
            assert abs(counts[s, a, to] / n - p) <= width
        assert abs(rewards[s, a] / n - mdp.reward[0, s, a]) <= width
    assert len(visits) > 10


@pytest.mark.parametrize("case", CASES)
def test_resets_and_rewards_of_a_policy_are_as_the_oracle_says(case: str) -> None:
    """Freedman: a sum of K differences in [-1, 1] with variances of at most 1/4 each stays within the bound."""
    problem = problem_of(case)
    mdp = model_behind(problem)
    policy = random_policy(mdp, np.random.default_rng(0))
    evaluate, n = Evaluator(mdp), 1000
    resets = rewards = expected = 0.0
    for episode in rf.simulate(problem, policy, n, seed=11):
        v_r, v_c = evaluate(policy, episode.start)
        resets += episode.reset - v_c
        rewards += (episode.total_reward - v_r) / mdp.horizon
        expected += v_c
    weight = log(4 / FAILURE)  # two claims, two sides
    bound = sqrt(2 * n / 4 * weight) + 2 / 3 * weight
    assert abs(resets) <= bound
    assert abs(rewards) <= bound
    if case != "Taxi-v4":
        assert expected > bound  # so that no reset at all would be noticed


def test_the_goal_of_the_lake_need_not_be_a_failure() -> None:
    fatal, goal = table_of("gym:FrozenLake-v1", goal_when="never"), table_of("gym:FrozenLake-v1", **LAKE)
    by_default = table_of("gym:FrozenLake-v1")  # the goal puts the agent back to the start, which is no reset
    assert set(fatal.transition.row(0, 14, 2)[0].tolist()) == {10, 14, 16}
    assert set(by_default.transition.row(0, 14, 2)[0].tolist()) == {0, 10, 14}
    assert 16 in by_default.transition.row(0, 10, 2)[0]  # a hole beside it is a fall
    assert set(goal.transition.row(0, 14, 2)[0].tolist()) == {10, 14, 15}
    assert goal.transition.row(0, 15, 0)[0].tolist() == [15]
    assert goal.reward[0, 15].tolist() == [1.0] * 4
    assert rf.solve(goal).value[15] == goal.horizon
    assert rf.check(goal).findings[0].assumption


def test_learning_on_a_table_is_measured_exactly() -> None:
    problem = rf.from_gym("gym:FrozenLake-v1", horizon=30, is_slippery=False, **LAKE)
    run = rf.learn(problem, episodes=60, seed=0)
    assert run.spec["primal"]["name"] == "rule-elimination"
    assert run.mdp is problem.mdp
    assert len(run.regret) == 60
    assert run.resets[-1] == pytest.approx(run.realised_resets[-1])  # nothing in it is random
    assert run.realised_resets[-1] <= 17 * 4  # an action that led to a hole is not tried again


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: rf.from_gym("gym:CartPole-v1"), "'gym:CartPole-v1': it is not a finite problem."),
        (lambda: rf.from_gym("gym:FrozenLake-v1", table=False), "it is played without its table"),
        (lambda: rf.from_gym("gym:Taxi-v4", fickle_passenger=True, reward_range=(-10, 20)), "table without its fickle"),
        (
            lambda: rf.from_gym("gym:Taxi-v4", reset_when="info.mood", reward_range=(-10, 20)),
            r"has a table that cannot be read with this 'reset_when' and 'reward' \(KeyError: 'mood'\).",
        ),
        (
            lambda: rf.from_gym(wrappers.TransformReward(gymnasium.make("FrozenLake-v1"), lambda r: r)),
            "it is changed by TransformReward.",
        ),
        (lambda: rf.from_gym(Tabular({0: {0: [(0.5, 0, 0.0, False)]}}, [1.0])), "has a table that is not a model"),
        (lambda: rf.from_gym(Tabular({0: {0: [(1.0, 0, np.nan, False)]}}, [1.0])), "gave the reward nan"),
    ],
)  # fmt: skip
def test_without_a_table_there_is_no_oracle_and_a_sentence_says_why(make: Any, sentence: str) -> None:
    problem = make()
    with pytest.raises(rf.NotCertifiable, match=f"^There is no exact oracle for .*{sentence}"):
        _ = problem.mdp
    with pytest.raises(rf.NotCertifiable):
        model_behind(problem)


def test_a_table_says_which_rewards_there_are() -> None:
    learned, stated = (
        rf.from_gym("gym:CliffWalking-v1", reset_when="reward<=-100", reward_range=given) for given in (None, (-100, 0))
    )
    assert (learned.units, learned.reward_range_known) == ((-100.0, 0.0), True)
    assert np.array_equal(learned.mdp.reward, stated.mdp.reward)
    episodes = [next(rf.simulate(problem, evenly(problem), 1, seed=3)) for problem in (learned, stated)]
    assert episodes[0].rewards.tolist() == episodes[1].rewards.tolist()
    assert episodes[0].original_return == episodes[1].original_return < 0
    with pytest.raises(rf.InvalidInput, match=r"outside the stated range \[-10, 0\]"):
        rf.from_gym("gym:CliffWalking-v1", goal_when="never", reward_range=(-10, 0))


def test_an_environment_that_does_what_its_table_rules_out_is_found_out() -> None:
    env = Tabular({0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 0.0, False)]}}, [1.0, 0.0])
    problem = rf.from_gym(env, horizon=5)
    start = problem.first_start(0.5)
    env.P[1][0] = [(1.0, 1, 0.0, False)]
    with pytest.raises(
        EnvironmentFailed, match="went from state 1 by action 0 to state 1, which is impossible by its own"
    ):
        problem.rollout(np.zeros(3, dtype=np.int64), start, np.zeros(5))
