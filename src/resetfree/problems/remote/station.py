"""The machine's end of the protocol: physics, sessions, a watchdog and a lever, without a clock and without a socket.

Time and packets come as arguments, so that everything here can be tested without waiting. One program at a time
commands the machine, in a session. A session belongs to the address that began it, and can be taken over after LEASE
seconds of silence. What is not in order is counted and dropped.

Legend: A numbers in an action, D sensors; times in nanoseconds of one clock.
"""

import heapq
import hmac
import random
import secrets
from collections.abc import Hashable, Iterator
from dataclasses import asdict, dataclass
from itertools import count
from typing import Annotated, Any, TypeAlias

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import Fraction, Range, check_fields
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
from resetfree.problems.remote.statement import MachineStatement

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


Milliseconds: TypeAlias = Annotated[float, Range(0, 60_000)]
MOST = 4096  # packets under way; what comes on top is lost
OVERTAKEN = 2.0  # periods by which a packet that is overtaken comes later


@dataclass(frozen=True)
class Faults:
    """How often packets of either direction suffer what, each on its own.

    >>> Faults(loss=0.01).any, Faults().any
    (True, False)
    """

    loss: Fraction = 0.0  # share of packets that are lost
    delay_ms: Milliseconds = 0.0  # how late every packet is
    duplicate: Fraction = 0.0  # share that comes twice
    reorder: Fraction = 0.0  # share that is overtaken by later ones
    freeze: Fraction = 0.0  # chance per tick that the machine stops sending and reading for a while
    freeze_ms: Milliseconds = 200.0  # how long that lasts

    def __post_init__(self) -> None:
        check_fields(self, "faults")

    @property
    def any(self) -> bool:
        """Whether packets can suffer at all."""
        return bool(self.loss or self.delay_ms or self.duplicate or self.reorder)


class FaultyPath:
    """One direction of a wire: packets go in, and come out when they are due, if ever.

    period: ns between two packets, by which "overtaken" is measured.

    >>> path = FaultyPath(Faults(duplicate=1.0), seed=0, period=10)
    >>> path.put(b"sensors", "here", now=0)
    >>> list(path.due(now=0)), list(path.due(now=9))
    ([(b'sensors', 'here'), (b'sensors', 'here')], [])
    """

    def __init__(self, faults: Faults, seed: int, period: int) -> None:
        self._faults, self._chance = faults, random.Random(seed)
        self._late, self._behind = int(faults.delay_ms * 1e6), int(OVERTAKEN * period)
        self._under_way: list[tuple[int, int, bytes, Hashable]] = []
        self._order = count()

    def put(self, packet: bytes, address: Hashable, now: int) -> None:
        """A packet is sent."""
        lost, twice, overtaken = (self._chance.random() for _ in range(3))
        if lost < self._faults.loss:
            return
        due = now + self._late + (self._behind if overtaken < self._faults.reorder else 0)
        for _ in range(2 if twice < self._faults.duplicate else 1):
            if len(self._under_way) < MOST:
                heapq.heappush(self._under_way, (due, next(self._order), packet, address))

    def due(self, now: int) -> Iterator[tuple[bytes, Hashable]]:
        """The packets that arrive by now, in order."""
        while self._under_way and self._under_way[0][0] <= now:
            _, _, packet, address = heapq.heappop(self._under_way)
            yield packet, address

    @property
    def next_due(self) -> int | None:
        """When the next packet arrives, None if none is under way."""
        return self._under_way[0][0] if self._under_way else None


class Freezes:
    """When the machine neither sends nor reads, while its physics go on."""

    def __init__(self, faults: Faults, seed: int) -> None:
        self._chance, self._share = random.Random(seed), faults.freeze
        self._length, self._until = int(faults.freeze_ms * 1e6), 0
        self.begun = 0

    def tick(self, now: int) -> None:
        """A freeze may begin."""
        if self._share and not self.frozen(now) and self._chance.random() < self._share:
            self._until = now + self._length
            self.begun += 1

    def frozen(self, now: int) -> bool:
        """Whether it is frozen."""
        return now < self._until
