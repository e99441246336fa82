"""The state of a policy search in a fitted model, for all kinds of actions, and its policies on the scale of the model.

Legend: n rows, the first of the replay buffer; lam the price of a reset; z = (s - centre) / scale [D]; F hidden units.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Annotated, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.settings import Count, NonNegative, PositiveInt, Range
from resetfree.core.state import require
from resetfree.game.capabilities import Decision
from resetfree.game.replay_buffer import ReplayBuffer
from resetfree.players.model_based.reset_classifier import across_two, boundary
from resetfree.problems.contract import Policy, State
from resetfree.problems.features.scaling import Scaling
from resetfree.problems.formula import TanhChoice, TanhPolicy
from resetfree.problems.limits import ActionLimits, Limits

BEGAN = 4  # latest starts after a reset from which rollouts start
LATE = 3.0  # how much more the last quarter of a rollout counts
SAVABLE = 20  # steps before a reset from which no policy may recover: no rollout starts there
AT_REST = 1e-9  # weights of the policy whose actions are the middle of the box: without any, a policy is random
Searched = TypeVar("Searched", bound=Policy)
Tanh = TypeVar("Tanh", bound=TanhPolicy | TanhChoice)


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search, which `ModelSearch` explains."""

    planning: PositiveInt = 200
    caution: NonNegative = 1.0
    population: Annotated[int, Range(4)] = 48
    rounds: PositiveInt = 8
    starts: Count = 8
    draws: PositiveInt = 4
    units: bool = True


@dataclass
class SearchState(ABC, Generic[Searched]):
    """All transitions, and the policy that is played."""

    rows: ReplayBuffer
    policy: Searched
    at: int  # rows that it rests on
    lam: float  # the multiplier that it was made for
    stale: bool  # whether the next episode should have a new one
    horizon: int = field(metadata={"saved": False})
    seed: int = field(metadata={"saved": False})
    low: Floats = field(metadata={"saved": False})
    high: Floats = field(metadata={"saved": False})
    never_resets: bool = field(metadata={"saved": False})  # whether nothing that can happen is a reset
    limits: Limits | None = field(metadata={"saved": False})  # known beforehand
    action_limits: ActionLimits | None = field(metadata={"saved": False})
    names: tuple[str, ...] = field(metadata={"saved": False})  # of the numbers of a state; may be none
    beside: bool = field(metadata={"saved": False})  # whether a controller acts where its policy leaves what was safe
    compared: tuple[tuple[int, float], Searched, float] | None = field(metadata={"saved": False})  # see `compare`
    shown: NDArray[np.int64] = field(metadata={"grows": (0,), "later": True})  # [., 2] rows of behaviour to improve on

    def check_loaded(self) -> None:
        """Raise InvalidInput unless the policy rests on whole episodes."""
        require(self.rows.ends_at(self.at), "policy must rest on whole episodes")
        require((self.shown <= self.rows.n).all(), "shown rows must exist")

    def play(self, policy: Searched) -> None:
        """Play a policy from now on."""
        self.policy = policy

    def show(self, first: int) -> None:
        """Take the rows from the first on for behaviour to improve on."""
        if len(self.shown) and self.shown[-1, 1] == first:
            self.shown[-1, 1] = self.rows.n
        else:
            self.shown = np.concatenate([self.shown, np.array([[first, self.rows.n]], np.int64)])

    def shown_in(self, n: int) -> NDArray[np.int64]:
        """Those of the first n rows whose actions are behaviour to improve on."""
        taken = np.flatnonzero(self.rows.taken(n))
        span = np.searchsorted(self.shown[:, 0], taken, side="right") - 1
        return taken[(span >= 0) & (taken < self.shown[span, 1])] if len(self.shown) else taken[:0]

    def begin_after_data(self) -> None:
        """Plan again after an episode of data."""
        self.stale = True

    def begin_with(self, policy: Searched, lam: float) -> None:
        """Play a policy first that was learned elsewhere."""
        self.play(policy)
        self.at, self.lam, self.stale = self.rows.n, lam, False

    def weigh(self, *, reset: bool) -> None:
        """Compare what is played with what was played before, after an episode that ended in a reset or not."""

    def pass_over(self, *, reset: bool) -> None:
        """What follows an episode with a policy that was planned before the present one was decided on."""
        self.stale = self.stale or reset

    def explored(self) -> list[Decision]:
        """When it began to explore, and why."""
        return []

    def boundary(self) -> list[Decision]:
        """The reset boundaries in words: which sensors tell reset states from visited ones, and how surely."""
        state, terminated = self.rows.state[: self.rows.n], self.rows.terminated[: self.rows.n]
        names = self.names or tuple(f"observation[{i}]" for i in range(state.shape[1]))
        known = [] if self.limits is None else [Decision(0, one) for one in self.limits.in_words(names)]
        if self.limits is not None:  # what was known is not learned
            within = ~self.limits.any_crossed(state)
            state, terminated = state[within], terminated[within]
        falls = int(terminated.sum())
        if not falls or terminated.all():
            return known
        lived = state[~terminated]
        centre, spread = lived.mean(axis=0), lived.std(axis=0)
        scale = np.where(spread > 0.0, spread, 1.0)
        z, fell = (lived - centre) / scale, (state[terminated] - centre) / scale
        found = boundary(z.min(axis=0), z.max(axis=0), fell)
        said = [wall.unscaled(centre, scale).in_words(names, falls) for wall in found]
        across = across_two(z, fell)
        said += [one.in_words(names, falls, centre, scale) for one in across]
        amid = falls - sum(one.falls for one in (*found, *across))
        if amid:
            said.append(f"{amid} of {falls} falls lie amid what was lived in: no one or two sensors tell them apart")
        episodes = int((~self.rows.taken(self.rows.n) | self.rows.terminated[: self.rows.n]).sum())
        return known + [Decision(episodes, one) for one in said]

    @abstractmethod
    def search(self, n: int, s1: State, lam: float, settings: SearchSettings) -> Searched:
        """The policy of largest reward - lam (probability of a reset) from s1, in the model of the first n rows.

        The policy that is played itself where it is to be kept.
        """

    @abstractmethod
    def compare(self, n: int, policy: Searched, lam: float, settings: SearchSettings) -> None:
        """Predict in the model of the first n rows how much more a policy earns than what was shown."""

    @abstractmethod
    def foresee(self, n: int, policy: Searched, s1: State, settings: SearchSettings) -> tuple[float, float]:
        """What the model of the first n rows predicts of an episode from s1: its reward, the probability of a reset."""


