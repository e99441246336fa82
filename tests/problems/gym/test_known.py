"""Known environments, as they are: what their ends mean, told apart by real steps."""

from typing import Any

import gymnasium
import numpy as np
import pytest

import resetfree as rf
from resetfree.problems.gym.events import Condition
from resetfree.problems.gym.known import KNOWN, NewTarget, meaning_of, only_falls


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


def test_mountain_car_comes_to_its_goal_again_and_again_without_a_reset() -> None:
    problem = rf.from_gym("gym:MountainCar-v0", horizon=100)
    found = total(problem, lambda h, s: sure(3, 2 if s[1] >= 0 else 0), 10)  # swing
    assert found["goals"] >= 5
    assert (found["resets"], found["free"]) == (0, found["goals"])
    assert found["reward"] == found["goals"]  # it pays -1 for each step, also at the goal: the goal is the reward
    assert found["own"] == -1000


def test_the_continuous_mountain_car_pays_for_its_goal() -> None:
    problem = rf.from_gym("gym:MountainCarContinuous-v0", horizon=100, actions=2)
    found = total(problem, lambda h, s: sure(2, int(s[1] >= 0)), 5)
    assert found["goals"] >= 2
    assert (found["resets"], found["free"]) == (0, found["goals"])
    assert found["own"] == pytest.approx(100 * found["goals"] - 0.1 * found["steps"])


def test_acrobot_swings_up_again_and_again_without_a_reset() -> None:
    problem = rf.from_gym("gym:Acrobot-v1", horizon=100)
    found = total(problem, lambda h, s: sure(3, 2 if s[5] >= 0 else 0), 20)
    assert found["goals"] >= 2
    assert (found["resets"], found["free"]) == (0, found["goals"])
    assert found["own"] == found["goals"] - found["steps"]
    assert found["reward"] == found["goals"]


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


def test_the_lunar_lander_lands_and_crashes() -> None:
    pytest.importorskip("Box2D")
    found = total(rf.from_gym("gym:LunarLander-v3", horizon=200), lambda h, s: np.full(4, 0.25), 5)
    assert found["resets"] >= 1
    assert (found["goals"], found["free"]) == (0, 0)


def test_fetch_gets_new_targets() -> None:
    pytest.importorskip("gymnasium_robotics")
    reach = rf.from_gym("gym:FetchReach-v4", horizon=50, actions=3)
    found = total(reach, lambda h, s: np.full(81, 1 / 81), 3)
    assert (found["resets"], found["free"]) == (0, 0)


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
