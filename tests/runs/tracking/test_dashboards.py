"""Trackers as callbacks: what the real clients wrote, read back."""

from __future__ import annotations

import importlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runs.tracking.test_tensorboard import assert_shows

import resetfree as rf
from resetfree.core.errors import InvalidInput, RunError
from resetfree.runs.tracking import marked
from resetfree.runs.tracking.tracker import PER_DECADE

EPISODES = 30


def in_two_sessions(folder: Path, *callbacks: Any) -> rf.Run:
    """A run that ends after 11 episodes and is resumed."""
    asked: dict[str, Any] = {"episodes": EPISODES, "seed": 1, "path": folder / "a.rfrun"}
    rf.learn("grid-v0", callbacks=[*callbacks, lambda now: now.k == 11], **asked)
    return rf.learn("grid-v0", callbacks=callbacks, resume=True, **asked)


def assert_curve(found: dict[int, float], column: Any) -> None:
    steps = marked(EPISODES, PER_DECADE).tolist()
    assert found == pytest.approx({k: float(column[k - 1]) for k in steps})


def test_tensorboard_shows_the_run_also_over_two_sessions(tmp_path: Path) -> None:
    run = in_two_sessions(tmp_path, rf.ToTensorBoard(tmp_path / "events"))
    assert_shows(tmp_path / "events", run)


def test_without_its_client_a_dashboard_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = importlib.import_module

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] in ("wandb", "mlflow", "tensorboardX"):
            raise ImportError(name)
        return honest(name, *rest)

    for module in ("wandb_sink", "mlflow_sink", "tensorboard"):
        monkeypatch.setattr(f"resetfree.runs.tracking.{module}.import_module", without)
    for callback, extra in (
        (rf.ToWandb(tmp_path), "wandb"),
        (rf.ToMlflow(tmp_path), "mlflow"),
        (rf.ToTensorBoard(tmp_path), "tensorboard"),
    ):
        with pytest.raises(InvalidInput, match=f"the extra '{extra}'"):
            rf.learn("grid-v0", episodes=5, path=tmp_path / "b.rfrun", callbacks=[callback])
        assert not (tmp_path / "b.rfrun").exists()  # refused before the first round


def wandb_records(file: Path) -> Iterator[bytes]:
    """The records of an offline file: blocks of 32 KiB of pieces, each with checksum, length and kind."""
    data, at, parts = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        parts, at = parts + data[at + 7 : at + 7 + length], at + 7 + length
        if kind in (1, 4):  # a whole record, or the last piece of one
            yield parts
            parts = b""


@pytest.mark.slow
def test_weights_and_biases_has_the_run_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="the extra 'wandb' is not installed")
    pb: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
    run = in_two_sessions(tmp_path, rf.ToWandb(tmp_path / "dashboard", project="tests"))
    regret: dict[int, float] = {}
    configs = []
    files = sorted((tmp_path / "dashboard").rglob("*.wandb"), key=lambda file: file.stat().st_mtime)
    assert len(files) == 2
    for data in (data for file in files for data in wandb_records(file)):
        record = pb.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "run":
            configs.append({one.key: json.loads(one.value_json) for one in record.run.config.update})
        if record.WhichOneof("record_type") == "history":
            row = {one.key or one.nested_key[0]: json.loads(one.value_json) for one in record.history.item}
            regret[record.history.step.num] = row["regret"]
    assert_curve(regret, run.regret)
    assert [one["problem"] for one in configs] == ["grid-v0", "grid-v0"]
    assert [one["resumed_after"] for one in configs] == [0, 11]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the client itself uses what its database has deprecated
def test_mlflow_has_the_run_in_its_own_file(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the extra 'mlflow' is not installed")
    run = in_two_sessions(tmp_path, rf.ToMlflow(tmp_path / "dashboard", "tests"))
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'dashboard' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("tests")
    found = client.search_runs([experiment.experiment_id])
    assert [one.info.status for one in found] == ["FINISHED", "FINISHED"]
    assert sorted(one.data.params["resumed_after"] for one in found) == ["0", "11"]
    points = [point for one in found for point in client.get_metric_history(one.info.run_id, "regret")]
    assert_curve({point.step: point.value for point in points}, run.regret)
    with pytest.raises(RunError, match="MLflow cannot be used at"):
        rf.learn("grid-v0", episodes=3, callbacks=[rf.ToMlflow("nowhere://x")])
