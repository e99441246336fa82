"""Two searches in one run: who acts when, and nothing lost between them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.players.neural.small_networks import Target

import resetfree as rf
from resetfree.players.neural import staged_search
from resetfree.players.neural.staged_search import BEGAN, FELL, KEPT, POORER, StagedSearch, StagedState

SMALL: dict[str, Any] = {
    "planning": 10,
    "population": 8,
    "hidden": 16,
    "actor_hidden": 8,
    "n_rollouts": 4,
    "samples": 8,
}


def episode(reward: float, *, reset: bool = False, steps: int = 10, away: float = 0.0) -> rf.Episode:
    states = np.linspace(-0.5, 0.5, 2 * (steps + 1)).reshape(-1, 2) + away
    rewards = np.full(steps, reward)
    return rf.Episode(states, np.full((steps, 1), 0.5), rewards, reset, states[-1])


def state_of(rewards: list[float], **others: Any) -> tuple[StagedSearch, StagedState]:
    """A state after ten steps with each of these rewards."""
    player = StagedSearch(**SMALL, **others)
    state = player.init(Target(), 100, 0)
    for reward in rewards:
        player.absorb(state, episode(reward))
    state.after = 0
    return player, state


@pytest.mark.parametrize(
    ("rewards", "due"),
    [
        ([0.0, 1.0] + [0.5] * 150, True),  # flat, and better steps were seen
        ([0.0, 0.5] + [0.5] * 150, False),  # as much as the best step earned
        ([0.0, 1.0] + [0.95] * 120 + [0.2] * 30, False),  # nearly as much, before what was tried last
        ([0.0, 1.0] + [0.3] * 60 + [0.6] * 60, False),  # it rose lately
        ([0.0, 1.0] + [0.5] * 80, False),  # not for long
    ],
)
def test_networks_are_tried_where_the_reward_is_flat_and_more_was_seen(rewards: list[float], due: bool) -> None:
    player, state = state_of(rewards)
    assert player._is_due(state) is due


@pytest.mark.parametrize(
    ("earned", "falls", "steps", "found"),
    [
        (0.7, 0, 3000, KEPT),
        (0.5, 0, 3000, POORER),  # no more than before, at the end of the trial
        (0.5, 0, 1500, None),
        (0.1, 0, 600, POORER),  # much less: at once
        (0.1, 0, 400, None),  # too early to tell
        (0.5, 7, 800, FELL),
        (0.7, 7, 800, None),  # it falls, but earns more
        (0.7, 30, 800, FELL),  # not so much more
    ],
)
def test_a_trial_ends_as_it_should(earned: float, falls: int, steps: int, found: int | None) -> None:
    player, state = state_of([0.0] * 20 + [1.0] * 20 + [0.5] * 160)
    state.trying, state.began, state.rate = True, state.rows.n, 0.5
    for i in range(steps // 10):
        state.networks.rows.add(episode(earned, reset=i < falls))
    player._weigh(state, 7)
    assert [tuple(one) for one in state.changes] == ([] if found is None else [(7, found)])
    assert state.kept == (found == KEPT)
    assert state.trying == (found in (None, KEPT))
    if found in (POORER, FELL):
        assert state.after == 4 * state.rows.n


def play(monkeypatch: pytest.MonkeyPatch, **asked: Any) -> rf.Run:
    for name, value in (("FLAT", 0), ("COMPARED", 20), ("LATELY", 50), ("NEAR", -1.0)):
        monkeypatch.setattr(staged_search, name, value)
    return rf.learn(Target(), StagedSearch(**SMALL, first=60, trial=40), seed=1, **asked)


def test_both_act_in_turn_learn_from_all_steps_and_resume_exactly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = play(monkeypatch, episodes=24)
    said = [one.what for one in whole.decisions]
    assert staged_search.WORDS[BEGAN] in said
    state = whole.states[0] if hasattr(whole, "states") else None
    assert state is None or state.model.rows.n == state.networks.rows.n
    path = tmp_path / "a.rfrun"
    for episodes in (7, 13, 24):  # before, in and after a trial
        run = play(monkeypatch, episodes=episodes, path=path, resume=path.exists())
    for name in ("reward", "reset"):
        assert (run.columns[name] == whole.columns[name]).all()
    assert [one.what for one in run.decisions] == said


def test_networks_begin_with_the_policy_that_was_found() -> None:
    player, state = state_of([0.5] * 3)
    policy = state.model.policy
    policy.weight[:], policy.bias[:] = 0.3, -0.2
    staged_search.begin_with(state.networks, policy, "x")
    s = np.array([0.4, -0.1])
    state.networks.progress = state.networks.progress._replace(unit=1.0)
    assert player.many.greedy(state.networks, 1.0).mode(1, s) == pytest.approx(policy.mode(1, s), abs=1e-6)
    policy.weight[:] = 1e9  # nothing to improve on
    before = [leaf.copy() for leaf in state.networks.learned]
    staged_search.begin_with(state.networks, policy, "x")
    assert all((a == b).all() for a, b in zip(before, state.networks.learned, strict=True))
