"""A run as people look at it: printed, plotted, as a table, in a notebook; and what a file keeps of one's own table."""

import builtins
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from tests.bank import edit, select

import resetfree as rf
from resetfree.problems.blueprint import fingerprint, model_from, plain_model
from resetfree.runs.file.ledger import Ledger

HORIZON = 6


def table(**changes: Any) -> rf.FiniteMDP:
    """A corridor of four cells with a pit at its end; the last action slips."""
    move = np.zeros((5, 2, 5))
    for s in range(4):
        move[s, 0, max(s - 1, 0)] = 1.0
        move[s, 1, s + 1], move[s, 1, s] = 0.75, 0.25
    given = {"reward": np.linspace(0, 1, 10).reshape(5, 2), "reset": [0, 0, 0, 0, 1], "horizon": HORIZON, **changes}
    return rf.FiniteMDP(move, **given)


@pytest.fixture(scope="module")
def run() -> rf.Run:
    return rf.learn("grid-v0", episodes=50, seed=1)


def test_a_run_prints_as_five_lines(run: rf.Run) -> None:
    lines = str(run).splitlines()
    assert [line.split(":")[0] for line in lines] == ["problem", "players", "resets", "reward", "state"]
    assert lines[0].startswith("problem: grid-v0, 50 episodes of 8 actions in ")
    late = f"{run.columns['reset'][-5:].sum()} of them in the last 5"
    assert lines[2] == f"resets:  {run.realised_resets[-1]}, {late}; expected {run.resets[-1]:.4g}"
    assert f"regret {run.regret[-1]:.4g}" in lines[3]
    assert lines[4] == "state:   all episodes played, in no file"
    assert repr(run) == "<Run of grid-v0: 50 of 50 episodes>"


def test_runs_that_ended_early_or_hold_nothing_print_too(tmp_path: Path) -> None:
    file = tmp_path / "a.rfrun"
    early = rf.learn("CartPole-v1", "uniform", B=1.0, episodes=9, path=file, max_resets=1)
    assert f"ended after {len(early)} of 9 episodes: 1 of 1 allowed resets, saved in '{file}'" in str(early)
    assert "regret" not in str(early)
    assert f"reward:  {np.nanmean(early.columns['reward']):.4g} per episode" in str(early)  # its own rewards are these
    Ledger.create(tmp_path / "empty.rfrun", early.spec, starts="TEXT").close()
    empty = rf.load(tmp_path / "empty.rfrun")
    assert "nothing yet" in str(empty)
    assert len(str(empty).splitlines()) == 5
    for view in (empty._repr_html_(), early._repr_html_()):
        ElementTree.fromstring(view)
    empty.plot()
    assert len(empty.to_pandas()) == 0


def test_the_view_in_a_notebook_is_small_and_escaped(tmp_path: Path) -> None:
    hostile = table(name="<script>alert(1)</script>&\n<b>")
    run = rf.learn(hostile, episodes=300, callbacks=[lambda now: now.k == 290 and "<img src=x onerror=y>"])
    view = run._repr_html_()
    assert len(view) < 6000
    assert not re.search(r"<(script|img|b)\b", view)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in view
    root = ElementTree.fromstring(view)
    points = root.find(".//polyline").get("points")  # type: ignore[union-attr]
    ends = [float(one.split(",")[1]) for one in str(points).split()]
    assert ends == sorted(ends, reverse=True)  # resets only grow, and upwards is less


