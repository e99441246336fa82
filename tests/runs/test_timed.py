"""Timed runs: what their files hold, what is refused, and that a run that was stopped goes on as if it had not been."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bank import edit
from tests.game.naive_delay import play_naively
from tests.killing import run_driver
from tests.runs.forging import forge
from tests.runs.kill_driver import CASES

import resetfree as rf
from resetfree.game.loop import Game
from resetfree.runs.file.ledger import read
from resetfree.runs.file.recorded import TIMING, columns_of, validate

DRIVER = Path(__file__).parent / "kill_driver.py"
DELAY: dict[str, Any] = {"primal": "ucbvi", "dual": "projected-gradient", "seed": 3}


class Cut(Exception):
    """Ends a run in the middle."""


def cut_after(k: int) -> Any:
    def progress(game: Game, this: rf.Round) -> None:
        if this.k == k:
            raise Cut

    return progress


def same_columns(one: dict[str, Any], other: dict[str, Any]) -> bool:
    assert one.keys() == other.keys()
    return all(np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind == "f") for name in one)


@pytest.mark.parametrize("delay", [0, 3])
def test_a_file_holds_what_a_naive_game_with_delay_plays(delay: int, tmp_path: Path) -> None:
    run = rf.learn("grid-v0", **DELAY, episodes=60, delay=delay, path=tmp_path / "a.rfrun")
    world = rf.make("grid-v0").problem()
    primal, dual = run.player_again("primal"), run.player_again("dual")
    naive = play_naively(world, primal, dual, lambda k, fell, _: max(0, fell, k - 1 - delay), episodes=60, seed=3)
    for name, column in zip(("lam", "v_r_hat", "reward", "reset"), (2, 3, 7, 8), strict=True):
        assert run.columns[name].tolist() == [columns_of(this)[column] for this in naive]
    assert run.columns["based_on"].tolist() == [this.based_on for this in naive]
    assert run.plan_ages.max() == delay
    assert (run.columns["missed"] == 0).all()
    assert np.isnan(run.columns["lateness"]).all()
    assert len(set(run.columns["plan"])) == len(set(run.columns["based_on"]))  # one digest per plan
    assert run.spec["timing"] == {"delay": delay}
    contents = read(tmp_path / "a.rfrun")
    assert contents.fit.whole
    assert same_columns(contents.columns, run.columns)


def test_a_run_without_delay_has_none_of_the_columns() -> None:
    run = rf.learn("grid-v0", episodes=5)
    assert not set(TIMING) & set(run.columns)
    assert "timing" not in run.spec
    assert not run.plan_ages.any()


@pytest.mark.parametrize("cut", [1, 2, 7, 8, 24])
def test_a_run_with_delay_that_was_stopped_goes_on_as_if_it_had_not_been(cut: int, tmp_path: Path) -> None:
    path, asked = tmp_path / "a.rfrun", {**DELAY, "episodes": 25, "delay": 4}
    whole = rf.learn("grid-v0", **asked)
    with pytest.raises(Cut):
        rf.learn("grid-v0", **asked, path=path, progress=cut_after(cut))
    assert 0 < len(rf.load(path)) <= cut
    again = rf.learn("grid-v0", **asked, path=path, resume=True)
    assert same_columns(again.columns, whole.columns)


def test_a_run_with_delay_survives_being_killed(tmp_path: Path) -> None:
    path, case, episodes = tmp_path / "killed.rfrun", "a delay", 400
    assert run_driver(DRIVER, path, episodes, 4, 3, case) == "4"
    whole = rf.learn(**CASES[case], episodes=episodes, seed=5)
    contents = read(path)
    assert contents.fit.whole
    assert same_columns(contents.columns, whole.columns)


@pytest.mark.parametrize("delay", [-1, 1.5, "2", True])
def test_a_delay_is_a_number_of_rounds(delay: Any) -> None:
    with pytest.raises(rf.InvalidInput, match="'delay' of learn"):
        rf.learn("grid-v0", episodes=3, delay=delay)


def test_another_delay_is_another_run(tmp_path: Path) -> None:
    asked: dict[str, Any] = {**DELAY, "episodes": 8, "path": tmp_path / "a.rfrun"}
    with pytest.raises(Cut):
        rf.learn("grid-v0", **asked, delay=2, progress=cut_after(4))
    for other, words in ((1, "delay=2, not delay=1"), (None, "delay=2, not none")):
        with pytest.raises(rf.RunError, match=f"another timing: {words}"):
            rf.learn("grid-v0", **asked, delay=other, resume=True)


TIMINGS: list[Any] = [
    None,
    [],
    {},
    {"delay": 1, "rate": 10.0},
    {"delay": -1},
    {"delay": 1.0},
    {"delay": True},
    {"delay": 2**60},
    {"rate": 0},
    {"rate": "fast"},
    {"rate": float("nan")},
    {"rate": 1e300},
]


@pytest.mark.parametrize("timing", TIMINGS, ids=str)
def test_a_timing_that_no_run_has_is_refused(timing: Any) -> None:
    spec = rf.learn("grid-v0", episodes=2, delay=1).spec
    assert validate(spec)["timing"] == {"delay": 1}
    with pytest.raises(ValueError, match="timing"):
        validate({**spec, "timing": timing})


def _set(text: str) -> Any:
    return lambda connection: connection.execute(f"UPDATE rounds SET {text}")


def _spec_without_timing(connection: sqlite3.Connection) -> None:
    spec = json.loads(connection.execute("SELECT json FROM spec").fetchone()[0])
    del spec["timing"]
    connection.execute("UPDATE spec SET json = ?", (json.dumps(spec),))


FORGED = {
    "a plan of a later round": _set("based_on = 9 WHERE k = 9"),
    "a plan that is older than the one before": _set("based_on = 0 WHERE k = 20"),
    "half a plan": _set("based_on = NULL WHERE k = 9"),
    "no digest": _set("plan = -1 WHERE k = 3"),
    "too long a digest": _set(f"plan = {2**48} WHERE k = 3"),
    "a deadline less": _set("missed = -1 WHERE k = 3"),
    "columns of a timed run, and a spec of another": _spec_without_timing,
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_record_that_no_timed_run_leaves_is_refused(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    rf.learn("grid-v0", **DELAY, episodes=20, delay=2, path=path)
    forge(path, change)
    with pytest.raises(rf.RunError, match="is damaged or was not written by resetfree"):
        rf.load(path)


def test_edits_of_the_columns_do_not_fit_the_digest(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    with pytest.raises(Cut):
        rf.learn("grid-v0", **DELAY, episodes=20, delay=2, path=path, progress=cut_after(15))
    edit(path, "UPDATE rounds SET plan = plan + 1 WHERE k = 11")
    assert read(path).fit.what == "round 11"
    with pytest.raises(rf.RunError, match="does not fit its digest"):
        rf.learn("grid-v0", **DELAY, episodes=20, delay=2, path=path, resume=True)


@pytest.mark.parametrize("cut", [b"", b"rfp1", b"x" * 40])
def test_plans_in_a_checkpoint_that_cannot_be_read_are_refused(cut: bytes, tmp_path: Path) -> None:
    from resetfree.core.state import pack, unpack

    path, asked = tmp_path / "a.rfrun", {**DELAY, "episodes": 30, "delay": 2}
    with pytest.raises(Cut):
        rf.learn("grid-v0", **asked, path=path, progress=cut_after(12))

    def change(connection: sqlite3.Connection) -> None:
        arrays = unpack(connection.execute("SELECT arrays FROM checkpoints").fetchone()[0])
        arrays["timing"] = np.frombuffer(cut, dtype=np.uint8)
        connection.execute("UPDATE checkpoints SET arrays = ?", (bytes(pack(arrays)),))

    forge(path, change)
    with pytest.raises(rf.RunError, match=r"checkpoint .* does not fit"):
        rf.learn("grid-v0", **asked, path=path, resume=True)
