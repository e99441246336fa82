"""T1, the default grid, against values computed once in exact fractions by an independent program."""

from fractions import Fraction

import numpy as np
import pytest

import resetfree as rf

# cell: (V*, lambda_hat)
EXACT = {
    "0,0": ("22910937/50000000", "728571/25000"),
    "0,1": ("20394829/50000000", "16827417/500000"),
    "0,2": ("98424317/50000000", "47333079/1250000"),
    "0,3": ("8", "0"),
    "1,0": ("8009921/12500000", "121433/5000"),
    "1,3": ("53204157/25000000", "363705989/10000000"),
    "2,0": ("12/5", "0"),
    "2,1": ("60929627/100000000", "240437/10000"),
    "2,2": ("31281159/100000000", "715187/25000"),
    "2,3": ("144804471/100000000", "16350759/500000"),
}


@pytest.mark.parametrize("cell", EXACT)
def test_value_and_multiplier_are_the_exact_fractions(cell: str) -> None:
    mdp = rf.make("grid-v0")
    solution = rf.solve(mdp)
    state = mdp.state_names.index(cell)
    value, multiplier = (float(Fraction(x)) for x in EXACT[cell])
    assert solution.value[state] == pytest.approx(value, rel=1e-14, abs=0)
    assert solution.lambda_hat[state] == pytest.approx(multiplier, rel=1e-12, abs=0)


def test_unsafe_pairs() -> None:
    """Next to a pit: the move into it and the two moves that may slip into it.

    (0,1), (0,2), (2,1), (2,2): one pit, three moves each; (1,0) and (1,3): likewise. 6 * 3 = 18.
    """
    mdp = rf.make("grid-v0")
    safe = rf.solve(mdp).safe_actions
    unsafe = ~safe & ~mdp.reset[None, :, None]
    assert unsafe.sum(axis=(1, 2)).tolist() == [18] * 8
    per_cell = dict(zip(mdp.state_names, unsafe[0].sum(axis=1).tolist(), strict=True))
    assert {cell for cell, n in per_cell.items() if n == 3} == {"0,1", "0,2", "2,1", "2,2", "1,0", "1,3"}


def test_only_the_pits_are_infeasible() -> None:
    mdp = rf.make("grid-v0")
    np.testing.assert_array_equal(rf.solve(mdp).feasible, ~mdp.reset)
