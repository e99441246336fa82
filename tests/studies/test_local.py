"""The local engine: what it plays is what `learn` plays; kills, errors and stops cost nothing that was saved."""

import itertools
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.studies.common import SMALL, assert_alone, fragile, resumed_at, started

import resetfree as rf
from resetfree.core.files import WriterLock
from resetfree.studies import Count, StudyStopped, SweepFolder, engines, run_sweep
from resetfree.studies import trial as trials
from resetfree.studies.engines.sweep_runner import await_shut, standing
from resetfree.studies.trial import TrialJob

ROOT = Path(__file__).parents[2]


def test_every_trial_is_what_learn_plays_and_none_is_played_twice(tmp_path: Path) -> None:
    plan, folder = started(SMALL, tmp_path / "s")
    seen: list[tuple[int, int, int]] = []
    count = run_sweep(
        plan, folder, engine="local", workers=2, progress=lambda c: seen.append((c.done, c.running, c.waiting))
    )
    assert (count.done, count.failed, count.running, count.waiting, count.left) == (8, 0, 0, 0, 0)
    assert seen[0] == (0, 2, 8)
    assert [done for done, _, _ in seen] == list(range(9))
    for trial in plan.trials:
        assert_alone(trial, folder)
    before = {file: file.stat().st_mtime_ns for file in folder.path.rglob("*.rfrun")}
    assert len(before) == 8
    again = run_sweep(plan, folder, engine="local", workers=2)
    assert (again.done, again.played) == (8, 0)
    assert {file: file.stat().st_mtime_ns for file in folder.path.rglob("*.rfrun")} == before
    assert {file.suffix for file in folder.path.rglob("*") if file.is_file()} == {".rfrun", ".toml"}


def test_a_killed_process_costs_what_it_played_since_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    plan, folder = started(fragile("killed", tmp_path / "marker", seeds=2), tmp_path / "s")
    count = run_sweep(plan, folder, engine="local", workers=2)
    assert (tmp_path / "marker").read_text() == "killed here"
    assert (count.done, count.failed) == (2, 0)
    for trial in plan.trials:
        assert_alone(trial, folder)
    assert any(0 < k < 100 for trial in plan.trials for k in resumed_at(folder, trial))


def test_drafts_that_a_killed_worker_left_are_removed_but_not_those_being_written(tmp_path: Path) -> None:
    plan, folder = started(SMALL, tmp_path / "s")
    left, written = (folder.trial_file(trial.id) for trial in plan.trials[:2])
    drafts = [Path(f"{file}{ending}") for file in (left, written) for ending in (".new", ".new-journal")]
    lock = None
    with folder.playing():
        for draft in drafts:
            draft.parent.mkdir(parents=True, exist_ok=True)
            draft.touch()
        lock = WriterLock(written).acquire()
    assert [draft.exists() for draft in drafts] == [False, False, True, True]
    lock.release()


def test_a_trial_that_always_kills_its_process_fails_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(engines, "MOST_DEATHS", 2)
    plan, folder = started(fragile("doomed", tmp_path / "marker"), tmp_path / "s")
    count = run_sweep(plan, folder, engine="local", workers=1)
    assert (count.done, count.failed) == (0, 1)
    assert "was killed 2 times" in count.errors[0][1]
    assert len(resumed_at(folder, plan.trials[0])) == 1


def test_what_a_trial_raises_is_kept_and_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    marker = tmp_path / "marker"
    marker.write_text("")
    text = fragile("raising", marker) + '[[trial]]\nproblem = "grid-v0"\nprimal = "uniform"\n'
    plan, folder = started(text, tmp_path / "s")
    count = run_sweep(plan, folder, engine="local", workers=2)
    assert (count.done, count.failed) == (1, 1)
    bad, good = plan.trials
    assert count.errors == [(bad.id, "ValueError: the gripper is stuck")]
    kept = folder.error_file(bad.id).read_text()
    assert kept.startswith("ValueError: the gripper is stuck\n")
    assert "Traceback (most recent call last)" in kept
    assert "in rollout" in kept
    assert_alone(good, folder)
    skipped = run_sweep(plan, folder, engine="local", workers=1)  # a failed trial waits for `retry`
    assert (skipped.done, skipped.failed, skipped.errors) == (1, 1, count.errors)
    assert (standing(plan, folder).failed, list(folder.failed())) == (1, [bad.id])
    marker.unlink()
    folder.forget_error(bad.id)
    fixed = run_sweep(plan, folder, engine="local", workers=1)
    assert (fixed.done, fixed.failed) == (2, 0)
    assert_alone(bad, folder)
    assert resumed_at(folder, bad) != []


def test_a_trial_that_is_told_to_end_is_saved_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LOOK", 0.0)  # asked after every episode: no clock has a say in where it ends
    plan, folder = started(SMALL, tmp_path / "s")
    trial, asked = plan.trials[0], itertools.count(1)
    job = TrialJob(trial, folder.path)
    assert job.play(lambda: next(asked) == 20).status == "stopped"
    assert folder.trial_file(trial.id).exists()
    assert not folder.is_finished(trial.id, trial.episodes)
    assert job.play().status == "done"
    assert_alone(trial, folder)
    assert resumed_at(folder, trial) == [20]


def test_the_user_stops_a_sweep_and_goes_on(tmp_path: Path) -> None:
    plan, folder = started(SMALL, tmp_path / "s")

    def stop(count: Count) -> None:
        if count.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(StudyStopped, match="Stopped after 3 of 8 trials, saved in"):
        run_sweep(plan, folder, engine="local", workers=2, progress=stop)
    stood = standing(plan, folder)
    assert 3 <= stood.done < 8
    assert stood.running == 0
    assert stood.waiting == 8 - stood.done
    assert run_sweep(plan, folder, engine="local", workers=2).done == 8
    for trial in plan.trials:
        assert_alone(trial, folder)


