"""Several smooth functions of one input, fitted exactly to few examples: Gaussian processes with learned scales.

Output o of the input x [d] is a sum of a linear part and of a smooth part around it, seen with noise:

    y_o = weight.(1, x) + smooth_o(x) + noise,   weight ~ N(0, c_o),   cov smooth_o = f_o k(|x - x'| / l)

with k(r) = exp(-r^2 / 2), or, for functions that have edges, Matern's (1 + t) exp(-t) with t = sqrt(3) r. The lengths
l [d] are shared; amplitude f_o, linear variance c_o and noise s_o belong to each output. The lengths are those of
largest likelihood on at most `ROWS` examples; outputs that rest in most examples (the force of an end stop) have no say
in them, for what jumps has short lengths. The functions themselves are then solved for, from all examples, in the basis
(1, x, radial functions around at most `CENTRES` examples), with f, c and s by evidence from all of them: few examples
are easily fitted without noise. Functions are drawn from what remains possible: where little was seen, draws differ.

Legend: n examples, d inputs, k = d + 1, O outputs, m radial functions, F = k + m, B draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, eigh, solve_triangular
from scipy.optimize import minimize

from resetfree.core.arrays import Bools, Floats

ROWS = 160  # examples that the scales are fitted to
CENTRES = 160  # radial functions at most
STEPS = 40  # of the search for the scales
AGAIN = 10  # the same, where it begins near them
LENGTH = 1.5  # log length that is expected, in units of an input's deviation
USUAL = (0.0, -1.0, -3.0)  # log deviations of the smooth part, a linear weight and noise that the search starts from
LEAST_NOISE = 1e-6  # of an output's variance: keeps the equations solvable
RENEWALS = 3  # times that f, c and s are estimated from all examples
RESTING = 3e-3  # an output rests if half of its examples are nearer to their median than this part of its deviation
LEAST_FREE = 0.05  # least part of the examples that is left for the noise when the weights are determined
JITTER = 1e-6  # on the covariance of the radial functions, as above
TINY = 1e-6  # least deviation of an output
ENOUGH = 40  # examples from which on some may be left out
JUMP, LEAST_GAP = 10.0, 0.02  # an example is left out that is missed by so many times the median (at least LEAST_GAP)
LEAST_REST = 1e-3  # least part of a fit that the other examples have
BOUNDS = {"length": (-1.0, 6.0), "smooth": (-6.0, 4.0), "linear": (-6.0, 2.0), "noise": (-7.0, 0.5)}  # of logarithms


class Scales(NamedTuple):
    """The parameters of the processes, for outputs of mean 0 and variance 1."""

    length: Floats  # [d]
    smooth: Floats  # [O] f
    linear: Floats  # [O] c
    noise: Floats  # [O] s


class Basis(NamedTuple):
    """The functions that all others are sums of, at n inputs."""

    value: Floats  # [n, F]
    steep: Floats  # [n, m] what the derivatives of the radial ones are made of


@dataclass(frozen=True, eq=False)
class Draws:
    """Functions that agree with the examples."""

    length: Floats  # [d]
    centre: Floats  # [m, d] in units of the lengths
    weight: Floats  # [B, F, O]
    noise: Floats  # [O] deviation of what the functions leave open
    edges: bool = False  # whether the functions have some

    @cached_property
    def _around(self) -> Floats:
        return _around(self.centre)

    def only(self, i: int) -> Draws:
        """One of them."""
        return replace(self, weight=self.weight[i : i + 1])

    def basis(self, x: Floats) -> Basis:
        """At x [n, d]; in place where it can be: model rollouts spend their time here."""
        k = x.shape[1] + 1
        value = np.empty((len(x), k + len(self.centre)))
        value[:, 0], value[:, 1:k] = 1.0, x
        return Basis(value, _radial(x / self.length, self._around, self.edges, out=value[:, k:]))

    def features(self, x: Floats) -> Floats:
        """[n, F] the basis at x [n, d]."""
        return self.basis(x).value

    def values(self, x: Floats, draw: NDArray[np.int64]) -> Floats:
        """[n, O] the values at x [n, d], row i in draw `draw[i]`, which must not fall from row to row."""
        return self.values_in(self.features(x), self.rows_of(draw))

    def rows_of(self, draw: NDArray[np.int64]) -> list[slice]:
        """The rows of every draw."""
        return [slice(*ends) for ends in pairwise(np.searchsorted(draw, np.arange(len(self.weight) + 1)).tolist())]

    def values_in(self, basis: Floats, rows: list[slice]) -> Floats:
        """[n, O] the values where the basis is [n, F].  rows: of every draw."""
        found = np.empty((len(basis), self.weight.shape[2]))
        for mine, weight in zip(rows, self.weight, strict=True):
            np.matmul(basis[mine], weight, out=found[mine])
        return found

    def gradients_in(self, basis: Basis, rows: list[slice], by_values: Floats) -> Floats:
        """[n, d] the derivatives by x of whatever has the derivatives by_values [n, O] by the values."""
        k, by_basis = len(self.length) + 1, np.empty_like(basis.value)
        for mine, weight in zip(rows, self.weight, strict=True):
            np.matmul(by_values[mine], weight.T, out=by_basis[mine])
        steep = 3.0 * basis.steep if self.edges else basis.steep
        pull = steep * by_basis[:, k:]
        towards = pull @ self.centre - pull.sum(axis=1, keepdims=True) * (basis.value[:, 1:k] / self.length)
        return np.asarray(by_basis[:, 1:k] + towards / self.length)


def _radial(x: Floats, around: Floats, edges: bool, out: Floats) -> Floats:
    """Put k(|x - centre|) into out [n, m]; returns [n, m] the e^-t of Matern's k, or k itself.  around: `_around`."""
    exponent = _exponent(x, around, out)
    if not edges:
        return np.asarray(np.exp(exponent, out=exponent))
    distance = _distance(exponent)
    steep = np.exp(-distance)
    np.multiply(1.0 + distance, steep, out=out)
    return np.asarray(steep)


