"""What a step means to the learner: reset events, goals and rewards in fixed units.

Events are the user's function, or a condition as text.
A condition is "terminated", "never", or terms joined by "and" and "or", such as "terminated and reward<=0",
"observation==36", "observation[2]>0.2" (a number of a vector), "achieved_goal[0]>0.2" (a number by its name, see
`flattening`) or "info.crashed" (an entry of the info).

Rewards are the environment's own or the user's, scaled so that their range becomes [0, 1]. The units never change
during a run: they are those of the stated range, of a table, or of the first episode, which is scaled when it has
ended. A reward outside the range is not refused and not cut: it lies outside [0, 1] in the same units, and the run
notes it. So nothing that a player has stored must be scaled again, a resumed run has the units of the file, and only
claims for rewards in [0, 1] are concerned.

Units that are learned are those of usual steps (`usual`): neither a step that ends in a reset nor a rare penalty far
below all others counts for them, or it would squash what distinguishes the others. A reset has a price of its own:
where no range is stated, the reward of the step that leads to it counts as the end of [0, 1] that it exceeds.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from resetfree.core import Floats, InvalidInput, expect, imported, one_line
from resetfree.problems.gym.flattening import WHOLE

Decide: TypeAlias = Callable[[Any, float, bool, dict[str, Any]], Any]  # observation, reward, terminated, info
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
TERM = re.compile(
    r"(?P<negated>not )?(?P<subject>terminated|reward|info\.(?P<key>\w+)|(?P<name>[^\s<>=!][^<>=!]*?))"
    r"(\s*(?P<sign><=|>=|==|!=|<|>)\s*(?P<value>[-+0-9.einf]+))?"
)
ENTRY = re.compile(r"observation(\[(?P<entry>\d+)\])?")
Names: TypeAlias = Callable[[], Sequence[str]]  # of all numbers of a vector or of parts, made when needed
EXPECTED = (
    'must be a function of (observation, reward, terminated, info), module:function, "never", or conditions as in '
    '"terminated and reward<=0", "observation==36", "observation[2]>0.2", "info.crashed".'
)
SHOWN = 4  # names in a message
NONE = -1  # the place of what is no number of an observation


@dataclass(frozen=True)
class Term:
    """One condition, such as reward<=0."""

    subject: str  # terminated, reward, observation or info
    entry: int | None  # of an observation that is a vector
    key: str | None  # of the info
    sign: str | None  # None: the subject itself is true or false
    value: float
    negated: bool

    def holds(self, observation: Any, reward: float, terminated: bool, info: dict[str, Any]) -> bool:
        """Whether it is true after one step."""
        subject: Any = {"terminated": terminated, "reward": reward, "observation": observation}.get(self.subject)
        if self.key is not None:
            subject = info[self.key]
        elif self.entry is not None:
            subject = np.ravel(observation)[self.entry]
        result = bool(subject) if self.sign is None else bool(COMPARE[self.sign](subject, self.value))
        return result != self.negated


@dataclass(frozen=True)
class Condition:
    """A condition: true if all terms of any group hold.

    >>> fell = Condition.read("terminated and reward<=0", "CartPole")
    >>> fell(3, 0.0, True, {}), fell(3, 1.0, True, {}), Condition.read("never", "x")(3, 0.0, True, {})
    (True, False, False)
    """

    text: str
    groups: tuple[tuple[Term, ...], ...]

    @classmethod
    def read(cls, text: str, problem: str, names: Names = list, argument: str = "reset_when") -> Condition:
        """Parse a condition; raises InvalidInput, with `problem` and `argument` in the message.

        names: of the numbers of an observation, by which conditions may call them.
        """
        if text.strip() == "never":
            return cls("never", ())
        what = f"The '{argument}' of '{problem}' {EXPECTED}"
        groups = tuple(
            tuple(_term(term, text, what, names) for term in group.split(" and ")) for group in text.split(" or ")
        )
        return cls(text, groups)

    @property
    def reads_entries(self) -> bool:
        """Whether it reads single numbers of an observation."""
        return any(term.entry is not None for group in self.groups for term in group)

    def __call__(self, observation: Any, reward: float, terminated: bool, info: dict[str, Any]) -> bool:
        """Whether it is true after one step."""
        return any(all(term.holds(observation, reward, terminated, info) for term in group) for group in self.groups)


def _term(term: str, text: str, what: str, names: Names) -> Term:
    found = TERM.fullmatch(term.strip())
    wrong = InvalidInput(f"{what} Got '{text}' instead.")
    if found is None:
        raise wrong
    subject, entry = found["subject"].partition(".")[0], None
    if found["name"] is not None:
        known = names()
        subject, entry = "observation", _entry(found["name"], known)
        if entry == NONE:
            raise (
                wrong
                if not known
                else InvalidInput(
                    f"{what} The numbers of its observations are called {_listed(known)}. Got '{text}' instead."
                )
            )
    try:
        value = float(found["value"] or "nan")
    except ValueError:
        raise wrong from None
    if {"terminated": found["sign"] is not None, "info": False}.get(subject, found["sign"] is None):
        raise wrong  # a number needs a comparison, and `terminated` takes none
    return Term(subject, entry, found["key"], found["sign"], value, negated=found["negated"] is not None)


def _entry(name: str, known: Sequence[str]) -> int | None:
    """The place of the number that is called so, None for an observation that is one number, NONE for another word.

    Numbers of dictionaries may also be counted, observation[0] being the first, unless that is the name of another.
    """
    if name in known:
        return known.index(name)
    counted = ENTRY.fullmatch(name)
    if counted is None:
        return NONE
    if counted["entry"] is None:
        return None if list(known) in ([], [f"{WHOLE}[0]"]) else NONE
    entry, taken = int(counted["entry"]), any(one.startswith(WHOLE) for one in known)
    return entry if not known or (entry < len(known) and not taken) else NONE


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) <= SHOWN else [*names[: SHOWN - 1], "...", names[-1]])


def event(when: Decide | str | None, problem: str, names: Names = list, argument: str = "reset_when") -> Decide:
    """The user's function or condition as a function, None for `terminated`.  names, argument: see `Condition.read`."""
    if when is None:
        when = "terminated"
    if callable(when):
        return when
    if not isinstance(when, str):
        raise InvalidInput(f"The '{argument}' of '{problem}' {EXPECTED} Got {when!r} instead.")
    if ":" not in when:
        return Condition.read(when, problem, names, argument)
    return _function(when, f"The '{argument}' of '{problem}' {EXPECTED}")


