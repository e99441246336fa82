"""The benchmark of proved bounds: what it calls certified is what `certify` compares with, and the formula by hand."""

import sys
from dataclasses import replace
from math import exp, log, sqrt
from pathlib import Path

import pytest
from benchmarks import theory

import resetfree as rf
from resetfree.theory.certificates import RATES, certify
from resetfree.theory.certificates.claims_rates import solved_for_resets

CASE = theory.CASES[1]  # two places, H = 2, pooled


def by_hand(S: int, A: int, H: int, B: float, K: int, pooled: bool) -> float:
    """The rate of the width "proved" (one-hot features, deterministic rewards, p = 0.05), every sum written out."""
    cells, live, layers = S * A, (S - 1) * A, 1 if pooled else H
    L = log((2 ** (S - 1) - 1) * layers * cells / (0.75 * 0.05))
    lag = H - 1 if pooled else 0  # visits of a cell that a plan may not know

    def x(n: int) -> float:
        return (L + log(2 * sqrt(n))) / n

    def spread(visits: int, among: int, first: float, power: float) -> float:
        """The sum over visits that come to each cell in turn."""
        known = (max(i // among - lag, 0) for i in range(visits))
        return sum(min((first * x(n)) ** power, 1.0) if n else 1.0 for n in known)

    if pooled:
        D = sum(spread(j * K, cells, 2.0, 0.5) for j in range(1, H)) + min(cells * (lag + 1), H * K)
        Y = spread(H * K, live, 8.0, 1.0)
    else:
        D = sum((H - h) * spread(K, cells, 2.0, 0.5) for h in range(1, H + 1)) + H * min(cells, K)
        Y = H * spread(K, live, 8.0, 1.0)

    def expected(total: float, largest: float) -> float:
        found = []
        for j in range(32):
            t, part = 2.0 ** (1 - j), 0.05 / 8 / ((j + 1) * (j + 2))
            found.append((t * total / largest + log(1 / part)) / (1 - exp(-t)))
        return min(largest * min(found), largest * K)

    D, Y = expected(D, H * (H + 1) / 2), expected(Y, H)
    softmax = sum(H * 2 * (1 + B + H) / k for k in range(1, K + 1))
    rest, root = softmax + D + 1.5 * B * sqrt(K), B * sqrt(Y * H)
    low, high = 0.0, rest + root * sqrt(K)
    while high - low > 1e-9 * high:  # the largest R <= rest + root sqrt(R), or as R is at most K
        middle = (low + high) / 2
        low, high = (middle, high) if middle <= rest + root * sqrt(min(middle, K)) else (low, middle)
    return high


@pytest.mark.parametrize("case", theory.CASES[:4], ids=lambda case: case.name)
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("K", [7, 3000])
def test_the_rate_is_the_formula_by_hand(case: theory.Case, pooled: bool, K: int) -> None:
    mdp = case.make()
    primal, _ = replace(case, settings={"pooled": pooled}).players(mdp)
    wanted = by_hand(mdp.n_states, mdp.n_actions, mdp.horizon, primal.B, K, pooled)
    assert theory.certified(primal, mdp.problem(), K) == pytest.approx(wanted, rel=1e-6)


def test_certify_compares_with_no_more() -> None:
    """`certify` knows how far the multiplier was from lambda*, so that its dual part is at most 1.5 B sqrt(K)."""
    mdp, settings = CASE.make(), {"primal": {"width": "proved", "anytime": True, "pooled": True}}
    run = rf.learn(
        mdp, "linear-ucb", "projected-gradient", episodes=900, seed=4, feedback="optimistic", settings=settings
    )
    found = {c.claim: c for c in certify(run)}
    primal, _ = CASE.players(mdp)
    ours, rate = theory.certified(primal, mdp.problem(), 900), found[RATES[2]]
    assert rate.status == "proved"
    assert rate.rhs <= ours * (1 + 1e-12)
    bound = primal.primal_regret_bound(mdp.problem(), 900, 900)
    with_its_dual = solved_for_resets(bound.most + rate.detail["dual"], bound.per_root_reset, 900)
    assert rate.detail["reduction"] == pytest.approx(with_its_dual, rel=1e-9)


def test_it_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    rows = theory.Kept(tmp_path / "whole", CASE, 1).go_on(700)
    for episodes in (90, 433, 700):
        again = theory.Kept(tmp_path / "parts", CASE, 1).go_on(episodes)
    assert again == rows
    run = rf.learn(CASE.make(), *CASE.players(CASE.make()), episodes=700, seed=1, feedback="optimistic")
    k, expected, realised = rows[-1]
    assert expected == pytest.approx(float(run.resets[int(k) - 1]))
    assert realised == run.realised_resets[int(k) - 1]


def test_it_draws_the_picture_and_prints_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(theory, "CASES", theory.CASES[:1])
    monkeypatch.setattr(theory, "CURVE", [10, 1000, 100_000])
    options = ["--episodes", "500", "--short", "200", "--seeds", "2"]
    monkeypatch.setattr(
        sys, "argv", ["theory.py", *options, "--out", str(tmp_path / "runs"), "--picture", str(tmp_path / "x.svg")]
    )
    theory.main()
    shown = capsys.readouterr().out
    assert "3,110" in shown
    assert "62,172" in shown
    assert "<svg" in (tmp_path / "x.svg").read_text()
