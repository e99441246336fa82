"""What is called an identity holds on any numbers whatever, and what is called a claim does not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.core.certificate import Certificate
from resetfree.theory.certificates import certify
from resetfree.theory.certificates.record import DIGEST
from resetfree.theory.regret import Rounds
from resetfree.theory.theorems import reduction, saddle_gap

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


def by_claim(found: list[list[Certificate]]) -> dict[str, list[Certificate]]:
    result: dict[str, list[Certificate]] = {}
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
    wrong = Certificate("one and one", 2.0, 3.0, kind="==", status="identity")
    assert wrong.refuted
    assert str(wrong).startswith("FAILS (identity)")
    assert not Certificate("one and one", 2.0, 3.0, kind="==", status="tuned").refuted
    assert not Certificate("one and one", 2.0, 2.0, kind="==", status="identity").refuted
