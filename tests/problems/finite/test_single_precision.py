"""Transition rows in float32 are accepted, up to float32's rounding and no further; their support stays exact."""

import numpy as np
import pytest
from scipy import sparse

import resetfree as rf

S, A, H = 40, 3, 4


def rows(seed: int, *shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Random sparse rows, normalised in single precision, as a simulator in float32 would hand them over."""
    rng = np.random.default_rng(seed)
    weights = (rng.random(shape) * (rng.random(shape) < 0.5)).astype(np.float32)
    weights[..., 0] += np.float32(0.1)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True, dtype=np.float32))


def problem(transition: object, **options: object) -> rf.FiniteMDP:
    reward = np.random.default_rng(0).random((S, A)).astype(np.float32)
    return rf.FiniteMDP(transition, reward, np.arange(S) == S - 1, H, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["dense", "layered", "sparse", "list of sparse"])
def test_float32_rows_are_normalised_on_their_own_support(form: str) -> None:
    given = rows(1, S, A, S) if form in ("dense", "sparse") else rows(1, H, S, A, S)
    assert np.abs(given.astype(np.float64).sum(axis=-1) - 1).max() > 1e-9  # what would be refused in float64
    forms = {
        "dense": given, "layered": given, "sparse": sparse.csr_array(given.reshape(-1, S)),
        "list of sparse": [sparse.csr_array(layer) for layer in given.reshape(-1, S * A, S)],
    }  # fmt: skip
    transition = problem(forms[form]).transition
    sums = np.add.reduceat(transition.prob, transition.indptr[:-1])
    assert np.abs(sums - 1).max() <= 1e-9
    assert transition.nnz == np.count_nonzero(given)
    assert np.array_equal(transition.indices, np.nonzero(given.reshape(-1, S))[1])
    assert transition.prob == pytest.approx(given[given > 0].astype(np.float64), rel=1e-5)


def test_the_smallest_float32_is_still_possible() -> None:
    """1e-45 beside a row that needs normalising: a reset with that probability is a reset."""
    transition = np.zeros((4, 1, 4), dtype=np.float32)
    transition[:3, 0, :3] = np.float32(1) / np.float32(3)
    transition[0, 0, 3] = np.float32(1e-45)
    mdp = rf.FiniteMDP(transition, np.zeros((4, 1)), [0, 0, 0, 1], 1)
    assert mdp.transition.row(0, 0, 0)[1][-1] > 0
    assert not rf.solve(mdp).feasible[0]
    assert rf.solve(mdp).feasible[1]


def test_distributions_in_float32_are_accepted_too() -> None:
    homes = rows(2, 1, S)[0]
    homes[-1] = 0.0
    homes /= homes.sum(dtype=np.float32)
    mdp = problem(rows(1, S, A, S), start=homes, restart=homes)
    assert mdp.start.sum() == pytest.approx(1, abs=1e-9)
    assert np.array_equal(mdp.start > 0, homes > 0)
    assert mdp.restart.sum() == pytest.approx(1, abs=1e-9)


def test_what_rounding_does_not_explain_is_refused() -> None:
    given = rows(1, S, A, S)
    given[3, 1] *= np.float32(1.001)
    with pytest.raises(rf.InvalidInput, match=r"must sum to one. Got 1\.00.* for state 3, action 1"):
        problem(given)
    with pytest.raises(rf.InvalidInput, match="must sum to one"):  # double precision is held to its own rounding
        problem(rows(1, S, A, S).astype(np.float64))


def test_rows_in_double_precision_stay_as_they_are() -> None:
    mdp = rf.make("grid-v0")
    dense = np.stack([mdp.transition.matrix().toarray().reshape(12, 5, 12)])[0]
    again = mdp.replace(transition=dense)
    assert np.array_equal(again.transition.prob, mdp.transition.prob)
