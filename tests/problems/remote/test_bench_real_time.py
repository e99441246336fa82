"""The benchmark of a world that does not wait: what it says of its measurements, and that it sees what is lost."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import real_time
from benchmarks.real_time import PARTS, is_done, main, read, repeats, table
from benchmarks.real_time_harm import WORLDS, changed
from benchmarks.real_time_trials import SHORT, Measurement, Recorded, Sizes, handover, lateness
from tests.core.simulated_clock import Simulated

TIMES = {"p50": 70.0, "p99": 630.0, "p99.9": 4628.0, "max": 8630.0}
MACHINE = {"class": "real-time", "due": 10_000, "in_time": 9_995, "not_judged": 3}
LINES: list[dict[str, Any]] = [
    {"part": "kills", "killed": {"acting": 20, "learner": 18, "machine": 12}, "rounds": 900, "lost": 0, "replay": 0},
    {"part": "lateness", "rate": 100.0, "real_time": False, "repeat": 0, "seconds": 600.0, "player": "model-search"}
    | {"class": "usual", "learner_busy": 0.97, "commands": 9990, "skipped": 10, **TIMES, "machine": MACHINE},
    {"part": "handover", "class": "real-time", "real_time": True, "ahead": True, "taken": 100, "late p99": 87.0}
    | {f"taken {name}": value for name, value in TIMES.items()},
    *(
        {
            "part": "falls",
            "world": world,
            "seed": i,
            "wanted": 5000,
            "falls": falls + i,
            "steps": 6000,
            "reached": i < 2,
        }
        for world, falls, seeds in (("waits", 3, 3), ("at a rate", 4, 2))
        for i in range(seeds)
    ),
]


def test_the_tables_say_what_was_measured() -> None:
    text = table([*map(json.dumps, LINES), "not a line"])
    rows = [row for row in text.splitlines() if row.startswith("|") and "---" not in row]
    of_machine = "10 of 10,000 | 97% | real-time | 3 |"
    assert (
        f"| model-search | 100 Hz | usual | 600 | 99.950% of 10,000 | 70 | 630 | 4,628 | 8,630 | {of_machine}" in rows
    )
    assert "| real-time | ahead | 100 | 70 | 630 | 4,628 | 8,630 | 87 |" in rows
    assert "| waits | 4 | 4.0 | 1.00 | 3 4 5+ | 6000 |" in rows
    assert "| at a rate | 4.5 | 4.5 | 1.29 | 4 5 | 6000 |" in rows  # 9 falls where there are 7, on the same seeds
    assert "| 20 | 18 | 12 | 900 | 0 | the same |" in rows
    order = [text.index(word) for word in ("late itself", "plans of 1 MB", "world", "played again")]
    assert order == sorted(order)
    assert {one["part"] for one in LINES} == set(PARTS)
    assert WORLDS[0] == "waits"


def rounds(*rewards: float) -> dict[str, Any]:
    return {"k": np.arange(1, len(rewards) + 1), "reward": np.array(rewards), "v_r": np.full(len(rewards), np.nan)}


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        (rounds(1.0, 2.0), 0),
        (rounds(1.0, 2.0, 3.0), 0),  # it went on
        (rounds(1.0, 5.0), 1),  # another round
        (rounds(1.0), 3),  # one is gone, with its three numbers
        ({}, 6),
        ({**rounds(1.0, 2.0, 3.0), "k": np.array([1, 2, 2])}, 1),  # twice
    ],
    ids=["same", "more", "changed", "lost", "all lost", "doubled"],
)
def test_what_is_lost_changed_or_doubled_is_counted(after: dict[str, Any], wrong: int) -> None:
    assert changed(rounds(1.0, 2.0), after) == wrong


def test_every_command_is_recorded_and_a_short_version_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorded, "late", [])
    monkeypatch.setattr(Recorded, "skipped", 0)
    world = Simulated()
    ticks = Recorded(100.0, clock=world.clock)
    ticks.begin()
    for late in (5, 25_000_000, 7):
        ticks.wait()
        world.now += late
        ticks.acted()
    assert (Recorded.late, Recorded.skipped) == ([5, 25_000_000, 7], 2)
    full = Sizes()
    assert (full.seconds, len(full.repeats), len(full.seeds), full.steps, full.kills) == (600.0, 3, 10, 5_000, 50)
    assert SHORT.seconds * len(SHORT.repeats) < full.seconds


def test_parts_of_parts() -> None:
    assert (repeats("3"), repeats("1:2")) == (range(3), range(1, 2))
    keys = [one.key for one in lateness(Sizes(rates=(100.0, 500.0), repeats=range(1, 2)), Path())]
    assert [(key["rate"], key["real_time"], key["repeat"]) for key in keys] == [
        (100.0, False, 1),
        (500.0, False, 1),
        (500.0, True, 1),
    ]
    some = Sizes(classes=["real-time"], repeats=range(1))
    assert [one.key["real_time"] for one in lateness(some, Path())] == [False, True]  # 100 Hz needs no class
    assert {one.key["real_time"] for one in handover(some, Path())} == {True}


def test_what_is_measured_is_not_measured_again_unless_it_was_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    made: list[int] = []

    def one(kills: int) -> dict[str, Any]:
        made.append(kills)
        return {"killed": {}, "rounds": 1, "lost": 0, "replay": 0}

    def measured(sizes: Sizes, folder: Path) -> Iterator[Measurement]:
        for repeat in sizes.repeats:
            yield Measurement({"repeat": repeat, "kills": sizes.kills}, lambda: one(sizes.kills))

    monkeypatch.setitem(real_time.MEASURED, "kills", measured)
    out = tmp_path / "results.jsonl"

    def run(*words: str) -> list[int]:
        made.clear()
        monkeypatch.setattr("sys.argv", ["real_time.py", "kills", "--out", str(out), *words])
        main()
        return list(made)

    assert run("--kills", "5", "--repeats", "1") == [5]
    assert run("--kills", "5", "--repeats", "3") == [5, 5]
    with out.open("a") as lines:
        lines.write('{"part": "kills", "repeat": 3, "kil')  # it was killed there
    assert run("--kills", "5", "--repeats", "3") == []
    assert run("--short") == [SHORT.kills]
    found = read(out.read_text().splitlines())
    assert is_done({"part": "kills", "repeat": 2, "kills": 5}, found)
    assert not is_done({"part": "kills", "repeat": 3, "kills": 5}, found)
    capsys.readouterr()
