"""A machine in real time: ticks lie on a grid of the monotonic clock and never wait for commands.

A tick that this program comes too late for passes all the same, with the commands that came before it; only its sensors
are not sent. What stalled for more than a second goes on a second before now. In lockstep, time goes on by commands
alone. However many packets come, only a bounded number is handled before the clock is read again.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from gymnasium import spaces

from resetfree.core.interrupts import SLICE
from resetfree.core.settings import Positive, Range, check
from resetfree.problems.machines.cart_pole import CartPole
from resetfree.problems.machines.set_points import SetPointMachine
from resetfree.problems.machines.two_tanks import TwoTanks
from resetfree.problems.machines.upright_pendulum import UprightPendulum
from resetfree.problems.remote.packets import Buffer
from resetfree.problems.remote.statement import Signal, Statement
from resetfree.problems.remote.station import Faults, FaultyPath, Freezes, Station
from resetfree.problems.remote.wires import Port, fresh_buffer


@dataclass(frozen=True)
class BuiltIn:
    """A machine's physics, and the words for its statement."""

    physics: type[SetPointMachine]
    actions: tuple[str, ...]  # their names
    sensors: tuple[str, ...]
    fall: str


MACHINES = {
    "cartpole": BuiltIn(
        CartPole,
        ("force",),
        ("position", "speed", "angle", "angular speed"),
        "the cart is more than 2.4 m from the middle, or the pole leans more than 12 degrees",
    ),
    "pendulum": BuiltIn(
        UprightPendulum, ("torque",), ("angle", "angular speed"), "the pendulum leans more than 60 degrees"
    ),
    "tanks": BuiltIn(
        TwoTanks,
        ("pump 1", "pump 2"),
        ("level 1", "level 2", "lacking 1", "lacking 2"),
        "a level is below 0.05 m or above 0.6 m",
    ),
}
Milliseconds: TypeAlias = Annotated[float, Range(0, 1e9)]
SILENT = 5  # ticks without a command, and at least SILENT_MS, after which the watchdog takes over
SILENT_MS = 100.0


def switch_on(
    name: str, *, rate: float | None = None, lockstep: bool = False, watchdog_ms: float | None = None
) -> tuple[SetPointMachine, Statement]:
    """A machine and its statement.

    rate: ticks per second, each of which is that much of its time; default: 50, 20 and 0.5.

    >>> machine, says = switch_on("tanks")
    >>> machine.dt, says.rate, [one.name for one in says.actions], says.neutral
    (2.0, 0.5, ['pump 1', 'pump 2'], (0.0, 0.0))
    """
    check(watchdog_ms, Milliseconds | None, "'watchdog_ms' of a machine")
    known = MACHINES[name]
    machine = known.physics()
    if rate is not None:
        check(rate, Positive, "'rate' of a machine")
        machine.dt = 1.0 / rate
    rate = 1.0 / machine.dt if rate is None else float(rate)
    actions, sensors = _signals(machine.action_space, known.actions), _signals(machine.observation_space, known.sensors)
    neutral = tuple(min(max(0.0, one.low), one.high) for one in actions)
    default = max(SILENT_MS, math.ceil(1000.0 * SILENT / rate))
    return machine, Statement(
        name=name,
        rate=rate,
        lockstep=lockstep,
        watchdog_ms=default if watchdog_ms is None else watchdog_ms,
        actions=actions,
        neutral=neutral,
        sensors=sensors,
        reward=(0.0, 1.0),
        fall=known.fall,
    )


def _signals(space: object, names: tuple[str, ...]) -> tuple[Signal, ...]:
    assert isinstance(space, spaces.Box)
    ends = zip(names, space.low.tolist(), space.high.tolist(), strict=True)
    return tuple(Signal(name, low, high) for name, low, high in ends)


AT_ONCE = 64  # packets that are handled before the clock is read again
SECOND = 1_000_000_000


