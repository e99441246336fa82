"""What a player is: `PrimalPlayer` and `DualPlayer`, the `Plan` that one makes, and the `Round` that both learn from.

A player is a frozen dataclass of hyperparameters, as an optimizer of optax is: what it has learned is a separate value,
its state, made by `init` and passed to every method. So checkpoints, tests and batches handle states alone.

Legend: lam = lambda^k(s_1^k); v_r, v_c the primal player's own estimates of V_r and V_c of its policy at s_1^k.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from time import monotonic
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from resetfree.core import InvalidInput, check_fields
from resetfree.problems import LIST_THEM, Choices, Episode, Problem, State

P = TypeVar("P")
D = TypeVar("D")
# What a player's v_c is as a prediction of resets: its best guess; a low one, as what is not known counts as safe;
# a high one, as that counts as dangerous; or none at all.
Prediction: TypeAlias = Literal["expected", "low", "high", "none"]
MOST_EPISODES = 10**12  # at the speed of the smallest problem, a year


class Plan(NamedTuple):
    """The primal player's decision in one round.

    Paper: pi^k, V_{r,1}^k, V_{c,1}^k.
    """

    policy: Any  # pi^k, in the form that the problem's rollout takes
    v_r: float  # own estimate of V_r at s_1^k
    v_c: float  # own estimate of V_c at s_1^k
    upper: float = float("nan")  # the player's upper bound on V*(s_1^k), nan if it has none (composite optimism)


class Round(NamedTuple):
    """The record of one episode of the game: both players and the ledger get it, and nothing else."""

    k: int  # counted from 1
    s1: State
    lam: float
    plan: Plan
    episode: Episode
    cost_signal: float  # the dual player's feedback: see `loop.FEEDBACK`
    exact: tuple[float, float] | None  # V_r and V_c of the policy at s_1^k; None without an oracle
    based_on: int = -1  # the newest round that the plan rests on, in a game with delay; -1: the one before, k - 1

    @property
    def rests_on(self) -> int:
        """The newest round that the plan rests on, 0 if none."""
        return self.k - 1 if self.based_on < 0 else self.based_on


@dataclass(frozen=True, slots=True)
class Statement:
    """The constants that a player uses on a problem, and whether a theorem covers it with them."""

    constants: dict[str, float | str | bool]
    covered: bool
    why: str  # one sentence: which theorem, or what it lacks
    most_resets: float | None = None  # a number of resets that no path exceeds under Assumption 1, if it is known


class Player(ABC):
    """The common part of both players: a name, and hyperparameters as the fields of a frozen dataclass.

    Each field is checked against its annotation when the player is made (see `core.settings`).
    """

    name: ClassVar[str]
    baseline: ClassVar[bool] = False  # whether it is a method from the literature, there to be compared with
    former_settings: ClassVar[Mapping[str, str]] = {}  # former name of a setting -> its name: still read, with a notice
    refuses: ClassVar[tuple[str, ...]] = ()  # cases of `players.testing` that it refuses with an error
    vectors_only: ClassVar[bool] = False  # whether it takes only problems whose states are vectors
    counterpart: ClassVar[str] = ""  # the player of the same method for problems whose actions this one cannot play

    def __post_init__(self) -> None:
        check_fields(self, self.name)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The constants and the guarantee for a problem, computed before a run and recorded with it."""
        return Statement({}, False, "no theorem is claimed for this player")


@dataclass(frozen=True)
class Partner:
    """The dual player for a primal player, its settings, and its feedback."""

    dual: str
    feedback: str  # see `loop.FEEDBACK`
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Suited:
    """An offer to play a problem: `auto` takes the one with the highest rank.

    rank: 1 for a player that can play every such problem, more for one that uses more of what is known here.
    """

    rank: float
    why: str  # one sentence, for the run's record
    partner: Partner
    settings: dict[str, Any] = field(default_factory=dict)  # of the primal player


