"""The learner's end of the protocol: a client, and `from_machine`, a machine at the other end of a wire as a problem.

The client sends commands and takes the newest sensors, and neither waits or allocates much. `command` and `poll` are
apart, so that a loop at a fixed rate can read, act and write when it is time:

    while acting:
        client.poll()                            # fills `client.sensors` with the newest reading, if one came
        client.command(policy(client.sensors.values))

The machine is a Gymnasium environment here, so that everything that `from_gym` can do with one can be done with it. In
real time, a step sends the action and takes the first sensors that its command counted in; in lockstep, exactly one
tick of the machine passes.

Legend: A numbers in an action, D sensors.
"""

import math
import time
from collections.abc import Callable
from typing import Annotated, Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from resetfree.core import Floats, InvalidInput, Range, ResetFreeError, check, expect, words
from resetfree.core.interrupts import SLICE
from resetfree.core.system import Closes
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.gym.builder import from_gym
from resetfree.problems.operators import Operator, OperatorReset
from resetfree.problems.remote.packets import (
    ANSWERS,
    CHECKSUM,
    HEADER,
    NUMBER,
    READING,
    VERSION,
    Flag,
    Header,
    Kind,
    MachineStatement,
    other_version,
    packet,
    read,
    seal,
    size_of,
)
from resetfree.problems.remote.wires import Wire, fresh_buffer, open_wire

AGAIN = 0.05  # seconds after which a packet that was not answered is sent again
AT_ONCE = 256  # packets that one poll reads at most


class MachineSilent(ResetFreeError):
    """No answer from the machine in time."""


class Sensors:
    """The newest reading; the same object is filled again and again."""

    __slots__ = ("applied", "flags", "life", "machine_ns", "number", "received_ns", "reward", "tick", "values")

    def __init__(self, d: int) -> None:
        self.number = 0  # of the packet, in its session; 0 before the first
        self.received_ns = 0  # when it was read, of this computer's monotonic clock
        self.machine_ns = 0  # when it was sent, of the machine's clock
        self.applied = 0  # number of the newest command that counted
        self.tick = 0  # ticks of the machine since it was switched on
        self.life = 0  # pulls of its lever
        self.flags = 0  # of `packets.Flag`
        self.reward = 0.0  # of the newest tick
        self.values: Floats = np.zeros(d)  # [D]

    @property
    def fallen(self) -> bool:
        """Whether the machine must be put back."""
        return bool(self.flags & Flag.FALLEN)

    @property
    def held(self) -> bool:
        """Whether the machine is held until the first command."""
        return bool(self.flags & Flag.HELD)