def reward_function(reward: Decide | str | None, problem: str) -> Decide | None:
    """The user's own reward: a function, or module:function."""
    if reward is None or callable(reward):
        return reward
    what = (
        f"The 'reward' of '{problem}' must be a function of (observation, reward, terminated, info), module:function, "
        'or "goal" (1 for each goal, if goals are stated).'
    )
    if not isinstance(reward, str) or ":" not in reward:
        raise InvalidInput(f"{what} Got {reward!r} instead.")
    return _function(reward, what)


def _function(text: str, what: str) -> Decide:
    found: Decide = imported(text, what)
    if not callable(found):
        raise InvalidInput(f"{what} Got '{text}', which is {type(found).__name__}, instead.")
    return found


Units: TypeAlias = tuple[float, float]  # the rewards that become 0 and 1
AS_THEY_ARE: Units = (0.0, 1.0)
MANY = 20  # steps from which a penalty can be rare
RARE = 0.05  # the share of the steps that are at most a penalty
FAR = 2.0  # below the usual rewards by more than so many times the range between RARE and 1 - RARE
ROUNDING = 1e-6  # of the range: float32 rewards may exceed the end of their range by this


class Unusable(Exception):
    """An unusable result of an environment; the message continues a sentence after its name."""


@dataclass(frozen=True)
class PerGoal:
    """The reward that pays 1 for each step at a goal, and 0 for any other."""

    when: Decide

    def __call__(self, observation: Any, reward: float, terminated: bool, info: dict[str, Any]) -> float:
        """1 at a goal."""
        return float(bool(self.when(observation, reward, terminated, info)))


@dataclass(frozen=True)
class Rewards:
    """(own(observation, r, terminated, info) or r, - low) / (high - low)."""

    own: Decide | None = None
    low: float = 0.0
    high: float = 1.0
    stated: bool = False  # whether the user gave the range

    @classmethod
    def within(cls, own: Decide | None, given: Any, problem: str) -> Rewards:
        """Rewards with a given range, None if it must be learned; raises InvalidInput."""
        if given is None:
            return cls(own)
        try:
            low, high = (float(end) for end in given)
        except (TypeError, ValueError, LookupError, OverflowError):
            low, high = math.nan, math.nan
        good = math.isfinite(low) and math.isfinite(high) and low < high
        expect(good, f"'reward_range' of '{problem}'", "be two finite numbers, the lower first", given)
        return cls(own, low, high, stated=True)

    @property
    def units(self) -> Units | None:
        """The range that becomes [0, 1]; None if it must be learned."""
        return (self.low, self.high) if self.stated or isinstance(self.own, PerGoal) else None

    def __call__(self, observation: Any, reward: Any, terminated: bool, info: dict[str, Any]) -> float:
        """The reward of a step before it is scaled; raises Unusable."""
        value = number(reward)
        if self.own is None:
            return value
        try:
            return number(self.own(observation, value, terminated, info))
        except Unusable:
            raise
        except Exception as error:
            raise Unusable(f"could not be rewarded: its 'reward' raised {one_line(error)}") from error


