"""The reset-free problem of the paper's Section 3: what the world is, what a learner sees of it, a policy, one episode.

Legend: S states, A actions, H actions per episode, s_1 its start, tau the step at which a reset state is entered.
Readings of the episode's end (docs/readings.md, A4):
  physical  H actions, H transitions, a reset counts on arrival in s_2 .. s_{H+1}, the next episode starts at s_{H+1};
  literal   states s_1 .. s_H, the last action only earns, the next episode starts at s_H.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core import state
from resetfree.core.arguments import is_sequence, shown, whole
from resetfree.core.errors import InvalidInput
from resetfree.problems.action_spaces import ActionSpace, Choices
from resetfree.problems.features import FeatureMap
from resetfree.problems.finite.transitions import Floats
from resetfree.problems.operators.request import Operator

# What every problem is told by; the name is not among them, since one problem may go by two.
SIZES = ("horizon", "n_states", "stationary", "n_transitions", "end_resets", "phi", "xi")
State: TypeAlias = Any  # an int in finite problems, a vector or a number elsewhere; None: a reset must come first
LIST_THEM = "Give actions=5 for a grid of 5 points per dimension, or the list of actions to choose from."
Starts: TypeAlias = Literal["adaptive"] | Sequence[State] | Callable[[int, "Episode | None"], State]


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """What happened in one episode, and where the next one starts.

    Paper: episode, tau, s_1^{k+1}.
    """

    states: NDArray[Any]  # s_1, s_2, ... up to the last state seen (a reset state if `reset`)
    actions: NDArray[Any]  # a_1, a_2, ...: int [n] of `Choices`, float [n, A] of a `Box`
    rewards: Floats  # one per action
    reset: bool  # whether a reset state was entered
    next_start: State  # None where somebody must perform a reset before the next episode: see `Problem.perform_reset`
    original_return: float = float("nan")  # sum of the rewards before they were scaled, where they were

    @property
    def start(self) -> State:
        """Where the episode began (s_1)."""
        return self.states[0]

    @property
    def reset_at(self) -> int | None:
        """The step tau at which a reset state was entered, None if there was none."""
        return len(self.states) if self.reset else None

    @property
    def total_reward(self) -> float:
        """Sum of the rewards received."""
        return float(self.rewards.sum())


class Policy(ABC):
    """What is done in each state, as a value: arrays, and an action that step, state and chance decide.

    It needs neither its player nor its problem. A dataclass of arrays and numbers (see `core.state`) that has a `kind`
    can be exported to a file and read again; `axes` names the sizes of its arrays, by which a file is checked: A
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

    kind: ClassVar[str] = ""  # its name in files; none for what holds code and cannot be saved
    axes: ClassVar[Mapping[str, str]] = {}  # letters for the axes of each array

    @abstractmethod
    def act(self, h: int, s: State, u: Any) -> Any:
        """The action at step h = 1..H in state s: an index of `Choices`, or a vector [A] of a `Box`.

        u: the only source of chance, uniform on [0, 1): a number for `Choices`, [A] numbers for a `Box`, or one that
          stands for all of them.
        """

    def mode(self, h: int, s: State) -> Any:
        """The action without chance: what u = 1/2 gives, unless a policy has a better answer."""
        return self.act(h, s, np.float64(0.5))

    def same(self, other: Any) -> bool:
        """Whether another policy is the same value, bit for bit; one that holds code is the same as itself only."""
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
        """Whether the step of the episode makes no difference."""
        return False


@dataclass(frozen=True)
class Modal(Policy):
    """Another policy without its chance."""

    policy: Policy

    def act(self, h: int, s: State, u: Any) -> Any:
        """The mode of the other, whatever u is."""
        return self.policy.mode(h, s)


class ChoicePolicy(Policy):
    """A policy that chooses among n actions: called with (h, s) it gives their probabilities."""

    @abstractmethod
    def __call__(self, h: int, s: State) -> Floats:
        """[n] probabilities at step h = 1..H in state s."""

    def act(self, h: int, s: State, u: float) -> int:
        """One action, drawn by u."""
        return draw(self(h, s).cumsum(), u)

    def mode(self, h: int, s: State) -> int:
        """The most probable action, the first of equals."""
        return int(np.argmax(self(h, s)))


@dataclass(frozen=True, slots=True)
class Intervention:
    """One reset that somebody performed."""

    k: int  # episodes that the run had played (0 until the run says so)
    why: str  # "start" (of a run), "reset" (a reset state was entered) or "resume" (the run was interrupted)
    detail: str  # what the environment or the person said about it
    who: str
    asked: str  # when, in UTC
    answered: str
    seconds: float  # between the two


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """What a problem says of itself, once: two problems are compared by it, and a run file keeps what it can of it."""

    identity: dict[str, Any]  # everything that decides how episodes go and what a learner sees
    observation: dict[str, Any] | None = None  # how an observation becomes a state; None if only the problem can tell
    function: Callable[[Any], Any] | None = None  # of the raw observation, where its result is the state


