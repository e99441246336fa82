"""Sweep files that ask for too much or are none: one sentence, before memory or time is spent on them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.studies.common import prepared

import resetfree as rf
from resetfree.studies import SweepFolder, parse_plan
from resetfree.studies.plan import read_plan
from resetfree.studies.trial import LARGEST

HEAD = "[sweep]\nepisodes = 1\n"
GRID = '[[problem]]\nid = "grid-v0"\n'
MANY = str(list(range(1000)))
NAMES = str([str(i) for i in range(1000)])
ROOM = 2 * 2**30  # bytes of memory
SECONDS = 60  # until the test gives up; the answers take one


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"{HEAD}seeds = 1000000000\n{GRID}", "at most 1,000,000 trials. Got 1,000,000,000 instead"),
        (f"{HEAD}seeds = {10**30}\n{GRID}", "below 2^63"),
        (f"{HEAD}seeds = {{first = 5, count = {2**62}}}\n{GRID}", "at most 1,000,000 trials"),
        (f"{HEAD}seeds = {{first = {2**63 - 1}, count = 1}}\n{GRID}", "below 2^63"),
        (f"{HEAD}seeds = [{2**70}]\n{GRID}", "below 2^63"),
        (f"{HEAD}{GRID}options.a = {MANY}\noptions.b = {MANY}\noptions.c = {MANY}\n", "Got 1,000,000,000 instead"),
        (f"{HEAD}{GRID}[[players]]\nprimal = {NAMES}\nsettings.primal.a = {MANY}\nbound = {MANY}\n", "at most"),
        (f"{HEAD}{GRID}" + "".join(f"options.o{i} = [0, 1]\n" for i in range(2000)), "Got more instead"),
        (f"{HEAD}[[trial]]\nproblem = 'grid-v0'\noptions.a = {MANY}\nprimal = {NAMES}\nbound = {MANY}\n", "at most"),
        (f"[sweep]\nepisodes = {2**63}\n{GRID}", "'episodes' of the [sweep] must be a positive integer below 2^63"),
        (f"{HEAD}{GRID}[[players]]\nbound = {10**400}\n", "'bound' of the [[players]] must be a number"),
        ("a = " + "[" * 100_000, "tables and lists"),
        ("a" + ".a" * 400_000 + " = 1", "tables and lists"),
        ("[" + "a . " * 100_000 + "a]", "tables and lists"),
        ("a = " + "{a=" * 100_000, "tables and lists"),
        (f"{HEAD}seeds = {'9' * 5000}\n{GRID}", "A sweep file must be"),
        (f"{HEAD}seeds = '{'x' * 1_000_000}'\n{GRID}", "must be a positive integer"),
    ],
)  # fmt: skip
def test_what_asks_for_too_much_is_refused_before_it_is_made(text: str, sentence: str) -> None:
    with pytest.raises(rf.InvalidInput) as caught:
        parse_plan(text)
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 400


def answer(*words: str) -> tuple[int, str]:
    """What a command says within the bounds."""
    limit = f"resource.setrlimit(resource.RLIMIT_DATA, ({ROOM}, {ROOM}))"
    command = prepared(limit, sys.executable, "-m", "resetfree.show.cli", *words)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty", "pipe"])
def test_a_device_or_a_pipe_is_no_sweep_file(tmp_path: Path, device: str) -> None:
    if device == "pipe":
        device = str(tmp_path / "pipe")
        os.mkfifo(device)
    status, sentence = answer("sweep", device)
    assert status == 2
    assert "A sweep file must be a file" in sentence or "cannot be read" in sentence


def test_a_file_that_is_too_large_or_no_text(tmp_path: Path) -> None:
    file = tmp_path / "large.toml"
    with file.open("wb") as hole:
        hole.truncate(LARGEST + 1)
    with pytest.raises(rf.InvalidInput, match=r"must have at most 1,048,576 bytes"):
        read_plan(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(rf.InvalidInput, match="UTF-8"):
        read_plan(file)


def test_a_folder_whose_sweep_file_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "sweep.toml")
    with pytest.raises(rf.RunError, match=r"it has no readable sweep\.toml"):
        SweepFolder(tmp_path).text()
    with pytest.raises(rf.InvalidInput, match="a device or a pipe"):
        SweepFolder(tmp_path).prepare(HEAD + GRID)
