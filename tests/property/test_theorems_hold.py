"""Each statement of the reduction on random problems, policies, multipliers and starts; and that it can fail."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.property.random_mdps import closed_mdp, rough_mdp, sparse_policy
from tests.property.strategies import exact, finite_problems

import resetfree as rf
from resetfree.problems.finite.tabular_policy import random_policy
from resetfree.theory.assumptions import feasibility, reachable_starts
from resetfree.theory.regret import Rounds, dual_regret, exact_rounds, primal_regret, regret, resets
from resetfree.theory.theorems import (
    least_multiplier,
    reduction,
    regret_equivalence,
    restricted_policies,
    saddle_gap,
    saddle_point,
    second_saddle_point,
    shared_saddle_point,
)

seeds = st.integers(0, 2**32 - 1)


def play(mdp: rf.FiniteMDP, solution: rf.Solution, seed: int, n: int = 12) -> Rounds:
    """Any policies, multipliers and feasible starts: the theorems ask for nothing else."""
    rng = np.random.default_rng(seed)
    policies = [(sparse_policy if k % 2 else random_policy)(mdp, rng) for k in range(n)]
    policies[0] = np.eye(mdp.n_actions)[solution.policy]
    starts = rng.choice(np.flatnonzero(solution.feasible), size=n)
    return exact_rounds(mdp, policies, rng.exponential(3.0, size=n) * rng.integers(0, 2, size=n), starts)


def unsafe_ends(mdp: rf.FiniteMDP, starts: set[int]) -> dict[int, set[int]]:
    """Where episodes from each start can end without a reset, by walking every path of the dense model."""
    result = {}
    for start in starts:
        now = {start}
        for h in range(mdp.n_transitions):
            dead = mdp.last_reset if h == mdp.n_transitions - 1 else mdp.reset
            layer = 0 if mdp.transition.stationary else h
            rows = [mdp.transition.row(layer, s, a)[0] for s in now for a in range(mdp.n_actions)]
            now = {int(t) for row in rows for t in row if not dead[t]}
        result[start] = now
    return result


@exact(150)
@given(seed=seeds)
def test_reachable_starts_are_those_of_walking_every_path(seed: int) -> None:
    mdp = rough_mdp(seed)
    chain = np.ones((1, 1)) if mdp.contexts is None else mdp.contexts
    n_base = mdp.n_states // len(chain)
    contexts = {int(s) // n_base for s in np.flatnonzero(mdp.start)}
    later: set[int] = set()
    for _ in chain:
        later |= {int(d) for c in contexts | later for d in np.flatnonzero(chain[c])}
    starts = {int(s) for s in np.flatnonzero(mdp.start)}
    starts |= {c * n_base + int(s) for c in later for s in np.flatnonzero(mdp.restart[c])}
    while True:
        ends = unsafe_ends(mdp, {s for s in starts if not mdp.reset[s]})
        following = {
            int(c) * n_base + e % n_base for es in ends.values() for e in es for c in np.flatnonzero(chain[e // n_base])
        }
        if following <= starts:
            break
        starts |= following
    found = reachable_starts(mdp)
    assert set(np.flatnonzero(found.states).tolist()) == starts
    for s in starts:  # and the story of how each is reached is true
        path = found.path(s)
        for before, after in pairwise(path):
            assert any(after % n_base == e % n_base and chain[e // n_base, after // n_base] > 0 for e in ends[before])
        assert mdp.start[path[0]] > 0 or mdp.restart.ravel()[path[0]] > 0
        assert isinstance(found.explain(s), str)


@exact(150)
@given(seed=seeds)
def test_closing_repairs_every_problem(seed: int) -> None:
    mdp = rough_mdp(seed)
    repaired = rf.close(mdp)
    assert feasibility(repaired).holds
    assert bool(rf.check(repaired))
    finding = feasibility(mdp)
    if not finding.holds:
        assert finding.witness is not None
        assert not rf.solve(mdp, starts=[]).feasible[finding.witness]
        assert mdp.state_names[finding.witness] in finding.sentence


@exact(150)
@given(seed=seeds)
def test_the_saddle_point_is_shared_and_least(seed: int) -> None:
    mdp = closed_mdp(seed)
    solution = rf.solve(mdp)
    for certificate in [
        *shared_saddle_point(mdp, solution), *second_saddle_point(mdp, solution), least_multiplier(mdp, solution),
    ]:  # fmt: skip
        assert certificate.holds, certificate


@exact(100)
@given(mdp=finite_problems())
def test_the_statements_hold_on_problems_of_small_fractions(mdp: rf.FiniteMDP) -> None:
    for certificate in rf.certify_problem(mdp):
        assert certificate.holds, certificate


@exact(100)
@given(seed=seeds)
def test_no_sampled_policy_beats_the_maximum_over_all(seed: int) -> None:
    """The maximum in the saddle-point certificate is over ALL policies: sampled ones must stay below it."""
    mdp = closed_mdp(seed)
    solution, rng = rf.solve(mdp), np.random.default_rng(seed)
    s = solution.feasible
    for _ in range(5):
        values = rf.evaluate(mdp, sparse_policy(mdp, rng))
        gain = values.v_r - solution.lambda_hat * values.v_c - solution.value
        assert gain[s].max() <= 1e-9 * mdp.horizon


@exact(150)
@given(seed=seeds)
def test_half_the_multiplier_fails(seed: int) -> None:
    mdp = closed_mdp(seed)
    solution = rf.solve(mdp)
    hat = solution.lambda_hat
    assert saddle_point(mdp, np.nan_to_num(hat), solution).holds
    if np.nanmax(hat) > 1e-3:
        assert not saddle_point(mdp, np.nan_to_num(hat) / 2, solution).holds


@exact(100)
@given(seed=seeds)
def test_a_multiplier_that_is_too_large_is_not_called_least(seed: int) -> None:
    mdp = closed_mdp(seed)
    solution = rf.solve(mdp)
    if np.nanmax(solution.lambda_hat) > 1e-3:
        solution.__dict__["lambda_hat"] = solution.lambda_hat * 1.5
        assert not least_multiplier(mdp, solution).holds


@exact(150)
@given(seed=seeds)
def test_the_reduction_holds_for_any_rounds(seed: int) -> None:
    mdp = closed_mdp(seed)
    solution = rf.solve(mdp)
    rounds = play(mdp, solution, seed)
    certificates = reduction(rounds, solution)
    assert len(certificates) >= 6
    for certificate in [*certificates, *saddle_gap(rounds, solution)]:
        assert certificate.holds, certificate


@exact(150)
@given(seed=seeds)
def test_the_identities_are_exact(seed: int) -> None:
    """R_p + R_d(0) = Regret and R_p + R_d(lambda*) = Regret + sum lambda* V_c, without any tolerance of ours."""
    mdp = closed_mdp(seed)
    solution = rf.solve(mdp)
    rounds = play(mdp, solution, seed)
    star = solution.lambda_star[rounds.s1]
    scale = 1e-9 * len(rounds) * (1 + np.abs(star).max())
    r_p, total = primal_regret(rounds, solution), regret(rounds, solution)
    assert np.allclose(r_p + dual_regret(rounds, 0.0), total, rtol=0, atol=scale)
    expected = total + np.cumsum(star * rounds.v_c)
    assert np.allclose(r_p + dual_regret(rounds, solution.lambda_star), expected, rtol=0, atol=scale)
    assert (resets(rounds) <= r_p + dual_regret(rounds, at_starts=star) + scale).all()
    assert (dual_regret(rounds, 0.0) <= 0).all()
    assert (total >= -np.cumsum((star - 1) * rounds.v_c) - scale).all()


@exact(100)
@given(seed=seeds)
def test_a_fixed_penalty_bounds_the_resets(seed: int) -> None:
    mdp = closed_mdp(seed)
    solution = rf.solve(mdp)
    rounds = play(mdp, solution, seed)
    largest = float(np.nanmax(solution.lambda_hat))
    fixed = Rounds(rounds.s1, np.full(len(rounds), largest + 0.5), rounds.v_r, rounds.v_c)
    certificates = reduction(fixed, solution)
    assert any("fixed C" in c.claim for c in certificates)
    assert all(c.holds for c in certificates)
    below = Rounds(rounds.s1, np.full(len(rounds), largest / 2), rounds.v_r, rounds.v_c)
    hat = solution.lambda_hat[rounds.s1].max()
    assert any("fixed C" in c.claim for c in reduction(below, solution)) == (largest / 2 > hat)


@exact(200)
@given(seed=seeds)
def test_restricted_policies_are_the_reset_free_ones(seed: int) -> None:
    mdp = closed_mdp(seed)
    solution, rng = rf.solve(mdp, starts=[]), np.random.default_rng(seed)
    allowed = solution.safe_actions.astype(np.float64)
    inside = sparse_policy(mdp, rng) * allowed + np.where(allowed.any(axis=2, keepdims=True), 1e-3 * allowed, 1.0)
    inside /= inside.sum(axis=2, keepdims=True)
    for policy in (
        sparse_policy(mdp, rng, 0.7),
        random_policy(mdp, rng),
        inside,
        np.eye(mdp.n_actions)[solution.policy],
    ):
        for certificate in restricted_policies(mdp, policy, solution):
            assert certificate.holds, certificate
    assert restricted_policies(mdp, inside, solution)[0].detail["restricted"] == int(solution.feasible.sum())


@exact(60)
@given(seed=seeds)
def test_regret_is_a_comparison_with_one_policy(seed: int) -> None:
    mdp = closed_mdp(seed)
    solution = rf.solve(mdp, starts=[])
    starts: NDArray[np.int64] = np.random.default_rng(seed).choice(np.flatnonzero(solution.feasible), size=9)
    certificate = regret_equivalence(mdp, starts, solution)
    assert certificate.holds, certificate
