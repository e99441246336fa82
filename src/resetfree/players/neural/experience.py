"""What networks learn from: scales of a machine, thresholds that explain its falls, and rows. None of this needs JAX.

Legend: see `world_model`; n rows, the first of the replay buffer.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.game.replay_buffer import ReplayBuffer
from resetfree.players.neural.networks import FAR, narrow
from resetfree.players.neural.world_model import Normaliser, StepRows
from resetfree.problems.action_spaces import Box, to_unit

REFITS = (200, 400, 800, 1500, 3000, 5000, 8000, 12_000, 20_000, 35_000)  # rows at which scales are found anew
LEAST_SCALE = 1e-3  # of the largest number in a state: a sensor that hardly moves predicts nothing
MARGIN = 0.3  # of the width of what was visited, by which rollouts may leave it
WALLS = 6  # thresholds at most
LEAST_ROOM, GROWS = 4096, 4  # of arrays of rows, and their factor when they are full: each size is compiled once


def is_refit(before: int, n: int) -> bool:
    """Whether scales are found anew when rows have grown to n."""
    return any(before < at <= n for at in REFITS) or (before == 0 and n > 0)


def found_scales(rows: ReplayBuffer, n: int, old: Normaliser) -> Normaliser:
    """The scales of the first n rows; their thresholds and bounds follow from `bounded`."""
    taken = np.flatnonzero(rows.taken(n))
    s, change = rows.state[taken], rows.state[taken + 1] - rows.state[taken]
    scale = s.std(axis=0) + LEAST_SCALE
    y = np.concatenate([change / scale, rows.reward[taken, None]], axis=1)
    deviation = y.std(axis=0) + 1e-4
    made = {"centre": s.mean(axis=0), "scale": scale, "mean": y.mean(axis=0), "deviation": deviation}
    return old._replace(**{name: narrow(part) for name, part in made.items()})


def bounded(rows: ReplayBuffer, n: int, scales: Normaliser) -> Normaliser:
    """The scales with the bounds of rollouts and the thresholds of falls that follow from the first n rows."""
    state, fell = rows.state[:n], rows.terminated[:n]
    low, high = _to_z(state.min(axis=0), scales), _to_z(state.max(axis=0), scales)
    width = MARGIN * (high - low)
    least, most, unexplained = -np.full(state.shape[1], FAR), np.full(state.shape[1], FAR), 0.0
    if fell.any() and not fell.all():
        lived = np.where(fell[:, None], np.nan, state)
        with np.errstate(invalid="ignore"):
            box = _to_z(np.nanmin(lived, axis=0), scales), _to_z(np.nanmax(lived, axis=0), scales)
        least, most, left = thresholds(*box, _to_z(state[fell], scales))
        unexplained = float(left.mean())
    ends = {"least": low - width, "most": high + width, "low": least, "high": most, "unexplained": unexplained}
    return scales._replace(**{name: narrow(part) for name, part in ends.items()})


def _to_z(s: Floats, scales: Normaliser) -> Floats:
    return np.asarray((s - scales.centre) / scales.scale, dtype=np.float64)


def thresholds(low: Floats, high: Floats, falls: Floats) -> tuple[Floats, Floats, Bools]:
    """Thresholds [D] below and above, which no survivor has passed, that cover the falls [m, D], and [m] what is left.

    Greedy: the threshold of one sensor that most falls pass, then the one that most of the others pass. It lies half
    way from the box of the survivors to the nearest of these falls.

    low, high: [D] each, that box.

    >>> thresholds(np.array([-1.0, 0.0]), np.array([1.0, 2.0]), np.array([[1.5, 1.0], [1.2, 1.0]]))[1].round(2)
    array([1.1e+00, 1.0e+06])
    """
    below, above = np.full(len(low), -FAR), np.full(len(high), FAR)
    beyond = np.concatenate([falls - high, low - falls], axis=1)
    left = np.ones(len(falls), dtype=np.bool_)
    for _ in range(WALLS):
        covers = (beyond > 0.0) & left[:, None]
        count = covers.sum(axis=0)
        if not count.any():
            break
        near = np.where(covers, beyond, 0.0).sum(axis=0) / np.maximum(count, 1)
        j = int(np.lexsort((near, -count))[0])  # of two that cover as many, the one with the falls nearest to it
        gap = 0.5 * beyond[covers[:, j], j].min()
        side, i = divmod(j, len(low))
        if side:
            below[i] = max(below[i], low[i] - gap)
        else:
            above[i] = min(above[i], high[i] + gap)
        left &= ~covers[:, j]
    return below, above, left


@dataclass
class ScaledRows:
    """The rows of a replay buffer on one scale, computed once each."""

    scales: Normaliser | None = None
    n: int = 0
    seen: int = 0  # rows of the replay buffer that they rest on
    rows: StepRows = field(default_factory=lambda: StepRows(*(np.zeros((0, 1), np.float32) for _ in StepRows._fields)))

    def add(self, buffer: ReplayBuffer, n: int, scales: Normaliser, box: Box) -> slice:
        """Take the rows up to n; on other scales all of them anew. Returns where the new ones are."""
        if self.scales is None or not same_units(scales, self.scales):
            self.scales, self.n, self.seen = scales, 0, 0
        first, old = self.seen, self.n
        taken = first + np.flatnonzero(buffer.taken(n, first)[: n - first])
        taken = taken[taken + 1 < n]
        z, after = (np.clip(_to_z(buffer.state[at], scales), -FAR, FAR) for at in (taken, taken + 1))
        parts = (
            z,
            to_unit(buffer.action[taken], *box.ends),
            after - z,
            buffer.reward[taken],
            buffer.terminated[taken + 1],
        )
        self._grow(old + len(taken), parts)
        for whole, part in zip(self.rows, parts, strict=True):
            whole[old : old + len(taken)] = narrow(part)
        self.n, self.seen = old + len(taken), n
        return slice(old, self.n)

    def _grow(self, n: int, like: tuple[NDArray[np.floating | np.bool_], ...]) -> None:
        room = max(LEAST_ROOM, len(self.rows.z))
        while room < n:
            room *= GROWS
        if room > len(self.rows.z) or self.rows.z.shape[1:] != like[0].shape[1:]:
            new = StepRows(*(np.zeros((room, *part.shape[1:]), np.float32) for part in like))
            for whole, part in zip(new, self.rows, strict=True):
                if self.n:
                    whole[: self.n] = part[: self.n]
            self.rows = new


def same_units(one: Normaliser, other: Normaliser) -> bool:
    """Whether z is the same on both."""
    return np.array_equal(one.centre, other.centre) and np.array_equal(one.scale, other.scale)
