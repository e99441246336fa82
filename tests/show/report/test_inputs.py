"""Every kind of run file makes a report or one sentence: several problems, no oracle, unfinished, forged, damaged."""

import dataclasses
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bank import edit
from tests.show.cli.commands import refused, run, run_json
from tests.show.report.conftest import EPISODES, EVIL, pump
from tests.show.report.reading import Page, read

import resetfree as rf
from resetfree.problems.contract import Intervention
from resetfree.show.report import build, write_report
from resetfree.show.report.groups import Collection, Group, collect

Files = dict[str, list[Path]]


def test_the_command_says_what_it_made(capsys: pytest.CaptureFixture[str], files: Files, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    data = run_json(capsys, "report", *files["no_oracle"], "-o", out, "--figures", tmp_path / "figures")
    assert (data["report"], data["runs"], data["bytes"]) == (str(out), 1, out.stat().st_size)
    assert data["seconds"] > 0
    assert set(data["figures"]) == set(read(out).figures)
    assert {p.stem for p in (tmp_path / "figures").iterdir()} == set(data["figures"])
    status, said, err = run(capsys, "report", *files["no_oracle"], "-o", out)
    assert (status, err) == (0, "")
    assert str(out) in said.replace("\n", "")


def test_groups_are_what_differs_by_the_seed_only(files: Files) -> None:
    found = collect([*files["auto"][::-1], *files["ucb"], *files["theory"]])
    assert [group.n for group in found.groups] == [3, 2, 1]
    assert [run.spec["seed"] for run in found.groups[0].runs] == [0, 1, 2]
    assert len({group.label for group in found.groups}) == 3
    assert found.notes == []


def test_the_same_run_twice_is_one_run(files: Files, tmp_path: Path) -> None:
    copy = tmp_path / "copy.rfrun"
    shutil.copy(files["auto"][0], copy)
    found = collect([files["auto"][0], files["auto"][0], copy])
    assert [group.n for group in found.groups] == [1]
    assert len(found.notes) == 1
    assert "the same run" in found.notes[0]


def test_groups_that_differ_by_a_setting_say_which(tmp_path: Path) -> None:
    files = []
    for scale in (0.1, 0.3):
        files.append(tmp_path / f"{scale}.rfrun")
        rf.learn(
            "grid-v0",
            "linear-ucb",
            "projected-gradient",
            episodes=20,
            path=files[-1],
            settings={"primal": {"scale": scale}},
        )
    labels = [group.label for group in collect(files).groups]
    assert [label.rpartition(" (")[2] for label in labels] == ["scale = 0.1)", "scale = 0.3)"]


def test_several_problems_and_players_in_one_page(files: Files, tmp_path: Path) -> None:
    every = [f for name in ("auto", "ucb", "theory", "no_oracle", "one") for f in files[name]]
    made = write_report(every, tmp_path / "r.html")
    page = read(tmp_path / "r.html")
    assert made.runs == len(every) == 8
    assert "--all-figures" in page.text, "five groups: only some figures of each"
    assert {name.partition("-")[0] for name in made.figures} == {"comparison1", "g1", "g2", "g3", "g4", "g5"}
    assert page.data("comparison1-pairs")["n"] == ["3", "1", "2"]  # groups of the same players side by side
    assert "not on equal terms" in page.figures["comparison1-pairs"].caption


def test_a_run_without_an_oracle_shows_what_is_known(files: Files, tmp_path: Path) -> None:
    write_report(files["no_oracle"], tmp_path / "r.html")
    page, run = read(tmp_path / "r.html"), rf.load(files["no_oracle"][0])
    assert run.mdp is None
    assert set(page.figures) == {"g1-resets", "g1-resets-log", "g1-reward"}
    assert "The multiplier was 0 in every episode." in page.text, "in words, not as a figure"
    assert "needs an oracle" in page.text
    k = np.array([int(x) for x in page.data("g1-resets")["k"]])
    assert page.numbers("g1-resets", "realised_mean") == run.realised_resets[k - 1].tolist()
    assert "no more resets happened" in page.text
    write_report(files["no_oracle"], tmp_path / "r.html", problem=pump())
    assert "g1-regret" in read(tmp_path / "r.html").figures


def test_a_run_of_one_episode(files: Files, tmp_path: Path) -> None:
    write_report(files["one"], tmp_path / "r.html")
    page = read(tmp_path / "r.html")
    assert page.numbers("g1-regret", "regret_mean") == [float(rf.load(files["one"][0]).regret[0])]
    assert "the runs are too short" in page.figures["g1-regret-log"].caption


def test_a_start_without_a_reset_free_policy_leaves_regret_out_but_not_resets(tmp_path: Path) -> None:
    run = rf.learn("footnote-v0", "linear-ucb", "projected-gradient", episodes=30, B=3.0, path=tmp_path / "f.rfrun")
    write_report([tmp_path / "f.rfrun"], tmp_path / "r.html")
    page = read(tmp_path / "r.html")
    assert "g1-regret" not in page.figures
    assert page.numbers("g1-resets", "resets_mean") == run.resets.tolist()
    assert "no reset-free policy exists" in page.text


def test_starts_that_are_no_states(tmp_path: Path) -> None:
    rf.learn("continuous-linear-v0", "uniform", "constant-penalty", B=2.0, episodes=20, path=tmp_path / "c.rfrun")
    write_report([tmp_path / "c.rfrun"], tmp_path / "r.html")
    assert set(read(tmp_path / "r.html").figures) >= {"g1-resets", "g1-reward"}


def test_an_interrupted_run_and_one_that_is_being_written(tmp_path: Path) -> None:
    file, seen = tmp_path / "run.rfrun", []

    def look(game: Any, round: Any) -> None:
        if round.k in (1, 150):  # the first time nothing may have been committed yet
            made = write_report([file], tmp_path / f"{round.k}.html")
            seen.append((made.runs, read(tmp_path / f"{round.k}.html").text))
        if round.k == 200:
            raise KeyboardInterrupt

    with pytest.raises(rf.Stopped):
        rf.learn("grid-v0", episodes=300, path=file, progress=look, checkpoint_every=0.0)
    assert [n for n, _ in seen] == [1, 1]
    assert "has no rounds yet" in seen[0][1]
    (so_far,) = {int(k) for k in re.findall(r"(\d+) of 300", seen[1][1])}
    assert 1 <= so_far < 150, "what was committed by then"
    write_report([file], tmp_path / "r.html")
    assert "200 of 300" in read(tmp_path / "r.html").text


def test_seeds_of_different_lengths_are_taken_over_what_all_have(files: Files, tmp_path: Path) -> None:
    def stop(game: Any, round: Any) -> None:
        if round.k == 50:
            raise KeyboardInterrupt

    with pytest.raises(rf.Stopped):
        rf.learn("grid-v0", episodes=EPISODES, seed=9, path=tmp_path / "short.rfrun", progress=stop)
    found = collect([*files["auto"], tmp_path / "short.rfrun"])
    assert [(group.n, group.rounds) for group in found.groups] == [(4, 50)]
    assert "over the first 50" in found.notes[0]
    assert build(found, details=True)[0]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE rounds SET s1 = 99 WHERE k = 3",
        "UPDATE rounds SET s1 = -1 WHERE k = 3; DELETE FROM checkpoints",
        "UPDATE rounds SET lam = -1e300, v_c = NULL, reward = 9e999 WHERE k = 3",
        "UPDATE spec SET json = replace(json, '\"covered\": false', '\"covered\": true')",
    ],
)
def test_forged_numbers_are_shown_or_left_out_but_break_nothing(files: Files, tmp_path: Path, change: str) -> None:
    file = tmp_path / "forged.rfrun"
    shutil.copy(files["auto"][0], file)
    with sqlite3.connect(file) as connection:
        connection.executescript(change)
    connection.close()
    write_report([file], tmp_path / "r.html")
    assert "g1-resets" in read(tmp_path / "r.html").figures


