"""The interface of a problem: what a learner sees (`Problem`), how it acts (`Policy`), and what it gets (`Episode`).

This is the reset-free problem of the paper's Section 3. A problem plays whole episodes (`rollout`); one that is played
step by step implements `stepping.SteppedProblem` in place of that.

Legend: S states, A actions, H actions per episode, s_1 its start, tau the step at which a reset state is entered.
Readings of the episode's end (docs/readings.md, A4):
  physical  H actions, H transitions, a reset counts on arrival in s_2 .. s_{H+1}, the next episode starts at s_{H+1};
  literal   states s_1 .. s_H, the last action only earns, the next episode starts at s_H.
"""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Floats, InvalidInput, check, expect, is_function, is_sequence, one_line, state, whole
from resetfree.problems.action_spaces import ActionSpace, Choices, PairFeatures
from resetfree.problems.features import FeatureMap
from resetfree.problems.knowledge import Factors, GoalColumns, Guidance
from resetfree.problems.limits import ActionLimits, Limits
from resetfree.problems.operators.channel import Operator, Request

# The sizes that identify a problem.
SIZES = ("horizon", "n_states", "stationary", "n_transitions", "end_resets", "phi", "xi")
State: TypeAlias = Any  # an int in finite problems, a vector or a number elsewhere; None: a reset must come first
LIST_THEM = "Give actions=5 for a grid of 5 points per dimension, or the list of actions to choose from."
Starts: TypeAlias = Literal["adaptive"] | Sequence[State] | Callable[[int, "Episode | None"], State]


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """The record of one episode, and the start of the next one.

    Paper: episode, tau, s_1^{k+1}.
    """

    states: NDArray[Any]  # s_1, s_2, ... up to the last state seen (a reset state if `reset`)
    actions: NDArray[Any]  # a_1, a_2, ...: int [n] of `Choices`, float [n, A] of a `Box`
    rewards: Floats  # one per action
    reset: bool  # whether a reset state was entered
    next_start: State  # None if a reset must be performed before the next episode: see `Problem.perform_reset`
    original_return: float = float("nan")  # sum of the rewards before scaling, nan if they are not scaled
    goals: int = 0  # goals that were reached

    @property
    def start(self) -> State:
        """The first state (s_1)."""
        return self.states[0]

    @property
    def reset_at(self) -> int | None:
        """The step tau at which a reset state was entered, None without a reset."""
        return len(self.states) if self.reset else None

    @property
    def total_reward(self) -> float:
        """Sum of the rewards received."""
        return float(self.rewards.sum())


class Policy(ABC):
    """A policy as a value: arrays, and a pure function from step, state and random numbers to an action.

    It needs neither its player nor its problem. A dataclass of arrays and numbers (see `core.state`) that has a `kind`
    can be exported to a file and loaded again. `axes` names the sizes of its arrays, by which a file is checked: A
    actions (numbers in an action of a `Box`), S states, D numbers in a state, d features, L layers (1, or one per
    step), any other letter a size of its own.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Steer(Policy):
    ...     weight: np.ndarray  # [A, D]
    ...     kind = "steer"
    ...     axes = {"weight": "AD"}
    ...     def act(self, h, s, u):
    ...         return np.tanh(self.weight @ s)
    >>> Steer(np.array([[0.0, 1.0]])).act(1, np.array([5.0, 0.0]), 0.5)
    array([0.])
    """

    kind: ClassVar[str] = ""  # its name in files; "" if it holds code and cannot be saved
    axes: ClassVar[Mapping[str, str]] = {}  # letters for the axes of each array

    @abstractmethod
    def act(self, h: int, s: State, u: Any) -> Any:
        """The action at step h = 1..H in state s: an index of `Choices`, or a vector [A] of a `Box`.

        u: the only source of randomness, uniform on [0, 1): a number for `Choices`, [A] numbers for a `Box`, or one
          number for all of them.
        """

    def mode(self, h: int, s: State) -> Any:
        """The deterministic action: that of u = 1/2, unless the policy overrides it."""
        return self.act(h, s, np.float64(0.5))

    def same(self, other: Any) -> bool:
        """Whether another policy has the same value, bit for bit; one that holds code equals only itself."""
        if type(other) is not type(self) or not self.kind:
            return self is other
        ours, theirs = state.dump(self), state.dump(other)
        return ours.keys() == theirs.keys() and all(
            array.dtype == theirs[name].dtype and np.array_equal(array, theirs[name]) for name, array in ours.items()
        )

    def modal(self) -> Policy:
        """The policy that takes the mode everywhere."""
        return Modal(self)

    @property
    def stationary(self) -> bool:
        """Whether its actions do not depend on the step."""
        return False


