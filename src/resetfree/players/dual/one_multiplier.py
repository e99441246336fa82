"""One multiplier for all starts: a constant penalty, a count, a search within the episode, and two of the literature.

**`ConstantPenalty`.**
Legend: C the penalty, B a bound on every lambda*(s) = lambda_hat(s) + 1.

**`Counting`.**
Legend: N the resets so far, eta what each adds, lambda_hat(s) the smallest optimal multiplier, H the horizon, X such
that the primal player's regret is at most (H + max lam) X.

**`Search`.** Planning costs no interaction, so multipliers are tried until the plan is safe enough.
Legend: B the largest multiplier, tol the cost that is small enough, v_c the primal player's own estimate of the reset
probability of its plan, K rounds.

**`OneMultiplier`.**
Originals: Ghosh et al. (2022), Y <- clip(Y + eta (b - V_g), 0, xi) with eta = xi / sqrt(K H^2); Ding et al. (2020), the
  same with eta = 1 / sqrt(K); Efroni et al. (2020), lam <- [lam + V_c / t]_+ with t = H sqrt(K) / rho and no upper end.
Adapted: the utility above a threshold b is a reset probability of zero, so Y never falls; xi and rho are B, because
  their formula 2 H / gamma needs a policy that is safe with a margin gamma, and at threshold zero there is none.
From memory: the constants.
Legend: Y the multiplier, B its bound, g in [0, 1] the cost signal, K rounds, H steps.

**`VirtualQueue`.**
Original: Wei, Liu, Ying (2021), with utility C and demand rho: Z <- [Z + rho + eps - mean of C_1 over the frame]_+.
Adapted: utility H (1 - cost) and demand rho = H, so a frame adds H times the mean cost; eps = 0, since rho + eps could
  not be reached. From memory: frames of K^0.6 episodes, eta = K^0.2.
Legend: Z the queue, g in [0, 1] the cost signal, eta what the queue is divided by, K rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, Literal

import numpy as np

from resetfree.core import Count, Floats, InvalidInput, NonNegative, NotCertifiable, Positive, PositiveBound
from resetfree.game.capabilities import Comparator, DualHistory
from resetfree.game.contract import DualPlayer, Plan, Round, Statement
from resetfree.players import bound_of, no_margin, written_in
from resetfree.players.dual import bounded, frames, root, signal
from resetfree.problems import Problem, State


@dataclass(slots=True)
class ConstantPenaltyState:
    """Nothing is learned; the penalty, for `multiplier`."""

    lam: float


@dataclass(frozen=True)
class ConstantPenalty(DualPlayer[ConstantPenaltyState]):
    """A constant penalty for a reset: no dual learning at all, and the baseline to beat.

    lam = C in every round.

    If C >= lambda*(s) for all starts, the dual regret against lambda* is at most 0: every term (lambda* - C) V_c is.
    Then Regret <= R_p and Resets <= R_p / (C - max lambda_hat), with R_p the regret of an ordinary learner whose reward
    is r - C c. Since the paper's player must know B as well, its learning buys nothing in the bound.

    B: bound on |theta*|.  C: the penalty (default: factor times B).

    >>> import resetfree as rf
    >>> player = ConstantPenalty(B=40.0)
    >>> player.multiplier(player.init(rf.make("grid-v0").problem(), 100, 0), 3, lambda lam: None)
    40.0
    """

    name: ClassVar[str] = "constant-penalty"
    B: PositiveBound | None = None
    C: NonNegative | None = None
    factor: NonNegative = 1.0

    def penalty(self) -> float:
        """C, or `factor` times B in its place."""
        return self.factor * bound_of(self) if self.C is None else self.C

    def init(self, problem: Problem, episodes: int, seed: int) -> ConstantPenaltyState:
        """C, or B in its place."""
        return ConstantPenaltyState(self.penalty())

    def multiplier(self, state: ConstantPenaltyState, s1: State, ask: Callable[[float], Plan]) -> float:
        """The penalty C."""
        return state.lam

    def update(self, state: ConstantPenaltyState, round: Round) -> ConstantPenaltyState:
        """Nothing is learned."""
        return state

    def largest_multiplier(self, problem: Problem, episodes: int) -> float:
        """C, and no less than the bound B that it was given."""
        return max(self.penalty(), self.B or 0.0)

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """0 if C is at least the comparator everywhere."""
        lam = met.replay.lam
        if (against.at_starts > lam).any():
            raise NotCertifiable(f"The penalty {lam[0]:.6g} is below the comparator {against.at_starts.max():.6g}.")
        return np.zeros(len(lam))

    batched_form = written_in("dual.batched:constant_penalty_form")

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Zero dual regret if C is large enough."""
        C = self.penalty()
        if self.B is None:
            why = "it needs C >= lambda*(s) at every start, and no B is given to compare with"
            return Statement({"C": C}, False, why)
        B = bound_of(self)
        constants: dict[str, float | str | bool] = {"B": B, "C": C, "tuned": C != B}
        if C < B:
            return Statement(constants, False, "C is below B, so it may be below some lambda*(s)")
        why = "its dual regret is at most 0, as C >= B >= lambda*(s) at every start; in the primal part C replaces B"
        return Statement({**constants, "dual_regret_bound": 0.0}, True, why)


