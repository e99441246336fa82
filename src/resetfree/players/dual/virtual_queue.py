"""The virtual queue of Triple-Q: violations are added up over frames, and the multiplier grows with the queue.

Original: Wei, Liu, Ying (2021), with utility C and demand rho: Z <- [Z + rho + eps - mean of C_1 over the frame]_+.
Adapted: utility H (1 - cost) and demand rho = H, so a frame adds H times the mean cost; eps = 0, since rho + eps could
  not be reached. From memory: frames of K^0.6 episodes, eta = K^0.2.

Legend: Z the queue, g in [0, 1] the cost signal, eta what the queue is divided by, K rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from resetfree.game.contract import DualPlayer, Plan, Round, Statement
from resetfree.players.dual.multiplier_functions import root, signal
from resetfree.players.requirements import no_margin
from resetfree.problems.contract import Problem, State


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
    """lam = H Z / eta, one for all starts; at the end of a frame Z <- Z + H (mean of g over it), eta = K^0.2.

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


def frames(episodes: int) -> tuple[int, float]:
    """Episodes per frame, the whole part of K^0.6, and chi = eta = K^0.2.

    >>> frames(1024)
    (64, 4.0)
    """
    fifth = round(root(episodes) ** 0.4, 12)
    return max(int(fifth**3 + 1e-6), 1), fifth
