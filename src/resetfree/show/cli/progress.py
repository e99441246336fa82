"""Progress of a run on a terminal: rate, resets, bounds on them, time left; elsewhere why it is silent.

Legend: k episodes so far, N resets in them, V_c of an episode its probability of a reset given its policy and start.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from resetfree.core.errors import RunError
from resetfree.core.interrupts import STOPPING, say_stopping
from resetfree.core.readable import counted, duration, number
from resetfree.game.contract import Pauses, Round
from resetfree.game.loop import Game
from resetfree.problems.operators import Answer, Operator, Request
from resetfree.runs.display import meant
from resetfree.runs.file.ledger import read, read_spec_of
from resetfree.runs.live.learner_location import LOWEST
from resetfree.runs.request import When
from resetfree.runs.result import Run
from resetfree.theory.certificates.anytime import SHOWN, resets_upper
from resetfree.theory.certificates.record import UNKNOWN

EVERY = 0.1  # seconds between two pictures
REDRAWN = 4  # times per second, at least
WIDEST = 100  # columns
QUIET = 10.0  # seconds in which no episode ends, before a line says why where there is no terminal; then twice as long
SLOWER, STARTING = 1.5, 5.0  # a run in real time may take so many times its ticks, and so many seconds more


@dataclass
class Tally:
    """Resets and steps so far, and bounds on the expected resets that need no model.

    >>> tally = Tally()
    >>> for k in range(1000):
    ...     tally.note(reset=k < 200 and k % 20 == 0, steps=8)
    >>> tally.resets, round(tally.upper, 1), tally.mean_steps
    (10, 23.4, 800.0)
    >>> episodes, resets, bound = tally.recent
    >>> episodes, resets, round(bound, 1), round(tally.further(100), 1)
    (744, 0, 9.7, 1.3)
    """

    episodes: int = 0
    resets: int = 0
    steps: int = 0
    predicted: float = 0.0  # resets, by the primal player; nan if it predicts none
    goals: int = 0
    _marks: list[int] = field(default_factory=lambda: [0])  # resets after 0, 1, 2, 4, 8, ... episodes

    @classmethod
    def of(cls, columns: Mapping[str, Any], episodes: int | None = None) -> Tally:
        """The tally of a run, or of its first episodes."""
        tally = cls()
        names = ("reset", "steps", "v_c_hat") if "v_c_hat" in columns else ("reset", "steps")
        for one in zip(*(columns[name][:episodes].tolist() for name in names), strict=True):
            tally.note(*one)
        tally.goals = int(columns["goals"][:episodes].sum()) if "goals" in columns else 0
        return tally

    def note(self, reset: bool, steps: int, predicted: float = math.nan, goals: int = 0) -> None:
        """Add an episode."""
        self.goals += goals
        self.episodes += 1
        self.resets += reset
        self.steps += steps
        self.predicted += predicted
        if self.episodes & (self.episodes - 1) == 0:
            self._marks.append(self.resets)

    @property
    def upper(self) -> float:
        """Above the sum of V_c over all episodes so far, after every episode at once, with 95 %: `resets_upper(N)`."""
        return float(resets_upper(self.resets, SHOWN))

    @property
    def recent(self) -> tuple[int, int, float]:
        """The last m episodes, the resets in them, and what is above the sum of V_c over them.

        m = k - k_0 where k_0 is the largest of 0, 1, 2, 4, ... up to k/2, so that at least half of the run counts. The
        bound is `resets_upper(N_k - N_{k_0}, delta_i)`, delta_i = delta / ((i+1)(i+2)) for the i-th of these k_0: they
        add up to delta, so all of them hold after every episode at once with 95 %.
        """
        i = max(self.episodes.bit_length() - 1, 0)
        since = 0 if i == 0 else 1 << (i - 1)
        resets = self.resets - self._marks[i]
        return self.episodes - since, resets, float(resets_upper(resets, SHOWN / ((i + 1) * (i + 2))))

    def further(self, episodes: int) -> float:
        """Above the expected resets in so many more episodes, if on average they are no worse than the recent ones."""
        length, _, bound = self.recent
        return float(episodes) if length == 0 else episodes * min(bound / length, 1.0)

    @property
    def mean_steps(self) -> float | None:
        """Steps between two resets, None before the first."""
        return self.steps / self.resets if self.resets else None


class OnTerminal:
    """A display on standard error; `_progress` is None if that is no terminal."""

    _progress: Progress | None

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()


class Display(OnTerminal):
    """Progress on standard error, to be called after every round.

    Without a terminal it says only, in rare lines, why no episode has ended for long.

    resumed: the file of a resumed run, whose resets count too.
    file: the run file, whose spec is read after the first round: a player may state the most resets.
    when: whether it is played in real time, and where it learns.
    quiet: nothing is said without a terminal.
    """

    def __init__(
        self,
        episodes: int,
        resumed: Path | None = None,
        console: Console | None = None,
        *,
        file: Path | None = None,
        when: When | None = None,
        quiet: bool = False,
    ) -> None:
        console = console or Console(stderr=True)
        self._episodes, self._file, self._console = episodes, file or resumed, console
        self._fresh = resumed is None
        self._tally = Tally()
        self._most: float | None = None
        self._rate = when.rate if when is not None and isinstance(when.rate, float) else None  # Hz, in real time
        self._yields = when is not None and when.learner == LOWEST
        self._pauses: Pauses | None = None  # until the game begins
        self._due, self._began, self._before = 0.0, time.monotonic(), 0.0
        self._file_read, self._steps = False, 0
        self._progress: _Lines | None = None
        self._silence = None if quiet or console.is_terminal else _Silence(self._why_silent)
        if resumed is not None:
            self._count(resumed)
        if not console.is_terminal:
            return
        self._first, self._steps = self._tally.episodes, self._tally.steps
        self._open(self._first)

    def _open(self, completed: int) -> None:
        """Make a new progress bar: one that was stopped would erase what was printed since."""
        console = self._console
        bar = [BarColumn(bar_width=24 if console.width >= 72 else 8)] if console.width >= 56 else []
        columns: list[ProgressColumn] = [
            TextColumn("episodes"),
            MofNCompleteColumn(),
            *bar,
            TextColumn("{task.fields[rate]} per s · λ {task.fields[lam]} ·"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
        ]
        # It is redrawn by a thread too: no round ends while the players compute.
        self._progress = _Lines(*columns, console=console, refresh_per_second=REDRAWN, transient=True)
        self._progress.clock, self._progress.pauses = self._behind, self._pauses or Pauses()
        self._task = self._progress.add_task("", total=self._episodes, completed=completed, rate="–", lam="–")

    def __enter__(self) -> Self:
        if self._silence is not None:
            self._silence.start()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        if self._silence is not None:
            self._silence.end()
        super().__exit__(*error)

    def begins(self, game: Game) -> None:
        """Show from now on what the players do, also before the first round."""
        self._pauses = game.pauses
        if self._progress is not None:
            self._progress.pauses = game.pauses

    def __call__(self, game: Game, this: Round) -> None:
        """Record a round, and redraw if it is time."""
        episode = this.episode
        self._tally.note(episode.reset, len(episode.actions), this.plan.v_c, episode.goals)
        if self._silence is not None:
            self._silence.broken()
        if self._progress is None:
            return
        now = time.monotonic()
        if now >= self._due:
            self._due = now + EVERY
            if not self._file_read:
                self._file_read, (self._most, predicts, self._rate) = True, _stated(self._file, self._fresh)
                self._tally.predicted = self._tally.predicted if predicts else math.nan
            rate = (this.k - self._first) / max(now - self._began, 1e-9)
            seconds, width = self._before + now - self._began, min(self._console.width, WIDEST)
            self._progress.below = resets_line(self._tally, self._episodes - this.k, seconds, self._most, width)
            self.begins(game)
            self._progress.stuck = game.stuck
            self._progress.update(self._task, completed=this.k, rate=number(rate), lam=number(this.lam))
            self._progress.refresh()

    def _behind(self) -> str:
        """Why a run in real time is slower than its clock, if it is; also while no episode ends."""
        if self._rate is None:
            return ""
        ticks = (self._tally.steps - self._steps) / self._rate
        return slower(ticks, time.monotonic() - self._began, yields=self._yields)

    def _why_silent(self, seconds: float) -> None:
        """Say on a line of its own why no episode has ended for so long."""
        k, n, spent = self._tally.episodes, self._episodes, duration(time.monotonic() - self._began)
        now = None if self._pauses is None else self._pauses.now()
        why = f"an episode has taken {duration(seconds)} so far"
        if now is not None:
            why = f"the players have computed for {duration(now)} (at first use, code is compiled)"
        elif self._pauses is None:
            why = "the problem and its players are being made"
        self._console.print(Text(f"{k:,} of {n:,} episodes after {spent}: {self._behind() or why}."), soft_wrap=True)

    def stopping(self) -> None:
        """Say that the first Ctrl-C was heard, also in the middle of a long plan."""
        if self._progress is None:
            say_stopping()
        else:
            self._progress.stops = True  # its thread draws it

    def watching(self, operator: Operator) -> Operator:
        """The same operator; while it works, the display is hidden and its clock stopped."""
        return _PausingOperator(self, operator)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the display and stop its clock."""
        then = time.monotonic()
        if self._progress is not None:
            self._progress.stop()
        if self._silence is not None:
            self._silence.held = True
        yield
        if self._silence is not None:
            self._silence.broken()
        self._began += time.monotonic() - then
        if self._progress is not None:
            self._open(self._tally.episodes)
            self._progress.start()

    def _count(self, file: Path) -> None:
        try:
            contents = read(file)
        except RunError:  # `learn` will raise it
            return
        self._tally = Tally.of(contents.columns, contents.k)
        self._before = max(contents.seconds - sum(one.seconds for one in contents.interventions), 0.0)


