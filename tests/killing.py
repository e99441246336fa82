"""Kills a run at random moments, again and again, until it has ended by itself.

Imported by programs of their own (kill_driver.py): a fork is safe only in a process without threads.
"""

import contextlib
import math
import os
import random
import select
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.waiting import surroundings

import resetfree as rf
from resetfree.runs.file.runfile import connect

Progress = Callable[[object, rf.Round], None]  # what `learn` calls after every round


def run_driver(driver: Path, *words: object) -> str:
    """What a kill_driver.py prints: the number of sessions that it killed before the run ended by itself."""
    command = [sys.executable, str(driver), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings())
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def rounds_of(path: Path) -> int:
    """How many rounds the file holds, 0 while it is not yet a run file."""
    try:
        with contextlib.closing(connect(path, "ro")) as connection:
            return int(connection.execute("SELECT count(*) FROM rounds").fetchone()[0])
    except (rf.ResetFreeError, sqlite3.Error):
        return 0


def kill_often(
    play: Callable[[int, Progress], None],
    progress: Callable[[], object],
    *,
    episodes: int,
    kills: int,
    seed: int,
    longest: float,
    look: Callable[[], None] = lambda: None,
) -> int:
    """Calls `play(session, pause)` in a child and kills it, `kills` times; the last session is left alone.

    The first kill, and four of five after it, wait until `progress()` has changed, so that a slow machine cannot put
    all kills before the first recorded round; the others land most likely while a session begins. A session that has
    reached its share of the `episodes` waits to be killed (`pause`, to be called after every round), so that a slow
    machine cannot put the end of the run before the last kill either. `look` is called after each kill. Returns the
    number of sessions that were killed.
    """
    chance, killed, session = random.Random(seed), 0, 0
    while True:
        before = progress()
        heard, tell = os.pipe()  # readable when the child waits, and when it has ended
        pid = os.fork()
        if not pid:
            share = episodes * (killed + 1) / (kills + 1) if killed < kills else math.inf
            _play_and_exit(play, session, partial(_pause, share, tell))
        os.close(tell)
        session += 1
        if killed < kills:
            if killed == 0 or chance.random() < 0.8:
                while progress() == before and not select.select([heard], [], [], 0.001)[0]:
                    pass
            time.sleep(chance.uniform(0.0, longest))
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(heard)
        if os.WIFSIGNALED(status):
            killed += 1
            look()
        elif os.WEXITSTATUS(status) == 0:
            return killed
        else:
            sys.exit("the run failed")


def _pause(share: float, tell: int, _: object, this: rf.Round) -> None:
    if this.k >= share:
        os.write(tell, b".")
        while True:
            time.sleep(60.0)


def _play_and_exit(play: Callable[[int, Progress], None], session: int, pause: Progress) -> None:
    try:
        play(session, pause)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
