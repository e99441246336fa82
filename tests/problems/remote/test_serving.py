"""The clock of a machine: what comes late is caught up, what stood still for long is not."""

from __future__ import annotations

import time

import pytest

from resetfree.problems.remote.built_in import switch_on
from resetfree.problems.remote.faults import Faults
from resetfree.problems.remote.serving import SECOND, Serving
from resetfree.problems.remote.station import Counts, Station
from resetfree.problems.remote.wires import UdpPort


class Clock:
    """A clock that jumps: each reading is the next of the list, then the last for ever."""

    def __init__(self, *readings: float) -> None:
        self.readings = [int(one * SECOND) for one in readings]

    def __call__(self) -> int:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def served(clock: Clock, turns: int, monkeypatch: pytest.MonkeyPatch) -> Counts:
    """What happened after so many turns of the loop at 50 Hz."""
    with UdpPort() as port:
        station = Station(*switch_on("tanks", rate=50.0), bytes(16), seed=0)
        serving = Serving(station, port, Faults(), 0)
        left = iter(range(turns))
        monkeypatch.setattr(time, "monotonic_ns", clock)
        serving.serve(lambda: next(left, None) is None)
        monkeypatch.undo()
    return station.counts


def test_late_ticks_pass_without_sensors(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = served(Clock(100.0, 100.2), 1, monkeypatch)
    assert (counts.ticks, counts.skipped, counts.lost) == (10, 9, 0)


def test_what_stood_still_for_long_catches_up_a_second_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = served(Clock(100.0, 3700.0), 3, monkeypatch)
    assert counts.ticks == 51
    assert counts.ticks + counts.lost == 3600 * 50
