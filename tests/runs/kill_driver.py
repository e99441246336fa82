"""Kills a run at random moments and resumes it each time; a process of its own, so that forking is safe.

Usage: kill_driver.py FILE EPISODES KILLS SEED [CASE]. Prints how many kills there were when the run had finished.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import resetfree as rf

GYM: dict[str, Any] = {"dual": "constant-penalty", "feedback": "realised"}
CASES: dict[str, dict[str, Any]] = {
    "grid": {"problem": "grid-v0", "primal": "linear-ucb"},
    "stored rows": {
        **GYM, "problem": "gym:CartPole-v1", "primal": "stored-linear",
        "settings": {
            "problem": {"horizon": 10, "features": "radial-basis", "features.d": 9},
            "primal": {"refit": 32}, "dual": {"C": 3.0},
        },
    },
    "a search": {
        **GYM, "problem": "gym:CartPole-v1", "primal": "model-search",
        "settings": {
            "problem": {"horizon": 10}, "primal": {"population": 6, "rounds": 1, "planning": 10}, "dual": {"C": 3.0},
        },
    },
    "numbered observations": {
        **GYM, "problem": "gym:FrozenLake-v1", "primal": "ucbvi",
        "settings": {
            "problem": {"horizon": 6, "states": 64, "table": False, "make.map_name": "8x8", "make.is_slippery": True},
            "dual": {"C": 1.0},
        },
    },
}  # fmt: skip


def play(case: str, path: Path | None, episodes: int) -> None:
    asked: dict[str, Any] = {"episodes": episodes, "seed": 5, "checkpoint_every": 0.003, **CASES[case]}
    if path is not None:
        asked |= {"path": path, "resume": path.exists()}
    rf.learn(**asked)


def child(case: str, path: Path, episodes: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        play(case, path, episodes)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main() -> None:
    path, episodes, wanted = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance, case = random.Random(int(sys.argv[4])), sys.argv[5] if len(sys.argv) > 5 else "grid"
    play(case, None, 12)  # compile once, before the forks
    kills = 0
    while True:
        pid = child(case, path, episodes)
        if kills < wanted:
            time.sleep(chance.uniform(0.0, 0.04 if case == "grid" else 0.12))
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            kills += 1
        elif os.WEXITSTATUS(status) == 0:
            print(kills)
            return
        else:
            sys.exit("the run failed")


if __name__ == "__main__":
    main()
