"""A comparison on many problems: its count, its losses, its page and its picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from resetfree.show.cli import bench_pages, main
from resetfree.show.cli.bench_pages import count, draw_differences, line_cells, losses, write_page
from resetfree.studies.statistics import Interval
from resetfree.studies.suites.suite_runner import Dominator, Row, Summary


def row(case: str, method: str, resets: float, regret: float, kind: str = "baseline") -> Row:
    measures = {name: Interval(x, x, x) for name, x in (("resets", resets), ("regret", regret))}
    return Row(
        case, 10, method, kind, guaranteed=False, pooled=True, width=None, bound=2.0, trials=3, done=3, stopped=0,
        failed=0, measures=measures, most_realised=0, covered=1.0, note=None,
    )  # fmt: skip


def dominator(case: str, method: str, regret: Interval, kind: str = "baseline") -> Dominator:
    return Dominator(case, method, kind, pooled=True, resets=Interval(-2.0, -3.0, -1.0), regret=regret, clear=True)


@pytest.fixture
def summary() -> Summary:
    cases = ("draw 0, pits", "draw 1, doors", "draw 8, doors", "draw 2, chain")
    rows = {
        case: [
            row(case, "auto", 5.0, 7.0, "ours"),
            row(case, "cheap", 3.0, 6.0),
            row(case, "late", 1.0, 90.0),
            row(case, "told", 0.0, 0.0, "oracle"),
        ]
        for case in cases
    }
    told = dominator(cases[0], "told", Interval(-7.0, -7.0, -7.0), "oracle")
    perhaps = dominator(cases[1], "cheap", Interval(-1.0, -3.0, 1.0))
    surely = dominator(cases[2], "cheap", Interval(-1.0, -2.0, -0.5))
    return Summary(rows, {cases[0]: [told], cases[1]: [told, perhaps], cases[2]: [surely], cases[3]: []})


def test_the_count_leaves_out_who_is_given_the_model(summary: Summary) -> None:
    assert count(summary) == (
        "Nothing dominates 'auto' on 2 of 4 problems; on 1 something wins both beyond the intervals."
    )
    found = losses(summary)
    assert [line.split(":")[0] for line in found] == ["draw 1, doors", "draw 8, doors"]
    assert all("cheap (pooled): Resets -2 [-3, -1]" in line and "told" not in line for line in found)


def test_the_best_other_weighs_resets_with_the_bound(summary: Summary) -> None:
    """3 resets and 6 of regret are 12 with B = 2; the oracle's 0 does not compete, and 1 and 90 are 92."""
    assert line_cells(summary, "draw 8, doors") == ["draw 8, doors", "5", "7", "cheap", "3", "6", "cheap"]
    assert line_cells(summary, "draw 2, chain")[-1] == ""


def test_the_page_and_the_picture(summary: Summary, tmp_path: Path) -> None:
    drawn = draw_differences(summary, tmp_path / "front.png", "All against auto")
    assert drawn is not None
    assert drawn.stat().st_size > 10_000
    write_page(summary, tmp_path / "page.md", "resetfree bench generated", drawn.name, "")
    text = (tmp_path / "page.md").read_text()
    assert count(summary) in text
    assert "| draw 8, doors | 5 | 7 | cheap | 3 | 6 | cheap |" in text
    assert draw_differences(Summary({}, {}), tmp_path / "none.png", "") is None
    assert not (tmp_path / "none.png").exists()


def test_the_command_shows_many_problems_in_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench_pages, "MANY", 1)
    words = ("--problems", "draw 1, doors,draw 2, chain", "--methods", "auto,uniform", "--seeds", "2", "--jobs", "1")
    assert main(("bench", "generated", *words, "--docs", "page.md")) == 0
    out = capsys.readouterr().out
    assert "Nothing dominates 'auto' on 2 of 2 problems" in " ".join(out.split())
    assert "| draw 1, doors |" in Path("page.md").read_text()
    assert Path("images/page.png").exists()
