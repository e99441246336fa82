"""Ticks at a fixed rate: a grid of the monotonic clock, where a loop that is late skips, and never catches up.

Tick n is at t_0 + n / rate, computed from t_0 each time, so that nothing adds up. A loop that works for longer than a
period skips the ticks that have passed, and waits for the next one; one that wakes up late takes the newest at once.
What is skipped is counted. So there is at most one command per tick, never a burst of them:

    ticks.begin()
    while acting:
        ticks.wait()     # how many ticks were skipped
        ...              # read, act, write
        ticks.acted()    # how late the command was
"""

import time
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, NamedTuple, TypeAlias

from resetfree.core.interrupts import SLICE
from resetfree.core.settings import Range, check

SECOND = 1_000_000_000  # ns
SPIN = 100e-6  # seconds before a tick from which spinning, rather than sleeping, pays for a processor
Rate: TypeAlias = Annotated[float, Range(above=0, most=1e6)]  # Hz


class Clock(NamedTuple):
    """What a grid lies on; tests give a simulated one."""

    now: Callable[[], int]  # ns
    sleep: Callable[[float], object]  # for so many seconds, or somewhat longer


MONOTONIC = Clock(time.monotonic_ns, time.sleep)


class Ticks:
    """The ticks of a loop, with what it missed.

    spin: seconds before each tick in which the clock is read again and again, instead of sleeping: a processor is busy
      for that long, and wakes up on time. Such as `SPIN`.

    >>> now = [0]
    >>> clock = Clock(lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + round(seconds * SECOND)))
    >>> ticks = Ticks(100.0, clock=clock)
    >>> ticks.begin(), ticks.wait(), now[0]
    (None, 0, 10000000)
    >>> now[0] += 35_000_000  # a long thought
    >>> ticks.acted(), ticks.wait(), now[0]
    (None, 3, 50000000)
    >>> ticks.missed, ticks.latest_ns
    (3, 35000000)
    """

    def __init__(self, rate: float, *, spin: float = 0.0, clock: Clock = MONOTONIC) -> None:
        check(rate, Rate, "'rate' of ticks")
        check(spin, Annotated[float, Range(0, 1)], "'spin' of ticks")
        self.rate, self.clock = float(rate), clock
        self.begun = False  # whether there is a grid
        self.number = 0  # of the newest tick that was taken or skipped
        self.late_ns = 0  # from that tick to the wake-up
        self.missed = 0  # ticks of the episode that were skipped
        self.latest_ns = 0  # from a tick of the episode to its command, at most
        self._spin = int(spin * SECOND)
        self._period = SECOND / Fraction(self.rate)
        self._origin = 0

    @property
    def due_ns(self) -> int:
        """When the newest tick was due."""
        return self._at(self.number)

    @property
    def next_ns(self) -> int:
        """When the next tick is due."""
        return self._at(self.number + 1)

    def begin(self) -> None:
        """Lay the grid: now is tick 0, and the next one is a period from now."""
        self._origin, self.number, self.late_ns, self.begun = self.clock.now(), 0, 0, True

    def stop(self) -> None:
        """Give the grid up until the next `begin`: what passes until then is no tick."""
        self.begun = False

    def new_episode(self) -> None:
        """Count what is missed from here on."""
        self.missed, self.latest_ns = 0, 0

    def wait(self) -> int:
        """Sleep until the next tick; returns how many were skipped: none, if the loop is fast enough."""
        now = self.clock.now()
        due = self._at(max(self.number, self._passed(now - 1)) + 1)
        while now < due:
            left = due - self._spin - now
            if left > 0:
                self.clock.sleep(min(left / SECOND, SLICE))
            now = self.clock.now()
        newest = self._passed(now)
        skipped = newest - self.number - 1
        self.number = newest
        self.late_ns = now - self._at(newest)
        self.missed += skipped
        return skipped

    def skip(self) -> None:
        """Count the newest tick as missed: there was nothing to act on."""
        self.missed += 1

    def acted(self) -> None:
        """The command of the newest tick is out: its lateness counts from the tick."""
        self.latest_ns = max(self.latest_ns, self.clock.now() - self._at(self.number))

    def shift(self, ns: int) -> None:
        """Move the grid so much later, or earlier: no tick passes by that, so the next one must lie after now."""
        self._origin += ns

    def _at(self, number: int) -> int:
        """When a tick is due: rounded up, so that it has passed then."""
        return self._origin - (-number * self._period.numerator) // self._period.denominator

    def _passed(self, now: int) -> int:
        """The number of the newest tick that is not after `now`."""
        return (now - self._origin) * self._period.denominator // self._period.numerator
