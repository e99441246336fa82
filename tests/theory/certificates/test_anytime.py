"""Bounds at any time, identities, and sides that a float cannot hold."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import poisson

import resetfree as rf
from resetfree.core import Floats
from resetfree.players import discover
from resetfree.theory import certificates
from resetfree.theory.certificates import RATES, certify
from resetfree.theory.certificates.anytime import (
    mixture_boundary,
    regret_lower,
    regret_upper,
    resets_lower,
    resets_upper,
)
from resetfree.theory.certificates.claims_dual import comparators, dual_start
from resetfree.theory.certificates.record import DIGEST
from resetfree.theory.regret import Rounds
from resetfree.theory.theorems import reduction, saddle_gap

SEEDS, K, DELTA = 200, 1500, 0.1
MOST = 20  # of 200 seeds: what DELTA = 0.1 allows on average, and far more than these bounds need


def adaptive_resets(probability: Callable[[int, Floats], Floats | float]) -> tuple[Floats, Floats]:
    """[SEEDS, K] resets so far and the sum of their probabilities, which may depend on the resets before."""
    rng = np.random.default_rng(1)
    happened, expected = np.empty((SEEDS, K)), np.empty((SEEDS, K))
    n, total = np.zeros(SEEDS), np.zeros(SEEDS)
    for k in range(K):
        p = probability(k, n) * np.ones(SEEDS)
        n = n + (rng.random(SEEDS) < p)
        total = total + p
        happened[:, k], expected[:, k] = n, total
    return happened, expected


@pytest.mark.parametrize(
    "probability",
    [
        lambda k, n: 0.02,
        lambda k, n: 0.7,
        lambda k, n: 1.0 / (1.0 + n),  # fewer after each reset, as a learner has it
        lambda k, n: np.where(n * 10 < k, 0.3, 0.01),  # against the bound: rises where resets have been few
        lambda k, n: 0.0,
        lambda k, n: 1.0,
    ],
)
def test_resets_stay_between_the_bounds_at_all_rounds(probability: Callable[[int, Floats], Floats | float]) -> None:
    happened, expected = adaptive_resets(probability)
    above = (expected > resets_upper(happened, DELTA)).any(axis=1)
    below = (expected < resets_lower(happened, DELTA) - 1e-9).any(axis=1)
    assert above.sum() <= MOST
    assert below.sum() <= MOST


@pytest.mark.parametrize("delta", [0.01, 0.05, 0.5])
def test_no_process_of_small_probabilities_beats_the_bound(delta: float) -> None:
    """Exactly, for resets that come one by one at random times (Poisson): Resets(k) is then time, and the bound fails
    if at some time U(n) no more than n resets have happened. Probabilities of each number, n by n."""
    n_most, time, failed = 120, 0.0, 0.0
    bound, alive = resets_upper(np.arange(n_most), delta), np.eye(1, 600)[0]
    for n, now in enumerate(bound):
        alive = np.convolve(alive, poisson.pmf(np.arange(200), now - time))[:600]
        failed, time = failed + float(alive[: n + 1].sum()), float(now)
        alive[: n + 1] = 0.0
    assert delta / 4 < failed <= delta  # and it is not far from failing


def test_a_smaller_bound_would_not_be_covered() -> None:
    """The count itself is no bound on its expectation: the tests above could fail."""
    happened, expected = adaptive_resets(lambda k, n: 0.02)
    assert (expected > happened + 1.0).any(axis=1).sum() > MOST
    assert (expected < happened - 1.0).any(axis=1).sum() > MOST


@pytest.mark.parametrize("rho", [1.0, 50.0, 5000.0])
def test_the_boundary_covers_random_walks(rho: float) -> None:
    rng = np.random.default_rng(2)
    walks = rng.normal(size=(SEEDS, K)).cumsum(axis=1)
    boundary = mixture_boundary(np.arange(1.0, K + 1), DELTA, rho)
    assert (np.abs(walks) > boundary).any(axis=1).sum() <= MOST
    if rho < K / 5:  # tightest where v is about 5 rho: there it is not idly wide either
        assert (np.abs(walks) > 0.6 * boundary).any(axis=1).sum() > MOST / 2


@pytest.mark.parametrize("noise", [0.0, "bernoulli", 0.7])
def test_regret_stays_below_its_bound(noise: float | str) -> None:
    """H rewards of a mean that depends on the past; V* = H * 0.8 from one start, named with a margin that shrinks."""
    rng, horizon, n_rounds = np.random.default_rng(3), 5, 400
    reward, mean = np.empty((SEEDS, n_rounds)), np.empty((SEEDS, n_rounds))
    luck = np.zeros(SEEDS)
    for k in range(n_rounds):
        mean[:, k] = horizon * np.clip(0.8 - 0.3 / np.sqrt(k + 1) - 0.05 * np.sign(luck), 0, 1)
        # All or nothing is the widest return in [0, H].
        paid = horizon * (rng.random(SEEDS) < mean[:, k] / horizon)
        if isinstance(noise, float):
            paid = paid + noise * np.sqrt(horizon) * rng.normal(size=SEEDS)
        luck += paid - mean[:, k]
        reward[:, k] = paid
    rounds = np.arange(1, n_rounds + 1)
    above = np.cumsum(np.minimum(horizon * (0.8 + 0.2 / rounds), horizon))
    truth = 0.8 * horizon * rounds - mean.cumsum(axis=1)
    bound = regret_upper(rounds, above, reward.cumsum(axis=1), horizon, DELTA, noise)
    assert (truth > bound).any(axis=1).sum() <= MOST


@pytest.mark.parametrize(
    "bad",
    [
        lambda: resets_upper([-1]),
        lambda: resets_upper([1], delta=0.0),
        lambda: resets_lower([1], delta=1.0),
        lambda: mixture_boundary(1.0, 0.05, 0.0),
        lambda: mixture_boundary(1.0, 2.0),
        lambda: regret_lower([1], -1.0),
    ],
)
def test_what_they_must_be_given(bad: Callable[[], object]) -> None:
    with pytest.raises(rf.InvalidInput, match="must"):
        bad()


DRAWS = 40


def garbage(run: rf.Run, seed: int) -> rf.Run:
    """The run with all columns drawn at random: no players ever played this."""
    assert run.mdp is not None
    rng, n, horizon = np.random.default_rng(seed), len(run), run.mdp.horizon
    drawn = {
        "s1": rng.choice(np.flatnonzero(run.solution.feasible), size=n), "lam": rng.uniform(0, 40.0, size=n),
        **{name: rng.uniform(0, horizon, size=n) for name in ("v_r", "v_r_hat", "upper")},
        **{name: rng.random(n) for name in ("v_c", "v_c_hat", "cost_signal")},
        "reward": np.full(n, float(horizon * (seed % 2))), "reset": np.full(n, bool(seed % 2)),
    }  # fmt: skip
    return dataclasses.replace(run, columns={**run.columns, **drawn})


def by_claim(found: list[list[rf.Certificate]]) -> dict[str, list[rf.Certificate]]:
    result: dict[str, list[rf.Certificate]] = {}
    for claims in found:
        for c in claims:
            result.setdefault(c.claim, []).append(c)
    return result


def test_of_the_reduction_only_identities_hold_on_garbage() -> None:
    mdp = rf.make("grid-v0")
    solution = rf.solve(mdp)
    feasible = np.flatnonzero(solution.feasible)
    found = []
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        lam = np.full(30, 45.0) if seed % 2 else rng.uniform(0, 60, size=30)  # every other one: a fixed penalty
        rounds = Rounds(rng.choice(feasible, size=30), lam, rng.uniform(0, 8, size=30), rng.random(30) * rng.random())
        found.append([*reduction(rounds, solution), *saddle_gap(rounds, solution)])
    claims = by_claim(found)
    held = {claim for claim, each in claims.items() if all(c.holds for c in each)}
    assert held == {claim for claim, each in claims.items() if each[0].status == "identity"}
    assert len(held) == 6
    assert {claim for claim in claims if claim not in held} == {
        "Resets are at most R_p(pi*) + R_d(lambda*)",
        "Regret is at least minus the sum of lambda_hat V_c",
        "Resets are at most R_p(pi*) / (C - max lambda_hat), for fixed C",
    }


# Claims that garbage need not break within so few rounds: bounds that no run of this length can exceed ("vacuous").
SLOW = ("at most its rate", "at most their rate")


@pytest.mark.parametrize("dual", ["projected-gradient", "constant-step", "adagrad-norm", "constant-penalty"])
def test_of_a_run_only_identities_hold_on_garbage(dual: str) -> None:
    settings: dict[str, Any] = {"primal": {"width": "theory"}}
    run = rf.learn("grid-v0", "linear-ucb", dual, episodes=100, feedback="optimistic", settings=settings)
    honest = certify(run)
    assert not [c for c in honest if c.refuted]
    claims = by_claim([certify(garbage(run, seed)) for seed in range(8)])
    held = {claim for claim, each in claims.items() if each[0].applies and all(c.holds for c in each)}
    identities = {c.claim for c in honest if c.status == "identity"}
    assert identities <= held
    of_the_record = {c.claim for c in honest if "rounds in which" in c.claim or "(entries that" in c.claim} | {DIGEST}
    rest = held - identities - of_the_record
    allowed = {claim for claim in rest if any(words in claim for words in SLOW)}
    assert rest - allowed == set()


def test_an_identity_that_fails_is_as_bad_as_a_proved_claim_that_does() -> None:
    wrong = rf.Certificate("one and one", 2.0, 3.0, kind="==", status="identity")
    assert wrong.refuted
    assert str(wrong).startswith("FAILS (identity)")
    assert not rf.Certificate("one and one", 2.0, 3.0, kind="==", status="tuned").refuted
    assert not rf.Certificate("one and one", 2.0, 2.0, kind="==", status="identity").refuted


FALLS = (1e-100, 1e-154, 1e-200, 1e-300, 1e-308, 1e-310, 5e-324)
BOUNDS = (1e-300, 5.0, 1e154, 1e300)
PRIMALS = ("uniform", "linear-ucb", "lsvi-ucb++", "support-elimination")


def steep(fall: float, xi: Any = None) -> rf.FiniteMDP:
    """Going on from 1 pays, and ends in a reset with probability `fall`: lambda_hat is about 1 / fall."""
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = transition[0, 1, 1] = transition[1, 0, 0] = transition[2, :, 2] = 1.0
    transition[1, 1] = [1.0 - fall, 0.0, fall]
    reward = np.array([[0.0, 0.1], [0.2, 1.0], [0.0, 0.0]])
    return rf.FiniteMDP(transition, reward, [False, False, True], 2, xi=xi)


def sound(run: rf.Run) -> None:
    assert np.isfinite(run.columns["lam"]).all()
    found = certify(run)
    assert len(found) > 20
    for c in found:
        assert c.status == "not applicable" or (math.isfinite(c.lhs) and math.isfinite(c.rhs)), str(c)
        assert not c.refuted, str(c)
        assert c.status != "not applicable" or c.why


@pytest.mark.parametrize("dual", sorted(discover("dual")))
def test_every_dual_player_is_certified_whatever_the_multipliers_are(dual: str) -> None:
    """Eight of all combinations for each, drawn with a seed; warnings are errors here."""
    cases = list(itertools.product(FALLS, BOUNDS, PRIMALS, (None, 4), ("optimistic", "realised", "exact"), (0, 1)))
    rng = np.random.default_rng(sorted(discover("dual")).index(dual))
    for i in rng.choice(len(cases), 8, replace=False):
        fall, B, primal, delay, feedback, rich = cases[int(i)]
        mdp = steep(fall, np.eye(3) if rich else None)
        own = {"B": B} if "B" in discover("dual")[dual].__dataclass_fields__ else {}
        settings: dict[str, Any] = {"dual": own, "primal": {"B": B} if primal == "linear-ucb" else {}}
        run = rf.learn(mdp, primal, dual, feedback=feedback, episodes=6, seed=1, delay=delay, settings=settings)
        sound(run)


@pytest.mark.parametrize("fall", [1e-154, 1e-200, 1e-300])
@pytest.mark.parametrize("rich", [False, True])
def test_a_comparator_outside_the_set_does_not_pass(fall: float, rich: bool) -> None:
    run = rf.learn(
        steep(fall, np.eye(3) if rich else None), "uniform", "adagrad-norm", feedback="realised", episodes=6,
        settings={"dual": {"B": 5.0}},
    )  # fmt: skip
    found = comparators(run, dual_start(run), run.solution.lambda_hat[run.columns["s1"]])["lambda*"]
    assert isinstance(found, str)
    assert "outside of the dual player's set" in found
    sound(run)


def test_a_multiplier_that_is_no_float_is_named_and_the_other_claims_stay() -> None:
    run = rf.learn(
        steep(1e-310), "uniform", "adagrad-norm", feedback="realised", episodes=6, settings={"dual": {"B": 5.0}}
    )
    found = {c.claim: c for c in certify(run)}
    assert found["Regret equals R_p(pi*) + R_d(0)"].status in ("identity", "not applicable")
    assert found["Resets are at most what the resets so far allow"].holds
    assert "exceeds what a float can hold" in next(
        c.why for c in found.values() if "online regret against lambda*" in c.claim
    )


def test_weights_by_variance_are_numbers_where_squares_are_not() -> None:
    settings = {"dual": {"B": 4e198}}
    run = rf.learn(
        steep(1e-200), "lsvi-ucb++", "constant-penalty", feedback="realised", episodes=12, delay=4, settings=settings
    )
    for column in ("v_r_hat", "v_c_hat", "upper"):
        assert np.isfinite(run.columns[column]).all()


def test_one_claim_that_cannot_be_computed_takes_no_other_down(monkeypatch: pytest.MonkeyPatch) -> None:
    run = rf.learn("grid-v0", "uniform", "projected-gradient", feedback="realised", episodes=10)
    whole = certify(run)

    def overflows(*_: Any) -> Any:
        raise OverflowError("numerical result out of range")

    monkeypatch.setattr(certificates, "rates", overflows)
    rest = certify(run)
    assert {c.claim for c in whole} - {c.claim for c in rest} == set(RATES)
    assert [c.why for c in rest if c.claim == "claims about the rates"] == [
        "they cannot be computed: numerical result out of range"
    ]
    assert len(rest) == len(whole) - 2


def test_a_record_with_numbers_that_are_none_still_fails() -> None:
    run = rf.learn("grid-v0", "uniform", "projected-gradient", feedback="realised", episodes=10)
    reward = run.columns["reward"].copy()
    reward[3] = np.nan
    forged = dataclasses.replace(run, columns={**run.columns, "reward": reward})
    assert any(c.refuted and "rewards collected" in c.claim for c in certify(forged))
