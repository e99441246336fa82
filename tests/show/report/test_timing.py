"""Runs by the clock or with delay: their clock is drawn and said beside resets and reward; nothing of it for others."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.show.report import style
from resetfree.show.report.html import players, write_report
from resetfree.show.report.html.build_report import build
from resetfree.show.report.html.groups import Collection, Group

EPISODES = 60


def timed(seed: int, spec: dict[str, Any], lateness: float) -> rf.Run:
    """A run with the columns of a clock: every third episode misses two deadlines, plans are up to three rounds old."""
    run = rf.learn("grid-v0", episodes=EPISODES, seed=seed)
    k = np.arange(EPISODES)
    clock = {
        "based_on": np.maximum(k - 3, 0),
        "plan": k,
        "missed": np.where(k % 3 == 2, 2, 0),
        "lateness": np.where(k == 30, 4 * lateness, lateness),
    }
    return dataclasses.replace(run, spec={**run.spec, "timing": spec}, columns={**run.columns, **clock})


def group(spec: dict[str, Any], lateness: float, n: int = 2) -> Group:
    return Group("g1", "timed", tuple(timed(seed, spec, lateness) for seed in range(n)))


def page(one: Group) -> tuple[list[str], str]:
    with style.look():
        drawn, text = build(Collection([one], [], []), details=True)
    return [drawing.name for drawing in drawn], text


def test_a_run_by_the_clock_shows_its_clock() -> None:
    one = group({"rate": 100.0}, 0.0005)
    names, text = page(one)
    assert {"g1-plan-ages", "g1-deadlines", "g1-lateness"} <= set(names)
    assert "The clock and the age of plans" in text
    steps = sum(int(run.columns["steps"].sum()) for run in one.runs)
    said = players.clock_summary(one)
    assert said in text
    assert said.startswith("100 steps per second; 80 deadlines missed (")
    assert f"({100 * steps / (steps + 80):.4g} % of commands in time)" in said
    assert "the latest command 2 ms after its tick; plans up to 3 rounds old, 2.9 on average" in said
    assert f"{sum(int(run.realised_resets[-1]) for run in one.runs):,} resets" in said


def test_the_numbers_behind_the_figures_are_those_of_the_columns() -> None:
    with style.look():
        ages, deadlines, late = players.clock_figures(group({"rate": 100.0}, 0.0005, n=1))
    assert ages.data["oldest_mean"].tolist() == [0, 1, 2, *[3] * (EPISODES - 3)]
    assert ages.data["age_mean_mean"][-1] == pytest.approx((0 + 1 + 2 + 3 * (EPISODES - 3)) / EPISODES)
    assert deadlines.data["missed_mean"][-1] == 2 * (EPISODES // 3)
    assert late.data["latest_mean"][[29, 30, 59]] == pytest.approx([0.5, 2.0, 2.0])


def test_a_run_with_delay_has_plans_that_are_old_and_no_clock() -> None:
    one = group({"delay": 3}, float("nan"))
    names, _ = page(one)
    assert "g1-plan-ages" in names
    assert not {"g1-deadlines", "g1-lateness"} & set(names)
    assert players.clock_summary(one).startswith("plans up to 3 rounds old, 2.9 on average; ")


def test_nothing_is_shown_of_a_clock_that_was_not_there() -> None:
    one = Group("g1", "plain", (rf.learn("grid-v0", episodes=EPISODES),))
    names, text = page(one)
    assert players.clock_figures(one) == []
    assert not [name for name in names if "plan-ages" in name]
    assert "age of plans" not in text


def test_runs_with_other_delays_are_other_groups(tmp_path: Path) -> None:
    files = [tmp_path / f"{delay}-{seed}.rfrun" for delay in (0, 2) for seed in range(2)]
    for i, file in enumerate(files):
        rf.learn("grid-v0", episodes=EPISODES, seed=i % 2, path=file, delay=2 * (i // 2))
    made = write_report(files, tmp_path / "report.html")
    assert {"g1-plan-ages", "g2-plan-ages"} <= set(made.figures)
    text = (tmp_path / "report.html").read_text()
    assert "(delay = 0)" in text
    assert "(delay = 2)" in text
    assert "plans up to 0 rounds old" in text
    assert "plans up to 2 rounds old" in text
