"""Every surface writes numbers as people do: real outputs are searched for what only machines write."""

import re
from pathlib import Path

import pytest
from tests.show.report.reading import read

import resetfree as rf
from resetfree.core.readable import number
from resetfree.show.cli import main
from resetfree.show.report import write_report

MACHINE_WRITTEN = re.compile(
    r"(?<![\w.-])-?\d+(?:\.\d+)?e[+-]?\d+"  # 1.13e+04, 1.68e-91
    r"|(?<![\w.,])-?\d+\.\d{7,}"  # more digits than anybody reads
    r"|(?<![\w.,≤])1 (?:resets|episodes|steps|seeds|runs|deadlines|goals)\b"
    r"|100 ?% \[100 ?%, 100 ?%\]"
    r"|\bnan\b"
    r"|[(\[]'[a-z]"  # a tuple or a list of Python
)


def searched(words: str) -> list[str]:
    """What in a text no person would write."""
    return MACHINE_WRITTEN.findall(words)


def test_the_search_finds_each_form() -> None:
    for wrong in ("1.13e+04 per s", "[1.68e-91, 0.2]", "after 1 resets", "1 deadlines missed", "100 % [100 %, 100 %]"):
        assert searched(wrong), wrong
    assert not searched("11 resets, 1.5 resets, 0.1 to 1,350, 1 reset in 1 episode")


def test_terminal_and_report_write_numbers_as_people_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("s.toml").write_text(
        '[sweep]\nepisodes = 40\nseeds = 3\n[[problem]]\nid = "grid-v0"\n'
        '[[players]]\nprimal = ["uniform", "rule-elimination"]\ndual = "constant-penalty"\n'
    )
    for words in (
        "run grid-v0 --episodes 40 --out a.rfrun",
        "run grid-v0 --resume --out a.rfrun --verbose",
        "run grid-v0 --primal uniform --dual counting --episodes 3 --out b.rfrun -v",
        "certify a.rfrun --all",
        "certify b.rfrun --all",
        "evaluate a.rfrun --episodes 5",
        "sweep s.toml --out swept",
        "sweep report swept",
    ):
        assert main(words.split()) == 0, words
        out, err = capsys.readouterr()
        assert not searched(out + err), words
    write_report([Path("a.rfrun"), *Path("swept").rglob("*.rfrun")], tmp_path / "r.html")
    assert not searched(read(tmp_path / "r.html").text)


def test_a_run_ends_in_at_most_twelve_lines_reward_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["run", "grid-v0", "--episodes", "40", "--out", "a.rfrun"]) == 0
    lines = capsys.readouterr().out.splitlines()
    run = rf.load("a.rfrun")
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 80
    late, mean = (number(float(run.columns["reward"][since:].mean())) for since in (-4, 0))
    assert lines[0] == f"Reward {late} per episode at the end (the last 4), {mean} over all."
    assert lines[1].startswith(f"{run.realised_resets[-1]} resets in 40 episodes")
    assert [line.split()[0] for line in lines[2:4]] == ["expected", "guarantee"]
    assert lines[5] == "Next:"
