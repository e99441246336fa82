"""Rewards in [0, 1]: the environment's own, the user's, or scaled from a given range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from resetfree.core.naming import one_line
from resetfree.core.settings import expect
from resetfree.problems.gym.events import Decide

ROUNDING = 1e-6  # of the range: float32 rewards may exceed the end of their range by this


class Unusable(Exception):
    """An unusable result of an environment; the message continues a sentence after its name."""


@dataclass(frozen=True)
class Rewards:
    """(own(observation, r, terminated, info) or r, - low) / (high - low)."""

    own: Decide | None = None
    low: float = 0.0
    high: float = 1.0
    stated: bool = False  # whether the user gave the range

    @classmethod
    def within(cls, own: Decide | None, given: Any, problem: str) -> Rewards:
        """Rewards with a given range, None for [0, 1]; raises InvalidInput."""
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
    def changed(self) -> bool:
        """Whether the learner's rewards differ from the environment's."""
        return self.own is not None or self.stated

    def __call__(self, observation: Any, reward: Any, terminated: bool, info: dict[str, Any]) -> float:
        """The learner's reward for a step; raises Unusable."""
        value = number(reward)
        if self.own is not None:
            try:
                value = number(self.own(observation, value, terminated, info))
            except Unusable:
                raise
            except Exception as error:
                raise Unusable(f"could not be rewarded: its 'reward' raised {one_line(error)}") from error
        return self.scaled(value)

    def scaled(self, value: float) -> float:
        """A reward in [0, 1]; raises Unusable."""
        scaled = (value - self.low) / (self.high - self.low)
        if not -ROUNDING <= scaled <= 1 + ROUNDING:
            raise Unusable(f"gave the reward {value:g}, {self.outside(value, value)}")
        return min(max(scaled, 0.0), 1.0)

    def outside(self, least: float, most: float) -> str:
        """The end of a message about rewards outside the range."""
        if self.stated:
            return f"which is outside the stated range [{self.low:g}, {self.high:g}]: state a wider 'reward_range'"
        return (
            "which is outside [0, 1]: state the range of all its rewards, as in "
            f"reward_range=({min(least, 0.0):g}, {max(most, 0.0):g}), or reward_low and reward_high on the command line"
        )


def number(reward: Any) -> float:
    """A reward as a finite float; raises Unusable."""
    try:
        value = float(reward)
    except (TypeError, ValueError) as error:
        raise Unusable(f"gave the reward {reward!r}, which is not a number") from error
    if not math.isfinite(value):
        raise Unusable(f"gave the reward {value}, which is not a finite number")
    return value
