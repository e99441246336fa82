"""Reset events and goals: the user's function, or a condition as text.

A condition is "terminated", "never", or terms joined by "and" and "or", such as "terminated and reward<=0",
"observation==36", "observation[2]>0.2" (a number of a vector), "achieved_goal[0]>0.2" (a number by its name, see
`flattening`) or "info.crashed" (an entry of the info).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from resetfree.core.errors import InvalidInput, imported
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