def learned(least: float, most: float, final: bool) -> Units:
    """The units for rewards from `least` to `most`: as they are within [0, 1], else scaled.

    final: whether these are all that can come. If not, a small range now says nothing about later: it includes [0, 1].

    >>> learned(0.0, 0.5, final=True), learned(-1.0, -1.0, final=True), learned(5.0, 10.0, final=True)
    ((0.0, 1.0), (-1.0, 0.0), (0.0, 10.0))
    >>> learned(0.0, 0.5, final=False), learned(-0.1, -0.1, final=False), learned(5.0, 10.0, final=False)
    ((0.0, 1.0), (-0.1, 1.0), (0.0, 10.0))
    """
    within = least >= 0.0 and most <= 1.0
    return AS_THEY_ARE if within else (min(least, 0.0), max(most, 0.0 if final else 1.0))


def first_units(rewards: Floats, reset: bool) -> Units:
    """The units that the first episode suggests, from its usual steps."""
    return learned(*usual(rewards, reset), final=False)


def usual(rewards: Floats, reset: bool) -> tuple[float, float]:
    """The least and the largest reward of usual steps, from those of an episode.

    reset: whether the last step led to a reset: it is left out, if there is another. Of 20 steps or more those are left
    out that lie below the 5 % quantile by more than twice the distance between the 5 % and the 95 % quantiles, unless
    these are equal: then all that differs is what there is to be learned.

    >>> wave = np.linspace(-5.0, 0.0, 40)
    >>> usual(np.append(wave, -50.0), reset=True), usual(np.append(wave, -50.0), reset=False)
    ((-5.0, 0.0), (-5.0, 0.0))
    >>> usual(np.array([-3.0, -1.0, -9.0]), reset=False), usual(np.append(np.zeros(40), -50.0), reset=False)
    ((-9.0, -1.0), (-50.0, 0.0))
    """
    found = rewards[:-1] if reset and len(rewards) > 1 else rewards
    least, most = float(found.min()), float(found.max())
    if len(found) >= MANY:
        low, high = (float(end) for end in np.quantile(found, [RARE, 1 - RARE]))
        if high > low:
            least = float(found[found >= low - FAR * (high - low)].min())
    return least, most


def scaled(value: float, units: Units) -> float:
    """A reward in units; one that exceeds [0, 1] by rounding alone is cut.

    >>> scaled(-2.24, (-2.0, 7.0)), scaled(7.0000001, (-2.0, 7.0))
    (-0.02666666666666669, 1.0)
    """
    low, high = units
    found = (value - low) / (high - low)
    return min(max(found, 0.0), 1.0) if -ROUNDING <= found <= 1 + ROUNDING else found


def number(reward: Any) -> float:
    """A reward as a finite float; raises Unusable."""
    try:
        value = float(reward)
    except (TypeError, ValueError) as error:
        raise Unusable(f"gave the reward {reward!r}, which is not a number") from error
    if not math.isfinite(value):
        raise Unusable(f"gave the reward {value}, which is not a finite number")
    return value


def decided(
    argument: str,
    when: Decide,
    step: tuple[Any, float, bool, dict[str, Any]],
    numbers: Callable[[Any], Any] | None = None,
) -> bool:
    """Whether a step is an event; raises Unusable.

    argument: of `from_gym`, for messages.  numbers: of an observation of several parts, which conditions count.
    """
    observation = step[0]
    if numbers is not None and isinstance(when, Condition) and when.reads_entries:
        observation = numbers(observation)
    try:
        found = when(observation, *step[1:])
    except Exception as error:
        raise Unusable(f"could not be classified: its '{argument}' raised {one_line(error)}") from error
    if not isinstance(found, bool | np.bool_ | int | np.integer):
        raise Unusable(f"could not be classified: its '{argument}' must return True or False, and returned {found!r}")
    return bool(found)