class MachineClient(Closes):
    """Commands one machine, in sessions.

    `statement` and `sensors` are there after `connect`. Counted besides: `dropped` packets that were not in order, and
    `missed` sensor packets (lost, overtaken, or read too late).
    """

    statement: MachineStatement
    sensors: Sensors

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.dropped, self.missed = 0, 0
        self._buffer = fresh_buffer()
        self._session, self._number, self._greeting = 0, 0, 0

    def connect(self, seconds: float, *, refused_after: float = math.inf) -> MachineStatement:
        """Begin a new session, and return with its first sensors; raises MachineSilent after so many seconds.

        refused_after: seconds after which it is enough that no program listens there.

        Packets of earlier sessions, which may still be under way, no longer count.
        """
        self._session, self._greeting = 0, max(time.monotonic_ns(), self._greeting + 1)
        hello = packet(Kind.HELLO, 0, 0, self._greeting, NUMBER.pack(self._greeting))
        begun, busy, version = time.monotonic(), False, None
        end, again = begun + seconds, begun
        while True:
            now = time.monotonic()
            if self.wire.refused and now - begun >= refused_after:
                raise MachineSilent("no program listens there")
            if now >= end:
                raise MachineSilent(_why_silent(busy, version, seconds))
            if now >= again:
                self.wire.send(hello)
                again = now + AGAIN
            self.wire.wait(min(again, end) - now)
            for _ in range(AT_ONCE):
                size = self.wire.receive(self._buffer)
                if not size:
                    break
                header = read(self._buffer, size)
                version = other_version(self._buffer, size) or version
                if header is not None and header.kind in (Kind.WELCOME, Kind.BUSY) and self._is_answer(header):
                    busy = header.kind == Kind.BUSY
                    if not busy:
                        self._welcome(header)
                elif self._session and header is not None and self._take(header):
                    return self.statement

    def poll(self) -> bool:
        """Read all packets that came; returns whether `sensors` is newer than before. Never waits."""
        newer = False
        for _ in range(AT_ONCE):
            size = self.wire.receive(self._buffer)
            if not size:
                break
            header = read(self._buffer, size)
            if header is not None and self._take(header):
                newer = True
            else:
                self.dropped += 1
        return newer

    def command(self, action: NDArray[Any]) -> int:
        """Send an action [A], as the answer to the newest sensors; returns its number. Never waits."""
        if not self._session:
            raise MachineSilent("the session with it has ended: reset it first")
        self._number += 1
        self._action[:] = action
        ANSWERS.pack_into(self._command, HEADER.size, self.sensors.number)
        now = time.monotonic_ns()
        seal(self._command, self._signed, Kind.COMMAND, session=self._session, number=self._number, time_ns=now)
        self.wire.send(self._command)
        return self._number

    def repeat(self) -> None:
        """Send the newest command once more, as it was."""
        self.wire.send(self._command)

    def wait(self, seconds: float) -> None:
        """Wait until something comes, at most so long and at most a moment."""
        self.wire.wait(min(seconds, SLICE))

    def close(self) -> None:
        """End the session, and close the wire."""
        self.leave()
        self.wire.close()

    def leave(self) -> None:
        """End the session; `connect` begins another one."""
        if self._session:
            self.wire.send(packet(Kind.BYE, self._session, 0, time.monotonic_ns()))
            self._session = 0

    def _is_answer(self, header: Header) -> bool:
        """Whether a packet answers the newest greeting."""
        if header.length < NUMBER.size:
            return False
        (greeting,) = NUMBER.unpack_from(self._buffer, HEADER.size)
        return bool(greeting == self._greeting)

    def _welcome(self, header: Header) -> None:
        if self._session == header.session:
            return
        text = bytes(self._buffer[HEADER.size + NUMBER.size : HEADER.size + header.length])
        self.statement = MachineStatement.read(text)
        expect(header.session, "session of a machine", "be a number from 1", header.session)
        a, d = len(self.statement.actions), len(self.statement.sensors)
        self._session, self._number = header.session, 0
        self.sensors = Sensors(d)
        # Everything that a command and a reading need is made here, once.
        self._reading_size = READING.size + 8 * d
        self._values = np.frombuffer(self._buffer, "<f8", d, HEADER.size + READING.size)
        self._command = bytearray(size_of(ANSWERS.size + 8 * a))
        self._signed = memoryview(self._command)[: -CHECKSUM.size]
        self._action = np.frombuffer(self._command, "<f8", a, HEADER.size + ANSWERS.size)

    def _take(self, header: Header) -> bool:
        """Fill `sensors` from the buffer, if it holds newer ones that belong to the connection."""
        now, sensors = time.monotonic_ns(), self.sensors
        if header.kind != Kind.SENSORS or header.session != self._session or header.length != self._reading_size:
            return False
        if header.number <= sensors.number:
            return False
        self.missed += header.number - sensors.number - 1
        sensors.applied, sensors.tick, sensors.life, sensors.flags, sensors.reward = READING.unpack_from(
            self._buffer, HEADER.size
        )
        sensors.values[:] = self._values
        sensors.number, sensors.machine_ns, sensors.received_ns = header.number, header.time_ns, now
        return True


def _why_silent(busy: bool, version: int | None, seconds: float) -> str:
    if busy:
        return "it is commanded by another program"
    if version is not None:
        return f"it speaks version {version} of the protocol, and this is version {VERSION}"
    return f"it did not answer within {seconds:g} s"


