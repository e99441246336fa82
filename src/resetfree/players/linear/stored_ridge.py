"""One ridge regression per action on stored rows: features, determinants and the width of every row.

Legend: psi [n, d] features of rows; Lam_a = reg I + sum psi psi^T over the rows with action a; width2 [n, A] the
squared widths psi^T Lam_a^-1 psi of all rows, which are kept and corrected for new data, not computed again.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from resetfree.core import Bools, Floats, Ints, InvalidInput, jit, longer, require
from resetfree.game.replay_buffer import NO_ACTION, ReplayBuffer
from resetfree.players.linear.ridge import TIE, choose
from resetfree.problems.features import Features

# Planning on stored transitions: every step to go reads the features of all rows once, block by block.
#
# Legend: N rows in the order of visit, the action of row j leads to row j + 1; psi [N, d] features of rows; one ridge
# regression per action, Lam_a = reg I + sum psi psi^T over its rows; V in [-lam, t] the composite with t steps to go,
# V_r and V_c what the greedy policy earns and costs without bonus; -lam, 0 and 1 in rows that are reset states.

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
    terminated: Bools,  # [N]
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
                if terminated[j]:
                    moved = t > 0 or moves_last
                    after, after_r, after_c = -lam if moved else 0.0, 0.0, 1.0 if moved else 0.0
                elif t > 0:
                    for a in range(n_actions):
                        width2_of[a] = width2[j, a]
                        value = q[i, a] + bonus * np.sqrt(width2_of[a])
                        composite[a] = max(min(value, float(t)), -lam)
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


# --------------------------------------------------------------------------------------------------------------------

BY_FEATURE = {"grows": (1, 2)}
BLOCK = 2048  # rows whose products are in memory at a time


@dataclass
class Ridge:
    """Lam_a of all rows; roots and widths of the first `fitted` rows, which is what plans are made from."""

    features: Features
    gram: Floats = field(metadata=BY_FEATURE)  # [A, d, d] Lam_a
    fitted: int
    root: Floats = field(metadata=BY_FEATURE)  # [A, d, d] lower, Lam_a^-1 = root_a^T root_a of `fitted` rows
    log_det: Floats  # [A] log det Lam_a of the first `fitted` rows
    width2: Floats = field(metadata={"grows": (0,)})  # [fitted, A]: they do not follow from the rows alone
    reg: float = field(metadata={"saved": False})
    seen: int = field(metadata={"saved": False})  # rows whose features are in `psi`: after loading, none
    psi: Floats = field(metadata={"saved": False})  # [room, d] 0 in reset states, where no action is taken

    def check_loaded(self) -> None:
        """Matrices of as many features as there are, which may depend on what was seen, and widths of all rows."""
        d = self.features.dimension
        shape = (len(self.gram), d, d)
        require(self.gram.shape == shape and self.root.shape == shape, f"'gram' and 'root' must have shape {shape}")
        require(self.fitted == len(self.width2), "'width2' must have all rows that are fitted")


def no_ridge(features: Features, n_actions: int, reg: float) -> Ridge:
    """No data: Lam_a = reg I."""
    d = features.dimension
    eye = np.eye(d)
    gram, root = np.tile(reg * eye, (n_actions, 1, 1)), np.tile(eye / np.sqrt(reg), (n_actions, 1, 1))
    log_det = np.full(n_actions, d * np.log(reg))
    width2, psi = np.zeros((0, n_actions)), np.zeros((1, d))
    return Ridge(features, gram, 0, root, log_det, width2=width2, reg=reg, seen=0, psi=psi)


def features_of_rows(ridge: Ridge, rows: ReplayBuffer) -> Floats:
    """Features [n, d] of all rows; those that are missing are computed.

    One call for each episode: a product over many rows may round otherwise than one over few, and a run that is
    resumed must go on with the same bits.
    """
    if ridge.seen < rows.n:
        before = ridge.psi if ridge.seen else np.zeros((len(rows.state), ridge.features.dimension))
        ridge.psi = longer(before, rows.n, 0)
        ends = ridge.seen + 1 + np.flatnonzero(rows.action[ridge.seen : rows.n] == NO_ACTION)
        for end in ends.tolist():
            live = end - bool(rows.terminated[end - 1])
            ridge.psi[ridge.seen : live] = ridge.features(rows.state[ridge.seen : live])
            ridge.psi[live:end] = 0.0
            ridge.seen = end
    return ridge.psi[: rows.n]


def add_rows(ridge: Ridge, rows: ReplayBuffer, first: int) -> None:
    """Lam_a += psi psi^T over the rows from `first` on."""
    psi, action = features_of_rows(ridge, rows), rows.action[first : rows.n]
    for a in range(len(ridge.gram)):
        which = first + np.flatnonzero(action == a)
        for low in range(0, len(which), BLOCK):
            x = psi[which[low : low + BLOCK]]
            ridge.gram[a] += x.T @ x


def use_features(ridge: Ridge, rows: ReplayBuffer, features: Features) -> Ridge:
    """Replace the features, and compute everything again."""
    new = no_ridge(features, len(ridge.gram), ridge.reg)
    add_rows(new, rows, 0)
    fit(new, rows)
    return new


def log_dets(ridge: Ridge) -> Floats:
    """[A] log det Lam_a of all rows."""
    return np.array([2.0 * np.log(np.diag(_lower(gram))).sum() for gram in ridge.gram])


def fit(ridge: Ridge, rows: ReplayBuffer) -> None:
    """Roots, determinants and widths of all rows so far.

    With m new rows X of an action, Lam^-1 X^T = U and L L^T = I + X U, the squared widths of old rows fall by
    |psi U L^-T|^2: n d m operations where n d^2 are needed from nothing, so that is done where m is not below d.
    """
    psi, old = features_of_rows(ridge, rows), ridge.fitted
    ridge.width2 = np.concatenate([ridge.width2, np.zeros((rows.n - old, len(ridge.gram)))])
    for a in range(len(ridge.gram)):
        lower = _lower(ridge.gram[a])
        root = solve_triangular(lower, np.eye(len(lower)), lower=True)
        x = psi[old + np.flatnonzero(rows.action[old : rows.n] == a)]
        width2 = ridge.width2[:, a]
        kept = old if len(x) < len(lower) else 0
        if kept and len(x):
            y = ridge.root[a] @ x.T
            inner, u = cholesky(np.eye(len(x)) + y.T @ y, lower=True), ridge.root[a].T @ y
            width2[:old] = np.maximum(width2[:old] - _squares(psi[:old], solve_triangular(inner, u.T, lower=True)), 0.0)
        width2[kept : rows.n] = _squares(psi[kept:], root)
        ridge.root[a], ridge.log_det[a] = root, 2.0 * np.log(np.diag(lower)).sum()
    ridge.fitted = rows.n


def _squares(psi: Floats, m: Floats) -> Floats:
    """[n] |M psi_j|^2 of every row."""
    result = np.empty(len(psi))
    for low in range(0, len(psi), BLOCK):
        y = psi[low : low + BLOCK] @ m.T
        result[low : low + BLOCK] = np.einsum("ij,ij->i", y, y)
    return result


def _lower(gram: Floats) -> Floats:
    """Cholesky's L with L L^T = Lam."""
    try:
        return np.asarray(cholesky(gram, lower=True))
    except LinAlgError as error:
        raise InvalidInput(
            "The 'reg' of a ridge regression must be large enough beside its features. Got a matrix that is singular "
            f"to rounding, with the largest entry {gram.max():g}, instead."
        ) from error
