"""From run files to columnar files: exact sums at log-spaced episodes, read by pandas, Polars and DuckDB."""

import json
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.studies.common import SMALL, fragile, started

import resetfree as rf
from resetfree.runs.tracking import marked
from resetfree.show.cli.sweep import draw, read_summary, write_markdown
from resetfree.studies import SweepFolder, SweepPlan, gather, gathering
from resetfree.studies.gathering import MEASURES, read_curve
from resetfree.studies.statistics import STATISTICS, summarise
from resetfree.studies.trial import TrialJob


def played(text: str, path: Path, leave: int = 0) -> tuple[SweepPlan, SweepFolder]:
    plan, folder = started(text, path)
    for trial in plan.trials[leave:]:
        TrialJob(trial, folder.path).play()
    return plan, folder


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepPlan, SweepFolder]:
    plan, folder = played(SMALL, tmp_path_factory.mktemp("sweep"), leave=1)  # the first is not finished
    found = gather(plan, folder, processes=1)
    assert found == (7, 7 * len(marked(60)), 4)
    return plan, folder


def test_every_finished_trial_is_there_once_with_the_sums_of_its_run(sweep: tuple[SweepPlan, SweepFolder]) -> None:
    plan, folder = sweep
    table = pd.read_parquet(folder.results)
    assert not table.duplicated(["trial", "k"]).any()
    assert set(table.trial) == {trial.id for trial in plan.trials[1:]}
    for trial in plan.trials[1:]:
        rows = table[table.trial == trial.id]
        run = rf.load(folder.trial_file(trial.id))
        at = marked(60) - 1
        assert rows.k.tolist() == (at + 1).tolist()
        assert rows.regret.tolist() == run.regret[at].tolist()  # to the last bit
        assert rows.resets.tolist() == run.resets[at].tolist()
        assert rows.realised_resets.tolist() == run.realised_resets[at].tolist()
        np.testing.assert_array_equal(rows.predicted_resets, run.predicted_resets[at])  # nan of one that predicts none
        assert rows.reward.tolist() == np.cumsum(run.columns["reward"])[at].tolist()
        assert rows.steps.tolist() == np.cumsum(run.columns["steps"])[at].tolist()
        assert np.array_equal(rows.original_return, rows.reward)
        first = rows.iloc[0]
        assert json.loads(first.problem_options) == trial.options
        assert (first.seed, first.primal) == (trial.seed, trial.players.primal)
        assert (first.episodes, first.engine) == (60, "local")
        assert (first.dual, first.feedback) == ("projected-gradient", "optimistic")
        assert first.configuration == trial.configuration


def test_pandas_polars_and_duckdb_read_the_same(sweep: tuple[SweepPlan, SweepFolder]) -> None:
    _, folder = sweep
    for file in (folder.results, folder.summary):
        table = pd.read_parquet(file)
        assert table.equals(pl.read_parquet(file).to_pandas(use_pyarrow_extension_array=False)[list(table.columns)])
        sql = f"SELECT count(*), count(DISTINCT configuration), max(k) FROM '{file}'"
        assert duckdb.execute(sql).fetchall() == [(len(table), 4, 60)]


def test_the_summary_is_over_the_seeds_of_a_configuration(sweep: tuple[SweepPlan, SweepFolder]) -> None:
    _, folder = sweep
    results, summary = pd.read_parquet(folder.results), pd.read_parquet(folder.summary)
    assert set(summary.measure) == set(MEASURES)
    assert not summary.duplicated(["configuration", "k", "measure"]).any()
    for (configuration, k, measure), row in summary.set_index(["configuration", "k", "measure"]).iterrows():
        own = results[(results.configuration == configuration) & (results.k == k)]
        assert row.n == len(own) in (1, 2)
        _, found = summarise(own[[measure]].to_numpy())
        for name in STATISTICS:
            assert row[name] == pytest.approx(found[name][0], abs=1e-12)


def test_the_report_shows_every_configuration(sweep: tuple[SweepPlan, SweepFolder]) -> None:
    _, folder = sweep
    problems = read_summary(folder)
    found = {problem: len(lines) for problem, lines in problems.items()}
    assert found == {"grid-v0 slip=0.1": 2, "grid-v0 slip=0.2": 2}
    assert draw(problems, folder.picture) == folder.picture
    write_markdown(folder, problems, "7 of 8 trials.", True)
    text = folder.report.read_text()
    assert text.count("| linear-ucb / projected-gradient") == 2
    last = problems["grid-v0 slip=0.2"][1].last("resets")
    assert last is not None
    assert f"{last['iqm']:.4g} [{last['iqm_low']:.4g}, {last['iqm_high']:.4g}]" in text
    assert draw({}, folder.picture) is None