@dataclass(frozen=True)
class Modal(Policy):
    """Another policy made deterministic."""

    policy: Policy

    def act(self, h: int, s: State, u: Any) -> Any:
        """The mode of the other policy; u is ignored."""
        return self.policy.mode(h, s)


class ChoicePolicy(Policy):
    """A policy that chooses among n actions: called with (h, s) it gives their probabilities."""

    @abstractmethod
    def __call__(self, h: int, s: State) -> Floats:
        """[n] probabilities at step h = 1..H in state s."""

    def act(self, h: int, s: State, u: float) -> int:
        """The action drawn by u."""
        return draw(self(h, s).cumsum(), u)

    def mode(self, h: int, s: State) -> int:
        """The most probable action, the first one among ties."""
        return int(np.argmax(self(h, s)))


@dataclass(frozen=True, slots=True)
class Intervention:
    """One reset that an operator performed."""

    k: int  # episodes played before it (0 until the run fills it in)
    # "start" (of a run), "reset" (a reset state was entered), "resume" (it was interrupted) or "stuck" (it stood still,
    # or its player requested help)
    why: str
    detail: str  # the environment's and the operator's description
    who: str  # name of the operator
    asked: str  # time of the request, UTC
    answered: str  # time of the answer, UTC
    seconds: float  # between the two


