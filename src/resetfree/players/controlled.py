"""A controller of the user's, and a learner that takes over only where it is better by a test.

The controller acts first, and the learner learns from its episodes. Blocks of episodes then alternate. The value of an
episode is (reward - lam per reset) per step, cut to [0, 1]. With d_i the value of the i-th episode of the learned
policy less that of the i-th of the controller, it takes over once

    sum_b share_b prod_{i <= n} (1 + b d_i) >= 1 / error,

a bet on each pair of episodes (Waudby-Smith and Ramdas 2024). While learned policies are no better on average, d_i has
no positive mean, whatever its distribution and whichever policies are tried, so the sum is a supermartingale, and by
Ville's inequality it ever gets so large with a probability of at most `error`. That it is *worse* delays the
learned policy and puts nothing at risk, so a faster test suffices, of the differences D of the means of n pairs of
blocks:

    mean(D) < -r_n,  r_n = sd(D) sqrt(2 (n rho + 1) log(sqrt(n rho + 1) / error) / (n^2 rho)),

an asymptotic confidence sequence (Waudby-Smith et al. 2024). The j-th test has the error error / (j (j + 1)), so that
all of them together have `error`.

Legend: lam the price of a reset.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, log, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput, RunError, imported, one_line
from resetfree.core.settings import Count, check
from resetfree.core.state import require
from resetfree.game.capabilities import Decides, Decision, Follows, LearnsFromEpisodes
from resetfree.game.contract import Plan, PrimalPlayer, Round, Statement
from resetfree.players.safe_region import SafeStates, within_region
from resetfree.problems.action_spaces import Box, Choices, own_action
from resetfree.problems.contract import Episode, Policy, Problem, State
from resetfree.problems.finite.tabular_policy import TabularPolicy, as_policy
from resetfree.problems.stepping import playable

EXPLORE = 3  # resets that the learned policy may cause, where none are stated
ERROR = 0.05  # with which the learned policy takes over, or gives back, wrongly
FIRST, BLOCK = 10, 5  # episodes of the controller before the first trial, and of each block of a trial
FIRST_STEPS = 500  # and at least so many steps
CHARGE, PROBE = 20, 2  # of the learned policy and of the controller, once the learned policy is in charge
BETS, SHARES = np.array([0.95, 0.5, 0.2]), np.array([0.6, 0.2, 0.2])  # parts of what it has that it bets each time
LEAST_PAIRS = 10  # before which nothing is decided to be worse: fewer are too few where differences are skewed
RHO = 0.3  # where the test is sharpest: at about ten pairs
DANGER = 0.2  # predicted probability of a reset from which the controller acts
FEW_PAIRS = 3  # after which a trial may end: a learned policy that is wrongly held back costs no more than time
LATER = 2.0  # factor of the episodes after which a policy that was worse is tried again
Function = Callable[[Any], Any]
EXPECTED = "The 'controller' of learn must be a function of the observation, or module:function."


def is_better(wealth: Floats, error: float) -> bool:
    """Whether bets that have become `wealth` decide that the learned policy is better.

    >>> is_better(SHARES * np.prod(1.0 + 0.04 * BETS[:, None] * np.ones(100), axis=1), 0.025)
    False
    >>> is_better(SHARES * np.prod(1.0 + 0.04 * BETS[:, None] * np.ones(120), axis=1), 0.025)
    True
    """
    return bool(wealth.sum() >= 1.0 / error)


def radius(n: int, variance: float, error: float, least: int = LEAST_PAIRS) -> float:
    """How far a mean of n differences may lie from the truth at any n, with the probability 1 - error.

    >>> round(radius(10, 1.0, 0.05), 2), radius(1, 0.0, 0.05)
    (0.99, inf)
    """
    if n < least:
        return inf
    scale = n * RHO + 1.0
    return sqrt(variance * 2.0 * scale * log(sqrt(scale) / error) / (n * n * RHO))


@dataclass(frozen=True)
class ControllerPolicy(Policy):
    """The controller, called with the observation of a state."""

    function: Function
    problem: Problem

    def act(self, h: int, s: State, u: Any) -> Any:
        """Its action as the learner has it; raises InvalidInput for one that the environment does not have."""
        try:
            native = self.function(self.problem.observation_of(s))
        except Exception as error:  # the user's code
            raise InvalidInput(
                f"{EXPECTED} It raised {one_line(error)} for an observation of '{self.problem.name}'."
            ) from error
        return own_action(self.problem.actions, native, f"The controller of '{self.problem.name}'")


@dataclass(frozen=True)
class GuardedPolicy(Policy):
    """A learned policy where it was safe before, and the controller elsewhere."""

    learned: Policy
    controller: Policy
    region: NDArray[Any]  # see `within_region`

    def act(self, h: int, s: State, u: Any) -> Any:
        """The learned action inside, the controller's outside."""
        return (self.learned if within_region(self.region, s) else self.controller).act(h, s, u)


