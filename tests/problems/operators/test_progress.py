"""What the display says about resets to come: bounds that hold, computed as they are defined, in a line that fits."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resetfree.show.cli import progress
from resetfree.show.cli.common import duration
from resetfree.show.cli.progress import Tally, resets_line
from resetfree.theory.certificates.anytime import resets_upper


def tally_of(resets: list[bool], steps: int = 3) -> Tally:
    return Tally.of({"reset": np.array(resets, dtype=np.bool_), "steps": np.full(len(resets), steps)})


@given(st.lists(st.booleans(), max_size=200))
def test_the_recent_bound_is_what_it_is_defined_as(resets: list[bool]) -> None:
    tally, k = tally_of(resets), len(resets)
    beginnings = [0, *(2**i for i in range(20))]
    since = max(b for b in beginnings if b <= k / 2)
    i = beginnings.index(since)
    found = sum(resets[since:])
    length, lately, bound = tally.recent
    assert (length, lately) == (k - since, found)
    least = min(  # straight from the formula
        (t * found + math.log((j + 1) * (j + 2) * (i + 1) * (i + 2) / 0.05)) / (1 - math.exp(-t))
        for j in range(32)
        if (t := 2.0 ** (1 - j)) > 0
    )
    assert bound == pytest.approx(least, rel=1e-9)
    assert tally.further(7) == pytest.approx(7 * (min(least / (k - since), 1.0) if k else 1.0))
    assert tally.upper == float(resets_upper(sum(resets), 0.05))
    assert tally.mean_steps == (3 * k / sum(resets) if any(resets) else None)


def test_the_recent_bound_holds_after_every_episode_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 learners that adapt to their own resets; more than 36 of them may break it with probability below 1e-3.

    The number that does is at most binomial(400, 0.05): P(more than 36) = 2.4e-4.
    """
    monkeypatch.setattr(progress, "resets_upper", functools.cache(resets_upper))  # the same numbers, sooner
    chance = np.random.default_rng(11)
    broken = 0
    for _ in range(400):
        tally, probability = Tally(), chance.uniform(0.02, 0.6)
        expected = [0.0]
        failed = False
        for k in range(1, 257):
            reset = bool(chance.random() < probability)
            tally.note(reset, 1)
            expected.append(expected[-1] + probability)
            length, _, bound = tally.recent
            failed |= expected[k] - expected[k - length] > bound
            probability = min(max(probability * (0.7 if reset else 1.02), 0.005), 0.9)
        broken += failed
    assert broken <= 36


@given(
    st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 10**6), st.floats(0, 1e8),
    st.none() | st.floats(0, 1e6), st.integers(12, 100), st.integers(1, 10**7),
)  # fmt: skip
def test_the_line_fits(
    resets: list[bool], remaining: int, seconds: float, most: float | None, width: int, steps: int
) -> None:
    tally = tally_of(resets, steps)
    line = resets_line(tally, remaining, seconds, most, width)
    assert len(line) <= width
    assert line.startswith(f"{sum(resets)} reset")
    longer = resets_line(tally, remaining, seconds, most, 100)
    assert "expected ≤" in longer
    assert len(longer) <= 100


def test_times_are_said_in_a_unit_that_suits() -> None:
    for seconds in (0.0, 1e-3, 0.0431, 1.0, 119.0, 7199.0, 1e5, 1e7):
        number, unit = duration(seconds).split()
        length = {"ms": 1e-3, "s": 1, "min": 60, "h": 3600, "days": 86_400}[unit]
        assert float(number) * length == pytest.approx(seconds, rel=0.05)
