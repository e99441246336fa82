"""Whether a problem is linear in its features, and how far the nearest linear one and the nearest multiplier are.

Legend: N pairs (s, a) outside the reset set, Phi [N, d] their features of rank q; P [N, S] one layer of transitions;
mu [d, S] the signed measures with Phi mu = P; omega [d] with Phi omega = r; U [N, q] an orthonormal basis of Phi.
The norm of mu is the total-variation one, |mu| = sqrt(sum_i (sum_s |mu_i(s)|)^2): it is what bounds |sum_s V(s) mu(s)|
by max|V| sqrt(d) in the proofs, while the paper's pointwise |mu(s)| <= sqrt(d) does not (docs/readings.md, A17).
Costs are charged on arrival, so they are linear because P is: omega_c = sum of mu over the reset states (A6).

**How far a finite problem is from being linear, and its multipliers from a class of functions: measured, not assumed.**
Legend: N pairs (s, a) outside the reset set with features phi [N, d]; eps_P the largest sum over s' of |P - <phi, mu>|,
eps_r the largest |r - <phi, omega>|; I the starts that some behaviour can bring about; lambda_hat the least optimal
multipliers; lambda_c(s) = <xi(s), theta> a function of the dual player's class, eps the largest lambda_hat + 1 -
lambda_c on I (0 if none is positive); R_p, R_d the players' regrets; k data, Lam = reg + sum of phi phi'.

**Multipliers.** For any policies, multipliers and starts in I:  (1 - eps) Resets <= R_p(pi*) + R_d(lambda_c).
  Proof. R_p(pi*) + R_d(lambda_c) = Regret + sum of lambda_c V_c, and Regret >= - sum of lambda_hat V_c by the
  saddle-point: so it is at least the sum of (lambda_c - lambda_hat) V_c >= (1 - eps) Resets.  []
So a class without lambda*, or a B that is a little too small, costs the factor 1 / (1 - eps) in Resets, eps K at most
beyond (R_p + R_d(lambda_c)), and nothing in Regret, whose comparator 0 is in every class. At eps >= 1 nothing is left:
lambda_c may be below lambda_hat, where being reset can pay.

**Dynamics and rewards.** Regress on targets V(s') or r + V(s') with V in an interval of length R: R = H for rewards, 1
for costs. The mean of a datum differs from a linear function of phi by at most z = eps_r + R eps_P (costs: z = eps_P).
That bias b_i adds to the error of the fit at any phi at most z sqrt(k) |phi|_{Lam^-1}, and z at the point itself.
  Proof. |phi' Lam^-1 sum phi_i b_i| <= z sum |phi' Lam^-1 phi_i| <= z sqrt(k) (sum (phi' Lam^-1 phi_i)^2)^(1/2) <=
  z sqrt(k) |phi|_{Lam^-1}, since sum phi_i phi_i' <= Lam.  []
So with widths beta + z sqrt(K) (beta solved with these in its cover) and z more at each point both directions of every
Bellman inequality hold as before, and the primal part of the rate grows by
  2 H (z_r + B z_c) K (1 + sqrt(2 d ln(1 + K/d))),
twice the additions along each episode: a term of order eps K sqrt(d), which no K makes small. A player may
widen itself so (`theory.proved_widths`, nearly linear): it says for which eps (`Proof.misfit`), and `certify` measures
both and calls proved what rests on them where they suffice. The ridge's part of the widths needs |mu|, |omega| <=
sqrt(d), so eps is measured to functions of that size (`nearest_linear`). Where a player does not widen itself and
eps > 0, `certify` calls tuned what rests on linearity.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from resetfree.core import Floats, InvalidInput, NotCertifiable, arguments, expect
from resetfree.core.certificate import Certificate
from resetfree.problems import FiniteMDP, check_model
from resetfree.problems.finite.safety import Finding, reachable_starts
from resetfree.theory.oracle.dynamic_programming import solve

TOLERANCE = 1e-9
DENSE_ENTRIES = 20_000_000  # residuals of all N*S entries are formed (in chunks of rows) up to here
SKETCHED_ROWS = 256  # beyond it, those of the rows that random projections single out
PROGRAM_ENTRIES = 5_000  # the norm of mu is minimised over the null space of Phi up to this many entries d*S
PROGRAM_ROUNDS = 40  # and by at most this many linear programs


def linearity(mdp: FiniteMDP, phi: ArrayLike | None = None) -> Finding:
    """Whether P_h(s'|s,a) = <phi(s,a), mu_h(s')> and r_h(s,a) = <phi(s,a), omega_h>, with the norms of the assumption.

    Paper: linear MDP (assumption).

    phi: [S, A, d] (default: the problem's own, else one-hot). Pairs of reset states are left out: no actions there.
    Norms: |phi| <= 1, |mu_h| (total variation) <= sqrt(d), |omega_h| <= sqrt(d).

    >>> import resetfree as rf
    >>> mdp = rf.make("grid-v0")
    >>> linearity(mdp).holds
    True
    >>> found = linearity(mdp, np.ones((12, 5, 1)))
    >>> found.holds, found.detail["worst"]["part"]
    (False, 'transition')
    """
    chosen = mdp.phi if phi is None else phi
    if chosen is None:
        return _one_hot(mdp)
    features = known_features(chosen, "phi", (mdp.n_states, mdp.n_actions))
    basis = _Basis.of(features[~mdp.reset].reshape(-1, features.shape[2]))
    pairs = np.flatnonzero(np.repeat(~mdp.reset, mdp.n_actions))
    worst: dict[str, Any] = {"residual": 0.0, "part": None}
    norms = {"mu": 0.0, "mu_pointwise": 0.0, "cost": 0.0, "reward": 0.0}
    undecided = False
    for layer in range(mdp.transition.n_layers if mdp.n_transitions else 0):
        if layer >= mdp.n_transitions:  # the literal boundary's last layer moves nothing
            break
        matrix = mdp.transition.matrix(layer)[pairs]
        coefficients = np.ascontiguousarray((matrix.T @ basis.u).T)  # U^T P [q, S]
        row, residual = _largest_residual(matrix, basis.u, coefficients)
        _keep_worst(worst, mdp, pairs[row], None if mdp.transition.stationary else layer, residual, part="transition")
        mu = basis.solve(coefficients)
        mu, certain = _smaller_measures(mu, basis)
        undecided = undecided or not certain
        is_reset = mdp.last_reset if layer == mdp.n_transitions - 1 or mdp.transition.stationary else mdp.reset
        norms["mu"] = max(norms["mu"], _variation(mu))
        norms["mu_pointwise"] = max(norms["mu_pointwise"], float(np.linalg.norm(mu, axis=0).max()))
        costs = [float(np.linalg.norm(mu[:, ends].sum(axis=1))) for ends in (mdp.reset, is_reset)]
        norms["cost"] = max(norms["cost"], *costs)
    for h, reward in enumerate(mdp.reward.reshape(len(mdp.reward), -1)[:, pairs]):
        coefficients = basis.u.T @ reward
        error = np.abs(reward - basis.u @ coefficients)
        row = int(np.argmax(error))
        _keep_worst(worst, mdp, pairs[row], h if len(mdp.reward) > 1 else None, float(error[row]), part="reward")
        norms["reward"] = max(norms["reward"], float(np.linalg.norm(basis.solve(coefficients))))
    sizes = np.linalg.norm(features, axis=2) * ~mdp.reset[:, None]
    detail: dict[str, Any] = {"d": basis.d, "rank": basis.rank, "largest_phi": float(sizes.max())}
    detail |= {"limit": float(np.sqrt(basis.d)), "norms": norms, "worst": worst}
    return _verdict(mdp, detail, sizes, undecided)


def _verdict(mdp: FiniteMDP, detail: dict[str, Any], sizes: Floats, undecided: bool) -> Finding:
    """The first thing that fails, or that nothing does."""
    worst, norms, limit = detail["worst"], detail["norms"], detail["limit"]
    if worst["residual"] > TOLERANCE:
        step = "" if worst["step"] is None else f", step {worst['step']}"
        sentence = (
            f"The {worst['part']} of state {mdp.state_names[worst['state']]}, action "
            f"{mdp.action_names[worst['action']]}{step} is not linear in phi: the best fit is off by "
            f"{worst['residual']:.3g}."
        )
        return Finding("linearity", False, sentence, worst["state"], detail)
    if detail["largest_phi"] > 1 + TOLERANCE:
        s, a = divmod(int(np.argmax(sizes)), mdp.n_actions)
        sentence = (
            f"phi must have norm at most 1. Got {detail['largest_phi']:.6g} at state {mdp.state_names[s]}, action "
            f"{mdp.action_names[a]} instead."
        )
        return Finding("linearity", False, sentence, s, detail)
    what = {"mu": "The total-variation norm of mu", "reward": "The norm of omega"}
    for name in ("reward", "mu"):
        if norms[name] > limit * (1 + TOLERANCE):
            if name == "mu" and undecided:
                sentence = (
                    f"P and r are linear in phi, but phi has rank {detail['rank']} < d = {detail['d']}: the measures "
                    f"found have norm {norms['mu']:.6g} > sqrt(d) = {limit:.6g}, and others may be smaller."
                )
                return Finding("linearity", None, sentence, None, detail)
            sentence = f"{what[name]} must be at most sqrt(d) = {limit:.6g}. Got {norms[name]:.6g} instead."
            return Finding("linearity", False, sentence, None, detail)
    sentence = (
        f"P and r are linear in phi (d = {detail['d']}) up to {worst['residual']:.1e}; largest norms: phi "
        f"{detail['largest_phi']:.4g} <= 1; mu {norms['mu']:.4g}, omega {norms['reward']:.4g}, both <= {limit:.4g}."
    )
    return Finding("linearity", True, sentence, None, detail)


def _one_hot(mdp: FiniteMDP) -> Finding:
    """With phi = e_(s,a), mu of a pair is its row of P, so each |mu_i|(S) = 1, and |omega| <= sqrt(d) as r <= 1."""
    d = int((~mdp.reset).sum()) * mdp.n_actions
    detail = {"d": d, "rank": d, "largest_phi": 1.0, "limit": float(np.sqrt(d)), "one_hot": True}
    sentence = (
        "One-hot features make every finite problem linear: mu is P itself, with norm sqrt(d), and omega is r. "
        f"Nothing was computed; d = {d}."
    )
    return Finding("linearity", True, sentence, None, detail)


def known_features(given: ArrayLike, name: str, lead: tuple[int, ...]) -> Floats:
    """The features `phi` [S, A, d] or `xi` [S, d] of a check; lead: S, A or S."""
    array = arguments.array(given, f"'{name}' of check")
    if array.shape[:-1] != lead or not array.shape[-1]:
        named, sizes = ", ".join("SA"[: len(lead)]), ", ".join(map(str, lead))
        raise InvalidInput(
            f"The '{name}' of check must have shape [{named}, d] = [{sizes}, d]. Got {array.shape} instead."
        )
    expect(np.isfinite(array).all(), f"'{name}' of check", "be finite", got="a number that is not")
    return array


@dataclass(frozen=True, eq=False)
class _Basis:
    """Phi = U diag(s) V^T, cut at its numerical rank q."""

    u: Floats  # [N, q]
    v_over_s: Floats  # [d, q]
    null: Floats  # [d, d - q] orthonormal, Phi null = 0

    @classmethod
    def of(cls, matrix: Floats) -> _Basis:
        u, s, vt = np.linalg.svd(matrix, full_matrices=False)
        d = matrix.shape[1]
        q = int((s > s.max(initial=0.0) * max(matrix.shape) * np.finfo(float).eps).sum())
        null = np.linalg.svd(vt[:q], full_matrices=True)[2][q:].T if q < d else np.zeros((d, 0))
        return cls(u[:, :q], vt[:q].T / s[:q], null)

    @property
    def d(self) -> int:
        return len(self.v_over_s)

    @property
    def rank(self) -> int:
        return int(self.u.shape[1])

    def solve(self, coefficients: Floats) -> Floats:
        """The solution of least norm, from U^T (right-hand side)."""
        return np.asarray(self.v_over_s @ coefficients)


def _largest_residual(matrix: Any, u: Floats, coefficients: Floats) -> tuple[int, float]:
    """Row and size of the largest |P - U U^T P|, never holding more than a chunk of its rows.

    Where N*S is large, only rows that random projections single out are checked: a row's residual e is seen through
    e.g for several Gaussian g, so a row that is not zero shows itself with probability one.
    """
    n_rows, n_states = matrix.shape
    rows: NDArray[np.int64] = np.arange(n_rows)
    if n_rows * n_states > DENSE_ENTRIES:
        directions = np.random.default_rng(0).standard_normal((n_states, 8))
        seen = matrix @ directions - u @ (coefficients @ directions)
        rows = np.argsort(-np.linalg.norm(seen, axis=1))[:SKETCHED_ROWS]
    best, largest = 0, 0.0
    chunk = max(1, DENSE_ENTRIES // (8 * n_states))
    for i in range(0, len(rows), chunk):
        part = rows[i : i + chunk]
        error = np.abs(matrix[part].toarray() - u[part] @ coefficients).max(axis=1)
        j = int(np.argmax(error))
        if error[j] > largest:
            best, largest = int(part[j]), float(error[j])
    return best, largest


def _keep_worst(
    worst: dict[str, Any], mdp: FiniteMDP, pair: int, layer: int | None, residual: float, part: str
) -> None:
    if residual > worst["residual"] or worst["part"] is None:
        state, action = divmod(int(pair), mdp.n_actions)
        step = None if layer is None else layer + 1
        worst.update(residual=residual, part=part, state=state, action=action, step=step)


def _variation(mu: Floats) -> float:
    """Total-variation norm: sqrt(sum_i (sum_s |mu_i(s)|)^2)."""
    return float(np.linalg.norm(np.abs(mu).sum(axis=1)))


def _smaller_measures(mu: Floats, basis: _Basis) -> tuple[Floats, bool]:
    """Measures of smaller total-variation norm where Phi leaves freedom, and whether the verdict on them is certain.

    With t_i the l1 norm of row i the norm sought is |t|_2 = max of w.t over unit vectors w >= 0. Linear programs that
    minimise that maximum over finitely many w give lower bounds, their solutions upper bounds; each adds its own
    direction w. The first has the unit vectors for w: it minimises the largest row.
    """
    limit = np.sqrt(basis.d) * (1 + TOLERANCE)
    if not basis.null.shape[1] or _variation(mu) <= limit:
        return mu, True
    if mu.size > PROGRAM_ENTRIES:
        return mu, False
    best, directions = mu, np.eye(basis.d)
    for _ in range(PROGRAM_ROUNDS):
        found = _least_rows(mu, basis.null, directions)
        if found is None:
            break
        measures, bound = found
        best = min(best, measures, key=_variation)
        if _variation(best) <= limit or bound > limit * (1 + 1e-7):  # the solver's tolerance
            return best, True
        rows = np.abs(measures).sum(axis=1)
        directions = np.vstack([directions, rows / np.linalg.norm(rows)])
    return best, False


def _least_rows(mu: Floats, null: Floats, directions: Floats) -> tuple[Floats, float] | None:
    """The mu + null z with the least max_j w_j.t over the `directions` w_j [m, d], t the rows' l1 norms; and that max.

    Variables of the linear program: z [k, S] free; bounds [d, S] on |mu + null z|; t [d]; the maximum.
    """
    from scipy.optimize import linprog  # slow to import, and seldom needed

    (d, n), k = mu.shape, null.shape[1]
    move, eye = sparse.kron(null, sparse.eye_array(n)), sparse.eye_array(d * n)
    row_sums = sparse.kron(sparse.eye_array(d), np.ones((1, n)))
    above = sparse.block_array(
        [
            [move, -eye, None, None],
            [-move, -eye, None, None],
            [None, row_sums, -sparse.eye_array(d), None],
            [None, None, sparse.csr_array(directions), -np.ones((len(directions), 1))],
        ],
        format="csr",
    )
    solved = linprog(
        np.eye(1, above.shape[1], above.shape[1] - 1)[0],
        A_ub=above,
        b_ub=np.concatenate([-mu.ravel(), mu.ravel(), np.zeros(d + len(directions))]),
        bounds=[(None, None)] * (k * n) + [(0, None)] * (d * n + d + 1),
        method="highs",
    )
    if not solved.success:
        return None
    return np.asarray(mu + null @ solved.x[: k * n].reshape(k, n)), float(solved.fun)


class Misspecification(NamedTuple):
    """Distances to the nearest linear problem that was found: upper bounds on the least ones."""

    transition: float  # eps_P, by least squares
    reward: float  # eps_r, by a linear program: the least there is


def misspecification(mdp: FiniteMDP) -> Misspecification:
    """eps_P and eps_r of a problem for its features phi [S, A, d]; without any, one-hot, with which both are 0.

    >>> import resetfree as rf
    >>> near, far = (misspecification(rf.make("random-linear-v0", epsilon=eps)) for eps in (0.0, 0.1))
    >>> near.transition < 1e-9, near.reward < 1e-9, 0.05 < far.transition <= 0.2, 0.01 < far.reward <= 0.1
    (True, True, True, True)
    """
    return _distances(mdp, np.inf)


def nearest_linear(mdp: FiniteMDP) -> Misspecification:
    """eps_P and eps_r to a linear problem with the norms of the assumption, |mu| (total variation), |omega| <= sqrt(d).

    The best fits, shortened to sqrt(d) where they are longer.

    >>> import resetfree as rf
    >>> [round(x, 3) for x in nearest_linear(rf.make("random-linear-v0", epsilon=0.1))]
    [0.156, 0.047]
    """
    return _distances(mdp, 0.0 if mdp.phi is None else sqrt(np.shape(mdp.phi)[-1]))


def _distances(mdp: FiniteMDP, limit: float) -> Misspecification:
    """eps_P and eps_r to a problem that is linear in its phi, with norms of at most `limit`."""
    check_model(mdp, "A distance to linear problems")
    if mdp.phi is None:
        return Misspecification(0.0, 0.0)
    features = known_features(mdp.phi, "phi", (mdp.n_states, mdp.n_actions))
    rows = features[~mdp.reset].reshape(-1, features.shape[2])
    pairs, t = np.flatnonzero(np.repeat(~mdp.reset, mdp.n_actions)), mdp.transition
    moved = paid = 0.0
    for layer in range(min(t.n_layers, mdp.n_transitions)):
        matrix = t.matrix(layer)[pairs].toarray()
        mu = np.linalg.lstsq(rows, matrix, rcond=None)[0]
        mu *= _shortened(np.abs(mu).sum(axis=1), limit)
        moved = max(moved, float(np.abs(matrix - rows @ mu).sum(axis=1).max()))
    for reward in mdp.reward.reshape(len(mdp.reward), -1)[:, pairs]:
        omega = _best_fit(rows, reward)
        omega *= _shortened(omega, limit)
        paid = max(paid, float(np.abs(reward - rows @ omega).max()))
    return Misspecification(moved, paid)


def _shortened(vector: Floats, limit: float) -> float:
    """The factor that brings a vector to the norm `limit` where it is longer."""
    size = float(np.linalg.norm(vector))
    return limit / size if size > limit else 1.0


def _best_fit(rows: Floats, target: Floats) -> Floats:
    """The w with the least max |target - rows w|: a linear program in w and the maximum."""
    from scipy.optimize import linprog  # slow to import, and seldom needed

    ones = np.ones((len(rows), 1))
    above = np.vstack([np.hstack([rows, -ones]), np.hstack([-rows, -ones])])
    limits = [(None, None)] * rows.shape[1] + [(0, None)]
    cost = np.eye(1, rows.shape[1] + 1, rows.shape[1])[0]
    found = linprog(cost, A_ub=above, b_ub=np.concatenate([target, -target]), bounds=limits, method="highs")
    return np.asarray(found.x[:-1])


def nearest_multipliers(mdp: FiniteMDP, xi: Floats, cap: float) -> tuple[Floats, Floats]:
    """The theta [d'] with |theta_i| <= cap of the least eps, and lambda_hat + 1 [S], nan where no episode starts.

    >>> import resetfree as rf
    >>> theta, wanted = nearest_multipliers(rf.make("grid-v0"), np.ones((12, 1)), 38.0)
    >>> round(float(theta[0]), 6), round(float(np.nanmax(wanted - theta[0])), 4)
    (38.0, 0.8665)
    """
    from scipy.optimize import linprog  # slow to import, and seldom needed

    starts = np.flatnonzero(reachable_starts(mdp).states)
    wanted = np.full(mdp.n_states, np.nan)
    wanted[starts] = solve(mdp, starts=starts).lambda_hat[starts] + 1.0
    if not np.isfinite(wanted[starts]).all():
        raise NotCertifiable("The multiplier of some start exceeds what a float can hold.")
    d = xi.shape[1]
    above = np.hstack([-xi[starts], -np.ones((len(starts), 1))])  # <xi, theta> + eps >= lambda_hat + 1
    limits = [(-cap, cap)] * d + [(0, None)]
    found = linprog(np.eye(1, d + 1, d)[0], A_ub=above, b_ub=-wanted[starts], bounds=limits, method="highs")
    if found.x is None:  # the solver takes numbers above 1e20 for infinite
        raise NotCertifiable("The multipliers are too large for the linear program that finds the nearest function.")
    return np.asarray(found.x[:-1]), wanted


def ridge_bias(data: ArrayLike, bias: ArrayLike, phi: ArrayLike) -> Certificate:
    """What biased data [k, d] add to a ridge regression's error at phi [d], against z sqrt(k) |phi|_{Lam^-1}.

    >>> ridge_bias(np.ones((4, 1)), np.full(4, 0.1), [1.0]).holds
    True
    """
    rows, b, point = (np.asarray(x, dtype=np.float64) for x in (data, bias, phi))
    inverse = np.linalg.inv(np.eye(rows.shape[1]) + rows.T @ rows)
    most = np.abs(b).max(initial=0.0) * np.sqrt(len(b)) * np.sqrt(point @ inverse @ point)
    claim = "biased data move a ridge regression by at most z sqrt(k) |phi|"
    return Certificate(claim, abs(float(point @ inverse @ (rows.T @ b))), float(most))