GREETING = 5.0  # seconds in which a machine must answer a greeting, at least
REFUSED = 0.25  # seconds after which an address where no program listens is wrong
PATIENCE = 0.5  # periods that a loop at a rate waits at a tick for sensors that are late
LATE = 3.0  # periods after which the sensors count although the command did not
TIMEOUT = 1.0  # seconds of silence after which the machine has failed
PUT_BACK = "pull its lever (Enter where `resetfree machine` runs, or --operator lever:FILE with the file of its --key)"


class NotPutBack(ResetFreeError):
    """The operator said that the machine is put back, and its sensors say that it is not."""


class RemoteMachine(gymnasium.Env[Any, Any]):
    """A machine over a wire; its `client` sends commands and reads sensors without waiting.

    open_wire: opens the wire.
    timeout: seconds without sensors after which a step fails; at least four periods of the machine.
    """

    only_one = True  # a second one would command the same machine

    def __init__(self, open_wire: Callable[[], Wire], timeout: float = TIMEOUT) -> None:
        check(timeout, Annotated[float, Range(above=0, most=3600)], "'timeout' of a machine")
        wire = open_wire()
        expect(isinstance(wire, Wire), "wire of a machine", "be a Wire", wire)
        self.client = MachineClient(wire)
        try:
            self.statement: MachineStatement = self.client.connect(max(timeout, GREETING), refused_after=REFUSED)
        except BaseException:
            self.client.close()
            raise
        self.timeout = max(timeout, 4.0 / self.statement.rate)
        self.late = 0  # commands that did not count in time, or were lost
        self.rate, self.neutral = self.statement.rate, self.statement.neutral
        self._commanded = self._answered = 0  # numbers of the newest command, and of the sensors that it answers
        self.action_space = self.statement.action_space
        self.observation_space = self.statement.observation_space
        # What the machine says of itself identifies the problem; where it is does not.
        self.spec = EnvSpec(f"machine/{self.statement.name.replace(' ', '-')}-v0", kwargs={"says": self.statement.text})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Begin a new session with the machine, which the operator has put back; its chance is its own."""
        super().reset(seed=seed)
        statement = self.client.connect(max(self.timeout, GREETING))
        expect(statement == self.statement, "machine", "state the same after a reset", got=f"{statement.text}")
        if self.client.sensors.fallen:
            raise NotPutBack(f"it still lies where it fell ({statement.fall}): {PUT_BACK}")
        return self._observed()

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Command the action, and take the sensors after it."""
        number = self.client.command(action)
        if self.statement.lockstep:
            self._await_tick(number)
        else:
            self._await_newest(number)
        return self._after_command()

    def send(self, action: Floats) -> None:
        """Command the action; returns at once. `observe` and this are the halves of a step at a rate of one's own."""
        self._answered = self.client.sensors.number
        self._commanded = self.client.command(action)

    def observe(self) -> tuple[Floats, float, bool, bool, dict[str, Any]] | None:
        """The result of a step from the newest sensors; None if none came after those that the command answers.

        Waits for late ones for at most half a period, as a tick may be close to that of the machine; in lockstep until
        they come.
        """
        if self.statement.lockstep:
            self._await_tick(self._commanded)
        elif not self._newer_than(self._answered, PATIENCE / self.rate):
            return None
        self.late += self.client.sensors.applied < self._commanded
        return self._after_command()

    def arrival(self, seconds: float) -> int | None:
        """Wait, at most so long, for the next sensors; returns when they came, in ns of this computer's clock.

        Those that are there already do not count, as the time of their arrival is unknown.
        """
        while self.client.poll():
            pass
        return self.client.sensors.received_ns if self._newer_than(self.client.sensors.number, seconds) else None

    def is_held(self) -> bool:
        """Whether the machine is held until the first command; reads the sensors that came meanwhile."""
        while self.client.poll():
            pass
        return self.client.sensors.held

    def release(self) -> None:
        """End the session: nothing is commanded until the next reset, and the machine is its own master."""
        self.client.leave()

    def close(self) -> None:
        """End the session."""
        self.client.close()

    def _newer_than(self, number: int, seconds: float) -> bool:
        """Wait, at most so long, for sensors with a larger number."""
        client, end = self.client, time.monotonic() + seconds
        client.poll()
        while client.sensors.number <= number:
            left = end - time.monotonic()
            if left <= 0.0:
                return False
            client.wait(left)
            client.poll()
        return True

    def _after_command(self) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        observation, info = self._observed()
        return observation, self.client.sensors.reward, self.client.sensors.fallen, False, info

    def _observed(self) -> tuple[Floats, dict[str, Any]]:
        sensors = self.client.sensors
        info = {"number": sensors.number, "tick": sensors.tick, "life": sensors.life, "applied": sensors.applied}
        return sensors.values.copy(), info | {"received_ns": sensors.received_ns, "machine_ns": sensors.machine_ns}

    def _await_tick(self, number: int) -> None:
        """Wait for the sensors after this command; what was lost is sent again, and counts once."""
        now = time.monotonic()
        end, again = now + self.timeout, now + AGAIN
        while self.client.sensors.applied < number:
            self.client.wait(min(end, again) - time.monotonic())
            self.client.poll()
            now = time.monotonic()
            if now >= end and self.client.sensors.applied < number:
                raise self._silent()
            if now >= again:
                self.client.repeat()
                again = now + AGAIN

    def _await_newest(self, number: int) -> None:
        """Wait for sensors that this command counted in; after some periods newer ones must do."""
        client, before = self.client, self.client.sensors.number
        now = time.monotonic()
        end, late = now + self.timeout, now + LATE / self.statement.rate
        client.poll()
        while client.sensors.applied < number:
            now = time.monotonic()
            if now >= late and client.sensors.number > before:
                self.late += 1
                return
            if now >= end:
                raise self._silent()
            client.wait((late if now < late else end) - now)
            client.poll()

    def _silent(self) -> MachineSilent:
        return MachineSilent(f"no sensors came for {self.timeout:g} s")


