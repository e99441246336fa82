"""Compiled loops of the feature maps. A row of a batch gets the same bits as alone: sums have one fixed order.

Legend: s state [D], z the scaled state, psi its features; every loop returns False if a state has a nan.
"""

import math
from typing import TypeAlias

import numpy as np

from resetfree.core import Floats, Ints, jit

Pair: TypeAlias = tuple[float, float]

# pi in three pieces of few bits: q times the first two is exact for every |q| below 2^20.
PI_1 = math.floor(math.pi * 2**30) / 2**30
PI_2, PI_3 = math.pi - PI_1, 1.2246467991473532e-16
LARGEST_ANGLE = 1e6  # angles are clipped to it before the phase is added
TAYLOR = np.array([(-1.0) ** k / math.factorial(2 * k) for k in range(12)])


@jit
def cosine(x: float) -> float:
    """cos(x) to about 1e-15 for |x| <= 3e6; without a branch, so that a loop of it is vectorised."""
    q = math.floor(x / math.pi + 0.5)
    r = ((x - q * PI_1) - q * PI_2) - q * PI_3  # in [-pi/2, pi/2]
    r2 = r * r
    value = TAYLOR[11]
    for k in range(10, -1, -1):
        value = value * r2 + TAYLOR[k]
    sign = 1.0 - 2.0 * (q - 2.0 * math.floor(0.5 * q))
    return float(sign * min(max(value, -1.0), 1.0))


@jit
def scaled(s: Floats, centre: Floats, scale: Floats, ends: Pair, z: Floats) -> bool:
    """Write z of one state, clipped to the ends."""
    least, most = ends
    good = True
    for k in range(len(s)):
        value = (s[k] - centre[k]) / scale[k]
        good = good and not math.isnan(value)
        z[k] = min(max(value, least), most)
    return good


@jit
def cosines(
    states: Floats, centre: Floats, scale: Floats, ends: Pair, weight: Floats, phase: Floats, height: float, out: Floats
) -> bool:
    """psi_j = height cos(sum_k z_k weight[k, j] + phase_j)."""
    n, D, d = len(states), len(centre), len(phase)
    z, row = np.empty(D), np.empty(d)
    for i in range(n):
        if not scaled(states[i], centre, scale, ends, z):
            return False
        row[:] = 0.0
        for k in range(D):
            for j in range(d):
                row[j] += z[k] * weight[k, j]
        for j in range(d):
            out[i, j] = height * cosine(min(max(row[j], -LARGEST_ANGLE), LARGEST_ANGLE) + phase[j])
    return True


@jit
def monomials(
    states: Floats, centre: Floats, scale: Floats, ends: Pair, parent: Ints, variable: Ints, height: float, out: Floats
) -> bool:
    """psi_0 = height and psi_j = psi_parent(j) z_variable(j)."""
    z = np.empty(len(centre))
    for i in range(len(states)):
        if not scaled(states[i], centre, scale, ends, z):
            return False
        out[i, 0] = height
        for j in range(1, len(parent)):
            out[i, j] = out[i, parent[j]] * z[variable[j]]
    return True


@jit
def bumps(
    states: Floats, centre: Floats, scale: Floats, ends: Pair, place: Floats, form: Pair, normalised: bool, out: Floats
) -> bool:
    """psi_j = amplitude exp(-|z - place_j|^2 / (2 bandwidth^2)), or divided by their sum; place [D, d].

    form: bandwidth and amplitude.
    """
    bandwidth, amplitude = form
    D, d = place.shape
    z, row = np.empty(D), np.empty(d)
    factor = -0.5 / (bandwidth * bandwidth)
    for i in range(len(states)):
        if not scaled(states[i], centre, scale, ends, z):
            return False
        row[:] = 0.0
        for k in range(D):
            for j in range(d):
                apart = z[k] - place[k, j]
                row[j] += apart * apart
        if normalised:  # relative to the nearest, so that the sum is never 0
            nearest = row.min()
            total = 0.0
            for j in range(d):
                row[j] = math.exp(factor * (row[j] - nearest))
                total += row[j]
            for j in range(d):
                out[i, j] = row[j] / total
        else:
            for j in range(d):
                out[i, j] = amplitude * math.exp(factor * row[j])
    return True


