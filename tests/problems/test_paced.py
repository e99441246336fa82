"""Episodes at a rate: those of a world that waits if nothing is late, and what is promised if something is."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import RescaleAction
from tests.core.simulated_clock import Simulated
from tests.problems.remote.machines_served import served
from tests.waiting import until

import resetfree as rf
from resetfree.core import EnvironmentFailed, Notice
from resetfree.core.ticks import SECOND, Ticks
from resetfree.problems.paced import SILENT, Holding, rate_for, rollout_at_rate, safe_action
from resetfree.problems.stepping import SteppedProblem

RATE, PERIOD = 100.0, SECOND // 100
AT_RATE = rf.Deadlines(RATE)


@dataclass
class Noisy(rf.Policy):
    """A point of a box that is drawn around zero."""

    size: int

    def act(self, h: int, s: Any, u: Any) -> Any:
        return 2.0 * np.array(u[: self.size]) - 1.0


def cartpole(folder: Path) -> Iterator[tuple[SteppedProblem, Any]]:
    yield rf.from_gym("gym:CartPole-v1", horizon=30), lambda h, s: [0.5, 0.5]


def pendulum(folder: Path) -> Iterator[tuple[SteppedProblem, Any]]:
    yield rf.from_gym("gym:Pendulum-v1", horizon=30, reward_range=(-16.3, 0.0)), Noisy(1)


def interval(folder: Path) -> Iterator[tuple[SteppedProblem, Any]]:
    yield rf.make("continuous-linear-v0").problem(), lambda h, s: [0.2, 0.3, 0.5]


def lockstep(folder: Path) -> Iterator[tuple[SteppedProblem, Any]]:
    with served(folder, lockstep=True, seed=3) as machine, machine.problem(horizon=30) as problem:
        yield problem, Noisy(1)


@pytest.mark.parametrize("made", [cartpole, pendulum, interval, lockstep])
def test_with_a_clock_that_is_never_late_an_episode_is_that_of_a_world_that_waits(
    made: Callable[[Path], Iterator[tuple[SteppedProblem, Any]]], tmp_path: Path
) -> None:
    def played(at_rate: bool) -> list[rf.Episode]:
        with contextmanager(made)(tmp_path) as (problem, policy):
            ticks = Ticks(RATE, clock=Simulated().clock)
            rng, start, found = np.random.default_rng(0), None, []
            for _ in range(6):
                if start is None:
                    chance = rng.random()
                    start = problem.perform_reset(chance, "") if problem.persistent else problem.first_start(chance)
                u = rng.random(problem.n_uniforms)
                if at_rate:
                    episode = rollout_at_rate(problem, policy, start, u, ticks, AT_RATE)
                    assert (ticks.missed, ticks.latest_ns) == (0, 0)
                else:
                    episode = problem.rollout(policy, start, u)
                found.append(episode)
                start = episode.next_start
            return found

    for waits, does_not in zip(played(False), played(True), strict=True):
        for name in ("states", "actions", "rewards"):
            one, other = getattr(waits, name), getattr(does_not, name)
            np.testing.assert_array_equal(one, other, strict=True)
        assert (waits.reset, waits.goals) == (does_not.reset, does_not.goals)
        np.testing.assert_equal(waits.next_start, does_not.next_start)
        np.testing.assert_equal(waits.original_return, does_not.original_return)


def test_the_first_episode_shows_the_units_of_rewards() -> None:
    problem = rf.from_gym("gym:Pendulum-v1", horizon=20)
    ticks = Ticks(RATE, clock=Simulated().clock)
    start = problem.perform_reset(0.5, "start")
    with pytest.warns(Notice, match="as the first episode suggests"):
        episode = rollout_at_rate(problem, Noisy(1), start, np.full(20, 0.7), ticks, AT_RATE)
    assert 0.0 <= episode.rewards.min() < episode.rewards.max() <= 1.0


class Belt(gymnasium.Env[Any, Any]):
    """A world that goes on by itself: it shows the seconds that have passed, and what it was commanded before.

    deaf: from when until when no sensors come, ns.
    """

    action_space = spaces.Box(-10.0, 10.0, (1,), np.float64)
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    rate, timeout = RATE, 0.2

    def __init__(self, world: Simulated, deaf: tuple[int, int] = (0, 0), ends_at: int = 10**18) -> None:
        self.world, self.deaf, self.ends_at = world, deaf, ends_at
        self.sent: list[tuple[float, float]] = []  # in periods

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(2), {}

    def step(self, action: Any) -> Any:
        raise AssertionError("a world that does not wait is not stepped")

    def send(self, action: Any) -> None:
        self.sent.append((self.world.now / PERIOD, float(action[0])))

    def observe(self) -> Any:
        if self.deaf[0] <= self.world.now < self.deaf[1]:
            return None
        seen = np.array([self.world.now / SECOND, self.sent[-1][1]])
        return seen, 0.5, self.world.now >= self.ends_at, False, {}


@dataclass
class Thinks(rf.Policy):
    """Takes so many ns for each of its first decisions; commands the number of the step, or another number."""

    world: Simulated
    lasts: list[int] = field(default_factory=list)
    always: float | None = None

    def act(self, h: int, s: Any, u: Any) -> Any:
        if self.lasts:
            self.world.now += self.lasts.pop(0)
        return np.array([float(h) / 10.0 if self.always is None else self.always])


def play(env: Any, policy: rf.Policy, horizon: int = 6, **deadlines: Any) -> tuple[rf.Episode, Ticks, SteppedProblem]:
    problem = rf.from_gym(env, horizon=horizon, name="belt", reset_when="terminated")
    ticks = Ticks(RATE, clock=env.unwrapped.world.clock)
    start = problem.perform_reset(0.5, "start")
    u = np.full(problem.n_uniforms, 0.5)
    return rollout_at_rate(problem, policy, start, u, ticks, rf.Deadlines(RATE, **deadlines)), ticks, problem


def test_commands_go_out_at_their_tick_and_their_result_is_read_at_the_next() -> None:
    world = Simulated()
    belt = Belt(world)
    episode, ticks, problem = play(belt, Thinks(world))
    assert belt.sent == [(float(n), (n + 1) / 10.0) for n in range(6)]
    np.testing.assert_allclose(episode.states[:, 0], [n / 100.0 for n in range(7)], atol=1e-12)
    np.testing.assert_array_equal(episode.states[1:, 1], episode.actions[:, 0])
    assert (ticks.number, ticks.missed) == (6, 0)
    u = np.full(6, 0.5)
    rollout_at_rate(problem, Thinks(world), episode.next_start, u, ticks, AT_RATE)
    assert belt.sent[6][0] == 6.0  # the next episode begins at the tick at which this one ended
    with pytest.raises(EnvironmentFailed, match="not stepped"):
        problem.rollout(Thinks(world), np.array([0.12, 0.6]), u)  # as it was before


def test_a_late_loop_skips_ticks_and_holds_its_action() -> None:
    world = Simulated()
    belt = Belt(world)
    episode, ticks, _ = play(belt, Thinks(world, [0, int(3.5 * PERIOD)]))
    assert [at for at, _ in belt.sent] == [0, 4.5, 5, 6, 7, 8]  # no burst: those of the ticks 2, 3, 4 fell out
    assert (ticks.missed, ticks.number) == (3, 9)
    assert ticks.latest_ns == 3.5 * PERIOD
    assert len(episode.actions) == 6


def test_the_fallback_acts_after_a_skipped_tick() -> None:
    world = Simulated()
    belt = Belt(world)
    episode, ticks, _ = play(belt, Thinks(world, [0, int(2.5 * PERIOD)]), fallback=Thinks(world, always=-1.0))
    np.testing.assert_allclose(episode.actions[:, 0], [0.1, 0.2, -1.0, 0.4, 0.5, 0.6])
    assert ticks.missed == 2


@pytest.mark.parametrize(
    ("lasts", "most", "actions"),
    [
        ([0, int(5.5 * PERIOD)], 4, [0.1, 0.2, 5.0]),  # one long thought
        ([int(2.5 * PERIOD)] * 9, 4, [0.1, 0.2, 5.0]),  # each of them misses
        ([int(1.5 * PERIOD), 0, int(1.5 * PERIOD), 0], 2, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),  # never in a row
    ],
)
def test_after_too_many_misses_in_a_row_the_safe_action_ends_the_episode(
    lasts: list[int], most: int, actions: list[float]
) -> None:
    world = Simulated()
    belt = Belt(world)
    episode, ticks, problem = play(belt, Thinks(world, lasts), most_missed=most, safe=[5.0])
    np.testing.assert_allclose(episode.actions[:, 0], actions)
    assert [action for _, action in belt.sent] == pytest.approx(actions)
    assert not episode.reset
    assert len(episode.states) == len(episode.rewards) + 1 == len(actions) + 1
    again = rollout_at_rate(problem, Thinks(world), episode.next_start, np.full(6, 0.5), ticks, AT_RATE)
    assert len(again.actions) == 6  # the run goes on


def test_without_sensors_nothing_is_commanded_but_the_safe_action_once_and_the_environment_has_failed() -> None:
    world = Simulated()
    belt = Belt(world, deaf=(3 * PERIOD, 10**18))
    with pytest.raises(EnvironmentFailed, match=r"At step 3 .* no sensors came for 0\.2 s\."):
        play(belt, Thinks(world), safe=[5.0])
    assert belt.sent == [(0.0, 0.1), (1.0, 0.2), (2.0, 0.3), (2.0 + SILENT, 5.0)]


@pytest.mark.parametrize(("silent", "short"), [(1, False), (SILENT - 1, False), (SILENT, True), (10, True)])
def test_sensors_that_come_back_end_the_episode_if_the_safe_action_was_sent(silent: int, short: bool) -> None:
    world = Simulated()
    belt = Belt(world, deaf=(3 * PERIOD, (3 + silent) * PERIOD))
    episode, ticks, _ = play(belt, Thinks(world), safe=[5.0])
    assert not episode.reset
    assert len(episode.actions) == (3 if short else 6)
    assert ticks.missed == silent  # no command went out at these
    assert (5.0 in [action for _, action in belt.sent]) == short
    assert episode.states[3, 0] == pytest.approx((3 + silent) / 100.0)


def test_whatever_fails_the_safe_action_is_sent_and_the_environment_is_left_as_it_was() -> None:
    world = Simulated()
    belt = Belt(world)

    class Breaks(Thinks):
        def act(self, h: int, s: Any, u: Any) -> Any:
            return np.array([99.0]) if h == 3 else super().act(h, s, u)

    with pytest.raises(rf.InvalidInput, match=r"An action of 'belt' must be .* Got \[99\.0\] at step 3"):
        play(belt, Breaks(world))
    assert belt.sent[-1] == (2.0, 0.0)  # the middle
    assert "step" not in vars(belt)


def test_the_safe_action_goes_through_wrappers_of_actions() -> None:
    world = Simulated()
    belt = Belt(world, deaf=(PERIOD, 10**18))
    wrapped = RescaleAction(belt, np.array([-1.0]), np.array([1.0]))
    with pytest.raises(EnvironmentFailed, match="no sensors"):
        play(wrapped, Thinks(world), safe=[0.5])
    assert [action for _, action in belt.sent] == [pytest.approx(1.0), pytest.approx(5.0)]


def test_between_episodes_the_safe_action_is_commanded_at_every_tick_unless_the_machine_is_held() -> None:
    belt = Belt(Simulated())
    problem = rf.from_gym(belt, name="belt", reset_when="terminated")
    holding = Holding(problem, rf.Deadlines(1000.0, safe=[2.0]))
    assert not holding.commanded
    began = time.monotonic()

    def enough() -> bool:
        holding.look()
        return len(belt.sent) >= 20

    until(enough, pause=0.0)
    assert holding.commanded
    assert len(belt.sent) <= 1000.0 * (time.monotonic() - began) + 2  # by the clock, however often it looks
    assert {action for _, action in belt.sent} == {2.0}
    vars(belt).update(is_held=lambda: True, release=lambda: belt.sent.append((0.0, 99.0)))
    belt.sent.clear()
    held = Holding(problem, rf.Deadlines(1000.0, safe=[2.0]))
    held.look()
    assert (belt.sent, held.commanded) == ([], False)
    held.release()
    assert belt.sent == [(0.0, 2.0), (0.0, 99.0)]


def test_a_simulated_world_waits_between_episodes() -> None:
    cart = rf.from_gym("gym:CartPole-v1")
    cart.perform_reset(0.5, "start")
    inside: Any = cart.env.unwrapped
    before = list(inside.state)
    holding = Holding(cart, AT_RATE)
    holding.look()
    holding.release()
    assert list(inside.state) == before
    assert not holding.commanded


def test_no_policy_acts_on_sensors_from_before_a_wait() -> None:
    world = Simulated()
    belt = Belt(world)
    problem = rf.from_gym(belt, horizon=3, name="belt", reset_when="terminated")
    ticks, deadlines = Ticks(RATE, clock=world.clock), rf.Deadlines(RATE, safe=[5.0])
    start = problem.perform_reset(0.5, "start")
    world.now += 40 * PERIOD
    episode = rollout_at_rate(problem, Thinks(world), start, np.full(3, 0.5), ticks, deadlines, moved=True)
    np.testing.assert_allclose(episode.actions[:, 0], [5.0, 0.2, 0.3])
    assert episode.states[1, 0] == pytest.approx(0.41)
    assert ticks.missed == 1  # no command of the policy went out at that tick


def test_after_a_reset_the_grid_begins_anew() -> None:
    world = Simulated()
    belt = Belt(world, ends_at=3 * PERIOD)
    episode, ticks, problem = play(belt, Thinks(world))
    assert (episode.reset, len(episode.actions), ticks.begun) == (True, 3, False)
    world.now += 500 * PERIOD  # the operator
    belt.ends_at = 10**18
    start = problem.perform_reset(0.5, "reset")
    rollout_at_rate(problem, Thinks(world), start, np.full(6, 0.5), ticks, AT_RATE)
    assert (ticks.missed, ticks.latest_ns) == (0, 0)


def test_a_simulated_environment_that_is_slow_skips_ticks_too() -> None:
    world = Simulated()

    class Slow(gymnasium.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            world.now += int(1.5 * PERIOD)
            return super().step(action)

    problem = rf.from_gym(Slow(gymnasium.make("CartPole-v1")), horizon=8, name="slow")
    ticks = Ticks(RATE, clock=world.clock)
    start = problem.perform_reset(0.5, "start")
    episode = rollout_at_rate(problem, lambda h, s: [0.5, 0.5], start, np.full(8, 0.3), ticks, AT_RATE)
    assert len(episode.actions) == 8
    assert (ticks.missed, ticks.number) == (8, 16)
    assert ticks.latest_ns == 1.5 * PERIOD


def test_rates_and_safe_actions_are_stated_or_found() -> None:
    world = Simulated()
    belt = rf.from_gym(Belt(world), name="belt", reset_when="terminated")
    assert (rate_for(belt), rate_for(belt, 50), rate_for(belt, RATE)) == (RATE, 50.0, RATE)
    with pytest.raises(
        rf.InvalidInput, match=r"must be at most 100 Hz, at which sensors of 'belt' come\. Got 200 instead"
    ):
        rate_for(belt, 200.0)
    assert safe_action(belt).tolist() == [0.0]
    assert safe_action(belt, 2).tolist() == [2.0]
    with pytest.raises(rf.InvalidInput, match=r"The safe action of 'belt' must be 1 number in \[-10, 10\]\. Got 50"):
        safe_action(belt, 50)
    belt.env.neutral = (3.0,)  # type: ignore[attr-defined]
    assert safe_action(belt).tolist() == [3.0]
    listed = rf.from_gym(belt.env, actions=[[-10.0], [2.5], [10.0]], name="belt", reset_when="terminated")
    assert safe_action(listed) == 1
    cart = rf.from_gym("gym:CartPole-v1")
    assert safe_action(cart) == 0
    with pytest.raises(rf.InvalidInput, match="states no rate of its own: give one in Hz"):
        rate_for(cart)
    with pytest.raises(rf.InvalidInput, match="'most_missed' must be a positive integer"):
        rf.Deadlines(RATE, most_missed=0)
