"""Watches a worker from outside: its memory, its time, its children and its death, each laid to the case at hand."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.fuzz.outcome import MEMORY, SECONDS, Outcome

TICK = 0.03  # seconds between two looks
ASLEEP = 5.0  # seconds without any work, of a case that has had its time: it waits for something that does not come
LONGEST = 1800.0  # seconds of wall time in any case; work is counted in processor time, as a busy machine is no failure
RECYCLE = 700 * 2**20  # bytes after which a worker makes room for a new one
CHILDREN = 64
HERTZ = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
ROOT = Path(__file__).parents[2]
PREPARE = "tests.fuzz.cases:prepare"
ENTRY = "resetfree.show.cli:main"


class Executor:
    """One worker at a time; a new one whenever the last has died, was killed or has grown."""

    def __init__(
        self,
        folder: Path,
        *,
        prepare: str = PREPARE,
        entry: str = ENTRY,
        keep: bool = False,
        seconds: float = SECONDS,
        asleep: float = ASLEEP,
    ) -> None:
        self.folder, self.prepare, self.entry, self.keep = folder.resolve(), prepare, entry, keep
        self.seconds, self.asleep = seconds, asleep
        self.cases = self.folder / "cases"
        self.cases.mkdir(parents=True, exist_ok=True)
        self.worker: subprocess.Popen[bytes] | None = None
        self.workers = 0  # that were started
        self._buffer = b""
        self._count = 0

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def run(self, request: Mapping[str, Any]) -> Outcome:
        """Run one case to its end, whichever that is."""
        if self.worker is None:
            self._start()
        assert self.worker is not None
        self._count += 1
        line = {**request, "folder": str(self.cases / str(self._count)), "entry": self.entry, "keep": self.keep}
        os.write(self._requests, json.dumps(line).encode() + b"\n")
        return self._watch(request)

    def stop(self) -> None:
        """End the worker and everything that it has started."""
        if self.worker is None:
            return
        for pid in [*_descendants(self.worker.pid), self.worker.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.worker.wait()
        os.close(self._requests)
        os.close(self._answers)
        self.worker = None

    def _start(self) -> None:
        to_worker, self._requests = os.pipe()
        self._answers, from_worker = os.pipe()
        self._buffer = b""
        source = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "", "MPLBACKEND": "agg"}
        self.worker = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", str(to_worker), str(from_worker), str(self.folder / "evil"),
             self.prepare],
            pass_fds=(to_worker, from_worker), cwd=ROOT, env={**os.environ, **quiet, "PYTHONPATH": source},
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(to_worker)
        os.close(from_worker)
        self.workers += 1
        while True:
            line = self._line(LONGEST)
            if line == b"ready":
                return
            if line is None:
                self.stop()
                raise RuntimeError("The worker did not start.")

    def _watch(self, request: Mapping[str, Any]) -> Outcome:
        assert self.worker is not None
        pid = self.worker.pid
        start: dict[str, Any] = {"words": [f"preparing {dict(request)}"], "argv": None}
        began = time.monotonic()
        spent, last_work = _usage(pid)[1], began
        base, compiling = spent, None
        while True:
            line = self._line(TICK)
            memory, used, children, wants = _usage(pid)
            now = time.monotonic()
            if line is not None:
                word, _, rest = line.decode().partition(" ")
                if word == "outcome":
                    one = Outcome.from_json(rest)
                    if left := _left(pid):
                        one.ended = f"children: it left running {left}"
                        one.judged()
                    if left or memory > RECYCLE:
                        self.stop()  # what a case leaves running would be laid to the next one
                    return one
                if word == "start":
                    start, began, base, compiling = json.loads(rest), now, used, None
                elif word == "compiling":
                    compiling = used
                elif word == "compiled" and compiling is not None:
                    base += used - compiling
                    compiling = None
                continue
            if used > spent + 0.05 or wants:
                spent, last_work = used, now
            ended = ""
            if self.worker.poll() is not None:
                code = self.worker.returncode
                ended = f"signal: {signal.Signals(-code).name}" if code < 0 else f"exit: the process left with {code}"
            elif memory > MEMORY:
                ended = f"memory: {memory / 2**30:.1f} GiB"
            elif children > CHILDREN:
                ended = f"children: {children} processes"
            elif compiling is None and used - base > self.seconds:
                ended = f"slow: {used - base:.0f} s of processor time"
            elif compiling is None and now - began > self.seconds and now - last_work > self.asleep:
                ended = f"hang: asleep for {now - last_work:.0f} s, {now - began:.0f} s after it was asked"
            elif now - began > LONGEST:
                ended = f"slow: {now - began:.0f} s on the clock"
            if ended:
                self.stop()
                err = self._said("err")
                ran = self.folder / "evil" / "ran"
                code_ran = "a marker was left" if ran.exists() else ""
                ran.unlink(missing_ok=True)
                one = Outcome(
                    str(request["kind"]), start["words"], start["argv"], err=err, ended=ended, code_ran=code_ran
                )
                return one.judged()

    def _said(self, name: str) -> str:
        try:
            return (self.cases / f"{self._count}.{name}").read_text(errors="backslashreplace")[-2000:]
        except OSError:
            return ""

    def _line(self, seconds: float) -> bytes | None:
        """The next line of the worker, None if it has not come in time, or if the worker is gone."""
        while b"\n" not in self._buffer:
            if not select.select([self._answers], [], [], seconds)[0]:
                return None
            read = os.read(self._answers, 65_536)
            if not read:
                time.sleep(TICK)
                return None
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                for child in map(int, file.read().split()):
                    found += [child, *_descendants(child)]
    return found


def _usage(pid: int) -> tuple[int, float, int, bool]:
    """Resident bytes and seconds of processor time of a process and its descendants, and how many those are.

    Last, whether one of them wants a processor: on a busy machine it may wait long for one without being asleep.
    """
    memory, used, wants, children = 0, 0.0, False, _descendants(pid)
    for one in [pid, *children]:
        with suppress(OSError, IndexError, ValueError):
            with open(f"/proc/{one}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            wants = wants or fields[0] == "R"
            memory += int(fields[21]) * PAGE
            used += (int(fields[11]) + int(fields[12])) / HERTZ
            if one == pid:
                used += (int(fields[13]) + int(fields[14])) / HERTZ
    return memory, used, len([one for one in children if _alive(one)]), wants


def _left(pid: int) -> list[str]:
    """What a process still runs, a second later, beside the helpers that multiprocessing keeps for ever."""
    for _ in range(20):
        found = [_command(one) for one in _descendants(pid) if _alive(one)]
        found = [one for one in found if "resource_tracker" not in one and "forkserver" not in one]
        if not found:
            break
        time.sleep(0.05)
    return found


def _command(pid: int) -> str:
    with suppress(OSError), open(f"/proc/{pid}/cmdline") as file:
        return file.read().replace("\0", " ").strip()
    return ""


def _alive(pid: int) -> bool:
    with suppress(OSError, IndexError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False
