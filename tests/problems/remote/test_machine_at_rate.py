"""A machine in a process of its own, played by the clock. Counts only: a busy computer may delay anything."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.simulated_clock import Simulated
from tests.show.cli.test_cli_machine import Program
from tests.waiting import LONG

import resetfree as rf
from resetfree.core import EnvironmentFailed
from resetfree.core.ticks import SECOND, Ticks
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.machines import cart_pole
from resetfree.problems.paced import GOOD, align, begin, rate_for, rollout_at_rate, safe_action


@dataclass
class Balances(rf.Policy):
    """A controller that keeps the pole up; at the given step it stops the process."""

    process: int = 0
    stops_at: int = 0

    def act(self, h: int, s: Any, u: Any) -> Any:
        if h == self.stops_at:
            os.kill(self.process, signal.SIGSTOP)
        return cart_pole.controller(s)


@contextmanager
def switched_on(folder: Path, rate: str) -> Iterator[tuple[Program, GymProblem]]:
    program = Program(folder, "cartpole", "--rate", rate)
    try:
        operator = rf.OperatorReset(f"lever:{program.file}")
        with closing(rf.from_machine(program.key.url, horizon=20, operator=operator, timeout=LONG)) as problem:
            yield program, problem
    finally:
        program.process.kill()
        program.process.communicate()


def play(problem: GymProblem, ticks: Ticks, policy: rf.Policy, start: Any) -> tuple[rf.Episode, Any]:
    start = problem.perform_reset(0.5, "reset") if start is None else start
    deadlines = rf.Deadlines(ticks.rate, most_missed=1000)
    episode = rollout_at_rate(problem, policy, start, np.zeros(problem.n_uniforms), ticks, deadlines)
    return episode, episode.next_start


def test_a_machine_is_played_at_its_own_rate_and_counts_what_comes_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with switched_on(tmp_path, "50") as (program, problem):
        env: Any = problem.env
        assert rate_for(problem) == 50.0
        with pytest.raises(rf.InvalidInput, match="must be at most 50 Hz"):
            rate_for(problem, 100.0)
        assert safe_action(problem).tolist() == [0.0]
        ticks, start, steps, sent, missed = Ticks(rate_for(problem)), None, 0, [0], 0
        send = env.send
        monkeypatch.setattr(env, "send", lambda action: (sent.__setitem__(0, sent[0] + 1), send(action)))
        for _ in range(4):
            episode, start = play(problem, ticks, Balances(), start)
            assert 0 < len(episode.actions) <= 20
            assert (np.diff(episode.states, axis=0) != 0).any(axis=1).all()  # no sensors are read twice
            steps, missed = steps + len(episode.actions), missed + ticks.missed
        late = env.late
        problem.close()
        said = program.end()
    assert said["commands"] == sent[0] >= steps
    assert 0 <= late <= steps
    assert 0 < said["in_time"] <= said["due"] <= said["ticks"]
    assert missed >= 0


def test_a_machine_that_falls_silent_is_commanded_no_more_and_is_played_again_when_it_is_back(tmp_path: Path) -> None:
    with switched_on(tmp_path, "50") as (program, problem):
        env: Any = problem.env
        ticks = Ticks(50.0)
        env.timeout = 0.5
        with pytest.raises(EnvironmentFailed, match=r"At step 1 of .* no sensors came for 0\.5 s"):
            play(problem, ticks, Balances(program.process.pid, stops_at=1), None)
        assert not ticks.begun
        os.kill(program.process.pid, signal.SIGCONT)
        env.timeout = LONG
        episode, _ = play(problem, ticks, Balances(), None)
        assert len(episode.actions) > 0


class Sends:
    """Sensors that come at multiples of a period after some moment."""

    def __init__(self, rate: float, first: int) -> None:
        self.rate, self._first = rate, first

    def arrival(self, seconds: float) -> int:
        return self._first


@given(
    st.sampled_from([50.0, 100.0, 500.0]), st.sampled_from([1, 2, 5]), st.integers(0, SECOND), st.integers(0, SECOND)
)
def test_ticks_are_put_a_little_after_the_sensors(rate: float, every: int, begun: int, first: int) -> None:
    ticks = Ticks(rate / every, clock=Simulated(begun=begun).clock)
    ticks.begin()
    before = ticks.next_ns
    align(ticks, Sends(rate, first))
    period = SECOND / rate
    after = (ticks.next_ns - first) % period / period
    assert GOOD[0] - 1e-6 <= after <= GOOD[1] + 1e-6
    assert begun < ticks.next_ns
    assert -period <= ticks.next_ns - before < period
    moved = ticks.next_ns
    align(ticks, Sends(rate, first))
    assert ticks.next_ns == moved


@pytest.mark.parametrize(
    ("came", "now", "tick"), [(1.0, 1.02, 1.1), (2.0, 2.01, 2.1), (1.75, 1.8, 1.9)], ids=["early", "late", "well"]
)
def test_moving_the_ticks_leaves_none_of_the_machine_out(came: float, now: float, tick: float) -> None:
    """Tick 0 is at 0.9 periods, so that the next would be at 1.9; the next sensors are those to be answered."""
    period, world = SECOND // 100, Simulated()
    world.now = round(0.9 * period)
    ticks = Ticks(100.0, clock=world.clock)
    ticks.begin()
    world.now = round(now * period)
    align(ticks, Sends(100.0, round(came * period)))
    assert (ticks.wait(), world.now) == (0, round(tick * period))


class Held(Sends):
    """The same, by this computer's clock; it may be held until the first command."""

    def __init__(self, held: bool) -> None:
        super().__init__(100.0, 0)
        self.held, self.waited_for = held, list[int]()

    def is_held(self) -> bool:
        return self.held

    def arrival(self, seconds: float) -> int:
        self.waited_for.append(time.monotonic_ns())
        return self.waited_for[-1]


@pytest.mark.parametrize("held", [True, False])
def test_a_machine_that_is_held_is_freed_at_a_tick_after_its_sensors_and_another_is_commanded_at_once(
    held: bool,
) -> None:
    ticks, machine = Ticks(100.0), Held(held)
    begin(ticks, machine)
    assert (len(machine.waited_for), ticks.number > 0) == (held, held)
    if held:
        assert GOOD[0] <= (ticks.due_ns - machine.waited_for[0]) * 100.0 / SECOND % 1.0 <= GOOD[1]


@pytest.mark.parametrize("rate", [70.0, 30.0, 200.0])
def test_ticks_that_do_not_keep_their_distance_stay_where_they_are(rate: float) -> None:
    ticks = Ticks(rate, clock=Simulated().clock)
    ticks.begin()
    before = ticks.next_ns
    align(ticks, Sends(100.0, before))
    assert ticks.next_ns == before
