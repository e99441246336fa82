"""Triple-Q, model-free Q-learning of reward and utility under a virtual queue.

Original: Wei, Liu, Ying, "Triple-Q: a model-free algorithm for constrained reinforcement learning with sublinear regret
and zero constraint violation" (2021).
Kept: two optimistic tables Q and C that begin at H, frames of K^0.6 episodes, the rate (chi + 1) / (chi + t) with
  chi = K^0.2, greedy play on Q + (Z / eta) C, visits forgotten and Q raised when a frame begins. The third "Q", the
  virtual queue Z, is the dual player `virtual-queue`, whose multiplier is H Z / eta.
Adapted: the utility of an episode is H without a reset and 0 with one, so C is in [0, H] as in the original and
  1 - C / H is the reset probability; the demanded utility is rho = H, and its tightening eps is 0, since rho + eps
  cannot be reached; entries of both tables are cut at H, one table at a time (the original sets both back to H where
  one reaches it, which here, where safe pairs have C = H, would wipe out Q in every frame).
Rescaled: the bonus sqrt(H^2 iota (chi + 1) / (chi + t)) / 4 is H scale sqrt((chi + 1) / (chi + t)), and what Q is
  raised by, 2 H^3 sqrt(iota) / eta, is 8 H scale / eta: the same with scale for sqrt(iota) / 4 and with H for H^3,
  without which every entry would be back at H in every frame.
From memory: the constants.

Legend of the compiled code: h from 0; n visits since the frame began; chi of the learning rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats, Ints
from resetfree.core.compiled import jit
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import NonNegative
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players.dual.virtual_queue import frames
from resetfree.players.method import Method, Players, Setting, against
from resetfree.players.requirements import finite_states, no_margin
from resetfree.players.tabular.counts import LARGEST
from resetfree.problems.contract import Problem, State


@dataclass
class TripleQState:
    """The tables of this frame."""

    q: Floats  # [H, S, A] reward to come, at most H
    c: Floats  # [H, S, A] utility to come, at most H
    n: Ints  # [H, S, A] visits in this frame
    k: int  # episodes seen
    frame: int = field(metadata={"saved": False})  # episodes per frame
    chi: float = field(metadata={"saved": False})
    bonus: float = field(metadata={"saved": False})
    lift: float = field(metadata={"saved": False})  # what Q is raised by when a frame begins


@dataclass(frozen=True)
class TripleQ(PrimalPlayer[TripleQState]):
    """a_h = argmax_a Q_h(s,a) - lam (1 - C_h(s,a) / H); Q and C by Q-learning with bonuses, restarted in frames.

    scale: of the bonus.

    >>> import resetfree as rf
    >>> TripleQ().statement(rf.make("grid-v0").problem(), 1024).constants["frame"]
    64.0
    """

    name: ClassVar[str] = "triple-q"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "low"
    scale: NonNegative = 0.1

    def init(self, problem: Problem, episodes: int, seed: int) -> TripleQState:
        """Both tables at H."""
        n_states, horizon = finite_states(problem, self.name), problem.horizon
        shape = (horizon, n_states, problem.n_actions)
        entries = horizon * n_states * problem.n_actions
        if entries > LARGEST:
            raise InvalidInput(f"A table of triple-q must have at most {LARGEST:,} entries. Got {entries:,}.")
        frame, root = frames(episodes)
        top = float(horizon)
        q, c, n = np.full(shape, top), np.full(shape, top), np.zeros(shape, dtype=np.int64)
        lift = 8.0 * self.scale * top / root
        return TripleQState(q, c, n, k=0, frame=frame, chi=root, bonus=self.scale * top, lift=lift)

    def plan(self, state: TripleQState, s1: State, lam: float) -> Plan:
        """Greedy, ties to the first action; the estimates are the entries of the action it takes first."""
        check_multiplier(lam)
        top = float(len(state.q))
        policy = np.argmax(state.q - lam * (1.0 - state.c / top), axis=2)
        a = policy[0, s1]
        return Plan(policy, float(state.q[0, s1, a]), 1.0 - float(state.c[0, s1, a]) / top)

    def update(self, state: TripleQState, round: Round) -> TripleQState:
        """Learn from the episode; begin a new frame after its last one."""
        e = round.episode
        learn_tables(state.q, state.c, state.n, state.chi, state.bonus, e.states, e.actions, e.rewards, e.reset)
        state.k += 1
        if state.k % state.frame == 0:
            start_frame(state.q, state.c, state.n, state.lift)
        return state

    @staticmethod
    def methods() -> list[Method]:
        """With its virtual queue."""
        text = "Wei, Liu, Ying 2021: two Q-tables and a queue."

        def build(s: Setting) -> Players:
            return against(TripleQ(scale=s.width), "virtual-queue", "optimistic")

        return [Method("Triple-Q", "baseline", text, build, rank=14, pools=False)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The constants of this run; no theorem covers them."""
        frame, root = frames(episodes)
        constants: dict[str, float | str | bool] = {"frame": float(frame), "chi": root, "eta": root}
        constants |= {"scale": self.scale, "eps": 0.0}
        return Statement(constants, False, f"{no_margin('Wei, Liu and Ying', '')}; its constants are rescaled")


@jit
def learn_tables(
    q: Floats,
    c: Floats,
    n: Ints,
    chi: float,
    bonus: float,
    states: Ints,  # [m or m + 1]
    actions: Ints,  # [m]
    rewards: Floats,  # [m]
    reset: bool,
) -> None:
    """One episode, first step first: each step learns from the entry that the next one has not changed yet."""
    top = float(len(q))
    for h in range(len(actions)):
        s, a = states[h], actions[h]
        v, w = 0.0, top
        if h + 1 < len(actions):
            v, w = q[h + 1, states[h + 1], actions[h + 1]], c[h + 1, states[h + 1], actions[h + 1]]
        elif reset:
            w = 0.0
        n[h, s, a] += 1
        rate = (chi + 1.0) / (chi + n[h, s, a])
        more = bonus * sqrt(rate)
        q[h, s, a] = min(max((1.0 - rate) * q[h, s, a] + rate * (rewards[h] + v + more), 0.0), top)
        c[h, s, a] = min(max((1.0 - rate) * c[h, s, a] + rate * (w + more), 0.0), top)


@jit
def start_frame(q: Floats, c: Floats, n: Ints, lift: float) -> None:
    """Forget the visits and raise Q by `lift`, both tables back at H where they reach it."""
    top = float(len(q))
    n[...] = 0
    for h in range(q.shape[0]):
        for s in range(q.shape[1]):
            for a in range(q.shape[2]):
                q[h, s, a] = min(q[h, s, a] + lift, top)
                c[h, s, a] = min(c[h, s, a], top)
