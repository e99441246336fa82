"""Machines that are started once and reset only after a fall: how often they fall before they stay up, and earn.

Run: python benchmarks/machines.py [--tasks Hopper-v5,arm] [--learners ours,sac] [--seeds 2001:2011] [--jobs 2]
         [--out machines.jsonl] [--runs machines.runs] [--steps N] [--limit SECONDS]
     python benchmarks/machines.py --table machines.jsonl .. [--page docs/results/machines.md]
One JSON line per task, learner and seed. What is in the results file already is not played again. After Ctrl-C or
--limit, trials that were cut have a line that says so, and the same command goes on with them from their run files.
A round that takes more than ten seconds to end is killed then; what a killed process had not saved is counted as lost.
Seeds 1001 to 1010 were used for tuning; those of the published table are the defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, where this file is run as a script

from benchmarks.machine_figures import GOALS, Line, Lived, newest, reached, table
from benchmarks.machine_trials import LEARNERS, OURS, TASKS, Trial, line_of, work

from resetfree.core.errors import ResetFreeError
from resetfree.core.interrupts import terminable
from resetfree.studies.engines import Workers

SEEDS, FEWER = range(2001, 2011), range(2001, 2004)  # of ours, and of the others
STEPS = 50_000  # of the others
BEGIN, END = "<!-- table -->", "<!-- end of the table -->"
# Processes share the cores and the GPU: each has one thread, and takes memory of the GPU as it needs it.
ENVIRONMENT = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "NPROC": "1",  # threads of JAX
}


class Wrong(Exception):
    """A bad option, or a file that cannot be used."""


class TimeUp(BaseException):
    """--limit is over. Not an Exception: nothing on the way may catch it."""


class Parser(argparse.ArgumentParser):
    """One sentence about a bad option, and status 2."""

    def error(self, message: str) -> NoReturn:
        """Print it and end."""
        print(f"{message[:1].upper()}{message[1:]}. See --help.", file=sys.stderr)
        raise SystemExit(2)


def parser() -> Parser:
    made = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--tasks", type=_among(TASKS), default=list(TASKS), help="separated by commas")
    learners = [one for one in LEARNERS if one != "sac-20"]
    made.add_argument("--learners", type=_among(LEARNERS), default=learners, help=f"of {', '.join(LEARNERS)}")
    made.add_argument("--seeds", type=_seeds, help="first:end, or separated by commas")
    made.add_argument("--steps", type=_positive, help="the most of a trial, in place of its own limit")
    made.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, help="processes")
    made.add_argument("--limit", type=_positive, help="seconds after which everything ends")
    made.add_argument("--out", type=Path, default=Path("machines.jsonl"), help="the results file")
    made.add_argument("--runs", type=Path, help="the folder of run files (default: OUT with the ending .runs)")
    made.add_argument("--table", nargs="+", type=Path, help="results files to make a table of")
    made.add_argument("--page", type=Path, help="the page into which to put the table")
    return made


def _among(known: Any) -> Any:
    def read(text: str) -> list[str]:
        names = [one for one in text.split(",") if one]
        unknown = [one for one in names if one not in known]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}, got '{text}'")
        return names

    return read


def _seeds(text: str) -> list[int]:
    try:
        first, colon, end = text.partition(":")
        seeds = list(range(int(first), int(end))) if colon else [int(one) for one in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds or min(seeds) < 0:
        raise argparse.ArgumentTypeError(f"expected first:end or numbers with commas between, got '{text}'")
    return seeds


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got '{text}'")
    return int(text)


def trials(arguments: argparse.Namespace) -> list[Trial]:
    """All that is wanted, seeds one after the other so that a part covers all tasks.

    Learners with networks need a Box of actions.
    """
    folder = arguments.runs or arguments.out.with_suffix(".runs")
    found = []
    for learner in arguments.learners:
        ours = learner == OURS
        for seed in arguments.seeds or (SEEDS if ours else FEWER):
            for task in arguments.tasks:
                if ours or TASKS[task].continuous:
                    limit = arguments.steps or (TASKS[task].steps if ours else STEPS)
                    found.append(Trial(task, learner, seed, limit, folder.resolve()))
    return found


def read_lines(file: Path, *, repair: bool = False) -> list[Line]:
    """The lines of a results file; a last one that was not written to its end does not count (`repair`: is removed)."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        if repair:
            return []
        raise Wrong(f"There is no results file '{file}'.") from None
    except OSError as error:
        raise Wrong(f"The results file '{file}' cannot be read: {error.strerror}.") from error
    whole, _, rest = data.rpartition(b"\n")
    if rest and repair:
        os.truncate(file, len(data) - len(rest))
    lines = []
    for number, one in enumerate(whole.splitlines(), 1):
        try:
            line = json.loads(one)
            Lived.of(line)
            if line["task"] not in GOALS:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise Wrong(
                f"Line {number} of '{file}' must be a trial of this benchmark. Remove it or the file."
            ) from None
        lines.append(line)
    return lines