def from_machine(
    address: str | Callable[[], Wire],
    *,
    timeout: float = TIMEOUT,
    operator: Operator | None = None,
    name: str | None = None,
    **options: Any,
) -> GymProblem:
    """A machine over UDP or a serial line as a problem: what it says of itself is the problem.

    address: udp://HOST:PORT, serial:///dev/NAME?baud=115200, or a function that opens a `Wire`.
    timeout: seconds without sensors after which the machine has failed.
    operator: puts the machine back after a fall (see `operators`). Default: a person at this terminal.
      `OperatorReset("lever:FILE")` pulls the lever of a `resetfree machine --key FILE`.
    name: of the problem; default: the machine's own.
    options: those of `from_gym`, such as `horizon`, `actions`, `features`, `reset_when`; the machine states actions,
      sensors, the range of rewards and what a fall is.

    `problem.env.client` reads sensors and sends commands without waiting.
    """
    perform = getattr(operator, "perform", None)
    expect(operator is None or callable(perform), "'operator' of from_machine", "perform resets", operator)
    if name is not None:
        words(name, "name of a problem")
    opened = address if callable(address) else lambda: open_wire(address)
    try:
        machine = RemoteMachine(opened, timeout)
    except MachineSilent as error:
        where = f" at {address}" if isinstance(address, str) else ""
        raise InvalidInput(f"The machine{where} cannot be commanded: {error}.") from error
    try:
        reward = machine.statement.reward
        if reward != (0.0, 1.0):
            options.setdefault("reward_range", reward)
        who = OperatorReset() if operator is None else operator
        problem = from_gym(machine, operator=who, name=name or machine.statement.name, **options)
    except BaseException:
        machine.close()
        raise
    problem.remake = lambda: RemoteMachine(opened, timeout)
    return problem
