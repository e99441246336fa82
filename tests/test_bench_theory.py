"""The benchmark of proved bounds: what it calls certified is what `certify` compares with."""

import sys
from pathlib import Path

import pytest
from benchmarks import theory

import resetfree as rf
from resetfree.theory.certificates import RATES, certify
from resetfree.theory.certificates.claims_rates import solved_for_resets

CASE = theory.CASES[1]  # two places, H = 2, pooled


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
