"""A goal is not a fall: it is counted apart, no reset is, and what follows it is what was said."""

import warnings
from typing import Any

import gymnasium
import pytest
from gymnasium import spaces

import resetfree as rf
from resetfree.core import EnvironmentFailed, Notice
from resetfree.problems.blueprint import fingerprint
from resetfree.problems.gym.adapter import GymProblem

FREE: dict[str, Any] = {"goal_when": "terminated and reward>0", "after_goal": "restart for free"}


class Track(gymnasium.Env[Any, Any]):
    """Cells 0 .. 6: action 1 leads right to the goal, which pays 1, action 0 left to a fall; it spies on its resets."""

    GOAL, START = 6, 3

    def __init__(self, tells: bool | None = None, after: str = "stays") -> None:
        self.observation_space: spaces.Space[Any] = spaces.Discrete(100)  # the cell, and tens count tasks
        self.action_space: spaces.Space[Any] = spaces.Discrete(2)
        self.calls: list[tuple[int | None, Any]] = []
        self.tells, self.tasks = tells, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.calls.append((seed, options))
        if options is not None:
            return self.another(), {}
        self.at = self.START
        return self.seen, {}

    @property
    def seen(self) -> int:
        return self.at + 10 * self.tasks

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.at = min(self.at + (1 if action else -1), self.GOAL)
        goal, fell = self.at == self.GOAL, self.at <= 0
        info = {} if self.tells is None else {"is_success": goal and self.tells}
        return self.seen, float(goal), goal or fell, False, info

    def another(self) -> int:
        """Set a new goal in place: the agent stays, and sees that it is another task."""
        self.tasks += 1
        self.at = 1
        return self.seen

    def nothing(self) -> None:
        """A method that forgets to return what is observed."""


def to(action: int) -> Any:
    return lambda h, s: [1.0 - action, float(action)]


def played(problem: GymProblem, episodes: int, action: int = 1) -> list[Any]:
    return list(rf.simulate(problem, to(action), episodes, seed=5))


def test_a_free_restart_is_a_goal_and_no_reset_and_the_episode_goes_on() -> None:
    env = Track()
    problem = rf.from_gym(env, horizon=7, **FREE)
    first, second = played(problem, 2)
    assert first.states.tolist() == [3, 4, 5, 3, 4, 5, 3, 4]  # the third step reaches the goal, and leads to the start
    assert first.rewards.tolist() == [0, 0, 1, 0, 0, 1, 0]
    assert second.states.tolist() == [4, 5, 3, 4, 5, 3, 4, 5]  # it starts where the first ended
    assert [one.goals for one in (first, second)] == [2, 2]
    assert not first.reset
    assert not second.reset
    assert len(env.calls) == 5  # one seeded reset at the start, and four by the machine itself, which are not seeded
    assert [seed is None for seed, _ in env.calls] == [False, True, True, True, True]
    assert [one.why for one in problem.interventions()] == ["start"]


def test_going_on_touches_nothing_and_counts_the_arrival_once() -> None:
    env = Track()
    problem = rf.from_gym(env, horizon=5, goal_when="terminated and reward>0")
    first, second = played(problem, 2)
    assert (first.goals, second.goals) == (1, 0)  # it stands at the goal, and arrived there once
    assert first.states.tolist() == [3, 4, 5, 6, 6, 6]
    assert not first.reset
    assert len(env.calls) == 1


def test_leaving_a_goal_and_coming_back_is_another_goal() -> None:
    problem = rf.from_gym(Track(), horizon=6, goal_when="observation==5", reset_when="observation<=0")
    (episode,) = rf.simulate(problem, lambda h, s: to(0 if s == 6 or h == 5 else 1)(h, s), 1)
    assert episode.states.tolist() == [3, 4, 5, 6, 5, 4, 5]
    assert episode.goals == 3


def test_a_goal_next_to_the_start_is_counted_each_time() -> None:
    class Near(Track):
        START = 5

    (episode,) = played(rf.from_gym(Near(), horizon=4, **FREE), 1)
    assert (episode.goals, episode.states.tolist()) == (4, [5] * 5)


@pytest.mark.parametrize(
    "way", ["another", lambda env: env.unwrapped.another(), {"keep": True}], ids=["method", "function", "options"]
)
def test_a_new_task_is_set_in_place(way: Any) -> None:
    env = Track()
    problem = rf.from_gym(env, horizon=4, goal_when="terminated and reward>0", after_goal="new task", new_task=way)
    (episode,) = played(problem, 1)
    assert episode.states.tolist() == [3, 4, 5, 11, 12]
    assert (episode.goals, episode.reset) == (1, False)
    assert env.calls[1:] == ([(None, {"keep": True})] if isinstance(way, dict) else [])
    assert [one.why for one in problem.interventions()] == ["start"]


def test_a_fall_is_still_a_reset_and_a_goal_comes_before_it() -> None:
    problem = rf.from_gym(Track(), horizon=5, **FREE)
    fell = played(problem, 3, action=0)
    assert [one.reset for one in fell] == [True] * 3
    assert sum(one.goals for one in fell) == 0
    both = rf.from_gym(Track(), horizon=5, reset_when="terminated", goal_when="reward>0", after_goal="restart for free")
    assert [(one.goals, one.reset) for one in played(both, 2)] == [(1, False), (2, False)]


