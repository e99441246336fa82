"""Requests of the page as records: each field declares what its key must be, and `core.settings.record` checks it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from resetfree.core.settings import Range, Rule, either, is_whole
from resetfree.game.loop import FEEDBACK
from resetfree.show.studio import limits


def _is_small(value: bool | int | float | str) -> bool:
    """Whether an option is within bounds: integers are sizes, and text may be a drawn grid."""
    if isinstance(value, str):
        return len(value) <= (limits.GRID + 1) ** 2
    return not is_whole(value) or -limits.SEED <= value <= limits.OPTION


ShortText: TypeAlias = Annotated[str, Rule(lambda text: len(text) <= 200, "text of at most 200 characters")]
LongText: TypeAlias = Annotated[str, Rule(lambda text: len(text) <= 2000, "text of at most 2000 characters")]
Seed: TypeAlias = Annotated[int, Range(0, limits.SEED)]
Option: TypeAlias = Annotated[
    bool | int | float | str, Rule(_is_small, f"a number of at most {limits.OPTION}, or a word")
]
Pace: TypeAlias = Annotated[float, Range(0, limits.FASTEST)]  # episodes per second; 0 for no limit
Lanes: TypeAlias = Annotated[list[Any], Rule(lambda lanes: 1 <= len(lanes) <= 2, "one or two pairs of players")]

FEEDBACKS = ("auto", *FEEDBACK)
Feedback: TypeAlias = Annotated[str, Rule(lambda word: word in FEEDBACKS, either(FEEDBACKS))]


@dataclass(frozen=True)
class GameRequest:
    """A game to start."""

    lanes: Lanes
    problem: ShortText = ""
    options: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, Any] | None = None
    by_hand: bool = False
    ask: Literal["never", "when-stuck"] = "never"
    episodes: Annotated[int, Range(1, limits.EPISODES)] = 2000
    seed: Seed = 0
    pace: Pace = 0
    paused: bool = False
    bound: Annotated[float, Range(0, 1e9)] | None = None
    feedback: Feedback = "auto"


@dataclass(frozen=True)
class LanePlayers:
    """The two players of a lane, and their settings."""

    primal: ShortText = "auto"
    dual: ShortText = "auto"
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Named:
    """A run by its name."""

    name: ShortText


@dataclass(frozen=True)
class Control:
    """A command for a running or stored game."""

    name: ShortText
    action: Literal["pause", "go", "step", "speed", "stop", "resume"]
    pace: Pace = 0
    paused: bool = False


@dataclass(frozen=True)
class Reply:
    """The answer to a reset request: performed, or stop the run."""

    id: ShortText
    name: Any = None
    lane: int = 0
    who: ShortText = ""
    note: LongText = ""
    stop: bool | None = None
