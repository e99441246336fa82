"""The measurements of benchmarks/real_time.py, each on the cart-pole of `resetfree machine` over UDP."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import resetfree as rf
from resetfree.core import plain_tree
from resetfree.core.errors import ResetFreeError
from resetfree.core.priority import Scheduling, take_highest, take_lowest
from resetfree.core.ticks import Ticks
from resetfree.problems.operators import OperatorReset
from resetfree.problems.remote.built_in import switch_on
from resetfree.runs.live import acting, learner_process
from resetfree.runs.live.board import Board
from resetfree.runs.live.places import LOWEST

WORLDS = ("waits", "at a rate", "learner killed", "thinks in the loop")
QUANTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
RATES = (100.0, 500.0)
SLOW = 50.0  # Hz, of falls and kills
HORIZON = 100
MEGABYTE = 1_000_000
USUAL = Scheduling("usual", "It runs in the usual class, as it was asked to.")
COMMAND = [sys.executable, "-m", "resetfree.show.cli"]


@dataclass(frozen=True)
class Sizes:
    """How long everything lasts."""

    seconds: float = 600.0  # of a measurement of lateness
    repeats: int = 3
    seeds: range = range(10)
    steps: int = 5_000  # up in a row: it has learned
    most: int = 60_000  # steps after which a trial ends
    every: float = 30.0  # seconds between two kills of a learner
    kills: int = 50
    plans: int = 2_000  # that are handed over
    rates: tuple[float, ...] = RATES
    learner: str = LOWEST  # the scheduling class of the process that learns


SHORT = Sizes(seconds=4.0, repeats=1, seeds=range(1), steps=200, most=600, every=10.0, kills=3, plans=100)


@contextmanager
def machine(folder: Path, rate: float, port: int = 0) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """The cart-pole in a process of its own: its address, the file of its lever, and at the end what it counted."""
    key, counts = folder / f"lever-{rate:g}.key", dict[str, Any]()
    words = ["machine", "cartpole", "--rate", f"{rate:g}", "--port", str(port), "--key", str(key), "--json"]
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        while not key.exists():
            if process.poll() is not None:
                raise RuntimeError("the machine did not start")
            time.sleep(0.02)
        counts["pid"] = process.pid
        yield json.loads(key.read_text())["url"], key, counts
        process.send_signal(signal.SIGINT)
        counts |= json.loads(process.communicate(timeout=60)[0] or "{}")
    finally:
        process.kill()
        process.communicate()
        key.unlink(missing_ok=True)


def problem_at(url: str, key: Path, horizon: int = HORIZON) -> Any:
    return rf.from_machine(url, horizon=horizon, operator=OperatorReset(f"lever:{key}"), timeout=10.0)


def apart(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What a function returns in a process of its own, as its scheduling class and signals are."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def multiply(ready: Any) -> None:
    """A full load, in the lowest class."""
    take_lowest()
    one = np.random.default_rng(0).random((300, 300))
    ready.set()
    while True:
        one = one @ one
        one /= np.abs(one).max()


@contextmanager
def load(many: int) -> Iterator[None]:
    """So many processes that multiply matrices."""
    context = multiprocessing.get_context("spawn")
    ready = [context.Event() for _ in range(many)]
    busy = [context.Process(target=multiply, args=(one,), daemon=True) for one in ready]
    for process in busy:
        process.start()
    for one in ready:
        one.wait()
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.join()


class Recorded(Ticks):
    """Ticks that keep the lateness of every command, and how many were skipped."""

    late: list[int] = []  # noqa: RUF012 (of all of them: there is one at a time)
    skipped = 0

    def wait(self) -> int:
        """As before."""
        skipped = super().wait()
        Recorded.skipped += skipped
        return skipped

    def acted(self) -> None:
        """As before."""
        super().acted()
        Recorded.late.append(self.clock.now() - self.due_ns)


def stop_when(true: Callable[[rf.Round], bool]) -> Callable[[Any, rf.Round], None]:
    """A `progress` that ends the run, as Ctrl-C does, once this is true."""
    stopped = threading.Event()

    def look(game: Any, this: rf.Round) -> None:
        if true(this) and not stopped.is_set():
            stopped.set()
            os.kill(os.getpid(), signal.SIGINT)

    return look


def learned(problem: Any, **options: Any) -> None:
    """Learn until it is stopped."""
    with suppress(rf.Stopped):
        rf.learn(problem, episodes=1_000_000, **options)
    problem.close()


def act(where: tuple[str, Path], rate: float, real_time: bool, seed: int, sizes: Sizes) -> dict[str, Any]:
    """Act at a rate for so long, with a learner that never rests."""
    got = [USUAL]

    def scheduled() -> Scheduling:
        got[0] = take_highest() if real_time else USUAL
        return got[0]

    vars(acting).update(Ticks=Recorded, take_highest=scheduled)
    ends: list[float] = []  # counted from the first episode

    def over(this: rf.Round) -> bool:
        ends[:] = ends or [time.monotonic() + sizes.seconds]
        return time.monotonic() > ends[0]

    learned(problem_at(*where), rate=rate, seed=seed, learner=sizes.learner, progress=stop_when(over))
    late = np.array(Recorded.late) / 1_000
    found = {name: round(float(np.percentile(late, share)), 1) for name, share in QUANTILES.items()}
    return {"class": got[0].name, "commands": len(late), "skipped": Recorded.skipped, **found}


def lateness(sizes: Sizes, folder: Path) -> Iterator[dict[str, Any]]:
    """At each rate, with and without the real-time class."""
    for rate in sizes.rates:
        for real_time in (False, True):
            for repeat in range(sizes.repeats):
                with machine(folder, rate) as (url, key, counts):
                    found = apart(act, (url, key), rate, real_time, repeat, sizes)
                in_time = {name: counts[name] for name in ("due", "in_time", "falls", "watchdog", "skipped", "lost")}
                yield {"rate": rate, "repeat": repeat, **found, "machine": in_time}


def post(folder: Path, plans: int, pause: float) -> None:
    """The learner's end of a board."""
    take_lowest()
    weights = np.random.default_rng(0).random(MEGABYTE // 8)
    with Board.join(folder) as board:
        for number in range(plans):
            board.post(plain_tree.encode({"based_on": number, "lam": 0.0, "policy": weights}))
            time.sleep(pause)


def take(folder: Path, plans: int, real_time: bool) -> dict[str, Any]:
    """The end of the process that acts: how long it is held up by a plan that has come, and by one that has not."""
    scheduling = take_highest() if real_time else USUAL
    came: list[int] = []
    none: list[int] = []
    number, found = 0, None
    ticks = Ticks(500.0)
    with Board.make(folder) as board:
        poster = multiprocessing.get_context("spawn").Process(target=post, args=(folder, plans, 0.01))
        poster.start()
        ticks.begin()
        while number < plans and (poster.is_alive() or found is not None):
            ticks.wait()
            began = time.perf_counter_ns()
            found = board.take(lambda data: plain_tree.decode(data, {}), number)
            (none if found is None else came).append(time.perf_counter_ns() - began)
            if found is not None:
                number = found[0].number
        poster.join()
    said = {
        f"{what} {name}": round(float(np.percentile(times, share)) / 1_000, 1)
        for what, times in (("taken", came), ("none", none))
        for name, share in QUANTILES.items()
    }
    return {"class": scheduling.name, "taken": len(came), **said}


def handover(sizes: Sizes, folder: Path) -> Iterator[dict[str, Any]]:
    """Plans of 1 MB, with a full load besides."""
    for real_time in (False, True):
        for repeat in range(sizes.repeats):
            with tempfile.TemporaryDirectory(dir=_shared()) as boards, load(1):
                found = apart(take, Path(boards) / "plans", sizes.plans, real_time)
            yield {"repeat": repeat, "bytes": MEGABYTE, **found}


def _shared() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


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
    learned(problem, seed=seed, progress=stop_when(enough), **timing)
    seconds = round(time.monotonic() - began, 1)
    return {"falls": falls, "steps": steps, "reached": up >= sizes.steps, "killed": killed[0], "seconds": seconds}


def falls(sizes: Sizes, folder: Path) -> Iterator[dict[str, Any]]:
    """Each world with each seed."""
    for world in WORLDS:
        for seed in sizes.seeds:
            with ExitStack() as stack:
                where = None
                if world != "waits":
                    url, key, _ = stack.enter_context(machine(folder, SLOW))
                    where = (url, key)
                found = apart(fall, world, where, seed, sizes)
            yield {"world": world, "seed": seed, **found}


class Victims:
    """A run at a rate on a machine, each of which can be killed and comes back."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.file, self.seed = folder, folder / "killed.rfrun", seed
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
        words += ["--set", "horizon=25", "--episodes", "1000000"]
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


def kills(sizes: Sizes, folder: Path) -> Iterator[dict[str, Any]]:
    """Random SIGKILLs; no round that was committed may be lost, changed or doubled."""
    for repeat in range(sizes.repeats):
        chance, lost, done = random.Random(repeat), 0, dict.fromkeys(("acting", "learner", "machine"), 0)
        (place := folder / f"kills-{repeat}").mkdir()
        victims = Victims(place, repeat)
        try:
            while not victims.rounds():  # it has begun
                time.sleep(0.5)
            for _ in range(sizes.kills):
                time.sleep(chance.uniform(0.5, 6.0))
                what, before = chance.choice(list(done)), victims.rounds()
                victims.kill(what)
                done[what] += 1
                lost += changed(before, victims.rounds())
            before = victims.rounds()
            while len(victims.rounds().get("k", ())) <= len(before.get("k", ())):  # it goes on
                time.sleep(0.5)
        finally:
            victims.close()
        lost += changed(before, after := victims.rounds())
        certified = subprocess.run([*COMMAND, "certify", str(victims.file), "--replay", "--json"], capture_output=True)
        yield {
            "repeat": repeat,
            "killed": done,
            "rounds": len(after["k"]),
            "lost": lost,
            "replay": certified.returncode,
        }


def changed(before: dict[str, Any], after: dict[str, Any]) -> int:
    """How many rounds are not what they were, are gone, or do not follow each other."""
    wrong = int((np.diff(after["k"]) != 1).sum()) if after else 0
    for name, column in before.items():
        now = after.get(name, ())[: len(column)]
        same = [np.array_equal(a, b) or (a != a and b != b) for a, b in zip(column, now, strict=False)]
        wrong += len(column) - sum(map(bool, same))
    return wrong