class _Silence:
    """Reports a silence that lasts, each time after twice as long."""

    def __init__(self, report: Callable[[float], None]) -> None:
        self._report, self._since, self._over = report, time.monotonic(), threading.Event()
        self.held = False  # whether it has a good reason
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def start(self) -> None:
        """Listen from now on."""
        self._thread.start()

    def broken(self) -> None:
        """Something was heard."""
        self._since, self.held = time.monotonic(), False

    def end(self) -> None:
        """Listen no more."""
        self._over.set()
        self._thread.join()

    def _listen(self) -> None:
        rest = due = QUIET
        while not self._over.wait(rest):
            silent = time.monotonic() - self._since
            if silent >= due and not self.held:
                self._report(silent)
                due = 2 * max(due, silent)
            rest = max(due - silent, 1.0)


class _Lines(Progress):
    """The bar, and below it a line about resets and one about pauses, also while one lasts; loud ones if need be."""

    below = ""
    stuck = ""  # what is wrong with its progress
    stops = False  # whether it ends after this round
    pauses = Pauses()
    clock: Callable[[], str] = staticmethod(str)  # a line about a clock that it does not keep

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.stops:
            yield Text(STOPPING, style="bold", no_wrap=True, overflow="ellipsis")
        if self.stuck:
            yield Text(self.stuck, style="bold red")
        for line in (self.below, pauses_line(self.pauses)):
            if line:
                yield Text(line, no_wrap=True, overflow="ellipsis")
        if line := self.clock():
            yield Text(line)


