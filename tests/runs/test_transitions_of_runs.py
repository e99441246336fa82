"""All transitions of a run, in memory and in files that other programs read, and that are read as untrusted input."""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import resetfree as rf
from resetfree.core.state import pack, unpack
from resetfree.runs import playing
from resetfree.runs.data.all_transitions import NAMES, unscaled_episodes
from resetfree.runs.data.transition_files import KIND, episodes_in, read_columns, write_transitions
from resetfree.show.cli import main


def read_transitions(path: Path) -> list[rf.Episode]:
    return episodes_in(read_columns(path), path)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> rf.Run:
    return rf.learn("grid-v0", episodes=30, path=tmp_path_factory.mktemp("data") / "grid.rfrun")


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory: pytest.TempPathFactory) -> rf.Run:
    """Rewards from -16 to 0, stated as from -20 to 4."""
    problem = rf.from_gym("gym:Pendulum-v1", horizon=5, reward_range=(-20.0, 4.0), reset_when="never")
    return rf.learn(problem, "model-search", episodes=6, path=tmp_path_factory.mktemp("data") / "pendulum.rfrun")


def test_every_step_of_a_run_is_there(grid: rf.Run) -> None:
    found, c = rf.transitions(grid), grid.columns
    assert len(found["round"]) == c["steps"].sum()
    assert np.array_equal(np.bincount(found["round"])[1:], c["steps"])
    first = found["step"] == 1
    assert np.array_equal(found["state"][first], c["s1"])
    assert found["reset"].sum() == c["reset"].sum()
    assert np.allclose(np.bincount(found["round"], found["reward"])[1:], c["reward"])
    inner = np.flatnonzero(~first)
    assert np.array_equal(found["state"][inner], found["next_state"][inner - 1])
    assert all(np.array_equal(found[name], column) for name, column in rf.transitions(str(grid.path)).items())


def test_rewards_are_those_before_scaling(pendulum: rf.Run) -> None:
    found = rf.transitions(pendulum)
    assert np.allclose(np.bincount(found["round"], found["reward"])[1:], pendulum.columns["original_return"])
    assert found["reward"].min() < -0.001
    assert found["state"].shape == (30, 3)
    assert found["action"].shape == (30, 1)


def test_a_run_without_a_file_has_its_own_in_this_process(monkeypatch: pytest.MonkeyPatch, grid: rf.Run) -> None:
    spec = grid.spec
    again = rf.learn("grid-v0", episodes=len(grid), seed=spec["seed"])
    for name, column in rf.transitions(grid).items():
        assert np.array_equal(rf.transitions(again)[name], column), name
    monkeypatch.setattr(playing, "MOST_KEPT", 4)
    with pytest.raises(rf.InvalidInput, match=r"keeps its transitions up to 1,000,000 steps, .* give it a 'path'"):
        rf.transitions(rf.learn("grid-v0", episodes=2))


