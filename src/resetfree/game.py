"""The two-player game of the reduction, on one screen: read this first.

In episode k the dual player names a multiplier for the start s_1^k, the primal player answers with a policy, the policy
is played, and both learn from the same record. A player is a frozen dataclass of hyperparameters; what it has learned
is a separate value made by `init`, so that checkpoints, tests and batches need nothing from the player.

Legend: lam = lambda^k(s_1^k); v_r, v_c the primal player's own estimates of V_r and V_c of its policy at s_1^k.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from resetfree.errors import InvalidInput, NotCertifiable
from resetfree.problem import Episode, Problem, State

P = TypeVar("P")
D = TypeVar("D")


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What the primal player commits to in one round.

    Paper: pi^k, V_{r,1}^k, V_{c,1}^k.
    """

    policy: Any  # pi^k, in the form that the problem's rollout takes
    v_r: float  # own estimate of V_r at s_1^k
    v_c: float  # own estimate of V_c at s_1^k
    upper: float = float("nan")  # what the player holds to be above V*(s_1^k), if it says so (composite optimism)


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What one episode of the game produced: the only message in the system."""

    k: int  # counted from 1
    s1: State
    lam: float
    plan: Plan
    episode: Episode
    cost_signal: float  # what the dual player is told: see FEEDBACK
    exact: tuple[float, float] | None  # V_r and V_c of the policy at s_1^k, where an oracle is there


@dataclass(frozen=True, slots=True)
class Statement:
    """Which constants a player uses here, and whether a theorem covers it with them."""

    constants: dict[str, float | str | bool]
    covered: bool
    why: str  # one sentence: which theorem, or what it lacks
    most_resets: float | None = (
        None  # resets that no path can exceed where Assumption 1 holds, if there is such a number
    )


class Player(ABC):
    """What both players have: a name, and hyperparameters as the fields of a frozen dataclass."""

    name: ClassVar[str]
    refuses: ClassVar[tuple[str, ...]] = ()  # corners of the contract battery that it refuses with an error
    vectors_only: ClassVar[bool] = False  # whether it takes only problems whose states are vectors

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """What the player says about itself before a run; logged with it."""
        return Statement({}, False, "no theorem is claimed for this player")


class PrimalPlayer(Player, Generic[P]):
    """Chooses the policy. Planning is a pure function of the state: asking twice changes nothing."""

    @abstractmethod
    def init(self, problem: Problem, episodes: int, seed: int) -> P:
        """A fresh state: a dataclass of arrays and numbers (see `state`)."""

    @abstractmethod
    def plan(self, state: P, s1: State, lam: float) -> Plan:
        """The policy for an episode that starts at s1 under the multiplier lam."""

    @abstractmethod
    def update(self, state: P, round: Round) -> P:
        """Learn from a round; may change `state` and return it."""


class DualPlayer(Player, Generic[D]):
    """Chooses the multiplier function, seen one start at a time."""

    @abstractmethod
    def init(self, problem: Problem, episodes: int, seed: int) -> D:
        """A fresh state: a dataclass of arrays and numbers (see `state`)."""

    @abstractmethod
    def multiplier(self, state: D, s1: State, ask: Callable[[float], Plan]) -> float:
        """lambda^k(s1) >= 0; `ask` tells what the primal player would plan under a multiplier."""

    @abstractmethod
    def update(self, state: D, round: Round) -> D:
        """Learn from a round; may change `state` and return it."""


def _exact_cost(plan: Plan, episode: Episode, exact: tuple[float, float] | None) -> float:
    if exact is None:
        raise NotCertifiable("The feedback 'exact' needs an oracle, which only finite problems have.")
    return exact[1]


FEEDBACK: dict[str, Callable[[Plan, Episode, tuple[float, float] | None], float]] = {
    "optimistic": lambda plan, episode, exact: plan.v_c,  # the paper: the primal player's own estimate
    "realised": lambda plan, episode, exact: float(episode.reset),  # unbiased for V_c
    "exact": _exact_cost,  # V_c itself, for experiments
}


@dataclass(slots=True)
class Game:
    """Where a game stands: all that a checkpoint must hold."""

    k: int  # rounds played
    s1: State  # start of the next episode; None if a reset must be performed before there is one
    primal: Any
    dual: Any
    rng: np.random.Generator  # the only source of chance
    why: str = "start"  # what calls for the reset where s1 is None: see `Problem.perform_reset`


def begin(problem: Problem, primal: PrimalPlayer[P], dual: DualPlayer[D], *, episodes: int, seed: int) -> Game:
    """A game before its first round; everything random in it comes from `seed`."""
    if episodes < 1:
        raise InvalidInput(f"The 'episodes' of a game must be a positive integer. Got {episodes} instead.")
    rng = np.random.default_rng(seed)
    s1 = None if problem.persistent else problem.first_start(rng.random())
    return Game(0, s1, primal.init(problem, episodes, seed), dual.init(problem, episodes, seed), rng)


def stand(problem: Problem, game: Game) -> None:
    """Have a reset performed if the next episode cannot start without one."""
    if game.s1 is None:
        game.s1 = problem.perform_reset(game.rng.random(), game.why)


def play(
    problem: Problem,
    primal: PrimalPlayer[P],
    dual: DualPlayer[D],
    game: Game,
    *,
    episodes: int,
    feedback: str = "optimistic",
    oracle: Callable[[Any, State], tuple[float, float]] | None = None,
) -> Iterator[Round]:
    """Play until `episodes` rounds are played; `game` is always where the last yielded round left it.

    Paper: two-player game.

    oracle: (policy, s1) -> exact V_r and V_c, where it is known.
    """
    signal, n_uniforms = FEEDBACK[feedback], problem.n_uniforms
    while game.k < episodes:
        stand(problem, game)
        s1 = game.s1
        lam = dual.multiplier(game.dual, s1, lambda y, s1=s1: primal.plan(game.primal, s1, y))  # type: ignore[misc]
        plan = primal.plan(game.primal, s1, lam)
        episode = problem.rollout(plan.policy, s1, game.rng.random(n_uniforms))
        exact = None if oracle is None else oracle(plan.policy, s1)
        this = Round(game.k + 1, s1, lam, plan, episode, signal(plan, episode, exact), exact)
        game.dual, game.primal = dual.update(game.dual, this), primal.update(game.primal, this)
        game.k, game.s1, game.why = this.k, episode.next_start, "reset"
        yield this
