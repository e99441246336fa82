"""Regret and Resets, and the widths of the paper."""

from math import sqrt

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import resetfree as rf
from resetfree.problems.finite.tabular_policy import random_policy, uniform
from resetfree.theory.oracle.dynamic_programming import Values
from resetfree.theory.regret import Rounds, dual_regret, exact_rounds, primal_regret, regret, resets
from resetfree.theory.widths import softmax_alpha


@pytest.fixture(scope="module")
def mdp() -> rf.FiniteMDP:
    problem: rf.FiniteMDP = rf.make("grid-v0")
    return problem


@pytest.fixture(scope="module")
def rounds(mdp: rf.FiniteMDP) -> Rounds:
    rng = np.random.default_rng(5)
    policies = (random_policy(mdp, rng) for _ in range(6))  # any iterable will do
    return exact_rounds(mdp, policies, [0.0, 1.0, 5.0, 40.0, 2.5, 0.1], [0, 2, 3, 11, 2, 8])


def test_values_are_those_of_the_policies(mdp: rf.FiniteMDP, rounds: Rounds) -> None:
    rng = np.random.default_rng(5)
    for k, s in enumerate(rounds.s1):
        values = rf.evaluate(mdp, random_policy(mdp, rng))
        assert (rounds.v_r[k], rounds.v_c[k]) == (values.v_r[s], values.v_c[s])
    assert len(rounds) == 6


def test_definitions_written_out(mdp: rf.FiniteMDP, rounds: Rounds) -> None:
    solution = rf.solve(mdp)
    other = rf.evaluate(mdp, uniform(mdp))
    total = n_resets = r_p = r_p_other = r_d = 0.0
    for k, s in enumerate(rounds.s1):
        lam, v_r, v_c = rounds.lam[k], rounds.v_r[k], rounds.v_c[k]
        total += solution.value[s] - v_r
        n_resets += v_c
        played = v_r - lam * v_c
        r_p += solution.value[s] - played
        r_p_other += other.v_r[s] - lam * other.v_c[s] - played
        r_d += played - (v_r - solution.lambda_star[s] * v_c)
        assert regret(rounds, solution)[k] == pytest.approx(total)
        assert resets(rounds)[k] == pytest.approx(n_resets)
        assert primal_regret(rounds, solution)[k] == pytest.approx(r_p)
        assert primal_regret(rounds, other)[k] == pytest.approx(r_p_other)
        assert dual_regret(rounds, solution.lambda_star)[k] == pytest.approx(r_d)
        assert dual_regret(rounds, at_starts=solution.lambda_star[rounds.s1])[k] == pytest.approx(r_d)


def test_regret_is_never_clipped() -> None:
    """At A the unsafe policy earns 1 where the best reset-free one earns 0."""
    mdp = rf.make("thresholds-v0")
    rounds = exact_rounds(mdp, [np.full(5, 1)] * 3, 0.0, [0, 0, 0])
    assert regret(rounds, rf.solve(mdp)).tolist() == [-1.0, -2.0, -3.0]
    assert resets(rounds).tolist() == [1.0, 2.0, 3.0]


