"""Pauses in which players compute: shown while they last and afterwards, no part of the record. The clock is ours."""

import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from rich.console import Console
from tests.waiting import until

import resetfree as rf
from resetfree.game import contract as pauses
from resetfree.game.contract import NOTABLE, Pauses
from resetfree.game.loop import begin, play
from resetfree.players.dual.one_multiplier import Counting
from resetfree.players.tabular.references import Uniform
from resetfree.runs.request import When
from resetfree.show.cli import progress as progress_of_runs
from resetfree.show.cli.progress import Display
from resetfree.show.cli.run_summary import show, summary


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    ours = Clock()
    monkeypatch.setattr(pauses, "monotonic", ours)
    return ours


def slow(clock: Clock, meanwhile: Callable[[int], object] = int) -> Uniform:
    """A player that plans for 3 s in round 2 and 2 s in round 4, and learns for 5 s after round 3.

    meanwhile: called with the number of rounds played, before a plan is ready.
    """
    played = [0]

    class Slow(Uniform):
        name: ClassVar[str] = "slow"

        def plan(self, state: Any, s1: Any, lam: float) -> Any:
            clock.time += {1: 3.0, 3: 2.0}.get(played[0], 0.0)
            meanwhile(played[0])
            return super().plan(state, s1, lam)

        def update(self, state: Any, round: Any) -> Any:
            played[0] = round.k
            clock.time += 5.0 if round.k == 3 else 0.0
            return super().update(state, round)

    return Slow()


def test_plans_and_updates_are_timed_and_episodes_are_not(clock: Clock) -> None:
    problem = rf.make("grid-v0").problem()
    player = slow(clock)
    game = begin(problem, player, Counting(), episodes=6, seed=1)
    found = []
    for _ in play(problem, player, Counting(), game, episodes=6):
        assert game.pauses.since is None
        clock.time += 60.0  # whoever takes the rounds may be slow
        found.append((game.pauses.last, game.pauses.longest, game.pauses.total))
    assert found == [(0, 0, 0), (3, 3, 3), (5, 5, 8), (2, 5, 10), (2, 5, 10), (2, 5, 10)]


def test_what_nobody_notices_is_no_pause(clock: Clock) -> None:
    waits = Pauses()
    for seconds, last, total in ((0.5 * NOTABLE, 0.0, 0.0), (2 * NOTABLE, 2 * NOTABLE, 2 * NOTABLE)):
        with waits:
            clock.time += seconds
            assert waits.now() == (None if seconds < NOTABLE else pytest.approx(seconds))
        assert [waits.last, waits.total] == pytest.approx([last, total])
        assert waits.now() is None
    with pytest.raises(KeyboardInterrupt), waits:
        raise KeyboardInterrupt
    assert waits.since is None


def test_a_pause_is_on_the_screen_while_it_lasts_and_afterwards(clock: Clock) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)

    def look(played: int) -> None:
        if played == 3:
            display._progress.refresh()  # type: ignore[union-attr]  # as its thread does four times a second

    with Display(6, None, console) as display:

        def progress(game: Any, this: Any) -> None:
            display._due = float("-inf")  # drawn after every round
            display(game, this)

        run = rf.learn("grid-v0", slow(clock, look), Counting(), episodes=6, seed=1, progress=progress)
    assert "the players compute … 2 s · last pause 5 s, longest 5 s" in screen.getvalue()
    assert "last pause 3 s, longest 3 s: the players computed" in screen.getvalue()
    assert "last pause 2 s, longest 5 s: the players computed" in screen.getvalue()
    data = summary(run)
    assert data["pauses"] == {"last": 2.0, "longest": 5.0, "total": 10.0}
    console = Console(file=(text := io.StringIO()), width=100)
    show(console, run, data)
    assert "5 s at the longest, 10 s in all" in text.getvalue()


def test_a_long_silence_without_a_terminal_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(progress_of_runs, "QUIET", 0.0)
    with Display(6, None, Console(file=out)) as display:
        until(lambda: "the problem and its players are being made.\n" in out.getvalue())
        waits = Pauses(since=time.monotonic() - 40.0)
        display.begins(SimpleNamespace(pauses=waits))  # type: ignore[arg-type]
        display._why_silent(41.0)
        waits.since = None
        display._why_silent(41.0)
    assert out.getvalue().startswith("0 of 6 episodes after ")
    assert "the players have computed for 40 s (at first use, code is compiled).\n" in out.getvalue()
    assert out.getvalue().endswith("an episode has taken 41 s so far.\n")
    assert Display(6, None, Console(file=out), quiet=True)._silence is None  # as with --json


def test_a_slow_start_in_real_time_says_why_before_the_first_episode_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (400.0, 400.0, 400.0), raising=False)
    display = Display(60, None, Console(file=io.StringIO()), when=When(rate=50.0))
    assert display._behind() == ""
    display._began -= 25.0
    assert display._behind().startswith("25 s for 0 s of ticks: the processor is busy (400 programs want its ")
    assert display._behind().endswith("; the learner yields to them, unless --learner usual")


def test_the_record_is_the_same_however_long_it_took(clock: Clock, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("late.rfrun", "soon.rfrun")]
    asked: dict[str, Any] = {"dual": Counting(), "episodes": 6, "seed": 1}
    late = rf.learn("grid-v0", slow(clock), **asked, path=files[0])
    soon = rf.learn("grid-v0", slow(Clock()), **asked, path=files[1])
    assert late.pauses is not None
    assert soon.pauses is not None
    assert (late.pauses.total, soon.pauses.total) == (10.0, 0.0)
    for name, column in late.columns.items():
        assert column.tobytes() == soon.columns[name].tobytes()
    read = rf.load(files[0])
    assert read.pauses is None
    assert summary(read)["pauses"] is None