def test_the_figure_holds_the_numbers_and_leaves_others_alone(run: rf.Run) -> None:
    figure = run.plot()
    resets, reward = figure.axes
    np.testing.assert_array_equal(resets.lines[0].get_ydata(), run.realised_resets)
    np.testing.assert_array_equal(resets.lines[1].get_ydata(), run.resets)
    np.testing.assert_array_equal(reward.lines[0].get_ydata(), run.columns["reward"])
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_a_table_of_pandas_has_every_column(run: rf.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run.to_pandas()
    assert isinstance(found, pd.DataFrame)
    assert set(found) == {*run.columns, "realised_resets", "resets", "regret"}
    np.testing.assert_array_equal(found["regret"], run.regret)
    lake = rf.learn("CartPole-v1", "uniform", B=1.0, episodes=5)
    assert set(lake.to_pandas()) == {*lake.columns, "realised_resets"}
    assert np.shape(lake.to_pandas()["s1"][0]) == (4,)
    honest = builtins.__import__

    def without_pandas(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError
        return honest(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(rf.InvalidInput, match="pip install pandas"):
        run.to_pandas()


TABLES = {
    "plain": table(),
    "literal": table(boundary="literal", noise="bernoulli"),
    "starts": table(start=[0.5, 0.5, 0, 0, 0], restart=1, noise=0.3),
    "end": table(end_reset=[0, 1, 0, 0, 0]),
    "layers": rf.make("drifting-v0").replace(name="mine"),
    "contexts": rf.make("contexts-v0").replace(name="mine"),
    "features": rf.make("random-linear-v0").replace(name="mine"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_run_of_your_own_table_remembers_it(name: str, tmp_path: Path) -> None:
    mdp, file = TABLES[name], tmp_path / "own.rfrun"
    made = rf.learn(mdp, "uniform", B=1.0, episodes=30, seed=1, path=file)
    read = rf.load(file)
    np.testing.assert_array_equal(read.resets, made.resets)
    assert read.mdp is not None
    assert fingerprint(read.mdp.problem()) == fingerprint(mdp.problem())
    assert {one.claim: one.holds for one in read.certificates()} == {
        one.claim: one.holds for one in made.certificates()
    }
    if name == "plain":
        np.testing.assert_array_equal(read.regret, made.regret)


def test_a_large_table_is_not_kept_and_a_registered_one_neither(tmp_path: Path) -> None:
    assert "model" not in rf.learn("grid-v0", episodes=2).spec
    large = rf.make("pits-v0", n=80).replace(name="mine")
    assert plain_model(large.problem()) is None
    rf.learn(large, "uniform", B=1.0, episodes=2, path=tmp_path / "a.rfrun")
    with pytest.raises(rf.NotCertifiable, match="no oracle"):
        _ = rf.load(tmp_path / "a.rfrun").regret


def forged(plain: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(plain))
    *groups, last = path.split(".")
    at = copy
    for group in groups:
        at = at[group]
    at[last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("horizon", 10**9),
        ("horizon", True),
        ("n_actions", 0),
        ("n_actions", "2"),
        ("boundary", "none"),
        ("noise", [1]),
        ("indices.values", [10**6] * 11),
        ("indptr.values", [5] * 11),
        ("prob.dtype", "|O"),
        ("reward", None),
        ("start.values", [2.0, 0, 0, 0, 0]),
    ],
)
def test_a_forged_table_is_no_table(path: str, value: Any) -> None:
    problem = table().problem()
    plain = plain_model(problem)
    assert plain is not None
    assert model_from(plain, "mine", fingerprint(problem)) is not None
    assert model_from(forged(plain, path, value), "mine", fingerprint(problem)) is None
    assert model_from(plain, "mine", "0" * 64) is None
    assert model_from("table", "mine", fingerprint(problem)) is None


def test_a_file_with_a_forged_table_still_opens(tmp_path: Path) -> None:
    file = tmp_path / "own.rfrun"
    rf.learn(table(), "uniform", B=1.0, episodes=5, path=file)
    ((spec,),) = select(file, "SELECT json FROM spec")
    changed = forged(json.loads(spec), "model.indices.values", [-1] * 20)
    edit(file, "UPDATE spec SET json = ?", values=(json.dumps(changed),))
    assert rf.load(file).mdp is None


def test_one_episode_is_one() -> None:
    assert "grid-v0, 1 episode of 8 actions" in str(rf.learn("grid-v0", episodes=1))
