"""How late commands are and what handing over a plan costs, for benchmarks/real_time.py, and what its parts need."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import resetfree as rf
from resetfree.core import plain_tree
from resetfree.core.system import REAL_TIME, Scheduling, take_highest, take_lowest
from resetfree.core.ticks import Ticks
from resetfree.game.delayed import HeldPlan
from resetfree.problems.operators import OperatorReset
from resetfree.runs.live import acting
from resetfree.runs.live import threads as plan_reader
from resetfree.runs.live import threads as recorder
from resetfree.runs.live.board import Board
from resetfree.runs.live.learner_location import LOWEST
from resetfree.runs.live.threads import PlanReader

QUANTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
RATES = (100.0, 500.0)
LATE = 500.0  # Hz, from which the real-time class is measured besides
HORIZON = 100
MEGABYTE = 1_000_000
HIGHEST = "highest"  # the real-time class, if it may
ABOVE = 2 * REAL_TIME  # priority of a machine in it: above the process that acts
REAL = "real-time"
USUAL = Scheduling("usual", "It runs in the usual class, as it was asked to.")
COMMAND = [sys.executable, "-m", "resetfree.show.cli"]


@dataclass(frozen=True)
class Sizes:
    """How long everything lasts."""

    seconds: float = 600.0  # of a measurement of lateness
    repeats: range = range(3)
    classes: Sequence[str] = (USUAL.name, REAL)
    seeds: range = range(10)
    steps: int = 5_000  # up in a row: it has learned
    most: int = 60_000  # steps after which a trial ends
    every: float = 30.0  # seconds between two kills of a learner
    kills: int = 50
    plans: int = 2_000  # that are handed over
    rates: tuple[float, ...] = RATES
    learner: str = LOWEST  # the scheduling class of the process that learns
    player: str = "model-search"
    machine: str = HIGHEST  # the scheduling class of the machine, which would have a processor of its own


class Measurement(NamedTuple):
    """One line of results: what it is of, which no other line has, and what makes it."""

    key: dict[str, Any]
    made: Callable[[], dict[str, Any]]


SHORT = Sizes(seconds=4.0, repeats=range(1), seeds=range(1), steps=200, most=600, every=10.0, kills=3, plans=100)


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


def raised(process: int) -> str:
    """Give a machine the real-time class, as nothing that runs here would delay one; returns which class it has."""
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(process, os.SCHED_FIFO, os.sched_param(ABOVE))
        return REAL
    return USUAL.name


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

    for module in (acting, plan_reader, recorder):  # all that would take more than the usual class
        vars(module).update(take_highest=scheduled)
    vars(acting).update(Ticks=Recorded)
    ends: list[float] = []  # counted from the first episode

    def over(this: rf.Round) -> bool:
        ends[:] = ends or [time.monotonic() + sizes.seconds]
        return time.monotonic() > ends[0]

    began = time.monotonic()
    options: dict[str, Any] = {"primal": sizes.player, "learner": sizes.learner, "progress": stop_when(over)}
    learned(problem_at(*where), rate=rate, seed=seed, **options)
    learner = resource.getrusage(resource.RUSAGE_CHILDREN)  # the only process that this one has started
    busy = (learner.ru_utime + learner.ru_stime) / (time.monotonic() - began)
    late = np.array(Recorded.late) / 1_000
    found = {name: round(float(np.percentile(late, share)), 1) for name, share in QUANTILES.items()}
    return {
        "class": got[0].name,
        "commands": len(late),
        "skipped": Recorded.skipped,
        "learner_busy": round(busy, 3),
        **found,
    }


def classes(sizes: Sizes) -> list[bool]:
    """Whether the process that acts takes the real-time class: each that is wanted."""
    return [one == REAL for one in (USUAL.name, REAL) if one in sizes.classes]


def lateness(sizes: Sizes, folder: Path) -> Iterator[Measurement]:
    """At each rate, the fast ones with the real-time class too."""

    def made(rate: float, real_time: bool, repeat: int) -> dict[str, Any]:
        with machine(folder, rate) as (url, key, counts):
            which = raised(counts["pid"]) if sizes.machine == HIGHEST else USUAL.name
            found = apart(act, (url, key), rate, real_time, repeat, sizes)
        names = ("due", "in_time", "not_judged", "falls", "watchdog", "skipped", "lost")
        return {**found, "machine": {"class": which, **{name: counts[name] for name in names}}}

    for rate in sizes.rates:
        for real_time in classes(sizes) if rate >= LATE else [False]:
            for repeat in sizes.repeats:
                key = {"rate": rate, "real_time": real_time, "repeat": repeat, "seconds": sizes.seconds}
                yield Measurement({**key, "player": sizes.player}, partial(made, rate, real_time, repeat))


def post(folder: Path, plans: int, pause: float) -> None:
    """The learner's end of a board."""
    take_lowest()
    plan = {"lam": 0.0, "v_r": 0.0, "v_c": 0.0, "upper": 0.0, "policy": np.random.default_rng(0).random(MEGABYTE // 8)}
    with Board.join(folder) as board:
        for number in range(plans):
            board.post(plain_tree.encode({"based_on": number, **plan}))
            time.sleep(pause)


def take(folder: Path, plans: int, real_time: bool, ahead: bool) -> dict[str, Any]:
    """The end of the process that acts: how long a plan that has come holds it up, and how late its ticks are.

    ahead: whether a thread reads plans, as in a run, or the loop itself.
    """
    scheduling = take_highest() if real_time else USUAL
    came: list[int] = []
    none: list[int] = []
    late: list[int] = []
    number, ticks, end = 0, Ticks(500.0), time.monotonic() + 600.0
    kept: HeldPlan | None = None
    with ExitStack() as stack:
        board = stack.enter_context(Board.make(folder))
        reader = stack.enter_context(PlanReader(board, {})) if ahead else None
        poster = multiprocessing.get_context("spawn").Process(target=post, args=(folder, plans, 0.01))
        poster.start()
        ticks.begin()
        while number < plans and time.monotonic() < end:
            ticks.wait()
            late.append(ticks.late_ns)
            began, before = time.perf_counter_ns(), number
            if reader is None:
                taken = board.take(lambda data: HeldPlan.read(data, {}, kept=False), number)
                if taken is not None:
                    (number, _, _), kept = taken
            elif (found := reader.newest) is not None:
                number, kept = found.number, found.held
            (came if number > before else none).append(time.perf_counter_ns() - began)
        poster.kill()
        poster.join()
    assert kept is not None
    said = {
        f"{what} {name}": round(float(np.percentile(some, share)) / 1_000, 1)
        for what, some in (("taken", came), ("none", none), ("late", late))
        for name, share in QUANTILES.items()
    }
    return {"class": scheduling.name, "taken": len(came), **said}


def handover(sizes: Sizes, folder: Path) -> Iterator[Measurement]:
    """Plans of 1 MB, with a full load besides."""

    def made(real_time: bool, ahead: bool) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(dir=_shared()) as boards, load(1):
            return apart(take, Path(boards) / "plans", sizes.plans, real_time, ahead)

    for real_time in classes(sizes):
        for repeat in sizes.repeats:
            for ahead in (True, False):
                key = {
                    "real_time": real_time,
                    "ahead": ahead,
                    "repeat": repeat,
                    "plans": sizes.plans,
                    "bytes": MEGABYTE,
                }
                yield Measurement(key, partial(made, real_time, ahead))


def _shared() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