@pytest.mark.slow
def test_a_killed_driver_leaves_nobody_behind_and_is_simply_started_again(tmp_path: Path) -> None:
    text = SMALL.replace("60", "6000")
    file = tmp_path / "s.toml"
    file.write_text(text)
    plan, folder = started(text, tmp_path / "s")
    command = [sys.executable, "-m", "resetfree.show.cli", "sweep", str(file), "--out", str(folder.path)]
    driver = subprocess.Popen([*command, "--engine", "local", "--workers", "2"], stderr=subprocess.DEVNULL)
    while not any(folder.trial_file(trial.id).exists() for trial in plan.trials):
        assert driver.poll() is None
        time.sleep(0.02)
    driver.kill()
    driver.wait()
    while any(folder.is_held(trial.id) for trial in plan.trials):  # ends by itself, or the test never does
        time.sleep(0.02)
    assert standing(plan, folder).done < 8
    assert run_sweep(plan, folder, engine="local", workers=2).done == 8
    for trial in plan.trials:
        assert_alone(trial, folder)


def test_a_trial_that_another_process_plays_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resetfree.studies.trial.PATIENCE", 0.0)
    plan, folder = started(SMALL, tmp_path / "s")
    trial = plan.trials[0]
    file = folder.trial_file(trial.id)
    file.parent.mkdir(parents=True)
    lock = WriterLock(file).acquire()
    assert folder.is_held(trial.id)
    assert standing(plan, folder).running == 1
    outcome = TrialJob(trial, folder.path).play()
    assert outcome.status == "busy"
    assert folder.failed() == {}
    lock.release()
    assert not folder.is_held(trial.id)
    assert TrialJob(trial, folder.path).play().status == "done"


def test_one_driver_at_a_time(tmp_path: Path) -> None:
    plan, folder = started(SMALL, tmp_path / "s")
    assert not folder.is_played
    with folder.playing():
        assert folder.is_played
        with pytest.raises(rf.RunError, match=r"The sweep in '.*' is being played by another process\."):
            run_sweep(plan, folder, engine="local")
    assert not folder.is_played


def test_engines_and_addresses(tmp_path: Path) -> None:
    plan, folder = started(SMALL, tmp_path / "s")
    with pytest.raises(rf.UnknownName, match=r"There is no engine 'rays'\. Did you mean 'ray'"):
        run_sweep(plan, folder, engine="rays")
    with pytest.raises(rf.InvalidInput, match="An address is that of a Ray cluster"):
        run_sweep(plan, folder, engine="local", address="127.0.0.10:1")


def test_a_folder_belongs_to_one_sweep(tmp_path: Path) -> None:
    _, folder = started(SMALL, tmp_path / "s")
    folder.prepare(SMALL)
    more = SMALL.replace("seeds = 2", "seeds = 3")
    with pytest.raises(rf.RunError, match="holds another sweep"):
        folder.prepare(more)
    folder.prepare(more, update=True)
    assert folder.text() == more
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.png").write_text("")
    with pytest.raises(rf.RunError, match="is not that of a sweep, and not empty"):
        SweepFolder(other).prepare(SMALL)
    with pytest.raises(rf.RunError, match=r"it has no readable sweep\.toml"):
        SweepFolder(other).text()
    with pytest.raises(rf.RunError, match="cannot be written"):
        SweepFolder(Path("/dev/null/s")).prepare(SMALL)


def test_a_file_with_its_log_beside_it_is_not_held_to_be_finished(tmp_path: Path) -> None:
    plan, folder = started(SMALL, tmp_path / "s")
    trial = plan.trials[0]
    assert not folder.is_finished(trial.id, trial.episodes)
    assert TrialJob(trial, folder.path).play().status == "done"
    assert folder.is_finished(trial.id, trial.episodes)
    assert not folder.is_finished(trial.id, trial.episodes + 1)
    log = Path(f"{folder.trial_file(trial.id)}-wal")
    log.write_bytes(b"")
    assert not folder.is_finished(trial.id, trial.episodes)
    log.unlink()
    folder.trial_file(trial.id).write_text("no run file")
    assert not folder.is_finished(trial.id, trial.episodes)


def test_a_worker_that_comes_late_does_not_open_a_finished_file(tmp_path: Path) -> None:
    """The worker of a killed driver may begin a trial that another one has finished since."""
    plan, folder = started(SMALL, tmp_path / "s")
    run_sweep(plan, folder, engine="local", workers=1)
    trial = plan.trials[0]
    held = WriterLock(folder.trial_file(trial.id)).acquire()  # whoever opened it for writing would be told to wait
    assert TrialJob(trial, folder.path).play().status == "done"
    held.release()


def test_a_log_that_stayed_beside_a_finished_file_is_merged_at_the_end(tmp_path: Path) -> None:
    """A run that ends while its file is read leaves its log; without this, results would lack the trial."""
    plan, folder = started(SMALL, tmp_path / "s")
    run_sweep(plan, folder, engine="local", workers=1)
    trial = plan.trials[0]
    Path(f"{folder.trial_file(trial.id)}-wal").write_bytes(b"")
    assert not folder.is_finished(trial.id, trial.episodes)
    held = WriterLock(folder.trial_file(trial.id)).acquire()  # and another process is just at it
    threading.Timer(0.3, held.release).start()
    await_shut(plan, folder)
    assert folder.is_finished(trial.id, trial.episodes)
