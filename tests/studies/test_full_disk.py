"""A full disk, at the start, in the middle and at the end: one sentence, nothing lost, and the same command goes on.

A limit on the size of files refuses writes as a full disk does, for anybody; where we may mount one, a full disk it is.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.studies.common import assert_alone, prepared

from resetfree.core import files as drafts
from resetfree.runs.file.ledger import read
from resetfree.show.cli import main
from resetfree.studies import SweepFolder, parse_plan

ROOT = Path(__file__).parents[2]
RUN = ["run", "grid-v0", "--primal", "uniform", "--dual", "counting", "--episodes", "4000"]
TEXT = """
[sweep]
episodes = 60
seeds = 3
[[problem]]
id = "grid-v0"
[[players]]
primal = "uniform"
"""


def play(*words: str, room: int | None) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own; `room`: bytes that a file may have."""
    command = [sys.executable, "-m", "resetfree.show.cli", *words]
    if room is not None:
        command = prepared(f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))", *command)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def play_here(*words: str) -> str:
    """What a command prints that has room: played in this process, which has loaded everything."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(list(words)) == 0
    return said.getvalue()


def files(folder: Path) -> dict[str, int]:
    return {str(one.relative_to(folder)): one.stat().st_size for one in folder.rglob("*") if one.is_file()}


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a command that had no room."""
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed."""
    file = tmp_path_factory.mktemp("whole") / "whole.rfrun"
    play_here(*RUN, "--out", str(file))
    return file


def same(one: Path, other: Path) -> None:
    a, b = read(one), read(other)
    assert a.finished
    assert b.finished
    for name, column in a.columns.items():
        assert column.tobytes() == b.columns[name].tobytes(), name


@pytest.fixture(params=["limit", pytest.param("disk", marks=pytest.mark.slow)])
def cramped(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Path, Callable[[int | None], int | None]]]:
    """A folder, and a function that leaves so many bytes of room there; it tells what to limit a command to."""
    if request.param == "limit":
        yield tmp_path, lambda room: room
        return
    place, size = tmp_path / "disk", 8 * 2**20
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("No disk may be mounted here: only the limit on the size of files is tried.")

    def leave(room: int | None) -> None:
        filler = place.parent / "disk" / "filler"
        filler.unlink(missing_ok=True)
        if room is not None:
            free = os.statvfs(place)
            filler.write_bytes(b"\0" * max(free.f_bavail * free.f_bsize - room, 0))

    try:
        yield place, leave
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("part", [0.0, 0.5, 0.97], ids=["start", "middle", "end"])
def test_a_run_on_a_full_disk_goes_on_when_there_is_room(
    cramped: tuple[Path, Callable[[int | None], int | None]], whole: Path, part: float
) -> None:
    place, leave = cramped
    file = place / "a.rfrun"
    done = play(*RUN, "--out", str(file), "--json", room=leave(int(part * whole.stat().st_size)))
    leave(None)
    saved = len(read(file).columns["k"]) if file.exists() else 0
    if done.returncode == 0:  # all rounds were written, and only the log could not be folded into the file
        assert part > 0.9
        assert saved == 4000
    else:
        sentence = refused(done)
        assert "could not be written" in sentence or "could not be read or written" in sentence
        assert saved < 4000
    assert set(files(place)) <= ({"a.rfrun", "a.rfrun-wal", "a.rfrun-shm"} if saved else set())
    again = RUN if saved == 0 else ["run", "grid-v0", "--resume"]
    play_here(*again, "--out", str(file))
    same(file, whole)
    assert set(files(place)) == {"a.rfrun"}


def test_a_full_disk_is_not_the_failure_of_a_trial(
    cramped: tuple[Path, Callable[[int | None], int | None]], tmp_path: Path
) -> None:
    """From no room at all to nearly enough: whatever cannot be written, one sentence, and then the same as ever."""
    place, leave = cramped
    text, plan = tmp_path / "s.toml", parse_plan(TEXT)
    text.write_text(TEXT)
    good, folder = SweepFolder(tmp_path / "good"), SweepFolder(place / "s")
    words = ["sweep", str(text), "--engine", "local", "--workers", "1", "--json"]
    play_here(*words, "--out", str(good.path))
    sizes = files(good.path)
    largest = sizes["curves.png"] if leave(0) == 0 else sum(sizes.values())
    told = []
    for part in (0.0, 0.4, 0.97):
        done = play(*words, "--out", str(folder.path), room=leave(int(part * largest)))
        told.append(refused(done))
        leave(None)
        assert not list(folder.path.rglob("*.new"))
        assert folder.failed() == {}
    assert any("Run the same command again to continue" in sentence for sentence in told)
    finished = {
        trial.id: folder.trial_file(trial.id).read_bytes()
        for trial in plan.trials
        if folder.is_finished(trial.id, trial.episodes)
    }
    answer = json.loads(play_here(*words, "--out", str(folder.path)))
    assert (answer["done"], answer["failed"], answer["gathered"]) == (3, 0, 3)
    for trial in plan.trials:
        assert_alone(trial, folder)
    assert all(folder.trial_file(id).read_bytes() == data for id, data in finished.items())
    assert set(files(folder.path)) == set(files(good.path))


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder in which nothing can be made or removed: for root, it takes a disk of that kind."""
    place = tmp_path / "read-only"
    place.mkdir()
    if os.geteuid() != 0:
        place.chmod(0o555)
        yield place
        place.chmod(0o755)
        return
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(place)], check=False).returncode != 0:
        pytest.skip("Root may write to every folder, and no read-only disk may be mounted here.")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_read_only_folder_is_one_sentence(
    capsys: pytest.CaptureFixture[str], read_only: Path, whole: Path, tmp_path: Path
) -> None:
    text = tmp_path / "s.toml"
    text.write_text(TEXT)
    figures = ["report", str(whole), "-o", str(tmp_path / "a.html"), "--figures", str(read_only)]
    for words in (
        ["report", str(whole), "-o", str(read_only / "a.html")],
        figures,
        ["run", "grid-v0", "--episodes", "5", "--out", str(read_only / "a.rfrun")],
        ["sweep", str(text), "--out", str(read_only / "s"), "--engine", "local"],
        ["bench", "smoke", "--out", str(read_only / "b.jsonl")],
    ):
        status = main(words)
        out, err = capsys.readouterr()
        assert (status, out) == (2, ""), words
        assert err.count("\n") == 1, err
        assert str(read_only) in err


def test_drafts_of_killed_processes_are_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "s")
    folder.path.mkdir()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = folder.path / f"sweep.toml.{dead.pid}.new"
    left.write_text("half of a")
    folder.prepare(TEXT)  # a folder with nothing but a draft of ours is not somebody else's
    ours = folder.path / f"report.md.{os.getpid()}.new"
    ours.write_text("being written")
    with folder.playing():
        assert not left.exists()
        assert ours.exists()
    with pytest.raises(FileExistsError), drafts.drafted(folder.path / "a.txt") as draft:
        draft.touch(exist_ok=(draft.write_text("half") == 0))
    assert not list(folder.path.glob("a.txt*"))


def test_an_output_that_is_full_is_one_sentence() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "resetfree.show.cli", "list", "--json"]
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "The output cannot be written: No space left on device.\n"
