"""A run while it goes on: how fast, how many resets, which multiplier, how long still; on a terminal only."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from resetfree.errors import RunError
from resetfree.game import Game, Round
from resetfree.runs.ledger import read

EVERY = 0.1  # seconds between two pictures


class Display:
    """A progress line on standard error, to be called after every round; does nothing where nobody can see it.

    resumed: the file of a run that goes on, whose resets count too.
    """

    def __init__(self, episodes: int, resumed: Path | None = None, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._resets, self._first = 0, 0
        self._due, self._began = 0.0, time.monotonic()
        self._progress: Progress | None = None
        if not console.is_terminal:
            return
        if resumed is not None:
            self._count(resumed)
        self._progress = Progress(
            TextColumn("episodes"), MofNCompleteColumn(), BarColumn(bar_width=24),
            TextColumn("{task.fields[rate]} per s · {task.fields[resets]} resets · λ {task.fields[lam]} ·"),
            TimeRemainingColumn(compact=True), TextColumn("left"),
            console=console, auto_refresh=False, transient=True,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=episodes, completed=self._first, rate="–", resets=0, lam="–")

    def __call__(self, game: Game, this: Round) -> None:
        """Note a round, and draw if it is time."""
        if self._progress is None:
            return
        self._resets += this.episode.reset
        now = time.monotonic()
        if now >= self._due:
            self._due = now + EVERY
            rate = (this.k - self._first) / max(now - self._began, 1e-9)
            self._progress.update(
                self._task, completed=this.k, rate=f"{rate:,.0f}", resets=self._resets, lam=f"{this.lam:.4g}"
            )
            self._progress.refresh()

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _count(self, file: Path) -> None:
        try:
            contents = read(file)
        except RunError:  # the run itself will say so
            return
        self._first = contents.k
        self._resets = int(contents.columns["reset"][: contents.k].sum())
