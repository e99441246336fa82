"""Where resets begin if no single sensor tells: behind a line across two sensors, or around a place in two of them.

Falls amid the box that was lived in are behind no wall. Of all lines across two sensors (a class of few directions) and
of all rings around falls in two sensors, those are taken that explain most of them, one after the other; what was
lived in is never behind one. A line must explain two falls. A ring must be empty for a reason: were states as dense in
it as around it, up to twice as far away, n of them there would leave it empty with a chance of (3/4)^n; this is asked
of all places that are tried, in all pairs of sensors, together.

Legend: z [n, D] scaled states; t the slope of a line: behind it is sign (z_i + t z_j) > edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import hypot, log
from typing import NamedTuple, TypeAlias

import numpy as np

from resetfree.problems.finite.transitions import Floats

SLOPES = (0.5, 1.0, 2.0, -0.5, -1.0, -2.0)
SENSORS = 16  # up to which pairs of them are looked at
LATEST = 32  # falls amid what was lived in that are looked at
LEAST = 2  # falls that a line or a ring must explain
FINER = (1.0, 0.25, 0.0625)  # a search for the place of largest gap, from coarse to fine
PLACES = np.stack(np.meshgrid(*[np.linspace(-1.5, 1.5, 13)] * 2), axis=2).reshape(-1, 2)  # around the mean of falls
BY_CHANCE = 0.01  # largest probability that one of all rings is empty by chance


class Slant(NamedTuple):
    """A line across two sensors, behind which reset states lie."""

    sensors: tuple[int, int]
    slope: float  # t
    sign: float  # 1 if they lie above, -1 if below
    lived: float  # the farthest that was lived in, as a distance from 0
    gap: float  # from there to the nearest of the reset states that it explains: the line is anywhere between
    falls: int

    def distance(self, z: Floats) -> Floats:
        """[n] of z [n, D] from the parallel through 0, in the direction of the reset states."""
        i, j = self.sensors
        return np.asarray(self.sign * (z[:, i] + self.slope * z[:, j]) / hypot(1.0, self.slope))

    def behind(self, z: Floats) -> Floats:
        """[n] how far the states z are behind it."""
        return self.distance(z) - (self.lived + 0.5 * self.gap)

    def rise(self, z: Floats) -> Floats:
        """[n, D] the derivatives of that by z."""
        rise = np.zeros_like(z)
        rise[:, self.sensors] = self.sign * np.array([1.0, self.slope]) / hypot(1.0, self.slope)
        return rise

    def in_words(self, names: Sequence[str], falls: int, centre: Floats, scale: Floats) -> str:
        """One clause.  names: of all sensors.  falls: all of them.  centre, scale: s = centre + scale z.

        >>> slant = Slant((0, 1), 1.0, 1.0, 1.0, 0.2, 3)
        >>> slant.in_words(["angle", "speed"], 4, np.array([0.0, 0.0]), np.array([1.0, 2.0]))
        'resets begin where angle + 0.5 speed rises above 1.56, give or take 0.14 (3 of 4 falls)'
        """
        i, j = self.sensors
        share, unit = self.slope * scale[i] / scale[j], scale[i] * hypot(1.0, self.slope)
        edge = self.sign * unit * (self.lived + 0.5 * self.gap) + centre[i] + share * centre[j]
        both = f"{names[i]} {'+' if share > 0 else '-'} {abs(share):.2g} {names[j]}"
        how, doubt = "rises above" if self.sign > 0 else "drops below", 0.5 * self.gap * unit
        return f"resets begin where {both} {how} {edge:.3g}, give or take {doubt:.2g} ({self.falls} of {falls} falls)"


class Ring(NamedTuple):
    """A place in two sensors, around which reset states lie."""

    sensors: tuple[int, int]
    place: tuple[float, float]
    farthest: float  # of the reset states that it explains
    gap: float  # from there to the nearest that was lived in: the ring is anywhere between
    falls: int

    def distance(self, z: Floats) -> Floats:
        """[n] of z [n, D] from the place."""
        return np.asarray(np.hypot(*(z[:, self.sensors] - self.place).T))

    def behind(self, z: Floats) -> Floats:
        """[n] how far the states z are inside."""
        return self.farthest + 0.5 * self.gap - self.distance(z)

    def rise(self, z: Floats) -> Floats:
        """[n, D] the derivatives of that by z."""
        rise = np.zeros_like(z)
        away = z[:, self.sensors] - self.place
        rise[:, self.sensors] = -away / np.maximum(self.distance(z), 1e-12)[:, None]
        return rise

    def in_words(self, names: Sequence[str], falls: int, centre: Floats, scale: Floats) -> str:
        """One clause; see `Slant`.

        >>> ring = Ring((0, 1), (0.0, 1.0), 0.9, 0.2, 3)
        >>> ring.in_words(["x", "y"], 4, np.array([0.0, 0.0]), np.array([1.0, 2.0]))
        'resets begin around x = 0, y = 2: within 1 in x and 2 in y, give or take 10 % (3 of 4 falls)'
        """
        edge, near = self.farthest + 0.5 * self.gap, [centre[i] + scale[i] * p for i, p in zip(*self[:2], strict=True)]
        at = ", ".join(f"{names[i]} = {value:.3g}" for i, value in zip(self.sensors, near, strict=True))
        within = " and ".join(f"{edge * scale[i]:.2g} in {names[i]}" for i in self.sensors)
        return (
            f"resets begin around {at}: within {within}, give or take {50.0 * self.gap / edge:.0f} % "
            f"({self.falls} of {falls} falls)"
        )


Across: TypeAlias = Slant | Ring


def across_two(lived: Floats, dead: Floats) -> tuple[Across, ...]:
    """Lines and rings, taken one after the other, each of which explains most of the falls amid what was lived in.

    lived, dead: z [n, D] and [r, D].
    """
    amid = (dead >= lived.min(axis=0)).all(axis=1) & (dead <= lived.max(axis=0)).all(axis=1)
    left, found = dead[amid][-LATEST:], list[Across]()
    if lived.shape[1] > SENSORS:
        return ()
    while len(left) >= LEAST:
        best = max(_candidates(lived, left), key=lambda one: (one.falls, one.gap), default=None)
        if best is None:
            break
        found.append(best)
        left = left[best.behind(left) <= 0.0]
    return tuple(found)


def _candidates(lived: Floats, dead: Floats) -> list[Across]:
    """All that explain at least two of the falls."""
    pairs, found = list(combinations(range(lived.shape[1]), 2)), list[Across]()
    for i, j in pairs:
        for slope in SLOPES:
            along = (lived[:, i] + slope * lived[:, j]) / hypot(1.0, slope)
            fell = (dead[:, i] + slope * dead[:, j]) / hypot(1.0, slope)
            for sign in (1.0, -1.0):
                end = float((sign * along).max())
                gaps = (sign * fell - end)[sign * fell > end]
                if len(gaps) >= LEAST:
                    found.append(Slant((i, j), slope, sign, end, float(gaps.min()), len(gaps)))
        ring = _ring((i, j), lived, dead, len(pairs))
        if ring is not None:
            found.append(ring)
    return found


def _ring(sensors: tuple[int, int], lived: Floats, dead: Floats, n_pairs: int) -> Ring | None:
    """A ring with most falls and nothing that was lived in, if there is one."""
    fell, near = dead[:, sensors], lived[:, sensors]
    inside = np.ones(len(fell), dtype=np.bool_)
    while inside.sum() >= LEAST:
        place = fell[inside].mean(axis=0)
        away = np.hypot(*(fell[inside] - place).T)
        wide = float(away.max())
        close = near[np.hypot(*(near - place).T) < 8.0 * wide]  # all that matters to places, and twice around them
        for finer in FINER if len(close) else ():
            places = place + wide * finer * PLACES
            gaps = _distances(close, places).min(axis=1) - _distances(fell[inside], places).max(axis=1)
            place = places[int(gaps.argmax())]
        ring = _around(sensors, place, fell, close, n_pairs) if len(close) else None
        if ring is not None and ring.falls >= inside.sum():
            return ring
        inside[np.flatnonzero(inside)[away.argmax()]] = False  # not one of these
    return None


def _distances(z: Floats, places: Floats) -> Floats:
    """[places, n] of z [n, 2] from places [., 2]."""
    return np.asarray(np.hypot(z[None, :, 0] - places[:, :1], z[None, :, 1] - places[:, 1:]))


def _around(sensors: tuple[int, int], place: Floats, fell: Floats, lived: Floats, n_pairs: int) -> Ring | None:
    """The largest ring around a place in which nothing was lived; None if it may well be empty by chance."""
    away, around = (_distances(z, place[None])[0] for z in (fell, lived))
    nearest = float(around.min())
    tried = n_pairs * len(PLACES) * len(FINER)
    if int((around < 2.0 * nearest).sum()) * log(3 / 4) + log(tried) > log(BY_CHANCE) or not (away < nearest).any():
        return None
    farthest = float(away[away < nearest].max())
    return Ring(sensors, (float(place[0]), float(place[1])), farthest, nearest - farthest, int((away < nearest).sum()))
