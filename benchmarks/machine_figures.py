"""What trials of benchmarks/machines.py show: falls until a machine stays up or earns, and the table of all trials.

Everything here is computed from lines that a results file holds, so that a question that comes up later needs no new
trial. A line has the steps and the reward of every episode, in the environment's own units, and the step of every fall.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LONG = 5_000  # steps in a row that count as learned
SHARE, RESETS = 0.95, 10  # of set points: reward against the controller's, and resets at most
Floats = NDArray[np.float64]
Line = dict[str, Any]


class Goal(NamedTuple):
    """LONG steps without a fall, with a mean reward of at least `least` in each; falls before that: median, most."""

    least: float | None = None
    median: float | None = None
    most: float | None = None

    def __str__(self) -> str:
        return f"{LONG:,} steps up" + ("" if self.least is None else f" at {self.least:g} a step")

    @property
    def target(self) -> str:
        """The falls that it may take, in words."""
        return " / ".join(f"{one:g}" for one in (self.median, self.most) if one is not None) or "-"


# What a machine has to show. Those without a goal have set points, and are compared with a controller.
GOALS: dict[str, tuple[Goal, ...]] = {
    "InvertedPendulum-v5": (Goal(None, 3, 8),),
    "InvertedDoublePendulum-v5": (Goal(None, 15, 40),),
    "Hopper-v5": (Goal(None, 6, 15), Goal(2.0, 60)),
    "Walker2d-v5": (Goal(None, 25), Goal(1.5, 100)),
    "Ant-v5": (Goal(), Goal(1.5, 10)),
    "cart-load": (),
    "two-tanks": (),
    "arm": (),
    "CartPole-v1": (Goal(None, 2, 11),),
    "upright-pendulum": (Goal(None, 3, 4),),
}


class Lived(NamedTuple):
    """The episodes of a trial; steps are counted from 1, and a fall is at the last step of its episode."""

    lengths: NDArray[np.int64]  # [n] steps of each episode
    returns: Floats  # [n] their rewards, in the environment's own units
    falls: NDArray[np.int64]  # the steps at which it fell
    breaks: NDArray[np.int64]  # the steps after which it was reset for another reason: an interrupted trial goes on

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Lived:
        """The episodes of a line."""
        lengths, falls, breaks = (np.array(line[name], dtype=np.int64) for name in ("lengths", "falls", "breaks"))
        return cls(lengths, np.array(line["returns"], dtype=np.float64), falls, breaks)

    def then(self, length: int, earned: float, *, fell: bool) -> Lived:
        """One more episode."""
        falls = [self.steps + length] if fell else []
        return Lived(
            np.append(self.lengths, length),
            np.append(self.returns, earned),
            np.append(self.falls, falls).astype(np.int64),
            self.breaks,
        )

    def broken(self) -> Lived:
        """Reset here, without a fall."""
        return self._replace(breaks=np.append(self.breaks, self.steps))

    @property
    def steps(self) -> int:
        """All steps."""
        return int(self.lengths.sum())


NOTHING = Lived.of({"lengths": [], "returns": [], "falls": [], "breaks": []})


class Window(NamedTuple):
    """Episodes in a row without a reset, LONG steps or just more: the step they end at, and their mean reward."""

    end: int
    reward: float


def windows(lived: Lived, long: int = LONG) -> list[Window]:
    """For every episode at whose end it has been up for so long: the shortest window of so many steps that ends there.

    >>> one = Lived(np.array([2, 1, 2, 2]), np.array([0.0, 9.0, 2.0, 4.0]), np.array([3]), np.array([], dtype=int))
    >>> windows(one, 2), windows(one, 3)
    ([Window(end=2, reward=0.0), Window(end=5, reward=1.0), Window(end=7, reward=2.0)], [Window(end=7, reward=1.5)])
    """
    ends = np.cumsum(lived.lengths)
    begins = ends - lived.lengths
    earned = np.concatenate([[0.0], np.cumsum(lived.returns)])
    stops = np.concatenate([[0], np.sort(np.concatenate([lived.falls, lived.breaks]))])
    since = stops[np.searchsorted(stops, begins, side="right") - 1]  # [n] the reset before each episode
    first = np.searchsorted(begins, ends - long, side="right") - 1  # [n] the episode in which the window begins
    up = ~np.isin(ends, lived.falls) & (ends - since >= long)
    return [
        Window(int(ends[j]), float((earned[j + 1] - earned[first[j]]) / (ends[j] - begins[first[j]])))
        for j in np.flatnonzero(up)
    ]


class Found(NamedTuple):
    """Falls before a goal, and the step at which it was reached; None: not reached, and more falls may follow."""

    falls: float
    step: int | None

    def __str__(self) -> str:
        return f"{self.falls:g}{'+' if self.step is None else ''}"


def reached(lived: Lived, goal: Goal, long: int = LONG) -> Found:
    """The first window that is good enough, and the falls before it."""
    for window in windows(lived, long):
        if goal.least is None or window.reward >= goal.least:
            return Found(int((lived.falls <= window.end).sum()), window.end)
    return Found(len(lived.falls), None)


def last_tenth(lived: Lived) -> float:
    """The mean reward of the last tenth of all steps, in whole episodes; nan if there are none."""
    if not len(lived.lengths):
        return math.nan
    from_end = np.cumsum(lived.lengths[::-1])
    count = int(np.searchsorted(from_end, lived.steps / 10)) + 1
    return float(lived.returns[-count:].sum() / lived.lengths[-count:].sum())


def middle(found: Iterable[Found]) -> Found:
    """The median, where what was not reached is worse than all that was; of two in the middle, their mean.

    >>> str(middle([Found(9, None), Found(2, 7000), Found(5, 6000)])), str(middle([Found(1, None), Found(2, 7000)]))
    ('5', '1.5+')
    """
    ordered = sorted(found, key=lambda one: (one.step is None, one.falls))
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return Found((low.falls + high.falls) / 2, high.step)


def worst(found: Iterable[Found]) -> Found:
    """The most falls; not reached if one of them was not."""
    ones = list(found)
    return Found(max(one.falls for one in ones), None if any(one.step is None for one in ones) else 0)


def newest(lines: Iterable[Line]) -> dict[tuple[str, str, int], Line]:
    """The last line of every trial: one that was cut and went on later has several."""
    return {(line["task"], line["learner"], line["seed"]): line for line in lines}


class Score(NamedTuple):
    """Cells of a row: what was to be shown, and what the seeds did."""

    goal: str
    target: str
    middle: str
    worst: str
    each: str
    met: bool | None  # None: there is no target


def scores(lines: list[Line], goals: Iterable[Goal]) -> list[Score]:
    """The rows of one task and learner."""
    return [_up(lines, goal) for goal in goals] or [_share(lines), _resets(lines)]


def _up(lines: list[Line], goal: Goal) -> Score:
    found = [reached(Lived.of(line), goal) for line in lines]
    half, most = middle(found), worst(found)
    pairs = [(one, limit) for one, limit in ((half, goal.median), (most, goal.most)) if limit is not None]
    met = all(one.step is not None and one.falls <= limit for one, limit in pairs) if pairs else None
    return Score(f"falls before {goal}", goal.target, str(half), str(most), " ".join(map(str, found)), met)


def _share(lines: list[Line]) -> Score:
    shares = [last_tenth(Lived.of(line)) / line["controller"] for line in lines]
    each = [f"{100 * one:.0f}{_cut(line)}" for one, line in zip(shares, lines, strict=True)]
    half, whole = median(shares), not any(map(_cut, lines))
    goal, target = "% of the controller's reward, last tenth", f"{100 * SHARE:g}"
    return Score(goal, target, f"{100 * half:.0f}", f"{100 * min(shares):.0f}", " ".join(each), whole and half >= SHARE)


def _resets(lines: list[Line]) -> Score:
    found = [Found(len(line["falls"]), None if _cut(line) else line["limit"]) for line in lines]
    half, most = middle(found), worst(found)
    met = most.step is not None and most.falls <= RESETS
    return Score("resets", f"- / {RESETS}", str(half), str(most), " ".join(map(str, found)), met)


def _cut(line: Line) -> str:
    """The mark of a trial that has not come to its end."""
    return "+" if line["status"] == "cut" else ""


def _tail(lines: list[Line]) -> list[str]:
    """Cells that are about trials, not goals: medians over the seeds."""
    lived = [Lived.of(line) for line in lines]
    best = [max((one.reward for one in windows(own)), default=math.nan) for own in lived]
    predicted = [sum(line["predicted"]) for line in lines]
    figures = [median(map(last_tenth, lived)), median(best) if not any(map(math.isnan, best)) else math.nan]
    words = ["-" if math.isnan(one) else f"{one:.2f}" for one in figures]
    words += [f"{median(own.steps for own in lived):.0f}"]
    words += [f"{median(predicted):.0f} / {median(len(own.falls) for own in lived):g}"]
    return words + [f"{median(line[name] for line in lines):.0f}" for name in ("cpu", "gpu")]


HEAD = (
    *("task", "shown", "learner", "target", "median", "worst", "each seed", "met"),
    *("reward a step: last tenth", f"best in {LONG:,} steps up", "steps", "falls predicted / real", "CPU s", "GPU s"),
)


def table(lines: Iterable[Line]) -> str:
    """All trials as one table in Markdown: a row for each task, learner and what is to be shown."""
    groups: dict[tuple[str, str], list[Line]] = defaultdict(list)
    shown = [line for _, line in sorted(newest(lines).items())]
    for line in shown:
        groups[line["task"], line["learner"]].append(line)
    rows = [HEAD, ("---",) * len(HEAD)]
    for task, learner in sorted(groups, key=lambda one: (list(GOALS).index(one[0]), one[1] != "ours", one[1])):
        own = groups[task, learner]
        for score in scores(own, GOALS[task]):
            met = "-" if score.met is None else "yes" if score.met else "no"
            said = (score.target, score.middle, score.worst, score.each, met)
            rows.append((task, score.goal, learner, *said, *_tail(own)))
    lost = [
        f"{line['task']}, {line['learner']}, seed {line['seed']}: {line['lost']}" for line in shown if line.get("lost")
    ]
    after = [f"\nRounds that were played but not saved when a process was killed: {'; '.join(lost)}."] if lost else []
    return "\n".join([f"| {' | '.join(row)} |" for row in rows] + after)
