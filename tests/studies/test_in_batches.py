"""The batched engine behind a sweep: run files with the same rounds as the local engine's, and what it refuses."""

from collections import deque
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.studies.common import started

import resetfree as rf
from resetfree.runs.file.ledger import read
from resetfree.studies import StudyStopped, gather, run_sweep
from resetfree.studies.engines import batched
from resetfree.studies.engines.batched import InBatches, choose_batches
from resetfree.studies.trial import TrialJob

pytest.importorskip("jax")
TWO = """
[sweep]
episodes = 40
seeds = 3
[[problem]]
id = "grid-v0"
[[players]]
primal = "linear-ucb"
settings.primal.scale = [0.05, 0.1]
"""


def test_the_rounds_are_those_of_the_local_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched, "SAVE_EVERY", 0.0)  # keep the rounds after every segment
    kept = []
    monkeypatch.setattr(batched, "_keep_piece", lambda *a, real=batched._keep_piece: kept.append(real(*a)))
    plan, folder = started(TWO, tmp_path / "s")
    batches, why = choose_batches(deque(TrialJob(trial, folder.path) for trial in plan.trials), everything=True)
    assert (len(batches), why) == (1, "requested")  # the two widths side by side
    assert len(batches[0].jobs) == 6
    count = run_sweep(plan, folder, engine="batched")
    assert (count.done, count.failed, count.engine) == (6, 0, "batched")
    assert not (folder.path / "batches").exists()
    for trial in plan.trials:
        ours, theirs = read(folder.trial_file(trial.id)), rf.learn(trial.problem, **trial.arguments)
        assert ours.finished
        assert ours.spec == {**theirs.spec, "engine": "batched"}
        for name, column in theirs.columns.items():
            if column.dtype.kind in "bi":
                assert np.array_equal(ours.columns[name], column), name
            else:
                assert ours.columns[name] == pytest.approx(column, rel=1e-9, abs=1e-9, nan_ok=True), name
    gather(plan, folder)
    table = pd.read_parquet(folder.results)
    assert set(table.engine) == {"batched"}
    assert table.trial.nunique() == 6


def test_a_stopped_batch_goes_on_where_it_stood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from resetfree.studies.engines.batched import batch

    monkeypatch.setattr(batch, "LONGEST", 10)  # four segments
    plan, folder = started(TWO, tmp_path / "s")
    whole, other = started(TWO, tmp_path / "w")
    run_sweep(whole, other, engine="batched")
    monkeypatch.setattr(batched, "SAVE_EVERY", 0.0)
    real, pieces = batched._keep_piece, 0

    def interrupted(*arguments: object) -> None:
        nonlocal pieces
        real(*arguments)  # type: ignore[arg-type]
        pieces += 1
        if pieces == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(batched, "_keep_piece", interrupted)
    with pytest.raises(StudyStopped):
        run_sweep(plan, folder, engine="batched")
    assert len(list(folder.path.glob("batches/*/*.npz"))) == 2
    assert run_sweep(plan, folder, engine="batched").done == 6
    assert pieces == 3  # the third; the last one needs no keeping
    for trial in plan.trials:
        a, b = read(folder.trial_file(trial.id)), read(other.trial_file(trial.id))
        assert all(a.columns[name].tobytes() == b.columns[name].tobytes() for name in a.columns)


def test_what_the_engine_refuses_fails_with_a_sentence_or_goes_to_others(tmp_path: Path) -> None:
    plan, folder = started(
        TWO.replace('"linear-ucb"\nsettings.primal.scale = [0.05, 0.1]', '"uniform"'), tmp_path / "s"
    )
    count = run_sweep(plan, folder, engine="batched")
    assert (count.done, count.failed) == (0, 3)
    assert "Got 'uniform' instead" in count.errors[0][1]
    queue = deque(TrialJob(trial, folder.path) for trial in plan.trials)
    batches, _ = choose_batches(queue, everything=True)
    assert not queue
    assert list(InBatches(batches, everything=False).play(queue)) == []
    assert [job.trial for job in queue] == list(plan.trials)


def test_without_an_accelerator_auto_means_local(tmp_path: Path) -> None:
    plan, folder = started(TWO, tmp_path / "s")
    queue = deque(TrialJob(trial, folder.path) for trial in plan.trials)
    batches, why = choose_batches(queue, everything=False)
    assert (batches, len(queue)) == ([], 6)
    assert "no accelerator" in why