class _PausingOperator:
    """An operator during whose work the display is paused."""

    def __init__(self, display: Display, operator: Operator) -> None:
        self._display, self._operator = display, operator

    def perform(self, request: Request) -> Answer:
        """Perform the reset with the display paused."""
        with self._display.paused():
            return self._operator.perform(request)


def resets_line(tally: Tally, remaining: int, seconds: float, most: float | None, width: int) -> str:
    """Resets so far, bounds on their expectation and on what is still to come, and the mean time between two.

    most: resets that no path can exceed if a reset-free policy exists, or None.
    width: in characters; parts that do not fit are left out.

    >>> import numpy as np
    >>> tally = Tally.of({"reset": np.arange(500) % 50 == 0, "steps": np.full(500, 8)})
    >>> resets_line(tally, 500, 41.0, None, 100)
    '10 resets · expected ≤ 23.4 so far, ≤ 34.5 more at this pace (95 %) · one per 400 steps, 4.1 s'
    >>> resets_line(tally, 500, 41.0, 25.0, 80)
    '10 resets · expected ≤ 23.4 so far (95 %), ≤ 15 more if safe play exists'
    >>> resets_line(tally, 500, 41.0, None, 12)
    '10 resets'
    >>> tally.predicted = 8.25
    >>> resets_line(tally, 500, 41.0, 25.0, 90)
    '10 resets, 8.25 predicted · expected ≤ 23.4 so far (95 %), ≤ 15 more if safe play exists'
    >>> tally.goals = 3
    >>> resets_line(tally, 500, 41.0, None, 30)
    '10 resets, 3 goals'
    """
    n = tally.resets
    count = counted(n, "reset")
    if tally.goals:
        count += f", {tally.goals:,} goal{'' if tally.goals == 1 else 's'}"
    both_counts = f"{count}, {number(tally.predicted)} predicted" if math.isfinite(tally.predicted) else count
    so_far, more = f"expected ≤ {number(tally.upper)} so far", tally.further(remaining)
    first = f"{so_far} (95 %)"
    if most is not None and most - n <= more:
        both = f"{first}, ≤ {max(most - n, 0):,.0f} more if safe play exists"
    elif more >= remaining:  # a trivial bound
        both = first
    else:
        both = f"{so_far}, ≤ {number(more)} more at this pace (95 %)"
    if n:
        apart = f"one per {number(tally.steps / n)} steps, {duration(seconds / n)}"
    else:
        apart = f"none in {tally.steps:,} steps, {duration(seconds)}"
    whole = ([both_counts, both, apart], [count, both, apart], [both_counts, both], [count, both])
    for parts in (*whole, [count, first], [count, apart], [count]):
        line = " · ".join(parts)
        if len(line) <= width:
            break
    return line


