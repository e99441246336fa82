"""The grid with a moving goal: contexts come in their order, and the state carries over."""

from __future__ import annotations

import numpy as np
import pytest

import resetfree as rf
from resetfree.problems.finite.tabular_policy import uniform

BASE = 12


@pytest.mark.parametrize("order", ["cycle", "random"])
def test_context_is_constant_within_an_episode_and_changes_after_it(order: str) -> None:
    mdp = rf.make("contexts-v0", order=order)
    seen, carried = set(), 0
    for episode in rf.simulate(mdp.problem(), uniform(mdp), 300, seed=2):
        contexts = np.unique(episode.states // BASE)
        assert len(contexts) == 1
        here, after = int(contexts[0]), int(episode.next_start) // BASE
        seen.add((here, after))
        if not episode.reset:
            carried += 1
            assert episode.next_start % BASE == episode.states[-1] % BASE
        else:
            assert episode.next_start % BASE in (0, 11)  # the two homes
    assert carried > 0
    everything = {(i, j) for i in range(3) for j in range(3)}
    assert seen == ({(0, 1), (1, 2), (2, 0)} if order == "cycle" else everything)


def test_the_first_episode_has_the_first_context() -> None:
    mdp = rf.make("contexts-v0", order="random")
    assert {int(mdp.problem().first_start(u)) // BASE for u in np.linspace(0, 0.999, 50)} == {0}


def test_each_context_has_its_goal() -> None:
    mdp = rf.make("contexts-v0", m=10)
    goals = [mdp.state_names[s] for s in np.flatnonzero(mdp.reward[0, :, 0] == 1)]
    assert len({goal.split("|")[0] for goal in goals}) == 10
    assert sorted(goal.split("|")[1] for goal in goals) == sorted(str(c) for c in range(10))
    value = rf.solve(mdp).value.reshape(10, BASE)
    assert (np.nanmax(value, axis=1) == 8).all()  # standing on the goal for eight steps


def test_one_context_is_the_grid_itself() -> None:
    one, grid = rf.solve(rf.make("contexts-v0", m=1)), rf.solve(rf.make("grid-v0"))
    np.testing.assert_array_equal(one.value, grid.value)
    np.testing.assert_array_equal(one.lambda_hat, grid.lambda_hat)


def test_layout_shows_one_map_per_context() -> None:
    layout = rf.make("contexts-v0").layout
    assert (layout.n_rows, layout.n_cols) == (3, 14)
    assert len(np.unique(layout.cell)) == 36
    assert not np.isin(layout.cell % 14, (4, 9)).any()  # the empty columns between the maps
