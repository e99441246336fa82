"""Dual players of the literature on constrained problems: one multiplier for all starts, and a virtual queue.

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

from resetfree.core.errors import InvalidInput
from resetfree.core.settings import PositiveBound
from resetfree.game.contract import DualPlayer, Plan, Round, Statement
from resetfree.players.batched import written_in
from resetfree.players.dual.multiplier_functions import bounded, frames, root, signal
from resetfree.players.requirements import bound_of, no_margin
from resetfree.problems.contract import Problem, State


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