@jit
def located(x: float, marks: Floats) -> tuple[int, float]:
    """The index of the mark left of x, and the share of the way to the next mark; clipped at the ends."""
    last = len(marks) - 1
    if x < marks[1] or last == 1:
        left = 0
    elif x >= marks[last - 1]:
        left = last - 1
    else:
        left, right = 1, last - 1
        while right - left > 1:
            middle = (left + right) // 2
            if x >= marks[middle]:
                left = middle
            else:
                right = middle
    share = (x - marks[left]) / (marks[left + 1] - marks[left])
    return left, min(max(share, 0.0), 1.0)


@jit
def cells(states: Floats, marks: Floats, out: Floats) -> bool:
    """Write 1 for the cell of a grid that holds s, else 0; marks [D, m] are the ends of m-1 cells."""
    D, m = marks.shape
    out[:] = 0.0
    for i in range(len(states)):
        index = 0
        for k in range(D):
            if math.isnan(states[i, k]):
                return False
            index = index * (m - 1) + located(states[i, k], marks[k])[0]
        out[i, index] = 1.0
    return True


@jit
def mixed(code: np.uint64, number: int) -> np.uint64:
    """A hash of a hash and an integer (the finaliser of splitmix64)."""
    code = (code ^ np.uint64(number)) + np.uint64(0x9E3779B97F4A7C15)
    code = (code ^ (code >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    code = (code ^ (code >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return code ^ (code >> np.uint64(31))


@jit
def tiles(states: Floats, marks: Floats, shift: Floats, block: int, hashed: bool, out: Floats) -> bool:
    """Write 1/sqrt(T) for the tile of each of T tilings that holds s; tiling t has the features from t * block.

    shift: [T, D] the offset of each tiling, in tiles.  hashed: tiles of one tiling share its features by a hash.
    """
    D, m = marks.shape
    value = 1.0 / math.sqrt(len(shift))
    place = np.empty(D)
    out[:] = 0.0
    for i in range(len(states)):
        for k in range(D):
            if math.isnan(states[i, k]):
                return False
            left, share = located(states[i, k], marks[k])
            place[k] = left + share
        for t in range(len(shift)):
            if hashed:
                code = mixed(np.uint64(0), t)
                for k in range(D):
                    code = mixed(code, int(place[k] + shift[t, k]))
                index = np.int64(code % np.uint64(block))
            else:
                index = np.int64(0)
                for k in range(D):
                    index = index * m + int(place[k] + shift[t, k])
            out[i, t * block + index] = value
    return True


@jit
def interpolated(states: Floats, marks: Floats, out: Floats) -> bool:
    """Write the weights of the 2^D corners around s in multilinear interpolation on a grid; marks [D, m] are nodes."""
    D, m = marks.shape
    corner, weight = np.empty(1 << D, dtype=np.int64), np.empty(1 << D)
    out[:] = 0.0
    for i in range(len(states)):
        corner[0], weight[0] = 0, 1.0
        n = 1
        for k in range(D):
            if math.isnan(states[i, k]):
                return False
            left, share = located(states[i, k], marks[k])
            for c in range(n):
                corner[c] = corner[c] * m + left
                corner[c + n] = corner[c] + 1
                weight[c + n] = weight[c] * share
                weight[c] *= 1.0 - share
            n *= 2
        for c in range(n):
            out[i, corner[c]] = weight[c]
    return True


@jit
def matches(states: Floats, rows: Floats, other: bool, out: Floats) -> bool:
    """Write 1 for the row equal to s, or for the last feature if there is none and `other`; rows [m, D] are sorted."""
    n_rows, D = rows.shape
    out[:] = 0.0
    for i in range(len(states)):
        for k in range(D):
            if math.isnan(states[i, k]):
                return False
        left, right = 0, n_rows  # the first row not before s is in [left, right]
        while left < right:
            middle = (left + right) // 2
            before = False
            for k in range(D):
                if rows[middle, k] != states[i, k]:
                    before = rows[middle, k] < states[i, k]
                    break
            if before:
                left = middle + 1
            else:
                right = middle
        same = left < n_rows
        if same:
            for k in range(D):
                same = same and rows[left, k] == states[i, k]
        if same:
            out[i, left] = 1.0
        elif other:
            out[i, n_rows] = 1.0
    return True
