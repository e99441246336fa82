"""Learners that hang: which do, by simulated looks; and that they are replaced and nothing is lost, by real processes.

Nothing is asserted about time. Real runs go on for as long as the learner takes to come back.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runs.live.quick_players import Deadlocked, Looping, Mortal, Quick, Stalling
from tests.runs.live.test_live import learn, replayed
from tests.runs.live.test_ray_learner import HERE, tame
from tests.waiting import children, is_gone, surroundings, until

import resetfree as rf
from resetfree.core import Notice
from resetfree.core.system import Activity, activity
from resetfree.runs.file.ledger import read
from resetfree.runs.live.board import MOST, STOPPED, TICK, TIMES, Progress, Vigil
from resetfree.show.cli.run_summary import timing

NEVER = 10**6  # looks
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process does")


def looks(vigil: Vigil, states: str, share: float = 0.0, every: float = TICK, most: int = 10_000) -> int:
    """Looks at a learner that does not go on until it hangs, NEVER if it does not.

    share: of a processor that it gets.  every: seconds between two looks.
    """
    vigil.begin()
    for n in range(most):
        doing = None if states == "?" else Activity(frozenset(states), share * n * every)
        if vigil.see(1000.0 + n * every, 7, doing) is not None:
            return n
    return NEVER


def test_a_learner_is_charged_for_the_time_in_which_it_could_have_gone_on() -> None:
    vigil = Vigil(120.0)
    assert looks(vigil, "ST") == STOPPED / TICK
    assert looks(vigil, "S") == 120 / TICK  # a deadlock
    assert looks(vigil, "RS", 1.0) == 120 / TICK  # an endless loop
    assert looks(vigil, "RS", 2.0) == 120 / TICK  # in two threads
    assert looks(vigil, "RS", 0.1) == pytest.approx(1200 / TICK, abs=20)  # on a busy machine
    assert looks(vigil, "?") == 120 / TICK  # where nothing is known
    assert looks(vigil, "RS", 0.0) == looks(vigil, "D") == looks(vigil, "t") == NEVER  # starved, disk, debugger


def test_a_machine_that_was_suspended_charges_for_a_tick() -> None:
    assert looks(Vigil(120.0), "T", every=3600.0) == STOPPED / TICK
    assert looks(Vigil(120.0), "S", every=3600.0) == 120 / TICK


def test_a_slow_learner_that_goes_on_does_not_hang_and_may_be_slower_later() -> None:
    vigil, now = Vigil(120.0), 0.0
    for piece, seconds in enumerate((100, 250, 700, 2000)):  # each less than TIMES as long as the one before
        for _ in range(int(seconds / TICK)):
            now += TICK
            assert vigil.see(now, piece, None) is None
    vigil.see(now + TICK, 99, None)
    assert vigil.limit == pytest.approx(TIMES * 2000, rel=0.01)


def test_patience_doubles_until_a_plan_comes_and_ends_after_many_hangs() -> None:
    vigil = Vigil(10.0)
    vigil.planned(1)
    limits = []
    for _ in range(MOST - 1):
        limits.append(vigil.limit)
        assert vigil.hung()
    assert limits == [10.0 * 2.0**i for i in range(MOST - 1)]
    vigil.planned(1)  # the same plan
    assert vigil.limit == 10.0 * 2.0 ** (MOST - 1)
    vigil.planned(2)
    assert vigil.limit == 10.0
    assert [vigil.hung() for _ in range(MOST)] == [True] * (MOST - 1) + [False]


@linux
def test_what_a_process_does_is_what_the_system_says() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as loop:
        until(lambda: (found := activity(loop.pid)) is not None and "R" in found.states and found.seconds > 0.1)
        os.kill(loop.pid, signal.SIGSTOP)
        until(lambda: (found := activity(loop.pid)) is not None and found.is_stopped)
        loop.kill()
    assert activity(loop.pid) is None


def test_progress_is_seen_by_the_other_process(tmp_path: Path) -> None:
    with Progress.make(tmp_path) as here, Progress(tmp_path) as there:
        there.advance()
        there.advance()
        assert here.count == 2


def test_patience_must_be_positive() -> None:
    with pytest.raises(rf.InvalidInput, match="'patience'"):
        rf.Deadlines(50.0, patience=0.0)


def hung(run: rf.Run) -> int:
    return sum(one.restart == "hung" for one in run.notes)


def until_planned_after(k: int, more: int = 30) -> Callable[[Any, Any], None]:
    """Ends a run when it has played that many rounds with plans that rest on round k or later ones."""
    seen: list[int] = []

    def progress(game: Any, this: Any) -> None:
        seen.extend([this.k] * (this.based_on >= k))
        if len(seen) == more:
            raise KeyboardInterrupt

    return progress


def play(primal: Any, file: Path, k: int, **more: Any) -> rf.Run:
    """A run on a world that never falls, so that acting waits for nobody, until plans rest on round k."""
    given = {"rate": 50.0, "max_staleness": 5000, "episodes": 5000, "checkpoint_every": 0.05}
    with pytest.raises(rf.Stopped) as stopped:
        learn(tame(), primal, path=file, progress=until_planned_after(k), **{**given, **more})
    run = stopped.value.run
    assert list(run.columns["k"]) == list(range(1, len(run) + 1))
    replayed(run, tame(), primal=type(primal))
    return run


@linux
def test_a_learner_that_is_stopped_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    """It stops in the middle of round 7; acting goes on with plans of rounds before that."""
    with pytest.warns(
        Notice, match=r"The learner hung \(it was stopped for \d+ s\) and was killed: it is started again"
    ):
        run = play(Stalling(str(tmp_path)), tmp_path / "a.rfrun", 7)
    assert hung(run) == 1
    counted = timing(run)
    assert counted is not None
    assert counted["restarts"] == {"ended": 0, "hung": 1}
    assert is_gone(int((tmp_path / "stalled").read_text()))
    assert run.plan_ages.max() >= 3


@pytest.mark.slow
@pytest.mark.parametrize("player", [Looping, Deadlocked])
def test_an_endless_loop_and_a_deadlock_are_ended_and_nothing_is_lost(tmp_path: Path, player: Any) -> None:
    (marks := tmp_path / "marks").mkdir()
    with pytest.warns(Notice, match=r"The learner hung \(no plan, update or checkpoint came to its end in"):
        run = play(player(str(marks)), tmp_path / "a.rfrun", 7, rate=rf.Deadlines(50.0, patience=3.0))
    assert hung(run) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("player", [Looping, Stalling])
@pytest.mark.filterwarnings("ignore::resetfree.core.errors.Notice")
def test_an_actor_of_ray_that_hangs_is_replaced_and_nothing_is_lost(tmp_path: Path, player: Any) -> None:
    (marks := tmp_path / "marks").mkdir()
    with pytest.warns(Notice, match=r"The learner on Ray hung \((it was stopped|no plan, update)"):
        run = play(player(str(marks)), tmp_path / "a.rfrun", 7, rate=rf.Deadlines(50.0, patience=8.0), learner=HERE)
    assert hung(run) >= 1


@pytest.mark.slow
def test_a_learner_that_hangs_always_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    (marks := tmp_path / "marks").mkdir()
    looping, rate = Looping(str(marks), always=True), rf.Deadlines(50.0, patience=0.5)
    with (
        pytest.warns(Notice, match="The learner hung"),
        pytest.raises(rf.RunError, match=f"The learner hung {MOST} times in a row without a new plan"),
    ):
        learn(tame(), looping, path=tmp_path / "a.rfrun", rate=rate, episodes=10**6, max_staleness=10**6)
    assert len(list(marks.iterdir())) == MOST
    assert len(read(tmp_path / "a.rfrun").columns["k"]) >= 7


@pytest.mark.slow
def test_a_slow_learner_is_not_killed(tmp_path: Path) -> None:
    run = play(Mortal(slow=3.0), tmp_path / "a.rfrun", 7, rate=50.0)
    assert [one for one in run.notes if one.restart] == []


@linux
@pytest.mark.slow
def test_a_run_that_is_stopped_as_a_whole_has_no_hang(tmp_path: Path) -> None:
    """As a computer that is suspended: both processes stand still for longer than a learner may be stopped."""
    file = tmp_path / "a.rfrun"
    script = (
        "from tests.runs.live.test_hanging import learn, tame; from pathlib import Path; "
        f"learn(tame(), path=Path({str(file)!r}), rate=50.0, episodes=10**6, checkpoint_every=0.05)"
    )
    command = [sys.executable, "-W", "default", "-c", script]
    with subprocess.Popen(command, env=surroundings(), stderr=subprocess.PIPE, text=True) as acting:
        until(lambda: file.exists() and len(read(file).columns["k"]) > 5)
        (learner,) = children(acting.pid)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in (acting.pid, learner):
                os.kill(pid, number)
            if number == signal.SIGSTOP:
                until(lambda: False if (one := activity(learner)) is None else one.is_stopped)
                subprocess.run(["sleep", str(3 * STOPPED)], check=True)
        before = int(read(file).columns["based_on"][-1])
        until(lambda: read(file).columns["based_on"][-1] > before + 5)
        assert children(acting.pid) == [learner]
        acting.send_signal(signal.SIGINT)
        _, said = acting.communicate()
    assert "hung" not in said
    assert [one for one in read(file).notes if one.restart] == []
    replayed(rf.load(file, tame(), primal=Quick), tame())
