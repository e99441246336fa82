"""Goals: what counts as one, and what follows it. A goal is not a fall: it is counted apart, and never as a reset.

What follows a goal is part of the dynamics, so that nothing else of the game changes: an episode keeps its H steps, the
next one starts where it ended, and the transition that reaches a goal leads
  go on             to the goal itself: the environment is not touched;
  new task          to the same place with another goal, which the environment sets by `new_task`;
  restart for free  to a new start: the environment puts itself back (`reset`), without an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Protocol, runtime_checkable

import numpy as np
from gymnasium import spaces

from resetfree.core import Bools, Floats, InvalidInput, expect, one_line
from resetfree.problems.gym.events import Condition, Decide, Unusable
from resetfree.problems.gym.flattening import parts
from resetfree.problems.gym.history import Recent
from resetfree.problems.gym.making import Env
from resetfree.problems.gym.observations import Observer
from resetfree.problems.knowledge import GoalColumns, Guidance, columns_of
from resetfree.problems.stepping import SteppedProblem

GO_ON, NEW_TASK, RESTART = "go on", "new task", "restart for free"
AFTER = (GO_ON, NEW_TASK, RESTART)
TASKS = "the name of a method of the environment, a function of the environment, or options of its reset"


@runtime_checkable
class TaskLaw(Protocol):
    """A new task whose distribution is known, for the exact model."""

    def law(self, env: Any, arrival: int) -> Floats:
        """[n] the probabilities of the states after a goal that was reached in state `arrival`."""
        ...


@dataclass(frozen=True)
class Success:
    """The environment says itself that it ended well."""

    def __call__(self, observation: Any, reward: float, terminated: bool, info: dict[str, Any]) -> bool:
        """Whether it terminated with a true `is_success`."""
        return terminated and bool(info.get("is_success", False))


class Question:
    """Asks once about a termination that looks like a goal, if nothing was said about its meaning."""

    def __init__(self, is_open: bool) -> None:
        self._is_open, self._best = is_open, -inf  # the best reward of a step that did not terminate

    def __call__(self, reward: float, reset: bool, goal: bool, terminated: bool, info: dict[str, Any]) -> str:
        """What to say after a step, as the rest of a sentence; "" for nothing."""
        if not self._is_open:
            return ""
        if goal:
            self._is_open = False
            return (
                "terminated with info.is_success: this counts as a goal, not as a reset, and it restarts for free. "
                'State goal_when and after_goal for another meaning, or reset_when="terminated" if it is a fall '
                "(docs/goals.md)."
            )
        if reset and terminated and -inf < self._best < reward and "is_success" not in info:
            self._is_open = False
            return (
                f"terminated with the best reward so far ({reward:g}), which counted as a reset. If that is a goal, "
                f'state goal_when="terminated and reward>={reward:g}"; if it is a fall, reset_when="terminated" '
                "(docs/goals.md)."
            )
        if not terminated:
            self._best = max(self._best, reward)
        return ""


@dataclass(frozen=True, eq=False)
class Goals:
    """What counts as a goal, and what follows it; part of the problem's fingerprint if the user or the id states it."""

    when: Decide
    after: str  # one of AFTER
    new_task: Any = None  # TASKS
    stated: bool = True  # False: only what the environment itself calls a success

    @classmethod
    def checked(cls, when: Decide, after: Any, new_task: Any, env: Env, problem: str) -> Goals:
        """Goals from the arguments of `from_gym`; raises InvalidInput."""
        expect(isinstance(after, str) and after in AFTER, f"'after_goal' of '{problem}'", f"be one of {AFTER}", after)
        if (after == NEW_TASK) != (new_task is not None):
            raise InvalidInput(
                f"The 'new_task' of '{problem}' must be given for after_goal=\"{NEW_TASK}\" and for nothing else: "
                f"{TASKS}. "
                f'Got {"none" if new_task is None else repr(new_task)} for after_goal="{after}" instead.'
            )
        known = new_task is None or callable(new_task) or isinstance(new_task, Mapping)
        if isinstance(new_task, str):
            known = callable(getattr(env.unwrapped, new_task, None))
        expect(known, f"'new_task' of '{problem}'", f"be {TASKS}", new_task)
        return cls(when, after, new_task)

    @property
    def reads_entries(self) -> bool:
        """Whether its condition reads single numbers of an observation."""
        return isinstance(self.when, Condition) and self.when.reads_entries

    def next_observation(self, env: Env) -> Any:
        """What is observed after a goal that the agent does not stay at; raises Unusable."""
        try:
            if self.after == RESTART:
                return env.reset()[0]
            if isinstance(self.new_task, Mapping):
                return env.reset(options=dict(self.new_task))[0]
            named = isinstance(self.new_task, str)
            found = getattr(env.unwrapped, self.new_task)() if named else self.new_task(env)
        except Exception as error:
            raise Unusable(f"could not go on after a goal ({self.after}): it raised {one_line(error)}") from error
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict):
            found = found[0]  # with its info, as from a reset
        if found is None:
            raise Unusable("could not go on after a goal: its 'new_task' must return the observation of the new task")
        return found

    def law(self, env: Any, arrival: int, first: Floats) -> Floats | None:
        """[n] the distribution of the state after a goal in a table, None if it is not known.  first: of a start."""
        if self.after == RESTART:
            return first
        if self.after == GO_ON:
            return np.asarray(np.arange(len(first)) == arrival, dtype=np.float64)
        return self.new_task.law(env, arrival) if isinstance(self.new_task, TaskLaw) else None