def began_and_savable(rows: ReplayBuffer, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of the first n rows: the latest starts after a reset, and the visited ones that were still recoverable."""
    fell, lived = np.flatnonzero(rows.terminated[:n]), np.flatnonzero(~rows.terminated[:n])
    began = np.append(0, fell[fell < n - 1] + 1)[-BEGAN:]
    ends = np.append(fell, n + SAVABLE)[np.searchsorted(fell, lived)]
    return began, lived[ends - lived > SAVABLE]


def rollout_starts(
    rows: ReplayBuffer, n: int, count: int, surprising: NDArray[np.int64], rng: np.random.Generator
) -> Floats:
    """The latest starts after a reset, and visited states that were still recoverable.

    Half of these follow a transition that the model cannot explain, if there were any: rollouts contain no set point
    that moves and no blow, and the search would otherwise find a policy that fails after them.
    """
    began, savable = began_and_savable(rows, n)
    visited = rng.choice(savable, count) if len(savable) else savable
    if len(after := np.intersect1d(surprising, savable)):
        visited[::2] = np.resize(rng.permutation(after), len(visited[::2]))
    return np.asarray(rows.state[np.concatenate([began, visited]).astype(int)])


def late_counts(planning: int) -> Floats:
    """[P] how much the steps of a rollout count, P in all; those of the last quarter LATE times as much as others.

    >>> late_counts(8).round(2).tolist()
    [0.67, 0.67, 0.67, 0.67, 0.67, 0.67, 2.0, 2.0]
    """
    counts = np.ones(planning)
    counts[planning - planning // 4 :] = LATE
    return np.asarray(counts * (planning / counts.sum()))


class Candidate(NamedTuple):
    """The weights of a policy on the scale of z."""

    theta: Floats  # [A, D + F + 1]
    units: Floats | None = None  # [F, D + 1] of its hidden layer; None: it is linear


def at_rest(n_actions: int, size: int) -> Candidate:
    """The policy whose actions are the middle of the box."""
    return Candidate(np.full((n_actions, size + 1), AT_REST))


def scaled_candidate(policy: TanhPolicy | TanhChoice, scaling: Scaling) -> Candidate:
    """A policy for states that are scaled."""
    with np.errstate(over="ignore", invalid="ignore"):  # weights without measure are not searched around
        bias = policy.bias + policy.weight @ scaling.centre
        theta = np.concatenate([policy.weight * scaling.scale, policy.top, bias[:, None]], axis=1)
    if not len(policy.hidden):
        return Candidate(theta)
    shift = policy.shift + policy.hidden @ scaling.centre
    return Candidate(theta, np.concatenate([policy.hidden * scaling.scale, shift[:, None]], axis=1))


def unscaled_policy(theta: Floats, units: Floats | None, scaling: Scaling, like: Tanh) -> Tanh:
    """The policy of theta [A, D + F + 1] and hidden units [F, D + 1] for states that are not scaled."""
    size = len(scaling.scale)
    weight, inner = theta[:, :size] / scaling.scale, np.zeros((0, size + 1)) if units is None else units
    hidden = inner[:, :-1] / scaling.scale
    return replace(
        like,
        weight=weight,
        bias=theta[:, -1] - weight @ scaling.centre,
        hidden=hidden,
        shift=inner[:, -1] - hidden @ scaling.centre,
        top=theta[:, size:-1].copy(),
    )
