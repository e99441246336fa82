"""Goals and the numbering of data, broken line by line: each mutant fails the test that is there for it.

To add one: a line of a function, what it is broken to, and the test that must notice. `python -m pytest` with
`-k NAME` runs one of them; tests that still pass with a broken line say nothing about it.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.problems.gym import test_goals as goals
from tests.runs import test_numbered_data as numbers

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.gym.goals import Goals, Question, Success
from resetfree.problems.gym.observations import Numbered
from resetfree.runs.data import all_transitions
from resetfree.runs.data import dataset as known_data
from resetfree.runs.data.dataset import GivenData

NOTICED = (Exception, pytest.fail.Exception)  # a test that fails, however it does


@dataclass(frozen=True)
class Mutant:
    """A function whose text is changed in one place, and the test that fails then."""

    words: str
    owner: Any
    function: str
    line: str
    broken: str
    noticed_by: Callable[..., None]
    given: tuple[Any, ...] = ()  # to the test


def tasks(words: str, function: str, line: str, broken: str, noticed_by: Callable[..., None], *given: Any) -> Mutant:
    return Mutant(words, GymProblem, function, line, broken, noticed_by, given)


FREE = goals.test_a_free_restart_is_a_goal_and_no_reset_and_the_episode_goes_on
STEP, BEST = "_step", goals.test_a_termination_with_the_best_reward_is_asked_about_once
GOALS = [
    tasks(
        "a goal that also looks like a fall is one",
        "_events",
        "return at_goal, not at_goal and decided",
        "return at_goal, decided",
        goals.test_a_fall_is_still_a_reset_and_a_goal_comes_before_it,
    ),
    tasks(
        "standing at a goal is counted again",
        STEP,
        "at_goal and not self._at_goal, at_goal",
        "at_goal, at_goal",
        goals.test_going_on_touches_nothing_and_counts_the_arrival_once,
    ),
    tasks(
        "only the first goal is counted",
        STEP,
        "at_goal and not self._at_goal, at_goal",
        "at_goal and not self._at_goal, at_goal or self._at_goal",
        goals.test_leaving_a_goal_and_coming_back_is_another_goal,
    ),
    tasks("nothing follows a goal", STEP, "self.goals.after != GO_ON", "False", FREE),
    tasks(
        "every goal is left", STEP, " and self.goals.after != GO_ON", "",
        goals.test_going_on_touches_nothing_and_counts_the_arrival_once,
    ),
    tasks(
        "the reward of a goal is the environment's own",
        STEP,
        "float(at_goal) if isinstance(rewards.own, PerGoal)",
        "own if isinstance(rewards.own, PerGoal)",
        goals.test_the_reward_may_be_the_goal,
    ),
    tasks(
        "a goal right after a restart is not counted",
        "_after_goal",
        "self._at_goal = False",
        "self._at_goal = True",
        goals.test_a_goal_next_to_the_start_is_counted_each_time,
    ),
    Mutant("restarts are seeded alike", Goals, "next_observation", "env.reset()[0]", "env.reset(seed=0)[0]", FREE),
    Mutant(
        "options of a new task are lost",
        Goals,
        "next_observation",
        "env.reset(options=dict(self.new_task))[0]",
        "env.reset()[0]",
        goals.test_a_new_task_is_set_in_place,
        ({"keep": True},),
    ),
    Mutant(
        "what succeeded without an end is a goal", Success, "__call__", "terminated and bool", "bool",
        goals.test_a_success_that_goes_on_is_no_goal,
    ),
    Mutant(
        "what the environment calls a failure is a goal",
        Success,
        "__call__",
        'bool(info.get("is_success", False))',
        '"is_success" in info',
        goals.test_what_the_environment_calls_a_success_is_a_goal,
    ),
    Mutant("a failure that the environment reports is asked about", Question, "__call__",
           'and "is_success" not in info', "", goals.test_what_the_environment_calls_a_success_is_a_goal),
    Mutant("falls are asked about too", Question, "__call__", "-inf < self._best < reward", "True", BEST),
    Mutant("nothing is asked", Question, "__call__", "if reset and terminated", "if False and reset", BEST),
]  # fmt: skip
DANGER = numbers.test_a_known_danger_is_not_met_again_and_no_crash_loses_what_the_numbers_mean
NUMBERED = numbers.test_rollouts_are_numbered_as_the_environment_will_number_them
NUMBERS = [
    Mutant(
        "numbers of a file are taken for our own",
        Numbered,
        "numbers",
        "self._numbered(row.tobytes()) for row in digests",
        "i for i, _ in enumerate(digests)",
        numbers.test_a_run_file_is_renumbered,
    ),
    Mutant(
        "states keep the numbers of the file",
        all_transitions,
        "_states",
        "numbers[inner])",
        "inner)",
        numbers.test_a_run_file_is_renumbered,
    ),
    Mutant(
        "the reset state of a file is a place here",
        all_transitions,
        "_states",
        "problem.n_states - 1, numbers",
        "0, numbers",
        numbers.test_a_run_file_is_renumbered,
    ),
    Mutant(
        "recorded observations are numbered by their own types",
        GymProblem,
        "recorded",
        "observation = typed(self.env.observation_space, observation)",
        "pass",
        NUMBERED,
        ("float64",),
    ),
    Mutant(
        "where it fell gets a number",
        GymProblem,
        "recorded",
        "if reset and self.n_states is not None else",
        "if False else",
        NUMBERED,
        ("lists",),
    ),
    Mutant(
        "what the numbers mean is not kept",
        GivenData,
        "rows",
        "(-1, NUMBERING, self.numbering), ",
        "",
        DANGER,
    ),
    Mutant(
        "what the numbers mean is bound by nothing",
        known_data,
        "digest_of",
        "in rows:",
        "in (row for row in rows if row[0] > 0):",
        numbers.test_what_the_numbers_mean_is_bound_by_the_digest,
    ),
]


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The function with its line broken."""
    honest = getattr(mutant.owner, mutant.function)
    text = textwrap.dedent(inspect.getsource(honest))
    assert text.count(mutant.line) == 1, f"this line is no longer there, or twice: {mutant.line}"
    names: dict[str, Any] = {}
    future = "from __future__ import annotations\n"
    exec(future + text.replace(mutant.line, mutant.broken), honest.__globals__, names)
    with patch.object(mutant.owner, mutant.function, names[mutant.function]):
        yield


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> rf.Run:
    """An honest run with a fall, whose numbers are to be read."""
    path = tmp_path_factory.mktemp("old") / "old.rfrun"
    return rf.learn(numbers.ledge(), **numbers.PLAYERS, episodes=30, path=path)


def call(mutant: Mutant, old: rf.Run, folder: Path) -> None:
    """The test that is to notice, with what it takes."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        known = {"old": old, "tmp_path": folder, "monkeypatch": monkeypatch}
        names = inspect.signature(mutant.noticed_by).parameters
        given = {name: known[name] for name in names if name in known}
        mutant.noticed_by(*mutant.given, **given)


@pytest.mark.parametrize("mutant", [*GOALS, *NUMBERS], ids=lambda mutant: mutant.words)
def test_each_is_noticed(mutant: Mutant, old: rf.Run, tmp_path: Path) -> None:
    with applied(mutant), pytest.raises(NOTICED):
        call(mutant, old, tmp_path)


def test_what_is_not_broken_is_not_noticed(old: rf.Run, tmp_path: Path) -> None:
    """The same machinery with a change of nothing: it is the broken line that is noticed."""
    for i, mutant in enumerate((GOALS[0], GOALS[8], NUMBERS[0], NUMBERS[3])):
        same = Mutant(**{**vars(mutant), "broken": mutant.line})
        (folder := tmp_path / str(i)).mkdir()
        with applied(same):
            call(same, old, folder)