REACHED, WANTED = "achieved_goal", "desired_goal"  # keys of observations with goals


def goal_columns(env: Env) -> GoalColumns | None:
    """Where an observation that is a dictionary has its goals, by their usual keys; None for any other.

    An environment that says what a goal pays, by `compute_reward`, says so when one counts as reached: where that pays
    as much as reaching it exactly. Dense rewards do not say it.
    """
    space = env.observation_space
    if not isinstance(space, spaces.Dict) or not {REACHED, WANTED} <= space.spaces.keys():
        return None
    sizes = [(part.name, int(np.prod(part.space.shape or ()))) for part in parts(space)]
    first = dict(zip([name for name, _ in sizes], np.cumsum([0, *(size for _, size in sizes)]), strict=False))
    size = dict(sizes)
    if REACHED not in size or size[REACHED] != size.get(WANTED):
        return None
    achieved, wanted = (int(first[name]) + np.arange(size[name]) for name in (REACHED, WANTED))
    return GoalColumns(achieved, wanted, _reached_by(env, size[WANTED]))


def _reached_by(env: Env, size: int) -> Callable[[Floats, Floats], Bools] | None:
    """Whether goals count as reached, by the environment's own `compute_reward` for many at once."""
    pays = getattr(env.unwrapped, "compute_reward", None)

    def reached(achieved: Floats, desired: Floats) -> Bools:
        assert pays is not None
        return np.asarray(pays(achieved, desired, {}) >= pays(desired, desired, {}))

    probe = np.zeros((3, size))
    probe[1:] += np.array([[1e-6], [1e6]])
    try:
        said = reached(probe, np.zeros((3, size)))
    except Exception:  # the environment's own code, which may take one goal at a time
        return None
    return reached if said.shape == (3,) and said.tolist() == [True, True, False] else None


class WithGoals(SteppedProblem):
    """A problem of an environment, whose states may hold goals."""

    env: Env
    terms: Any  # `known.Terms`
    _observer: Observer

    @property
    def guidance(self) -> Guidance | None:
        """What the task states about itself, where states are its observations."""
        found = getattr(self.env.unwrapped, "guidance", None) if self._plain else None
        return found if isinstance(found, Guidance) else None

    @cached_property
    def goal_columns(self) -> GoalColumns | None:
        """Where states have the goal that is requested, and the one that was reached; None if they do not."""
        if not self._plain:
            return None
        stated = self.guidance
        return goal_columns(self.env) if stated is None else columns_of(stated, len(self._observer.names))

    @property
    def _plain(self) -> bool:
        """Whether states are single observations, as vectors."""
        return self.n_states is None and self.terms.function is None and not isinstance(self._observer, Recent)
