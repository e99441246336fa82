"""A machine in real time: ticks lie on a grid of the monotonic clock and never wait for commands.

A tick that this program comes too late for passes all the same, with the commands that came before it; only its sensors
are not sent. What stalled for more than a second goes on a second before now. In lockstep, time goes on by commands
alone. However many packets come, only a bounded number is handled before the clock is read again.
"""

import os
import select
import time
from collections import deque
from collections.abc import Callable, Hashable

from resetfree.core.interrupts import SLICE
from resetfree.problems.remote.packets import Buffer
from resetfree.problems.remote.station import Faults, FaultyPath, Freezes, Station
from resetfree.problems.remote.wires import Port, fresh_buffer

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
