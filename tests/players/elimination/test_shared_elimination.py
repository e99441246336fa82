"""Shared elimination: what twins share, by hand; the bound on every path; tests that find exceptions again."""

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.players.elimination.test_elimination_bound import small
from tests.players.elimination.test_support_elimination import resets_of

import resetfree as rf
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.elimination.support_elimination import (
    DOUBT,
    Falls,
    SharedElimination,
    SharedState,
    SupportElimination,
    preferred_sets,
    suspected,
    twin_edges,
)
from resetfree.problems.finite.composed import with_contexts

FREE = ConstantPenalty(C=0.0)


def realised(problem: rf.FiniteMDP | str, player: SupportElimination | SharedElimination, episodes: int) -> list[int]:
    runs = [rf.learn(problem, player, FREE, episodes=episodes, seed=s, feedback="realised") for s in range(3)]
    return [int(run.realised_resets[-1]) for run in runs]


def begun(mdp: rf.FiniteMDP) -> SharedState:
    state = SharedElimination().init(mdp.problem(), 100, 0)
    assert isinstance(state, SharedState)
    return state


def took(state: SharedState, states: list[int], actions: list[int], *, reset: bool) -> None:
    """Show it an episode."""
    episode = rf.Episode(np.array(states), np.array(actions), np.zeros(len(actions)), reset, next_start=0)
    state.learn(rf.Round(1, states[0], 0.0, rf.Plan(None, 0.0, 0.0), episode, float(reset), None))


def test_a_fall_is_held_back_at_other_steps_and_so_is_the_way_there() -> None:
    """doors-v0 with chambers of one step: fork 0, loop 1, chamber 2, pit 3; "left" at the fork is the door."""
    state = begun(rf.make("doors-v0", length=1, horizon=4))
    took(state, [0, 2, 3], [0, 0], reset=True)
    held = ~state.preferred & state.allowed
    assert held[2, 2].tolist() == [True, False]  # what fell in the chamber at step 2, at step 3
    assert not held[:, 0].any()  # the other action is untried, so the door may be fine
    took(state, [0, 2, 3], [0, 1], reset=True)
    held = ~state.preferred & state.allowed
    assert held[1:3, 0, 0].all()  # nothing is left in the chamber: the door is held back at all steps
    assert not state.allowed[0, 0, 0]  # and at the first one it is ruled out
    assert state.allowed[1:, 0, 0].all()


def test_survivals_clear_a_suspect_as_soon_as_they_would_be_unlikely() -> None:
    """The twin fell at its second try, so falls have a chance of 1/2: (1/2)^n <= 0.05 needs five survivals."""
    mdp = rf.make("drifting-v0", n_states=4, n_actions=2, d=3, horizon=2)
    state = begun(mdp)
    took(state, [0, 1, 2], [1, 0], reset=False)
    took(state, [0, 3], [1], reset=True)

    def suspects() -> NDArray[np.bool_]:
        return suspected(state.data, 4, Falls.of(state.data, 4))

    for n in range(6):
        assert suspects()[1, 0, 1] == (0.5**n > DOUBT)
        took(state, [1, 0, 2], [0, 1], reset=False)
    assert not suspects()[0, 0, 1]  # it fell itself: ruled out, not suspected


def chambers(n_actions: int = 4) -> rf.FiniteMDP:
    """Home 0, where action 0 stays and the others lead to 1, 2, ..; there everything is fatal; dynamics have steps."""
    n = n_actions + 1
    layer = np.zeros((n, n_actions, n))
    layer[0, np.arange(n_actions), np.arange(n_actions)] = layer[1:, :, n - 1] = 1.0
    late = layer.copy()  # at the last step all stay at home, so that every start is feasible
    late[0], late[0, :, 0] = 0.0, 1.0
    reward = np.zeros((n, n_actions))
    reward[1:] = 1.0
    return rf.FiniteMDP(np.stack([layer, layer, late]), reward, np.arange(n) == n - 1, 3)


def test_places_are_fatal_as_a_whole_once_all_that_was_tried_there_fell() -> None:
    """One fall, then two others at the same place: (2 + 1) / (2 + 0 + 2) = 0.75 is above 0.7, and 2/3 is not."""
    state = begun(chambers())
    for fallen, (place, action) in enumerate([(1, 0), (1, 1), (1, 2), (2, 0)]):
        whole = Falls.of(state.data, 5).whole()
        assert whole == (fallen >= 3)
        assert (state.allowed & ~state.preferred)[0, 0, 1] == whole  # though one action was never tried behind it
        took(state, [0, place, 4], [place, action], reset=True)
    assert (state.allowed & ~state.preferred)[:, 0, 2].tolist() == [True, True, False]  # one fall condemns the place
    took(state, [0, 3, 3, 0], [3, 2, 1], reset=False)  # of a place where nothing fell, no matter
    assert Falls.of(state.data, 5).whole()
    took(state, [0, 2, 0, 0], [2, 3, 0], reset=False)  # 3 / 5: a place where one action fell and another did not
    assert not Falls.of(state.data, 5).whole()
    assert preferred_sets(state.data, state.allowed, 5)[1, 2, 1]


def test_few_falls_condemn_all_chambers() -> None:
    """Three chambers of four actions at two steps; 3 falls at the first, 1 at each of the others, and tests."""
    mdp = chambers()
    few, many = (realised(mdp, player, 100) for player in (SharedElimination(), SupportElimination()))
    assert min(many) == 24
    assert max(few) <= 8


def test_edges_of_twins_are_shared_by_place() -> None:
    base = rf.make("grid-v0")
    state = begun(with_contexts([base, base], np.eye(2)))
    took(state, [12, 13], [3], reset=False)
    edges = twin_edges(state.data, 12)
    assert edges.pair.tolist() == [3]
    assert edges.place.tolist() == [1]


@pytest.mark.parametrize("kind", ["layered", "contexts"])
def test_no_path_exceeds_the_bound(kind: str) -> None:
    """Adversarial choices among the allowed actions, and its own choices."""
    seen: Counter[str] = Counter()
    for seed in range(12):
        mdp = small(kind, 3, seed)
        resets, bound = resets_of(mdp, 80, seed, SharedElimination())  # type: ignore[arg-type]
        own = rf.learn(mdp, SharedElimination(), FREE, episodes=80, seed=seed, feedback="realised")
        assert max(resets, int(own.realised_resets[-1])) <= bound
        assert not [c.claim for c in own.certificates() if c.status == "proved" and not c.holds]
        seen.update(reset=resets > 0)
    assert seen["reset"] >= 3


def test_without_twins_it_is_support_elimination() -> None:
    one, other = (
        rf.learn("grid-v0", player, FREE, episodes=60, feedback="realised")
        for player in (SharedElimination(), SupportElimination())
    )
    for name in ("regret", "resets"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_test_finds_the_step_at_which_the_danger_is_over() -> None:
    """Action 1 falls at the first step and pays 1 at the second: wrong to share, and found by a test."""
    transition = np.zeros((2, 2, 2, 2))
    transition[:, 0, :, 0] = 1.0
    transition[0, 0, 1] = [0.0, 1.0]
    transition[:, 1, :, 1] = 1.0
    reward = np.zeros((2, 2, 2))
    reward[0, 0, 1], reward[1, 0, 1], reward[:, 0, 0] = 1.0, 1.0, 0.2
    run = rf.learn(
        rf.FiniteMDP(transition, reward, [False, True], 2), SharedElimination(), FREE, episodes=60, feedback="realised"
    )
    assert run.realised_resets[-1] <= 2
    assert run.regret[-1] == pytest.approx(run.regret[-20])  # nothing is lost at the end