class Problem(ABC):
    """What a learner sees: sizes, features and episodes; neither transitions nor rewards nor the reset set.

    Paper: episodic reset-free RL.
    """

    name: str
    horizon: int
    n_states: int | None  # None where states are not finite
    stationary: bool  # whether the learner may pool its data over the steps of an episode
    n_transitions: int  # how many of the H actions move the agent (H - 1 under the literal boundary)
    n_contexts: int = 1  # contexts that change between episodes and are part of the state
    # Sub-Gaussian constant of a reward given step, state and action: 0 where it is deterministic, and 0.5 is right for
    # whatever lies in [0, 1], which is all that a problem can say that does not know more.
    reward_noise: float = 0.5
    end_resets: bool  # whether the end of an episode can call for a reset where its middle would not
    phi: Floats | None  # known features of state-action pairs, [S, A, d] in finite problems
    xi: Any  # known features of start states: [S, d'] in finite problems, fitted `Features` elsewhere, None for 1
    features: FeatureMap | None = None  # features of states for linear players, where states are not finite
    low: Floats | None = None  # [D] bounds of the states, which may be infinite, where these are vectors
    high: Floats | None = None
    _model: Any = None  # a FiniteMDP where it is known: for oracles (`finite.mdp.model_behind`), never for learners
    # Whether the world is somewhere by itself, and no checkpoint can put it back there: to go on takes a reset.
    persistent: bool = False
    room: int = 2_000_000_000  # bytes that a player may keep for it

    @cached_property
    def actions(self) -> ActionSpace:
        """What can be done: `Choices` or a `Box`. A problem sets this, or `n_actions` where actions are numbers."""
        return Choices(self.n_actions)

    @cached_property
    def n_actions(self) -> int:
        """How many actions there are to choose among; raises InvalidInput where they are a `Box`."""
        if "actions" not in vars(self) and type(self).actions is Problem.actions:
            raise NotImplementedError(f"{type(self).__name__} must set 'actions' or 'n_actions'")
        if self.actions.n is None:
            raise InvalidInput(f"The actions of '{self.name}' are {self.actions} and cannot be counted. {LIST_THEM}")
        return self.actions.n

    @property
    @abstractmethod
    def n_uniforms(self) -> int:
        """How many uniform numbers one episode takes, whatever happens in it."""

    @abstractmethod
    def first_start(self, u: float) -> State:
        """The start of the very first episode."""

    @abstractmethod
    def rollout(self, policy: Any, start: State, u: Floats) -> Episode:
        """Play one episode with `u` [n_uniforms] as its only source of chance."""

    def perform_reset(self, u: float, why: str, operator: Operator | None = None) -> State:
        """Have a reset performed, and return where the agent stands then; for persistent problems only.

        why: "start", "reset" or "resume".
        operator: who performs it; None for whoever does as a rule.
        """
        raise NotImplementedError

    def interventions(self) -> list[Intervention]:
        """The resets that were performed since this was last asked, with who performed them and how long it took."""
        return []

    def description(self, s1: State = None) -> Description:
        """What identifies the problem, and how it meets an environment; `s1` shows what a state is, where it is known.

        By default: the sizes, the features, the name, and those of its parts that cannot change while it is played.
        """
        parts = {name: part for name, part in vars(self).items() if is_frozen(part) and name != "actions"}
        if self.actions.n is None:
            parts["actions"] = self.actions
        return Description({**self._sizes(), "name": self.name, **parts}, self._observation(s1))

    def _sizes(self) -> dict[str, Any]:
        return {"n_actions": self.actions.n, **{name: getattr(self, name, None) for name in SIZES}}

    def _observation(self, s1: State) -> dict[str, Any] | None:
        """How observations are read where what is observed is the state."""
        if self.n_states is not None:
            return {"kind": "number", "first": 0, "count": int(self.n_states)}
        if isinstance(s1, int | float | np.number):
            return {"kind": "scalar"}
        shape = np.shape(s1 if self.low is None or isinstance(s1, np.ndarray) else self.low)
        return {"kind": "vector", "space": {"shape": list(shape)}} if len(shape) == 1 else None

    def close(self) -> None:  # noqa: B027 (nothing to let go of, as a rule)
        """Let go of what it holds open: called when a run of a problem that was given by name ends."""

    def saved(self) -> dict[str, NDArray[Any]]:
        """What the problem itself learned while it was played, and a run must keep to go on."""
        return {}

    def restore(self, saved: dict[str, NDArray[Any]]) -> None:  # noqa: B027 (nothing to take back, as a rule)
        """Take back what `saved` gave."""


def simulate(
    problem: Problem,
    policy: Any,
    episodes: int,
    *,
    seed: int | np.random.SeedSequence = 0,
    starts: Starts = "adaptive",
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
    if not isinstance(problem, Problem):
        raise InvalidInput(f"The 'problem' of simulate must be a Problem. Got {shown(problem)} instead.")
    episodes = whole(episodes, "'episodes' of simulate", 0)
    function = callable(starts) and not isinstance(starts, type)
    if starts != "adaptive" if isinstance(starts, str) else not function and not is_sequence(starts):
        raise InvalidInput(f"The 'starts' must be \"adaptive\", a sequence or a function. Got {shown(starts)} instead.")
    if not isinstance(starts, str) and not callable(starts) and len(starts) < episodes:
        raise InvalidInput(
            f"The 'starts' must name a state for each of {episodes} episodes. Got {len(starts)} instead."
        )
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
    """Where a problem begins: a persistent one is put there by a reset."""
    u = rng.random()
    return problem.perform_reset(u, "start") if problem.persistent else problem.first_start(u)


def is_frozen(value: Any) -> bool:
    """Whether a value is a frozen dataclass: what it holds stays as it is."""
    return is_dataclass(value) and bool(getattr(type(value), "__dataclass_params__").frozen)  # noqa: B009


def draw(cumulative: Floats, u: float) -> int:
    """Inverse cumulative draw; rounding at the end falls on the last positive probability."""
    i = int(np.searchsorted(cumulative, u, side="right"))
    return i if i < len(cumulative) else int(np.searchsorted(cumulative, cumulative[-1]))
