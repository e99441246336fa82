"""A classifier of reset states for few examples: ridge logistic regression on squared sensors, and reset boundaries.

A machine is usually reset because some sensor leaves an interval (an angle, a height), which a sum of squares can
represent, and for which three falls are a start. Nearest neighbours do worse: in many dimensions a state is near by
accident. With many sensors and few falls, the regression fits whatever else these falls have in common. So there are
walls as well: the fewest limits of sensors, outside the range of all visited states, behind which the reset states lie.
Reset states within all limits may lie behind a line across two sensors, or around a point.

Legend: z [D] a scaled state; features (1, z, z^2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import hypot, inf, log
from typing import NamedTuple, TypeAlias

import numpy as np

from resetfree.core.arrays import Bools, Floats

# Reset boundaries that no single sensor shows: a line across two sensors, or a ring around a point in two of them.
#
# Falls within the box of visited states are behind no wall. Of all lines across two sensors (of a few directions) and
# of all rings around falls in two sensors, those are selected greedily that explain most of them; no visited state is
# behind one. A line must explain two falls. A ring must be empty for a reason: if states were as dense inside as around
# it, up to twice as far away, n of them there would leave it empty with probability (3/4)^n; the threshold holds for
# all points that are tried, in all pairs of sensors, together (a union bound).
#
# Legend: z [n, D] scaled states; t the coefficient of a line: behind it is sign (z_i + t z_j) > edge.

COEFFICIENTS = (0.5, 1.0, 2.0, -0.5, -1.0, -2.0)
SENSORS = 16  # up to which pairs of them are looked at
LATEST = 32  # falls within the box of visited states that are looked at
LEAST = 2  # falls that a line or a ring must explain
FINER = (1.0, 0.25, 0.0625)  # a search for the point of largest gap, from coarse to fine
GRID = np.stack(np.meshgrid(*[np.linspace(-1.5, 1.5, 13)] * 2), axis=2).reshape(-1, 2)  # around the mean of falls
BY_CHANCE = 0.01  # largest probability that one of all rings is empty by chance


class Line(NamedTuple):
    """A line across two sensors, behind which reset states lie."""

    sensors: tuple[int, int]
    coefficient: float  # t
    sign: float  # 1 if they lie above, -1 if below
    lived: float  # the farthest visited state, as a distance from 0
    gap: float  # from there to the nearest of the reset states that it explains: the line is anywhere between
    falls: int

    def distance(self, z: Floats) -> Floats:
        """[n] of z [n, D] from the parallel through 0, in the direction of the reset states."""
        i, j = self.sensors
        return np.asarray(self.sign * (z[:, i] + self.coefficient * z[:, j]) / hypot(1.0, self.coefficient))

    def behind(self, z: Floats) -> Floats:
        """[n] how far the states z are behind it."""
        return self.distance(z) - (self.lived + 0.5 * self.gap)

    def gradient(self, z: Floats) -> Floats:
        """[n, D] the derivatives of that by z."""
        gradient = np.zeros_like(z)
        gradient[:, self.sensors] = self.sign * np.array([1.0, self.coefficient]) / hypot(1.0, self.coefficient)
        return gradient

    def in_words(self, names: Sequence[str], falls: int, centre: Floats, scale: Floats) -> str:
        """One clause.

        names: of all sensors.
        falls: all of them.
        centre, scale: s = centre + scale z.

        >>> line = Line((0, 1), 1.0, 1.0, 1.0, 0.2, 3)
        >>> line.in_words(["angle", "speed"], 4, np.array([0.0, 0.0]), np.array([1.0, 2.0]))
        'resets begin where angle + 0.5 speed rises above 1.56, give or take 0.14 (3 of 4 falls)'
        """
        i, j = self.sensors
        share, unit = self.coefficient * scale[i] / scale[j], scale[i] * hypot(1.0, self.coefficient)
        edge = self.sign * unit * (self.lived + 0.5 * self.gap) + centre[i] + share * centre[j]
        both = f"{names[i]} {'+' if share > 0 else '-'} {abs(share):.2g} {names[j]}"
        how, doubt = "rises above" if self.sign > 0 else "drops below", 0.5 * self.gap * unit
        return f"resets begin where {both} {how} {edge:.3g}, give or take {doubt:.2g} ({self.falls} of {falls} falls)"


class Ring(NamedTuple):
    """A point in two sensors, around which reset states lie."""

    sensors: tuple[int, int]
    place: tuple[float, float]
    farthest: float  # of the reset states that it explains
    gap: float  # from there to the nearest visited state: the ring is anywhere between
    falls: int

    def distance(self, z: Floats) -> Floats:
        """[n] of z [n, D] from the point."""
        return np.asarray(np.hypot(*(z[:, self.sensors] - self.place).T))

    def behind(self, z: Floats) -> Floats:
        """[n] how far the states z are inside."""
        return self.farthest + 0.5 * self.gap - self.distance(z)

    def gradient(self, z: Floats) -> Floats:
        """[n, D] the derivatives of that by z."""
        gradient = np.zeros_like(z)
        away = z[:, self.sensors] - self.place
        gradient[:, self.sensors] = -away / np.maximum(self.distance(z), 1e-12)[:, None]
        return gradient

    def in_words(self, names: Sequence[str], falls: int, centre: Floats, scale: Floats) -> str:
        """One clause; see `Line`.

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


