"""When a run stands still: what is, what is not, and that each threshold decides something."""

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.problems import Intervention
from resetfree.runs import stuck
from resetfree.runs.stuck import Watch

Row = tuple[float, Any]  # reward and end of an episode


def alarms(rows: Iterable[Row], horizon: int = 500, bounds: Any = None) -> list[int]:
    """The episodes in which a run with these rewards and ends is found to be stuck."""
    watch, start, found = Watch(horizon, bounds), None, []
    for k, (reward, end) in enumerate(rows, start=1):
        found += (
            [k] if watch.see(k, end if start is None else start, reward, False, end, goals=0, steps=horizon) else []
        )
        start = end
    return found


def at(reward: float, n: int, place: Any = 0) -> list[Row]:
    """Episodes that earn the same and end at the same place."""
    return [(reward, place)] * n


def jitter(n: int, size: float, *, home: float = 0.5, d: int = 2, seed: int = 0) -> list[Row]:
    rng = np.random.default_rng(seed)
    return [(0.0, home + size * rng.uniform(-1, 1, d)) for _ in range(n)]


def wander(n: int, d: int = 2) -> list[Row]:
    rng = np.random.default_rng(1)
    return [(300.0, rng.uniform(0, 1, d)) for _ in range(n)]


def draining(n: int) -> list[Row]:
    """Wedged, while a battery drains from 1 to 0: one number in four."""
    return [(0.0, np.array([0.5, 0.5, 0.5, 1 - i / n])) for i in range(n)]


