"""The best average reward without a reset: policy iteration, a linear program, fractions and brute force agree."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from tests.property.random_mdps import closed_mdp

import resetfree as rf
from resetfree.theory.oracle import long_run
from resetfree.theory.oracle.long_run import (
    average_problem,
    forever_safe,
    gain_by_linear_program,
    long_run_exactly,
    solve_long_run,
)
from resetfree.theory.regret import Possible, in_words, possible


def moves(*rows: list[int], n: int) -> np.ndarray:
    """[S, A, S] deterministic: where each action of each state leads."""
    return np.asarray(np.eye(n)[np.array(rows)])


def agreed(mdp: rf.FiniteMDP) -> np.ndarray:
    """The gain [S], after all ways have been compared."""
    gain = solve_long_run(mdp).gain
    exact = [np.nan if g is None else float(g) for g in long_run_exactly(mdp)]
    np.testing.assert_allclose(gain, gain_by_linear_program(mdp), atol=1e-8)
    np.testing.assert_allclose(gain, exact, atol=1e-9)
    return gain


def by_value_iteration(mdp: rf.FiniteMDP, episodes: int) -> np.ndarray:
    """[S] the best average reward over so many episodes, in plain loops over dense rows."""
    safe, _ = forever_safe(mdp)
    safe = np.broadcast_to(safe, (mdp.horizon, mdp.n_states, mdp.n_actions))
    value = np.zeros(mdp.n_states)
    for _ in range(episodes):
        if mdp.contexts is not None:
            m = len(mdp.contexts)
            value = (mdp.contexts @ value.reshape(m, -1)).ravel()
        for h in reversed(range(mdp.horizon)):
            layer = mdp.transition.matrix(0 if mdp.transition.stationary else h).toarray()
            ahead = (layer @ value).reshape(safe[h].shape) if h < mdp.n_transitions else value[:, None]
            q = mdp.reward[h % len(mdp.reward)] + ahead
            value = np.where(safe[h].any(axis=1), np.where(safe[h], q, -np.inf).max(axis=1), 0.0)
    return np.asarray(value / (episodes * mdp.horizon))


@pytest.mark.parametrize(
    ("name", "options", "best"),
    [("grid-v0", {}, 1.0), ("pits-v0", {}, 1.0), ("doors-v0", {}, 0.5), ("coin-chain-v0", {}, 0.0)],
)
def test_known_answers(name: str, options: dict[str, int], best: float) -> None:
    mdp = rf.make(name, **options)
    gain = agreed(mdp)
    assert np.nanmax(gain) == pytest.approx(best)
    assert rf.solve(mdp).long_run.per_episode[mdp.start > 0] == pytest.approx(best * mdp.horizon)


def test_a_periodic_chain_and_classes_of_which_the_start_decides() -> None:
    """0 <-> 1 pays 1 every other step; 2 stays at 1/4; 3 chooses between them; 4 is a coin between 2 and the cycle."""
    P = moves([1, 1], [0, 0], [2, 2], [2, 0], [4, 4], [5, 5], n=6)
    P[4, :] = 0.0
    P[4, :, 2], P[4, :, 1] = 0.5, 0.5
    pay = np.array([0.0, 1.0, 0.25, 0.0, 0.0, 0.0])[:, None] * np.ones(2)
    mdp = rf.FiniteMDP(P, pay, np.arange(6) == 5, horizon=3)
    assert agreed(mdp)[:5] == pytest.approx([0.5, 0.5, 0.25, 0.5, 0.375])
    assert long_run_exactly(mdp)[4] == Fraction(3, 8)
    assert solve_long_run(mdp).policy[:, 3].tolist() == [1, 1, 1]


def test_only_what_is_safe_for_ever_counts() -> None:
    """State 1 pays 1 and is safe for an episode of two steps, but the only way on from it is a reset."""
    P = moves([0, 1], [2, 2], [3, 3], [3, 3], n=4)
    mdp = rf.FiniteMDP(P, [[0.1, 0.1], [1.0, 1.0], [1.0, 1.0], [0.0, 0.0]], [False, False, False, True], horizon=2)
    assert rf.solve(mdp).value[1] > 0 or not rf.solve(mdp).feasible[2]
    assert agreed(mdp) == pytest.approx([0.1, np.nan, np.nan, np.nan], nan_ok=True)


@pytest.mark.parametrize("seed", range(12))
def test_layers_contexts_ends_and_boundaries(seed: int) -> None:
    """On problems of every kind all ways agree, and many episodes of value iteration come close."""
    mdp = closed_mdp(seed)
    gain, n = agreed(mdp), 400
    inside = ~np.isnan(gain)
    assert np.abs(gain - by_value_iteration(mdp, n))[inside].max(initial=0.0) < 2.0 * mdp.n_states / n + 1e-9


def test_brute_force_over_all_policies() -> None:
    """On a small problem, no stationary policy has a larger average from any start."""
    rng = np.random.default_rng(3)
    P = rng.dirichlet([0.4] * 4, size=(4, 2)) * (rng.random((4, 2, 4)) < 0.5)
    P[np.arange(4), :, np.arange(4)] += 0.1
    P /= P.sum(axis=2, keepdims=True)
    pay = rng.random((4, 2))
    mdp = rf.FiniteMDP(P, pay, np.zeros(4, dtype=bool), horizon=1)
    best = np.zeros(4)
    for d in itertools.product(range(2), repeat=4):
        chain, r = P[np.arange(4), d], pay[np.arange(4), d]
        average = np.linalg.matrix_power((chain + np.eye(4)) / 2, 2**14) @ r
        best = np.maximum(best, average)
    assert agreed(mdp) == pytest.approx(best, abs=1e-6)


def test_a_policy_of_the_answer_earns_it() -> None:
    mdp = rf.make("grid-v0")
    found = solve_long_run(mdp)
    run = rf.evaluate(mdp, found.policy)
    assert run.v_c[~np.isnan(found.gain)].max() == 0.0
    assert run.v_r[3] == pytest.approx(8.0)


def test_a_bias_that_is_ignored_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """All gains are equal here until the bias is improved: the mutant stays for 0.3 where a cycle pays 0.5."""
    mdp = rf.FiniteMDP(moves([0, 1], [0, 0], n=2), [[0.3, 0.0], [1.0, 1.0]], [False, False], horizon=3)
    assert agreed(mdp) == pytest.approx([0.5, 0.5])
    evaluate = long_run._evaluate
    monkeypatch.setattr(long_run, "_evaluate", lambda P, r: (evaluate(P, r)[0], np.zeros(len(r))))
    assert np.abs(solve_long_run(mdp).gain - 0.5).max() > 0.1


def test_what_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_run, "LARGEST", 10)
    with pytest.raises(rf.NotCertifiable, match="at most 10 pairs"):
        average_problem(rf.make("grid-v0"))


def test_both_comparators_of_a_life_on_the_small_gold() -> None:
    sol = rf.solve(rf.make("grid-v0"))
    small, from_home = np.array([8] * 100), np.array([0] * 50 + [8] * 50)
    assert possible(sol, small) == pytest.approx((2.4, 8.0))
    assert possible(sol, from_home) == pytest.approx((2.4, 8.0))
    assert possible(object(), small) == (None, None)
    assert in_words(1.0, Possible(None, 4.0)) == ["25 % of what is possible in the long run (4)"]
