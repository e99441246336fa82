"""Sweeps for tests, and whether two of them came to the same."""

import subprocess
import sys
import time
from pathlib import Path

import resetfree as rf
from resetfree.runs.file.ledger import read
from resetfree.runs.file.runfile import connect
from resetfree.studies import SweepFolder, SweepPlan, parse_plan
from resetfree.studies.trial import NamedTrial

ROOT = Path(__file__).parents[2]
SMALL = """
[sweep]
episodes = 60
seeds = 2
[[problem]]
id = "grid-v0"
options.slip = [0.1, 0.2]
[[players]]
primal = ["linear-ucb", "uniform"]
"""


def prepared(words: str, *command: str) -> list[str]:
    """A command before which a process does what the words say; forking one that has loaded JAX is not safe."""
    code = f"import os, resource, signal, sys; {words}; os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-c", code, *command]


def hearing(*command: str) -> list[str]:
    """A command that hears Ctrl-C, also where the tests were started in the background."""
    return prepared("signal.signal(signal.SIGINT, signal.SIG_DFL)", *command)


def started(text: str, path: Path) -> tuple[SweepPlan, SweepFolder]:
    folder = SweepFolder(path)
    folder.prepare(text)
    return parse_plan(text), folder


def fragile(kind: str, marker: Path, episodes: int = 100, seeds: int = 1) -> str:
    """A sweep on a problem of `dying`."""
    return f"""
[sweep]
episodes = {episodes}
seeds = {seeds}
[[problem]]
id = "tests.studies.dying:{kind}"
options.marker = "{marker}"
[[players]]
primal = "linear-ucb"
"""


def assert_alone(trial: NamedTrial, folder: SweepFolder, **changes: object) -> None:
    """The trial's run file holds what `learn` plays on its own, bit for bit."""
    alone = rf.learn(**{"problem": trial.problem, **trial.arguments, **changes})
    kept = read(folder.trial_file(trial.id))
    assert kept.finished
    for name, column in alone.columns.items():
        assert kept.columns[name].tobytes() == column.tobytes(), name


def resumed_at(folder: SweepFolder, trial: NamedTrial) -> list[int]:
    """The rounds after which a trial went on."""
    connection = connect(folder.trial_file(trial.id), "ro")
    rows = connection.execute("SELECT json_extract(json, '$.k') FROM meta WHERE key = 'resumed'").fetchall()
    connection.close()
    return [row[0] for row in rows]


def is_running(pid: int) -> bool:
    """Whether a process has not ended; one whose end its parent has not read yet has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def helper_of(marker: Path, process: subprocess.Popen[str] | None = None) -> int:
    """The program that a hanging trial has started."""
    pid = marker.with_suffix(".pid")
    while not (pid.exists() and pid.read_text().endswith(" ")):
        assert process is None or process.poll() is None
        time.sleep(0.02)
    return int(pid.read_text())


def sweeping(file: Path, out: Path, *words: str, workers: int = 2) -> list[str]:
    """The command that plays a sweep file, and prints one JSON object."""
    command = [sys.executable, "-m", "resetfree.show.cli", "sweep", str(file), "--out", str(out)]
    return [*command, "--workers", str(workers), "--json", *words]


def begun(command: list[str]) -> subprocess.Popen[str]:
    """A command in a process group of its own, as a terminal starts it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(hearing(*command), cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
