"""First contacts: the page is what the results say, its lines can be typed, and a benchmark that stopped goes on."""

import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from benchmarks import continue_runs
from benchmarks import first_contacts as contacts
from benchmarks.first_contacts import CONTACTS, Contact

EXAMPLES = Path(__file__).parents[1] / "examples" / "gym"
PACKAGES = {"LunarLander": "Box2D", "FetchReach": "gymnasium_robotics"}  # of no extra of ours; slow to import


def line(contact: Contact, seed: int, **other: Any) -> dict[str, Any]:
    one = {"contact": contact.name, "digest": contact.digest, "seed": seed, "player": "x", "episodes": 9, "steps": 90}
    return one | {"resets": 1, "asked": 0, "goals": 3, "reward": 0.5, "score": 1.0, "solved": True} | other


def test_the_page_is_made_of_the_results() -> None:
    page = contacts.PAGE.read_text()
    between = page.partition(contacts.BEGIN)[2].partition(contacts.END)[0].strip()
    assert between == contacts.table(contacts.known(contacts.FILE))
    for contact in CONTACTS:
        lines = f"```python\n{contact.lines}\n```"
        assert f"## {contact.name}\n\n{lines}\n\nSolved: {contact.solved}." in page


@pytest.mark.parametrize(
    "contact",
    [pytest.param(one, id=one.name, marks=[pytest.mark.slow] if one.name in PACKAGES else []) for one in CONTACTS],
)
def test_the_lines_can_be_typed(contact: Contact, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most five of them, with fewer episodes."""
    if contact.name in PACKAGES:
        pytest.importorskip(PACKAGES[contact.name])
    lines = re.sub(r"episodes=\d+", "episodes=2", contact.lines)
    assert len([line for line in lines.splitlines() if line]) <= 5
    assert "seed=0" in lines
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    names: dict[str, Any] = {"print": str}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(lines, names)
    assert len(names["run"]) == 2


def test_medians_and_the_worst_are_shown_and_other_lines_do_not_count() -> None:
    first, second = CONTACTS[:2]
    results = [line(first, 0), line(first, 1, resets=7, score=-3.0, solved=False), line(first, 2)]
    results += [line(second, 0, digest="other")]
    shown = contacts.table(results)
    row = next(row for row in shown.splitlines() if row.startswith(f"| [{first.name}]"))
    assert "| 1 / 7 |" in row
    assert "| 1 / -3 |" in row
    assert row.endswith("| partly, 2 of 3 |")
    assert shown.endswith("Solved on every seed that was played: none.")
    assert contacts.table([line(first, 0)]).endswith(f"played: {first.name}.")
    assert f"[{second.name}]" not in shown


def test_what_was_played_is_not_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that was cut off by a kill is played again."""
    maze = next(contact for contact in CONTACTS if contact.name == "sticky maze")
    file, asked = tmp_path / "results.jsonl", []
    file.write_text(json.dumps(line(maze, 0)) + "\n" + json.dumps(line(maze, 1))[:30])

    def play(contact: Contact, seed: int) -> dict[str, Any]:
        asked.append(seed)
        return line(contact, seed)

    monkeypatch.setattr(contacts, "played", play)
    monkeypatch.setattr(sys, "argv", ["first_contacts.py", "--only", "maze", "--seeds", "0:3", "--file", str(file)])
    contacts.main()
    assert asked == [1, 2]
    contacts.main()
    assert asked == [1, 2]
    assert [one["seed"] for one in contacts.known(file)] == [0, 1, 2]


def test_a_continued_run_is_not_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seeds with the same numbers of episodes are in the file; one that was cut off, and others, are played."""
    file, asked = tmp_path / "continued.jsonl", []
    counts = {"killed": 9, "first": 4, "first_as_long": 3, "second": 1, "second_without_data": 5}
    done = {"seed": 0, "planned": 6, "more": 8, "second_episodes": 6} | counts
    file.write_text(json.dumps(done) + "\n" + json.dumps(done | {"seed": 1})[:30])

    def play(seed: int, folder: Path, options: Any) -> dict[str, int]:
        asked.append(seed)
        return counts | {"second": 3}

    monkeypatch.setattr(continue_runs, "one_seed", play)
    words = ["--seeds", "3", "--planned", "6", "--more", "8", "--second", "6", "--file", str(file)]
    monkeypatch.setattr(sys, "argv", ["continue_runs.py", *words])
    continue_runs.main()
    continue_runs.main()
    assert asked == [1, 2]
    shown = capsys.readouterr().out
    assert "| 0 | 9 | 4 | 3 | 1 | 5 |" in shown
    assert "| mean | 9.0 | 4.0 | 3.0 | 2.3 | 5.0 |" in shown
    assert "fewer resets than the first in 1 of 3 seeds" in shown


def test_a_result_has_what_the_table_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    maze = next(contact for contact in CONTACTS if contact.name == "sticky maze")
    found = contacts.played(maze, 100)
    assert found.keys() >= line(maze, 100).keys()
    assert found["solved"]
    assert found["asked"] > 0 == found["resets"]
