"""Every runner plays every job once, whatever the jobs are: those of sweeps, of suites, and of these tests."""

import os
import signal
from collections import deque
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.studies.common import SMALL, assert_alone, started

import resetfree as rf
from resetfree.studies.engines import InProcess, Local, Outcome, Runner, Stop
from resetfree.studies.suites import find_suite, methods, suite_runner
from resetfree.studies.suites.trials import Results
from resetfree.studies.trial import TrialJob


class Squaring(NamedTuple):
    """Squares a number; as long as a file is there, it kills its process, or says that it is busy."""

    number: int
    marker: Path | None = None
    way: str = "busy"
    again: str = "Try again."

    @property
    def id(self) -> str:
        return str(self.number)

    def play(self, stop: Stop) -> Outcome:
        if self.marker is not None and self.marker.exists():
            if self.way == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            self.marker.unlink()
            return Outcome("busy")
        return Outcome("done", result=self.number**2)

    def failed(self, error: BaseException) -> Outcome:
        return Outcome("failed", f"{self.id}: {error}")


RUNNERS: dict[str, Callable[[], Runner[Any]]] = {"here": InProcess, "local": lambda: Local(2)}


@pytest.mark.parametrize("name", RUNNERS)
def test_every_job_is_played_once(name: str) -> None:
    with closing(RUNNERS[name]()) as runner:
        for n in (3, 5):  # also when it is called again
            found = [(job.number, outcome) for job, outcome in runner.play(deque(map(Squaring, range(n))))]
            assert sorted(found) == [(i, Outcome("done", result=i**2)) for i in range(n)]


@pytest.mark.parametrize("name", RUNNERS)
def test_the_jobs_of_a_sweep(tmp_path: Path, name: str) -> None:
    plan, folder = started(SMALL, tmp_path / "s")
    with closing(RUNNERS[name]()) as runner:
        found = list(runner.play(deque(TrialJob(trial, folder.path) for trial in plan.trials[:3])))
    assert [outcome.status for _, outcome in found] == ["done"] * 3
    for job, _ in found:
        assert_alone(job.trial, folder)


def test_what_is_busy_is_tried_again_and_what_kills_its_process_fails_in_the_end(tmp_path: Path) -> None:
    busy, fatal = tmp_path / "busy", tmp_path / "fatal"
    busy.touch()
    fatal.touch()
    with closing(Local[Squaring](2, deaths=2)) as runner:
        jobs = deque([Squaring(2, busy), Squaring(3, fatal, "killed"), Squaring(4)])
        found = {job.number: outcome for job, outcome in runner.play(jobs)}
    assert {n: found[n].result for n in (2, 4)} == {2: 4, 4: 16}
    assert found[3] == Outcome("failed", "3: The process that played the trial was killed 2 times, perhaps for memory.")


def test_a_comparison_whose_process_was_killed_ends_and_keeps_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(InProcess):
        """Plays three jobs, and then its process is killed."""

        def __init__(self, processes: int, deaths: int) -> None:
            assert deaths == 1  # a trial that is played again would be told apart by its seconds only

        def play(self, jobs: deque[Any]) -> Any:
            for job in list(jobs)[:3]:
                yield job, job.play(lambda: False)
            yield jobs[3], jobs[3].failed(rf.RunError("killed"))

        def __class_getitem__(cls, _: Any) -> Any:
            return cls

    monkeypatch.setattr(suite_runner, "Local", Dying)
    chosen = [methods()["algorithm 1"]]
    with Results(tmp_path / "r.jsonl", "smoke") as results:
        with pytest.raises(rf.RunError, match=r"A process of the comparison was killed, .* takes the least memory"):
            suite_runner.run_suite(find_suite("smoke", ["grid-v0"]), chosen, results, jobs=2)
        assert len(results.outcomes) == 3