class Proof(NamedTuple):
    """The conditions of the proof behind a primal player's statement, and what it proves about the player's values.

    Certificates check on the run the conditions that can be checked, and are "proved" only if all of them hold.
    """

    failure: float = 0.0  # the probability with which it may fail
    largest_multiplier: float | None = None  # B, up to which multipliers it holds; None for any
    one_multiplier: bool = False  # whether the multiplier must never change
    noise: float | None = None  # the sub-Gaussian constant up to which rewards may be random; None for any
    linear: bool = False  # whether it needs dynamics and rewards in [0, 1] that are linear in the features
    misfit: tuple[float, float] = (0.0, 0.0)  # by how much P and r may differ from that
    values_are_bounds: bool = False  # whether its V_r lies above, and its V_c below, those of the policy it plays


class PrimalPlayer(Player, Generic[P]):
    """Chooses the policy. Planning is a pure function of the state: a second call gives the same plan."""

    action_spaces: ClassVar[tuple[type, ...]] = (Choices,)  # what its policies can play; add `Box` for vectors
    prediction: ClassVar[Prediction] = "expected"  # how its v_c is meant
    suited_states: ClassVar[tuple[str, ...] | None] = None  # kinds of states that `suits` is for, see `offer_of`

    @abstractmethod
    def init(self, problem: Problem, episodes: int, seed: int) -> P:
        """The state before the first round: a tree of arrays and numbers (see `core.state`).

        episodes: how many rounds are planned, for constants that depend on it.
        seed: of the player's own random numbers.
        """

    @abstractmethod
    def plan(self, state: P, s1: State, lam: float) -> Plan:
        """The policy of the next episode; never changes `state`.

        s1: where the episode starts.
        lam: the price of a reset, to be subtracted from the reward.
        """

    @abstractmethod
    def update(self, state: P, round: Round) -> P:
        """Learn from a round; may change `state` and return it."""

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Its offer to `auto`, with what a learner may know of the problem; None if `auto` must not choose it.

        bound_known: whether a bound B on the multipliers is given or can be computed by an oracle.
        """
        return None

    @classmethod
    def partner(cls) -> Partner | None:
        """Its dual player, used for `dual="auto"`; None for that of Algorithm 1."""
        return None

    @classmethod
    def named(cls, problem: Problem) -> Suited | None:
        """How it is played where only it is named; None for its partner and its defaults. The rank plays no part."""
        return None

    def proof(self, problem: Problem) -> Proof:
        """The conditions of its proof on this problem."""
        return Proof()


@runtime_checkable
class RequestsHelp(Protocol):
    """A primal player that may request a reset that the task does not need, between two episodes."""

    def needs_help(self, state: Any, s1: State) -> bool:
        """Whether it requests one now; s1: where the next episode would begin."""


@runtime_checkable
class TakesTurns(Protocol):
    """A primal player that alternates between policies (forward, backward, ...), of which one is deployed."""

    def turns(self, state: Any) -> tuple[int, int]:
        """How many turns have ended, and how many of them without their goal: time-outs."""


def check_actions(primal: PrimalPlayer[Any], problem: Problem, others: Sequence[str] = ()) -> None:
    """Raise InvalidInput for a problem whose actions the primal player cannot play.

    others: names of players that can, for the message.
    """
    if not isinstance(problem.actions, primal.action_spaces):
        way = f" {LIST_THEM}" if Choices in primal.action_spaces else ""
        players = f" Players that take them as they are: {', '.join(others)}." if others else ""
        raise InvalidInput(
            f"The player '{primal.name}' must be given actions that are "
            f"{' or '.join(space.__name__ for space in primal.action_spaces)}. "
            f"Got '{problem.name}', whose actions are {problem.actions}, instead.{way}{players}"
        )


class DualPlayer(Player, Generic[D]):
    """Chooses the multiplier, the price of a reset, for the start of each round."""

    each_round: ClassVar[bool] = False  # whether its regret is bounded round by round, whatever a plan rests on

    @abstractmethod
    def init(self, problem: Problem, episodes: int, seed: int) -> D:
        """The state before the first round; arguments as of `PrimalPlayer.init`."""

    @abstractmethod
    def multiplier(self, state: D, s1: State, ask: Callable[[float], Plan]) -> float:
        """The multiplier lambda^k(s1) >= 0 of an episode that starts at s1; never changes `state`.

        ask: gives the plan that the primal player would make for s1 under any multiplier.
        """

    @abstractmethod
    def update(self, state: D, round: Round) -> D:
        """Learn from a round; may change `state` and return it."""


def check_multiplier(lam: float) -> float:
    """`lam` as a float; raises InvalidInput if it is no multiplier."""
    if not (lam >= 0 and isfinite(lam)):
        raise InvalidInput(f"A multiplier must be a finite number that is not negative. Got {lam} instead.")
    return float(lam)


NOTABLE = 0.1  # seconds: a shorter wait is no pause


@dataclass(slots=True)
class Pauses:
    """How long the players computed while the environment waited, in seconds; a context manager around their work.

    >>> pauses = Pauses()
    >>> with pauses:
    ...     pauses.since is None
    False
    >>> pauses.since, pauses.longest
    (None, 0.0)
    """

    since: float | None = None  # when the players began to compute, on the monotonic clock; None while they do not
    last: float = 0.0  # the newest pause
    longest: float = 0.0
    total: float = 0.0

    def __enter__(self) -> None:
        self.since = monotonic()

    def __exit__(self, *_: Any) -> None:
        seconds, self.since = monotonic() - (self.since or 0.0), None
        if seconds >= NOTABLE:
            self.last, self.longest, self.total = seconds, max(seconds, self.longest), self.total + seconds

    def now(self) -> float | None:
        """How long the players have computed by now; None if it is no pause yet."""
        since = self.since  # another thread may end it
        seconds = 0.0 if since is None else monotonic() - since
        return seconds if seconds >= NOTABLE else None


def depends_on_length(player: Any, problem: Problem, planned: int, rounds: int) -> bool:
    """Whether a player that was made for `planned` episodes differs from one that is made for `rounds`.

    >>> import resetfree as rf
    >>> from resetfree.players.dual.online_gradient import ConstantStep, ProjectedGradient
    >>> grid = rf.make("grid-v0").problem()
    >>> [depends_on_length(player(B=2.0), grid, 600, 800) for player in (ConstantStep, ProjectedGradient)]
    [True, False]
    """
    if _fixed(player.statement(problem, planned)) != _fixed(player.statement(problem, rounds)):
        return True
    one, other = (list(_leaves(player.init(problem, episodes, 0))) for episodes in (planned, rounds))
    return len(one) != len(other) or not all(map(_same, one, other))


def _fixed(said: Statement) -> tuple[object, ...]:
    """What a player uses in every round, without the bounds on its regret, which grow with the rounds."""
    used = {name: value for name, value in said.constants.items() if "regret_bound" not in name}
    return used, said.covered, said.most_resets


def _same(one: Any, other: Any) -> bool:
    """Whether two arrays are equal; nan, for what a player does not use, is."""
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f" and other.dtype.kind == "f"))


def _leaves(value: Any) -> Iterator[Any]:
    """The numbers and arrays of a fresh state, saved or not."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name))
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)
    elif isinstance(value, np.ndarray | np.generic | int | float):
        yield np.asarray(value)


class MultiplierFunctions(Protocol):
    """The functions lambda(s) = <xi(s), theta> with theta in a set U: what comparators need of them."""

    @property
    def largest_xi(self) -> float:
        """The largest norm |xi(s)|, G."""

    def zero(self) -> Any:
        """The parameter 0."""

    def at(self, theta: Any, s1: State) -> float:
        """clip(<xi(s1), theta>, 0, B)."""

    def moved(self, theta: Any, s1: State, step: float) -> Any:
        """P_U(theta + step xi(s1))."""