Across: TypeAlias = Line | Ring


def across_two(lived: Floats, reset_states: Floats) -> tuple[Across, ...]:
    """Lines and rings, selected greedily, each of which explains most of the falls within the box of visited states.

    lived: z [n, D] of visited states.
    reset_states: z [r, D].
    """
    amid = (reset_states >= lived.min(axis=0)).all(axis=1) & (reset_states <= lived.max(axis=0)).all(axis=1)
    left, found = reset_states[amid][-LATEST:], list[Across]()
    if lived.shape[1] > SENSORS:
        return ()
    while len(left) >= LEAST:
        best = max(_candidates(lived, left), key=lambda one: (one.falls, one.gap), default=None)
        if best is None:
            break
        found.append(best)
        left = left[best.behind(left) <= 0.0]
    return tuple(found)


def _candidates(lived: Floats, reset_states: Floats) -> list[Across]:
    """All that explain at least two of the falls."""
    pairs, found = list(combinations(range(lived.shape[1]), 2)), list[Across]()
    for i, j in pairs:
        for t in COEFFICIENTS:
            along = (lived[:, i] + t * lived[:, j]) / hypot(1.0, t)
            fell = (reset_states[:, i] + t * reset_states[:, j]) / hypot(1.0, t)
            for sign in (1.0, -1.0):
                end = float((sign * along).max())
                gaps = (sign * fell - end)[sign * fell > end]
                if len(gaps) >= LEAST:
                    found.append(
                        Line(
                            sensors=(i, j), coefficient=t, sign=sign, lived=end, gap=float(gaps.min()), falls=len(gaps)
                        )
                    )
        ring = _ring((i, j), lived, reset_states, len(pairs))
        if ring is not None:
            found.append(ring)
    return found


def _ring(sensors: tuple[int, int], lived: Floats, reset_states: Floats, n_pairs: int) -> Ring | None:
    """The ring with most falls and no visited state, if there is one."""
    fell, near = reset_states[:, sensors], lived[:, sensors]
    inside = np.ones(len(fell), dtype=np.bool_)
    while inside.sum() >= LEAST:
        place = fell[inside].mean(axis=0)
        away = np.hypot(*(fell[inside] - place).T)
        radius = float(away.max())
        close = near[np.hypot(*(near - place).T) < 8.0 * radius]  # all that matters to points, and twice around them
        for finer in FINER if len(close) else ():
            points = place + radius * finer * GRID
            gaps = _distances(close, points).min(axis=1) - _distances(fell[inside], points).max(axis=1)
            place = points[int(gaps.argmax())]
        ring = _around(sensors, place, fell, close, n_pairs) if len(close) else None
        if ring is not None and ring.falls >= inside.sum():
            return ring
        inside[np.flatnonzero(inside)[away.argmax()]] = False  # not one of these
    return None


def _distances(z: Floats, points: Floats) -> Floats:
    """[points, n] of z [n, 2] from points [., 2]."""
    return np.asarray(np.hypot(z[None, :, 0] - points[:, :1], z[None, :, 1] - points[:, 1:]))


def _around(sensors: tuple[int, int], place: Floats, fell: Floats, lived: Floats, n_pairs: int) -> Ring | None:
    """The largest ring around a point without a visited state; None if it may well be empty by chance."""
    away, around = (_distances(z, place[None])[0] for z in (fell, lived))
    nearest = float(around.min())
    tried = n_pairs * len(GRID) * len(FINER)
    if int((around < 2.0 * nearest).sum()) * log(3 / 4) + log(tried) > log(BY_CHANCE) or not (away < nearest).any():
        return None
    farthest = float(away[away < nearest].max())
    return Ring(sensors, (float(place[0]), float(place[1])), farthest, nearest - farthest, int((away < nearest).sum()))


# --------------------------------------------------------------------------------------------------------------------