def test_the_same_policy_is_evaluated_once(mdp: rf.FiniteMDP, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(mdp: rf.FiniteMDP, policy: ArrayLike) -> Values:
        calls.append(policy)
        return rf.evaluate(mdp, policy)

    monkeypatch.setattr("resetfree.theory.regret.evaluate", counted)
    policy = uniform(mdp)
    exact_rounds(mdp, [policy] * 5 + [policy.copy()], 1.0, [0] * 6)
    assert len(calls) == 2


def test_no_rounds_are_no_regret(mdp: rf.FiniteMDP) -> None:
    nothing = exact_rounds(mdp, [], [], [])
    assert len(nothing) == 0
    assert regret(nothing, rf.solve(mdp)).shape == dual_regret(nothing, np.zeros(12)).shape == (0,)


def test_an_infeasible_start_is_named() -> None:
    mdp = rf.make("footnote-v0")
    rounds = exact_rounds(mdp, [uniform(mdp)] * 2, 0.0, [0, 1])
    solution = rf.solve(mdp)
    for function in (regret, primal_regret):
        with pytest.raises(rf.AssumptionViolated, match=r"Round 2 starts in state bad \(index 1\)") as caught:
            function(rounds, solution)
        assert caught.value.witness == 1
    assert resets(rounds)[-1] > 1  # what needs no comparator is still there


def test_what_the_arguments_must_be(mdp: rf.FiniteMDP, rounds: Rounds) -> None:
    policy = uniform(mdp)
    with pytest.raises(rf.InvalidInput, match="outside the reset set"):
        exact_rounds(mdp, [policy], 0.0, [5])
    with pytest.raises(rf.InvalidInput, match=r"one per start, 2\. Got 1"):
        exact_rounds(mdp, [policy], 0.0, [0, 0])
    with pytest.raises(rf.InvalidInput, match="Got more than 1"):
        exact_rounds(mdp, [policy] * 2, 0.0, [0])
    with pytest.raises(rf.InvalidInput, match="The 'lam' of Rounds must have one entry per round"):
        exact_rounds(mdp, [policy], [0.0, 1.0], [0])
    with pytest.raises(rf.InvalidInput, match="The 'lam' of Rounds must be finite"):
        exact_rounds(mdp, [policy], [np.nan], [0])
    with pytest.raises(rf.InvalidInput, match=r"must have shape \[K\]"):
        exact_rounds(mdp, [policy], 0.0, [[0]])
    with pytest.raises(rf.InvalidInput, match="both or neither"):
        dual_regret(rounds)
    with pytest.raises(rf.InvalidInput, match="both or neither"):
        dual_regret(rounds, 0.0, at_starts=np.zeros(6))
    with pytest.raises(rf.InvalidInput, match="one entry per state"):
        dual_regret(rounds, np.zeros(6))  # [K] is not [S]: six rounds are not twelve states
    with pytest.raises(rf.InvalidInput, match="'at_starts'"):
        dual_regret(rounds, at_starts=np.zeros(12))


Floats = NDArray[np.float64]


def precision(d: int, H: int, K: int, A: int, B: float, R: float) -> tuple[float, float]:
    """eps, how far apart values with a range R may be, and e, how far apart their parameters."""
    eps = d * R / K
    return eps, eps / (1 + R * softmax_alpha(K, H, A, B) * (2 + B))


def averages(
    phi: Floats, parts: tuple[Floats, Floats, Floats, float], alpha: float, H: int, beta_r: float, beta_c: float
) -> tuple[Floats, Floats]:
    """V_r and V_c of one step, from w_r, w_c, M = beta_r^2 Lam^-1 and lam."""
    w_r, w_c, M, lam = parts
    width = np.sqrt(((phi @ M) * phi).sum(axis=2)) / beta_r
    q_r, q_c = np.clip(phi @ w_r + beta_r * width, 0, H), np.clip(phi @ w_c - beta_c * width, 0, 1)
    logits = alpha * (q_r - lam * q_c)
    pi = np.exp(logits - logits.max(axis=1, keepdims=True))
    pi /= pi.sum(axis=1, keepdims=True)
    return (pi * q_r).sum(axis=1), (pi * q_c).sum(axis=1)


def test_parameters_that_close_give_values_that_close() -> None:
    """The step of the proof that the cover rests on, at random parameters moved as far as it allows."""
    rng = np.random.default_rng(0)
    d, H, K, A, B, n = 3, 4, 200, 4, 6.0, 50
    alpha, beta_r, beta_c = softmax_alpha(K, H, A, B), 9.0, 2.0
    farthest = dict.fromkeys((float(H), 1.0), 0.0)
    for R in farthest:
        eps, e = precision(d, H, K, A, B, R)
        for _ in range(200):
            phi = rng.normal(size=(n, A, d))
            phi /= np.linalg.norm(phi, axis=2, keepdims=True)
            root = rng.normal(size=(d, d))
            M = root @ root.T
            M *= beta_r**2 * rng.random() / np.linalg.eigvalsh(M)[-1]
            w_r, w_c, lam = rng.normal(size=d) * H, rng.normal(size=d), B * rng.random()
            moves = rng.normal(size=(2, d))
            moves *= e / 2 / np.linalg.norm(moves, axis=1, keepdims=True)
            other = M + np.eye(d) * e**2 / 4 / sqrt(d)

            one = averages(phi, (w_r, w_c, M, lam), alpha, H, beta_r, beta_c)
            moved = w_r + moves[0], w_c + moves[1], other, max(lam - e, 0.0)
            two = averages(phi, moved, alpha, H, beta_r, beta_c)
            which = 0 if R == H else 1
            difference = float(np.abs(one[which] - two[which]).max())
            farthest[R] = max(farthest[R], difference / eps)
    assert max(farthest.values()) <= 1.0
    assert min(farthest.values()) > 0.05  # the test is about something
