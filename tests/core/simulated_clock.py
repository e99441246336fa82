"""A clock that passes only when it is told to, and wakes up as late as it is told to."""

from collections.abc import Iterable

from resetfree.core.ticks import SECOND, Clock


class Simulated:
    """Time in ns; each sleep ends late by the next of `delays`, and on time when they are used up."""

    def __init__(self, delays: Iterable[int] = (), begun: int = 0) -> None:
        self.now, self._delays = begun, iter(delays)
        self.slept = 0

    def sleep(self, seconds: float) -> None:
        """As `time.sleep`: never shorter."""
        self.slept += 1
        self.now += -int(-seconds * SECOND // 1) + next(self._delays, 0)

    @property
    def clock(self) -> Clock:
        """For `Ticks`."""
        return Clock(lambda: self.now, self.sleep)
