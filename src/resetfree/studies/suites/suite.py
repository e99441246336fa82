"""The problems of the comparison, how long each is played, and the other instances on which widths are chosen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from resetfree.core.errors import UnknownName
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import make


@dataclass(frozen=True)
class Instance:
    """One finite problem: a registered one with its options.

    cells: the number of cells of the discretisation (0: the problem is finite).
    pay: a factor on all rewards, which gives other instances of a family without options.
    """

    id: str
    options: tuple[tuple[str, Any], ...] = ()
    cells: int = 0
    pay: float = 1.0

    def make(self) -> FiniteMDP:
        """The problem itself.

        >>> instance("pits-v0", n=7, slip=0.1).make()
        FiniteMDP(49 states, 4 actions, horizon 14, 2 reset states)
        >>> float(Instance("thresholds-v0", pay=0.5).make().reward.max())
        0.5
        """
        made = make(self.id, **dict(self.options))
        mdp: FiniteMDP = made.discretise(self.cells) if self.cells else made
        if self.pay != 1.0:
            reward = mdp.reward * self.pay
            mdp = mdp.replace(reward=reward[0] if len(reward) == 1 else reward)
        return mdp

    def __str__(self) -> str:
        words = [f"{key}={value}" for key, value in self.options]
        words += [f"cells={self.cells}"] * (self.cells > 0) + [f"pay={self.pay:g}"] * (self.pay != 1.0)
        return " ".join([self.id, *words])


def instance(id: str, **options: Any) -> Instance:
    """A registered problem with options."""
    return Instance(id, tuple(sorted(options.items())))


@dataclass(frozen=True)
class Case:
    """A problem of the comparison: the instances that are reported, and those on which widths are chosen.

    reported: seed i is played on the instance i modulo their number.
    tuning: other instances of the same family; none of them is reported.
    """

    label: str
    reported: tuple[Instance, ...]
    tuning: tuple[Instance, ...]
    episodes: int


@dataclass(frozen=True)
class Suite:
    """Cases, with the number of seeds, tuning trials and seconds that are spent on them."""

    name: str
    summary: str
    cases: tuple[Case, ...]
    seeds: int  # reported ones: 0, 1, ..
    tuning_instances: int  # the number of tuning instances of a case that are used
    tuning_seeds: int  # on each of them; none of them is reported
    limit: float  # seconds after which a trial is stopped
    tuning_share: float = 0.5  # the share of the episodes that a tuning trial plays


# Label, reported instances, tuning instances, and the episodes in smoke, small and full.
_CASES: list[tuple[str, list[Instance], list[Instance], tuple[int, int, int]]] = [
    (
        "grid-v0",
        [instance("grid-v0")],
        [instance("grid-v0", slip=0.1), instance("grid-v0", slip=0.3)],
        (30, 400, 4000),
    ),
    (
        "thresholds-v0",
        [instance("thresholds-v0")],
        [Instance("thresholds-v0", pay=0.5), Instance("thresholds-v0", pay=0.75)],
        (30, 400, 2000),
    ),
    (
        "politex-trap-v0",
        [instance("politex-trap-v0")],
        [Instance("politex-trap-v0", pay=0.5), Instance("politex-trap-v0", pay=0.75)],
        (30, 400, 4000),
    ),
    (
        "doors-v0",
        [instance("doors-v0")],
        [instance("doors-v0", length=2, horizon=8), instance("doors-v0", length=4, horizon=12)],
        (30, 300, 3000),
    ),
    (
        "coin-chain-v0, m=3",
        [instance("coin-chain-v0", m=3)],
        [instance("coin-chain-v0", m=2), instance("coin-chain-v0", m=4)],
        (30, 400, 4000),
    ),
    (
        "coin-chain-v0",
        [instance("coin-chain-v0")],
        [instance("coin-chain-v0", m=4), instance("coin-chain-v0", m=5)],
        (30, 400, 4000),
    ),
    (
        "random-linear-v0",
        [instance("random-linear-v0", seed=seed) for seed in (1, 2, 3, 4, 5)],
        [instance("random-linear-v0", seed=seed) for seed in (101, 102)],
        (20, 250, 6000),
    ),
    (
        "continuous-linear-v0 in 40 cells",
        [Instance("continuous-linear-v0", cells=40)],
        [Instance("continuous-linear-v0", (("seed", seed),), cells=40) for seed in (11, 12)],
        (20, 250, 4000),
    ),
    (
        "contexts-v0",
        [instance("contexts-v0")],
        [instance("contexts-v0", m=2), instance("contexts-v0", m=4, order="random")],
        (20, 200, 4000),
    ),
    (
        "drifting-v0",
        [instance("drifting-v0", seed=seed) for seed in (1, 2, 3, 4, 5)],
        [instance("drifting-v0", seed=seed) for seed in (101, 102)],
        (20, 200, 6000),
    ),
    (
        "pits-v0",
        [instance("pits-v0")],
        [instance("pits-v0", n=5, density=0.4, seed=seed) for seed in (11, 15)],
        (20, 300, 20_000),
    ),
    (
        "pits-v0, slippery 7x7",
        [instance("pits-v0", n=7, slip=0.1)],
        [instance("pits-v0", n=7, slip=0.1, seed=seed) for seed in (1, 4)],
        (10, 100, 4000),
    ),
]


def _cases(size: int) -> tuple[Case, ...]:
    return tuple(Case(label, tuple(reported), tuple(tuning), k[size]) for label, reported, tuning, k in _CASES)


_SMOKE, _SMALL = "Does everything run? Some seconds.", "20 seeds, few episodes: about five minutes on two cores."
_FULL = "20 seeds, as many episodes as in the published tables: hours."
SUITES = {
    "smoke": Suite("smoke", _SMOKE, _cases(0), seeds=2, tuning_instances=1, tuning_seeds=1, limit=10.0),
    "small": Suite("small", _SMALL, _cases(1), seeds=20, tuning_instances=2, tuning_seeds=1, limit=60.0),
    "full": Suite("full", _FULL, _cases(2), seeds=20, tuning_instances=2, tuning_seeds=2, limit=600.0),
}


def find_suite(name: str, problems: Iterable[str] | None = None, seeds: int | None = None) -> Suite:
    """A suite by name, with all its cases or those of `problems` (labels, or problem ids for all cases of an id).

    >>> [case.label for case in find_suite("smoke", ["pits-v0", "grid-v0"]).cases]
    ['grid-v0', 'pits-v0', 'pits-v0, slippery 7x7']
    """
    if name not in SUITES:
        raise UnknownName("suite", name, SUITES)
    suite = SUITES[name]
    if seeds is not None:
        suite = replace(suite, seeds=seeds)
    if problems is None:
        return suite
    wanted = set(problems)
    names = {case.label: {case.label, case.reported[0].id} for case in suite.cases}
    for word in wanted:
        if not any(word in own for own in names.values()):
            raise UnknownName(f"problem in suite '{name}'", word, names)
    return replace(suite, cases=tuple(case for case in suite.cases if names[case.label] & wanted))


def split_names(text: str, known: Iterable[str]) -> list[str]:
    """Names separated by commas, where a name may itself contain commas.

    >>> split_names("a,b, c", ["a", "b, c"])
    ['a', 'b, c']
    """
    parts, names, i = [part.strip() for part in text.split(",")], set(known), 0
    found = []
    while i < len(parts):
        n = next((n for n in range(len(parts) - i, 1, -1) if ", ".join(parts[i : i + n]) in names), 1)
        found.append(", ".join(parts[i : i + n]))
        i += n
    return found
