"""Plans are read ahead: the newest one, once, whole, and what is wrong with one is raised where the run is played."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from resetfree.core.errors import InvalidInput
from resetfree.game.contract import Plan
from resetfree.game.delayed import HeldPlan
from resetfree.runs.live.board import Board
from resetfree.runs.live.threads import KEPT, PlanReader


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    with Board.make(tmp_path / "plans") as made:
        yield made


def plan(number: int) -> HeldPlan:
    return HeldPlan.of(number, 0.5, Plan(np.full((100, 100), float(number)), 1.0, 0.25))


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_the_newest_plan_is_there_without_being_asked_for(board: Board) -> None:
    with PlanReader(board, {}) as reader:
        assert reader.newest is None
        kept: list[Any] = []
        for number in range(1, 3 * KEPT):
            posted = board.post(plan(number).data, tag=number)
            until(lambda number=number: reader.newest is not None and reader.newest.number == number)  # type: ignore[misc]
            found = reader.newest
            assert found is not None
            assert (found.number, found.digest, found.held.based_on) == (number, posted.digest, number)
            kept.append(found.held.plan.policy)
        reader.check()
    for number, policy in enumerate(kept, 1):
        np.testing.assert_array_equal(policy, np.full((100, 100), float(number)))  # whoever keeps one has it


def test_what_is_no_plan_is_raised_where_the_run_is_played(board: Board) -> None:
    with PlanReader(board, {}) as reader:
        board.post(b"no plan")
        until(lambda: reader._failure is not None)
        with pytest.raises(InvalidInput, match="The bytes of a plan"):
            reader.check()
        assert reader.newest is None
