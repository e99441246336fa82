"""Kills a run at random moments and resumes it each time; a process of its own, so that forking is safe.

Usage: kill_driver.py FILE EPISODES KILLS SEED. Prints how many kills there were when the run had finished.
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


def play(path: Path, episodes: int) -> None:
    asked: dict[str, Any] = {
        "episodes": episodes,
        "seed": 5,
        "path": path,
        "resume": path.exists(),
        "checkpoint_every": 0.003,
    }
    rf.learn("grid-v0", "linear-ucb", **asked)


def child(path: Path, episodes: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        play(path, episodes)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main() -> None:
    path, episodes, wanted = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(int(sys.argv[4]))
    rf.learn("grid-v0", "linear-ucb", episodes=3)  # compile once, before the forks
    kills = 0
    while True:
        pid = child(path, episodes)
        if kills < wanted:
            time.sleep(chance.uniform(0.0, 0.04))
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
