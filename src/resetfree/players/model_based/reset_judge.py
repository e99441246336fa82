"""Which states are reset states, judged from few of them: a ridge logistic regression on the squares of sensors.

A machine is usually reset because some sensor leaves an interval (an angle, a height), which a sum of squares can say,
and which three falls begin to show. The nearest known state says less: in many dimensions it is near by accident.
Where sensors are many and falls are few, the sum is about what else these falls have in common. So there are walls:
the fewest ends of sensors, among all that were lived in, behind which the reset states lie. Reset states amid all ends
may lie behind a line across two sensors, or around a place (`slants_and_rings`).

Legend: z [D] a scaled state; features (1, z, z^2).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log
from typing import NamedTuple

import numpy as np

from resetfree.players.model_based.slants_and_rings import Across
from resetfree.problems.finite.transitions import Bools, Floats

RIDGE = 1.0  # on all weights but the first
SHARE = 0.2  # reset states weigh at least so much as all others: they are few, and missing one is dear
STEPS = 15  # of Newton's method
FLAT = 1e-9  # keeps its equations solvable where all is certain
FARTHEST = 10.0  # z is cut there: from a machine that stands still, a fall is far, and its square would drown the rest
LARGEST = 30.0  # logits are cut there, so that nothing overflows
STEEP = 3.0  # logit per deviation behind a wall
NARROW = 1.0  # least width of what was lived in: a sensor that hardly moved is no reason to expect a reset when it does
SHOWN = 3  # names in a sentence
NEARLY = 1e-3  # of one reset state: what counts between ends behind which equally many lie is how far


class ResetJudge(NamedTuple):
    """A state counts as a reset state where weight.(1, z, z^2) > 0, behind a wall or a line, and in a ring."""

    weight: Floats  # [1 + 2 D]
    lowest: Floats | float = -inf  # [D] walls
    highest: Floats | float = inf  # [D]
    across: tuple[Across, ...] = ()  # lines and rings

    def logit(self, z: Floats) -> Floats:
        """[n] weight.(1, z, z^2) of the states z [n, D], or how far they are behind a wall if that is more."""
        found = np.maximum(self._squares(z), STEEP * self._behind(z).max(axis=1))
        for one in self.across:
            found = np.maximum(found, STEEP * one.behind(z))
        return np.asarray(found)

    def slope(self, z: Floats) -> Floats:
        """[n, D] the derivatives of the logits by z [n, D]."""
        size, behind, each = z.shape[1], self._behind(z), np.arange(len(z))
        slope = np.where(np.abs(z) < FARTHEST, self.weight[1 : 1 + size] + 2.0 * z * self.weight[1 + size :], 0.0)
        sensor = behind.argmax(axis=1)
        walled = STEEP * behind[each, sensor] > self._squares(z)
        slope[walled] = 0.0
        above = (z - self.highest >= self.lowest - z)[each, sensor]
        slope[each[walled], sensor[walled]] = np.where(above, STEEP, -STEEP)[walled]
        most = np.maximum(self._squares(z), STEEP * behind[each, sensor])
        for one in self.across:
            there = STEEP * one.behind(z)
            slope = np.where((there > most)[:, None], STEEP * one.rise(z), slope)
            most = np.maximum(most, there)
        return slope

    def _squares(self, z: Floats) -> Floats:
        size, z = z.shape[1], np.minimum(np.maximum(z, -FARTHEST), FARTHEST)
        return np.asarray(self.weight[0] + z @ self.weight[1 : 1 + size] + z**2 @ self.weight[1 + size :])

    def _behind(self, z: Floats) -> Floats:
        return np.asarray(np.maximum(z - self.highest, self.lowest - z))

    def resets(self, z: Floats) -> Bools:
        """[n] whether the states z [n, D] count as reset states."""
        return np.asarray(self.logit(z) > 0.0)

    def calibrated(self, judged: tuple[int, int], met: tuple[int, int]) -> ResetJudge:
        """The judge whose sum is the log odds that a state is a reset state, as often as these were met.

        judged, met: how many states were lived in and how many were reset states, of those that it was fitted to and
          of all. Before the first of these, half of one counts as met.

        >>> once_weighed_equally = ResetJudge(np.array([0.0, 0.0, 0.0]))
        >>> float(once_weighed_equally.calibrated((100, 100), (900, 100)).weight[0])  # log(1/9)
        -2.1972245773362196
        """
        lived, dead = judged
        if not dead:
            return ResetJudge(np.concatenate([[log(0.5 / (met[0] + 1.0))], np.zeros(len(self.weight) - 1)]))
        shift = log(met[1] / met[0]) - log(weight_of_reset_states(lived, dead) * dead / lived)
        return ResetJudge(self.weight + np.eye(1, len(self.weight))[0] * shift)

    def corrected(self, shift: float, slope: float) -> ResetJudge:
        """The judge whose sum is shift + slope times that of this one."""
        return ResetJudge(slope * self.weight + np.eye(1, len(self.weight))[0] * shift)


def weight_of_reset_states(lived: int, dead: int) -> float:
    """How much each of r reset states weighs beside n states that were lived in."""
    return max(1.0, SHARE * lived / dead)


def fit_judge(lived: Floats, dead: Floats) -> ResetJudge:
    """The judge that separates the states lived in [n, D] from the reset states [r, D]; without those, none is one."""
    if not len(dead):
        return ResetJudge(np.concatenate([[-1.0], np.zeros(2 * lived.shape[1])]))
    z = np.clip(np.concatenate([lived, dead]), -FARTHEST, FARTHEST)
    inputs = np.concatenate([np.ones((len(z), 1)), z, z**2], axis=1)
    is_dead = np.arange(len(z)) >= len(lived)
    share = np.where(is_dead, weight_of_reset_states(len(lived), len(dead)), 1.0)
    ridge = np.full(inputs.shape[1], RIDGE)
    ridge[0] = FLAT
    weight = np.zeros(inputs.shape[1])
    for _ in range(STEPS):
        chance = 1.0 / (1.0 + np.exp(-np.clip(inputs @ weight, -LARGEST, LARGEST)))
        slope = inputs.T @ (share * (chance - is_dead)) + ridge * weight
        curvature = (inputs.T * (share * chance * (1.0 - chance) + FLAT)) @ inputs + np.diag(ridge)
        weight = weight - np.linalg.solve(curvature, slope)
    return ResetJudge(weight)


class Wall(NamedTuple):
    """An end of a sensor behind which reset states lie."""

    sensor: int
    above: bool  # whether it is an upper end
    lived: float  # the farthest that was lived in
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
        """One clause.  names: of all sensors.  falls: all of them.

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


def boundary(low: Floats, high: Floats, dead: Floats) -> list[Wall]:
    """The fewest walls, taken one after the other, each of which explains most of the reset states that are left.

    low, high: [D] the ends of what was lived in.  dead: [r, D] reset states; those amid what was lived in are explained
    by no wall.
    """
    size, ends = len(low), np.concatenate([-low, high])
    behind = np.concatenate([-dead, dead], axis=1) - ends
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
        found.append(Wall(best % size, above, lived, gap, int(explained.sum()), tuple(sorted(alike))))
        left &= ~explained
    return found


def walls(low: Floats, high: Floats, dead: Floats) -> tuple[Floats, Floats]:
    """[D] each, the lowest and highest of every sensor before a wall, infinite where there is none.

    low, high, dead: see `boundary`. A wall is halfway from an end to the nearest reset state behind it.
    """
    lowest, highest = np.full(len(low), -inf), np.full(len(high), inf)
    for wall in boundary(low, high, dead):
        (highest if wall.above else lowest)[wall.sensor] = wall.edge
    return lowest, highest