def _around(centre: Floats) -> Floats:
    """[m, d + 2] centres [m, d], such that the product with (x, 1, -|x|^2 / 2) is -|x - centre|^2 / 2."""
    return np.column_stack([centre, -0.5 * (centre**2).sum(axis=1), np.ones(len(centre))])


def _exponent(x: Floats, around: Floats, out: Floats) -> Floats:
    """[n, m] -|x - centre|^2 / 2, put into `out`."""
    d = x.shape[1]
    left = np.empty((len(x), d + 2))
    left[:, :d], left[:, d], left[:, d + 1] = x, 1.0, -0.5 * (x**2).sum(axis=1)
    return np.asarray(np.minimum(np.matmul(left, around.T, out=out), 0.0, out=out))


def _distance(exponent: Floats) -> Floats:
    """The t of Matern's k."""
    return np.asarray(np.sqrt(-6.0 * exponent))


def draw_functions(x: Floats, y: Floats, draws: int, rng: np.random.Generator, *, edges: bool = False) -> Draws:
    """Functions drawn from all that agree with the examples x [n, d], y [n, O]; with one draw, their mean.

    edges: whether to expect them, as in a distance, whose tip no smooth function can follow: one that tries learns
    lengths so short that it knows nothing of what lies between the examples.

    Examples that the others contradict by far (a blow, a stop at the end of a rail) are left out: no smooth function
    can follow a jump, and one that tries is wrong everywhere.
    """
    fit = _fit(x, y, rng, edges=edges)
    if len(x) >= ENOUGH:
        left = fit.left_open()
        agree = left < JUMP * max(float(np.median(left)), LEAST_GAP)
        if not agree.all():
            fit = _fit(x[agree], y[agree], rng, edges=edges, near=fit.scales)
    for _ in range(RENEWALS):
        fit = fit.renewed()
    return fit.draw(draws, rng)


