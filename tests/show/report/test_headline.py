"""What a reader sees first: the sentence, the tiles, the comparison; axes that suit early learning; folders."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bank import edit
from tests.show.report.conftest import EPISODES
from tests.show.report.reading import Page, read

import resetfree as rf
from resetfree.core.certificate import Status
from resetfree.core.readable import number
from resetfree.show.report import write_report
from resetfree.show.report.groups import collect
from resetfree.show.report.headline import headline, late_reward, one_group
from resetfree.show.report.html_tables import _claim
from resetfree.show.report.learning_curves import figures, linear_regret, linear_resets
from resetfree.studies.statistics import chance_of_less, interquartile_mean, trimmed

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Files = dict[str, list[Path]]


def tiles(page: Page) -> list[str]:
    """The large numbers of the page."""
    inside = [given.get("class") == "tile" for _, given in page.tags]
    assert sum(inside) == 3
    return page.texts["b"][:3]


def test_one_run_in_one_sentence(files: Files, tmp_path: Path) -> None:
    write_report(files["auto"][:1], tmp_path / "r.html")
    page, run = read(tmp_path / "r.html"), rf.load(files["auto"][0])
    resets, last = int(run.realised_resets[-1]), int(np.flatnonzero(run.columns["reset"])[-1]) + 1
    assert f"{resets} resets in {EPISODES} episodes; none since episode {last}." in page.text
    earned = run.columns["reward"][-EPISODES // 10 :].mean()
    assert tiles(page)[:2] == [str(resets), f"{earned:.3g}"]
    assert tiles(page)[2] == "≤ 18", "what is proved on every path"
    best = run.solution.value[run.columns["s1"][-EPISODES // 10 :]].mean()
    share = re.search(r"([\d.]+) % of what is possible from there within an episode", page.text)
    assert share is not None
    assert float(share[1]) == pytest.approx(100 * earned / best, abs=0.051)


def test_the_page_of_one_run_has_no_words_about_many_and_no_empty_columns(files: Files, tmp_path: Path) -> None:
    write_report(files["no_oracle"], tmp_path / "r.html")
    page, run = read(tmp_path / "r.html"), rf.load(files["no_oracle"][0])
    names = [run.spec[role]["name"] for role in ("primal", "dual")]
    assert f"{' against '.join(names)}, 200 episodes, seed 0." in page.text
    assert "1 group" not in page.text
    assert "Mean over the runs" not in page.text
    assert "Regret" not in page.texts["th"]
    assert "Resets, realised" in page.texts["th"]
    write_report(files["auto"], tmp_path / "s.html")
    assert "Mean over the runs" in read(tmp_path / "s.html").text
    assert {"Regret", "Resets, expected"} <= set(read(tmp_path / "s.html").texts["th"])


def test_many_runs_that_stood_still_do_not_hide_the_result(tmp_path: Path) -> None:
    for seed in range(2):  # nothing is earned there without a reset
        rf.learn("thresholds-v0", episodes=300, seed=seed, path=tmp_path / f"{seed}.rfrun")
    write_report([tmp_path / "0.rfrun"], tmp_path / "one.html")
    assert "A run is stuck: " in read(tmp_path / "one.html").text
    write_report([tmp_path], tmp_path / "both.html")
    page = read(tmp_path / "both.html")
    assert "2 of 2 runs are stuck" in page.texts["summary"]
    assert "A run is stuck: " not in page.text


def test_players_come_in_the_same_order_on_each_problem(tmp_path: Path) -> None:
    files = []
    for problem, players in (("grid-v0", ("ucbvi", "uniform")), ("thresholds-v0", ("uniform", "ucbvi"))):
        for player in players:
            files.append(tmp_path / f"{problem}-{player}.rfrun")
            rf.learn(problem, player, episodes=30, path=files[-1])
    mixed = [files[0], files[2], files[1], files[3]]
    shown = [(g.spec["problem"], g.spec["primal"]["name"]) for g in collect(mixed).groups]
    assert shown == [(problem, player) for problem in ("grid-v0", "thresholds-v0") for player in ("ucbvi", "uniform")]
    write_report(mixed, tmp_path / "r.html")
    page = read(tmp_path / "r.html")
    assert tiles(page)[0] in ("1 of 2", "2 of 2")
    assert page.texts["h3"].count("grid-v0") == 1
    assert page.text.index("Comparison") < page.text.index("Runs and results")


def test_one_problem_with_several_options_is_several_problems_with_names_of_their_own(tmp_path: Path) -> None:
    for n in (5, 6):
        for player in ("support-elimination", "uniform"):
            file = tmp_path / f"{n}-{player}.rfrun"
            rf.learn("pits-v0", player, "constant-penalty", episodes=30, path=file, settings={"problem": {"n": n}})
    write_report([tmp_path], tmp_path / "r.html")
    page = read(tmp_path / "r.html")
    assert [h for h in page.texts["h3"] if h.startswith("pits")] == ["pits-v0 with n = 5", "pits-v0 with n = 6"]
    assert tiles(page)[0] == "2 of 2", "the same players, whatever the options of the problem"
    labels = [group.label for group in collect(sorted(tmp_path.glob("*.rfrun"))).groups]
    assert [label.partition(",")[0] for label in labels] == [f"pits-v0 with n = {n}" for n in (5, 5, 6, 6)]


def test_six_figures_are_seen_at_once_and_the_others_are_folded_away(files: Files, tmp_path: Path) -> None:
    write_report(files["auto"], tmp_path / "r.html")
    seen, _, more = (tmp_path / "r.html").read_text().partition(" more figures: Run by run, The game between")
    assert re.findall('<figure id="g1-([a-z-]+)"', seen) == ["regret", "resets", "reward", "map", "learned", "visits"]
    assert {"time-line", "resets-log", "game-regret"} <= set(re.findall('<figure id="g1-([a-z-]+)"', more))
    for name, axis in (("auto", "log"), ("ucb", "linear")):
        (group,) = collect(files[name][:1]).groups
        drawn = [one for one in figures(group) if not one.name.endswith("-log")]
        assert {one.figure.axes[0].get_xscale() for one in drawn} == {axis}, "all or none"


def test_a_tuned_claim_that_is_not_met_is_no_failure() -> None:
    def verdict(status: Status) -> str:
        return str(_claim([rf.Certificate("it is quick", 2.0, 1.0, status=status)])[1])

    assert 'class="badge missed">not met<' in verdict("tuned")
    assert 'class="badge bad">fails<' in verdict("proved")


def test_without_a_theorem_the_third_tile_is_the_bound_from_the_resets_alone(files: Files, tmp_path: Path) -> None:
    write_report(files["ucb"][:1], tmp_path / "r.html")
    (group,) = collect(files["ucb"][:1]).groups
    assert tiles(read(tmp_path / "r.html"))[2] == f"≤ {number(group.final('upper')[0])}"


@pytest.mark.parametrize(
    ("resets", "words"),
    [([], "No reset in 400 episodes."), ([400], "1 reset in 400 episodes; the last in episode 400.")],
)
def test_no_reset_and_one_at_the_very_end(files: Files, resets: list[int], words: str) -> None:
    (group,) = collect(files["auto"][:1]).groups
    group.runs[0].columns["reset"][:] = False
    group.runs[0].columns["reset"][[k - 1 for k in resets]] = True
    group.runs[0].__dict__.pop("realised_resets", None)
    assert one_group(group) == words


def test_several_seeds_and_several_groups(files: Files, tmp_path: Path) -> None:
    (seeds,) = collect(files["auto"]).groups
    counts = seeds.final("realised")
    mean = f"{np.mean(counts):.3g}"
    assert f"{mean} resets in 400 episodes, on average over 3 seeds (most {max(counts):.0f})" in headline([seeds])
    write_report([*files["auto"], *files["ucb"]], tmp_path / "r.html")
    page = read(tmp_path / "r.html")
    auto, ucb = collect([*files["auto"], *files["ucb"]]).groups
    assert np.mean(auto.final("realised")) < np.mean(ucb.final("realised"))
    best = "rule-elimination against constant-penalty had the fewest resets"
    assert f"Of 2 groups on grid-v0, {best} ({mean} in 400 episodes)" in page.text
    rewards = [late_reward(group) for group in (auto, ucb)]
    assert tiles(page)[0] == mean
    assert tiles(page)[1] == f"{max(rewards):.3g}"
    assert [tag for tag, given in page.tags if given.get("class") == "group"] == ["details", "details"]
    assert max(auto.final("realised")) < min(ucb.final("realised"))
    assert chance_of_less(auto.final("realised"), ucb.final("realised")).mean == 1.0
    assert f"in all {auto.n * ucb.n} pairs of runs" in page.text
    assert "[100" not in page.text, "no interval where all pairs agree"


def test_what_fails_comes_before_what_shines(files: Files, tmp_path: Path) -> None:
    file = tmp_path / "forged.rfrun"
    shutil.copy(files["auto"][0], file)
    edit(file, "UPDATE rounds SET v_r = 7.99 WHERE k < 200")
    write_report([file], tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert text.index("A claim that must hold fails:") < text.index('class="headline"')


def test_early_learning_is_drawn_on_a_logarithmic_axis(files: Files) -> None:
    (early,), (late,) = (collect(files[name][:1]).groups for name in ("auto", "ucb"))
    for draw_one in (linear_regret, linear_resets):
        assert draw_one(early).figure.axes[0].get_xscale() == "log"
        assert "logarithmic" in draw_one(early).caption
    assert linear_regret(late).figure.axes[0].get_xscale() == "linear"


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.lists(st.integers(0, 4), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_the_chance_of_less_counts_pairs(one: list[int], other: list[int]) -> None:
    found = chance_of_less(one, other)
    pairs = [1.0 if x < y else 0.5 if x == y else 0.0 for x in one for y in other]
    assert found.mean == pytest.approx(np.mean(pairs))
    assert found.low - 1e-12 <= found.mean <= found.high + 1e-12
    assert found.mean + chance_of_less(other, one).mean == pytest.approx(1.0)
    assert trimmed(one).mean == pytest.approx(interquartile_mean(np.array(one, dtype=float)[:, None])[0])


def test_a_profile_is_the_share_of_runs(files: Files, tmp_path: Path) -> None:
    others = [tmp_path / f"{seed}.rfrun" for seed in range(3)]
    for seed, path in enumerate(others):
        rf.learn("grid-v0", "uniform", "constant-penalty", episodes=60, seed=seed, path=path)
    write_report([*files["auto"], *others], tmp_path / "r.html")
    data = read(tmp_path / "r.html").data("comparison1-profile")
    groups = {group.label: np.array(group.final("realised")) for group in collect([*files["auto"], *others]).groups}
    for label, x, share in zip(data["group"], data["resets"], data["share"], strict=True):
        assert float(share) == pytest.approx(np.mean(groups[label] <= float(x)))
    assert data["share"].count("1.0") >= 2


def test_a_folder_stands_for_the_run_files_in_it(files: Files, tmp_path: Path) -> None:
    deep = tmp_path / "sweep" / "trials" / "ab"
    deep.mkdir(parents=True)
    for path in files["auto"][:2]:
        shutil.copy(path, deep)
    (tmp_path / "sweep" / "report.md").write_text("# Sweep")
    assert write_report([tmp_path / "sweep"], tmp_path / "r.html").runs == 2
    (tmp_path / "empty").mkdir()
    with pytest.raises(rf.RunError, match=r"There is no run file \(\*\.rfrun\) in the folder"):
        write_report([tmp_path / "empty"], tmp_path / "r.html")


def test_the_last_steps_before_falls_are_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.rfrun"
    run = rf.learn("gym:CartPole-v1", "uniform", "constant-penalty", B=1.0, episodes=4, seed=0, path=file)
    write_report([file], tmp_path / "r.html")
    data = read(tmp_path / "r.html").data("g1-falls")
    told = rf.transitions(file)
    fallen = told["next_state"][told["reset"]]
    assert len(fallen) == run.realised_resets[-1] > 0
    at = [i for i, step in enumerate(data["step"]) if step == "0"]
    found = np.array([[float(data[f"observation[{i}]"][row]) for i in range(4)] for row in at])
    np.testing.assert_array_equal(found, fallen[: len(found)])


def test_a_pointer_reads_the_values_of_a_figure(browser: Browser, files: Files, tmp_path: Path) -> None:
    write_report([*files["auto"], *files["ucb"]], tmp_path / "r.html")
    wrong = list[Any]()
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.goto(f"{(tmp_path / 'r.html').as_uri()}#g2")
    assert page.locator("details.group").nth(1).get_attribute("open") is not None, "a link opens its group"
    assert page.locator("details.group").nth(0).get_attribute("open") is None
    figure = page.locator("#g2-resets")
    (panel,) = json.loads(figure.get_attribute("data-points") or "")
    drawing = figure.locator("svg")
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    assert box is not None
    width = float((drawing.get_attribute("viewBox") or "").split()[2])
    left, top, right, bottom = (side * box["width"] / width for side in panel["box"])
    page.mouse.move(box["x"] + right - 1, box["y"] + (top + bottom) / 2)
    said = figure.locator(".reading").inner_text().splitlines()
    assert said[0] == "at 400"
    lines = {label: ys[-1] for label, _, ys in panel["lines"]}
    assert said[1:] == [f"{label}: {value:,}" for label, value in lines.items()]
    page.mouse.move(box["x"] + left + 1, box["y"] + (top + bottom) / 2)
    assert figure.locator(".reading").inner_text().startswith("at 1\n")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] - 200)
    assert figure.locator(".reading").count() == 0
    context.close()
    assert wrong == []
