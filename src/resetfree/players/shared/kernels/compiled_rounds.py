"""Rounds of Algorithm 1 on a small finite problem: planned, played, evaluated and learned in compiled code.

Legend: as in `game.loop`, whose rounds these are number by number; theta the parameter of the dual player's function
xi(s) theta; signal what the dual player learns from.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from resetfree.core.compiled import jit
from resetfree.players.shared.kernels.action_values import Counts, count
from resetfree.players.shared.kernels.composite import learn_counted
from resetfree.players.shared.kernels.interval_softmax import interval_plan
from resetfree.players.shared.kernels.ridge import Regression, softmax_plan
from resetfree.problems.finite.backward import Bools, Floats, Ints, Model, evaluate
from resetfree.problems.finite.rollout import roll
from resetfree.theory.proved_widths import DeterminantWidth, IntervalWidth

OPTIMISTIC, REALISED, EXACT = range(3)


class Setting(NamedTuple):
    """What stays the same in a game: the problem, the temperature, the dual player and its feedback."""

    model: Model
    restarts: Floats  # [S] cumulative
    coins: bool  # whether rewards are tosses of a coin
    end_resets: bool
    caps: Floats  # [H] the largest Q_r of each step
    alpha: float  # or its factor before k
    anytime: bool
    xi: Floats  # [S]
    low: float  # of theta
    high: float
    cap: float  # B
    feedback: int


class Columns(NamedTuple):
    """What becomes of the rounds, an entry each."""

    s1: Ints
    lam: Floats
    v_r: Floats  # the plan's estimates
    v_c: Floats
    exact_r: Floats  # of the policy
    exact_c: Floats
    reset: Bools


class Trace(NamedTuple):
    """Room for a round: an episode, and the values of its policy."""

    states: Ints  # [H + 1]
    actions: Ints  # [H]
    rewards: Floats  # [H]
    true_r: Floats  # [S]
    true_c: Floats  # [S]


@jit
def room(horizon: int, n_states: int) -> Trace:
    """Room for the episodes of a problem."""
    states, actions = np.empty(horizon + 1, np.int64), np.empty(horizon, np.int64)
    return Trace(states, actions, np.empty(horizon), np.empty(n_states), np.empty(n_states))


@jit
def multiplier(g: Setting, theta: float, s1: int) -> float:
    """clip(xi(s1) theta, 0, B)."""
    return float(min(max(g.xi[s1] * theta, 0.0), g.cap))


@jit
def drawn(cumulative: Floats, u: float) -> int:
    """As `problems.contract.draw`."""
    last = len(cumulative) - 1
    while last > 0 and cumulative[last - 1] == cumulative[last]:
        last -= 1
    i = 0
    while i < last and cumulative[i] <= u:
        i += 1
    return i


@jit
def play_round(
    g: Setting, k: int, policy: Floats, theta: float, u: Floats, t: Trace, out: Columns, i: int
) -> tuple[float, int, int, int]:
    """Round k of a plan whose start, multiplier and estimates are in row i of `out`: fills the rest of it.

    Returns theta after it, the number of actions and of states of the episode, and the next start.
    """
    horizon, s1 = len(t.actions), out.s1[i]
    n, reset = roll(g.model, policy, s1, u, t.states, t.actions, t.rewards)
    seen = n + 1 if reset or n == g.model.n_transitions else n
    if g.coins:
        for j in range(n):
            t.rewards[j] = 1.0 if u[2 * horizon + j] < t.rewards[j] else 0.0
    after = drawn(g.restarts, u[3 * horizon]) if reset else t.states[seen - 1]
    evaluate(g.model, policy, t.true_r, t.true_c)
    out.exact_r[i], out.exact_c[i], out.reset[i] = t.true_r[s1], t.true_c[s1], reset
    signal = out.v_c[i] if g.feedback == OPTIMISTIC else out.exact_c[i]
    if g.feedback == REALISED:
        signal = 1.0 if reset else 0.0
    signal = min(max(signal, 0.0), 1.0)  # it leaves [0, 1] by rounding at most
    if signal > 0.0:
        theta = min(max(theta + g.cap / sqrt(k) * signal * g.xi[s1], g.low), g.high)
    return theta, n, seen, after


@jit
def remember(g: Setting, known: Bools, known_last: Bools, where: int, n: int) -> None:
    """Note the state in which an episode of n actions was reset: see `counts.mark_reset`."""
    known_last[where] = True
    if not g.end_resets or n < g.model.n_transitions:
        known[where] = True


@jit
def interval_rounds(
    g: Setting,
    c: Counts,  # with room for every successor
    width: IntervalWidth,
    first: int,  # the number of the first round
    s1: int,
    theta: float,
    u: Floats,  # [n, 3H + 2] uniforms
    out: Columns,
) -> tuple[int, float]:
    """As many rounds as `out` has rows, with intervals of all sets; returns the next start and theta."""
    horizon, n_states, n_actions = len(g.caps), len(c.known), c.tried.shape[2]
    policy, q_r, q_c = np.empty((3, horizon, n_states, n_actions))
    v_r, v_c, every = np.empty(n_states), np.empty(n_states), np.empty((0, 0, 0), dtype=np.bool_)
    t = room(horizon, n_states)
    for i in range(len(out.lam)):
        k, lam = first + i, multiplier(g, theta, s1)
        alpha = g.alpha * k if g.anytime else g.alpha
        interval_plan(c, g.model.n_transitions, width, alpha, lam, g.caps, every, policy, q_r, q_c, v_r, v_c)
        out.s1[i], out.lam[i], out.v_r[i], out.v_c[i] = s1, lam, v_r[s1], v_c[s1]
        theta, n, seen, s1 = play_round(g, k, policy, theta, u[i], t, out, i)
        count(c, 0, t.states[:seen], t.actions[:n], t.rewards[:n])
        if out.reset[i]:
            remember(g, c.known, c.known_last, t.states[seen - 1], n)
    return s1, theta


@jit
def ridge_rounds(
    g: Setting,
    r: Regression,
    phi: Floats,
    layer_of_step: Ints,
    log_det: Floats,  # [L] log det Lam, less its value without data
    known: Bools,  # [S]
    known_last: Bools,  # [S]
    width: DeterminantWidth,
    first: int,
    s1: int,
    theta: float,
    u: Floats,  # [n, 3H + 2] uniforms
    out: Columns,
) -> tuple[int, float]:
    """The same with a regression, and widths that grow with its determinants."""
    horizon, n_states, n_pairs = len(g.caps), len(known), r.width2.shape[1]
    policy = np.empty((horizon, n_states, n_pairs // n_states))
    q_r, q_c = np.empty((horizon, n_pairs)), np.empty((horizon, n_pairs))
    v_r, v_c, old = np.empty(n_states), np.empty(n_states), np.empty((0, 0, 0))
    t = room(horizon, n_states)
    for i in range(len(out.lam)):
        k, lam = first + i, multiplier(g, theta, s1)
        alpha = g.alpha * k if g.anytime else g.alpha
        growth = log_det[layer_of_step]
        off = sqrt((k - 1) * horizon // len(log_det))
        beta_r = width.sigma_r * np.sqrt(growth + 2 * width.log_r) + width.ridge_r + width.z_r * off
        beta_c = width.sigma_c * np.sqrt(growth + 2 * width.log_c) + width.ridge_c + width.z_c * off
        softmax_plan(
            r, phi, layer_of_step, g.model.n_transitions, beta_r, beta_c, width.z_r, width.z_c, alpha, lam,
            known, known_last, g.caps, old, policy, q_r, q_c, v_r, v_c,
        )  # fmt: skip
        out.s1[i], out.lam[i], out.v_r[i], out.v_c[i] = s1, lam, v_r[s1], v_c[s1]
        theta, n, seen, s1 = play_round(g, k, policy, theta, u[i], t, out, i)
        learn_counted(r, phi, log_det, layer_of_step, policy.shape[2], t.states[:seen], t.actions[:n], t.rewards[:n])
        if out.reset[i]:
            remember(g, known, known_last, t.states[seen - 1], n)
    return s1, theta
