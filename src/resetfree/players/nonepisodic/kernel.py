"""One unbroken life on counts: the learned safe set, extended value iteration inside it, and the walk itself.

Legend: n how often a pair was tried; W the states from which, as far as seen, resets can be avoided for ever;
u the relative values of extended value iteration; d_p the radius of a pair's L1 ball, d_r that of its mean reward.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, Ints, jit
from resetfree.problems.finite.backward import Model
from resetfree.problems.finite.mdp import pick

TIE = 1e-9
LAZY = 0.9  # a step is taken with this weight, which makes every chain aperiodic and changes no gain but by a factor
ENDED, DOUBLED, NEW_EDGE = 0, 1, 2


class LifeCounts(NamedTuple):
    """What a life has shown so far, with room for W successors of a pair.

    Every step moves, so the tries of a pair are its moves.
    """

    tried: Ints  # [S, A]
    earned: Floats  # [S, A]
    successor: NDArray[np.int32]  # [S, A, W]
    times: Ints  # [S, A, W] how often; 0 marks a free place
    known: Bools  # [S] states whose entering was a reset


@jit
def safe_core(c: LifeCounts, within: Bools, allowed: Bools) -> None:
    """Greatest set outside `known` in which every state has an action whose seen successors all lie in it.

    within: [S] out.  allowed: [S, A] out, those actions of every state that is not known to be a reset state.
    """
    n_states, n_actions = allowed.shape
    for s in range(n_states):
        within[s] = not c.known[s]
    changed = True
    while changed:
        changed = False
        for s in range(n_states):
            some = False
            for a in range(n_actions):
                good = not c.known[s]
                for j in range(c.times.shape[2]):
                    if not good or c.times[s, a, j] == 0:
                        break
                    good = within[c.successor[s, a, j]]
                allowed[s, a] = good
                some = some or good
            if within[s] and not some:
                within[s] = False
                changed = True


@jit
def plausible_mean(
    successor: NDArray[np.int32],  # [W] of a pair
    times: Ints,  # [W]
    n: int,
    best: int,  # the state of largest u
    radius: float,
    u: Floats,
) -> float:
    """The largest mean of u over the L1 ball: mass moves from the worst successors to the best state."""
    value, there = 0.0, 0.0
    for j in range(len(times)):
        if times[j] == 0:
            break
        value += times[j] / n * u[successor[j]]
        if successor[j] == best:
            there = times[j] / n
    free = min(1.0 - there, 0.5 * radius)
    value += free * u[best]
    last, place = -np.inf, -1
    while free > 1e-15:
        worst, at = np.inf, -1
        for j in range(len(times)):
            if times[j] == 0:
                break
            x = u[successor[j]]
            if (x > last or (x == last and j > place)) and x < worst:
                worst, at = x, j
        if at < 0:
            break
        taken = min(free, times[at] / n)
        value -= taken * worst
        free -= taken
        last, place = worst, at
    return float(value)


@jit
def way_home(c: LifeCounts, within: Bools, s: int) -> int:
    """Outside W: the action that led into W most often, an untried one before all others."""
    chosen, score = 0, -1.0
    for a in range(c.tried.shape[1]):
        home = 1.0
        if c.tried[s, a] > 0:
            home = 0.0
            for j in range(c.times.shape[2]):
                if c.times[s, a, j] == 0:
                    break
                if within[c.successor[s, a, j]]:
                    home += c.times[s, a, j] / c.tried[s, a]
        if home > score:
            chosen, score = a, home
    return chosen


@jit
def extended_iteration(
    c: LifeCounts,
    within: Bools,  # [S]
    allowed: Bools,  # [S, A]
    ball: float,  # d_p = ball / sqrt(n)
    margin: float,  # d_r = margin / sqrt(n)
    accuracy: float,  # stop once all values grow at the same rate up to this
    most: int,  # iterations at most
    prefer: Floats,  # [S, A] which of equally good and equally often tried actions to take: the largest
    u: Floats,  # [S] in: where to start; out
    policy: Ints,  # [S] out
) -> None:
    """The best policy in the best model whose transitions stay in W; outside W: see `way_home`."""
    n_states, n_actions = allowed.shape
    fresh = np.empty(n_states)
    for _ in range(most):
        best = -1
        for s in range(n_states):
            if within[s] and (best < 0 or u[s] > u[best]):
                best = s
        if best < 0:
            break
        slowest, fastest = np.inf, -np.inf
        for s in range(n_states):
            if not within[s]:
                continue
            top, choice = -np.inf, -1
            for a in range(n_actions):
                if not allowed[s, a]:
                    continue
                n = c.tried[s, a]
                q = 1.0 + u[best]
                if n > 0:
                    value = plausible_mean(c.successor[s, a], c.times[s, a], n, best, min(ball / sqrt(n), 2.0), u)
                    q = min(c.earned[s, a] / n + margin / sqrt(n), 1.0) + value
                if choice < 0 or q > top + TIE:
                    choice = a
                elif q > top - TIE:
                    more = n - c.tried[s, choice]
                    if more > 0 or (more == 0 and prefer[s, a] > prefer[s, choice]):
                        choice = a
                top = max(top, q)
            policy[s] = choice
            fresh[s] = u[s] + LAZY * (top - u[s])
            slowest, fastest = min(slowest, fresh[s] - u[s]), max(fastest, fresh[s] - u[s])
        base = np.inf
        for s in range(n_states):
            if within[s]:
                base = min(base, fresh[s])
        for s in range(n_states):
            u[s] = fresh[s] - base if within[s] else 0.0
        if fastest - slowest < accuracy:
            break
    for s in range(n_states):
        if not within[s]:
            policy[s] = way_home(c, within, s)


@jit
def walk(
    m: Model,
    cumulative: Floats,  # [S] of the restart distribution
    c: LifeCounts,
    limit: Ints,  # [S, A] the count at which a pair ends the epoch
    policy: Ints,  # [S]
    t: int,
    s: int,
    u: Floats,  # [T, 3] for the transition, the reward and the restart
    noise: Floats,  # [T] what the rewards' noise adds, or [0]
    bernoulli: bool,
    states: Ints,  # [T] out
    actions: Ints,  # [T] out
    rewards: Floats,  # [T] out
    resets: Bools,  # [T] out: whether the step entered a reset state
) -> tuple[int, int, int]:
    """Walk until the end, until a pair has doubled its count, or until an edge is seen for the first time.

    Returns the time, the state, and why it stopped. A reset state is left at once, to a restart.
    """
    n_actions = c.tried.shape[1]
    while t < len(u):
        a = policy[s]
        states[t], actions[t] = s, a
        pay = m.reward[0, s, a]
        if bernoulli:
            pay = 1.0 if u[t, 1] < pay else 0.0
        elif len(noise) > 0:
            pay += noise[t]
        rewards[t] = pay
        row = s * n_actions + a
        begin = m.indptr[row]
        there = m.indices[begin + pick(m.prob[begin : m.indptr[row + 1]], u[t, 0])]
        j = 0
        while c.times[s, a, j] > 0 and c.successor[s, a, j] != there:
            j += 1
        new = c.times[s, a, j] == 0
        c.successor[s, a, j] = there
        c.times[s, a, j] += 1
        c.tried[s, a] += 1
        c.earned[s, a] += pay
        doubled = c.tried[s, a] >= limit[s, a]
        resets[t] = m.reset[there]
        if m.reset[there]:
            c.known[there] = True
            there = min(np.searchsorted(cumulative, u[t, 2], side="right"), len(cumulative) - 1)
        s = there
        t += 1
        if new:
            return t, s, NEW_EDGE
        if doubled:
            return t, s, DOUBLED
    return t, s, ENDED
