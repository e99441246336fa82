"""Planning on stored transitions: every step to go reads the features of all rows once, block by block.

Legend: N rows in the order of visit, the action of row j leads to row j + 1; psi [N, d] features of rows; one ridge
regression per action, Lam_a = reg I + sum psi psi^T over its rows; V in [-lam, t] the composite with t steps to go, V_r
and V_c what the greedy policy earns and costs without bonus; -lam, 0 and 1 in rows that are reset states.
"""

from __future__ import annotations

import numpy as np

from resetfree.core.compiled import jit
from resetfree.players.linear.composite import TIE, choose
from resetfree.problems.finite.backward import Bools, Floats, Ints

CACHE = 500_000  # bytes of features that stay near the processor while a block is worked on
COLUMNS = 3  # of each action: the composite, reward, cost


@jit
def add_targets(psi: Floats, action: Ints, target: Floats, total: Floats) -> None:
    """Total [A, 3, d] += psi_j target_j [3] in the rows that have an action."""
    for j in range(len(psi)):
        a = action[j]
        if a < 0:
            continue
        y, y_r, y_c = target[j, 0], target[j, 1], target[j, 2]
        row, b, b_r, b_c = psi[j], total[a, 0], total[a, 1], total[a, 2]
        for i in range(len(row)):
            x = row[i]
            b[i] += x * y
            b_r[i] += x * y_r
            b_c[i] += x * y_c


@jit
def solve_all(root: Floats, total: Floats, w: Floats) -> None:
    """Weights w [d, 3A] = Lam_a^-1 total_a, the columns of composite, reward and cost side by side.

    Through the root, whose entries are far smaller than those of Lam_a^-1: that keeps half of the digits.
    """
    n_actions = len(root)
    for a in range(n_actions):
        for c in range(COLUMNS):
            w[:, c * n_actions + a] = np.dot(root[a].T, np.dot(root[a], total[a, c]))


@jit
def plan_stored(
    psi: Floats,  # [N, d]
    action: Ints,  # [N] negative if no action was taken
    reward: Floats,  # [N]
    dead: Bools,  # [N]
    width2: Floats,  # [N, A] squared widths
    root: Floats,  # [A, d, d] Lam_a^-1 = root_a^T root_a
    bonus: float,  # weight of a width in the composite
    lam: float,
    moves_last: bool,  # whether the action with one step to go moves the agent
    estimated: int,  # steps to go for which V_r and V_c are estimated
    weight: Floats,  # [K, d, A] out: composite weights of the K largest numbers of steps to go, the largest first
    weight_r: Floats,  # [d, A] out, with `estimated` steps to go
    weight_c: Floats,  # [d, A] out
    steps: int,  # the planning horizon
) -> None:
    """w_t = Lam_a^-1 sum psi (r + V_{t-1}(s')) for t = 1 .. steps, V_t = max_a clip(psi.w_t + bonus width, -lam, t)."""
    n, d = psi.shape
    n_actions = len(root)
    block = max(1, CACHE // (8 * max(d, 1)))
    total, w = np.zeros((n_actions, COLUMNS, d)), np.zeros((d, COLUMNS * n_actions))
    q, target = np.empty((block, COLUMNS * n_actions)), np.zeros((block, COLUMNS))
    composite, width2_of = np.empty(n_actions), np.empty(n_actions)
    for t in range(steps + 1):
        if t > 0:
            solve_all(root, total, w)
            if t > steps - len(weight):
                weight[steps - t] = w[:, :n_actions]
            if t == estimated:
                weight_r[:] = w[:, n_actions : 2 * n_actions]
                weight_c[:] = w[:, 2 * n_actions :]
            if t == steps:
                return
            total[:] = 0.0
        after, after_r, after_c = 0.0, 0.0, 0.0  # values of row j + 1; the last row has no action
        high = n
        while high > 0:  # backwards, since a target needs the value of the next row
            low = max(high - block, 0)
            if t > 0:
                np.dot(psi[low:high], w, q[: high - low])
            for j in range(high - 1, low - 1, -1):
                i = j - low
                target[i, 0], target[i, 1], target[i, 2] = reward[j] + after, reward[j] + after_r, after_c
                if dead[j]:
                    moved = t > 0 or moves_last
                    after, after_r, after_c = -lam if moved else 0.0, 0.0, 1.0 if moved else 0.0
                elif t > 0:
                    for a in range(n_actions):
                        width2_of[a] = width2[j, a]
                        worth = q[i, a] + bonus * np.sqrt(width2_of[a])
                        composite[a] = max(min(worth, float(t)), -lam)
                    a = choose(composite, width2_of, 0, n_actions)
                    after = composite[a]
                    after_r = max(min(q[i, n_actions + a], float(t)), 0.0)
                    after_c = max(min(q[i, 2 * n_actions + a], 1.0), 0.0)
                else:
                    after, after_r, after_c = 0.0, 0.0, 0.0
            add_targets(psi[low:high], action[low:high], target, total)
            high = low


@jit
def squared_width(root: Floats, x: Floats) -> float:
    """|root x|^2, the squared width of one row."""
    y = np.dot(root, x)
    return float(np.dot(y, y))


@jit
def decide(
    psi: Floats,  # [n, d]
    weight: Floats,  # [d, A]
    root: Floats,  # [A, d, d]
    bonus: float,
    floor: float,
    cap: float,
    q: Floats,  # [n, A] out
    chosen: Ints,  # [n] out
) -> None:
    """Q = clip(psi.w + bonus width, floor, cap) of rows, and the action of largest Q, of smallest width where some tie.

    Widths take d^2 operations each, and are left out where nothing depends on them.
    """
    n_actions = len(root)
    for j in range(len(psi)):
        x, now, width2 = psi[j], q[j], np.zeros(n_actions)
        for i in range(len(x)):
            for a in range(n_actions):
                now[a] = x[i] * weight[i, a] if i == 0 else now[a] + x[i] * weight[i, a]
        if bonus != 0.0:
            for a in range(n_actions):
                width2[a] = squared_width(root[a], x)
                now[a] += bonus * np.sqrt(width2[a])
        best, ties = -np.inf, 0
        for a in range(n_actions):
            now[a] = max(min(now[a], cap), floor)
            best = max(best, now[a])
        for a in range(n_actions):
            ties += now[a] >= best - TIE
        if ties > 1 and bonus == 0.0:
            for a in range(n_actions):
                width2[a] = squared_width(root[a], x)
        chosen[j] = choose(now, width2, 0, n_actions)
