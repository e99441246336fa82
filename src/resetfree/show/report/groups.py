"""Run files read, checked and grouped: the runs of a group differ by the seed only; and bounds of theorems for them.

Legend: a group holds n runs of one problem with the same players and settings; K its rounds that all of them have;
"truth" is the oracle's part of a run, or the sentence why there is none.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.certificate import Certificate
from resetfree.core.errors import InvalidInput, ResetFreeError
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.runs.file import runfile
from resetfree.runs.learn import load
from resetfree.runs.result import Run
from resetfree.show.report.figures import early, shown
from resetfree.theory import regret as measures
from resetfree.theory.certificates import EVERY_PATH, RATES, Truth, anytime, primal_cover, rates, truth
from resetfree.theory.certificates.anytime import resets_bound
from resetfree.theory.certificates.claims_dual import dual_side
from resetfree.theory.oracle.dynamic_programming import Solution
from resetfree.theory.regret import LATE

SAME = ("problem", "problem_options", "fingerprint", "primal", "dual", "feedback", "episodes", "B")
LONGEST = 80  # characters of a setting
NO_START = "some starts of this run are no states of its problem"
BROKEN = (ResetFreeError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError)  # raised by damaged data


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ by the seed only, in the order of their seeds."""

    name: str  # "g1", "g2", ...: for links and file names
    label: str
    runs: tuple[Run, ...] = field(repr=False)
    problem: str = ""  # the problem, with the options in which others of the page differ

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the runs, the same for all but for the seed."""
        return self.runs[0].spec

    @property
    def n(self) -> int:
        """How many runs."""
        return len(self.runs)

    @cached_property
    def rounds(self) -> int:
        """Rounds that every run of the group has."""
        return min(len(run) for run in self.runs)

    @property
    def mdp(self) -> FiniteMDP | None:
        """The model, where it is known and the starts are its states."""
        return self.runs[0].mdp if all(_starts_fit(run) for run in self.runs) else None

    @cached_property
    def truths(self) -> list[Truth] | str:
        """The oracle's side of every run, or why there is none for some of them."""
        found = [_truth(run) for run in self.runs]
        missing = [why for why in found if isinstance(why, str)]
        return missing[0] if missing else [known for known in found if isinstance(known, Truth)]

    @property
    def solution(self) -> Solution | None:
        """The oracle's answer, of the first run."""
        return None if self.mdp is None else self.runs[0].solution

    @cached_property
    def measures(self) -> dict[str, list[Floats]]:
        """What there is to see of the runs, by name: [K] of every run, cumulative, never clipped.

        Always realised, upper, lower (bounds on Resets that need no model) and reward (per episode, mean of the newest
        tenth of the episodes so far, as the tile at the end of the run);
        predicted, the resets that the primal player foresaw, if it predicts any; original, the same as reward before
        rewards were scaled, where they were; resets where policies were evaluated exactly;
        with an oracle regret, r_p, r_zero: R_d(0), r_star: R_d(lambda*).
        """
        found: dict[str, list[Floats]] = {"realised": [run.realised_resets.astype(np.float64) for run in self.runs]}
        ks = [np.arange(1.0, len(run) + 1) for run in self.runs]
        found["upper"] = [resets_bound(n, k) for n, k in zip(found["realised"], ks, strict=True)]
        found["lower"] = [anytime.resets_lower(n, anytime.SHOWN) for n in found["realised"]]
        found["reward"] = [newest(run.columns["reward"]) for run in self.runs]
        original = [run.columns["original_return"] for run in self.runs]
        if any(
            (x != run.columns["reward"]).any() for x, run in zip(original, self.runs, strict=True)
        ):  # where the environment's rewards were scaled
            found["original"] = [newest(x) for x in original]
        predicted = [run.predicted_resets for run in self.runs]
        if all(np.isfinite(x).all() for x in predicted):
            found["predicted"] = predicted
        v_c = [run.columns["v_c"] for run in self.runs]
        if all(np.isfinite(x).all() for x in v_c):
            found["resets"] = [np.cumsum(x) for x in v_c]
        if not isinstance(self.truths, str):
            found["regret"] = [measures.regret(t.rounds, t.solution) for t in self.truths]
            found["r_p"] = [measures.primal_regret(t.rounds, t.solution) for t in self.truths]
            found["r_zero"] = [measures.dual_regret(t.rounds, 0.0) for t in self.truths]
            found["r_star"] = [measures.dual_regret(t.rounds, at_starts=t.hat + 1.0) for t in self.truths]
        return found

    @cached_property
    def log(self) -> bool:
        """Whether the figures over episodes have a logarithmic axis: all or none, so that they can be compared."""
        return all(early(self.measures[name], self.rounds) for name in ("realised", "regret") if name in self.measures)

    def final(self, name: str) -> list[float]:
        """A measure after the last common round, of every run; empty without one."""
        return [float(x[self.rounds - 1]) for x in self.measures.get(name, [])]

    @cached_property
    def certificates(self) -> list[list[Certificate]]:
        """Every claim that can be checked, of every run; computed here and never taken from the file."""
        return [_certificates(run) for run in self.runs]

    @cached_property
    def arrays(self) -> list[dict[str, NDArray[Any]]]:
        """What the players had learned at the newest checkpoint, of every run."""
        return [_arrays(run) for run in self.runs]


