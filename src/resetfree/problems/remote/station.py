"""The machine's end of the protocol: physics, sessions, a watchdog and a lever, and the clock and the port they run at.

Time and packets come to a `Station` as arguments, so that it can be tested without waiting. One program at a time
commands the machine, in a session. A session belongs to the address that began it, and can be taken over after LEASE
seconds of silence. What is not in order is counted and dropped.

`Serving` is the station in real time: ticks lie on a grid of the monotonic clock and never wait for commands. A tick
that this program comes too late for passes all the same, with the commands that came before it; only its sensors are
not sent. What stalled for more than a second goes on a second before now. In lockstep, time goes on by commands alone.
However many packets come, only a bounded number is handled before the clock is read again.

Legend: A numbers in an action, D sensors; times in nanoseconds of one clock.
"""

import hmac
import os
import secrets
import select
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from resetfree.core import Floats
from resetfree.core.interrupts import SLICE
from resetfree.problems.machines.set_points import SetPointMachine
from resetfree.problems.remote.faults import Faults, FaultyPath, Freezes
from resetfree.problems.remote.packets import (
    ANSWERS,
    HEADER,
    NUMBER,
    PULL,
    PULLED,
    READING,
    TOKEN,
    Buffer,
    Flag,
    Header,
    Kind,
    MachineStatement,
    packet,
    read,
)
from resetfree.problems.remote.wires import Port, fresh_buffer

SECOND = 1_000_000_000  # ns
LATE = 0.25  # of a period by which sensors may be late if a command is due before the next tick
LEASE = SECOND  # of silence after which another program may begin a session
Reply: TypeAlias = tuple[bytes, Hashable]  # a packet, and where it goes


@dataclass(slots=True)
class StationCounts:
    """What happened since the machine was switched on."""

    ticks: int = 0
    skipped: int = 0  # ticks whose sensors were not sent, because this program came too late
    lost: int = 0  # ticks that did not pass, because this program stood still for longer than it catches up
    due: int = 0  # ticks before which a command should have come: once a session has commanded, unless it is held
    in_time: int = 0  # those before which the answer to the newest sensors came
    not_judged: int = 0  # ticks that are none of `due` because this program sent the sensors before them late, or not
    falls: int = 0
    pulls: int = 0  # of the lever
    watchdog: int = 0  # times that commands ceased
    sessions: int = 0
    commands: int = 0  # that were accepted
    malformed: int = 0  # packets dropped: no packet of this protocol, or not of its size
    wrong_session: int = 0  # dropped: of no session, or of an earlier one
    wrong_sender: int = 0  # dropped: from another address than that of the session
    repeated: int = 0  # dropped: not newer than what was accepted
    wrong_token: int = 0  # dropped: a lever without its token
    busy: int = 0  # greetings that were refused

    @property
    def plain(self) -> dict[str, int]:
        """By name."""
        return asdict(self)