class _Fit(NamedTuple):
    """The equations of all outputs, in a basis in which all weights are independent beforehand."""

    scales: Scales
    centre: Floats  # [m, d]
    whiten: Floats  # [m, m] radial functions -> their part of the basis
    basis: Floats  # [n, F]
    unit: Floats  # [n, O] outputs of mean 0 and variance 1
    mean: Floats  # [O]
    deviation: Floats  # [O]
    edges: bool

    def solved(self) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Of each output: [F] prior deviations, [F, F] the root of the precision, [F] the mean of weights / prior."""
        gram, moment = self.basis.T @ self.basis, self.basis.T @ self.unit
        k = len(self.scales.length) + 1
        for o, (f, c, s) in enumerate(zip(self.scales.smooth, self.scales.linear, self.scales.noise, strict=True)):
            prior = np.sqrt(np.concatenate([np.full(k, c), np.full(len(self.centre), f)]))
            root = np.linalg.cholesky(gram * prior[:, None] * prior / s + np.eye(len(prior)))
            yield prior, root, cho_solve((root, True), prior * moment[:, o] / s)

    def renewed(self) -> _Fit:
        """With f, c and s of the evidence of all examples, by one step of MacKay's fixed point."""
        n, k, found = len(self.basis), len(self.scales.length) + 1, []
        for (prior, root, best), y in zip(self.solved(), self.unit.T, strict=True):
            weight, left = prior * best, y - self.basis @ (prior * best)
            # [F] how far the examples determine each weight, 0 to 1
            known = 1.0 - (solve_triangular(root, np.eye(len(prior)), lower=True) ** 2).sum(axis=0)
            smooth = weight[k:] @ weight[k:] / max(known[k:].sum(), TINY)
            linear = weight[:k] @ weight[:k] / max(known[:k].sum(), TINY)
            found.append((smooth, linear, left @ left / max(n - known.sum(), LEAST_FREE * n)))
        least, most = np.exp(2.0 * np.array([BOUNDS[kind] for kind in ("smooth", "linear", "noise")])).T
        smooth, linear, noise = np.clip(found, least, most).T
        return self._replace(scales=Scales(self.scales.length, smooth, linear, noise + LEAST_NOISE))

    def left_open(self) -> Floats:
        """[n] by how much the fit of all other examples misses each one, in the output where that is most."""
        worst = np.zeros(len(self.basis))
        for (prior, root, best), s, y in zip(self.solved(), self.scales.noise, self.unit.T, strict=True):
            inputs = self.basis * prior
            own = (solve_triangular(root, inputs.T, lower=True) ** 2).sum(axis=0) / s  # weight of an example in its fit
            worst = np.maximum(worst, np.abs(y - inputs @ best) / np.maximum(1.0 - own, LEAST_REST))
        return worst

    def draw(self, draws: int, rng: np.random.Generator) -> Draws:
        """Functions, in terms of the features of `Draws`."""
        weight, k = np.empty((draws, self.basis.shape[1], self.unit.shape[1])), len(self.scales.length) + 1
        for o, (prior, root, best) in enumerate(self.solved()):
            normal = rng.normal(size=(len(prior), draws)) if draws > 1 else np.zeros((len(prior), 1))
            drawn = prior[:, None] * (best[:, None] + solve_triangular(root, normal, lower=True, trans=1))
            weight[:, :, o] = self.deviation[o] * np.concatenate([drawn[:k], self.whiten @ drawn[k:]]).T
        weight[:, 0] += self.mean
        noise = np.sqrt(self.scales.noise) * self.deviation
        return Draws(self.scales.length, self.centre, weight, noise, self.edges)


def _fit(x: Floats, y: Floats, rng: np.random.Generator, *, edges: bool, near: Scales | None = None) -> _Fit:
    """near: scales of nearly the same examples, where the search for those of these begins."""
    mean, deviation = y.mean(axis=0), np.maximum(y.std(axis=0), TINY)
    unit, some = (y - mean) / deviation, scattered(x, ROWS, rng)
    scales = _scales_of_moving(x[some], unit[some], _moving(unit), edges=edges, near=near)
    scaled = x / scales.length
    centre = scaled[scattered(scaled, CENTRES, rng)]
    covariance = np.empty((len(centre), len(centre)))
    _radial(centre, _around(centre), edges, out=covariance)
    covariance += JITTER * np.eye(len(centre))
    whiten = solve_triangular(np.linalg.cholesky(covariance), np.eye(len(centre)), lower=True).T
    radial = np.empty((len(x), len(centre)))
    _radial(scaled, _around(centre), edges, out=radial)
    basis = np.concatenate([np.ones((len(x), 1)), x, radial @ whiten], axis=1)
    return _Fit(
        scales=scales, centre=centre, whiten=whiten, basis=basis, unit=unit, mean=mean, deviation=deviation, edges=edges
    )


def _moving(unit: Floats) -> Bools:
    """[O] the outputs that do not rest; all if all do."""
    moving = np.median(np.abs(unit - np.median(unit, axis=0)), axis=0) > RESTING
    return np.asarray(moving | ~moving.any())


def _scales_of_moving(x: Floats, y: Floats, moving: Bools, *, edges: bool, near: Scales | None) -> Scales:
    """The scales of largest likelihood for the outputs that move; usual ones for those that rest."""
    near = near and Scales(near.length, *(one[moving] for one in near[1:]))
    found = fit_scales(x, y[:, moving], edges=edges, near=near)
    scales = np.repeat(np.exp(2.0 * np.array(USUAL))[:, None], len(moving), axis=1)
    scales[:, moving] = found[1:]
    return Scales(found.length, *scales)


