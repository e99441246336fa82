"""Many cases in a row: how many of each kind, and a table of what came of them."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.fuzz.executor import ROOT, Executor
from tests.fuzz.outcome import GOOD, Outcome

SHORT = {
    "bytes": 50, "cells": 70, "arrays": 70, "plans": 20, "lines": 40, "paths": 25, "sizes": 50, "calls": 150,
}  # fmt: skip
LONG = {
    "bytes": 1200, "cells": 3000, "arrays": 3000, "plans": 700, "lines": 1200, "paths": 400, "sizes": 3000,
    "calls": 5000,
}  # fmt: skip
Found = list[tuple[str, Outcome]]  # KIND:SEED:INDEX and what came of it


def make_corpus(folder: Path, *, full: bool = False) -> None:
    """The honest files, made in a process of their own."""
    source = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "tests.fuzz.corpus", str(folder.resolve()), *(["--full"] if full else [])]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": source, "MPLBACKEND": "agg"}, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"The corpus could not be made:\n{done.stderr[-3000:]}")


def campaign(
    counts: Mapping[str, int],
    corpus: Path,
    work: Path,
    *,
    seed: int = 0,
    first: int = 0,
    tell: Callable[[str], object] | None = None,
) -> Found:
    """Run cases `first` to `first + n - 1` of each kind; `tell` is told of each that went wrong."""
    found: Found = []
    with Executor(work) as executor:
        for kind, n in counts.items():
            for index in range(first, first + n):
                one = executor.run(request(kind, seed, index, corpus, work))
                name = f"{kind}:{seed}:{index}"
                found.append((name, one))
                if tell is not None and not one.good:
                    tell(describe(name, one))
    return found


def request(kind: str, seed: int, index: int, corpus: Path, work: Path) -> dict[str, object]:
    """What the worker needs to know to make a case."""
    evil = str(work.resolve() / "evil")
    return {"kind": kind, "seed": seed, "index": index, "corpus": str(corpus.resolve()), "evil": evil}


def describe(name: str, one: Outcome) -> str:
    """A case that went wrong, in two lines."""
    return f"{name}  {one.verdict.upper()}  {one.reason[:400]}\n    {' | '.join(one.words)[:600]}"


def distinct(found: Found) -> str:
    """What went wrong, each thing once: how often, and the shortest case of it."""
    alike: dict[tuple[str, str], Found] = {}
    for name, one in found:
        if not one.good:
            place = one.where or re.sub(r"[0-9]+|'[^']*'", "_", one.reason)[:60]
            what = one.raised.partition(":")[0] or " ".join((one.argv or [])[:1])
            alike.setdefault((one.verdict, f"{what} {place}"), []).append((name, one))
    lines = []
    for cases in sorted(alike.values(), key=len, reverse=True):
        name, one = min(cases, key=lambda case: len(" ".join(case[1].words)))
        lines.append(f"{len(cases)} x {describe(name, one)}")
    return "\n".join(lines)


def replay(name: str, corpus: Path, work: Path) -> str:
    """One case again, in full; its folder is kept."""
    kind, seed, index = name.split(":")
    with Executor(work, keep=True) as executor:
        one = executor.run(request(kind, int(seed), int(index), corpus, work))
    parts = [describe(name, one), f"folder: {work / 'cases' / '1'}"]
    parts += [f"status: {one.status}", f"raised: {one.raised} {one.where}", f"stdout: {one.out}", f"stderr: {one.err}"]
    parts += [f"appeared: {one.appeared}", f"changed: {one.changed}"]
    return "\n".join([*parts, f"{one.seconds:.2f} s of processor time, {one.peak / 2**20:.0f} MiB"])


def table(found: Found) -> str:
    """Kinds down, verdicts across."""
    counts = Counter((one.kind, one.verdict) for _, one in found)
    kinds = list(dict.fromkeys(one.kind for _, one in found))
    verdicts = [*GOOD, *sorted({one.verdict for _, one in found} - set(GOOD))]
    rows = [["", *verdicts], *([kind, *(str(counts[kind, verdict]) for verdict in verdicts)] for kind in kinds)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
