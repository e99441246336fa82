"""The benchmark of growth: exponents are right, curves are those of `learn`, and it goes on where it stopped."""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import rates

import resetfree as rf

LEDGE = rates.Variant("ledge-v0", {"places": 2, "horizon": 2}, "pooled", "realised", "proved", 400)


def test_exponents_of_powers() -> None:
    k = np.array(rates.late_half(10_000), dtype=np.float64)
    assert (k[0], k[-1], len(k)) == (5_000, 10_000, rates.POINTS)
    curves = np.stack([7 * k, 3 * k**0.5, np.full_like(k, 42.0), k - 6_000])
    found = rates.exponents(k, curves)
    np.testing.assert_allclose(found[:3], [1.0, 0.5, 0.0], atol=1e-12)
    assert np.isnan(found[3])
    assert rates.with_interval(k, np.stack([k**0.5, 2 * k**0.5])) == "0.50 [0.50, 0.50]"
    assert rates.with_interval(k, np.stack([k**0.5, -2 * k**0.5])) == "negative"
    low, high = rates.with_interval(k, np.stack([k, k**0.5 * 70])).split(" ")[1:]
    assert float(low.strip("[,")) == pytest.approx(0.5, abs=0.01)  # a quarter of the resamples are one seed twice
    assert float(high.strip("]")) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("data", ["per step", "pooled"])
def test_curves_are_those_of_a_run(data: str) -> None:
    found = rates.played(replace(LEDGE, data=data), 3)
    settings = {"primal": {"width": "proved", "anytime": True, "pooled": data == "pooled"}}
    mdp = rf.make("ledge-v0", places=2, horizon=2)
    run = rf.learn(
        mdp, "linear-ucb", "projected-gradient", episodes=400, seed=3, feedback="realised", settings=settings
    )
    at = np.array(rates.late_half(400)) - 1
    np.testing.assert_allclose(found["regret"], run.regret[at], atol=1e-6)
    np.testing.assert_allclose(found["resets"], run.resets[at], atol=1e-6)
    assert found["realised"] == run.realised_resets[at].tolist()


def test_it_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rates, "variants", lambda: iter([LEDGE]))
    file = tmp_path / "rates.jsonl"
    for seeds in (1, 2, 2):
        monkeypatch.setattr(sys, "argv", ["rates.py", "--out", str(file), "--seeds", str(seeds)])
        rates.main()
    runs = [json.loads(line) for line in file.read_text().splitlines()]
    assert [run["seed"] for run in runs] == [0, 1]
    assert all(run["variant"] == asdict(LEDGE) for run in runs)
    row = capsys.readouterr().out.splitlines()[-1]
    assert row.startswith("| `ledge-v0, places=2, horizon=2` | proved | pooled | realised | 400 | 2 |")
    monkeypatch.setattr(sys, "argv", ["rates.py", "--table", str(file)])
    rates.main()
    assert capsys.readouterr().out.splitlines()[-1] == row


def test_files_of_several_processes_are_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranges of seeds in files of their own; what two of them have is counted once."""
    monkeypatch.setattr(rates, "variants", lambda: iter([LEDGE]))
    tables = []
    for name, seeds in (("whole", "4"), ("first", "0:3"), ("second", "2:4")):
        monkeypatch.setattr(sys, "argv", ["rates.py", "--out", str(tmp_path / name), "--seeds", seeds])
        rates.main()
        tables.append(capsys.readouterr().out)
    monkeypatch.setattr(sys, "argv", ["rates.py", "--table", str(tmp_path / "second"), str(tmp_path / "first")])
    rates.main()
    assert capsys.readouterr().out == tables[0]
    assert "| 400 | 4 |" in tables[0]
