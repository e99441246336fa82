"""UCRL2 for episodes of H steps without resets in between: the best policy in the best plausible model.

After Jaksch, Ortner and Auer (2010). Kept: L1 balls of radius sqrt(14 S ln(2 A t / delta) / n) around the empirical
transitions and intervals of half-width sqrt(7 ln(2 S A t / delta) / (2 n)) around the mean rewards, extended value
iteration, epochs that end when some pair's count has doubled, t and the counts frozen at the start of an epoch.
Adapted: the planning horizon is H with backward induction instead of average reward; whether a count has doubled is
checked between episodes, as a policy is committed for an episode; arriving in a state that was seen to be a reset state
has value -lam (lam = 0: rewards alone); `scale` multiplies both radii. From memory: the constants 14 and 7/2.

Legend of the compiled code: h from 0; n how often a pair was tried; d_p the radius of the L1 ball around its empirical
transitions, d_r that of the interval around its mean reward, both sqrt(factor / n).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, sqrt
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats, Ints
from resetfree.core.compiled import jit
from resetfree.core.settings import Range
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players.method import Method, free_and_penalised
from resetfree.players.tabular.counts import Counted, Counts
from resetfree.problems.contract import Problem, State


@dataclass
class UCRL2State:
    """Counts now, and as they were when the epoch began."""

    seen: Counted
    frozen: Counted
    t: int  # steps before the epoch
    steps: int  # steps so far
    epoch: int  # counted from 1
    horizon: int = field(metadata={"saved": False})


@dataclass(frozen=True)
class UCRL2(PrimalPlayer[UCRL2State]):
    """Extended value iteration over H steps on r - lam c, with frozen counts within an epoch.

    scale: factor on both radii; 1 is the original.  delta: its failure probability.
    pooled: one set of counts for all steps, as in the original (stationary problems).

    >>> import resetfree as rf
    >>> player = UCRL2()
    >>> state = player.init(rf.make("grid-v0").problem(), 10, 0)
    >>> player.plan(state, 0, 0.0).v_r  # nothing is known, so everything is possible
    8.0
    """

    name: ClassVar[str] = "ucrl2"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "none"
    scale: Annotated[float, Range(0, 1e100)] = 1.0
    delta: Annotated[float, Range(above=0, most=1)] = 0.05
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> UCRL2State:
        """No data yet."""
        seen = Counted.nothing(problem, self.pooled, self.name)
        return UCRL2State(seen, seen.copy(), t=0, steps=0, epoch=1, horizon=problem.horizon)

    def plan(self, state: UCRL2State, s1: State, lam: float) -> Plan:
        """One pass on the epoch's counts; it has no estimate of V_c of its own, and v_c = 0 promises nothing."""
        lam = check_multiplier(lam)
        n_states = state.frozen.tried.shape[1]
        policy, v = np.empty((state.horizon, n_states), dtype=np.int16), np.empty(n_states)
        factor_p, factor_r = self.factors(state)
        extended_plan(state.frozen.counts, state.frozen.n_transitions, factor_p, factor_r, lam, policy, v)
        upper = float(v[s1])
        return Plan(policy, min(max(upper, 0.0), float(state.horizon)), 0.0, upper)

    def update(self, state: UCRL2State, round: Round) -> UCRL2State:
        """Count; a new epoch begins when some pair was tried as often in this one as in all before."""
        state.seen.absorb(round.episode)
        state.steps += len(round.episode.actions)
        before = state.frozen.tried
        if (state.seen.tried - before >= np.maximum(before, 1)).any():
            state.frozen, state.t, state.epoch = state.seen.copy(), state.steps, state.epoch + 1
        return state

    def factors(self, state: UCRL2State) -> tuple[float, float]:
        """The squared radii of transitions and rewards, times n."""
        n_states, n_actions = state.frozen.tried.shape[1:]
        t = max(state.t, 1)
        factor_p = 14.0 * n_states * log(2.0 * n_actions * t / self.delta)
        factor_r = 3.5 * log(2.0 * n_states * n_actions * t / self.delta)
        return self.scale**2 * factor_p, self.scale**2 * factor_r

    @staticmethod
    def methods() -> list[Method]:
        """Without and with a penalty for a reset; its width is a factor on its radii."""
        text = "L1 balls, extended value iteration, doubling epochs"
        return free_and_penalised("ucrl2", text, lambda s: UCRL2(**s.own), 54)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Its theorem is about another criterion."""
        why = "its theorem is about the average reward of a communicating stationary problem without resets"
        why += "" if self.scale == 1.0 else ", and with the radii as they were"
        return Statement({"scale": self.scale, "delta": self.delta, "pooled": self.pooled}, False, why)


@jit
def best_in_ball(row: Floats, radius: float, value: Floats, order: Ints) -> float:
    """Largest p.value over distributions p with |p - row|_1 <= radius; `order` sorts `value` upwards; `row` is changed.

    Half of the radius is put on the best state and taken off the worst ones: linear in S.
    """
    best = order[-1]
    moved = min(1.0 - row[best], radius / 2.0)
    row[best] += moved
    for j in order[:-1]:
        if moved <= 0.0:
            break
        taken = min(row[j], moved)
        row[j] -= taken
        moved -= taken
    total = 0.0
    for s in range(len(row)):
        total += row[s] * value[s]
    return total


@jit
def extended_plan(
    c: Counts,
    n_transitions: int,
    factor_p: float,
    factor_r: float,
    lam: float,
    policy: NDArray[np.int16],  # [H, S] out
    v: Floats,  # [S] out, at step 1: an upper bound on max V_r - lam V_c where the confidence set holds the truth
) -> None:
    """Backward induction on r - lam c; a pair that was never tried pays 1 and leads to the best state."""
    horizon, n_states = policy.shape
    n_actions = c.tried.shape[2]
    after, row = np.zeros(n_states), np.empty(n_states)
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        is_reset = c.known_last if h == n_transitions - 1 else c.known
        for s in range(n_states):
            if h < n_transitions and is_reset[s]:
                after[s] = -lam
        order = np.argsort(after)
        for s in range(n_states):
            v[s], policy[h, s] = -np.inf, 0
            for a in range(n_actions):
                n = c.tried[layer, s, a]
                q = 1.0 if n == 0 else min(c.earned[layer, s, a] / n + sqrt(factor_r / n), 1.0)
                moves = c.moved[layer, s, a]
                if h < n_transitions and moves == 0:
                    q += after[order[-1]]
                elif h < n_transitions:
                    row[:] = 0.0
                    for j in range(c.seen.shape[3]):
                        if c.seen[layer, s, a, j] == 0:
                            break
                        row[c.successor[layer, s, a, j]] = c.seen[layer, s, a, j] / moves
                    q += best_in_ball(row, sqrt(factor_p / moves), after, order)
                if q > v[s]:
                    v[s], policy[h, s] = q, a
        after[:] = v
