"""The field of pits: where they are, what is live, and that a large one stays sparse."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import resetfree as rf


def names(mdp: rf.FiniteMDP, states: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> set[str]:
    return {mdp.state_names[s] for s in np.flatnonzero(states)}


def test_the_usual_small_field() -> None:
    mdp = rf.make("pits-v0")
    assert names(mdp, mdp.reset) == {"1,1", "1,3", "2,2", "3,1", "3,3"}
    assert names(mdp, mdp.start > 0) == {"0,0"}
    assert mdp.action_names == ("up", "down", "left", "right")
    assert names(mdp, mdp.reward[0, :, 0] > 0) == {"4,4"}
    assert mdp.layout is not None
    assert mdp.layout.cell.tolist() == list(range(25))
    np.testing.assert_allclose(mdp.restart[0], ~mdp.reset / 20)


def test_values_without_slipping_count_steps() -> None:
    """Ten steps, the way to the goal takes as many as it takes, the rest is paid; pits only force detours.

    (0,0) is 8 moves away along the ring: 2. (1,2) has pits on three sides, up and along the ring: 7 moves, 3.
    """
    mdp = rf.make("pits-v0")
    solution = rf.solve(mdp)
    value = dict(zip(mdp.state_names, solution.value.tolist(), strict=True))
    assert (value["0,0"], value["1,2"], value["2,3"], value["0,4"], value["4,4"]) == (2, 3, 7, 6, 10)
    assert (solution.lambda_hat[solution.feasible] == 0).all()


def test_slipping_leaves_only_the_ring_live() -> None:
    """Without "stay" each move may slip to both sides: (1,2), (2,1), (2,3), (3,2) have no safe move."""
    mdp = rf.make("pits-v0", slip=0.2)
    assert names(mdp, mdp.end_reset) == {"1,2", "2,1", "2,3", "3,2"}
    ring = {f"{r},{c}" for r in range(5) for c in range(5) if r in (0, 4) or c in (0, 4)}
    assert names(mdp, mdp.restart[0] > 0) == ring
    assert names(mdp, rf.solve(mdp).feasible) == ring


@pytest.mark.parametrize("n", [2, 3, 4, 6, 20])
@pytest.mark.parametrize("slip", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("density", [-1.0, 0.0, 0.4, 1.0])
def test_the_ring_is_free_and_live(n: int, slip: float, density: float) -> None:
    mdp = rf.make("pits-v0", n=n, slip=slip, density=density)
    inner = np.zeros((n, n), dtype=np.bool_)
    inner[1:-1, 1:-1] = True
    ring = ~inner.ravel()
    assert mdp.horizon == 2 * n
    assert not mdp.reset[ring].any()
    assert (mdp.restart[0, ring] > 0).all()
    solution = rf.solve(mdp)
    assert np.isfinite(solution.value[mdp.restart[0] > 0]).all()
    if density in (0.0, 1.0):
        free = 2 if n >= 7 else 1
        field = np.zeros((n, n), dtype=np.bool_)
        field[free:-free, free:-free] = density == 1.0
        np.testing.assert_array_equal(mdp.reset, field.ravel())


def test_an_explicit_density_draws_random_pits_at_n_5_too() -> None:
    drawn = [rf.make("pits-v0", density=0.4, seed=seed).reset for seed in range(4)]
    assert len({row.tobytes() for row in drawn}) == 4
    assert not any(np.array_equal(row, rf.make("pits-v0").reset) for row in drawn)


def test_the_share_of_pits_is_the_density() -> None:
    inner = 96 * 96
    for density, expected in ((-1.0, 0.15), (0.3, 0.3)):
        n_pits = int(rf.make("pits-v0", n=100, density=density, horizon=1).reset.sum())
        assert n_pits == pytest.approx(expected * inner, abs=5 * np.sqrt(expected * inner))


def test_a_large_field_stays_sparse() -> None:
    rf.make("pits-v0")  # compiled and loaded before counting
    tracemalloc.start()
    try:
        mdp = rf.make("pits-v0", n=200)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert mdp.n_states == 40_000
    assert mdp.transition.nnz <= 40_000 * 4
    assert peak < 60e6  # the dense array would take 51 gigabytes
    solution = rf.solve(mdp, starts=[0])
    assert solution.value[0] == 2.0  # along the ring: 398 moves of 400
    assert solution.lambda_hat[0] == 0.0