@dataclass(slots=True)
class CountingState:
    """The number of resets so far."""

    n: int  # N


@dataclass(frozen=True)
class Counting(DualPlayer[CountingState]):
    """The multiplier counts resets: no bound B, and no feedback but the resets that happened.

    lam = eta N, one multiplier for all starts and no ceiling.

    With eta = 1 / (2X), up to martingale terms and rounding: N <= 4 X (lambda_hat_max + 1) + 2 H X,
    max lam <= 2 (lambda_hat_max + 1) + H, Regret <= (2H + 2 lambda_hat_max + 2) X.
      Proof. (lambda_hat_max + 1) / eta resets happen until lam is at least lambda_hat_max + 1; in the rounds after that
      they are at most the primal regret of those rounds, (H + eta N) X. Solve for N.

    eta: what one reset adds. The default 1 is tuned, not derived: X grows with K and is seldom known.

    >>> player = Counting(eta=0.5)
    >>> player.multiplier(CountingState(n=3), 0, lambda lam: None)
    1.5
    """

    name: ClassVar[str] = "counting"
    eta: Positive = 1.0

    def init(self, problem: Problem, episodes: int, seed: int) -> CountingState:
        """No reset yet."""
        return CountingState(0)

    def multiplier(self, state: CountingState, s1: State, ask: Callable[[float], Plan]) -> float:
        """The count times eta."""
        return self.eta * state.n

    def update(self, state: CountingState, round: Round) -> CountingState:
        """Count the reset that happened, whatever the cost signal is."""
        state.n += round.episode.reset
        return state

    batched_form = written_in("dual.batched:counting_form")

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The step eta; the theorem of the paper does not cover it."""
        why = "the theorem's dual part needs a multiplier bounded by B; this one has a bound of its own, "
        why += "only with eta = 1/(2X) for a primal player whose regret is at most (H + max lam) X"
        return Statement({"eta": self.eta, "tuned": True}, False, why)


# --------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SearchedState:
    """Nothing is learned; the settings are kept where `multiplier` finds it."""

    B: float = field(metadata={"saved": False})
    tol: float = field(metadata={"saved": False})


@dataclass(frozen=True)
class Search(DualPlayer[SearchedState]):
    """The smallest lam in [0, B] whose plan has v_c <= tol, up to B / 2^n_steps; B if even B does not reach it.

    0 is tried first, then B, then the middle of what is left. What is played was planned for, so v_c <= tol holds
    for it even where v_c does not fall with lam (then it need not be the smallest).
    Dual regret against any u in [0, B], counted in the v_c of the plans: at most B tol K, because in each round either
    v_c <= tol or lam = B >= u, however old its plan is; that is B sqrt(K) by default. It costs up to n_steps + 2 plans
    per episode, and while the primal player is so optimistic that v_c is 0 it plays 0, however many resets happen.

    B: bound on the multipliers.  tolerance: tol (default: 1 / sqrt(K)).  n_steps: halvings.

    >>> found = Search().multiplier(SearchedState(B=8.0, tol=0.0), 0, lambda lam: Plan(None, 0.0, max(0.0, 3 - lam)))
    >>> round(found, 4)
    3.0
    """

    name: ClassVar[str] = "search"
    each_round: ClassVar[bool] = True
    B: PositiveBound | None = None
    tolerance: NonNegative | None = None
    n_steps: Count = 20

    def _tolerance(self, episodes: int) -> float:
        return 1.0 / root(episodes) if self.tolerance is None else self.tolerance

    def init(self, problem: Problem, episodes: int, seed: int) -> SearchedState:
        """Nothing to begin with."""
        return SearchedState(bound_of(self), self._tolerance(episodes))

    def multiplier(self, state: SearchedState, s1: State, ask: Callable[[float], Plan]) -> float:
        """Bisection; `high` is always a multiplier whose plan was found safe enough."""
        tol = state.tol
        if ask(0.0).v_c <= tol:
            return 0.0
        low, high = 0.0, state.B
        if not ask(high).v_c <= tol:
            return high
        for _ in range(self.n_steps):
            middle = 0.5 * (low + high)
            if ask(middle).v_c <= tol:
                high = middle
            else:
                low = middle
        return high

    def update(self, state: SearchedState, round: Round) -> SearchedState:
        """Nothing is learned."""
        return state

    def largest_multiplier(self, problem: Problem, episodes: int) -> float:
        """The bound B, the end of the search."""
        return bound_of(self)

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """B tol k, if the signals are v_c of its plans."""
        B = bound_of(self)
        if met.feedback != "optimistic":
            raise NotCertifiable(
                f"The bound of '{self.name}' needs the costs of its plans as feedback. Got other costs."
            )
        if against.size > B:
            raise NotCertifiable(f"The comparator {against.size:.6g} is above B = {B:.6g}.")
        return np.asarray(B * self._tolerance(met.episodes) * met.k)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The tolerance, and the regret that it leaves."""
        B, tol = bound_of(self), self._tolerance(episodes)
        constants = {"B": B, "tolerance": tol, "n_steps": self.n_steps, "tuned": self.tolerance is not None}
        return bounded(constants, B * tol * episodes, episodes)