@dataclass
class ControllerTable(TabularPolicy):
    """The controller where states are counted."""


@dataclass
class GuardedTable(TabularPolicy):
    """A learned policy in the states that were safe before, and the controller in the others."""

    kind = ""  # what is exported is the learned policy
    learned: Any
    region: NDArray[Any]  # bool [S]


@dataclass
class ControlledState:
    """Who acts, what both have earned, and the state of the learner."""

    inner: Any
    problem: Problem = field(metadata={"saved": False})
    table: ControllerTable | None = field(metadata={"saved": False})  # of the controller, where states are counted
    safe: SafeStates
    k: int = 0
    trying: bool = False  # whether the present block is the learned policy's
    in_charge: bool = False  # whether the learned policy was better by the test
    after_learned: bool = False  # whether the learned policy acted in the episode before
    charged: int = 0  # resets in episodes of the learned policy, and in those of the controller right after one
    tests: int = 1  # begun so far
    rest: int = FIRST  # no trial before so many episodes
    pairs: int = 0
    mean: float = 0.0  # of the differences between pairs of blocks
    squares: float = 0.0  # sum of their squared deviations
    wealth: Floats = field(default_factory=SHARES.copy, metadata={"later": True})  # of each bet
    paired: Floats = field(  # values of the controller's episodes in this pair of blocks, nan for none
        default_factory=lambda: np.zeros(BLOCK), metadata={"later": True}
    )
    lowest: float = field(default=1.0, metadata={"later": True})  # value of an episode of the controller
    block: Floats = field(default_factory=lambda: np.zeros((2, 2)))  # by actor: episodes and values of this pair
    totals: Floats = field(default_factory=lambda: np.zeros((2, 3)))  # by actor: episodes, rewards, resets
    changes: NDArray[np.int64] = field(  # [n, 2] the round of each decision, and which of `SAID` it is
        default_factory=lambda: np.zeros((0, 2), np.int64), metadata={"grows": (0,)}
    )

    def check_loaded(self) -> None:
        """Raise InvalidInput for decisions that do not exist."""
        require(self.changes.shape[1:] == (2,) and (self.changes[:, 1] < len(SAID)).all(), "decisions must be known")

    @property
    def has_decided(self) -> bool:
        """Whether the learned policy is better by the bets, or worse by the mean difference."""
        error = ERROR / (self.tests * (self.tests + 1))
        if self.is_better:
            return True
        least = LEAST_PAIRS if self.in_charge else FEW_PAIRS
        return -self.mean > radius(self.pairs, self.squares / max(self.pairs - 1, 1), error, least)

    @property
    def is_better(self) -> bool:
        """Whether the learned policy takes over."""
        return not self.in_charge and is_better(self.wealth, ERROR / (self.tests * (self.tests + 1)))

    def decide(self, what: int) -> None:
        """Record a decision."""
        self.changes = np.concatenate([self.changes, np.array([[self.k, what]], np.int64)])

    def begin_test(self) -> None:
        """A fresh test, with the controller first."""
        self.tests, self.pairs, self.mean, self.squares = self.tests + 1, 0, 0.0, 0.0
        self.wealth = SHARES.copy()
        self.begin_pair()

    def begin_pair(self) -> None:
        """A fresh pair of blocks, with the controller first."""
        self.trying, self.block = False, np.zeros((2, 2))

    def add_value(self, value: float, *, is_learned: bool) -> None:
        """Take in an episode of a block; the learned policy's is paired with one of the controller's."""
        i = int(self.block[int(is_learned), 0])
        self.block[int(is_learned)] += (1.0, value)
        if is_learned and not self.in_charge:
            self.wealth = self.wealth * (1.0 + BETS * (value - self.paired[i]))
        elif not is_learned:
            self.paired[i % BLOCK], self.lowest = value, min(self.lowest, value)

    def add_pair(self) -> None:
        """Take in the difference of two complete blocks."""
        controller, learned = (float(total / n) for n, total in self.block)
        difference = learned - controller
        self.pairs += 1
        step = difference - self.mean
        self.mean += step / self.pairs
        self.squares += step * (difference - self.mean)
        self.begin_pair()