def test_what_fails_stands_at_the_top(files: Files, tmp_path: Path) -> None:
    file = tmp_path / "forged.rfrun"
    shutil.copy(files["auto"][0], file)
    edit(file, "UPDATE rounds SET v_r = 7.99 WHERE k < 200")
    write_report([file], tmp_path / "r.html")
    assert "A claim that must hold fails:" in read(tmp_path / "r.html").text


def test_interventions_are_listed(files: Files) -> None:
    days = {k: f"2024-01-0{k}T10" for k in (1, 2)}
    done = [
        Intervention(k, "reset", EVIL, "Ada", asked=f"{day}:00:00", answered=f"{day}:01:30", seconds=90.0)
        for k, day in days.items()
    ]
    run = dataclasses.replace(rf.load(files["no_oracle"][0]), interventions=tuple(done))
    _, text = build(Collection([Group("g1", "pump", (run,))], [], []), details=True)
    page = Page(text)
    assert "2 interventions, 180 s of waiting" in page.text
    assert page.texts["div"].count(EVIL) == 2
    assert "2024-01-02T10:01:30" in page.text


def test_bad_input_is_one_sentence(capsys: pytest.CaptureFixture[str], files: Files, tmp_path: Path) -> None:
    good, text, cut = files["one"][0], tmp_path / "notes.txt", tmp_path / "cut.rfrun"
    text.write_text("not a run file, and not a report")
    cut.write_bytes(good.read_bytes()[:5000])
    for words, expected in (
        ((tmp_path / "none.rfrun",), "There is no run file"),
        ((good, text), "is not a run file of resetfree"),
        ((cut,), "damaged or cut short"),
        ((good, "-o", text), "exists and is not a report"),
        ((good, "-o", tmp_path), "must go to a file"),
        ((good, "-o", tmp_path / "no" / "r.html"), "must go to a folder that exists"),
        ((good, "-o", "/dev/null/r.html"), "The report"),
        ((good, "-o", tmp_path / "r.html", "--figures", text), "'--figures'"),
        ((), "Missing argument 'RUN...'"),
    ):
        assert expected in refused(capsys, "report", *words)
    assert text.read_text() == "not a run file, and not a report"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut.rfrun", "notes.txt"]


def test_only_reports_are_replaced(files: Files, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    out.write_text("<!doctype html>\n<html><body>my diary</body></html>")
    with pytest.raises(rf.InvalidInput, match="not a report"):
        write_report(files["no_oracle"], out)
    out.unlink()
    write_report(files["no_oracle"], out)
    before = out.read_bytes()
    with pytest.raises(rf.RunError):
        write_report([tmp_path / "none"], out)
    assert out.read_bytes() == before
    write_report(files["evil"], out)
    assert out.read_bytes() != before
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]