class Serving:
    """Serves a station at a port.

    seed: of the faults.
    """

    def __init__(self, station: Station, port: Port, faults: Faults, seed: int) -> None:
        self.station, self._port = station, port
        self._buffer = fresh_buffer()
        self._came: deque[tuple[int, bytes, Hashable]] = deque()
        self._period = max(int(SECOND / station.statement.rate), 1)
        paths = [FaultyPath(faults, 3 * seed + i, self._period) if faults.any else None for i in range(2)]
        self._incoming, self._outgoing = paths
        self.freezes = Freezes(faults, 3 * seed + 2)

    def serve(self, stopped: Callable[[], bool] = lambda: False, terminal: int | None = None) -> None:
        """Serve until `stopped()` or an interrupt; Enter at the terminal, a descriptor, pulls the lever."""
        lockstep = self.station.statement.lockstep
        begun, passed, most = time.monotonic_ns(), 0, SECOND // self._period + 1
        while not stopped():
            now = time.monotonic_ns()
            due = 0 if lockstep else (now - begun) // self._period - passed
            if due > 0:
                lost, passed = max(due - most, 0), passed + due
                self.station.counts.lost += lost
                self._tick(now, [begun + n * self._period for n in range(passed - due + lost + 1, passed + 1)])
            elif self._wait(now + SECOND if lockstep else begun + (passed + 1) * self._period, terminal):
                terminal = self._pull(terminal)
            self._handle()

    def _tick(self, now: int, due: list[int]) -> None:
        """Let the ticks pass that were due at these times, each after what came before it."""
        self._collect()
        for at in due[:-1]:
            self._pass_on(before=at)
            self.station.skip(at)
        self._pass_on(before=due[-1])
        packet = self.station.advance(now, now - due[-1])
        self.freezes.tick(now)
        if packet is not None:
            self._send(packet, self.station.client, now)

    def _handle(self) -> None:
        """Handle a bounded number of the packets that came, and send what is due."""
        self._collect()
        self._pass_on(before=time.monotonic_ns() + 1)
        if self._outgoing is not None and not self.freezes.frozen(time.monotonic_ns()):
            for packet, client in self._outgoing.due(time.monotonic_ns()):
                self._port.send(packet, client)

    def _collect(self) -> None:
        """Read a bounded number of packets, with the times at which they came."""
        if self.freezes.frozen(time.monotonic_ns()):
            return
        while len(self._came) < AT_ONCE:
            size, sender = self._port.receive(self._buffer)
            if size < 0:
                break
            self._came.append((self._port.came_ns, bytes(memoryview(self._buffer)[:size]), sender))

    def _pass_on(self, before: int) -> None:
        """Handle what came before this time."""
        while self._came and self._came[0][0] < before:
            came, packet, sender = self._came.popleft()
            if self._incoming is None:
                self._reply(packet, len(packet), sender)
            else:
                self._incoming.put(packet, sender, came)
        if self._incoming is not None:
            for packet, sender in self._incoming.due(before):
                self._reply(packet, len(packet), sender)

    def _reply(self, buffer: Buffer, size: int, sender: Hashable) -> None:
        now = time.monotonic_ns()
        for packet, to in self.station.receive(buffer, size, sender, now):
            self._send(packet, to, now)

    def _send(self, packet: bytes, to: Hashable, now: int) -> None:
        if self.freezes.frozen(now):
            return
        if self._outgoing is None:
            self._port.send(packet, to)
        else:
            self._outgoing.put(packet, to, now)

    def _wait(self, until: int, terminal: int | None) -> bool:
        """Wait until something comes or is due; returns whether a line was typed at the terminal."""
        now = time.monotonic_ns()
        for path in (self._incoming, self._outgoing):
            if path is not None and path.next_due is not None:
                until = min(until, path.next_due)
        seconds = min(max(until - now, 0) / SECOND, SLICE)
        if self.freezes.frozen(now):
            time.sleep(seconds)
            return False
        ready, _, _ = select.select([self._port.fileno(), *([] if terminal is None else [terminal])], [], [], seconds)
        return terminal in ready

    def _pull(self, terminal: int | None) -> int | None:
        """Pull the lever for a line at the terminal; returns the terminal, None if it is no longer ours to read."""
        if terminal is None or os.tcgetpgrp(terminal) != os.getpgrp() or not os.read(terminal, 4096):
            return None
        self.station.pull()
        return terminal
