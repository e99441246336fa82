"""One ridge regression per action on stored rows: features, determinants and the width of every row.

Legend: psi [n, d] features of rows; Lam_a = reg I + sum psi psi^T over the rows with action a; width2 [n, A] the
squared widths psi^T Lam_a^-1 psi of all rows, which are kept and corrected for new data, not computed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from resetfree.core.errors import InvalidInput
from resetfree.core.state import require
from resetfree.players.replay_buffer import NO_ACTION, StoredRows
from resetfree.players.tabular.sparse_counts import longer
from resetfree.problems.features import Features
from resetfree.problems.finite.transitions import Floats

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


def features_of_rows(ridge: Ridge, rows: StoredRows) -> Floats:
    """Features [n, d] of all rows; those that are missing are computed.

    One call for each episode: a product over many rows may round otherwise than one over few, and a run that is
    resumed must go on with the same bits.
    """
    if ridge.seen < rows.n:
        before = ridge.psi if ridge.seen else np.zeros((len(rows.state), ridge.features.dimension))
        ridge.psi = longer(before, rows.n, 0)
        ends = ridge.seen + 1 + np.flatnonzero(rows.action[ridge.seen : rows.n] == NO_ACTION)
        for end in ends.tolist():
            live = end - bool(rows.dead[end - 1])
            ridge.psi[ridge.seen : live] = ridge.features(rows.state[ridge.seen : live])
            ridge.psi[live:end] = 0.0
            ridge.seen = end
    return ridge.psi[: rows.n]


def add_rows(ridge: Ridge, rows: StoredRows, first: int) -> None:
    """Lam_a += psi psi^T over the rows from `first` on."""
    psi, action = features_of_rows(ridge, rows), rows.action[first : rows.n]
    for a in range(len(ridge.gram)):
        which = first + np.flatnonzero(action == a)
        for low in range(0, len(which), BLOCK):
            x = psi[which[low : low + BLOCK]]
            ridge.gram[a] += x.T @ x


def use_features(ridge: Ridge, rows: StoredRows, features: Features) -> Ridge:
    """Replace the features, and compute everything again."""
    new = no_ridge(features, len(ridge.gram), ridge.reg)
    add_rows(new, rows, 0)
    fit(new, rows)
    return new


def log_dets(ridge: Ridge) -> Floats:
    """[A] log det Lam_a of all rows."""
    return np.array([2.0 * np.log(np.diag(_lower(gram))).sum() for gram in ridge.gram])


def fit(ridge: Ridge, rows: StoredRows) -> None:
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
