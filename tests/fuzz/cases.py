"""Every case by its kind, seed and index: the same three give the same case."""

import random
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz import arrays, asking, calls, cells, lines, nasty, plans
from tests.fuzz.corpus import Corpus
from tests.fuzz.damage import damage

Made = tuple[list[str], Any]  # what was done in words, and a command line or a function without arguments


@cache
def _corpus(folder: str) -> Corpus:
    return Corpus.read(Path(folder))


def prepare(request: Mapping[str, Any]) -> Made:
    """Make a case in the folder that is the current one."""
    corpus = _corpus(request["corpus"])
    kind, seed, index = request["kind"], request["seed"], request["index"]
    words, action = KINDS[kind](random.Random(f"{kind}:{seed}:{index}"), corpus, request)
    return [*words, f"resetfree {action}" if isinstance(action, list) else "called in Python"], action


def _bytes(rng: random.Random, corpus: Corpus, _: Any) -> Made:
    pick = rng.random()
    if pick < 0.1:
        return _spoilt_results(rng, corpus)
    if pick < 0.3 and corpus.policies:
        name, problem = rng.choice(corpus.policies)
        words = _damaged(corpus.folder / name, Path("policy.npz"), rng)
        return [name, *words], asking.ask_policy(problem, Path("policy.npz"), rng)
    entry = rng.choice(corpus.runs)
    file = Path("run.rfrun")
    if rng.random() < 0.15:
        shutil.copy(corpus.folder / entry.file, file)
        ending = rng.choice(("-wal", "-shm", "-journal", ".lock"))
        data, words = damage((corpus.folder / entry.file).read_bytes(), rng)
        strange = rng.choice((data, rng.randbytes(5000), b""))
        if ending == ".lock" and not strange:  # a killed process leaves it like that, and the next takes it away
            strange = b"x"
        Path(f"{file}{ending}").write_bytes(strange)
        words = [f"a strange file beside it, {ending}", *words]
    else:
        words = _damaged(corpus.folder / entry.file, file, rng)
    return [entry.file, *words], asking.ask_run(entry, file, rng)


def _cells(rng: random.Random, corpus: Corpus, _: Any) -> Made:
    entry = rng.choice(corpus.runs)
    file = Path(shutil.copy(corpus.folder / entry.file, "run.rfrun"))
    words = cells.edit(file, rng)
    return [entry.file, *words], asking.ask_run(entry, file, rng)


def _arrays(rng: random.Random, corpus: Corpus, request: Mapping[str, Any]) -> Made:
    marker = Path(request["evil"]) / "ran"
    if request["index"] % 5 == 0 and corpus.policies:
        name, problem = rng.choice(corpus.policies)
        packed, words = arrays.craft((corpus.folder / name).read_bytes(), rng, marker)
        Path("policy.npz").write_bytes(packed)
        return [name, *words], asking.ask_policy(problem, Path("policy.npz"), rng)
    if request["index"] % 2:  # one by one, so that none is left out
        order = _extremes(str(corpus.folder), request["seed"])
        at, name, value = order[request["index"] // 2 % len(order)]
        entry = corpus.runs[at]
        packed, words = arrays.fill(arrays.read_checkpoint(corpus.folder / entry.file), name, value)
    else:
        entry = rng.choice(corpus.runs)
        packed, words = arrays.craft(arrays.read_checkpoint(corpus.folder / entry.file), rng, marker)
    file = Path(shutil.copy(corpus.folder / entry.file, "run.rfrun"))
    arrays.write_checkpoint(file, packed)
    return [entry.file, *words, *cells.forged(file, rng)], asking.ask_run(entry, file, rng)


@cache
def _extremes(folder: str, seed: int) -> list[tuple[int, str, Any]]:
    corpus = _corpus(folder)
    found = list(arrays.extremes([corpus.folder / entry.file for entry in corpus.runs]))
    random.Random(seed).shuffle(found)
    return found


def _plans(rng: random.Random, corpus: Corpus, _: Any) -> Made:
    if rng.random() < 0.6:
        text, words = plans.edit_text((corpus.folder / "sweep.toml").read_text(), rng)
        Path("plan.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
        return words, ["sweep", "run", "plan.toml", "--dry-run", "--json"]
    shutil.copytree(corpus.folder / corpus.sweep, "sweep")
    words = plans.spoil_folder(Path("sweep"), rng)
    return words, asking.ask_sweep("sweep", rng)


def _lines(rng: random.Random, corpus: Corpus, _: Any) -> Made:
    _lay_out(corpus)
    return [], lines.line(rng)


def _paths(_: random.Random, corpus: Corpus, request: Mapping[str, Any]) -> Made:
    _lay_out(corpus)
    return [], lines.place(request["index"], request["seed"])


def _lay_out(corpus: Corpus) -> None:
    """The files that a line in good faith would name, and the others."""
    nasty.lay_out(Path.cwd())
    for name in ("auto.rfrun", "auto.npz", "sweep.toml"):
        shutil.copy(corpus.folder / name, name)
    shutil.copytree(corpus.folder / corpus.sweep, "sweep")


def _sizes(_: random.Random, corpus: Corpus, request: Mapping[str, Any]) -> Made:
    return [], lines.size(request["index"], request["seed"])


def _calls(rng: random.Random, corpus: Corpus, _: Any) -> Made:
    for name in ("auto.rfrun", "auto.npz"):
        shutil.copy(corpus.folder / name, name)
    return calls.call(rng, corpus.folder)


def _damaged(source: Path, target: Path, rng: random.Random) -> list[str]:
    data, words = damage(source.read_bytes(), rng)
    target.write_bytes(data)
    return words


def _spoilt_results(rng: random.Random, corpus: Corpus) -> Made:
    words = _damaged(corpus.folder / corpus.results, Path("results.jsonl"), rng)
    asked = ["--seeds", "1", "--methods", "uniform", "--jobs", "1", "--problems", "grid-v0", "--json"]
    return [corpus.results, *words], ["bench", "smoke", "--out", "results.jsonl", *asked]


KINDS: dict[str, Callable[[random.Random, Corpus, Mapping[str, Any]], Made]] = {
    "bytes": _bytes, "cells": _cells, "arrays": _arrays, "plans": _plans, "lines": _lines, "paths": _paths,
    "sizes": _sizes,
    "calls": _calls,
}  # fmt: skip
