"""A machine that is served in a thread of this process, and its operator."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.waiting import LONG

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.machines import switch_on
from resetfree.problems.remote.faults import Faults
from resetfree.problems.remote.station import Serving, Station
from resetfree.problems.remote.wires import LeverKey, Port, UdpPort


class Served(NamedTuple):
    """Where the machine is, and how it is put back."""

    url: str
    station: Station
    key: LeverKey
    operator: rf.OperatorReset

    def problem(self, **options: Any) -> AbstractContextManager[GymProblem]:
        """It as a problem that is closed whatever happens; a busy computer may keep it silent for long."""
        return closing(rf.from_machine(self.url, **{"operator": self.operator, "timeout": 60.0, **options}))


@contextmanager
def served(
    folder: Path, name: str = "cartpole", *, port: Port | None = None, seed: int = 0, faults: Any = None, **options: Any
) -> Iterator[Served]:
    """Serve a machine until the end of the block."""
    physics, statement = switch_on(name, **options)
    with port or UdpPort() as opened:
        key = LeverKey(opened.url)
        key.write(folder / "lever.key")
        station = Station(physics, statement, key.token, seed)
        ended = threading.Event()
        serving = Serving(station, opened, Faults(**(faults or {})), seed)
        thread = threading.Thread(target=serving.serve, args=(ended.is_set,))
        thread.start()
        try:
            yield Served(opened.url, station, key, rf.OperatorReset(f"lever:{folder / 'lever.key'}"))
        finally:
            ended.set()
            thread.join(LONG)
            assert not thread.is_alive()
