"""Which states are reset states, judged from few of them: a ridge logistic regression on the squares of sensors.

A machine is usually reset because some sensor leaves an interval (an angle, a height), which a sum of squares can say,
and which three falls begin to show. The nearest known state says less: in many dimensions it is near by accident.
Where sensors are many and falls are few, the sum is about what else these falls have in common. So there are walls:
the fewest ends of sensors, among all that were lived in, behind which the reset states lie.

Legend: z [D] a scaled state; features (1, z, z^2).
"""

from __future__ import annotations

from math import inf, log
from typing import NamedTuple

import numpy as np

from resetfree.problems.finite.transitions import Bools, Floats

RIDGE = 1.0  # on all weights but the first
SHARE = 0.2  # reset states weigh at least so much as all others: they are few, and missing one is dear
STEPS = 15  # of Newton's method
FLAT = 1e-9  # keeps its equations solvable where all is certain
FARTHEST = 10.0  # z is cut there: from a machine that stands still, a fall is far, and its square would drown the rest
LARGEST = 30.0  # logits are cut there, so that nothing overflows
STEEP = 3.0  # logit per deviation behind a wall
NARROW = 1.0  # least width of what was lived in: a sensor that hardly moved is no reason to expect a reset when it does
NEARLY = 1e-3  # of one reset state: what counts between ends behind which equally many lie is how far


class ResetJudge(NamedTuple):
    """A state counts as a reset state where weight.(1, z, z^2) > 0, and behind a wall."""

    weight: Floats  # [1 + 2 D]
    lowest: Floats | float = -inf  # [D] walls
    highest: Floats | float = inf  # [D]

    def logit(self, z: Floats) -> Floats:
        """[n] weight.(1, z, z^2) of the states z [n, D], or how far they are behind a wall if that is more."""
        return np.asarray(np.maximum(self._squares(z), STEEP * self._behind(z).max(axis=1)))

    def slope(self, z: Floats) -> Floats:
        """[n, D] the derivatives of the logits by z [n, D]."""
        size, behind, each = z.shape[1], self._behind(z), np.arange(len(z))
        slope = np.where(np.abs(z) < FARTHEST, self.weight[1 : 1 + size] + 2.0 * z * self.weight[1 + size :], 0.0)
        sensor = behind.argmax(axis=1)
        walled = STEEP * behind[each, sensor] > self._squares(z)
        slope[walled] = 0.0
        above = (z - self.highest >= self.lowest - z)[each, sensor]
        slope[each[walled], sensor[walled]] = np.where(above, STEEP, -STEEP)[walled]
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


def walls(low: Floats, high: Floats, dead: Floats) -> tuple[Floats, Floats]:
    """[D] each, the lowest and highest of every sensor before a wall, infinite where there is none.

    low, high: [D] the ends of what was lived in.  dead: [r, D] reset states. A wall is halfway from an end to the
    nearest reset state behind it. Ends are taken one after the other, each that explains most of what is left.
    """
    size, ends = len(low), np.concatenate([-low, high])
    behind = np.concatenate([-dead, dead], axis=1) - ends
    far = np.where(
        behind > 0.0, 1.0 + NEARLY * np.minimum(behind / np.tile(np.maximum(high - low, NARROW), 2), 1.0), 0.0
    )
    edges, left = np.full(2 * size, inf), (behind > 0.0).any(axis=1)
    while left.any():
        best = int(far[left].sum(axis=0).argmax())
        explained = left & (behind[:, best] > 0.0)
        edges[best] = ends[best] + 0.5 * behind[explained, best].min()
        left &= ~explained
    return -edges[:size], edges[size:]