def intervene(operator: Operator, request: Request) -> Intervention:
    """Have an operator perform a reset, and record the answer with its time; raises OperatorTimeout."""
    requested, began = _now(), time.monotonic()
    answer = operator.perform(request)
    detail = f"{request.detail}; {answer.note}" if answer.note else request.detail
    return Intervention(
        0, request.why, detail, answer.who, requested, answered=_now(), seconds=time.monotonic() - began
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Note:
    """What was noticed during a run, about the problem or about its progress."""

    k: int  # the round (0 until the run fills it in)
    what: str  # one sentence
    tuned: bool = False  # whether claims for rewards in [0, 1] are tuned from that round on
    stuck: bool = False  # whether the run stood still: see `runs.stuck`
    restart: str = ""  # "ended" or "hung" if the learner of a run at a rate did, and was started again
    pushed: int = 0  # steps of this round in which a hand pushed the machine


class Recorded(NamedTuple):
    """A step of recorded data, with the state that this problem makes of its observation."""

    state: State
    reward: float  # before it is scaled
    reset: bool  # whether the state is a reset state


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """A problem's description of itself: for its fingerprint, and for the run file."""

    identity: dict[str, Any]  # everything that affects episodes or what a learner sees
    observation: dict[str, Any] | None = None  # how observations map to states; None if it is code
    function: Callable[[Any], Any] | None = None  # maps raw observations to states, if given


class Problem(ABC):
    """A problem as a learner sees it: sizes, features and episodes.

    Transition probabilities, the reward function and the reset states are hidden; oracles find a model in `_model`.

    Paper: episodic reset-free RL.
    """

    name: str
    horizon: int
    n_states: int | None  # None if not finite
    stationary: bool  # whether the learner may pool its data over the steps of an episode
    n_transitions: int  # how many of the H actions move the agent (H - 1 under the literal boundary)
    n_contexts: int = 1  # contexts that change between episodes and are part of the state
    # Sub-Gaussian constant of a reward given step, state and action: 0 if it is deterministic; 0.5 holds for every
    # random variable in [0, 1].
    reward_noise: float = 0.5
    end_resets: bool  # whether the end of an episode alone can cause a reset
    phi: Floats | None  # known features of state-action pairs, [S, A, d] in finite problems
    xi: Any  # known features of start states: [S, d'] in finite problems, fitted `Features` elsewhere, None for 1
    features: FeatureMap | None = None  # features of states for linear players, if states are not finite
    pairs: PairFeatures | None = None  # known features of state-action pairs, if states are not finite
    factors: Factors | None = None  # named coordinates of finite states, if they are known
    low: Floats | None = None  # [D] bounds of vector states; may be infinite
    high: Floats | None = None
    limits: Limits | None = None  # beyond which states are known to be reset states
    action_limits: ActionLimits | None = None  # by how much actions may change in a step
    _model: Any = None  # a FiniteMDP, if known: for oracles (`finite.mdp.model_behind`), never for learners
    _continuum: Any = None  # a model on a continuum, if known: for oracles (`continuum.continuum_behind`)
    # Whether the environment has a state that no checkpoint can restore: a run then starts and resumes with a reset.
    persistent: bool = False
    room: int = 2_000_000_000  # bytes that a player may keep for it
    reward_range_known: bool = True  # False: rewards may leave [0, 1]
    units: tuple[float, float] | None = (0.0, 1.0)  # rewards that are scaled to 0 and 1; None until they are learned
    after_goal: str | None = None  # what follows a goal; None if it has no goals, "" if none is stated beforehand
    advised_history: int = 0  # observations that its state should be made of from here on; 0: it stays as it is
    never_resets: bool = False  # whether it is stated that nothing that can happen is a reset

    @property
    def states_kind(self) -> str:
        """The kind of its states: finitely many (counted, changing, features), numbers (vectors), or neither.

        counted: dynamics that are the same at all steps, and one task; changing: others; features: of pairs are given.
        """
        if self.n_states is None:
            return "neither" if self.low is None else "vectors"
        if self.phi is not None or self.actions.n is None:
            return "neither" if self.phi is None else "features"
        return "counted" if self.stationary and self.n_contexts == 1 else "changing"

    @property
    def guidance(self) -> Guidance | None:
        """Goals, starts and demonstrations, if the task states them."""
        return None

    @cached_property
    def goal_columns(self) -> GoalColumns | None:
        """Where states have the goal that is requested, and the one that was reached; None if they do not."""
        return None

    @property
    def may_remember(self) -> bool:
        """Whether its state may still become a history of observations, by `advised_history`."""
        return False

    def remember(self, n: int, episodes: Sequence[Episode] = ()) -> list[Episode]:
        """Make the state the last n observations, where `may_remember`; returns the episodes so far in that form."""
        raise InvalidInput(f"The states of '{self.name}' cannot become a history of {n} observations.")

    def review(self, episodes: Sequence[Episode]) -> None:  # noqa: B027
        """Check episodes for signs that the state should be a history of observations; most problems ignore it."""

    @cached_property
    def actions(self) -> ActionSpace:
        """The action space, `Choices` or a `Box`. A problem sets this, or `n_actions` if its actions are 0 .. n - 1."""
        return Choices(self.n_actions)

    @cached_property
    def n_actions(self) -> int:
        """The number of actions; raises InvalidInput if they are a `Box`."""
        if "actions" not in vars(self) and type(self).actions is Problem.actions:
            raise NotImplementedError(f"{type(self).__name__} must set 'actions' or 'n_actions'")
        if self.actions.n is None:
            raise InvalidInput(f"The actions of '{self.name}' are {self.actions} and cannot be counted. {LIST_THEM}")
        return self.actions.n

    @property
    @abstractmethod
    def n_uniforms(self) -> int:
        """The number of uniform numbers that every episode takes."""

    @abstractmethod
    def first_start(self, u: float) -> State:
        """The start of the very first episode."""

    @abstractmethod
    def rollout(self, policy: Any, start: State, u: Floats) -> Episode:
        """Play one episode with `u` [n_uniforms] as its only source of randomness."""

    def perform_reset(self, u: float, why: str, operator: Operator | None = None) -> State:
        """Have a reset performed, and return the state after it; for persistent problems only.

        why: "start", "reset", "resume" or "stuck".
        operator: performs it; None for the problem's own.
        """
        raise NotImplementedError

    def interventions(self) -> list[Intervention]:
        """The resets that were performed since the last call."""
        done, self._performed = self._performed, []
        return done

    @cached_property
    def _performed(self) -> list[Intervention]:
        return []

    @cached_property
    def noted(self) -> list[Note]:
        """What the problem noticed about itself, one sentence each; the run takes them after every round."""
        return []

    def description(self, s1: State = None) -> Description:
        """What identifies the problem, and how observations map to states; `s1`, if known, is an example of a state.

        By default: the sizes, the features, the name, and all attributes that are frozen dataclasses.
        """
        parts = {name: part for name, part in vars(self).items() if is_frozen(part) and name != "actions"}
        if self.actions.n is None:
            parts["actions"] = self.actions
        return Description({**self._sizes(), "name": self.name, **parts}, self._observation(s1))

    def _sizes(self) -> dict[str, Any]:
        return {"n_actions": self.actions.n, **{name: getattr(self, name, None) for name in SIZES}}

    def _observation(self, s1: State) -> dict[str, Any] | None:
        """How observations map to states, if the observation is the state."""
        if self.n_states is not None:
            return {"kind": "number", "first": 0, "count": int(self.n_states)}
        if isinstance(s1, int | float | np.number):
            return {"kind": "scalar"}
        shape = np.shape(s1 if self.low is None or isinstance(s1, np.ndarray) else self.low)
        return {"kind": "vector", "space": {"shape": list(shape)}} if len(shape) == 1 else None

    def twin(self) -> Problem:
        """A copy that is played on its own, for evaluations during a run; raises InvalidInput if there can be none."""
        try:
            return copy.deepcopy(self)
        except Exception as error:  # of a user's own problem
            raise InvalidInput(
                f"The problem '{self.name}' cannot be copied ({one_line(error)}): name another to evaluate on, "
                "EvaluateEvery(..., on=...)."
            ) from error

    def recorded(self, observation: Any, reward: Any, terminated: bool, info: Mapping[str, Any]) -> Recorded:
        """What a step that was recorded elsewhere means here; raises InvalidInput.  reward: None before the first."""
        return Recorded(observation, 0.0 if reward is None else float(reward), reward is not None and bool(terminated))

    def observation_of(self, state: State) -> Any:
        """The observation that a state was made of, for controllers; None for a state in which no action is taken."""
        return state

    def renumbered(self, saved: Mapping[str, NDArray[Any]]) -> NDArray[np.int64] | None:
        """[n] the numbers that states of another run have here, where states are numbered as they appear; else None.

        saved: what the problem of that run had learned.
        """
        return None

    def close(self) -> None:  # noqa: B027 (optional)
        """Release resources; called at the end of a run if the problem was given by name."""

    def saved(self) -> dict[str, NDArray[Any]]:
        """What the problem itself has learned, as arrays for the checkpoint."""
        return {}

    def restore(self, saved: dict[str, NDArray[Any]]) -> None:  # noqa: B027 (optional)
        """Put back the result of `saved`."""


def simulate(
    problem: Problem, policy: Any, episodes: int, *, seed: int | np.random.SeedSequence = 0, starts: Starts = "adaptive"
) -> Iterator[Episode]:
    """Play one policy for many episodes under the reset-free protocol; everything random comes from one seed.

    starts: "adaptive" (the paper: where the last episode ended, or a restart), a sequence of states, or an adversary
    `f(k, last_episode) -> state`.

    >>> import resetfree as rf
    >>> mdp = rf.make("grid-v0")
    >>> runs = list(simulate(mdp.problem(), rf.solve(mdp).policy, episodes=100, seed=1))
    >>> sum(e.reset for e in runs)
    0
    """
    check(problem, Problem, "'problem' of simulate")
    episodes = whole(episodes, "'episodes' of simulate", 0)
    function = is_function(starts)
    good = starts == "adaptive" if isinstance(starts, str) else function or is_sequence(starts)
    expect(good, "'starts'", 'be "adaptive", a sequence or a function', starts)
    if not isinstance(starts, str) and not callable(starts):
        expect(len(starts) >= episodes, "'starts'", f"name a state for each of {episodes} episodes", len(starts))
    if not isinstance(seed, np.random.SeedSequence):
        seed = whole(seed, "'seed' of simulate", 0)
    rng = np.random.default_rng(seed)
    start, last = first_start(problem, rng), None
    for k in range(episodes):
        if callable(starts):
            start = starts(k + 1, last)
        elif not isinstance(starts, str):
            start = starts[k]
        elif start is None:
            start = problem.perform_reset(rng.random(), "reset")
        last = problem.rollout(policy, start, rng.random(problem.n_uniforms))
        yield last
        start = last.next_start


def first_start(problem: Problem, rng: np.random.Generator) -> State:
    """The first start of a problem; of a persistent one, by a reset."""
    u = rng.random()
    return problem.perform_reset(u, "start") if problem.persistent else problem.first_start(u)


def is_frozen(value: Any) -> bool:
    """Whether a value is a frozen dataclass."""
    return is_dataclass(value) and bool(getattr(type(value), "__dataclass_params__").frozen)  # noqa: B009


def draw(cumulative: Floats, u: float) -> int:
    """Inverse cumulative draw; beyond the rounded total it is the last index with positive probability."""
    i = int(np.searchsorted(cumulative, u, side="right"))
    return i if i < len(cumulative) else int(np.searchsorted(cumulative, cumulative[-1]))
