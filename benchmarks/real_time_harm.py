"""What a world that does not wait costs in falls, and what killing does to it, for benchmarks/real_time.py."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.real_time_trials import (
    COMMAND,
    HORIZON,
    Measurement,
    Sizes,
    apart,
    learned,
    machine,
    problem_at,
    stop_when,
)

import resetfree as rf
from resetfree.core.errors import ResetFreeError
from resetfree.problems.machines import switch_on
from resetfree.runs.live import learner as learner_process

WORLDS = ("waits", "at a rate", "learner killed", "thinks in the loop")
SLOW = 50.0  # Hz
PATIENCE = 600.0  # seconds in which a run must go on


def children(pid: int) -> list[int]:
    """The learners of a process that acts."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parent = int((one / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and learner_process.__name__ in (one / "cmdline").read_text():
                found.append(int(one.name))
    return found


def fall(world: str, where: tuple[str, Path] | None, seed: int, sizes: Sizes) -> dict[str, Any]:
    """Learn in one of the worlds until it stays up for so many steps."""
    falls, steps, up, killed = 0, 0, 0, [0]

    def enough(this: rf.Round) -> bool:
        nonlocal falls, steps, up
        taken = len(this.episode.actions)
        falls, steps, up = falls + this.episode.reset, steps + taken, 0 if this.episode.reset else up + taken
        return up >= sizes.steps or steps >= sizes.most

    def kill() -> None:
        while True:
            time.sleep(sizes.every)
            for one in children(os.getpid()):
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
                    killed[0] += 1

    if world == "learner killed":
        threading.Thread(target=kill, daemon=True).start()
    problem = rf.from_gym(switch_on("cartpole", rate=SLOW)[0], horizon=HORIZON) if where is None else problem_at(*where)
    timing: dict[str, Any] = {"rate": SLOW, "learner": sizes.learner} if world in WORLDS[1:3] else {}
    began = time.monotonic()
    learned(problem, primal=sizes.player, seed=seed, progress=stop_when(enough), **timing)
    seconds = round(time.monotonic() - began, 1)
    return {"falls": falls, "steps": steps, "reached": up >= sizes.steps, "killed": killed[0], "seconds": seconds}


def falls(sizes: Sizes, folder: Path) -> Iterator[Measurement]:
    """Each world with each seed: the one that waits is simulated in one process, the others go by the clock."""

    def made(world: str, seed: int) -> dict[str, Any]:
        if world == WORLDS[0]:
            return apart(fall, world, None, seed, sizes)
        with machine(folder, SLOW) as (url, key, _):
            return apart(fall, world, (url, key), seed, sizes)

    for seed in sizes.seeds:  # all worlds of a seed, so that a part of them can be compared
        for world in WORLDS:
            key = {"world": world, "seed": seed, "wanted": sizes.steps, "most": sizes.most, "player": sizes.player}
            yield Measurement(key, partial(made, world, seed))


class Victims:
    """A run at a rate on a machine, each of which can be killed and comes back."""

    def __init__(self, folder: Path, seed: int, learner: str) -> None:
        self.folder, self.file, self.seed, self.learner = folder, folder / "killed.rfrun", seed, learner
        with socket.socket(type=socket.SOCK_DGRAM) as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self._stack = ExitStack()
        self.log = (folder / "log").open("w")
        self.begin_machine()
        self.begin_acting()

    def begin_machine(self) -> None:
        """Switch the machine on."""
        self.url, self.key, self.counts = self._stack.enter_context(machine(self.folder, SLOW, self.port))

    def begin_acting(self) -> None:
        """Start the run, or go on with it."""
        words = ["run", self.url, "--rate", f"{SLOW:g}", "--operator", f"lever:{self.key}", "--out", str(self.file)]
        words += ["--set", "horizon=25", "--episodes", "1000000", "--learner", self.learner]
        words += ["--resume"] if self.file.exists() else ["--seed", str(self.seed)]
        self.acting = subprocess.Popen([*COMMAND, *words], stdout=self.log, stderr=self.log)

    def kill(self, what: str) -> None:
        """Kill one of the three, and bring it back where that is not done for us."""
        if what == "learner":
            for one in children(self.acting.pid):
                os.kill(one, signal.SIGKILL)
            return
        if what == "machine":
            os.kill(self.counts["pid"], signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):  # it must notice by itself
                self.acting.wait(60)
            with suppress(Exception):
                self._stack.close()
            self.begin_machine()
        self.acting.kill()
        self.acting.wait()
        self.begin_acting()

    def rounds(self) -> dict[str, Any]:
        """The rounds that are committed."""
        with suppress(ResetFreeError):
            return {name: np.array(column) for name, column in rf.load(self.file).columns.items()}
        return {}

    def until_more_than(self, rounds: int) -> None:
        """Wait until so many rounds are committed; raises what the run said if that does not happen."""
        end = time.monotonic() + PATIENCE
        while len(self.rounds().get("k", ())) <= rounds:
            if time.monotonic() > end:
                said = (self.folder / "log").read_text()[-2000:]
                raise RuntimeError(f"no round after number {rounds} came within {PATIENCE:g} s:\n{said}")
            time.sleep(0.5)

    def close(self) -> None:
        """End everything."""
        self.acting.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self.acting.wait(60)
        self.acting.kill()
        self.acting.wait()
        with suppress(Exception):
            self._stack.close()
        self.log.close()


def killed(repeat: int, sizes: Sizes, folder: Path) -> dict[str, Any]:
    """One run, killed again and again, and then played again from its file."""
    chance, lost, done = random.Random(repeat), 0, dict.fromkeys(("acting", "learner", "machine"), 0)
    place = Path(tempfile.mkdtemp(dir=folder))
    victims = Victims(place, repeat, sizes.learner)
    try:
        victims.until_more_than(0)  # it has begun
        for _ in range(sizes.kills):
            time.sleep(chance.uniform(0.5, 6.0))
            what, before = chance.choice(list(done)), victims.rounds()
            victims.kill(what)
            done[what] += 1
            lost += changed(before, victims.rounds())
        before = victims.rounds()
        victims.until_more_than(len(before.get("k", ())))  # it goes on
    finally:
        victims.close()
    lost += changed(before, after := victims.rounds())
    certified = subprocess.run([*COMMAND, "certify", str(victims.file), "--replay", "--json"], capture_output=True)
    shutil.rmtree(place)
    return {"killed": done, "rounds": len(after["k"]), "lost": lost, "replay": certified.returncode}


def kills(sizes: Sizes, folder: Path) -> Iterator[Measurement]:
    """Random SIGKILLs; no round that was committed may be lost, changed or doubled."""
    for repeat in sizes.repeats:
        yield Measurement({"repeat": repeat, "kills": sizes.kills}, partial(killed, repeat, sizes, folder))


def changed(before: dict[str, Any], after: dict[str, Any]) -> int:
    """How many rounds are not what they were, are gone, or do not follow each other."""
    wrong = int((np.diff(after["k"]) != 1).sum()) if after else 0
    for name, column in before.items():
        now = after.get(name, ())[: len(column)]
        same = [np.array_equal(a, b) or (a != a and b != b) for a, b in zip(column, now, strict=False)]
        wrong += len(column) - sum(map(bool, same))
    return wrong
