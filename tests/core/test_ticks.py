"""The grid: whatever happens, its ticks are at t_0 + n / rate, each is taken once or skipped, and never in a burst."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.simulated_clock import Simulated

import resetfree as rf
from resetfree.core.ticks import SECOND, SPIN, Ticks

RATES = st.one_of(st.sampled_from([0.5, 3.0, 50.0, 100.0, 500.0, 1000.0]), st.floats(0.01, 5000.0))
NS = st.one_of(st.integers(0, 10**6), st.integers(0, 10 * SECOND))  # how long something takes


@given(RATES, st.lists(st.tuples(NS, NS), max_size=40), st.integers(0, 10**15))
def test_ticks_lie_on_the_grid_and_each_is_taken_once_or_skipped(
    rate: float, steps: list[tuple[int, int]], begun: int
) -> None:
    """Steps: how long the loop works, and how late it wakes up."""
    world = Simulated((late for _, late in steps), begun)
    ticks, period = Ticks(rate, clock=world.clock), SECOND / Fraction(rate)
    ticks.begin()
    skipped, before = 0, 0
    for taken, (work, _) in enumerate(steps, start=1):
        world.now += work
        asked = world.now
        skipped += ticks.wait()
        assert ticks.number > before
        before = ticks.number
        at = begun + ticks.number * period
        assert at <= world.now < at + period  # the newest tick
        assert ticks.late_ns == world.now - ticks.due_ns
        assert 0 <= ticks.due_ns - at < 1
        assert asked <= ticks.due_ns  # what was over is not taken: the last command has had its time
        assert taken + skipped == ticks.number == (world.now - begun) // period
    assert ticks.missed == skipped


@given(st.lists(NS, min_size=1, max_size=20), st.integers(1, 10))
def test_lateness_and_misses_are_those_of_the_episode(works: list[int], many: int) -> None:
    world = Simulated()
    ticks = Ticks(100.0, clock=world.clock)
    ticks.begin()
    for _ in range(many):
        ticks.new_episode()
        latest, missed = 0, 0
        for work in works:
            missed += ticks.wait()
            world.now += work
            ticks.acted()
            latest = max(latest, world.now - ticks.due_ns)
        assert (ticks.latest_ns, ticks.missed) == (latest, missed)


def test_a_long_run_does_not_drift() -> None:
    """A third of a second is no whole number of nanoseconds."""
    world = Simulated()
    ticks = Ticks(3.0, clock=world.clock)
    ticks.begin()
    assert sum(ticks.wait() for _ in range(3000)) == 0
    assert world.now == 1000 * SECOND


def test_the_last_moment_is_spent_spinning() -> None:
    """Sleeping ends before the tick by so much; the clock is then read until it is due."""
    reads = []

    class Spinning(Simulated):
        def read(self) -> int:
            reads.append(self.now)
            self.now += 10_000  # reading the clock takes 10 us
            return self.now

    world = Spinning()
    ticks = Ticks(100.0, spin=SPIN, clock=world.clock._replace(now=world.read))
    ticks.begin()
    ticks.wait()
    assert world.slept == 1
    assert len([read for read in reads if read > SECOND // 100 - SPIN * SECOND]) >= 9
    assert ticks.late_ns <= 10_000


def test_a_slow_grid_sleeps_in_slices_and_what_passes_while_it_is_stopped_is_no_tick() -> None:
    world = Simulated()
    ticks = Ticks(0.5, clock=world.clock)
    ticks.begin()
    assert (ticks.wait(), world.slept) == (0, 10)  # a signal is handled between two of them
    ticks.stop()
    assert not ticks.begun
    world.now += 60 * SECOND
    ticks.begin()
    assert (ticks.wait(), ticks.missed) == (0, 0)


def test_a_grid_is_shifted_as_a_whole() -> None:
    world = Simulated()
    ticks = Ticks(100.0, clock=world.clock)
    ticks.begin()
    ticks.wait()
    ticks.shift(3_000_000)
    assert (ticks.wait(), world.now) == (0, 23_000_000)


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf"), 1e9, "fast", None, True])
def test_a_rate_is_a_positive_number(rate: object) -> None:
    with pytest.raises(rf.InvalidInput, match="'rate' of ticks must be a number above 0"):
        Ticks(rate)  # type: ignore[arg-type]
