"""What players behind a shield share: optimistic planning on counts, among the actions that the shield lets through.

Legend: h from 0; n how often a pair was tried; beta the bonus of a pair that was tried once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.compiled import jit
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.players.tabular.action_values import Counts
from resetfree.players.tabular.counts import Counted
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.backward import Bools, Floats, Ints, Model
from resetfree.problems.finite.mdp import FiniteMDP, model_behind
from resetfree.problems.finite.safe_sets import safe_sets
from resetfree.problems.finite.safety import reachable_starts


@dataclass
class ShieldState:
    """Counts, and the shield."""

    seen: Counted
    allowed: Bools = field(metadata={"saved": False})  # [n, S, A]
    layer_of_step: Ints = field(metadata={"saved": False})  # [H] which of them each step uses


class ShieldPlayer(PrimalPlayer[ShieldState]):
    """A player with the settings `scale`, of the bonus scale H / sqrt(n), and `pooled`."""

    prediction: ClassVar[Prediction] = "none"
    scale: float
    pooled: bool

    def plan(self, state: ShieldState, s1: State, lam: float) -> Plan:
        """One backward pass; v_c = 0 is what a shield is for, and no estimate."""
        horizon, n_states = len(state.layer_of_step), state.allowed.shape[1]
        policy, v_r = np.empty((horizon, n_states), dtype=np.int16), np.empty(n_states)
        counted = (state.seen.counts, state.seen.n_transitions, self.scale * horizon)
        shielded_plan(*counted, state.allowed, state.layer_of_step, policy, v_r)
        return Plan(policy, float(v_r[s1]), 0.0)

    def update(self, state: ShieldState, round: Round) -> ShieldState:
        """Count the steps of the episode."""
        state.seen.absorb(round.episode)
        return state


def one_step_safe(mdp: FiniteMDP) -> Bools:
    """[H, S, A] the actions that cannot be reset at the very next step, from the support of the exact model."""
    allowed = np.empty((mdp.horizon, mdp.n_states, mdp.n_actions), dtype=np.bool_)
    one_step_actions(mdp.model, allowed)
    return allowed


def never_reset(problem: Problem, constants: dict[str, Any], given: str) -> Statement:
    """Of a player that keeps to Abar: no resets on any path, if every start that can occur has a reset-free policy."""
    mdp = model_behind(problem)
    if (reachable_starts(mdp).states & ~safe_sets(mdp).states(1)).any():
        return Statement(constants, False, "some start that can occur has no reset-free policy")
    return Statement(constants, True, f"only actions of Abar are played, so no path has a reset (given {given})")


@jit
def arrivals(c: Counts, layer: int, s: int, a: int, dead: Bools, value: Floats) -> tuple[float, float]:
    """Empirical mean of `value` after a pair, and the share of arrivals in `dead` states, which are worth 0."""
    pay, cost = 0.0, 0.0
    for j in range(c.seen.shape[3]):
        times = c.seen[layer, s, a, j]
        if times == 0:
            break
        t = c.successor[layer, s, a, j]
        if dead[t]:
            cost += times
        else:
            pay += times * value[t]
    moves = c.moved[layer, s, a]
    return pay / moves, cost / moves


@jit
def optimistic_value(
    c: Counts, layer: int, s: int, a: int, moving: bool, left: float, beta: float, dead: Bools, after: Floats
) -> float:
    """min(left, mean reward + mean value afterwards + beta / sqrt(n)), and `left` for a pair that was never tried."""
    n = c.tried[layer, s, a]
    if n == 0 or (moving and c.moved[layer, s, a] == 0):
        return left
    pay = c.earned[layer, s, a] / n + beta / sqrt(n)
    if moving:
        pay += arrivals(c, layer, s, a, dead, after)[0]
    return float(min(max(pay, 0.0), left))


@jit
def shielded_plan(
    c: Counts,
    n_transitions: int,
    beta: float,
    allowed: Bools,  # [n, S, A] what the shield lets through; all actions where it lets nothing through
    layer_of_step: Ints,  # [H] which of them each step uses
    policy: NDArray[np.int16],  # [H, S] out
    v_r: Floats,  # [S] out, at step 1
) -> None:
    """Value iteration with bonuses (rewards alone) over the allowed actions; ties go to the smaller action."""
    horizon, n_states = policy.shape
    n_actions = allowed.shape[2]
    after = np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        dead = c.known_last if h == n_transitions - 1 else c.known
        mask = allowed[layer_of_step[h]]
        for s in range(n_states):
            free = not mask[s].any()
            v_r[s], policy[h, s] = -1.0, 0
            for a in range(n_actions):
                if free or mask[s, a]:
                    q = optimistic_value(c, layer, s, a, h < n_transitions, horizon - h, beta, dead, after)
                    if q > v_r[s]:
                        v_r[s], policy[h, s] = q, a
        after[:] = v_r


@jit
def one_step_actions(
    m: Model,
    allowed: Bools,  # [H, S, A] out: no successor is a reset state (on arrival at the end, one that calls for a reset)
) -> None:
    """The actions that a shield with one step of lookahead allows, from the support alone."""
    horizon, n_states, n_actions = allowed.shape
    for h in range(horizon):
        dead = m.last_reset if h == m.n_transitions - 1 else m.reset
        for s in range(n_states):
            for a in range(n_actions):
                allowed[h, s, a] = not m.reset[s]
                if h < m.n_transitions:
                    row = m.row_of_step[h] + s * n_actions + a
                    for j in range(m.indptr[row], m.indptr[row + 1]):
                        if dead[m.indices[j]]:
                            allowed[h, s, a] = False
