"""TensorBoard files, read back byte by byte: the names of docs/columns.md, and the numbers of the run."""

import importlib
import json
import math
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event
from tests.bank import stop_at

import resetfree as rf
from resetfree.problems import find_world
from resetfree.runs.tracking import PER_DECADE, ROUND, TensorBoard, best_values, marked, track_columns, tracked
from resetfree.show.cli import main

SUMS = ("regret", "resets", "realised_resets")


def events(folder: Path) -> Iterator[Any]:
    """The records of all event files of a folder, in the order in which a viewer reads them: that of their names."""
    for file in sorted(folder.glob("events.out.tfevents.*")):
        data, at = file.read_bytes(), 0
        while at < len(data):  # length, its checksum, the record, its checksum
            (length,) = struct.unpack_from("<Q", data, at)
            event = Event()
            event.ParseFromString(data[at + 12 : at + 12 + length])
            yield event
            at += 12 + length + 4


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """What a viewer shows: by tag and step; a session's start takes back what was written from its step on."""
    found: dict[str, dict[int, float]] = {}
    for event in events(folder):
        if event.HasField("session_log") and event.session_log.status == event.session_log.START:
            found = {tag: {k: x for k, x in row.items() if k < event.step} for tag, row in found.items()}
        for value in event.summary.value:
            assert event.step not in found.setdefault(value.tag, {}), "a point is there twice"
            found[value.tag][event.step] = value.simple_value
    return found


def assert_shows(folder: Path, run: rf.Run) -> None:
    shown = scalars(folder)
    whole = {"regret": run.regret, "resets": run.resets, "realised_resets": run.realised_resets}
    wanted = {**whole, **{name: run.columns[name] for name in ROUND}}
    there = {name for name, column in wanted.items() if any(map(math.isfinite, column))}
    assert set(shown) == there >= {*SUMS, "lam", "v_r", "v_c", "reward", "steps"}
    for name in there:
        steps = [k for k in marked(len(run), PER_DECADE).tolist() if math.isfinite(wanted[name][k - 1])]
        assert list(shown[name]) == steps
        assert list(shown[name].values()) == pytest.approx([wanted[name][k - 1] for k in steps], rel=1e-6)


def test_run_writes_the_columns_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "r.rfrun", tmp_path / "tb"
    words = ["run", "grid-v0", "--primal", "linear-ucb", "--episodes", "150", "--out", str(file)]
    assert main([*words, "--tensorboard", str(folder), "--json"]) == 0
    capsys.readouterr()
    assert_shows(folder, rf.load(file))


def test_a_resumed_run_shows_every_point_once(tmp_path: Path) -> None:
    file, folder, n = tmp_path / "r.rfrun", tmp_path / "tb", 0

    def stop(game: object, this: object) -> None:
        nonlocal n
        n += 1
        if n == 70:
            raise KeyboardInterrupt

    with pytest.raises(rf.Stopped), tracked(stop, folder, find_world("grid-v0"), 200) as progress:
        rf.learn("grid-v0", "linear-ucb", episodes=200, path=file, progress=progress)
    late = TensorBoard(folder)  # what a session that was killed wrote after its checkpoint
    late.write(90, {"lam": -1.0})
    late.close()
    with tracked(stop, folder, find_world("grid-v0"), 200, file) as progress:
        run = rf.learn("grid-v0", "linear-ucb", episodes=200, path=file, progress=progress, resume=True)
    assert_shows(folder, run)


def test_what_is_played_again_is_hidden_before_the_next_point(tmp_path: Path) -> None:
    file, folder, points = tmp_path / "r.rfrun", tmp_path / "tb", marked(2000, PER_DECADE).tolist()
    last = next(k for k in points if k > 100 and k + 1 not in points and k + 2 not in points)

    with pytest.raises(rf.Stopped), tracked(stop_at(last + 1), folder, find_world("grid-v0"), 2000) as progress:
        rf.learn("grid-v0", "uniform", episodes=2000, path=file, progress=progress)
    late = TensorBoard(folder)
    late.write(1500, {"reward": -1.0})
    late.close()
    with pytest.raises(rf.Stopped), tracked(stop_at(last + 2), folder, find_world("grid-v0"), 2000, file) as progress:
        rf.learn("grid-v0", "uniform", episodes=2000, path=file, progress=progress, resume=True)
    assert max(scalars(folder)["reward"]) == last


def test_a_run_that_was_played_already(tmp_path: Path) -> None:
    run = rf.learn("grid-v0", "uniform", episodes=120, seed=3)
    track_columns(tmp_path, run.columns, best_values(run.mdp))
    assert_shows(tmp_path, run)


def test_without_a_folder_nothing_is_written_or_imported(tmp_path: Path) -> None:
    def note(game: object, this: object) -> None: ...

    with tracked(note, None, find_world("grid-v0"), 10) as progress:
        assert progress is note
    slow = ("tensorboardX", "pyarrow", "ray", "jax")
    code = f"import sys, resetfree.show.cli; print([m for m in {slow} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("there", [False, True])
def test_a_run_that_is_refused_leaves_no_curves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], there: bool
) -> None:
    folder, file = tmp_path / "a" / "tb", tmp_path / "r.rfrun"
    if there:
        folder.mkdir(parents=True)
        (folder / "mine").touch()
    words = ["run", "grid-v0", "--episodes", "2", "--out", str(file), "--tensorboard", str(folder)]
    assert main([*words, "--learner", "fastest"]) == 2
    assert "fastest" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == ([tmp_path / "a", folder, folder / "mine"] if there else [])


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(rf.RunError, match="The TensorBoard folder '/dev/null/tb' cannot be written"):
        TensorBoard(Path("/dev/null/tb"))


def test_a_full_disk_is_said_and_does_not_hang(tmp_path: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
from resetfree.core.errors import RunError
from resetfree.runs.tracking import TensorBoard
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    board = TensorBoard(Path(sys.argv[1]))
    for k in range(1000):
        board.write(k, {"regret": 1.0})
    board.close()
except RunError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=100)
    assert done.stdout == f"The TensorBoard folder '{tmp_path}' cannot be written: File too large.\n"
    assert "Exception in thread" not in done.stderr


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

    monkeypatch.setattr("resetfree.runs.tracking.import_module", without)
    for callback, extra in (
        (rf.ToWandb(tmp_path), "wandb"),
        (rf.ToMlflow(tmp_path), "mlflow"),
        (rf.ToTensorBoard(tmp_path), "tensorboard"),
    ):
        with pytest.raises(rf.InvalidInput, match=f"the extra '{extra}'"):
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
    with pytest.raises(rf.RunError, match="MLflow cannot be used at"):
        rf.learn("grid-v0", episodes=3, callbacks=[rf.ToMlflow("nowhere://x")])
