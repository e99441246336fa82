"""The suites, and every method of the comparison: those of players, `auto` as in `learn`, those of other packages."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from resetfree.core import InvalidInput, UnknownName, check_names, shown
from resetfree.core.discovery import Registry, Unfit
from resetfree.game.capabilities import choose
from resetfree.players import BASES, Method, Players, Setting, discover, make_player, own_methods
from resetfree.problems import FiniteMDP
from resetfree.problems.registry import make
from resetfree.problems.zoo import family_of
from resetfree.studies.trial import with_settings


def _auto(s: Setting) -> Players:
    if s.problem is None:
        raise InvalidInput("The method 'auto' needs a problem to choose players for. Got none instead.")
    found = choose(s.problem, discover("primal").own, bound_known=True)
    primal = make_player("primal", found.primal, found.settings.get("primal"))
    dual = make_player("dual", found.dual, found.settings.get("dual"))
    primal, dual = (replace(p, B=s.B) if getattr(p, "B", 0.0) is None else p for p in (primal, dual))
    return primal, dual, found.feedback


AUTO = Method(
    "auto", "ours", "What `learn` chooses by default, with its default widths.", _auto, rank=30, widths=(), pools=False
)


def _accept(name: str, found: Any) -> Method:
    if not isinstance(found, Method) or found.name != name:
        raise Unfit(f"must be a Method with the name '{name}', and is {shown(found)}")
    return found


METHODS: Registry[Method] = Registry("method", group="resetfree.methods", accept=_accept)  # of other packages


@cache
def methods() -> dict[str, Method]:
    """Every method by name: those of the players, `auto`, and those of other packages."""
    own = [method for role in BASES for cls in discover(role).values() for method in own_methods(cls)]
    lines = [AUTO, *own, *METHODS.values()]
    found: dict[str, Method] = {}
    for method in sorted(lines, key=lambda method: method.rank):
        if method.name in found:
            raise InvalidInput(f"A method's name must be its own. Got '{method.name}' twice.")
        found[method.name] = method
    return found


GENERATED = "generated-v0"
TUNING_DRAWS = range(1_000_000, 1_000_014)  # of generated problems, two of each family: far from every reported draw
ORDERS = 6  # of the actions of each draw, one for each seed


class Instance(NamedTuple):
    """One finite problem: a registered one with its options, to which `make` adds two.

    cells: the number of cells of the discretisation (default: the problem is finite).
    pay: a factor on all rewards, which gives other instances of a family without options.
    """

    id: str
    options: tuple[tuple[str, Any], ...] = ()

    def make(self) -> FiniteMDP:
        """The problem itself.

        >>> instance("pits-v0", n=7, slip=0.1).make()
        FiniteMDP(49 states, 4 actions, horizon 14, 2 reset states)
        >>> float(instance("thresholds-v0", pay=0.5).make().reward.max())
        0.5
        """
        options = dict(self.options)
        cells, pay = options.pop("cells", 0), options.pop("pay", 1.0)
        made = make(self.id, **options)
        mdp: FiniteMDP = made.discretise(cells) if cells else made
        if pay != 1.0:
            reward = mdp.reward * pay
            mdp = mdp.replace(reward=reward[0] if len(reward) == 1 else reward)
        return mdp

    def __str__(self) -> str:
        return with_settings(self.id, dict(self.options))


def instance(id: str, **options: Any) -> Instance:
    """A registered problem with options."""
    return Instance(id, tuple(options.items()))


@dataclass(frozen=True)
class Case:
    """A problem of the comparison: the instances that are reported, and those on which widths are chosen.

    reported: seed i is played on the instance i modulo their number.
    tuning: other instances of the same family; none of them is reported.
    family: cases of one family share their tuning trials; default: a family of its own.
    """

    label: str
    reported: tuple[Instance, ...]
    tuning: tuple[Instance, ...]
    episodes: int
    family: str = ""


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
    learners: bool = False  # whether methods that are given the model are left out


_DRAWS, _OTHERS = ([{"seed": seed} for seed in seeds] for seeds in ((1, 2, 3, 4, 5), (101, 102)))
_PAYS: list[dict[str, Any]] = [{"pay": 0.5}, {"pay": 0.75}]
_PITS: list[dict[str, Any]] = [{"density": 0.4, "n": 5, "seed": seed} for seed in (11, 15)]
_SLIPPERY: list[dict[str, Any]] = [{"n": 7, "seed": seed, "slip": 0.1} for seed in (1, 4)]
# Problem, what its label adds, options of the reported and of the tuning instances, and the episodes in smoke, small
# and full. Results files name options in the order of this table.
_CASES: list[tuple[str, str, list[dict[str, Any]], list[dict[str, Any]], tuple[int, int, int]]] = [
    ("grid-v0", "", [{}], [{"slip": 0.1}, {"slip": 0.3}], (30, 400, 4000)),
    ("thresholds-v0", "", [{}], _PAYS, (30, 400, 2000)),
    ("politex-trap-v0", "", [{}], _PAYS, (30, 400, 4000)),
    ("doors-v0", "", [{}], [{"horizon": 8, "length": 2}, {"horizon": 12, "length": 4}], (30, 300, 3000)),
    ("coin-chain-v0", ", m=3", [{"m": 3}], [{"m": 2}, {"m": 4}], (30, 400, 4000)),
    ("coin-chain-v0", "", [{}], [{"m": 4}, {"m": 5}], (30, 400, 4000)),
    ("random-linear-v0", "", _DRAWS, _OTHERS, (20, 250, 6000)),
    (
        "continuous-linear-v0",
        " in 40 cells",
        [{"cells": 40}],
        [{"seed": seed, "cells": 40} for seed in (11, 12)],
        (20, 250, 4000),
    ),
    ("contexts-v0", "", [{}], [{"m": 2}, {"m": 4, "order": "random"}], (20, 200, 4000)),
    ("drifting-v0", "", _DRAWS, _OTHERS, (20, 200, 6000)),
    ("pits-v0", "", [{}], _PITS, (20, 300, 20_000)),
    ("pits-v0", ", slippery 7x7", [{"n": 7, "slip": 0.1}], _SLIPPERY, (10, 100, 4000)),
]


def _cases(size: int) -> tuple[Case, ...]:
    def each(id: str, options: list[dict[str, Any]]) -> tuple[Instance, ...]:
        return tuple(instance(id, **one) for one in options)

    return tuple(Case(id + more, each(id, first), each(id, other), k[size]) for id, more, first, other, k in _CASES)


def generated_cases(draws: Iterable[int], episodes: int) -> tuple[Case, ...]:
    """Draws of `generated-v0`, one case each; the widths of a family are chosen on its draws among `TUNING_DRAWS`.

    Each seed has its own order of the actions: a player that tries the first one first gains nothing by it.

    >>> [case.label for case in generated_cases([17, 18], 300)]
    ['draw 17, drift', 'draw 18, contexts']
    """

    def case(draw: int) -> Case:
        family = family_of(draw)
        others = tuple(instance(GENERATED, draw=d, order=1) for d in TUNING_DRAWS if family_of(d) == family)
        reported = tuple(instance(GENERATED, draw=draw, order=order) for order in range(1, ORDERS + 1))
        return Case(f"draw {draw}, {family}", reported, others, episodes, family)

    return tuple(map(case, draws))


_SMOKE, _SMALL = "Does everything run? Some seconds.", "20 seeds, few episodes: about five minutes on two cores."
_FULL = "20 seeds, as many episodes as in the published tables: hours."
_GENERATED = "100 problems drawn at random, 6 seeds, without methods that are given the model: 12 minutes on one core."
SUITES = {
    "smoke": Suite("smoke", _SMOKE, _cases(0), seeds=2, tuning_instances=1, tuning_seeds=1, limit=10.0),
    "small": Suite("small", _SMALL, _cases(1), seeds=20, tuning_instances=2, tuning_seeds=1, limit=60.0),
    "full": Suite("full", _FULL, _cases(2), seeds=20, tuning_instances=2, tuning_seeds=2, limit=600.0),
    "generated": Suite(
        "generated",
        _GENERATED,
        generated_cases(range(100), 200),
        seeds=ORDERS,
        tuning_instances=2,
        tuning_seeds=1,
        limit=60.0,
        learners=True,
    ),
}


def find_suite(name: str, problems: Iterable[str] | None = None, seeds: int | None = None) -> Suite:
    """A suite by name, with all its cases or those of `problems` (labels, or problem ids for all cases of an id).

    >>> [case.label for case in find_suite("smoke", ["pits-v0", "grid-v0"]).cases]
    ['grid-v0', 'pits-v0', 'pits-v0, slippery 7x7']
    """
    check_names([name], SUITES, "suite")
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
