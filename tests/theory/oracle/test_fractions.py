"""Rational arithmetic: hand-solved numbers, how floats are read, and refusals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from resetfree import AssumptionViolated, FiniteMDP, InvalidInput, NotCertifiable, make, solve
from resetfree.theory.oracle.fractions import best_lagrangian, evaluate_exactly, exact_model, solve_exactly

# The grid, cell by cell: best reset-free value and least optimal multiplier. Cells 5 and 6 are pits.
GRID = {
    0: ("22910937/50000000", "29.14284"),
    1: ("20394829/50000000", "33.654834"),
    2: ("98424317/50000000", "37.8664632"),
    3: ("8", "0"),
    4: ("8009921/12500000", "24.2866"),
    7: ("53204157/25000000", "36.3705989"),
    8: ("12/5", "0"),
    9: ("60929627/100000000", "24.0437"),
    10: ("31281159/100000000", "28.60748"),
    11: ("144804471/100000000", "32.701518"),
}


def coin(p: float) -> FiniteMDP:
    """State 0: stay for nothing, or earn 1; the pit is two events of probability p away."""
    transition, support = np.zeros((3, 2, 3)), np.zeros((3, 2, 3), dtype=np.bool_)
    transition[0, 0, 0] = 1.0
    transition[0, 1], transition[1, :] = [1.0 - p, p, 0.0], [1.0 - p, 0.0, p]
    support[0, 0, 0] = support[0, 1, 0] = support[0, 1, 1] = support[1, :, 0] = support[1, :, 2] = True
    return FiniteMDP(transition, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [False, False, True], 2, support=support)


def test_the_grid_in_fractions() -> None:
    mdp = make("grid-v0")
    truth = solve_exactly(mdp)
    for s in range(mdp.n_states):
        assert truth.feasible[s] == (s in GRID)
        if s in GRID:
            value, multiplier = GRID[s]
            assert truth.value[s] == Fraction(value)
            assert truth.lambda_hat[s] == Fraction(multiplier)
        else:
            assert truth.value[s] is None
            assert truth.lambda_hat[s] is None
    v_r, v_c = evaluate_exactly(mdp, truth.policy)
    assert all(v_r[s] == truth.value[s] and v_c[s] == 0 for s in GRID)


def test_eighteen_pairs_of_the_grid_are_unsafe() -> None:
    """With a step to go, as with many: the cells next to the pits, in the actions that may slip or step into them."""
    mdp = make("grid-v0")
    model, nothing = exact_model(mdp), [Fraction(0)] * mdp.n_states
    costs = [model.act(7, s, a, nothing, nothing).v_c for s in GRID for a in range(mdp.n_actions)]
    assert sum(c > 0 for c in costs) == 18


@pytest.mark.parametrize("bins", [1, 3, 10])
def test_without_a_gap_the_multiplier_grows_with_the_square_of_the_bins(bins: int) -> None:
    truth = solve_exactly(make("no-multiplier-v0", bins=bins), starts=[0])
    assert truth.lambda_hat[0] == 4 * bins**2
    gap = solve_exactly(make("no-multiplier-v0", bins=bins, gap=0.25), starts=[0])
    assert gap.lambda_hat[0] == 4


@pytest.mark.parametrize("p", [0.5, 1e-3, 1e-100, 1e-300])
def test_probabilities_of_any_size_are_numbers(p: float) -> None:
    """Floats lose the product p * p; fractions do not, and feasibility is decided on the number."""
    truth = solve_exactly(coin(p))
    assert truth.feasible == [True, False, False]
    # Safe: the risky action once, as the last one. Twice earns 1 - p more, and is reset if p happens twice.
    q = exact_model(coin(p)).rows[0][0][1][1][1]
    assert truth.value[0] == 1
    assert truth.lambda_hat[0] == (1 - q) / q**2
    assert float(truth.least_cost[0][1]) == pytest.approx(p)
    assert np.array_equal(solve(coin(p)).feasible, truth.feasible)


def test_a_row_that_is_no_row_of_simple_fractions_is_divided_by_its_sum() -> None:
    weights = np.sqrt([2.0, 3.0, 5.0])
    transition = np.broadcast_to(weights / weights.sum(), (3, 1, 3))
    row = exact_model(FiniteMDP(transition, np.zeros((3, 1)), np.zeros(3), 1)).rows[0][0][0]
    assert sum(p for _, p in row) == 1
    assert [float(p) for _, p in row] == pytest.approx(weights / weights.sum(), abs=1e-15)


def test_a_policy_is_read_as_a_problem_is() -> None:
    mdp = make("thresholds-v0")
    third = np.full((mdp.n_states, 2), [1 / 3, 2 / 3])
    v_r, v_c = evaluate_exactly(mdp, third)
    a, b, pit = (mdp.state_names.index(name) for name in ("A", "B", "pit"))
    assert (v_r[a], v_c[a], v_r[b], v_c[b]) == (Fraction(2, 3), Fraction(2, 3), Fraction(1, 3), Fraction(1, 3))
    assert (v_r[pit], v_c[pit]) == (0, 1)


def test_the_best_response_trades_reward_for_resets_at_the_multiplier() -> None:
    """At s the risky action earns 1 and is reset: worth it for y < 1, not for y = 1 (ties go to fewer resets)."""
    mdp = make("thresholds-v0")
    model, a = exact_model(mdp), mdp.state_names.index("A")
    for y, resets in ((Fraction(0), 1), (Fraction(999, 1000), 1), (Fraction(1), 0)):
        assert best_lagrangian(model, y).v_c[a] == resets
    assert solve_exactly(mdp).lambda_hat[a] == 1


def test_what_cannot_be_answered_is_refused() -> None:
    with pytest.raises(NotCertifiable, match=r"Got 0\.0 in state 0, action 1"):
        exact_model(coin(0.0))
    with pytest.raises(AssumptionViolated, match="from state 1") as caught:
        solve_exactly(coin(0.5), starts=[1])
    assert caught.value.witness == 1
    with pytest.raises(AssumptionViolated, match="from state 7"):
        solve_exactly(coin(0.5), starts=[7])
    with pytest.raises(InvalidInput, match="at most 200000 row entries"):
        exact_model(make("continuous-linear-v0").discretise(200))
    with pytest.raises(InvalidInput, match="distribution"):
        evaluate_exactly(coin(0.5), np.full((3, 2), 0.4))