class Station:
    """A machine that is commanded by packets.

    machine: its physics; a step takes `machine.dt` seconds of its time.
    token: [16] bytes that every pull of the lever must carry.
    seed: of the machine's own randomness, in resets too.
    """

    def __init__(self, machine: SetPointMachine, statement: MachineStatement, token: bytes, seed: int) -> None:
        self.statement, self.counts = statement, StationCounts()
        self.life = 0  # pulls of the lever so far
        self.fallen, self.held, self.neutral = False, False, not statement.lockstep
        self._machine, self._token = machine, token
        self._neutral = np.array(statement.neutral)
        self._observation, _ = machine.reset(seed=seed)
        self._reward = 0.0
        self._pull = 0  # number of the latest pull
        self._size = ANSWERS.size + 8 * len(statement.actions)  # bytes of payload of a command
        self._watchdog = int(statement.watchdog_ms * 1e6)
        self._latest = b""  # the newest sensors packet
        self._action: Floats = self._neutral
        self._client: Hashable = None
        self._begin(0, None, 0, 0)

    @property
    def client(self) -> Any:
        """The address to which sensors go; None outside of a session."""
        return self._client

    def receive(self, buffer: Buffer, size: int, sender: Hashable, now: int) -> list[Reply]:
        """Handle what came: the first `size` bytes of the buffer; returns the replies."""
        header = read(buffer, size)
        if header is None:
            self.counts.malformed += 1
            return []
        payload = memoryview(buffer)[HEADER.size : HEADER.size + header.length]
        if header.kind == Kind.COMMAND:
            return self._command(header, payload, sender, now)
        if header.kind == Kind.HELLO and header.length == NUMBER.size:
            return self._hello(NUMBER.unpack(payload)[0], sender, now)
        if header.kind == Kind.LEVER and header.length == PULL.size:
            return self._lever(payload, sender, now)
        if header.kind == Kind.BYE and header.length == 0:
            if self._theirs(header, sender):
                self._begin(0, None, 0, now)
            return []
        self.counts.malformed += 1
        return []

    def advance(self, now: int, late: int = 0) -> bytes | None:
        """Let a tick pass, and return the newest sensors for the client, None without one.

        late: ns since the tick was due; sensors that are sent so late that little time is left do not count.
        """
        self._tick(now - late)
        self._in_order = late <= LATE * SECOND / self.statement.rate
        return self.sensors(now)

    def skip(self, due: int) -> None:
        """Let a tick pass that was due then, without sending sensors."""
        self.counts.skipped += 1
        self._tick(due)

    def sensors(self, now: int) -> bytes | None:
        """The next SENSORS packet of the session, None outside of one."""
        if self._client is None:
            return None
        self._sent += 1
        flags = Flag.FALLEN * self.fallen | Flag.HELD * self.held | Flag.NEUTRAL * self.neutral
        reading = READING.pack(self._applied, self.counts.ticks, self.life, flags, self._reward)
        payload = reading + self._observation.astype("<f8").tobytes()
        self._latest = packet(Kind.SENSORS, self._session, self._sent, now, payload)
        return self._latest

    def pull(self) -> None:
        """Put the machine back where it may start; it is held there until the first command that answers it."""
        self._observation, _ = self._machine.reset()
        self.life += 1
        self.counts.pulls += 1
        self.fallen, self.neutral, self._reward = False, False, 0.0
        self.held = not self.statement.lockstep
        self._free_from = self._sent + 1
        self._action = self._neutral

    def _tick(self, due: int) -> None:
        """One tick, which was due then."""
        self.counts.ticks += 1
        self._applied = self._newest
        in_order, self._in_order = self._in_order, False
        if self.fallen or self.held:
            return
        if self._newest:  # a program that commands nothing yet is only watching
            self.counts.due += in_order
            self.counts.in_time += in_order and self._answered >= self._sent > 0
            self.counts.not_judged += not in_order
        silent = not self.statement.lockstep and 0 < self._watchdog < due - self._commanded
        self.counts.watchdog += silent and not self.neutral
        self.neutral = silent
        action = self._neutral if silent else self._action
        self._observation, self._reward, self.fallen, _, _ = self._machine.step(action)
        self.counts.falls += self.fallen

    def _begin(self, session: int, client: Hashable, greeting: int, now: int) -> None:
        """Begin a session; what was commanded in the last one is over."""
        self._session, self._client, self._greeting = session, client, greeting
        self._heard, self._commanded = now, now
        self._newest = self._applied = self._answered = 0  # numbers of commands, and of the sensors answered
        self._sent = 0  # number of the newest sensors
        self._in_order = self.statement.lockstep  # whether they were sent at a tick, when it was due
        self._free_from = 1 if self.held else 0
        self._action, self._latest = self._neutral, b""

    def _hello(self, greeting: int, sender: Hashable, now: int) -> list[Reply]:
        alive = self._client is not None and now - self._heard < LEASE
        if alive and sender != self._client:
            self.counts.busy += 1
            return [(packet(Kind.BUSY, 0, 0, now, NUMBER.pack(greeting)), sender)]
        if alive and greeting < self._greeting:  # a copy of an earlier one that took longer
            self.counts.repeated += 1
            return []
        if self._client != sender or greeting != self._greeting:
            self._begin(secrets.randbits(64) | 1, sender, greeting, now)
            self.counts.sessions += 1
        self._heard = now
        payload = NUMBER.pack(greeting) + self.statement.text.encode()
        welcome = packet(Kind.WELCOME, self._session, 0, now, payload)
        first = self._latest or self.sensors(now) or b""
        return [(welcome, sender), (first, sender)]

    def _command(self, header: Header, payload: memoryview, sender: Hashable, now: int) -> list[Reply]:
        if not self._theirs(header, sender):
            return []
        if header.length != self._size:
            self.counts.malformed += 1
            return []
        again = self.statement.lockstep and header.number == self._newest > 0
        if header.number <= self._newest:
            self.counts.repeated += 1
            return [(self._latest, sender)] if again else []
        action = np.frombuffer(payload[ANSWERS.size :], "<f8").astype(np.float64)
        if not np.isfinite(action).all():
            self.counts.malformed += 1
            return []
        self.counts.commands += 1
        (answered,) = ANSWERS.unpack_from(payload)
        self._heard = self._commanded = now
        self._newest, self._action, self._answered = header.number, action, answered
        if self.held and answered >= self._free_from:
            self.held = False
        if not self.statement.lockstep:
            return []
        reply = self.advance(now)
        return [] if reply is None else [(reply, sender)]

    def _lever(self, payload: memoryview, sender: Hashable, now: int) -> list[Reply]:
        token, number = PULL.unpack(payload)
        if not hmac.compare_digest(token, self._token) or len(self._token) != TOKEN:
            self.counts.wrong_token += 1
            return []
        if number < self._pull:
            self.counts.repeated += 1
            return []
        if number > self._pull:  # the same number again: the reply was lost
            self._pull = number
            self.pull()
        return [(packet(Kind.PULLED, 0, 0, now, PULLED.pack(number, self.life)), sender)]

    def _theirs(self, header: Header, sender: Hashable) -> bool:
        """Whether a packet is of the session and from its client."""
        if self._client is None or header.session != self._session:
            self.counts.wrong_session += 1
            return False
        if sender != self._client:
            self.counts.wrong_sender += 1
            return False
        return True


AT_ONCE = 64  # packets that are handled before the clock is read again


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
        for reply, to in self.station.receive(buffer, size, sender, now):
            self._send(reply, to, now)

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