def scattered(x: Floats, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """At most so many rows of x [n, d]: half of them any, half each the farthest from those before.

    A machine at rest for long has few rows that tell how it moves, and a random sample would miss them.
    """
    if len(x) <= most:
        return np.arange(len(x))
    rows, apart = list(rng.permutation(len(x))[: most // 2]), np.full(len(x), np.inf)
    for i in range(most - 1):
        np.minimum(apart, ((x - x[rows[i]]) ** 2).sum(axis=1), out=apart)
        if i + 1 == len(rows):
            rows.append(apart.argmax())
    return np.array(rows)


def fit_scales(x: Floats, y: Floats, *, edges: bool = False, near: Scales | None = None) -> Scales:
    """The scales of largest likelihood for x [n, d], y [n, O] of variance about 1, a little drawn to what is usual.

    near: scales that the search begins with; else it begins with what is usual.
    """
    (n, d), n_outputs = x.shape, y.shape[1]
    first = np.concatenate([np.full(d, LENGTH), np.repeat(USUAL, n_outputs)])
    if near is not None:
        first = np.log(np.concatenate([near.length, *(np.sqrt(one) for one in near[1:])]))
    kinds = ["length"] * d + ["smooth"] * n_outputs + ["linear"] * n_outputs + ["noise"] * n_outputs
    squared = np.stack([(column[:, None] - column) ** 2 for column in x.T])
    found = minimize(
        likelihood,
        first,
        args=(np.concatenate([np.ones((n, 1)), x], axis=1), y, squared, edges),
        jac=True,
        method="L-BFGS-B",
        bounds=[BOUNDS[kind] for kind in kinds],
        options={"maxiter": STEPS if near is None else AGAIN},
    )
    return _scales(found.x, d, n_outputs)


def _scales(logs: Floats, d: int, n_outputs: int) -> Scales:
    smooth, linear, noise = np.exp(2.0 * logs[d:].reshape(3, n_outputs))
    return Scales(np.exp(logs[:d]), smooth, linear, noise + LEAST_NOISE)


def likelihood(logs: Floats, linear: Floats, y: Floats, squared: Floats, edges: bool = False) -> tuple[float, Floats]:
    """The negative log likelihood with its penalty, and its gradient.

    logs: the logarithms of lengths [d] and of the deviations sqrt(f), sqrt(c), sqrt(s) [O] each.
    linear: [n, k] the inputs with a 1.  squared: [d, n, n] squared differences of each input.

    All outputs share the eigenvectors U of the radial covariance E = U diag(e) U'. In them, the covariance of output o
    is diag(v) + c H H' with v = f e + s, whose inverse is diag(1/v) - T T' for T = (H/v) (I/c + H' diag(1/v) H)^(-1/2).
    """
    d, n_outputs = len(squared), y.shape[1]
    scales, inverse = _scales(logs, d, n_outputs), np.exp(-2.0 * logs[:d])
    exponent = -0.5 * np.tensordot(inverse, squared, axes=1)
    if edges:
        distance = _distance(exponent)
        steep = np.exp(-distance)
        radial, steep = (1.0 + distance) * steep, 3.0 * steep
    else:
        radial = steep = np.exp(exponent)
    e, vectors = eigh(radial, check_finite=False)
    e, h, turned = np.maximum(e, 0.0), vectors.T @ linear, vectors.T @ y
    total, gradients = 0.0, np.empty((3, n_outputs))
    diagonal, columns = np.zeros(len(y)), []  # of the derivative by E, turned: diag(diagonal) - columns columns'
    for o, (f, c, s) in enumerate(zip(scales.smooth, scales.linear, scales.noise, strict=True)):
        v = f * e + s
        scaled = h / v[:, None]
        inner = h.T @ scaled
        root = np.linalg.cholesky(np.eye(len(inner)) / c + inner)
        tails = solve_triangular(root, scaled.T, lower=True).T
        solved = turned[:, o] / v - tails @ (tails.T @ turned[:, o])
        logdet = np.log(v).sum() + 2.0 * np.log(np.diag(root)).sum() + len(inner) * np.log(c)
        total += 0.5 * (turned[:, o] @ solved + logdet)
        gradient = 0.5 * (1.0 / v - (tails**2).sum(axis=1) - solved**2)
        mixed = tails.T @ h
        by_linear = 0.5 * (np.trace(inner) - (mixed**2).sum() - ((h.T @ solved) ** 2).sum())
        gradients[:, o] = 2.0 * f * (gradient @ e), 2.0 * c * by_linear, 2.0 * (s - LEAST_NOISE) * gradient.sum()
        diagonal += 0.5 * f / v
        columns += [np.sqrt(0.5 * f) * tails, np.sqrt(0.5 * f) * solved[:, None]]
    low_rank = vectors @ np.concatenate(columns, axis=1)
    by_radial = ((vectors * diagonal) @ vectors.T - low_rank @ low_rank.T) * steep
    by_length = np.tensordot(squared, by_radial, axes=([1, 2], [0, 1])) * inverse
    away, noise = logs[:d] - LENGTH, logs[-n_outputs:]
    total += 0.1 * float(away @ away) + 0.01 * float(noise @ noise)
    gradients[2] += 0.02 * noise
    return float(total), np.concatenate([by_length + 0.2 * away, gradients.ravel()])
