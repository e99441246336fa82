"""When a search explores, and what it says about it."""

import numpy as np
from tests.players.neural.small_networks import Target

import resetfree as rf
from resetfree.core.arrays import Floats
from resetfree.game.replay_buffer import ReplayBuffer
from resetfree.players.model_based import ModelSearch
from resetfree.players.model_based.exploring import (
    BLOCK,
    BLOCKS,
    BRAVE,
    FREE,
    LASTING,
    PATIENCE,
    TRIAL,
    explored,
    exploring,
    trial_is_over,
)
from resetfree.players.model_based.machine_search import AT_EASE


def rows(reward: Floats, fell: tuple[int, ...] = (), length: int = 100) -> ReplayBuffer:
    """Episodes of so many steps, some of whose last rows are reset states."""
    count = len(reward) // length
    earned = np.concatenate([reward.reshape(count, length), np.zeros((count, 1))], axis=1).ravel()
    action = np.zeros((len(earned), 1))
    action[length :: length + 1] = np.nan
    terminated = np.zeros(len(earned), dtype=np.bool_)
    terminated[[(k + 1) * (length + 1) - 1 for k in fell]] = True
    return ReplayBuffer(len(earned), np.zeros((len(earned), 1)), action, earned, terminated)


def at(flat: int, *, fell: tuple[int, ...] = (), earned: float = 0.2) -> bool:
    """Whether it explores after so many steps that earn the same, but for some at first that earned 1."""
    reward = np.full(flat, earned)
    reward[: flat // 20] = 1.0  # so many that the best is no exception
    reward[-2] = 0.0
    kept = rows(reward, fell)
    found = exploring(kept, kept.n)
    return found is not None and found.bold


def test_it_explores_where_the_reward_has_not_risen() -> None:
    assert not at(FREE)
    assert at(2 * FREE)
    content = rows(np.append(np.linspace(0.0, 0.97, 100), np.full(3 * FREE - 100, 0.97)))  # as in its best steps
    assert exploring(content, content.n) == (2 * FREE, 0.0, False, False, False)


def test_a_log_without_a_reset_is_no_reason_to_explore() -> None:
    kept = rows(np.tile([0.2, 1.0], 1500))
    assert exploring(kept, kept.n) is not None
    assert exploring(kept, kept.n, given=kept.n) is None
    later, stated = exploring(kept, kept.n, given=kept.n // 10), exploring(kept, kept.n, given=kept.n, stated=True)
    assert later is not None
    assert later.caution == BRAVE
    assert stated is not None
    assert stated.caution == 0.0


def test_it_explores_the_later_the_more_resets_there_were() -> None:
    assert not at(2 * PATIENCE - 100, fell=(0,))
    assert at(2 * PATIENCE + 300, fell=(0,))
    assert not at(2 * PATIENCE + 300, fell=(0, 1))


def test_caution_is_left_where_something_was_a_reset() -> None:
    reward = np.full(2 * PATIENCE + 300, 0.2)
    reward[:400] = 1.0
    careful, free = rows(reward, (0,)), rows(reward)
    one, other = exploring(careful, careful.n), exploring(free, free.n)
    assert one is not None
    assert other is not None
    assert 0.0 < one.caution < 1.0
    assert (other.caution, one.seeks) == (0.0, False)


def test_unseen_states_are_sought_in_turn_as_long_as_nothing_was_a_reset() -> None:
    reward = np.full(4000, 0.2)
    reward[::7] = 0.21
    kept = rows(reward)
    turns = [found.seeks for n in range(1010, 3030, 101) if (found := exploring(kept, n)) is not None]
    assert 5 < sum(turns) < len(turns) - 5


def test_a_policy_that_is_tried_gives_way_after_its_trial() -> None:
    kept = rows(np.full(1500, 0.2))
    now = exploring(kept, kept.n)
    assert trial_is_over(kept, kept.n - TRIAL, now)
    assert not trial_is_over(kept, kept.n - TRIAL + 1, now)
    assert not trial_is_over(kept, 0, None)


def test_it_is_recorded_with_the_round_in_words() -> None:
    reward = np.full(1000, 0.2)
    said = explored(rows(reward), stated=False)
    what = "exploring, as no state was ever a reset: reward has not risen for 550 steps"
    assert [(one.k, one.what) for one in said] == [(8, what)]
    assert explored(rows(np.linspace(0.0, 1.0, 1000)), stated=False) == []


def test_a_poor_trial_makes_what_was_found_no_poorer() -> None:
    """A machine that earns as much as in its best steps looks no further, though a block in which it tried was poor."""
    reward = np.append(np.linspace(0.0, 0.97, 100), np.full(1900, 0.97))
    reward[-BLOCK:] = 0.1
    kept = rows(reward)
    found = exploring(kept, kept.n)
    assert found is not None
    assert not found.bold
    reward[-BLOCKS * BLOCK :] = 0.1  # it was long ago
    kept = rows(reward)
    found = exploring(kept, kept.n)
    assert found is not None
    assert found.bold


def test_it_goes_on_exploring_after_what_it_has_lost() -> None:
    reward = np.full(LASTING + 3000, 0.2)
    reward[1000:1250] = 0.4
    reward[::7] += 0.01  # no rare prize
    lost, never = rows(reward), rows(np.where(reward > 0.3, 0.2, reward))
    assert [one is not None and one.bold for one in (exploring(lost, lost.n), exploring(never, never.n))] == [
        True,
        False,
    ]


def test_a_machine_where_nothing_is_a_reset_is_tried_at_rest_once() -> None:
    settings = ModelSearch(planning=5, population=4, rounds=1, starts=2)
    state = settings.init(Target(), 10, 0)
    found = []
    for away in (0.3, 0.0):  # from the middle of the box, at 0.5
        actions = 0.5 + away * np.tile([1.0, -1.0], TRIAL)
        states = np.random.default_rng(1).normal(size=(len(actions) + 1, 2))
        state.rows.add(rf.Episode(states, actions[:, None], np.full(len(actions), 0.2), False, states[-1]))
        policy = state.search(state.rows.n, np.zeros(2), 200.0, settings)
        found.append(max(abs(policy.weight).max(), abs(policy.bias).max(), *abs(policy.hidden).ravel()) < AT_EASE)
    assert found == [True, False]
