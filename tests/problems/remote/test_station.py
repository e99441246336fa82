"""The machine's end: sessions, the watchdog, the lever, and everything that must do no harm. No clock, no socket."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resetfree as rf
from resetfree.problems.machines import cart_pole, switch_on
from resetfree.problems.remote.faults import MOST, Faults, FaultyPath, Freezes
from resetfree.problems.remote.packets import (
    ANSWERS,
    HEADER,
    NUMBER,
    PULL,
    PULLED,
    READING,
    Flag,
    Header,
    Kind,
    packet,
    read,
)
from resetfree.problems.remote.station import LEASE, Station

TOKEN = bytes(range(16))
TICK = 20_000_000  # ns
ME, OTHER = ("127.0.0.1", 1), ("127.0.0.1", 2)


class Desk:
    """A station with a clock that the test moves, and the program at its other end."""

    def __init__(self, name: str = "cartpole", **options: Any) -> None:
        self.station = Station(*switch_on(name, **options), TOKEN, seed=1)
        self.now, self.session, self.greeting = 10**15, 0, 0
        self.heard: list[tuple[Header, bytes]] = []

    def take(self, one: bytes, sender: Any = ME) -> list[tuple[Header, bytes]]:
        """The replies to a packet, all of which go back to the sender."""
        replies = self.station.receive(one, len(one), sender, self.now)
        assert all(to == sender for _, to in replies)
        return [opened(one) for one, _ in replies]

    def hello(self, sender: Any = ME, greeting: int | None = None) -> list[tuple[Header, bytes]]:
        self.greeting = self.greeting + 1 if greeting is None else greeting
        replies = self.take(packet(Kind.HELLO, 0, 0, 0, NUMBER.pack(self.greeting)), sender)
        if replies and replies[0][0].kind == Kind.WELCOME:
            self.session = replies[0][0].session
        return replies

    def command(
        self, number: int, action: float = 0.0, answers: int = 1, sender: Any = ME, session: int = 0
    ) -> list[Any]:
        payload = ANSWERS.pack(answers) + np.array([action]).tobytes()
        return self.take(packet(Kind.COMMAND, session or self.session, number, 0, payload), sender)

    def lever(self, number: int, token: bytes = TOKEN, sender: Any = OTHER) -> list[tuple[Header, bytes]]:
        return self.take(packet(Kind.LEVER, 0, 0, 0, PULL.pack(token, number)), sender)

    def tick(self, ticks: int = 1, late: int = 0) -> Any:
        """(applied, tick, life, flags, reward) and the sensors, None without a session."""
        for _ in range(ticks - 1):
            self.now += TICK
            self.station.skip(self.now)
        self.now += TICK
        one = self.station.advance(self.now + late, late)
        return None if one is None else reading(*opened(one))


def opened(one: bytes) -> tuple[Header, bytes]:
    header = read(one, len(one))
    assert header is not None
    return header, one[HEADER.size : -4]


def reading(header: Header, payload: bytes) -> tuple[Any, ...]:
    assert header.kind == Kind.SENSORS
    return (*READING.unpack_from(payload), np.frombuffer(payload, "<f8", offset=READING.size))


def test_a_greeting_is_answered_with_the_statement_and_sensors() -> None:
    desk = Desk()
    (welcome, text), (sensors, payload) = desk.hello()
    assert text[8:].decode() == desk.station.statement.text
    assert (welcome.session, sensors.session) == (desk.session, desk.session)
    assert desk.session > 0
    assert sensors.number == 1
    np.testing.assert_array_equal(reading(sensors, payload)[5], desk.station._machine.observation())


def test_it_moves_as_commanded_and_says_which_command_counted() -> None:
    desk, twin = Desk(), cart_pole.CartPole()
    observation, _ = twin.reset(seed=1)
    desk.hello()
    for i in range(1, 200):
        desk.command(i, float(cart_pole.controller(observation)[0]), answers=i)
        observation, reward, _, _, _ = twin.step(cart_pole.controller(observation))
        applied, tick, life, flags, paid, seen = desk.tick()
        assert (applied, tick, life, flags) == (i, i, 0, 0)
        assert paid == reward
        np.testing.assert_array_equal(seen, observation)
    counts = desk.station.counts
    assert (counts.commands, counts.due, counts.in_time, counts.falls) == (199, 198, 198, 0)
    assert counts.not_judged == 1  # the first sensors are sent when they are asked for, not at a tick


def test_without_commands_the_watchdog_takes_over_and_it_falls_and_stays_down() -> None:
    desk = Desk(watchdog_ms=100.0)
    desk.hello()
    desk.command(1, 1.0)
    flags = [desk.tick()[3] for _ in range(100)]
    assert flags[:5] == [0] * 5  # 100 ms
    assert flags[5] & Flag.NEUTRAL
    assert flags[-1] & Flag.FALLEN
    assert desk.station.counts.watchdog == 1
    assert desk.station.counts.falls == 1
    before = desk.tick()
    desk.command(2, -1.0)
    after = desk.tick()
    np.testing.assert_array_equal(before[5], after[5])
    assert (after[0], after[3] & Flag.FALLEN) == (2, Flag.FALLEN)


def test_nobody_greets_it_and_it_falls_too() -> None:
    desk = Desk()
    assert all(desk.tick() is None for _ in range(200))
    assert desk.station.fallen
    assert desk.station.counts.watchdog == 0  # no commands ceased


def test_the_lever_needs_its_token_and_is_pulled_once_per_number() -> None:
    desk = Desk()
    desk.tick(200)
    assert desk.lever(5, bytes(16)) == []
    assert desk.station.counts.wrong_token == 1
    assert desk.station.fallen
    ((header, payload),) = desk.lever(5)
    assert (header.kind, PULLED.unpack(payload)) == (Kind.PULLED, (5, 1))
    assert not desk.station.fallen
    ((_, payload),) = desk.lever(5)  # the confirmation was lost
    assert PULLED.unpack(payload) == (5, 1)
    assert desk.lever(4) == []  # an old one, played again
    assert desk.station.counts.pulls == 1


def test_after_a_pull_it_is_held_until_a_command_that_has_seen_it() -> None:
    desk = Desk()
    desk.hello()
    for _ in range(3):
        desk.tick()
    desk.lever(1)
    held = [desk.tick() for _ in range(300)]
    assert all(one[3] == Flag.HELD for one in held)
    np.testing.assert_array_equal(held[0][5], held[-1][5])
    desk.command(1, answers=4)  # sent before the pull
    assert desk.tick()[3] & Flag.HELD
    desk.command(2, answers=306)
    assert not desk.tick()[3] & Flag.HELD
    assert desk.station.counts.falls == 0


def test_a_new_session_after_a_pull_is_held_until_its_first_command() -> None:
    desk = Desk()
    desk.hello()
    desk.lever(1)
    ((_, _), (header, payload)) = desk.hello()
    assert reading(header, payload)[2:4] == (1, Flag.HELD)
    desk.command(1, answers=1)
    assert desk.tick()[3] == 0


def test_replays_other_senders_and_other_sessions_are_dropped() -> None:
    desk = Desk()
    desk.hello()
    first = desk.session
    desk.command(3, 0.5)
    for number in (1, 2, 3):
        desk.command(number, -1.0)
    desk.command(9, -1.0, sender=OTHER)
    desk.command(9, -1.0, session=first ^ 2)
    counts = desk.station.counts
    assert (counts.commands, counts.repeated, counts.wrong_sender, counts.wrong_session) == (1, 3, 1, 1)
    assert desk.station._action.tolist() == [0.5]
    desk.hello()
    assert desk.session != first
    desk.command(4, -1.0, session=first)
    assert counts.wrong_session == 2
    assert desk.station._action.tolist() == [0.0]


def test_one_program_at_a_time_until_it_falls_silent_or_leaves() -> None:
    desk = Desk()
    desk.hello()
    mine = desk.session
    ((busy, payload),) = desk.hello(OTHER, 99)
    assert (busy.kind, NUMBER.unpack(payload), desk.session) == (Kind.BUSY, (99,), mine)
    assert desk.station.client == ME
    desk.now += LEASE
    assert desk.hello(OTHER, 100)[0][0].kind == Kind.WELCOME
    assert desk.station.client == OTHER
    desk.take(packet(Kind.BYE, desk.session, 0, 0), OTHER)
    assert desk.station.client is None
    assert desk.hello(ME, 1)[0][0].kind == Kind.WELCOME


def test_a_greeting_counts_once_and_an_older_one_not_at_all() -> None:
    desk = Desk()
    desk.hello(greeting=7)
    mine = desk.session
    assert [one.kind for one, _ in desk.hello(greeting=7)] == [Kind.WELCOME, Kind.SENSORS]
    assert desk.session == mine
    assert desk.hello(greeting=6) == []
    assert desk.station.counts.sessions == 1
    desk.hello(greeting=8)
    assert desk.session != mine


def test_in_lockstep_a_command_is_one_tick_and_counts_once() -> None:
    desk = Desk(lockstep=True)
    desk.hello()
    ((one, payload),) = desk.command(1, 0.3)
    assert desk.command(1, 0.3) == [(one, payload)]
    assert desk.station.counts.ticks == 1
    desk.now += 3600 * 10**9  # no watchdog
    ((_, later),) = desk.command(2, 0.3, answers=2)
    assert reading(one, later)[:4] == (2, 2, 0, 0)
    assert desk.command(1, 0.3) == []


def test_skipped_ticks_pass_and_are_counted() -> None:
    desk = Desk()
    desk.hello()
    desk.tick()
    desk.command(1, answers=2)
    assert desk.tick(3)[1] == 4
    counts = desk.station.counts
    assert counts.skipped == 2
    assert (counts.due, counts.in_time, counts.not_judged) == (1, 1, 2)


@pytest.mark.parametrize("late", [0.0, 0.2, 0.3])
@pytest.mark.parametrize("answers", [2, 1])
def test_a_command_is_due_after_sensors_that_were_sent_on_time_and_after_no_others(late: float, answers: int) -> None:
    desk = Desk()
    desk.hello()
    desk.tick(late=int(late * TICK))
    desk.command(1, answers=answers)  # the newest sensors, or older ones
    desk.tick()
    counts, judged = desk.station.counts, late < 0.25
    assert (counts.due, counts.in_time, counts.not_judged) == (judged, judged and answers == 2, not judged)


def test_no_command_is_due_before_the_first_one_of_a_session_and_while_it_is_held() -> None:
    desk, counts = Desk(), None
    desk.hello()
    desk.tick()  # whoever only watches need not command
    desk.station.pull()
    desk.tick()
    counts = desk.station.counts
    assert (counts.due, counts.ticks) == (0, 2)
    desk.command(1, answers=3)
    desk.tick()
    desk.tick()
    assert (counts.due, counts.in_time) == (2, 1)


@pytest.mark.parametrize(
    "payload", [b"", bytes(8), bytes(15), bytes(24), ANSWERS.pack(1) + np.array([np.nan]).tobytes()]
)
def test_a_command_of_another_size_or_without_a_number_is_dropped(payload: bytes) -> None:
    desk = Desk()
    desk.hello()
    assert desk.take(packet(Kind.COMMAND, desk.session, 1, 0, payload)) == []
    assert desk.station.counts.malformed == 1
    assert desk.station.counts.commands == 0


@given(
    st.lists(
        st.tuples(st.sampled_from(list(Kind)), st.integers(0, 3), st.binary(max_size=40), st.booleans()), max_size=30
    )
)
def test_whatever_comes_in_it_goes_on_and_nothing_but_the_lever_puts_it_back(parts: list[Any]) -> None:
    """Packets in order but without sense, of the right session too, and random bytes."""
    desk = Desk(lockstep=False)
    desk.hello()
    for kind, number, payload, right in parts:
        desk.take(packet(kind, desk.session if right else number, number, 0, payload), ME if right else OTHER)
        desk.station.receive(payload, len(payload), OTHER, desk.now)
        desk.tick()
    counts = desk.station.counts
    assert counts.ticks == len(parts)
    assert counts.pulls == desk.station.life == 0
    assert np.isfinite(desk.station._observation).all()


N = 20_000
MS = 1_000_000


def sent(faults: Faults, seed: int = 0) -> list[int]:
    """Which packets came out, in order, when one was sent each millisecond."""
    path, out = FaultyPath(faults, seed, MS), []
    for i in range(N):
        path.put(str(i).encode(), None, i * MS)
        out += [int(packet) for packet, _ in path.due(i * MS)]
    return out + [int(packet) for packet, _ in path.due(10 * N * MS)]


def test_loss_duplication_and_reordering_are_as_frequent_as_stated() -> None:
    assert len(sent(Faults(loss=0.1))) == pytest.approx(0.9 * N, rel=0.02)
    assert len(sent(Faults(duplicate=0.1))) == pytest.approx(1.1 * N, rel=0.02)
    out = sent(Faults(reorder=0.1))
    assert sorted(out) == list(range(N))
    assert sum(a > b for a, b in pairwise(out)) == pytest.approx(0.1 * N, rel=0.15)
    assert sent(Faults()) == list(range(N))


def test_a_seed_decides_everything() -> None:
    faults = Faults(loss=0.1, duplicate=0.1, reorder=0.1)
    assert sent(faults, 1) == sent(faults, 1) != sent(faults, 2)


def test_packets_are_late_by_the_delay() -> None:
    path = FaultyPath(Faults(delay_ms=5.0), 0, MS)
    path.put(b"x", "there", 0)
    assert path.next_due == 5 * MS
    assert list(path.due(5 * MS - 1)) == []
    assert list(path.due(5 * MS)) == [(b"x", "there")]
    assert path.next_due is None


def test_a_flood_is_not_kept() -> None:
    path = FaultyPath(Faults(delay_ms=5.0), 0, MS)
    for _ in range(3 * MOST):
        path.put(b"x", None, 0)
    assert len(list(path.due(5 * MS))) == MOST


def test_a_freeze_lasts_as_long_as_stated() -> None:
    freezes = Freezes(Faults(freeze=1.0, freeze_ms=3.0), 0)
    assert not freezes.frozen(0)
    freezes.tick(0)
    assert [freezes.frozen(ms * MS) for ms in range(5)] == [True, True, True, False, False]
    rare = Freezes(Faults(freeze=0.01, freeze_ms=0.0), 0)
    for i in range(N):
        rare.tick(i)
    assert rare.begun == pytest.approx(0.01 * N, rel=0.3)


@pytest.mark.parametrize("wrong", [{"loss": 1.5}, {"delay_ms": -1.0}, {"freeze": "often"}, {"freeze_ms": 1e9}])
def test_wrong_faults_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(rf.InvalidInput, match="of faults must be"):
        Faults(**wrong)
