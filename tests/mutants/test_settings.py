"""Every setting of every player, honestly played: what is proved holds for each value, not for the defaults alone.

Settings and their values are read off the declarations (`tests.fuzz.claim_settings`): a new player, or a new setting,
is here without a line being written. Each value is played by itself, and with every other where a theorem covers that.
Seeds are fixed. Were they drawn anew, true claims would fail a test with probability at most 1e-3 (see
`tests.fuzz.claims`: a claim that may fail is played again, and must fail far more often than it may).
"""

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import cycle
from random import Random
from typing import Any, Literal

import pytest
from tests.fuzz.claim_problems import problem
from tests.fuzz.claim_settings import ROLES, made, players, values, variants
from tests.fuzz.claim_signals import PATTERNS, tempting
from tests.fuzz.claims import Case, Pattern, check, finite_players

import resetfree as rf
from resetfree.core.settings import declarations
from resetfree.game.contract import Statement
from resetfree.theory.assumptions import feasibility

SHARE = 40  # of pairs of settings one in so many is played by `make test`


@cache
def problems() -> list[rf.FiniteMDP]:
    """Small problems of the fuzz, and the one in which a last action is free: all of their starts are feasible."""
    free = rf.FiniteMDP(
        [[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [[0, 1], [0, 0]], [False, True], 2, boundary="literal", name="free"
    )
    drawn = (problem(Random(f"settings:{i}")) for i in range(60))
    return [free, *[mdp for mdp in drawn if mdp.n_actions > 1 and feasibility(mdp).holds][:12]]


def promises(cls: Any, settings: dict[str, Any], mdp: rf.FiniteMDP) -> bool:
    """Whether the player states a theorem with these settings: about its regret, or about resets on every path."""
    bound = {"B": 5.0} if "B" in declarations(cls) else {}
    try:
        said: Statement = made(cls, {**bound, **settings}).statement(mdp.problem(), 40)
    except rf.ResetFreeError:
        return False
    return said.covered or said.most_resets is not None


def cases(role: Literal["primal", "dual"], name: str, share: int = 1) -> Iterator[Case]:
    """Every setting by itself and one in `share` of the pairs that matter; more problems and patterns where all are."""
    cls, turn = players(role)[name], cycle(problems())
    for i, settings in enumerate(variants(cls)):
        if len(settings) > 1 and i % share:
            continue
        if role == "dual":
            for pattern in PATTERNS if share == 1 else ("rarely", "growing"):
                mdp, primal = next(turn) if pattern == "growing" else tempting(1.0), Pattern(pattern, 600)
                arguments = {"primal": primal, "dual": name, "feedback": "exact", "episodes": 600}
                yield case(name, mdp, {**arguments, "settings": {"dual": settings}, "seed": i, "delay": None})
            continue
        on = [problems()[0], *(next(turn) for _ in range(4 if share == 1 else 1))]
        for j, mdp in enumerate(mdp for mdp in on if not settings or promises(cls, settings, mdp)):
            arguments = {"primal": name, "dual": "projected-gradient", "settings": {"primal": settings}}
            arguments |= {"feedback": ("realised", "optimistic", "exact")[(i + j) % 3], "episodes": 40}
            yield case(name, mdp, {**arguments, "seed": i, "delay": None if (i + j) % 4 else 2})


def case(name: str, mdp: rf.FiniteMDP, arguments: dict[str, Any]) -> Case:
    return Case(f"{name} on {mdp.name}", mdp, arguments)


def wrong(role: Literal["primal", "dual"], name: str, share: int) -> list[str]:
    outcomes = [check(one) for one in cases(role, name, share)]
    assert any(one.proved for one in outcomes)
    return [str(one) for one in outcomes if one.faults]


EVERY = [(role, name) for role in ROLES for name in finite_players(role)]


@pytest.mark.parametrize(("role", "name"), EVERY)
def test_what_is_proved_holds_for_every_setting(role: Literal["primal", "dual"], name: str) -> None:
    assert not wrong(role, name, SHARE)


@pytest.mark.slow
@pytest.mark.parametrize(("role", "name"), EVERY)
def test_what_is_proved_holds_for_every_two_settings(role: Literal["primal", "dual"], name: str) -> None:
    assert not wrong(role, name, 1)


def test_every_setting_has_other_values() -> None:
    """No declaration is of a kind that the generator does not know."""
    found: list[tuple[Any, Any]] = [
        (cls, one) for role in ROLES for cls in players(role).values() for one in fields(cls)
    ]
    assert len(found) > 100
    assert not [f"{cls.name}: {one.name}" for cls, one in found if not values(cls, one)]
