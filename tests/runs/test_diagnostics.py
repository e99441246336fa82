"""Warnings that a run gives about its own settings."""

import numpy as np
import pytest
from numpy.typing import NDArray

from resetfree.show.cli.run_summary import past_horizon, steps_between_resets

Columns = dict[str, NDArray[np.int64]]


def played(*lengths: int, horizon: int = 50, alive: int = 0) -> Columns:
    """Rounds of at most `horizon` steps in which lives of these lengths end in a reset; then `alive` steps more."""
    steps: list[int] = []
    reset: list[int] = []
    for length in lengths:
        whole, rest = divmod(length - 1, horizon)
        steps += [horizon] * whole + [rest + 1]
        reset += [0] * whole + [1]
    steps += [horizon] * (alive // horizon)
    reset += [0] * (alive // horizon)
    return {"steps": np.array(steps, dtype=np.int64), "reset": np.array(reset, dtype=np.int64)}


@pytest.mark.parametrize("horizon", [1, 7, 50, 1000])
def test_lives_go_over_the_ends_of_episodes(horizon: int) -> None:
    lengths = [3, 50, 51, 149, 150, 1]
    assert steps_between_resets(played(*lengths, horizon=horizon, alive=300)).tolist() == lengths


def test_resets_that_cluster_past_the_horizon_are_told_with_their_numbers() -> None:
    said = past_horizon(played(10, 150, 151, 160, 20), 100)
    assert said is not None
    assert said.startswith("3 of the last 5 resets came more than 100 steps after the one before (151 at the median)")
    assert "--set planning=302" in said


def test_the_advice_stays_within_what_can_be_planned() -> None:
    said = past_horizon(played(*(6872,) * 6), 200)
    assert said is not None
    assert "(6872 at the median)" in said
    assert "--set planning=800, which takes 4 times as long" in said


@pytest.mark.parametrize(
    "lengths",
    [(), (150, 150, 150), (10, 20, 30, 40), (100, 100, 100, 100), (10, 10, 10, 150, 150), (150,) * 8 + (10,) * 12],
    ids=["none", "too few", "early", "just within", "less than half", "long ago"],
)
def test_nothing_is_said_without_cause(lengths: tuple[int, ...]) -> None:
    assert past_horizon(played(*lengths), 100) is None


def test_what_happened_long_ago_does_not_hide_what_happens_now() -> None:
    assert past_horizon(played(*(10,) * 50, *(150,) * 6), 100) is not None


def test_a_long_life_that_has_not_ended_is_no_reset() -> None:
    assert past_horizon(played(150, 150, 150, alive=10_000), 100) is None
