"""Problems that are played step by step, and the one loop that plays an episode of them with a policy.

Legend: H actions per episode, h = 1..H; an episode's uniforms are blocks of H numbers, number h of each block is for
step h: first those of the action (`ActionSpace.n_uniforms` blocks), then those of the step; the rest is for the next
start.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple, cast

import numpy as np

from resetfree.core import Floats, InvalidInput, shown
from resetfree.problems.action_spaces import Choices
from resetfree.problems.contract import ChoicePolicy, Episode, Policy, Problem, State
from resetfree.problems.finite.tabular_policy import Sizes, TabularPolicy, as_policy


class Step(NamedTuple):
    """The result of one action."""

    state: State
    reward: float  # in [0, 1]
    reset: bool  # whether the state is a reset state
    original: float = nan  # the reward before scaling, nan if it is not scaled
    goal: bool = False  # whether a goal was reached


class SteppedProblem(Problem):
    """A problem with a step function; policies are whatever `playable` accepts."""

    step_uniforms: int = 0  # random numbers for one step, besides those of its action
    end_uniforms: int = 0  # random numbers for the next start
    _done: Floats | None = None  # the action of the last step since a reset, where the next one depends on it

    @abstractmethod
    def step(self, h: int, state: State, action: Any, u: Floats) -> Step:
        """Take an action in a state at step h; `u` [step_uniforms] is the only source of randomness."""

    def enter(self, start: State) -> State:
        """Begin an episode at `start`; may raise if that is impossible."""
        return start

    @abstractmethod
    def leave(self, state: State, reset: bool, u: Floats) -> State:
        """End an episode; returns the next start, drawn by `u` [end_uniforms], or None if it needs a reset."""

    @property
    def n_uniforms(self) -> int:
        """Random numbers for the actions, the steps and the next start."""
        return (self.actions.n_uniforms + self.step_uniforms) * self.horizon + self.end_uniforms

    def applied(self, action: Any) -> Any:
        """The action, cut to what it may change by since the last step, if that is limited."""
        if self.action_limits is not None:
            action = self._done = self.action_limits.eased(action, self._done)
        return action

    def finish(self, episode: Episode) -> Episode:
        """What a problem makes of an episode that was played; called once, after `leave`."""
        return episode

    def chances(self, u: Floats) -> tuple[Floats, Floats]:
        """The uniforms of each step, [H, ...], and those of the next start; raises InvalidInput for another number."""
        if len(u) != self.n_uniforms:
            raise InvalidInput(f"One episode of '{self.name}' needs {self.n_uniforms} uniforms. Got {len(u)} instead.")
        steps = len(u) - self.end_uniforms
        return u[:steps].reshape(-1, self.horizon).T, u[steps:]

    def refuse(self, action: Any, h: int) -> InvalidInput:
        """The error for a policy's action that is none of the problem's."""
        return InvalidInput(
            f"An action of '{self.name}' must be {self.actions}. Got {shown(_plain(action))} at step {h} instead."
        )

    def rollout(self, policy: Any, start: State, u: Floats) -> Episode:
        """Play at most H steps; fewer if a reset state is entered."""
        chance, last = self.chances(u)
        space, act = self.actions, playable(policy, self).act
        state, acting = self.enter(start), space.n_uniforms
        states, actions, rewards = [state], [], []
        original, reset, goals = 0.0, False, 0
        for h in range(1, self.horizon + 1):
            now = chance[h - 1]
            action = act(h, state, now[0] if isinstance(space, Choices) else now[:acting])
            if not space.holds(action):
                raise self.refuse(action, h)
            action = self.applied(action)
            state, reward, reset, own, goal = self.step(h, state, action, now[acting:])
            states.append(state)
            actions.append(action)
            rewards.append(reward)
            original += own
            goals += goal
            if reset:
                break
        next_start = self.leave(state, reset, last)
        return self.finish(
            Episode(
                np.array(states),
                space.stack(actions),
                np.array(rewards),
                reset,
                next_start,
                original_return=original,
                goals=goals,
            )
        )


@dataclass(frozen=True)
class FunctionPolicy(ChoicePolicy):
    """A function (h, s) -> probabilities [n], checked at each call."""

    function: Callable[[int, State], Any]
    problem: str
    n_actions: int

    def __call__(self, h: int, s: State) -> Floats:
        """[n] the function's result; raises InvalidInput if it is not a distribution."""
        row = np.asarray(self.function(h, s), dtype=np.float64)
        if row.shape != (self.n_actions,) or not (row >= 0).all() or abs(row.sum() - 1) > 1e-9:
            raise InvalidInput(
                f"A policy of '{self.problem}' must give a distribution over {self.n_actions} actions. "
                f"Got {row.tolist()} at step {h} instead."
            )
        return row


def playable(policy: Any, problem: Problem) -> Policy:
    """An argument as a policy: a `Policy`, a function (h, s) -> probabilities, or a table if states are finite.

    >>> import resetfree as rf
    >>> playable(lambda h, s: [0.5, 0.5], rf.from_gym("gym:CartPole-v1")).act(1, np.zeros(4), 0.7)
    1
    """
    if isinstance(problem.actions, Choices):
        if isinstance(policy, Policy):
            return policy
        if callable(policy):
            return FunctionPolicy(policy, problem.name, problem.n_actions)
        if problem.n_states is not None:
            return TabularPolicy(as_policy(policy, cast(Sizes, problem)))
        raise InvalidInput(
            f"A policy of '{problem.name}' must be a function (h, state) -> probabilities, or a Policy. "
            f"Got {type(policy).__name__} instead."
        )
    if not isinstance(policy, Policy) or isinstance(policy, ChoicePolicy):
        raise InvalidInput(
            f"A policy of '{problem.name}' must be a Policy whose 'act' gives {problem.actions}. "
            f"Got {type(policy).__name__} instead."
        )
    return policy


def _plain(action: Any) -> Any:
    return action.tolist() if isinstance(action, np.ndarray) else action