@pytest.mark.parametrize("which", ["grid", "pendulum"])
@pytest.mark.parametrize("name", ["data.npz", "data.parquet"])
def test_a_file_gives_back_the_episodes(which: str, name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run: rf.Run = request.getfixturevalue(which)
    out = tmp_path / name
    for _ in range(2):  # the second one replaces the first
        assert main(["transitions", str(run.path), "-o", str(out)]) == 0
    assert run.path is not None
    for again, one in zip(read_transitions(out), unscaled_episodes(run.path), strict=True):
        assert np.array_equal(again.states, one.states)
        assert np.array_equal(again.actions, one.actions)
        assert np.array_equal(again.rewards, one.rewards)
        assert again.reset == one.reset


def test_parquet_holds_the_same_columns(
    grid: rf.Run, pendulum: rf.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in (grid, pendulum):
        out = tmp_path / "data.parquet"
        assert main(["transitions", str(run.path), "-o", str(out), "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        table = parquet.read_table(out)
        for name, column in rf.transitions(run).items():
            assert np.array_equal(np.array(table[name].to_pylist()), column), name
        assert said["transitions"] == table.num_rows
        assert json.loads(table.schema.metadata[b"resetfree"])["problem"] == run.spec["problem"]


def test_a_dataset_of_minari_has_the_same_episodes(
    pendulum: rf.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip("minari", reason="the extra 'minari' is not installed")
    pytest.importorskip("h5py", reason="the extra 'minari' is not installed")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    assert main(["transitions", str(pendulum.path), "-o", "pendulum.minari"]) == 0
    assert pendulum.path is not None
    episodes = list(minari.load_dataset("pendulum-v0").iterate_episodes())
    for found, one in zip(episodes, unscaled_episodes(pendulum.path), strict=True):
        assert np.allclose(found.observations, one.states)
        assert np.allclose(found.actions, one.actions)
        assert np.allclose(found.rewards, one.rewards)
    problem = rf.from_gym("gym:Pendulum-v1", horizon=5, reward_range=(-20.0, 4.0), reset_when="never")
    for source in (minari.load_dataset("pendulum-v0"), Path("minari:pendulum-v0"), pendulum.path):
        about = rf.learn(problem, "model-search", episodes=1, data=source).spec["data"]
        assert (about["episodes"], about["steps"]) == (6, 30)
    with pytest.raises(rf.InvalidInput, match=r"^Minari does not write the dataset 'pendulum-v0': .*"):
        write_transitions(pendulum.path, tmp_path / "pendulum.minari")


def test_minari_that_is_not_there_or_not_whole_is_said(
    pendulum: rf.Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    assert main(["transitions", str(pendulum.path), "-o", "pendulum.minari"]) == 2
    assert capsys.readouterr().err == (
        "A dataset of Minari needs it: install resetfree with the extra 'minari', or write .npz.\n"
    )


def test_what_cannot_be_written_is_said(
    grid: rf.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "mine.npz"
    other.write_bytes(b"mine")
    for out, sentence in (
        ("data.csv", "written as .npz, .parquet, .minari. Got 'data.csv' instead"),
        (str(other), "holds no transitions: it is not replaced"),
    ):
        assert main(["transitions", str(grid.path), "-o", out]) == 2
        assert sentence in capsys.readouterr().err
    assert other.read_bytes() == b"mine"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["transitions", str(grid.path), "-o", str(tmp_path / "a.parquet")]) == 2
    assert "needs PyArrow: install resetfree with the extra 'sweep', or write .npz." in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.npz", "a.parquet"])
def test_a_pipe_is_not_written_to(name: str, grid: rf.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Looking whether it may be replaced would wait for ever."""
    os.mkfifo(tmp_path / name)
    assert main(["transitions", str(grid.path), "-o", str(tmp_path / name)]) == 2
    assert "a pipe or a device, instead" in capsys.readouterr().err


def test_a_file_of_transitions_is_read_as_untrusted_input(grid: rf.Run, tmp_path: Path) -> None:
    good: dict[str, Any] = {"kind": np.array(KIND), "about": np.array("{}"), **rf.transitions(grid)}
    file, other = tmp_path / "a.npz", tmp_path / "a.parquet"
    for changed, sentence in (
        ({"kind": np.array("policy")}, "does not say that it holds"),
        ({"more": np.zeros(3)}, "its arrays must be round, step"),
        ({"reward": good["reward"][:-1]}, "'reward' is of another kind or length"),
        ({"reward": np.full_like(good["reward"], np.inf)}, "not a finite number"),
        ({"step": good["step"] + 1}, "are not numbered from 1"),
        ({"state": good["state"][::-1].copy()}, "do not follow each other"),
        ({"reset": np.ones_like(good["reset"])}, "do not follow each other"),
        ({"next_state": good["next_state"].astype(np.float64)}, "not of one kind"),
    ):
        file.write_bytes(pack({**good, **changed}))
        with pytest.raises(rf.InvalidInput, match=sentence):
            read_transitions(file)
        columns = {name: part for name, part in {**good, **changed}.items() if name in NAMES}
        if len({len(part) for part in columns.values()}) == 1 and not {"kind", "more"} & changed.keys():
            parquet.write_table(pa.table({name: arrow_column(part) for name, part in columns.items()}), other)
            with pytest.raises(rf.InvalidInput, match=sentence):
                read_transitions(other)
    file.write_bytes(pack(good)[:-100])
    with pytest.raises(rf.InvalidInput, match="hold no transitions"):
        read_transitions(file)
    with pytest.raises(rf.InvalidInput, match="cannot be read: No such file"):
        read_transitions(tmp_path / "none.npz")
    assert set(unpack(pack(good))) == set(good)


def arrow_column(column: np.ndarray[Any, Any]) -> Any:
    return pa.array(column.tolist())


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda c: {**c, "step": pa.array([None] * len(c["step"]), pa.int64())}, "'step' is of another kind or length"),
        (lambda c: {**c, "reward": pa.array(["x"] * len(c["step"]))}, "'reward' is of another kind or length"),
        (lambda c: {**c, "state": pa.array([[1.0] * (1 + i) for i in range(len(c["step"]))])}, "'state' is of another"),
        (lambda c: {k: v for k, v in c.items() if k != "reset"}, "its arrays must be round, step"),
        (lambda c: {k: v[:0] for k, v in c.items()}, "of another kind or length"),
    ],
    ids=["nulls", "words", "ragged", "column", "empty"],
)
def test_a_parquet_file_is_read_as_untrusted_input(
    made: Callable[[dict[str, Any]], dict[str, Any]], sentence: str, grid: rf.Run, tmp_path: Path
) -> None:
    file = tmp_path / "a.parquet"
    parquet.write_table(pa.table(made({n: arrow_column(c) for n, c in rf.transitions(grid).items()})), file)
    with pytest.raises(rf.InvalidInput, match=sentence):
        read_transitions(file)


def test_what_is_no_parquet_file_or_another_one_is_said(
    grid: rf.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, table = tmp_path / "a.parquet", pa.table({n: arrow_column(c) for n, c in rf.transitions(grid).items()})
    parquet.write_table(table.replace_schema_metadata({"resetfree": '{"kind": "sweep"}'}), file)
    with pytest.raises(rf.InvalidInput, match="does not say that it holds 'resetfree transitions 1'"):
        read_transitions(file)
    parquet.write_table(table.replace_schema_metadata({"resetfree": "[]"}), file)
    with pytest.raises(rf.InvalidInput, match="hold no transitions"):
        read_transitions(file)
    whole = file.read_bytes()
    for broken in (b"", b"PAR1", whole[:-9], whole[: len(whole) // 2]):
        file.write_bytes(broken)
        with pytest.raises(rf.InvalidInput, match=r"^The data '.*' hold no transitions: [^\n]*\.$"):
            read_transitions(file)
    polars = import_module("polars")
    polars.from_arrow(table).write_parquet(file)  # written again by another program
    assert len(read_transitions(file)) == 30
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(rf.InvalidInput, match=r"needs PyArrow: install .* extra 'sweep', or give the run file"):
        read_transitions(file)
