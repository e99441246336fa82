"""Every kind of bad input is refused with one sentence; every accepted form gives the same problem."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import resetfree as rf
from resetfree.problems.finite.composed import with_contexts

Arrays = dict[str, Any]


def parts() -> Arrays:
    """A small right problem: state 2 is the reset state."""
    p: NDArray[np.float64] = np.zeros((3, 2, 3))
    p[0, 0, 0] = p[0, 1, 1] = p[1, 0, 0] = 1
    p[1, 1] = [0.25, 0.25, 0.5]
    return {
        "transition": p, "reward": np.full((3, 2), 0.5), "reset": [False, False, True], "horizon": 4, "start": 0,
        "restart": np.array([0.5, 0.5, 0.0]),
    }  # fmt: skip


def changed(index: tuple[int, ...], value: float) -> NDArray[np.float64]:
    p: NDArray[np.float64] = parts()["transition"].copy()
    p[index] = value
    return p


BAD: list[tuple[str, Arrays, str]] = [
    ("row sum", {"transition": changed((1, 1, 2), 0.4)}, "Got 0.9 for state 1, action 1 instead"),
    ("empty row", {"transition": changed((0, 0, 0), 0.0)}, "Got 0 for state 0, action 0 instead"),
    ("negative", {"transition": changed((1, 1, 0), -0.25)}, "Got -0.25 for next state 0 of state 1, action 1"),
    ("nan", {"transition": changed((1, 1, 0), np.nan)}, "Got nan for next state 0 of state 1, action 1"),
    ("reward above", {"reward": np.full((3, 2), 1.5)}, "must lie in [0, 1]. Got 1.5 for state 0, action 0"),
    ("reward nan", {"reward": np.full((3, 2), np.nan)}, "must lie in [0, 1]. Got nan"),
    ("reward shape", {"reward": np.zeros((2, 2))}, "must have shape (3, 2) or (4, 3, 2). Got (2, 2)"),
    ("transition shape", {"transition": np.ones((3, 2, 4)) / 4}, "must have shape [S, A, S]"),
    ("transition layers", {"transition": np.ones((3, 3, 2, 3)) / 3}, "must have shape [S, A, S]"),
    ("transition flat", {"transition": np.ones(3)}, "must have shape [S, A, S]"),
    ("transition ragged", {"transition": [[1.0], [1.0, 2.0]]}, "must be an array of numbers"),
    ("sparse shape", {"transition": sparse.csr_array(np.ones((4, 3)) / 3)}, "must have shape [S, A, S]"),
    ("reset shape", {"reset": [[False]]}, "must be Boolean, one entry per state"),
    ("reset values", {"reset": [0, 2, 1]}, "must be Boolean, one entry per state"),
    ("empty restart", {"restart": np.zeros(3)}, "'restart' of FiniteMDP must give some state positive probability"),
    ("no restart", {"restart": []}, "'restart' of FiniteMDP must give some state positive probability"),
    ("restart sum", {"restart": [0.5, 0.4, 0]}, "'restart' of FiniteMDP must sum to one. Got 0.9"),
    ("restart in reset", {"restart": [0.5, 0, 0.5]}, "'restart' of FiniteMDP must lie outside the reset set"),
    ("start in reset", {"start": 2}, "'start' of FiniteMDP must lie outside the reset set"),
    ("start outside", {"start": 3}, "'start' of FiniteMDP must be a state in 0..2"),
    ("start nan", {"start": [np.nan, 1, 0]}, "'start' of FiniteMDP must hold probabilities"),
    ("horizon 0", {"horizon": 0}, "The 'horizon' of FiniteMDP must be an integer from 1 to 100000. Got 0 instead."),
    ("horizon -1", {"horizon": -1}, "an integer from 1 to 100000. Got -1"),
    ("horizon 2.5", {"horizon": 2.5}, "an integer from 1 to 100000. Got 2.5"),
    ("no actions", {"transition": np.zeros((3, 0, 3)), "reward": np.zeros((3, 0))}, "at least one action"),
    ("support", {"support": changed((1, 1, 2), 0.0) > 0}, "must contain every positive probability. Got support False"),
    ("support shape", {"support": np.ones((4, 3, 2, 3))}, "must have the shape of 'transition'"),
    ("boundary", {"boundary": "elastic"}, "must be physical or literal. Got 'elastic'"),
    ("noise", {"noise": -0.1}, "standard deviation that is not negative. Got -0.1"),
    ("noise name", {"noise": "loud"}, "standard deviation that is not negative. Got 'loud'"),
    ("phi", {"phi": np.zeros((3, 3, 4))}, "'phi' of FiniteMDP must be finite numbers of shape (3, 2, 'd')"),
    ("xi", {"xi": np.full((3, 1), np.inf)}, "'xi' of FiniteMDP must be finite numbers"),
    ("contexts", {"contexts": np.eye(2)}, "'contexts' of FiniteMDP must be a square [m, m] with m a divisor of 3"),
    ("contexts restart", {"contexts": np.eye(3), "restart": None}, "must be given if there are contexts"),
    ("names", {"state_names": ["a"]}, "'state_names' of FiniteMDP must have 3 entries. Got 1"),
]


@pytest.mark.parametrize(("change", "sentence"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_input_is_refused_with_one_sentence(change: Arrays, sentence: str) -> None:
    with pytest.raises(rf.InvalidInput) as caught:
        rf.FiniteMDP(**{**parts(), **change})
    message = str(caught.value)
    assert sentence in message
    assert "\n" not in message
    assert "instead" in message or "refuses" in message


def test_every_form_of_the_same_dynamics_gives_the_same_answer() -> None:
    given = parts()
    p = given.pop("transition")
    p[2] = 0  # rows of reset states may be empty
    flat = p.reshape(6, 3)
    forms = [
        p,
        p.tolist(),
        np.broadcast_to(p, (4, 3, 2, 3)),
        sparse.csr_array(flat),
        sparse.coo_matrix(flat),
        [sparse.csc_array(flat)] * 4,
        rf.FiniteMDP(p, **given).transition,
    ]
    answers = [rf.solve(rf.FiniteMDP(form, **given)) for form in forms]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer.value, answers[0].value)
        np.testing.assert_array_equal(answer.policy, answers[0].policy)
        np.testing.assert_array_equal(answer.lambda_hat, answers[0].lambda_hat)
        np.testing.assert_array_equal(answer.safe_actions, answers[0].safe_actions)


def test_layered_rows_are_named_with_their_step() -> None:
    p = np.broadcast_to(parts()["transition"], (4, 3, 2, 3)).copy()
    p[2, 1, 0, 0] = 0.5
    with pytest.raises(rf.InvalidInput, match=r"Got 0\.5 for state 1, action 0, step 3 instead"):
        rf.FiniteMDP(**{**parts(), "transition": p})


def test_an_underflowed_probability_stays_possible() -> None:
    """A reset whose probability is too small for a float is still a reset: the support says so."""
    given = parts()
    p = given["transition"]
    p[0, 1] = [1.0, 0.0, 0.0]
    support = p > 0
    support[0, 1, 2] = True
    blind, seeing = rf.solve(rf.FiniteMDP(**given)), rf.solve(rf.FiniteMDP(**given, support=support))
    assert blind.safe_actions[0, 0, 1]
    assert not seeing.safe_actions[0, 0, 1]


def test_explicit_zeros_of_a_sparse_matrix_are_not_support() -> None:
    given = parts()
    dense = given["transition"].reshape(6, 3).copy()
    dense[0, 2] = 7.0
    flat = sparse.csr_array(dense)
    flat.data[flat.data == 7.0] = 0.0
    assert rf.FiniteMDP(**{**given, "transition": flat}).transition.nnz == int((given["transition"] > 0).sum())


def test_arrays_cannot_be_changed_behind_the_problem() -> None:
    mdp = rf.make("grid-v0")
    for array in (mdp.reward, mdp.reset, mdp.start, mdp.restart, mdp.transition.prob):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_a_sparse_problem_never_becomes_dense() -> None:
    """Ten thousand states: a dense S x A x S array would take 3.2 GB, the compressed rows less than 2 MB."""
    mdp = rf.make("pits-v0", n=100, horizon=20)
    t = mdp.transition
    assert t.nnz <= 4 * mdp.n_states
    assert sum(x.nbytes for x in (t.indptr, t.indices, t.prob)) < 2_000_000


def test_contexts_must_fit_together() -> None:
    grid = rf.make("grid-v0")
    with pytest.raises(rf.InvalidInput, match="task 1 that differs"):
        with_contexts([grid, rf.make("grid-v0", horizon=3)], np.eye(2))
    with pytest.raises(rf.InvalidInput, match="at least one problem"):
        with_contexts([], np.eye(1))
    with pytest.raises(rf.InvalidInput, match="must sum to one"):
        with_contexts([grid, grid], np.full((2, 2), 0.4))


def test_replace_keeps_everything_else() -> None:
    mdp = rf.make("grid-v0")
    other = mdp.replace(horizon=3)
    assert other.horizon == 3
    assert other.state_names == mdp.state_names
    np.testing.assert_array_equal(other.transition.prob, mdp.transition.prob)
