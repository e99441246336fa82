"""Players that keep a policy, when plans come late: what is adopted, what it rests on, whose life and fall it is."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.players.neural.small_networks import Target

import resetfree as rf
from resetfree.players import make_player
from resetfree.players.model_based.machine_search import LONG, NOTHING
from resetfree.players.model_based.model_search import LinearScores, ModelSearch
from resetfree.players.tabular.mirror import values
from resetfree.players.testing import trial_problems as trial

STEPS, ROWS = 10, 11  # of an episode


class Lives:
    """Episodes that are given to a player one by one, all alike."""

    def __init__(self, box: bool, **settings: Any) -> None:
        self.player, self.k = ModelSearch(**{"growth": 100.0, **settings}), 0
        self.state: Any = self.player.init(Target() if box else trial.corners()[trial.VECTORS], 100, 0)
        self.size, self.box = len(self.state.low), box

    def policy(self, weight: float) -> Any:
        """A policy, made anew: equal ones are the same by value only."""
        fresh = self.state.policy
        return replace(fresh, weight=np.full_like(fresh.weight, weight), bias=np.zeros_like(fresh.bias))

    def live(self, policy: Any, based_on: int, *, reset: bool = False, reward: float = 0.5) -> None:
        """One more episode, with a policy that was planned after round `based_on`."""
        self.k += 1
        actions = np.full((STEPS, 1), 0.25) if self.box else np.zeros(STEPS, dtype=np.int64)
        states = np.zeros((ROWS, self.size))
        episode = rf.Episode(states, actions, np.full(STEPS, reward), reset, None if reset else states[-1])
        round = rf.Round(self.k, states[0], 5.0, rf.Plan(policy, 0.0, 0.0), episode, 0.0, None, based_on=based_on)
        self.state = self.player.update(self.state, round)


@pytest.mark.parametrize("box", [False, True], ids=["choices", "box"])
def test_a_late_policy_rests_on_what_was_known_when_it_was_planned(box: bool) -> None:
    lives = Lives(box)
    for _ in range(2):
        lives.live(lives.policy(0.0), 0)
    assert lives.state.stale
    lives.live(lives.policy(1.0), 1)
    assert lives.state.policy.weight.max() == 1.0
    assert (lives.state.at, lives.state.lam, lives.state.stale) == (1 * ROWS, 5.0, False)
    lives.live(lives.policy(1.0), 3)  # the same, though another object: it was not planned anew
    assert lives.state.at == 1 * ROWS


@pytest.mark.parametrize("box", [False, True], ids=["choices", "box"])
def test_a_policy_that_was_planned_before_the_present_one_was_decided_on_is_passed_over(box: bool) -> None:
    lives = Lives(box)
    for _ in range(3):
        lives.live(lives.policy(0.0), 0)
    lives.live(lives.policy(1.0), 1)
    for j in (2, 3):
        lives.live(lives.policy(2.0 + j), j)  # planned while the first was on its way
    assert lives.state.policy.weight.max() == 1.0
    assert (lives.state.at, lives.state.stale) == (1 * ROWS, False)
    lives.live(lives.policy(1.0), 4)
    lives.live(lives.policy(1.0), 5, reset=True)
    assert lives.state.stale
    lives.live(lives.policy(9.0), 8)
    assert lives.state.policy.weight.max() == 9.0
    assert (lives.state.at, lives.state.stale) == (8 * ROWS, False)


def test_rows_that_grow_after_a_plan_was_made_leave_it_stale() -> None:
    lives = Lives(box=False, growth=2.0)
    for _ in range(5):
        lives.live(lives.policy(0.0), 0)
    lives.live(lives.policy(1.0), 2)  # there are six episodes by now, and it was planned with two
    assert (lives.state.at, lives.state.stale) == (2 * ROWS, True)
    lives.live(lives.policy(1.0), 3)  # planned with three, before it was stale: no new plan
    assert (lives.state.at, lives.state.stale) == (2 * ROWS, True)
    lives.live(lives.policy(1.0), 6)  # planned when it was stale, and kept
    assert lives.state.at == 6 * ROWS


def test_the_life_of_a_policy_counts_only_what_it_has_played() -> None:
    lives = Lives(box=True)
    for _ in range(2):
        lives.live(lives.policy(0.0), 0)
    lives.live(lives.policy(1.0), 1)
    assert lives.state.began == 2 * ROWS
    lives.live(lives.policy(2.0), 2)
    assert lives.state.began == 4 * ROWS
    for j in range(3, 4 + -(-LONG // ROWS)):
        lives.live(lives.policy(1.0), j)
    assert lives.state.rate == pytest.approx(0.5)
    assert lives.state.has_proven


def test_the_proven_policy_is_not_to_blame_for_the_fall_of_another() -> None:
    lives = Lives(box=True)
    lives.live(lives.policy(0.0), 0)
    for j in range(1, 2 + -(-LONG // ROWS)):
        lives.live(lives.policy(1.0), j - 1)
    assert lives.state.rate != NOTHING
    before = lives.state.rate
    lives.live(lives.policy(3.0), lives.k - 2, reset=True)  # planned before
    assert (lives.state.rate, lives.state.stale) == (before, False)
    assert lives.state.policy.weight.max() == 1.0
    lives.live(lives.policy(1.0), lives.k, reset=True)  # now it falls itself
    assert (lives.state.rate, lives.state.stale) == (NOTHING, True)


def test_rows_before_the_last_episodes() -> None:
    lives = Lives(box=False)
    for reset in (False, True, False):
        lives.live(lives.policy(0.0), lives.k, reset=reset)
    assert [lives.state.rows.before_last(j) for j in range(5)] == [3 * ROWS, 2 * ROWS, ROWS, 0, 0]


def test_policies_are_compared_by_value() -> None:
    one = LinearScores(np.ones((2, 3)), np.zeros(2))
    assert one.same(LinearScores(np.ones((2, 3)), np.zeros(2)))
    assert not one.same(LinearScores(np.ones((2, 3)), np.ones(2)))


def test_a_mirror_step_is_made_from_the_newest_policy() -> None:
    problem = trial.corners()["physical"]
    player = make_player("primal", "opdop", {})
    game, rounds = trial.played(problem, player, trial.Scripted((2.0,)), 6)
    state: Any = game.primal
    assert state.mixing > 0.0
    late = rounds[-1]._replace(k=7, based_on=2, plan=rounds[2].plan)
    newest = np.exp(state.exponent - state.exponent.max(axis=-1, keepdims=True))
    newest /= newest.sum(axis=-1, keepdims=True)
    assert not np.allclose(newest, late.plan.policy)
    q_r, q_c = values(state, late.plan.policy)
    mixed = (1.0 - state.mixing) * newest + state.mixing / newest.shape[2]
    expected = np.log(mixed) + state.step * (q_r - late.lam * q_c)
    np.testing.assert_allclose(player.update(state, late).exponent, expected, rtol=1e-9)
