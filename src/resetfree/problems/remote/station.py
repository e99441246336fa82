"""The machine's end of the protocol: physics, sessions, a watchdog and a lever, without a clock and without a socket.

Time and packets come as arguments, so that everything here can be tested without waiting. One program at a time
commands the machine, in a session. A session belongs to the address that began it, and can be taken over after LEASE
seconds of silence. What is not in order is counted and dropped.

Legend: A numbers in an action, D sensors; times in nanoseconds of one clock.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.problems.machines.set_points import SetPointMachine
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
    packet,
    read,
)
from resetfree.problems.remote.statement import Statement

SECOND = 1_000_000_000  # ns
LATE = 0.25  # of a period by which sensors may be late if a command is due before the next tick
LEASE = SECOND  # of silence after which another program may begin a session
Reply: TypeAlias = tuple[bytes, Hashable]  # a packet, and where it goes


@dataclass(slots=True)
class Counts:
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

    def __init__(self, machine: SetPointMachine, statement: Statement, token: bytes, seed: int) -> None:
        self.statement, self.counts = statement, Counts()
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