RIDGE = 1.0  # on all weights but the first
SHARE = 0.2  # reset states weigh at least so much as all others: they are few, and missing one is expensive
STEPS = 15  # of Newton's method
FLAT = 1e-9  # keeps its equations solvable where all is certain
FARTHEST = 10.0  # z is clipped there: for a machine at rest a fall is far away, and its square would drown the rest
LARGEST = 30.0  # logits are clipped there, so that nothing overflows
STEEP = 3.0  # logit per deviation behind a wall
NARROW = 1.0  # least width of a visited range: a sensor that hardly moved is no reason to expect a reset when it does
SHOWN = 3  # names in a sentence
NEARLY = 1e-3  # of one reset state: between limits behind which equally many lie, the distance decides


class ResetClassifier(NamedTuple):
    """A state counts as a reset state where weight.(1, z, z^2) > 0, behind a wall or a line, and in a ring."""

    weight: Floats  # [1 + 2 D]
    lowest: Floats | float = -inf  # [D] walls
    highest: Floats | float = inf  # [D]
    across: tuple[Across, ...] = ()  # lines and rings
    stated: Callable[[Floats], Bools] | None = None  # [n] whether z [n, D] are known to be reset states

    def logit(self, z: Floats) -> Floats:
        """[n] weight.(1, z, z^2) of the states z [n, D], or how far they are behind a wall if that is more."""
        found = np.maximum(self._squares(z), STEEP * self._behind(z).max(axis=1))
        for one in self.across:
            found = np.maximum(found, STEEP * one.behind(z))
        return np.asarray(found if self.stated is None else np.where(self.stated(z), np.maximum(found, STEEP), found))

    def gradient(self, z: Floats) -> Floats:
        """[n, D] the derivatives of the logits by z [n, D]."""
        size, behind, each = z.shape[1], self._behind(z), np.arange(len(z))
        gradient = np.where(np.abs(z) < FARTHEST, self.weight[1 : 1 + size] + 2.0 * z * self.weight[1 + size :], 0.0)
        sensor = behind.argmax(axis=1)
        walled = STEEP * behind[each, sensor] > self._squares(z)
        gradient[walled] = 0.0
        above = (z - self.highest >= self.lowest - z)[each, sensor]
        gradient[each[walled], sensor[walled]] = np.where(above, STEEP, -STEEP)[walled]
        most = np.maximum(self._squares(z), STEEP * behind[each, sensor])
        for one in self.across:
            there = STEEP * one.behind(z)
            gradient = np.where((there > most)[:, None], STEEP * one.gradient(z), gradient)
            most = np.maximum(most, there)
        return gradient

    def _squares(self, z: Floats) -> Floats:
        size, z = z.shape[1], np.minimum(np.maximum(z, -FARTHEST), FARTHEST)
        return np.asarray(self.weight[0] + z @ self.weight[1 : 1 + size] + z**2 @ self.weight[1 + size :])

    def _behind(self, z: Floats) -> Floats:
        return np.asarray(np.maximum(z - self.highest, self.lowest - z))

    def resets(self, z: Floats) -> Bools:
        """[n] whether the states z [n, D] count as reset states."""
        return np.asarray(self.logit(z) > 0.0)

    def calibrated(self, fitted: tuple[int, int], met: tuple[int, int]) -> ResetClassifier:
        """The classifier whose logit is the log odds that a state is a reset state, at the base rate of these.

        fitted: number of visited states and of reset states that the classifier was fitted to.
        met: number of visited states and of reset states in all. Before the first of these, half of one counts as met.

        >>> once_weighed_equally = ResetClassifier(np.array([0.0, 0.0, 0.0]))
        >>> float(once_weighed_equally.calibrated((100, 100), (900, 100)).weight[0])  # log(1/9)
        -2.1972245773362196
        """
        lived, reset_states = fitted
        if not reset_states:
            return ResetClassifier(np.concatenate([[log(0.5 / (met[0] + 1.0))], np.zeros(len(self.weight) - 1)]))
        shift = log(met[1] / met[0]) - log(weight_of_reset_states(lived, reset_states) * reset_states / lived)
        return ResetClassifier(self.weight + np.eye(1, len(self.weight))[0] * shift)

    def corrected(self, shift: float, scale: float) -> ResetClassifier:
        """The classifier whose logit is shift + scale times that of this one (Platt scaling)."""
        return ResetClassifier(scale * self.weight + np.eye(1, len(self.weight))[0] * shift)


def weight_of_reset_states(lived: int, reset_states: int) -> float:
    """The weight of each of r reset states beside n visited states."""
    return max(1.0, SHARE * lived / reset_states)


