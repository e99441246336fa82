"""Whatever hangs is ended, by the time limit or a signal; what was played stays, and the same command goes on."""

import json
import os
import signal
import subprocess
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from tests.studies.common import (
    ROOT,
    assert_alone,
    begun,
    fragile,
    helper_of,
    is_running,
    resumed_at,
    started,
    sweeping,
)
from tests.waiting import LONG, is_gone, until

import resetfree as rf
from resetfree.show.cli import main
from resetfree.studies import SweepFolder, parse_plan, run_sweep
from resetfree.studies.engines import Workers, stopping
from resetfree.studies.engines.sweep_runner import standing

GRACE = 5.0  # seconds in which a process has heard, on a busy machine
GOOD = '[[trial]]\nproblem = "grid-v0"\nprimal = "uniform"\n'


def test_a_trial_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    marker = tmp_path / "marker"
    marker.write_text("")
    plan, folder = started(fragile("hanging", marker), tmp_path / "s")
    ended: list[int] = []

    def limit_once_it_hangs(self: Any) -> float:  # so that no machine is too slow for the test
        pid = marker.with_suffix(".pid")
        if pid.exists() and pid.read_text().endswith(" "):
            ended.append(int(pid.read_text()))
            return 100.0
        return 0.0

    with monkeypatch.context() as patch:
        patch.setattr("resetfree.studies.engines._Worker.seconds", property(limit_once_it_hangs))
        count = run_sweep(plan, folder, engine="local", workers=1, time_limit=60.0)
    assert (count.done, count.failed) == (0, 1)
    assert "took longer than its time limit of 60 seconds, and was ended" in count.errors[0][1]
    until(lambda: is_gone(ended[0]))
    assert standing(plan, folder).failed == 1
    marker.unlink()
    folder.forget_error(plan.trials[0].id)
    assert run_sweep(plan, folder, engine="local", workers=1, time_limit=600.0).done == 1
    assert_alone(plan.trials[0], folder)
    assert 0 < resumed_at(folder, plan.trials[0])[0] < 100


def test_the_limit_of_the_file_and_that_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    marker, file, out = tmp_path / "marker", tmp_path / "s.toml", tmp_path / "s"
    marker.write_text("")
    text = fragile("hanging", marker).replace("seeds = 1", "seeds = 1\ntime_limit = 0.01")
    assert parse_plan(text).time_limit == 0.01
    file.write_text(text)
    words = ["sweep", str(file), "--out", str(out), "--engine", "local", "--workers", "1", "--strict"]
    assert main(words) == 1  # the time of the file, which nothing can be played in
    (failed,) = SweepFolder(out).failed().values()
    assert "time limit of 0.01 seconds" in failed.read_text()
    marker.unlink()
    again = ["sweep", "retry", str(out), "--engine", "local", "--workers", "1", "--strict", "--time-limit", "600"]
    assert main(again) == 0


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf"), True, "10"])
def test_a_limit_is_a_positive_number_of_seconds(tmp_path: Path, limit: Any) -> None:
    plan, folder = started(GOOD + "episodes = 10\n", tmp_path / "s")
    with pytest.raises(rf.InvalidInput, match="must be a positive number of seconds"):
        run_sweep(plan, folder, engine="local", time_limit=limit)
    written = json.dumps(limit).replace("NaN", "nan").replace("Infinity", "inf")
    with pytest.raises(rf.InvalidInput, match=r"'time_limit' of the \[sweep\] must be a positive number of seconds"):
        parse_plan(f"[sweep]\nepisodes = 1\ntime_limit = {written}\n{GOOD}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "statuses"),
    [
        (signal.SIGINT, {130}),
        (signal.SIGTERM, {143, -signal.SIGTERM}),
    ],
)
def test_one_signal_ends_a_sweep_whose_trial_hangs(tmp_path: Path, number: signal.Signals, statuses: set[int]) -> None:
    marker, file, folder = tmp_path / "marker", tmp_path / "s.toml", SweepFolder(tmp_path / "s")
    marker.write_text("")
    text = fragile("hanging", marker) + GOOD
    file.write_text(text)
    command = sweeping(file, folder.path, "--engine", "local")
    process = begun(command)
    hanging, good = parse_plan(text).trials
    helper = helper_of(marker, process)
    while not folder.is_finished(good.id, good.episodes):
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, number)
    out, err = process.communicate()
    assert out == ""
    assert process.returncode in statuses
    assert "Traceback" not in err
    until(lambda: is_gone(helper))
    while folder.is_held(hanging.id):
        time.sleep(0.02)
    before = folder.trial_file(good.id).read_bytes()
    marker.unlink()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["done"] == 2
    assert folder.trial_file(good.id).read_bytes() == before


def work(job: tuple[str, Path]) -> str:
    """Hang and hear nothing, save when told to end, or wait until the other job has begun."""
    kind, file = job
    begun = file.with_suffix(".begun")
    while kind == "wait" and not begun.exists():
        time.sleep(0.01)
    if kind != "wait":
        begun.write_text("")
    while kind == "hang" or (kind == "save" and not stopping()):
        time.sleep(0.01)
    if kind == "save":
        time.sleep(1.2 * GRACE)  # longer than one that has not heard is waited for
        file.write_text("saved")
    return kind


@pytest.mark.parametrize(("kind", "saved"), [("hang", False), ("save", True)])
def test_leaving_kills_who_does_not_hear_and_waits_for_who_saves(
    tmp_path: Path, kind: str, saved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if saved:  # on a busy machine too
        monkeypatch.setattr("resetfree.studies.engines.GRACE", GRACE)
        monkeypatch.setattr("resetfree.studies.engines.PATIENCE", LONG)
    file = tmp_path / "file"
    with Workers(2, work) as workers:
        assert next(workers.do(deque([(kind, file), ("wait", file)])))[1] == "wait"
        pids = [worker.child.process.pid or 0 for worker in workers._workers]
    assert len(pids) == 2
    assert not any(map(is_running, pids))
    assert file.exists() == saved


def refuse(job: int) -> int:
    """Work that raises."""
    raise ValueError(f"no {job}")


def test_what_a_job_raises_is_one_sentence() -> None:
    with pytest.raises(rf.RunError, match=r"^ValueError: no 3$"), Workers(1, refuse) as workers:
        list(workers.do(deque([3])))


class Stillborn:
    """Work that ends its process as soon as that reads it."""

    def __call__(self, job: int) -> int:
        raise AssertionError("no process gets so far")

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (1,)


def test_processes_that_cannot_start_are_not_started_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resetfree.studies.engines.FAILURES", 2)
    with pytest.raises(rf.RunError, match="2 processes in a row died"), Workers(1, Stillborn()) as workers:
        list(workers.do(deque([1])))
