"""Kills a run at random moments, again and again, until it has ended by itself.

Imported by programs of their own (kill_driver.py): a fork is safe only in a process without threads.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_driver(driver: Path, *words: object) -> str:
    """What a kill_driver.py prints: the number of sessions that it killed before the run ended by itself."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(driver), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def kill_often(
    play: Callable[[int], None],
    progress: Callable[[], object],
    *,
    kills: int,
    seed: int,
    longest: float,
    look: Callable[[], None] = lambda: None,
) -> int:
    """Calls `play(session)` in a child and kills it, `kills` times; the last session is left alone.

    The first kill, and four of five after it, wait until `progress()` has changed, so that a slow machine cannot put
    all kills before the first recorded round; the others land most likely while a session begins. `look` is called
    after each kill. Returns the number of sessions that were really killed: one that ends early counts as none.
    """
    chance, killed, session = random.Random(seed), 0, 0
    while True:
        before = progress()
        pid = os.fork()
        if not pid:
            _play_and_exit(play, session)
        session += 1
        if killed < kills:
            if killed == 0 or chance.random() < 0.8:
                while progress() == before and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    time.sleep(0.001)
            time.sleep(chance.uniform(0.0, longest))
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            killed += 1
            look()
        elif os.WEXITSTATUS(status) == 0:
            return killed
        else:
            sys.exit("the run failed")


def _play_and_exit(play: Callable[[int], None], session: int) -> None:
    try:
        play(session)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