def newest(values: Floats) -> Floats:
    """The mean over the newest tenth of the episodes, after each of them.

    >>> newest(np.arange(40.0))[[0, 9, 39]].tolist()
    [0.0, 9.0, 37.5]
    """
    total, k = np.concatenate([[0.0], np.cumsum(values)]), np.arange(1, len(values) + 1)
    width = np.maximum(k // LATE, 1)
    with np.errstate(invalid="ignore"):  # a forged record may hold infinities
        return np.asarray((total[k] - total[k - width]) / width)


@dataclass(frozen=True, eq=False)
class Collection:
    """The groups of a report, and what is left out of them."""

    groups: list[Group]
    empty: list[Run]  # runs without a round
    notes: list[str]  # what was left out, and why


def collect(paths: Sequence[Path], problem: Any = None, options: Mapping[str, Any] | None = None) -> Collection:
    """Read run files and group them.

    problem, options: for runs whose problem is not registered, see `runs.learn.load`.
    Raises RunError for a file that cannot be read.
    """
    if not paths:
        raise InvalidInput("A report must be about at least one run file. Got none instead.")
    runs: dict[tuple[str, int], Run] = {}
    notes: list[str] = []
    for path in dict.fromkeys(Path(p) for p in paths):
        run = load(path, options=options if problem is None else None)
        if problem is not None and (run.mdp is None or "model" in run.spec):  # names of states are not in a file
            run = load(path, problem, options)
        if run.fit is not None and not run.fit.whole:
            notes.append(f"{path} was damaged or edited after it was written: {run.fit.what} does not fit its digest.")
        same = json.dumps([*(run.spec[name] for name in SAME), clock(run.spec)], sort_keys=True, default=str)
        key = (same, int(run.spec["seed"]))
        if key in runs:  # one seed twice would make intervals narrower than they are
            other, short = sorted((runs[key], run), key=len, reverse=True)
            notes.append(f"{short.path} is left out: it is the same run as {other.path}, seed {key[1]}.")
            run = other
        runs[key] = run
    together: dict[str, list[Run]] = {}
    for (same, _), run in runs.items():
        if len(run):
            together.setdefault(same, []).append(run)
    members = [tuple(sorted(found, key=lambda run: int(run.spec["seed"]))) for found in together.values()]
    members.sort(key=_in_order(members))
    specs = [found[0].spec for found in members]
    labels, titles = label(specs), problems(specs)
    groups = [Group(f"g{i + 1}", labels[i], found, titles[i]) for i, found in enumerate(members)]
    for group in groups:
        lengths = sorted({len(run) for run in group.runs})
        if len(lengths) > 1:
            notes.append(
                f"{group.label}: the runs have between {lengths[0]:,} and {lengths[-1]:,} rounds; "
                f"what is taken over seeds is taken over the first {lengths[0]:,}."
            )
    return Collection(groups, [run for run in runs.values() if not len(run)], notes)


def _in_order(members: Sequence[tuple[Run, ...]]) -> Callable[[tuple[Run, ...]], tuple[int, int]]:
    """Groups of a problem side by side, and players in the same order on each, so that colours mean the same."""

    def problem(found: tuple[Run, ...]) -> str:
        return str(found[0].spec["fingerprint"])

    def players(found: tuple[Run, ...]) -> str:
        return " ".join(str(found[0].spec[role]["name"]) for role in ("primal", "dual"))

    first, pairs = list(dict.fromkeys(map(problem, members))), list(dict.fromkeys(map(players, members)))
    return lambda found: (first.index(problem(found)), pairs.index(players(found)))


def label(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each group: problem and players, and the settings in which it differs from one with the same name.

    >>> def spec(**primal): return {"problem": "grid-v0", "problem_options": {}, "feedback": "realised", "B": None,
    ...     "episodes": 9, "primal": {"name": "p", "settings": primal}, "dual": {"name": "d", "settings": {}}}
    >>> label([spec(scale=0.1), spec(scale=0.2)])
    ['grid-v0, p against d (scale = 0.1)', 'grid-v0, p against d (scale = 0.2)']
    """
    pairs = zip(problems(specs), specs, strict=True)
    names = [f"{problem}, {s['primal']['name']} against {s['dual']['name']}" for problem, s in pairs]
    words = _differences(names, [dict(_flat(s)) for s in specs])
    return [f"{name} ({word})" if word else name for name, word in zip(names, words, strict=True)]


def problems(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The problem of each group, with the options in which those of one name differ.

    >>> problems([{"problem": "pits-v0", "problem_options": {"n": n, "slip": 0.1}} for n in (5, 6)])
    ['pits-v0 with n = 5', 'pits-v0 with n = 6']
    """
    names = [str(s["problem"]).removeprefix("gym:") for s in specs]
    words = _differences(names, [dict(s["problem_options"]) for s in specs])
    return [f"{name} with {word}" if word else name for name, word in zip(names, words, strict=True)]


def _differences(names: Sequence[str], given: Sequence[Mapping[str, Any]]) -> list[str]:
    """In what each differs from those of the same name."""
    result = []
    for name, mine in zip(names, given, strict=True):
        alike = [one for other, one in zip(names, given, strict=True) if other == name]
        keys = sorted({key for one in alike for key in one if len({str(other.get(key)) for other in alike}) > 1})
        result.append(", ".join(f"{key} = {short(mine.get(key))}" for key in keys))
    return result


def short(value: Any) -> str:
    """A setting in few characters.

    >>> short(0.1 + 0.2), short("rare"), short([1, None])
    ('0.3', 'rare', '[1, null]')
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    word = value if isinstance(value, str) else json.dumps(value, default=str)
    return word if len(word) <= LONGEST else word[: LONGEST - 1] + "…"


def _flat(spec: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for role in ("primal", "dual"):
        yield from spec[role]["settings"].items()
    for key in ("feedback", "episodes", "B"):
        yield key, spec[key]
    yield from clock(spec).items()


def clock(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The delay or the rate of a run's clock; empty where the world waited."""
    timing = spec.get("timing")
    return {key: timing[key] for key in ("delay", "rate") if key in timing} if isinstance(timing, Mapping) else {}


def _starts_fit(run: Run) -> bool:
    if run.mdp is None:
        return False
    s1 = run.columns["s1"]
    return bool(s1.dtype.kind in "iu" and (s1 >= 0).all() and (s1 < run.mdp.n_states).all())


def _truth(run: Run) -> Truth | str:
    if run.mdp is not None and not _starts_fit(run):
        return NO_START
    try:
        return truth(run)
    except BROKEN as error:
        return str(error)


def _certificates(run: Run) -> list[Certificate]:
    try:
        return run.certificates() if run.mdp is None or _starts_fit(run) else replace(run, mdp=None).certificates()
    except BROKEN as error:
        return [Certificate.not_applicable("every claim", f"this run cannot be checked: {error}")]


def _arrays(run: Run) -> dict[str, NDArray[Any]]:
    if run.path is None:
        return {}
    with closing(runfile.connect(run.path, "ro")) as connection, runfile.sentences(run.path):
        found = runfile.read_checkpoint(connection, run.path)
    return {} if found is None else found.arrays


HALVINGS = 12  # points of a bound: K, K/2, K/4, ...


def rate(group: Group, claim: str) -> tuple[NDArray[np.int64], Floats, Certificate] | str:
    """A rate of `theory.certificates.RATES` for the first run, at K, K/2, K/4 ..., each for the rounds up to then.

    Returns episodes, bounds and the certificate at K; or the reason why no theorem's bound can be drawn, as for a
    tuned rate.
    """
    found = [c for c in group.certificates[0] if c.claim == claim]
    if not found or not found[0].applies:
        return found[0].why.rstrip(".") if found else "the run was not checked"
    if found[0].status != "proved":
        return found[0].why.rstrip(".")
    run, k = group.runs[0], group.rounds
    at: list[tuple[int, float]] = []
    grid = shown(group.rounds, log=True)  # the points of the curve, so that both fit one table
    for wanted in (k / 2**i for i in range(HALVINGS)):
        near = int(grid[np.argmin(np.abs(grid - wanted))])
        bound = _at(run, near, claim)
        if bound is not None and near not in dict(at):
            at.append((near, bound))
    if not at:
        return "it does not apply to the first rounds alone"
    ks, values = zip(*sorted(at), strict=True)
    return np.array(ks), np.array(values), found[0]


def every_path(group: Group) -> Certificate | None:
    """The bound on realised resets on every path, largest over the runs; None if the player has none."""
    found = [c for claims in group.certificates for c in claims if c.claim in EVERY_PATH and c.applies]
    return max(found, key=lambda c: c.rhs) if found and all(c.status == "proved" for c in found) else None


def _at(run: Run, k: int, claim: str) -> float | None:
    """The bound after k rounds."""
    part = replace(run, columns={name: column[:k] for name, column in run.columns.items()})
    try:
        known: Any = truth(part)
        side = dual_side(part, known.hat if isinstance(known, Truth) else known)
        claims = rates(part, known, primal_cover(part), side)
    except BROKEN:
        return None
    found = claims[RATES.index(claim)]
    return found.rhs if found.applies and found.status == "proved" else None
