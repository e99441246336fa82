"""The fuzz finds what it is there to find, and nothing else."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fuzz import calls, cases, lines
from tests.fuzz.campaign import SHORT, campaign, request, table
from tests.fuzz.damage import WAYS, damage
from tests.fuzz.executor import Executor
from tests.fuzz.outcome import Outcome
from tests.fuzz.planted import FAULTS, HONEST

ENDLESS = ("spin", "wait")  # which are ended sooner than a case would be, as nothing else is learned from waiting


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What came of every planted fault, with an honest case after each: a fault must not be laid to its neighbour."""
    found = {}
    names = [*HONEST, *FAULTS]
    impatient: dict[str, Any] = {"seconds": 2.0, "asleep": 1.0}
    for limits, chosen in ((impatient, ENDLESS), ({}, [n for n in names if n not in ENDLESS])):
        work = tmp_path_factory.mktemp("planted")
        with Executor(
            work, prepare="tests.fuzz.planted:prepare", entry="tests.fuzz.planted:main", **limits
        ) as executor:
            for name in chosen:
                found[name] = executor.run({"kind": "planted", "fault": name})
                after = executor.run({"kind": "planted", "fault": "fine"})
                assert after.verdict == "done", (name, after)
    return found


@pytest.mark.parametrize("name", [*FAULTS, *HONEST])
def test_a_planted_fault_gets_its_verdict(planted: dict[str, Outcome], name: str) -> None:
    wanted, _ = {**FAULTS, **HONEST}[name]
    one = planted[name]
    assert one.verdict == wanted, one
    assert one.good == (name in HONEST)
    assert one.argv == [name, "--json"]  # the parent knows what was asked even where the worker died


def test_every_command_and_function_has_arguments_that_work() -> None:
    """A command or function that is added is fuzzed from then on, or this fails."""
    assert set(lines.BASE) == set(lines.commands())
    assert set(calls.base()) == set(calls.functions())
    assert set(SHORT) == set(cases.KINDS)


def test_the_same_number_is_the_same_damage() -> None:
    data = np.random.default_rng(0).bytes(20_000)
    twice = [[damage(data, random.Random(f"bytes:0:{i}")) for i in range(50)] for _ in range(2)]
    assert twice[0] == twice[1]
    assert sum(spoilt != data for spoilt, _ in twice[0]) > 45


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [0, 1, 2, 99, 5000])
def test_damage_takes_files_of_any_size(way: object, size: int) -> None:
    for i in range(20):
        way(bytearray(size), random.Random(i))  # type: ignore[operator]


def test_a_worker_answers_as_the_program_does(corpus: Path, tmp_path: Path) -> None:
    """The same words in a process of their own end with the same status and the same sentence."""
    with Executor(tmp_path, keep=True) as executor:
        for index in range(6):
            one = executor.run(request("cells", 11, index, corpus, tmp_path))
            if one.argv is None or one.argv[0] == "run" or not one.good:
                continue
            folder = tmp_path / "cases" / str(index + 1)
            command = [sys.executable, "-m", "resetfree.show.cli", *one.argv]
            alone = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            assert alone.returncode == one.status
            if one.status == 2:
                assert alone.stderr == one.err


def test_a_table_counts_kinds_and_verdicts() -> None:
    found = [("a:0:0", Outcome("a", [], verdict="done")), ("a:0:1", Outcome("a", [], verdict="slow"))]
    found += [("b:0:0", Outcome("b", [], verdict="refused"))]
    assert table(found).split() == ["done", "refused", "slow", "a", "1", "0", "1", "b", "0", "1", "0"]


def test_a_case_is_repeated_by_its_number(corpus: Path, tmp_path: Path) -> None:
    first = campaign({"calls": 3}, corpus, tmp_path / "a", seed=5)
    again = campaign({"calls": 1}, corpus, tmp_path / "b", seed=5, first=2)
    assert first[2][0] == again[0][0] == "calls:5:2"
    assert first[2][1].words == again[0][1].words
