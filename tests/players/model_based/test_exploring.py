"""When a search explores, and what it says about it."""

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.game.replay_buffer import ReplayBuffer
from resetfree.players.model_based.exploring import BRAVE, FREE, PATIENCE, TRIAL, explored, exploring, trial_is_over


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