# --------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class OneMultiplierState:
    """The multiplier, and where the first episode began."""

    Y: float
    first: int = field(metadata={"least": -1})  # s_1^1, -1 before it is seen
    eta: float = field(metadata={"saved": False})
    cap: float = field(metadata={"saved": False})


@dataclass(frozen=True)
class OneMultiplier(DualPlayer[OneMultiplierState]):
    """One multiplier for all starts, as in the literature on constrained MDPs with a fixed initial state.

    Y <- clip(Y + eta g, 0, B), the same at every start whatever the problem's features of starts are.

    B: bound on the multipliers.  step: "bound" (eta = B / (H sqrt(K))) or "unit" (eta = 1 / sqrt(K)).
    capped: whether Y stays in [0, B].
    first_start_only: learn only in episodes that begin where the first one did. That is how a method for a fixed
      initial state fails here: its constraint is about V_c at s_1^1, and what happens from other starts does not enter.
      (The original reads off V at s_1^1 in every episode, since every episode begins there. Finite problems only.)

    >>> import resetfree as rf
    >>> OneMultiplier(B=40.0).statement(rf.make("grid-v0").problem(), 100).constants["eta"]
    0.5
    """

    name: ClassVar[str] = "one-multiplier"
    B: PositiveBound | None = None
    step: Literal["bound", "unit"] = "bound"
    capped: bool = True
    first_start_only: bool = False

    def _eta(self, problem: Problem, episodes: int) -> float:
        B = bound_of(self)
        return (B / problem.horizon if self.step == "bound" else 1.0) / root(episodes)

    def init(self, problem: Problem, episodes: int, seed: int) -> OneMultiplierState:
        """The multiplier 0."""
        if self.first_start_only and problem.n_states is None:
            raise InvalidInput(f"The 'first_start_only' of {self.name} must be false for vector states. Got True.")
        eta = self._eta(problem, episodes)
        return OneMultiplierState(0.0, -1, eta, bound_of(self) if self.capped else inf)

    def multiplier(self, state: OneMultiplierState, s1: State, ask: Callable[[float], Plan]) -> float:
        """The multiplier Y, the same at every start."""
        return state.Y

    def update(self, state: OneMultiplierState, round: Round) -> OneMultiplierState:
        """One step, unless only the first start counts and this is another."""
        g = signal(round)
        if self.first_start_only:
            if state.first < 0:
                state.first = int(round.s1)
            if round.s1 != state.first:
                return state
        state.Y = min(state.Y + state.eta * g, state.cap)
        return state

    batched_form = written_in("dual.batched:one_multiplier_form")

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Dual regret at most u^2 / (2 eta) + eta K / 2 against a constant u in [0, B], if every start counts."""
        B, eta = bound_of(self), self._eta(problem, episodes)
        constants: dict[str, float | str | bool] = {"B": B, "eta": eta, "capped": self.capped}
        if self.first_start_only:
            why = "no theorem here: resets from starts other than the first never reach the multiplier"
            return Statement(constants, False, why)
        if not self.capped:
            why = "no theorem here: the multiplier has no upper end, and the primal bound needs one"
            return Statement(constants, False, why)
        return bounded(constants, B / (2 * eta) * B + eta / 2 * episodes, episodes)


@dataclass(slots=True)
class VirtualQueueState:
    """The queue, and the frame that is under way."""

    queue: float  # Z
    total: float  # of the cost signals in this frame
    frame: int = field(metadata={"saved": False})  # episodes per frame
    eta: float = field(metadata={"saved": False})
    horizon: float = field(metadata={"saved": False})


@dataclass(frozen=True)
class VirtualQueue(DualPlayer[VirtualQueueState]):
    """The virtual queue of Triple-Q: violations are added up over frames, and the multiplier grows with the queue.

    lam = H Z / eta, one for all starts; at the end of a frame Z <- Z + H (mean of g over it), eta = K^0.2.

    The factor H turns a weight on C = H (1 - cost) into one on the cost. There is no cap, so no B is needed; within a
    frame nothing is learned.

    >>> import resetfree as rf
    >>> VirtualQueue().statement(rf.make("grid-v0").problem(), 1024).constants["eta"]
    4.0
    """

    name: ClassVar[str] = "virtual-queue"

    def init(self, problem: Problem, episodes: int, seed: int) -> VirtualQueueState:
        """An empty queue."""
        frame, eta = frames(episodes)
        return VirtualQueueState(0.0, 0.0, frame, eta, float(problem.horizon))

    def multiplier(self, state: VirtualQueueState, s1: State, ask: Callable[[float], Plan]) -> float:
        """The multiplier H Z / eta."""
        return state.horizon * state.queue / state.eta

    def update(self, state: VirtualQueueState, round: Round) -> VirtualQueueState:
        """Add up; at the end of a frame the mean goes into the queue."""
        state.total += signal(round)
        if round.k % state.frame == 0:
            state.queue += state.horizon * state.total / state.frame
            state.total = 0.0
        return state

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The constants of this run; no theorem covers them."""
        frame, eta = frames(episodes)
        return Statement({"frame": float(frame), "eta": eta}, False, no_margin("Wei, Liu and Ying", ""))
