"""Limits of sensors that are known before anything was tried: beyond a hard one is a reset state.

A limit is (low, high), None for no limit, by the name of a sensor or by its place. With a margin, coming so near to a
limit costs reward, in proportion to how near: all of the reward of a step at the limit itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from resetfree.core.arguments import shown
from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import InvalidInput

MUST = 'be {sensor: (low, high)} with None for no limit, as in {"temperature": (None, 80)} or "temperature=:80"'
NEAR = 8  # visited states nearest to a limit that are shifted beyond it
BEYOND = 0.02  # by so much of the distance between the farthest of the visited states


@dataclass(frozen=True, eq=False)
class Limits:
    """Intervals of the numbers of a state, infinite where there is no limit, and the margins before them.

    >>> limits = Limits.read({"heat": (None, 80)}, ["level", "heat"], "a vessel", margin=10.0)
    >>> limits.crossed(np.array([5.0, 80.5])), limits.cost(np.array([5.0, 75.0]))
    (True, 0.5)
    >>> limits.in_words(["level", "heat"])
    ['known beforehand: heat above 80 is a reset']
    """

    low: Floats  # [D]
    high: Floats
    margin: Floats  # [D], 0 for none

    @classmethod
    def read(cls, given: Any, names: Sequence[str], problem: str, margin: Any = None) -> Limits:
        """The limits of an argument; raises InvalidInput."""
        what = f"The 'limits' of '{problem}' must {MUST}."
        ends = np.array([[-inf] * len(names), [inf] * len(names)])
        pairs = _of_text(given, what) if isinstance(given, str) else given
        if not isinstance(pairs, Mapping) or not pairs:
            raise InvalidInput(f"{what} Got {shown(given)} instead.")
        for name, pair in pairs.items():
            i = _place(name, names, what)
            try:
                low, high = (end if one is None else float(one) for one, end in zip(pair, (-inf, inf), strict=True))
            except (TypeError, ValueError) as error:
                raise InvalidInput(f"{what} Got {shown(pair)} for {name!r} instead.") from error
            if not low < high or (low, high) == (-inf, inf):
                raise InvalidInput(f"{what} Got {shown(pair)} for {name!r} instead, which is no interval.")
            ends[:, i] = low, high
        return cls(ends[0], ends[1], _margins(margin, names, problem, np.isfinite(ends).any(axis=0)))

    def crossed(self, state: Any) -> bool:
        """Whether a state is beyond a limit."""
        return bool(((state < self.low) | (state > self.high)).any())

    def any_crossed(self, states: Floats) -> Bools:
        """[n] whether states [n, D] are beyond a limit."""
        return np.asarray(((states < self.low) | (states > self.high)).any(axis=1))

    def cost(self, state: Any) -> float:
        """How far a state is into a margin, as a part of it; 1 at the limit and beyond."""
        into = np.maximum(self.low + self.margin - state, state - (self.high - self.margin))
        soft = self.margin > 0.0
        return float(np.clip(into[soft] / self.margin[soft], 0.0, 1.0).max()) if soft.any() else 0.0

    def examples(self, states: Floats) -> Floats:
        """[n, D] states beyond the limits: visited ones [., D] that are nearest to each, shifted beyond it."""
        found, span = [np.empty((0, states.shape[1]))], np.ptp(states, axis=0)
        for i in range(states.shape[1]):
            for end, sign in ((self.low[i], -1.0), (self.high[i], 1.0)):
                if np.isfinite(end):
                    near = states[np.argsort(np.abs(states[:, i] - end), kind="stable")[:NEAR]].copy()
                    near[:, i] = end + sign * BEYOND * max(span[i], abs(end) * BEYOND)
                    found.append(near)
        return np.concatenate(found)

    def in_words(self, names: Sequence[str]) -> list[str]:
        """One clause for each limit."""
        said = []
        for i, name in enumerate(names):
            for end, how in ((self.low[i], "below"), (self.high[i], "above")):
                if np.isfinite(end):
                    said.append(f"known beforehand: {name} {how} {end:.4g} is a reset")
        return said


def _of_text(text: str, what: str) -> dict[str, tuple[float | None, float | None]]:
    """The limits of text such as "temperature=:80,level=0.1:0.6"."""
    found = {}
    for part in text.split(","):
        name, equals, interval = part.partition("=")
        low, colon, high = interval.partition(":")
        try:
            found[name.strip()] = (float(low) if low.strip() else None, float(high) if high.strip() else None)
        except ValueError:
            colon = ""
        if not (equals and colon):
            raise InvalidInput(f"{what} Got {shown(text)} instead.")
    return found


def _place(name: Any, names: Sequence[str], what: str) -> int:
    """The place of a sensor by its name or its number."""
    if name in names:
        return list(names).index(name)
    number = int(name) if isinstance(name, str) and name.isdecimal() else name
    if isinstance(number, int | np.integer) and not isinstance(number, bool) and 0 <= number < len(names):
        return int(number)
    raise InvalidInput(f"{what} Got {shown(name)} instead; the sensors here are {', '.join(names)}.")


def _margins(given: Any, names: Sequence[str], problem: str, limited: Any) -> Floats:
    """[D] the margins: one number for all sensors that have limits, or by sensor."""
    what = f"The 'margin' of '{problem}' must be a positive number, or one for each sensor with a limit."
    found = np.zeros(len(names))
    try:
        if isinstance(given, Mapping):
            for name, width in given.items():
                found[_place(name, names, what)] = float(width)
        elif given is not None:
            found[limited] = float(given)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} Got {shown(given)} instead.") from error
    good = np.isfinite(found).all() and (found >= 0).all() and not found[~limited].any()
    if given is not None and not (good and found.any()):
        raise InvalidInput(f"{what} Got {shown(given)} instead.")
    return found