def finished(trial: Trial, line: Line | None) -> bool:
    """Whether nothing is left to play: its goals were reached, or as many steps were played as are wanted now."""
    return line is not None and (line["status"] == "reached" or line["steps"] >= trial.limit)


def in_words(line: Line) -> str:
    """A line for people."""
    lived, goals = Lived.of(line), GOALS[line["task"]]
    said = [f"{reached(lived, goal)} falls before {goal}" for goal in goals] or [f"{len(lived.falls)} resets"]
    spent = f"{line['cpu']:.0f} s of the processor"
    lost = f", {line['lost']} rounds lost" if line.get("lost") else ""
    return f"{'; '.join(said)}; {line['steps']} steps, {spent}, {line['status']}{lost}"


@contextmanager
def limited(seconds: int | None) -> Iterator[None]:
    """Raise TimeUp after so many seconds."""

    def over(number: int, frame: Any) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds or 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def play_all(arguments: argparse.Namespace) -> int:
    """Play what is missing; the exit status."""
    known = newest(read_lines(arguments.out, repair=True))
    left = {one.key: one for one in trials(arguments) if not finished(one, known.get(one.key))}
    all_of_them, began, failures = len(left), time.monotonic(), 0
    os.environ.update({name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()})
    status = 0
    with open(arguments.out, "ab", buffering=0) as out:

        def keep(line: Line) -> None:
            out.write(json.dumps(line).encode() + b"\n")  # one call: an interrupt cannot leave half a line

        try:
            with limited(arguments.limit), Workers[Trial, Any](min(arguments.jobs, max(all_of_them, 1)), work) as pool:
                for trial, line in pool.do(deque(left.values())):
                    done = f"{all_of_them - len(left) + 1} of {all_of_them}, {time.monotonic() - began:.0f} s"
                    if isinstance(line, dict):
                        keep(line)
                        said = f"{trial}: {in_words(line)}"
                    else:
                        failures += 1
                        said = f"failed: {line or f'{trial}: its process was killed'}"
                    del left[trial.key]
                    print(f"{done}: {said}", file=sys.stderr, flush=True)
        except (KeyboardInterrupt, TimeUp) as error:
            status = 130 if isinstance(error, KeyboardInterrupt) else 0
            cut = [line_of(trial) for trial in left.values() if trial.file.exists()]
            for line in cut:
                keep(line)
            said = "Stopped" if status else f"The limit of {arguments.limit} s is over"
            print(f"{said}: {len(left)} of {all_of_them} trials are left, {len(cut)} of them begun.", file=sys.stderr)
    return status or (1 if failures else 0)


def put(page: Path, text: str) -> None:
    """Replace the table of a page, which stands between two marks; a page that is not there is made."""
    before = page.read_text() if page.exists() else f"# Machines: what was measured\n\n{BEGIN}\n{END}\n"
    first, begin, rest = before.partition(BEGIN)
    _, end, last = rest.partition(END)
    if not begin or not end:
        raise Wrong(f"The page '{page}' must have the lines '{BEGIN}' and '{END}' around its table.")
    page.write_text(f"{first}{BEGIN}\n{text}\n{END}{last}")


def main(given: list[str] | None = None) -> int:
    arguments = parser().parse_args(given)
    try:
        if arguments.table is None:
            if arguments.page is not None:
                raise Wrong("A page needs a table: give --table FILE too.")
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            with terminable() as terminated:
                status = play_all(arguments)
                return 143 if terminated.received else status
        text = table(line for file in arguments.table for line in read_lines(file))
        if arguments.page is None:
            print(text)
        else:
            put(arguments.page, text)
    except (Wrong, ResetFreeError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # a second one
        return 130
    except OSError as error:
        print(f"'{error.filename}' cannot be used: {error.strerror}.", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
