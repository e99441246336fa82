"""A Gymnasium environment as a reset-free problem: it runs from episode to episode until a reset event.

`reset` is called at the start of a run, after a reset event and when an interrupted run is resumed, never otherwise,
except for environments that are said to restart for free after a goal (see `goals`).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import inf, isnan, nan
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resetfree.core import EnvironmentFailed, Floats, InvalidInput, NotCertifiable, Notice, expect, one_line
from resetfree.problems.action_spaces import Box, Choices
from resetfree.problems.contract import Description, Episode, Note, Recorded, State, intervene
from resetfree.problems.features import FeatureMap
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.gym.events import (
    AS_THEY_ARE,
    Condition,
    PerGoal,
    Units,
    Unusable,
    decided,
    first_units,
    number,
    scaled,
)
from resetfree.problems.gym.flattening import space_form
from resetfree.problems.gym.goals import GO_ON, RESTART, Goals, Question, WithGoals
from resetfree.problems.gym.history import HiddenState, Recent, Remembering
from resetfree.problems.gym.known import Decoder, Terms, pattern
from resetfree.problems.gym.making import Env, Life, lift_time_limits, picture
from resetfree.problems.gym.observations import Numbered, Observer, brief, far_outside, numbers_of, typed
from resetfree.problems.limits import Limits
from resetfree.problems.operators import Automatic, Operator, Request
from resetfree.problems.stepping import Step

SEEDS = 2**31  # seeds of the environment's own randomness
PENALTY = 0.5  # of the range of rewards: what a step that leads to a reset may lie outside of it without a note
WHY = {"start": "the run starts", "resume": "the run continues after an interruption"}


class GymProblem(WithGoals, Remembering):
    """Episodes of H steps in one environment that is not reset between them; made by `from_gym`."""

    persistent = True

    def __init__(
        self,
        env: Env,
        name: str,
        horizon: int,
        terms: Terms,
        observer: Observer,
        *,
        features: FeatureMap | None,
        xi: Any,
        operator: Operator,
        model: FiniteMDP | None,
        no_table: str,
        goals: Goals | None = None,
        asks: bool = False,
        units: Units | None = None,
        decoder: Decoder | None = None,
        limits: Limits | None = None,
        auto_history: bool = False,
    ) -> None:
        self.env, self.name, self.horizon, self.terms = env, name, horizon, terms
        self.actions = terms.actions if isinstance(terms.actions, Box) else Choices(len(terms.actions), terms.actions)
        self.n_states = observer.n_states
        self.stationary, self.n_transitions, self.end_resets = True, horizon, False
        self.phi, self.xi, self.features = None, xi, features
        self.low, self.high = observer.low, observer.high
        if limits is not None:  # one without is what it was before there were limits
            self.limits = limits
        self.no_table = no_table  # why there is no exact model, "" if there is one
        self._model = model
        self._possible = None if model is None else pattern(model)
        self._observer, self._decoder = observer, decoder
        self.factors = None if decoder is None else decoder.factors
        # Conditions that are text count the numbers of an observation; functions get it as it is.
        space = env.observation_space
        self._numbers = partial(numbers_of, space) if isinstance(space, spaces.Dict | spaces.Tuple) else None
        self.goals, self.after_goal = goals, None if goals is None else goals.after if goals.stated else ""
        self._at_goal = False  # after the last step
        self._far = False  # whether it was noted that observations lie far outside of their space
        self.never_resets = isinstance(terms.reset_when, Condition) and not terms.reset_when.groups
        self.units, self.reward_range_known = units, units is not None
        self._range = self._quiet = units or AS_THEY_ARE  # of all rewards so far; of those that need no other note
        self._auto_history = auto_history
        looks = self.low is not None and not isinstance(observer, Recent)
        self._hidden = HiddenState(self.actions) if looks else None
        self._is_shared = False  # whether it was said that observations share a number
        self._is_priced = False  # whether it was said that a reset has a price of its own
        self._excess = 0.0  # of the last reward beyond what was counted
        self._question = Question(asks)
        self.operator = operator  # performs resets; may be replaced at any time
        self._state: State = None  # the environment's present state; None: it must be reset first
        self._latest: Any = None  # observation
        self._event = ""
        self.life = Life()
        self._steps = 0  # since this was made
        self.remake: Callable[[], Env] | None = None  # how the environment is made again after `close`
        self.closed = False

    @property
    def mdp(self) -> FiniteMDP:
        """The exact model of an environment that has a table, for oracles."""
        if self._model is None:
            raise NotCertifiable(self.no_table)
        return cast(FiniteMDP, self._model)

    @property
    def names(self) -> list[str] | None:
        """[D] the names of the numbers of a state, as conditions and messages use them; None if states are counted."""
        return None if self.n_states is not None else self._observer.names

    def description(self, s1: State = None) -> Description:
        """As for other problems, with the spaces of the environment; the operator is not part of the identity."""
        dropped = ("operator",) if self.goals is None or self.goals.stated else ("operator", "goals")
        identity = {name: part for name, part in super().description(s1).identity.items() if name not in dropped}
        space = self.env.observation_space
        form: dict[str, Any] = {"kind": "vector", "space": space_form(space)}
        if isinstance(self._observer, Numbered):
            form = {**form, "kind": "numbered", "count": int(self.n_states or 1) - 1}
        elif self.n_states is not None:
            counted = cast(spaces.Discrete, space)
            form = {"kind": "number", "first": int(counted.start), "count": int(counted.n)}
        if isinstance(self._observer, Recent):
            identity["history"] = self._observer.n
            return Description(identity, {"kind": "vector", "space": {"shape": [len(self._observer.names)]}})
        if self.terms.function is not None:
            form["kind"] = f"function-{form['kind']}"
        return Description(identity, form, self.terms.function)

    def first_start(self, u: float) -> State:
        """The state after the first reset."""
        return self.perform_reset(u, "start")

    def perform_reset(self, u: float, why: str, operator: Operator | None = None) -> State:
        """Wait for the operator (by default the problem's own), then reset the environment with a seed from `u`."""
        event = f"at {brief(self._state)}" if why == "stuck" else self._event
        request = Request(
            self.name, why, WHY.get(why, event or "a reset is due"), lambda: None if self.closed else picture(self.env)
        )
        self._performed.append(intervene(operator or self.operator, request))
        self._state = None
        try:
            if self.closed and self.remake is not None:
                self.env, self.closed = self.remake(), False
                lift_time_limits(self.env)
            observation, _ = self.env.reset(seed=int(u * SEEDS))
        except Exception as error:
            raise EnvironmentFailed(f"At a reset, the environment '{self.name}' raised {one_line(error)}.") from error
        try:
            self._observer.begin()
            self._latest, self._state = observation, self._observed(observation)
        except Unusable as error:
            raise EnvironmentFailed(f"At a reset, the environment '{self.name}' {error}.") from error
        self._event, self._at_goal, self._done = "", False, None
        self.life.begin()
        return self._state

    def _observed(self, observation: Any) -> State:
        """The state of an observation, whose factors are kept where there are any."""
        state = self._observer(observation)
        if isinstance(self._observer, Numbered) and state == self._observer.shared:
            if not self._is_shared:
                self._is_shared = True
                self._note(
                    f"'{self.name}' showed more than {state} distinct observations: all others count as one state. "
                    f"Allow more (states={10 * (state + 1)}), or learn from features of them, observe=f."
                )
        elif self._decoder is not None:
            self._decoder(state, observation)
        return state

    def saved(self) -> dict[str, NDArray[Any]]:
        """The numbers and factors of observations that are numbered, and the units of rewards that were learned."""
        seen: dict[str, NDArray[Any]] = {"seen": self._observer.seen} if isinstance(self._observer, Numbered) else {}
        if seen and self.factors is not None and self.factors.parts:
            seen["factors"] = self.factors.values
        if not self.reward_range_known and self.units is not None:
            seen["units"] = np.array(self.units)
        return {**seen, **self.life.saved()}

    def restore(self, saved: dict[str, NDArray[Any]]) -> None:
        """Put back the numbers of observations and the units of rewards."""
        if isinstance(self._observer, Numbered):
            self._observer.seen = saved["seen"]
            if self._decoder is not None and "factors" in saved:
                self._decoder.restore(saved["factors"])
        if "units" in saved and not self.reward_range_known:
            low, high = map(float, saved["units"])
            expect(-inf < low < high < inf, "units of rewards", "be two numbers, the lower first", got="others")
            self.units = self._range = self._quiet = low, high
        self.life.restore(saved)

    def twin(self) -> GymProblem:
        """A copy with an environment of its own: made again if this one was made by name, else a deep copy."""
        if getattr(self.env.unwrapped, "only_one", False):
            raise InvalidInput(f"There is only one '{self.name}': name a simulator, EvaluateEvery(..., on=...).")
        other = copy.copy(self)
        try:
            other._observer = copy.deepcopy(self._observer)
            if self.remake is None:
                other.env = copy.deepcopy(self.env)
        except Exception as error:  # a window, a connection, a user's own code
            raise InvalidInput(
                f"The environment '{self.name}' cannot be copied ({one_line(error)}): name another to evaluate on, "
                "EvaluateEvery(..., on=...)."
            ) from error
        other.closed = self.remake is not None  # its environment is made at its first reset
        other._state, other._event, other._question, other.life = None, "", Question(False), Life()
        other._performed, other.noted = [], []
        return other

    def close(self) -> None:
        """Close the environment; the next reset makes it again if it was made by name."""
        if not self.closed:
            self.closed, self._state = True, None
            self.env.close()

    def enter(self, start: State) -> State:
        """The environment's present state, which is unknown until the episode has ended."""
        if self._state is None or not np.array_equal(start, self._state):
            present = "none before a reset" if self._state is None else brief(self._state)
            raise InvalidInput(
                f"An episode of '{self.name}' must start at the present state of the environment ({present}). "
                f"Got {None if start is None else brief(start)} instead."
            )
        state, self._state = self._state, None
        return state

    def leave(self, state: State, reset: bool, u: Floats) -> State:
        """The environment's present state; None if a reset is due.

        If its own time limit would come in the next episode, that of a free restart.
        """
        self._state = None if reset else state
        if not reset and self.life.due(self.horizon):
            try:
                self._state = self._restarted()
            except Unusable as error:
                raise EnvironmentFailed(f"After an episode, the environment '{self.name}' {error}.") from error
        return self._state

    def _restarted(self) -> State:
        """The state after a free restart at the environment's own time limit; raises Unusable."""
        observation, self._at_goal = self.life.restart(self.env), False
        self._observer.begin()
        state = self._observed(observation)
        self._said_of_limits()
        return state

    def _said_of_limits(self) -> None:
        if self.life.words:
            self._note(f"'{self.name}' {self.life.words} (docs/goals.md).")

    def step(self, h: int, state: State, action: Any, u: Floats) -> Step:
        """One step of the environment, whose randomness is seeded by its reset; raises EnvironmentFailed."""
        try:
            return self._step(state, action, h)
        except Unusable as error:
            raise EnvironmentFailed(
                f"At step {h} of an episode (step {self._steps} in all), the environment '{self.name}' {error}."
            ) from error.__cause__

    def _step(self, state: State, action: Any, h: int) -> Step:
        self._steps += 1
        known = self.life.limit
        self._observer.acted(action)
        read = self._observer.check if isinstance(self.operator, Automatic) else None
        observation, given, terminated, info = self.life.step(self.env, self.actions.native(action), read)
        if self.life.limit != known:
            self._observer.begin()
            self._said_of_limits()
        own = number(given)
        step = observation, own, terminated, info
        at_goal, reset = self._events(step, state)
        rewards = self.terms.rewards
        value = float(at_goal) if isinstance(rewards.own, PerGoal) else rewards(*step)
        if text := self._question(own, reset, at_goal and not self._at_goal, terminated, info):
            self._note(f"'{self.name}' {text}")
        goal, self._at_goal = at_goal and not self._at_goal, at_goal
        if goal and self.goals is not None and self.goals.after != GO_ON:
            observation = self._after_goal(self.goals)
        self._latest = observation
        after: State = self.n_states - 1 if reset and self.n_states is not None else self._observed(observation)
        if not reset and self.life.due() and h < self.horizon:
            after = self._restarted()
        if self._possible is not None and (state, action, after) not in self._possible:
            raise Unusable(
                f"went from state {state} by action {action} to state {after}, which is impossible by its own table P: "
                "do not use the table (table=False)"
            )
        if reset:
            shown = after if self.n_states is None else observation
            ended = ", terminated" if terminated else ""
            self._event = f"step {h} of an episode, observed {brief(shown)}, reward {own:g}{ended}"
        changed = rewards.own is not None or self.units != AS_THEY_ARE or rewards.stated
        return Step(after, self._softened(self._scaled(value, reset), after), reset, own if changed else nan, goal)

    def recorded(self, observation: Any, reward: Any, terminated: bool, info: Mapping[str, Any]) -> Recorded:
        """State, reward and event of a step that was recorded elsewhere; the environment itself is not touched."""
        single = not isinstance(self._observer, Recent)
        must = "be run files with the same history of observations and actions"
        expect(single, f"data of '{self.name}'", must, got="single observations")
        try:
            if isinstance(self._observer, Numbered):
                observation = typed(self.env.observation_space, observation)
            if reward is None:
                return Recorded(self._observed(observation), 0.0, False)
            seen = (observation, number(reward), terminated, dict(info))
            at_goal, reset = self._events(seen)
            rewards = self.terms.rewards
            value = float(at_goal) if isinstance(rewards.own, PerGoal) else rewards(*seen)
            state = self.n_states - 1 if reset and self.n_states is not None else self._observed(observation)
        except Unusable as error:
            raise InvalidInput(f"A step of the data is none of '{self.name}': the environment {error}.") from error
        return Recorded(state, value, reset)

    def observation_of(self, state: State) -> Any:
        """The observation in the environment's own form: of the state, or the latest if that lacks a part of it."""
        return self._observer.observation(state, self._latest)

    def renumbered(self, saved: Mapping[str, NDArray[Any]]) -> NDArray[np.int64] | None:
        """The numbers that observations of another run have here, if they are numbered as they appear."""
        if not isinstance(self._observer, Numbered):
            return None
        if "seen" not in saved:
            raise InvalidInput(
                f"The states of '{self.name}' are numbered as they appear, and the data do not say what theirs are "
                "numbers of: give a run file of this environment with states=N, or rollouts with their observations."
            )
        try:
            return self._observer.numbers(saved["seen"])
        except Unusable as error:
            raise InvalidInput(f"The data are none of '{self.name}': the environment {error}.") from error

    def _events(self, step: tuple[Any, float, bool, dict[str, Any]], before: State = None) -> tuple[bool, bool]:
        """Whether a step reached a goal, and whether it is a reset event: beyond a known limit it always is."""
        if self.limits is not None and self.limits.ends(before, self._observer(step[0])):
            return False, True
        at_goal = self.goals is not None and decided("goal_when", self.goals.when, step, self._numbers)
        return at_goal, not at_goal and decided("reset_when", self.terms.reset_when, step, self._numbers)

    def _softened(self, reward: float, state: State) -> float:
        """A reward less what the margin before a limit costs; in the first episode, of unknown units, by `finish`."""
        return reward if self.limits is None or self.units is None else max(reward - self.limits.cost(state), 0.0)

    def _scaled(self, value: float, reset: bool) -> float:
        """A reward in the units of the problem, which are not known before the first episode has ended."""
        if self.units is None:
            return value
        found = scaled(value, self.units)
        if reset and not self.reward_range_known:
            return self._priced(value, found)
        if not 0.0 <= found <= 1.0:
            low, high = self._range = min(self._range[0], value), max(self._range[1], value)
            if not self._quiet[0] <= value <= self._quiet[1]:
                self._quiet = (low - (high - low), high + (high - low))
                self._note(
                    f"'{self.name}' gave the reward {value:g}, outside the range from {self.units[0]:g} to "
                    f"{self.units[1]:g} that is scaled to [0, 1]: it counts as {found:.3g}, and claims for rewards in "
                    f"[0, 1] are tuned from here on. For another run state reward_range=({low:g}, {high:g}), or "
                    "reward_low and reward_high on the command line (docs/own_environment.md).",
                    tuned=True,
                )
        return found

    def finish(self, episode: Episode) -> Episode:
        """The first episode shows in which units rewards are scaled, if no range is stated."""
        if not self._far and (far := far_outside(self._observer, episode.states)):
            self._far = True
            self._note(f"'{self.name}' {far}")
        self.review([episode])
        excess, self._excess = self._excess, 0.0
        if self.units is not None:
            added = excess and isnan(episode.original_return)
            return replace(episode, original_return=episode.total_reward + excess) if added else episode
        self.units = first_units(episode.rewards, episode.reset)
        self._range = self._quiet = self.units
        if self.units != AS_THEY_ARE:
            low, high = self.units
            self._note(
                f"No reward_range is stated for '{self.name}': rewards from {low:g} to {high:g} are scaled to [0, 1], "
                "as the first episode suggests (docs/own_environment.md)."
            )
        rewards, last = episode.rewards.tolist(), len(episode.rewards) - 1
        counted = [self._scaled(value, episode.reset and i == last) for i, value in enumerate(rewards)]
        counted = [self._softened(*one) for one in zip(counted, episode.states[1:], strict=True)]
        excess, self._excess = self._excess, 0.0
        changed = self.terms.rewards.own is not None or self.units != AS_THEY_ARE or bool(excess)
        return replace(episode, rewards=np.array(counted), original_return=episode.original_return if changed else nan)

    def _priced(self, value: float, found: float) -> float:
        """The reward of a step that leads to a reset, which has its own price, within [0, 1]."""
        within = min(max(found, 0.0), 1.0)
        self._excess = found - within
        if abs(found - within) > PENALTY and not self._is_priced:
            self._is_priced = True
            self._note(
                f"'{self.name}' gave the reward {value:g} in a step that led to a reset: it counts as {within:g}, as a "
                "reset has a price of its own. To count it as it is state reward_range, or reward_low and reward_high "
                "on the command line (docs/own_environment.md)."
            )
        return within

    def _after_goal(self, goals: Goals) -> Any:
        """Let the environment restart for free or set a new task; what it observes then."""
        observation = goals.next_observation(self.env)
        self._at_goal = False
        if goals.after == RESTART or isinstance(goals.new_task, Mapping):
            self.life.begin()
            self._observer.begin()
        return observation

    def _note(self, text: str, tuned: bool = False) -> None:
        """Warn, and leave the sentence for the run."""
        self.noted.append(Note(0, text, tuned))
        warnings.warn(text, Notice, stacklevel=2)