TOOK_OVER, GAVE_BACK, FELL, SPENT, WORSE = range(5)
SAID = (
    "the learned policy takes over: it is better than the controller by the test",
    "the controller acts again: the learned policy is worse by the test",
    "the controller acts again: the learned policy led to a reset",
    "the controller acts from here on: the resets that the learned policy may cause are spent",
    "the learned policy is worse than the controller by the test: it learns on before it is tried again",
)


@dataclass(frozen=True)
class Controlled(PrimalPlayer[ControlledState]):
    """The user's controller, and a learner that takes over where it is better by a test.

    The learned policy acts only while fewer than `explore` resets are charged to it: those of its own episodes, and one
    of an episode of the controller right after. So on every path

        resets <= resets of the controller in other episodes + explore.

    inner: the learner.
    function: the controller; None if the player was made from a run file, which holds no code.
    explore: resets that the learned policy may cause; with 0 only the controller acts.
    """

    name: ClassVar[str] = "controlled"
    action_spaces: ClassVar[tuple[type, ...]] = (Choices, Box)
    inner: PrimalPlayer[Any]
    function: Function | None = None
    explore: int = EXPLORE

    def __post_init__(self) -> None:
        check(self.explore, Count, "'explore' of learn")
        if not isinstance(self.inner, LearnsFromEpisodes):
            raise InvalidInput(
                "With a controller, the player must learn from episodes that it did not choose. Got "
                f"'{self.inner.name}', which cannot, instead: leave out primal, or name another."
            )

    def init(self, problem: Problem, episodes: int, seed: int) -> ControlledState:
        """The learner's own state, and nothing known about the controller."""
        state = self.inner.init(problem, episodes, seed)
        first = max(FIRST, -(-FIRST_STEPS // problem.horizon))
        return ControlledState(state, problem, self._table(problem), SafeStates.none(problem), rest=first)

    def _table(self, problem: Problem) -> ControllerTable | None:
        """The controller as a table; None where states are vectors, or numbered as they appear."""
        if self.function is None or problem.n_states is None or "seen" in problem.saved():
            return None
        acts, rows = ControllerPolicy(self.function, problem), np.zeros((1, problem.n_states, problem.n_actions))
        for s in range(problem.n_states):
            known = problem.observation_of(s) is not None
            rows[0, s, acts.act(1, s, 0.5) if known else 0] = 1.0
        return ControllerTable(rows)

    def plan(self, state: ControlledState, s1: State, lam: float) -> Plan:
        """The learner's plan where it is its turn and predicts little danger; else the controller."""
        if self._is_due(state):
            found = self.inner.plan(state.inner, s1, lam)
            if not found.v_c > DANGER:
                return found._replace(policy=self._guarded(state, found.policy), upper=float("nan"))
        episodes, rewards, resets = state.totals[0].tolist()
        n = max(episodes, 1.0)
        return Plan(self._controller(state), rewards / n, resets / n)

    def _is_due(self, state: ControlledState) -> bool:
        """Whether the learned policy may act now."""
        return state.trying and state.k >= state.rest and state.charged < self.explore

    def _controller(self, state: ControlledState) -> Policy:
        if self.function is None:
            raise RunError(
                "The controller acts in this run, and a run file holds no code: there is no learned policy that was "
                "shown to be better. Use the controller, or learn longer."
            )
        return ControllerPolicy(self.function, state.problem) if state.table is None else state.table

    def _guarded(self, state: ControlledState, learned: Any) -> Policy:
        """A learned policy with the controller as its fallback; without its fallback if that is not known here."""
        region = state.safe.allowed()
        if state.table is not None:
            rows = as_policy(learned, state.problem)  # type: ignore[arg-type]
            return GuardedTable(np.where(region[:, None], rows, state.table.probabilities), learned, region)
        controller = playable(learned, state.problem) if self.function is None else self._controller(state)
        return GuardedPolicy(playable(learned, state.problem), controller, region)

    def update(self, state: ControlledState, round: Round) -> ControlledState:
        """Learn from the episode, whoever acted; then decide who acts next."""
        policy, episode, due = round.plan.policy, round.episode, self._is_due(state)
        is_learned = isinstance(policy, GuardedPolicy | GuardedTable)
        if is_learned and all(within_region(policy.region, s) for s in episode.states[: len(episode.actions)]):
            own = round._replace(plan=round.plan._replace(policy=policy.learned))
            state.inner = self.inner.update(state.inner, own)
        elif is_learned:
            state.inner = self._absorbed(state.inner, episode)
        else:
            state.inner = self._followed(state.inner, episode)
        state.safe.see(episode.states, reset=episode.reset)
        state.totals[int(is_learned)] += (1.0, episode.total_reward, float(episode.reset))
        state.k += 1
        is_charged = episode.reset and (is_learned or state.after_learned)
        state.after_learned = is_learned and not episode.reset
        if is_charged:
            self._charge(state)
        elif due and not is_learned:  # danger was predicted
            state.begin_pair()
            state.rest = state.k + BLOCK
        else:
            value = (episode.total_reward - round.lam * episode.reset) / state.problem.horizon
            state.add_value(min(max(value, 0.0), 1.0), is_learned=is_learned)
            self._next(state, is_poor=is_learned and value < state.lowest)
        return state

    def _charge(self, state: ControlledState) -> None:
        """A reset that the learned policy caused: the controller acts."""
        state.charged += 1
        state.decide(SPENT if state.charged >= self.explore else FELL)
        state.in_charge, state.rest = False, state.k + FIRST * 2**state.charged
        state.begin_test()

    def _next(self, state: ControlledState, *, is_poor: bool) -> None:
        """Whose block is next; after a pair of them, the test. A trial ends early with an episode that is too poor.

        is_poor: whether the learned policy earned less than the controller ever did.
        """
        first, second = (PROBE, CHARGE) if state.in_charge else (BLOCK, BLOCK)
        if not state.trying:
            state.trying = state.k >= state.rest and bool(state.block[0, 0] >= first)
        elif is_poor or state.block[1, 0] >= second or state.is_better:
            state.add_pair()
            if state.has_decided:
                self._weigh(state)
            elif is_poor:
                state.rest = state.k + FIRST

    def _weigh(self, state: ControlledState) -> None:
        """The test has decided."""
        if not state.is_better:
            state.decide(GAVE_BACK if state.in_charge else WORSE)
            state.in_charge, state.rest = False, int(LATER * state.k)
        else:
            state.decide(TOOK_OVER)
            state.in_charge = True
        state.begin_test()

    def absorb(self, state: ControlledState, episode: Episode) -> ControlledState:
        """Learn from an episode of data, whose states are known to be safe."""
        state.inner = self._absorbed(state.inner, episode)
        state.safe.see(episode.states, reset=episode.reset)
        return state

    def follow(self, state: ControlledState, episode: Episode) -> ControlledState:
        """As `absorb`, of behaviour that is to be improved on."""
        state.inner = self._followed(state.inner, episode)
        state.safe.see(episode.states, reset=episode.reset)
        return state

    def _followed(self, inner: Any, episode: Episode) -> Any:
        return self.inner.follow(inner, episode) if isinstance(self.inner, Follows) else self._absorbed(inner, episode)

    def _absorbed(self, inner: Any, episode: Episode) -> Any:
        assert isinstance(self.inner, LearnsFromEpisodes)
        return self.inner.absorb(inner, episode)

    def decisions(self, state: ControlledState) -> list[Decision]:
        """Who took over when and why, and what the learner decided itself."""
        own = [Decision(int(k), SAID[what]) for k, what in state.changes]
        inner = self.inner.decisions(state.inner) if isinstance(self.inner, Decides) else []
        return sorted([*own, *inner], key=lambda one: one.k)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The resets of the learned policy are counted, and it stops at `explore`; nothing else is proved."""
        why = (
            f"no theorem is claimed; by construction at most {self.explore} resets beyond those of the controller's "
            f"own episodes, and the learned policy takes over only by a test with the error {ERROR:g}"
        )
        return Statement({"explore": self.explore, "error": ERROR}, False, why)


def named(given: Any) -> tuple[Function, str | None]:
    """The controller of an argument, and module:function if that names it; text is imported: only for what was typed.

    >>> named(sqrt)[1], named(lambda observation: 0)[1]
    ('math:sqrt', None)
    """
    function = imported(given, EXPECTED) if isinstance(given, str) and ":" in given else given
    if not callable(function):
        raise InvalidInput(f"{EXPECTED} Got {given!r} instead.")
    if isinstance(given, str):
        return function, given
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<")
    return function, None if module is None or "<" in name else f"{module}:{name}"


def with_controller(player: PrimalPlayer[Any], function: Function | None, explore: int) -> PrimalPlayer[Any]:
    """A player that acts only where it is better than a controller."""
    return Controlled(player, function, explore)


def under_controller(player: Any, explore: int | None) -> Any:
    """The player of a run file, whose controller is not known here; itself for a run without one (`explore` None)."""
    return player if explore is None else Controlled(player, None, explore)
