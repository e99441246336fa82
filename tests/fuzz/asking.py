"""What is done with a spoilt file: every command and function that reads one of its kind."""

import random
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.fuzz.corpus import RunFile

import resetfree as rf

Action = list[str] | Callable[[], object]
OBSERVATIONS = (0, 3, -1, 2**40, [0.0, 0.1, 0.2, 0.3], (1, 2, 0), None, "x")


def ask_run(entry: RunFile, file: Path, rng: random.Random) -> Action:
    """A command that reads a run file, or `load` and everything that a run has."""
    name, problem = str(file), entry.problem
    named = [problem] if rng.random() < 0.6 else []
    option = ["--problem", problem] if rng.random() < 0.5 else []
    strict = ["--strict"] if rng.random() < 0.2 else []
    replay = ["--replay"] if rng.random() < 0.5 else []
    ways: list[tuple[float, Any]] = [
        (3, ["certify", name, *option, *replay, *strict, "--json"]),
        (1, ["certify", name, *option, *replay]),
        (3, ["evaluate", name, *named, "--episodes", "3", "--json"]),
        (1, ["evaluate", name, *named, "--episodes", "3", "--stochastic", "--starts", "fresh"]),
        (3, ["export", name, *named, "-o", "made.npz", "--json"]),
        # A spoilt plan may be of 2^31 episodes, which are then played.
        (3, ["run", problem, "--resume", "--seconds", "3", "--out", name, "--json"]),
        (2, ["run", problem, *entry.words, "--episodes", "24", "--resume", "--out", name, "--json"]),
        (1, ["run", problem, *entry.words, "--episodes", "3", "--overwrite", "--out", name, "--json"]),
        (0.15, ["report", name, *option, "-o", "made.html", "--json"]),
        (0.05, ["report", name, name, "-o", "made.html", "--figures", "figures"]),
        (3, lambda: use_run(name, problem if option else None)),
    ]  # fmt: skip
    return _choose(ways, rng)


def ask_policy(problem: str, file: Path, rng: random.Random) -> Action:
    """The same for a policy file."""
    ways: list[tuple[float, Any]] = [
        (2, ["evaluate", str(file), problem, "--episodes", "3", "--json"]),
        (0.3, ["evaluate", str(file), "--json"]),
        (0.3, ["certify", str(file), "--json"]),
        (2, lambda: use_policy(file)),
    ]
    return _choose(ways, rng)


def ask_sweep(folder: str, rng: random.Random) -> Action:
    """The same for the folder of a sweep, without playing."""
    ways: list[tuple[float, Any]] = [
        (2, ["sweep", "status", folder, "--json"]),
        (1, ["sweep", "status", folder]),
        (2, ["sweep", "report", folder, "--workers", "1", "--json"]),
    ]
    return _choose(ways, rng)


def use_run(name: str, problem: str | None) -> None:
    """Every property of a run, one after the other; each may refuse with a sentence."""
    import resetfree as rf

    run = rf.load(name, problem)
    for part in _parts(rf.Run):
        _try(lambda part=part: getattr(run, part))  # type: ignore[misc]
    _try(run.certificates)
    _try(lambda: _use(run.policy))


def use_policy(file: Path) -> None:
    """A policy that was read, asked for what to do."""
    from resetfree.use import read_policy

    _use(read_policy(file))


def _use(policy: Any) -> None:
    for observation in OBSERVATIONS:
        _try(lambda observation=observation: policy.predict(observation))  # type: ignore[misc]
        _try(lambda observation=observation: policy.predict(observation, deterministic=False))  # type: ignore[misc]
    _try(lambda: policy.export("again.npz"))


def _parts(cls: type) -> list[str]:
    return sorted(name for name, part in vars(cls).items() if isinstance(part, property | cached_property))


def _try(call: Callable[[], object]) -> None:
    """A refusal of one thing is no reason not to ask for the next."""
    with suppress(rf.ResetFreeError):
        call()


def _choose(ways: list[tuple[float, Any]], rng: random.Random) -> Action:
    found: Action = rng.choices([way for _, way in ways], [weight for weight, _ in ways])[0]
    return found
