"""Several smooth functions of one input, fitted exactly to few examples: Gaussian processes with learned scales.

Output o of the input x [d] is a sum of a linear part and of a smooth part around it, seen with noise:

    y_o = weight.(1, x) + smooth_o(x) + noise,   weight ~ N(0, c_o),   cov smooth_o = f_o exp(-|x - x'|^2 / 2 l^2)

The lengths l [d] are shared; amplitude f_o, linear variance c_o and noise s_o belong to each output. All are those of
largest likelihood on at most `ROWS` examples. The functions themselves are then solved for, from all examples, in the
basis (1, x, radial functions around at most `CENTRES` examples), and are drawn from what remains possible: where
little was seen, draws differ.

Legend: n examples, d inputs, k = d + 1, O outputs, m radial functions, F = k + m, B draws.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, eigh, solve_triangular
from scipy.optimize import minimize

from resetfree.problems.finite.transitions import Floats

ROWS = 160  # examples that the scales are fitted to
CENTRES = 160  # radial functions at most
STEPS = 40  # of the search for the scales
LENGTH = 1.5  # log length that is expected, in units of an input's deviation
LEAST_NOISE = 1e-6  # of an output's variance: keeps the equations solvable
JITTER = 1e-6  # on the covariance of the radial functions, as above
TINY = 1e-6  # least deviation of an output
BOUNDS = {"length": (-1.0, 6.0), "smooth": (-6.0, 4.0), "linear": (-6.0, 2.0), "noise": (-7.0, 0.5)}  # of logarithms


class Scales(NamedTuple):
    """The parameters of the processes, for outputs of mean 0 and variance 1."""

    length: Floats  # [d]
    smooth: Floats  # [O] f
    linear: Floats  # [O] c
    noise: Floats  # [O] s


class Draws(NamedTuple):
    """Functions that agree with the examples."""

    length: Floats  # [d]
    centre: Floats  # [m, d] in units of the lengths
    weight: Floats  # [B, F, O]
    noise: Floats  # [O] deviation of what the functions leave open

    def features(self, x: Floats) -> Floats:
        """[n, F] the basis at x [n, d]."""
        return np.concatenate([np.ones((len(x), 1)), x, _radial(x / self.length, self.centre)], axis=1)

    def values(self, x: Floats, draw: NDArray[np.int64]) -> Floats:
        """[n, O] the values at x [n, d], row i in draw `draw[i]`."""
        basis, found = self.features(x), np.empty((len(x), self.weight.shape[2]))
        for b, weight in enumerate(self.weight):
            mine = draw == b
            found[mine] = basis[mine] @ weight
        return found


def _radial(x: Floats, centre: Floats) -> Floats:
    squared = (x**2).sum(axis=1)[:, None] + (centre**2).sum(axis=1) - 2.0 * x @ centre.T
    return np.asarray(np.exp(-0.5 * np.maximum(squared, 0.0)))


def draw_functions(x: Floats, y: Floats, draws: int, rng: np.random.Generator) -> Draws:
    """Functions drawn from all that agree with the examples x [n, d], y [n, O]; with one draw, their mean."""
    mean, deviation = y.mean(axis=0), np.maximum(y.std(axis=0), TINY)
    unit = (y - mean) / deviation
    some = _some(len(x), ROWS, rng)
    scales = fit_scales(x[some], unit[some])
    centre = x[_some(len(x), CENTRES, rng)] / scales.length
    linear = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    covariance = _radial(centre, centre) + JITTER * np.eye(len(centre))
    whiten = solve_triangular(np.linalg.cholesky(covariance), np.eye(len(centre)), lower=True).T
    basis = np.concatenate([linear, _radial(x / scales.length, centre) @ whiten], axis=1)
    gram, moment = basis.T @ basis, basis.T @ unit
    k, weight = linear.shape[1], np.empty((draws, basis.shape[1], y.shape[1]))
    for o, (f, c, s) in enumerate(zip(scales.smooth, scales.linear, scales.noise, strict=True)):
        prior = np.sqrt(np.concatenate([np.full(k, c), np.full(len(centre), f)]))
        root = np.linalg.cholesky(gram * prior[:, None] * prior / s + np.eye(len(prior)))
        best = cho_solve((root, True), prior * moment[:, o] / s)
        luck = rng.normal(size=(len(prior), draws)) if draws > 1 else np.zeros((len(prior), 1))
        drawn = prior[:, None] * (best[:, None] + solve_triangular(root, luck, lower=True, trans=1))
        weight[:, :, o] = deviation[o] * np.concatenate([drawn[:k], whiten @ drawn[k:]]).T
    weight[:, 0] += mean
    return Draws(scales.length, centre, weight, np.sqrt(scales.noise) * deviation)


def _some(n: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.permutation(n)[:most] if n > most else np.arange(n)


def fit_scales(x: Floats, y: Floats) -> Scales:
    """The scales of largest likelihood for x [n, d], y [n, O] of variance about 1, a little drawn to what is usual."""
    (n, d), n_outputs = x.shape, y.shape[1]
    first = np.concatenate([np.full(d, LENGTH), np.zeros(n_outputs), np.full(n_outputs, -1.0), np.full(n_outputs, -3.0)])
    kinds = ["length"] * d + ["smooth"] * n_outputs + ["linear"] * n_outputs + ["noise"] * n_outputs
    squared = np.stack([(column[:, None] - column) ** 2 for column in x.T])
    found = minimize(
        likelihood,
        first,
        args=(np.concatenate([np.ones((n, 1)), x], axis=1), y, squared),
        jac=True,
        method="L-BFGS-B",
        bounds=[BOUNDS[kind] for kind in kinds],
        options={"maxiter": STEPS},
    )
    return _scales(found.x, d, n_outputs)


def _scales(logs: Floats, d: int, n_outputs: int) -> Scales:
    smooth, linear, noise = np.exp(2.0 * logs[d:].reshape(3, n_outputs))
    return Scales(np.exp(logs[:d]), smooth, linear, noise + LEAST_NOISE)


def likelihood(logs: Floats, linear: Floats, y: Floats, squared: Floats) -> tuple[float, Floats]:
    """The negative log likelihood with its penalty, and its gradient.

    logs: the logarithms of lengths [d] and of the deviations sqrt(f), sqrt(c), sqrt(s) [O] each.
    linear: [n, k] the inputs with a 1.  squared: [d, n, n] squared differences of each input.

    All outputs share the eigenvectors U of the radial covariance E = U diag(e) U'. In them, the covariance of output o
    is diag(v) + c H H' with v = f e + s, whose inverse is diag(1/v) - T T' for T = (H/v) (I/c + H' diag(1/v) H)^(-1/2).
    """
    d, n_outputs = len(squared), y.shape[1]
    scales, inverse = _scales(logs, d, n_outputs), np.exp(-2.0 * logs[:d])
    radial = np.exp(-0.5 * np.tensordot(inverse, squared, axes=1))
    e, vectors = eigh(radial, check_finite=False)
    e, h, turned = np.maximum(e, 0.0), vectors.T @ linear, vectors.T @ y
    total, slopes = 0.0, np.empty((3, n_outputs))
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
        slope = 0.5 * (1.0 / v - (tails**2).sum(axis=1) - solved**2)
        mixed = tails.T @ h
        by_linear = 0.5 * (np.trace(inner) - (mixed**2).sum() - ((h.T @ solved) ** 2).sum())
        slopes[:, o] = 2.0 * f * (slope @ e), 2.0 * c * by_linear, 2.0 * (s - LEAST_NOISE) * slope.sum()
        diagonal += 0.5 * f / v
        columns += [np.sqrt(0.5 * f) * tails, np.sqrt(0.5 * f) * solved[:, None]]
    low_rank = vectors @ np.concatenate(columns, axis=1)
    by_radial = ((vectors * diagonal) @ vectors.T - low_rank @ low_rank.T) * radial
    by_length = np.tensordot(squared, by_radial, axes=([1, 2], [0, 1])) * inverse
    away, noise = logs[:d] - LENGTH, logs[-n_outputs:]
    total += 0.1 * float(away @ away) + 0.01 * float(noise @ noise)
    slopes[2] += 0.02 * noise
    return float(total), np.concatenate([by_length + 0.2 * away, slopes.ravel()])
