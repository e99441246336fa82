"""Kills a run of the plant at random moments and resumes it each time; a process of its own, so that forking is safe.

Usage: kill_driver.py FOLDER EPISODES KILLS SEED. The run is FOLDER/a.rfrun. FOLDER/asked.jsonl has one line for each
reset that was asked for: session, whether it found a run file, why, and how many rounds and which rounds the run file
held at that moment. FOLDER/killed.jsonl has one line for each kill: what the file held
after it.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.killing import Progress, kill_often, rounds_of
from tests.problems.operators.plant import Counter, Plant

import resetfree as rf
from resetfree.problems.operators import Request
from resetfree.runs.file.ledger import read
from resetfree.runs.file.runfile import connect, read_checkpoint


def write(path: Path, line: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def rows_of(path: Path) -> tuple[int, int, str]:
    """Rounds in the file, resets in them, and all their rewards, bit for bit."""
    found = read(path).columns
    return len(found["k"]), int(found["reset"].sum()), found["reward"].tobytes().hex()


def play(folder: Path, episodes: int, session: int, pause: Progress) -> None:
    path, resume = folder / "a.rfrun", (folder / "a.rfrun").exists()

    def ask(request: Request) -> str:
        n, resets, rewards = rows_of(path)
        line = {"session": session, "resumed": resume, "why": request.why, "n": n, "resets": resets, "rewards": rewards}
        write(folder / "asked.jsonl", line)
        time.sleep(0.001)
        return f"session {session}"

    rf.learn(
        Plant(delay=0.0002), Counter(), "counting", feedback="realised", episodes=episodes, seed=5, path=path,
        resume=resume, checkpoint_every=0.003, operator=rf.OperatorReset(ask), progress=pause,
    )  # fmt: skip


def look(folder: Path) -> None:
    """What a kill left must fit together: the checkpoint knows exactly what its rounds tell."""
    path = folder / "a.rfrun"
    if not path.exists():
        return
    contents = read(path)
    connection = connect(path, "ro")
    checkpoint = read_checkpoint(connection, path)
    connection.close()
    columns = {name: column[: contents.k] for name, column in contents.columns.items()}
    if checkpoint is not None:
        arrays = checkpoint.arrays
        starts = np.bincount(columns["s1"], minlength=len(arrays["primal.starts"]))
        assert checkpoint.k == contents.k
        assert np.array_equal(arrays["primal.starts"], starts)
        assert int(arrays["primal.steps"]) == columns["steps"].sum()
        assert int(arrays["primal.resets"]) == columns["reset"].sum()
    n, resets, rewards = rows_of(path)
    write(folder / "killed.jsonl", {"k": contents.k, "n": n, "resets": resets, "rewards": rewards})


def main() -> None:
    folder, episodes, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    rf.learn(Plant(), Counter(), "counting", feedback="realised", episodes=3)  # compile once, before the forks
    print(
        kill_often(
            lambda session, pause: play(folder, episodes, session, pause),
            lambda: rounds_of(folder / "a.rfrun"),
            episodes=episodes,
            kills=kills,
            seed=seed,
            longest=0.05,
            look=lambda: look(folder),
        )
    )


if __name__ == "__main__":
    main()