def test_several_processes_say_the_same_as_one(
    sweep: tuple[SweepPlan, SweepFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, folder = sweep
    before = folder.results.read_bytes(), folder.summary.read_bytes()
    monkeypatch.setattr(gathering, "FEW", 0)
    monkeypatch.setattr(gathering, "AT_ONCE", 3)
    gather(plan, folder, processes=2)
    assert pd.read_parquet(folder.results).equals(pd.read_parquet(_as_file(tmp_path / "r", before[0])))
    assert pd.read_parquet(folder.summary).equals(pd.read_parquet(_as_file(tmp_path / "s", before[1])))
    assert not list(folder.path.glob("*.new"))


def test_problems_of_somebody_elses_code_are_made_only_when_it_is_said_so(tmp_path: Path) -> None:
    plan, folder = played(fragile("raising", tmp_path / "nothing", episodes=30), tmp_path / "s")
    gather(plan, folder)
    table = pd.read_parquet(folder.results)
    assert table.regret.isna().all()
    assert table.resets.notna().all()  # which the run file knows by itself
    gather(plan, folder, run_code=True)
    asked = pd.read_parquet(folder.results).regret
    run = rf.learn("grid-v0", "linear-ucb", episodes=30)
    assert asked.tolist() == run.regret[marked(30) - 1].tolist()
    gather(plan, folder)  # what the oracle said is kept
    assert pd.read_parquet(folder.results).regret.tolist() == asked.tolist()


def test_a_problem_without_an_oracle_has_neither_regret_nor_resets(tmp_path: Path) -> None:
    text = '[sweep]\nepisodes = 4\n[[problem]]\nid = "gym:CartPole-v1"\noptions.horizon = 5\n'
    text += 'options.features = "fourier-basis"\n[[players]]\nprimal = "uniform"\nbound = 1.0\n'
    plan, folder = played(text, tmp_path / "s")
    assert folder.failed() == {}
    gather(plan, folder, run_code=True)
    table = pd.read_parquet(folder.results)
    assert table[["regret", "resets"]].isna().all(axis=None)
    assert table.steps.iloc[-1] >= 4


def test_a_file_of_another_trial_is_noticed(tmp_path: Path) -> None:
    plan, folder = played(SMALL, tmp_path / "s", leave=7)
    wrong, right = plan.trials[6], plan.trials[7]
    folder.trial_file(wrong.id).parent.mkdir(parents=True, exist_ok=True)
    folder.trial_file(right.id).rename(folder.trial_file(wrong.id))
    with pytest.raises(rf.RunError, match="it is of another trial"):
        read_curve(wrong, folder)
    assert read_curve(right, folder) is None


def test_marks_are_dense_at_first_and_end_with_the_last_episode() -> None:
    for episodes in (1, 2, 9, 10, 11, 999, 20_000):
        found = marked(episodes)
        assert found[0] == 1
        assert found[-1] == episodes
        assert (np.diff(found) > 0).all()
        assert set(found[:-1].tolist()) <= set(marked(10 * episodes).tolist())


def _as_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_gathering_nothing_is_no_mistake(tmp_path: Path) -> None:
    plan, folder = started(SMALL, tmp_path / "s")
    assert gather(plan, folder) == (0, 0, 0)
    assert read_summary(folder) == {}


def test_a_sweep_without_resets_and_without_an_oracle_has_a_picture(tmp_path: Path) -> None:
    """No panel but that of the resets that happened has anything to show, and there are none."""
    text = """
[sweep]
episodes = 3
[[problem]]
id = "gym:CartPole-v1"
options.horizon = 2
[[players]]
primal = "uniform"
dual = "counting"
feedback = "realised"
"""
    plan, folder = played(text, tmp_path / "s")
    gather(plan, folder, processes=1, run_code=True)
    (lines,) = read_summary(folder).values()
    assert {"resets", "regret"}.isdisjoint(lines[0].rows)
    assert {row["iqm"] for row in lines[0].rows["realised_resets"]} == {0.0}
    assert draw(read_summary(folder), folder.picture) == folder.picture
    assert folder.picture.read_bytes().startswith(b"\x89PNG")
