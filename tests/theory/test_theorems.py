"""Every statement on problems whose answers are known, and that each certificate can fail."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

import resetfree as rf
from resetfree.problems.finite.safety import SafeSets
from resetfree.problems.finite.tabular_policy import random_policy, uniform
from resetfree.theory import theorems
from resetfree.theory.lemmas import no_attained_multiplier, no_shared_optimum_above_zero
from resetfree.theory.regret import Rounds, exact_rounds
from resetfree.theory.theorems import (
    least_multiplier,
    reduction,
    restricted_policies,
    saddle_gap,
    saddle_point,
    shared_saddle_point,
)

FINITE = [name for name in rf.problems() if isinstance(rf.make(name), rf.FiniteMDP)]

CLAIMS = [
    "pi* cannot be reset from any start",
    "pi* earns V* from every start",
    "no policy has V_r - y V_c above V*, from any start, for y = lambda_hat",
    "from every start with lambda_hat > 0 some policy needs a multiplier above",
    "no policy has V_r - y V_c above V*, from any start, for y = lambda_hat + 1",
    "a policy keeps to Abar from a feasible start iff it cannot be reset",
    "V_c is exactly zero from every feasible start from which the policy keeps to Abar",
    "no action of Abar leads where some policy that keeps to Abar can be reset",
    "after every action outside Abar every policy can be reset",
    "the best reset-free policy for the whole sequence of starts earns the sum of V*",
]


@pytest.fixture
def grid() -> rf.FiniteMDP:
    problem: rf.FiniteMDP = rf.make("grid-v0")
    return problem


def random_rounds(mdp: rf.FiniteMDP, seed: int, n: int = 40) -> Rounds:
    rng = np.random.default_rng(seed)
    starts = rng.choice(np.flatnonzero(rf.solve(mdp, starts=[]).feasible), size=n)
    return exact_rounds(mdp, [random_policy(mdp, rng) for _ in range(n)], rng.exponential(20, size=n), starts)


@pytest.mark.parametrize("name", FINITE)
def test_every_registered_problem_is_certified(name: str) -> None:
    mdp = rf.make(name)
    certificates = rf.certify_problem(mdp)
    assert [c.claim.split(" (")[0] for c in certificates] == CLAIMS
    for certificate in certificates:
        assert certificate.holds, certificate
        json.dumps(certificate.to_dict(), allow_nan=False)
    if rf.solve(mdp, starts=[]).feasible.any():
        rounds = random_rounds(mdp, seed=1)
        for certificate in [*reduction(rounds, rf.solve(mdp)), *saddle_gap(rounds, rf.solve(mdp))]:
            assert certificate.holds, certificate


def broken(solution: rf.Solution, what: str) -> rf.Solution:
    """A solution of the grid that is wrong in one respect."""
    mdp, safe = solution.mdp, np.array(solution.safe_actions)
    if what == "a risky policy":
        return replace(solution, policy=np.full_like(solution.policy, mdp.action_names.index("right")))
    if what == "a value too high":
        return replace(solution, value=solution.value + 0.01)
    if what.startswith("multipliers"):
        hat = solution.lambda_hat
        wrong = {"halved": hat / 2, "doubled": hat * 2, "less by two": np.maximum(hat - 2, 0)}
        solution.__dict__["lambda_hat"] = wrong[what.removeprefix("multipliers ")]
        return solution
    h, s = np.argwhere(safe.any(axis=2) & ~safe.all(axis=2))[0]
    safe[h, s] = what == "all actions allowed"
    if what == "one action forbidden":
        safe[h, s, solution.policy[h, s]] = True
    return replace(solution, safe=SafeSets(safe, np.arange(len(safe)), solution.safe.last))


@pytest.mark.parametrize(
    ("what", "fails"),
    [
        ("a risky policy", {0, 1}),
        ("a value too high", {1, 9}),
        ("multipliers halved", {2}),
        ("multipliers doubled", {3}),
        ("multipliers less by two", {4}),
        ("all actions allowed", {5, 6, 7}),
        ("one action forbidden", {5, 8}),
    ],
)
def test_every_claim_about_a_problem_fails_on_some_wrong_answer(
    grid: rf.FiniteMDP, monkeypatch: pytest.MonkeyPatch, what: str, fails: set[int]
) -> None:
    """Each of the ten claims has a wrong answer among these that it does not survive."""
    honest = rf.solve
    monkeypatch.setattr(theorems, "solve", lambda mdp, starts=None: broken(honest(mdp, starts), what))
    failed = {i for i, c in enumerate(rf.certify_problem(grid)) if not c.holds}
    assert fails <= failed, failed


def test_below_lambda_hat_the_saddle_point_fails(grid: rf.FiniteMDP) -> None:
    solution = rf.solve(grid)
    hat = np.nan_to_num(solution.lambda_hat)
    assert saddle_point(grid, hat, solution).holds
    assert saddle_point(grid, hat + 5, solution).holds
    certificate = saddle_point(grid, hat / 2, solution)
    assert not certificate.holds
    assert certificate.slack < -1e-3
    one = hat.copy()
    one[2] *= 1 - 1e-6
    certificate = saddle_point(grid, one, solution)
    assert not certificate.holds
    assert certificate.witness == "0,2 (index 2)"
    with pytest.raises(rf.InvalidInput, match="'multipliers' of saddle_point"):
        saddle_point(grid, hat[:3], solution)


@pytest.mark.parametrize(("more", "seen"), [(1e-6, True), (1e-13, True), (2e-16, False)])
def test_small_gains_are_seen_and_rounding_is_not(more: float, seen: bool) -> None:
    """Risk that earns a little more needs a small multiplier, unless the little is less than floats can tell."""
    transition = np.zeros((2, 2, 2))
    transition[0, 0, 0] = transition[0, 1, 1] = 1.0
    reward = np.array([[0.5, 0.5 + more], [0, 0]])
    mdp = rf.FiniteMDP(transition, reward, [False, True], 1)
    certificate = least_multiplier(mdp)
    assert certificate.holds
    assert certificate.detail["starts"] == int(seen)
    assert rf.solve(mdp).lambda_hat[0] == (reward[0, 1] - 0.5 if seen else 0.0)


def test_only_the_starts_that_were_asked_for(grid: rf.FiniteMDP) -> None:
    solution = rf.solve(grid, starts=[0, 2])
    assert shared_saddle_point(grid, solution)[-1].detail["starts"] == 2
    assert all(c.holds for c in rf.certify_problem(grid, starts=[0, 2]))
    rounds = random_rounds(grid, seed=2)  # starts beyond those asked for: their multipliers are computed
    assert [c.to_dict() for c in reduction(rounds, solution)] == [
        c.to_dict() for c in reduction(rounds, rf.solve(grid))
    ]


def test_restricted_policies_on_the_support_where_numbers_underflow() -> None:
    """A reset so unlikely that its probability is 0.0 is still a reset."""
    n = 5
    transition, support = np.zeros((n + 1, 2, n + 1)), np.zeros((n + 1, 2, n + 1), dtype=bool)
    for s in range(n):
        transition[s, :, 0] = 1.0
        support[s, :, 0] = True
        transition[s, 1, [0, s + 1]] = [1.0 - 1e-200, 1e-200]
        support[s, 1, s + 1] = True
    mdp = rf.FiniteMDP(transition, np.zeros((n + 1, 2)), np.arange(n + 1) == n, n, support=support)
    assert rf.evaluate(mdp, uniform(mdp)).v_c[0] == 0.0
    certificates = restricted_policies(mdp, uniform(mdp))
    assert all(c.holds for c in certificates)
    assert certificates[0].detail["underflowed"] > 0
    assert certificates[0].detail["restricted"] == 0


def test_the_fixed_penalty_bound_appears_where_it_applies(grid: rf.FiniteMDP) -> None:
    solution = rf.solve(grid)
    policies: list[ArrayLike] = [uniform(grid), solution.policy] * 10
    starts = [0, 2] * 10
    bounded = reduction(exact_rounds(grid, policies, 40.0, starts), solution)
    assert "fixed C" in bounded[-1].claim
    assert all(c.holds for c in bounded)
    assert not any("fixed C" in c.claim for c in reduction(exact_rounds(grid, policies, 30.0, starts), solution))
    negative = reduction(exact_rounds(grid, policies, -1.0, starts), solution)
    assert not any("never positive" in c.claim for c in negative)
    assert all(c.holds for c in negative)


def test_the_reduction_can_fail_and_shows_the_first_round(grid: rf.FiniteMDP) -> None:
    """Values that no policy has: more reward than any policy without a single reset."""
    solution, honest = rf.solve(grid), random_rounds(grid, seed=4)
    v_r, v_c = honest.v_r.copy(), honest.v_c.copy()
    v_r[17], v_c[17] = 5000.0, 0.0
    failed = [c for c in reduction(Rounds(honest.s1, honest.lam, v_r, v_c), solution) if not c.holds]
    assert failed
    assert {c.kind for c in failed} == {"<="}  # the identities are algebra and hold for any numbers
    assert {c.witness for c in failed} == {"round 18"}


def test_the_reduction_names_an_infeasible_start() -> None:
    mdp = rf.make("footnote-v0")
    rounds = exact_rounds(mdp, [uniform(mdp)] * 3, 1.0, [0, 1, 1])
    for statement in (reduction, saddle_gap):
        with pytest.raises(rf.AssumptionViolated, match="Round 2 starts in state bad"):
            statement(rounds, rf.solve(mdp))


def test_no_rounds_are_no_claim(grid: rf.FiniteMDP) -> None:
    empty = exact_rounds(grid, [], [], [])
    assert all(c.holds for c in reduction(empty, rf.solve(grid)))


def test_no_multiplier_is_attained_in_the_limit() -> None:
    certificates = no_attained_multiplier((3, 10, 40))
    assert all(c.holds for c in certificates)
    assert [c.lhs for c in certificates[2:]] == pytest.approx([36.0, 400.0, 6400.0])
    assert certificates[0].detail["g"][0] == pytest.approx(2 / 3)
    assert no_attained_multiplier(7)[-1].lhs == pytest.approx(196.0)
    with pytest.raises(rf.InvalidInput, match="positive integers"):
        no_attained_multiplier(())


def test_only_a_budget_of_zero_has_one_policy_for_all_starts() -> None:
    above, zero = no_shared_optimum_above_zero()
    assert above.holds
    assert (above.lhs, above.rhs) == (0.75, 1.0)
    assert (above.detail["p_from_A"], above.detail["p_from_B"]) == (0.5, 1.0)
    assert zero.holds
    assert (zero.lhs, zero.rhs) == (0.0, 0.0)
    assert all(c.holds for c in no_shared_optimum_above_zero(0.2))
    with pytest.raises(rf.InvalidInput, match="must be a number between 0 and 1"):
        no_shared_optimum_above_zero(1.0)


@pytest.mark.parametrize("module", ["theorems", "lemmas"])
def test_every_statement_names_what_it_is_in_the_paper(module: str) -> None:
    import importlib

    found = importlib.import_module(f"resetfree.theory.{module}")
    for name, item in vars(found).items():
        if callable(item) and getattr(item, "__module__", "") == found.__name__ and not name.startswith("_"):
            assert name in ("certify_problem", "saddle_point", "softmax") or "Paper: " in (item.__doc__ or ""), name