UNIT = (np.zeros(2), np.ones(2))
# By threshold: how to turn it off, and a run on which that changes the verdict.
CASES: dict[str, tuple[float, Callable[[], list[int]], list[int]]] = {
    "EPISODES": (1, lambda: alarms(at(0, 25)), [20]),
    "STEPS": (1, lambda: alarms(at(0, 110), horizon=5), [100]),
    "LONGER": (0, lambda: alarms([*at(0, 15), *at(300, 1), *at(0, 35)]), [46]),
    "QUARTER": (1, lambda: alarms([*at(300, 1, 7), *at(0, 1), *at(120, 60)]), []),
    "GAP": (0, lambda: alarms([*at(250, 1, 7), *at(249, 1), *at(249.1, 60)]), []),
    "MANY": (0, lambda: alarms([*at(3, 1), *at(0, 1), *at(0.5, 60)]), []),
    "THIRD": (1, lambda: alarms([*at(500, 1), *at(240, 60)]), []),
    "PLACES": (inf, lambda: alarms([(0.0, i % 10) for i in range(60)]), []),
    "PER_PLACE": (inf, lambda: alarms([(0.0, i // 5) for i in range(39)]), [20]),
    "NEAR": (0, lambda: alarms([*wander(9), *jitter(25, 0.01)]), [29]),
    "FINE": (0, lambda: alarms(jitter(25, 0.0005), bounds=UNIT), [20]),
    "FREE": (inf, lambda: alarms([*wander(9, 4), *draining(25)]), [29]),
}


@pytest.mark.parametrize("threshold", CASES)
def test_each_threshold_decides_something(threshold: str, monkeypatch: pytest.MonkeyPatch) -> None:
    off, play, expected = CASES[threshold]
    assert play() == expected
    monkeypatch.setattr(stuck, threshold, off)
    assert play() != expected


def test_it_is_said_again_whenever_that_has_lasted_twice_as_long() -> None:
    """199 episodes in a corner after one outside of it."""
    assert alarms([*at(300, 1), *at(0, 199, 5)]) == [21, 41, 81, 161]
    assert alarms(at(0, 199, 5)) == [20, 40, 80, 160]  # from the first step on: nothing was ever earned


def test_what_earns_what_it_ever_earned_does_not_stand_still() -> None:
    assert alarms(at(500, 1000)) == []  # a balanced pole
    assert alarms([*at(20, 100), *at(140, 1000)]) == []  # a policy that has converged
    assert alarms([(0.0, i) for i in range(1000)]) == []  # nothing is paid before the goal, and it explores
    assert alarms([*at(2, 300), *at(2.1, 300)]) == []  # hardly paid, but always as much
    assert alarms([*wander(300), *[(0.0, end) for _, end in wander(300)]]) == []  # it earns nothing, and it moves


def test_a_best_episode_that_began_elsewhere_needs_no_luck() -> None:
    """A robot that drives forth and back has half of the largest reward where it is wedged."""
    assert alarms([*at(500, 1, 7), *at(500, 1, 3), *at(240, 25, 3)]) == [22]
    assert alarms([*at(500, 1, 3), *at(240, 25, 3)]) == []


def test_a_reset_and_a_goal_are_no_standing_still() -> None:
    for reset, goals in ((True, 0), (False, 1)):
        watch = Watch(500)
        assert not any(
            watch.see(k, 0, 0.0, reset and k % 15 == 0, 0, goals=goals * (k % 15 == 0), steps=500)
            for k in range(1, 300)
        )


def test_a_run_that_was_moved_begins_anew_and_was_not_freed_by_itself() -> None:
    watch = Watch(500)
    assert [watch.see(k, 0, 0.0, False, 0, goals=0, steps=500) for k in range(1, 21)][-1]
    assert watch.words.startswith("STUCK since episode 1 at 0")
    watch.moved()
    assert (watch.words, watch.still, watch.window) == ("", 0, 20)


@pytest.mark.parametrize("vectors", [False, True])
def test_the_columns_of_a_run_tell_all_that_a_watch_knows(vectors: bool) -> None:
    rng = np.random.default_rng(3)
    places = [np.array([0.1 * i, 1.0]) for i in range(4)] if vectors else list(range(4))
    ends = [places[int(rng.integers(0, 1 + (k // 40) % 4))] for k in range(300)]
    rewards, resets = np.where(rng.random(300) < 0.02, 400.0, 0.0), rng.random(300) < 0.01
    moved = [Intervention(k, "stuck", "", "", "", "", 0.0) for k in (55, 130)]
    starts = [places[0], *ends[:-1]]
    live, again = Watch(500), Watch(500)
    for k in range(1, 301):
        if k - 1 in (55, 130):
            live.moved()
        live.see(k, starts[k - 1], float(rewards[k - 1]), bool(resets[k - 1]), ends[k - 1], goals=0, steps=k % 7)
    table: dict[str, Any] = {"k": np.arange(1, 301), "reward": rewards, "reset": resets}
    table["steps"] = np.arange(1, 301) % 7
    for name, states in (("s1", starts), ("next_start", ends)):
        table[name] = np.empty(300, dtype=object if vectors else np.int64)
        table[name][:] = states
    again.replay(table, moved)
    assert repr(live) == repr(again)
    assert live.window > 20


def test_a_state_is_shown_in_short() -> None:
    assert stuck.shown(np.arange(10) / 3) == "[0, 0.3333, 0.6667, 1, 1.333, 1.667, 2, 2.333, ...]"
    assert (stuck.shown(3), stuck.shown(0.25)) == ("3", "0.25")


@pytest.mark.parametrize(
    "problem", ["grid-v0", "pits-v0", "doors-v0", "coin-chain-v0", "edge-first-step-v0", "edge-one-step-v0"]
)
def test_there_is_no_false_alarm_on_registered_problems(problem: str) -> None:
    """Where it is said that a run is stuck, the oracle says that no policy without a reset earns anything."""
    best = rf.solve(rf.make(problem), starts=[]).value
    for seed in range(3):
        run = rf.learn(problem, episodes=600, seed=seed)
        assert [best[run.columns["s1"][one.k - 1]] for one in run.notes] == [0.0] * len(run.notes)
        assert bool(run.notes) == (problem in ("coin-chain-v0", "edge-first-step-v0"))


@pytest.mark.parametrize("balances", [True, False])
def test_there_is_no_false_alarm_on_cartpole(balances: bool) -> None:
    """A pole that is balanced from the first step on, and one that falls in every episode: neither stands still."""
    pole = rf.from_gym("gym:CartPole-v1", horizon=50)
    for seed in range(5):
        watch, episodes = Watch.of(pole), 0
        for one in rf.simulate(pole, _upright if balances else lambda h, s: [0.5, 0.5], 60, seed=seed):
            episodes += not one.reset
            reward = float(one.rewards.sum())
            assert not watch.see(
                1, one.start, reward, one.reset, one.next_start, goals=one.goals, steps=len(one.actions)
            )
        assert episodes == 60 if balances else episodes < 20


def _upright(h: int, s: Any) -> list[float]:
    return [0.0, 1.0] if s[2] + 0.3 * s[3] + 0.02 * s[0] + 0.05 * s[1] > 0 else [1.0, 0.0]


def test_what_an_episode_with_a_goal_earned_is_the_best_that_is_told() -> None:
    watch = Watch(horizon=25)
    watch.see(1, 0, 1.0, False, 3, goals=1, steps=25)
    assert any(watch.see(k, 3, 0.0, False, 3, goals=0, steps=20) for k in range(2, 30))
    assert "(400 steps) it earned at most 0 an episode, after 1 at best" in watch.sentence  # as many as it took
