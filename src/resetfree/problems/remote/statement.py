"""What a machine says of itself when it is greeted: its actions, sensors and rate, its reward, and what a fall is.

It is JSON in the WELCOME packet, so that a small controller can send it as one constant text. It comes over a wire and
is checked before anything is made of it.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypedDict

import numpy as np
from gymnasium import spaces

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import Positive, Range, Rule, check, shown
from resetfree.problems.gym.flattening import NamedBox
from resetfree.problems.remote.packets import MOST

Finite: TypeAlias = Annotated[float, Range(-1e300, 1e300)]
Name: TypeAlias = Annotated[str, Rule(lambda text: bool(re.fullmatch(r"\w[\w -]{0,39}", text)), "a short name")]
Words: TypeAlias = Annotated[str, Rule(lambda text: len(text) <= 200 and text.isprintable(), "a short sentence")]


class ActionForm(TypedDict):
    """One number of an action."""

    name: Name
    low: Finite
    high: Finite
    neutral: Finite


class SensorForm(TypedDict):
    """One sensor; null for no bound."""

    name: Name
    low: Finite | None
    high: Finite | None


class RewardForm(TypedDict):
    """The range of all rewards."""

    low: Finite
    high: Finite


class StatementForm(TypedDict):
    """The JSON of a statement."""

    name: Name
    rate: Positive
    lockstep: bool
    watchdog_ms: Annotated[float, Range(0, 1e9)]
    actions: list[ActionForm]
    sensors: list[SensorForm]
    reward: RewardForm
    fall: Words


@dataclass(frozen=True)
class Signal:
    """One number of an action, or one sensor."""

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class MachineStatement:
    """What a machine says of itself."""

    name: str
    rate: float  # sensor packets per second
    lockstep: bool  # whether its time goes on only by commands
    watchdog_ms: float  # it takes the neutral action after so long without a command; 0: never
    actions: tuple[Signal, ...]  # [A]
    neutral: tuple[float, ...]  # [A]
    sensors: tuple[Signal, ...]  # [D]
    reward: tuple[float, float]  # the least and the most
    fall: str  # what counts as a fall, in words

    @property
    def action_space(self) -> spaces.Box:
        """The box of actions."""
        low, high = ends(self.actions)
        return spaces.Box(low, high, dtype=np.float64)

    @property
    def observation_space(self) -> NamedBox:
        """The box of sensors, with their names."""
        return NamedBox(*ends(self.sensors), names=tuple(one.name for one in self.sensors))

    @property
    def text(self) -> str:
        """As JSON."""
        form: StatementForm = {
            "name": self.name,
            "rate": self.rate,
            "lockstep": self.lockstep,
            "watchdog_ms": self.watchdog_ms,
            "actions": [
                {"name": one.name, "low": one.low, "high": one.high, "neutral": rest}
                for one, rest in zip(self.actions, self.neutral, strict=True)
            ],
            "sensors": [{"name": one.name, "low": _number(one.low), "high": _number(one.high)} for one in self.sensors],
            "reward": {"low": self.reward[0], "high": self.reward[1]},
            "fall": self.fall,
        }
        return json.dumps(form, allow_nan=False, separators=(",", ":"))

    @classmethod
    def read(cls, text: bytes) -> MachineStatement:
        """The statement of a WELCOME packet; raises InvalidInput."""
        what = "statement of the machine"
        try:
            form: Any = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"The {what} must be JSON. Got {shown(text[:80])} instead.") from error
        check(form, StatementForm, what)
        actions, neutral = [], []
        for one in form["actions"]:
            actions.append(Signal(one["name"], float(one["low"]), float(one["high"])))
            neutral.append(float(one["neutral"]))
            if not one["low"] <= one["neutral"] <= one["high"]:
                raise InvalidInput(f"The {what} must have low <= neutral <= high. Got {shown(one)} instead.")
        sensors = [Signal(one["name"], _bound(one["low"], -1), _bound(one["high"], 1)) for one in form["sensors"]]
        for signals, kind in ((actions, "actions"), (sensors, "sensors")):
            names = {one.name for one in signals}
            if not 0 < len(signals) <= MOST or len(names) < len(signals) or any(one.low > one.high for one in signals):
                raise InvalidInput(
                    f"The {what} must have 1 to {MOST} {kind} with names of their own and low <= high. "
                    f"Got {shown(form[kind])} instead."
                )
        reward = (float(form["reward"]["low"]), float(form["reward"]["high"]))
        if not reward[0] < reward[1]:
            raise InvalidInput(f"The {what} must have a range of rewards. Got {shown(form['reward'])} instead.")
        return cls(
            name=form["name"],
            rate=float(form["rate"]),
            lockstep=form["lockstep"],
            watchdog_ms=float(form["watchdog_ms"]),
            actions=tuple(actions),
            neutral=tuple(neutral),
            sensors=tuple(sensors),
            reward=reward,
            fall=form["fall"],
        )


def ends(signals: tuple[Signal, ...]) -> tuple[Floats, Floats]:
    """The bounds of signals, each as a vector."""
    return np.array([one.low for one in signals]), np.array([one.high for one in signals])


def _number(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


def _bound(number: float | None, sign: int) -> float:
    return sign * math.inf if number is None else float(number)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")
