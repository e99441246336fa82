"""Limits of sensors that are known before anything was tried: beyond a hard one is a reset state.

A limit is (low, high), None for no limit, by the name of a sensor or by its place; or a function of the numbers of a
state that is true where it must not be. The change of a sensor from one step to the next can have a limit too. With a
margin, coming so near to a limit costs reward, in proportion to how near: all of the reward of a step at the limit
itself. Limits of actions are kept by construction: what is beyond them is cut before it is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from resetfree.core import Bools, Floats, InvalidInput, expect, imported, is_function, one_line, shown
from resetfree.problems.action_spaces import Box
from resetfree.problems.features.scaling import Scaling

MUST = (
    'be {sensor: (low, high)} with None for no limit, as in {"temperature": (None, 80)} or "temperature=:80", a '
    "function of the numbers of a state that is true beyond the limit, or module:function"
)
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
    def read(
        cls, given: Any, names: Sequence[str], problem: str, margin: Any = None, must: str | None = None
    ) -> Limits:
        """The limits of an argument; raises InvalidInput, which says what they must be."""
        what = f"The 'limits' of '{problem}' must {MUST}." if must is None else must
        ends = np.array([[-inf] * len(names), [inf] * len(names)])
        if isinstance(given, str) and "=" not in given and ":" in given:
            given = imported(given, what)
        if is_function(given):
            given = {getattr(given, "__name__", "a function"): given}
        pairs: Any = _of_text(given, what) if isinstance(given, str) else given
        if not isinstance(pairs, Mapping) or not pairs:
            raise InvalidInput(f"{what} Got {shown(given)} instead.")
        functions = {str(name): one for name, one in pairs.items() if is_function(one)}
        for name, pair in pairs.items():
            if name in functions:
                continue
            i = _place(name, names, what)
            try:
                low, high = (end if one is None else float(one) for one, end in zip(pair, (-inf, inf), strict=True))
            except (TypeError, ValueError) as error:
                raise InvalidInput(f"{what} Got {shown(pair)} for {name!r} instead.") from error
            if not low < high or (low, high) == (-inf, inf):
                raise InvalidInput(f"{what} Got {shown(pair)} for {name!r} instead, which is no interval.")
            ends[:, i] = low, high
        found = cls(ends[0], ends[1], _margins(margin, names, problem, np.isfinite(ends).any(axis=0)))
        none = np.full(len(names), inf)
        return FurtherLimits(found.low, found.high, found.margin, none, functions) if functions else found

    def with_rates(self, given: Any, names: Sequence[str], problem: str) -> Limits:
        """These, and the most that sensors may change from one step to the next; raises InvalidInput."""
        what = f"The 'rate_limits' of '{problem}' must be {{sensor: the most that it may change in a step}}."
        if not isinstance(given, Mapping) or not given:
            raise InvalidInput(f"{what} Got {shown(given)} instead.")
        rate = np.full(len(names), inf)
        for name, most in given.items():
            rate[_place(name, names, what)] = _positive(most, f"{what} Got {shown(most)} for {name!r} instead.")
        return FurtherLimits(self.low, self.high, self.margin, rate, self.functions)

    @property
    def functions(self) -> Mapping[str, Callable[[Any], Any]]:
        """Functions of a state that are true beyond a limit, by name."""
        return {}

    @property
    def most_change(self) -> Floats | None:
        """[D] the most that a sensor may change in a step; None if nothing is said of that."""
        return None

    def crossed(self, state: Any) -> bool:
        """Whether a state is beyond a limit."""
        return bool(((state < self.low) | (state > self.high)).any()) or self._forbidden(state)

    def ends(self, before: Any, after: Any) -> bool:
        """Whether a step is a reset: to beyond a limit, or too quick."""
        return self.crossed(after) or self.too_fast(before, after)

    def stated(self, scaling: Scaling) -> Callable[[Floats], Bools] | None:
        """Whether scaled states [n, D] are beyond a limit that a function states; None without any."""
        return (lambda z: self.any_forbidden(scaling.centre + scaling.scale * z)) if self.functions else None

    def too_fast(self, before: Any, after: Any) -> bool:
        """Whether a step changed a sensor by more than it may."""
        most = self.most_change
        return most is not None and before is not None and bool((np.abs(after - before) > most).any())

    def _forbidden(self, state: Any) -> bool:
        """Whether a function is true of a state; raises InvalidInput where it fails."""
        for name, function in self.functions.items():
            try:
                found = function(np.array(state))  # its own: it may write to it
                if np.ndim(found) or np.asarray(found).dtype.kind not in "biuf" or found not in (0, 1):
                    raise TypeError(f"it must return True or False, not {shown(found)}")
            except Exception as error:  # the user's code
                raise InvalidInput(
                    f"The limit '{name}' raised {one_line(error)} for the state {shown(state)}."
                ) from error
            if found:
                return True
        return False

    def any_crossed(self, states: Floats) -> Bools:
        """[n] whether states [n, D] are beyond a limit."""
        found = np.asarray(((states < self.low) | (states > self.high)).any(axis=1))
        return found | self.any_forbidden(states)

    def any_forbidden(self, states: Floats) -> Bools:
        """[n] whether a function is true of states [n, D]."""
        if not self.functions:
            return np.zeros(len(states), dtype=np.bool_)
        return np.array([self._forbidden(state) for state in states], dtype=np.bool_)

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
        said += [f"known beforehand: where {name} is true is a reset" for name in self.functions]
        most = np.full(len(names), inf) if self.most_change is None else self.most_change
        for name, change in zip(names, most.tolist(), strict=True):
            if np.isfinite(change):
                said.append(f"known beforehand: {name} changing by more than {change:.4g} in a step is a reset")
        return said


@dataclass(frozen=True, eq=False)
class FurtherLimits(Limits):
    """Limits that are not intervals alone."""

    rate: Floats  # [D], infinite where there is none
    own: Mapping[str, Callable[[Any], Any]]

    @property
    def functions(self) -> Mapping[str, Callable[[Any], Any]]:
        """Those of the user."""
        return self.own

    @property
    def most_change(self) -> Floats | None:
        """[D], None if all are infinite."""
        return self.rate if np.isfinite(self.rate).any() else None


@dataclass(frozen=True, eq=False)
class ActionLimits:
    """How far each number of an action may go, and by how much it may change in a step.

    >>> limits = ActionLimits.read({0: (None, 0.8)}, {0: 0.1}, Box([0.0, 0.0], [1.0, 1.0]), "a pump")
    >>> limits.within.high.tolist(), limits.eased(np.array([0.5, 1.0]), np.array([0.2, 0.0])).round(2).tolist()
    ([0.8, 1.0], [0.3, 1.0])
    """

    within: Box
    rate: Floats  # [A], infinite where there is none

    @classmethod
    def read(cls, limits: Any, rates: Any, actions: Any, problem: str) -> ActionLimits:
        """Those of arguments; raises InvalidInput."""
        what = f"The 'action_limits' of '{problem}' must be {{action: (low, high)}}, its number from 0 or action_0"
        if not isinstance(actions, Box):
            raise InvalidInput(f"{what}, of continuous actions. Got listed actions: state actions=[...].")
        names = [f"action_{i}" for i in range(actions.size)]
        (low, high), rate = actions.ends, np.full(actions.size, inf)
        low, high = low.copy(), high.copy()
        if limits is not None:
            found = Limits.read(limits, names, problem, must=f"{what}, as in {{0: (None, 0.8)}}.")
            low, high = np.maximum(low, found.low), np.minimum(high, found.high)
            if found.functions or not (low < high).all():
                raise InvalidInput(f"{what}, within {actions}. Got {shown(limits)} instead.")
        pairs = dict.fromkeys(range(actions.size), rates) if isinstance(rates, int | float) else rates or {}
        expect(isinstance(pairs, Mapping), f"'action_rates' of '{problem}'", "be {action: change}", rates)
        for name, most in pairs.items():
            must = f"The 'action_rates' of '{problem}' must be {{action: the most that it may change in a step}}."
            rate[_place(name, names, must)] = _positive(most, f"{must} Got {shown(most)} for {name!r} instead.")
        shape, kind = actions.low.shape, actions.low.dtype
        return cls(type(actions)(low.reshape(shape).astype(kind), high.reshape(shape).astype(kind)), rate)

    def eased(self, action: Floats, before: Floats | None) -> Floats:
        """The nearest action that is not too far from the one before."""
        return action if before is None else np.clip(action, before - self.rate, before + self.rate)


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
    raise InvalidInput(f"{what} Got {shown(name)} instead; there are {', '.join(names)}.")


def _positive(given: Any, must: str) -> float:
    """A positive number; raises InvalidInput with the sentence for anything else."""
    try:
        found = float(given)
    except (TypeError, ValueError) as error:
        raise InvalidInput(must) from error
    if not found > 0.0:
        raise InvalidInput(must)
    return found


def _margins(given: Any, names: Sequence[str], problem: str, limited: Any) -> Floats:
    """[D] the margins: one number for all sensors that have limits, or by sensor."""
    what = (
        f"The 'margin' of '{problem}' must be a positive number, or one for each sensor with a limit: the limit of a "
        "function has none."
    )
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