def test_the_reward_may_be_the_goal() -> None:
    problem = rf.from_gym(Track(), horizon=5, goal_when="observation==5", reset_when="never", reward="goal")
    (episode,) = played(problem, 1)
    assert episode.rewards.tolist() == [0, 1, 0, 0, 0]
    assert episode.original_return == 3.0  # what the environment pays: at 6, from the third step on


def test_what_the_environment_calls_a_success_is_a_goal() -> None:
    problem = rf.from_gym(Track(tells=True), horizon=5, name="track")
    with pytest.warns(Notice, match="'track' terminated with info.is_success: this counts as a goal, not as a reset"):
        episodes = played(problem, 2)
    assert [(one.goals, one.reset) for one in episodes] == [(1, False), (2, False)]
    assert len(problem.noted) == 1  # it is said once
    assert [one.reset for one in played(rf.from_gym(Track(tells=True), horizon=5), 2, action=0)] == [True, True]
    failed = rf.from_gym(Track(tells=False), horizon=5)
    assert [one.reset for one in played(failed, 2)] == [True, True]  # it says that it is none, and nothing is asked
    said = rf.from_gym(Track(tells=True), horizon=5, reset_when="terminated")
    assert [(one.goals, one.reset) for one in played(said, 2)] == [(0, True), (0, True)]


def test_a_success_that_goes_on_is_no_goal() -> None:
    """Such as a target that is held for a while: it is one where the environment ends, or where it is stated."""

    class Holds(Track):
        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            seen, reward, terminated, truncated, _ = super().step(action)
            return seen, reward, terminated and reward == 0, truncated, {"is_success": self.at == 5}

    assert [one.goals for one in played(rf.from_gym(Holds(), horizon=5), 1)] == [0]


def test_a_termination_with_the_best_reward_is_asked_about_once() -> None:
    problem = rf.from_gym(Track(), horizon=5, name="track")
    with pytest.warns(Notice) as caught:
        episodes = played(problem, 3)
    assert [one.reset for one in episodes] == [True] * 3  # nothing was said, so it is what it was
    assert [str(one.message) for one in caught] == [
        "'track' terminated with the best reward so far (1), which counted as a reset. If that is a goal, state "
        'goal_when="terminated and reward>=1"; if it is a fall, reset_when="terminated" (docs/goals.md).'
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        played(rf.from_gym(Track(), horizon=5), 3, action=0)  # a fall pays nothing
        played(rf.from_gym(Track(), horizon=5, reset_when="terminated"), 3)
        played(rf.from_gym("gym:CartPole-v1", horizon=40), 3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"goal_when": "won"}, "The 'goal_when' of 'track' must be a function of (observation, reward, terminated, in"),
        ({"goal_when": 3}, "Got 3 instead."),
        ({"goal_when": "math:nothing"}, "The 'goal_when' of 'track'"),
        ({"after_goal": "go on"}, "state 'goal_when' too. Got after_goal='go on', new_task=None alone instead."),
        (
            {"goal_when": "terminated", "after_goal": "again"},
            "The 'after_goal' of 'track' must be one of ('go on', 'new",
        ),
        ({"goal_when": "terminated", "after_goal": 3}, "Got 3 instead."),
        (
            {"goal_when": "terminated", "after_goal": "new task"},
            'must be given for after_goal="new task" and for nothi',
        ),
        ({"goal_when": "terminated", "new_task": "another"}, "Got 'another' for after_goal=\"go on\" instead."),
        (
            {"goal_when": "terminated", "after_goal": "new task", "new_task": "missing"},
            "be the name of a method of the",
        ),
        ({"reward": "goal"}, "\"goal\" (1 for each goal, if goals are stated). Got 'goal' instead."),
    ],
)
def test_bad_goals_are_refused_with_a_sentence(given: dict[str, Any], words: str) -> None:
    with pytest.raises(rf.InvalidInput) as caught:
        rf.from_gym(Track(), name="track", **given)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"goal_when": lambda *step: step[0] == 4 and 1 / 0}, "its 'goal_when' raised ZeroDivisionError"),
        ({"goal_when": lambda *step: "yes"}, "its 'goal_when' must return True or False, and returned 'yes'"),
        (
            {"goal_when": "reward>0", "after_goal": "new task", "new_task": "nothing"},
            "must return the observation of the",
        ),
        (
            {"goal_when": "reward>0", "after_goal": "new task", "new_task": lambda env: 1 / 0},
            "could not go on after a g",
        ),
    ],
)
def test_goals_that_fail_end_the_episode_with_a_sentence(given: dict[str, Any], words: str) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        played(rf.from_gym(Track(), horizon=6, **given), 1)
    assert words in str(caught.value)


def test_goals_make_another_problem_and_none_make_the_same() -> None:
    def made(**given: Any) -> str:
        return fingerprint(rf.from_gym(Track(), horizon=5, **given))

    plain = made(reset_when="terminated")
    assert made() == made(goal_when="never") == plain  # as it was before goals were told apart
    assert len({plain, made(goal_when="reward>0"), made(goal_when="reward>1"), made(**FREE)}) == 4
