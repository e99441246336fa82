"""What `auto` chooses on every registered problem, and on vectors of all kinds: recorded, with its sentence.

The record comes from `python -m tests.golden.test_auto_choices`, which writes the file anew: a change of it needs a
reason, since every run that names no player changes with it.
"""

import copy
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import resetfree as rf
from resetfree.game.capabilities import choose, offer_of
from resetfree.players import discover
from resetfree.players import requirements as suitability
from resetfree.problems import find_world

FILE = Path(__file__).parent / "auto_choices.json"
ENVIRONMENTS = ("gym:CartPole-v1", "gym:FrozenLake-v1", "gym:MountainCar-v0", "gym:Hopper-v5", "gym:Humanoid-v5")


def vectors(size: int, horizon: int, stationary: bool) -> rf.Problem:
    """An environment whose states are so many numbers."""
    problem = copy.copy(find_world("gym:CartPole-v1", {"horizon": 20}).problem)
    problem.name = f"{size} numbers, horizon {horizon}" + ("" if stationary else ", changing with the step")
    problem.horizon, problem.stationary, problem.low = horizon, stationary, np.zeros(size)
    return problem


def problems() -> Iterator[rf.Problem]:
    for name in rf.problems():
        yield find_world(name, None).problem
    for name in ENVIRONMENTS:
        yield find_world(name, {"horizon": 20}).problem
    for size, horizon, stationary in ((1, 5, True), (16, 5, True), (17, 300, True), (3, 300, True), (3, 5, False)):
        yield vectors(size, horizon, stationary)
    nothing_known = vectors(1, 5, True)
    nothing_known.name, nothing_known.low = "neither counted nor vectors", None
    yield nothing_known


def chosen() -> dict[str, Any]:
    """With the extra `neural`, and without it where that makes a difference; whatever is installed."""
    found: dict[str, Any] = {}
    for problem in problems():
        for known in (True, False):
            key = f"{problem.name}, B {'known' if known else 'not known'}"
            found[key] = choice(problem, known, installed=True)
            without = choice(problem, known, installed=False)
            if without != found[key]:
                found[f"{key}, without networks"] = without
    return found


def choice(problem: rf.Problem, known: bool, *, installed: bool) -> Any:
    with patch.object(suitability, "find_spec", lambda name: name if installed else None):
        try:
            return dataclasses.asdict(choose(problem, discover("primal"), bound_known=known))
        except rf.InvalidInput as error:
            return str(error)


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(chosen()))
    return found


@pytest.mark.parametrize("case", json.loads(FILE.read_text()) if FILE.exists() else ())
def test_auto_chooses_what_it_always_chose(case: str, now: dict[str, Any]) -> None:
    assert now[case] == json.loads(FILE.read_text())[case]


def test_every_registered_problem_is_recorded(now: dict[str, Any]) -> None:
    assert list(now) == list(json.loads(FILE.read_text()))


def test_no_two_players_claim_the_same_rank() -> None:
    """Which of two comes first in the alphabet must not decide."""
    players = discover("primal").values()
    for problem in problems():
        for known in (True, False):
            offers = [offer_of(player, problem, bound_known=known) for player in players]
            ranks = [offer.rank for offer in offers if offer is not None]
            assert ranks.count(max(ranks, default=0.0)) <= 1, problem.name


if __name__ == "__main__":
    FILE.write_text(json.dumps(chosen(), indent=1) + "\n")