def pauses_line(pauses: Pauses) -> str:
    """Whether the players compute now, and how long their last and their longest pause was; "" before the first.

    >>> pauses_line(Pauses(last=0.8, longest=1.24, total=9.0))
    'last pause 0.8 s, longest 1.2 s: the players computed'
    """
    now = pauses.now()
    past = f"last pause {duration(pauses.last)}, longest {duration(pauses.longest)}" if pauses.longest else ""
    if now is None:
        return f"{past}: the players computed" if past else ""
    return " · ".join(part for part in (f"the players compute … {duration(now)}", past) if part)


def slower(ticks: float, seconds: float, *, yields: bool = False) -> str:
    """Why a run in real time takes longer than its ticks, in one line; empty if it keeps to its clock.

    ticks: seconds of ticks that were played.  seconds: that they took; the start of the learner is in it.
    yields: whether the learner runs only when no other program wants the processor.

    >>> slower(60.0, 62.0), slower(0.4, 2.0)
    ('', '')
    >>> slower(60.0, 179.0).partition(": ")[0]
    '3 min for 60 s of ticks'
    """
    if seconds < SLOWER * ticks + STARTING:
        return ""
    cores, load = os.cpu_count() or 1, os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    busy = f"the processor is busy ({number(load)} programs want its {counted(cores, 'core')})"
    busy += "; the learner yields to them, unless --learner usual" if yields else ""
    why = busy if load > cores else "the machine was held until there was a plan, or a reset was performed"
    return f"{duration(seconds)} for {duration(ticks)} of ticks: {why}"


def _stated(file: Path | None, fresh: bool) -> tuple[float | None, bool, float | None]:
    """What the primal player states, or a spec that this process wrote: the most resets on any path; if it predicts.

    The third is the rate of a run in real time.
    """
    if file is None:
        return None, True, None
    try:
        spec = read_spec_of(file)
    except RunError:
        return None, True, None
    statement = Run(spec, {}, None, file, 0.0).statements["primal"]
    if fresh and statement["why"].startswith(UNKNOWN):  # code of the user is needed, and this process wrote the spec
        statement = spec["statements"]["primal"]
    most = statement.get("most_resets")
    rate = spec["timing"].get("rate") if "timing" in spec else None
    return most if isinstance(most, int | float) else None, meant(spec) != "none", rate