def fit_classifier(lived: Floats, reset_states: Floats) -> ResetClassifier:
    """The classifier of visited states [n, D] against reset states [r, D]; without the latter, it finds none."""
    if not len(reset_states):
        return ResetClassifier(np.concatenate([[-1.0], np.zeros(2 * lived.shape[1])]))
    z = np.clip(np.concatenate([lived, reset_states]), -FARTHEST, FARTHEST)
    inputs = np.concatenate([np.ones((len(z), 1)), z, z**2], axis=1)
    is_reset = np.arange(len(z)) >= len(lived)
    share = np.where(is_reset, weight_of_reset_states(len(lived), len(reset_states)), 1.0)
    ridge = np.full(inputs.shape[1], RIDGE)
    ridge[0] = FLAT
    weight = np.zeros(inputs.shape[1])
    for _ in range(STEPS):
        chance = 1.0 / (1.0 + np.exp(-np.clip(inputs @ weight, -LARGEST, LARGEST)))
        gradient = inputs.T @ (share * (chance - is_reset)) + ridge * weight
        curvature = (inputs.T * (share * chance * (1.0 - chance) + FLAT)) @ inputs + np.diag(ridge)
        weight = weight - np.linalg.solve(curvature, gradient)
    return ResetClassifier(weight)


class Wall(NamedTuple):
    """A limit of a sensor behind which reset states lie."""

    sensor: int
    above: bool  # whether it is an upper limit
    lived: float  # the farthest visited state
    gap: float  # from there to the nearest of the reset states that it explains: the wall is anywhere between
    falls: int  # how many these are
    rivals: tuple[int, ...] = ()  # other sensors that could explain them all

    @property
    def edge(self) -> float:
        """Halfway."""
        return self.lived + 0.5 * self.gap if self.above else self.lived - 0.5 * self.gap

    def unscaled(self, centre: Floats, scale: Floats) -> Wall:
        """The same wall of s = centre + scale z, where this one is of z."""
        lived = centre[self.sensor] + scale[self.sensor] * self.lived
        return self._replace(lived=float(lived), gap=float(scale[self.sensor] * self.gap))

    def in_words(self, names: Sequence[str], falls: int) -> str:
        """One clause.

        names: of all sensors.
        falls: all of them.

        >>> wall = Wall(1, True, 0.2051, 0.0062, 3)
        >>> wall.in_words(["place", "angle"], 4)
        'resets begin where angle rises above 0.208, give or take 0.0031 (3 of 4 falls)'
        >>> wall._replace(rivals=(0,)).in_words(["place", "angle"], 4)
        'resets begin where angle rises above 0.208, give or take 0.0031 (3 of 4 falls), or it is place that matters'
        """
        how = "rises above" if self.above else "drops below"
        said = f"resets begin where {names[self.sensor]} {how} {self.edge:.3g}, give or take {0.5 * self.gap:.2g} "
        others = " or ".join(names[i] for i in self.rivals[:SHOWN]) + (" or others" if len(self.rivals) > SHOWN else "")
        return f"{said}({self.falls} of {falls} falls)" + (f", or it is {others} that matters" if others else "")


def boundary(low: Floats, high: Floats, reset_states: Floats) -> list[Wall]:
    """The fewest walls, selected greedily, each of which explains most of the reset states that are left.

    low, high: [D] the range of the visited states.
    reset_states: [r, D]; those within the box of visited states are explained by no wall.
    """
    size, ends = len(low), np.concatenate([-low, high])
    behind = np.concatenate([-reset_states, reset_states], axis=1) - ends
    far = np.where(
        behind > 0.0, 1.0 + NEARLY * np.minimum(behind / np.tile(np.maximum(high - low, NARROW), 2), 1.0), 0.0
    )
    found, left = list[Wall](), (behind > 0.0).any(axis=1)
    while left.any():
        best = int(far[left].sum(axis=0).argmax())
        explained = left & (behind[:, best] > 0.0)
        above, gap = best >= size, float(behind[explained, best].min())
        lived = float(ends[best]) if above else -float(ends[best])
        alike = {int(i) % size for i in np.flatnonzero((behind[explained] > 0.0).all(axis=0))} - {best % size}
        found.append(
            Wall(
                sensor=best % size,
                above=above,
                lived=lived,
                gap=gap,
                falls=int(explained.sum()),
                rivals=tuple(sorted(alike)),
            )
        )
        left &= ~explained
    return found


def walls(low: Floats, high: Floats, reset_states: Floats) -> tuple[Floats, Floats]:
    """[D] each, the lowest and highest of every sensor before a wall, infinite where there is none.

    low, high, reset_states: see `boundary`. A wall is halfway from a limit to the nearest reset state behind it.
    """
    lowest, highest = np.full(len(low), -inf), np.full(len(high), inf)
    for wall in boundary(low, high, reset_states):
        (highest if wall.above else lowest)[wall.sensor] = wall.edge
    return lowest, highest
