"""What `certify` counts: theorems apart from checks of the record, what says nothing, and what chance may undo."""

from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

import resetfree as rf
from resetfree.core.certificate import Certificate, beside, failure_probability, resting_on
from resetfree.show.cli.certify import certify as command
from resetfree.theory.certificates.anytime import DELTA
from resetfree.theory.certificates.claims_paths import BY_SIZES, EVERY_PATH
from resetfree.theory.certificates.claims_reduction import OPTIMISM

DOCS = Path(__file__).parents[3] / "docs"
OF_THE_RECORD = ("(rounds", "(entries")  # how claims end that count what differs


def find(claims: list[Certificate], words: str) -> Certificate:
    (found,) = [c for c in claims if c.claim.startswith(words)]
    return found


@pytest.fixture(scope="module")
def careless() -> rf.Run:
    return rf.learn("grid-v0", "uniform", episodes=300, seed=0)


def test_what_must_be_true_of_an_honest_record_is_no_theorem(tmp_path: Path) -> None:
    file = tmp_path / "a.rfrun"
    claims = rf.learn("grid-v0", episodes=40, path=file).certificates()
    kept = [c for c in claims if c.applies and any(words in c.claim for words in OF_THE_RECORD)]
    assert len(kept) >= 6
    assert {c.status for c in kept} == {"checked"}
    assert {c.claim for c in claims if c.status == "checked"} == {c.claim for c in kept}
    counts = json.loads(CliRunner().invoke(command, [str(file), "--json", "--replay"]).output)["counts"]
    assert counts["checked"] > len(kept)  # what is played again is checked, too
    assert counts["proved"] == sum(c.status == "proved" for c in claims)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE rounds SET reward = reward + 1 WHERE k = 7")
    result = CliRunner().invoke(command, [str(file), "--strict"])
    assert result.exit_code == 1
    assert "checked" in result.output


def test_a_check_that_fails_is_refuted() -> None:
    assert Certificate("rounds differ", 1.0, 0.0, kind="==", status="checked").refuted
    assert not Certificate("rounds differ", 0.0, 0.0, kind="==", status="checked").refuted


def test_every_bound_that_every_run_satisfies_is_called_vacuous(careless: rf.Run) -> None:
    claims, k, horizon = careless.certificates(), len(careless), careless.spec["horizon"]
    reduction = find(claims, "Resets are at most R_p(pi*) + R_d(lambda*)")
    assert reduction.rhs >= k
    assert reduction.vacuous == f"vacuous: no run can exceed {k}"
    lower = find(claims, "Regret is at least -B times")
    assert lower.lhs <= -k * horizon
    assert lower.vacuous == f"vacuous: no run can be below {-k * horizon}"
    for c in claims:
        if c.status == "proved" and c.claim.startswith(("Resets are at most", "no more resets happened")):
            assert bool(c.vacuous) == (c.rhs >= k), c
    says = find(claims, "Resets are at least what the resets so far need")
    assert says.lhs > 0
    assert not says.vacuous


def test_optimism_that_names_the_horizon_in_every_round_says_nothing() -> None:
    settings = {"primal": {"width": "theory"}}
    run = rf.learn("grid-v0", "linear-ucb", episodes=30, settings=settings)
    assert (run.columns["upper"] >= run.spec["horizon"]).all()
    assert find(run.certificates(), OPTIMISM[0]).vacuous


def test_on_few_episodes_the_unsafe_pairs_say_nothing() -> None:
    for episodes, vacuous in ((18, True), (19, False)):
        claims = rf.learn("grid-v0", "support-elimination", episodes=episodes).certificates()
        assert bool(find(claims, EVERY_PATH[0]).vacuous) == vacuous
        assert find(claims, BY_SIZES).vacuous  # 40


def test_an_interval_up_to_what_every_run_satisfies_is_called_vacuous() -> None:
    for resets, vacuous in ((10.0, True), (9.0, False)):
        interval = Certificate("Resets", 0.0, resets, status="stated", why="with probability at least 0.99")
        assert bool(beside(interval, most=10.0).vacuous) == vacuous


def test_a_claim_that_fails_is_not_called_vacuous() -> None:
    assert not beside(Certificate("Resets", 12.0, 11.0), most=10.0).vacuous


def test_the_events_of_all_claims_are_added_up_once(careless: rf.Run, tmp_path: Path) -> None:
    claims = careless.certificates()
    assert failure_probability(claims) == pytest.approx(2 * DELTA)  # of the resets, and of the rewards
    file = tmp_path / "a.rfrun"
    rf.learn("grid-v0", "support-elimination", episodes=30, path=file, settings={"primal": {"width": "theory"}})
    data = json.loads(CliRunner().invoke(command, [str(file), "--json"]).output)
    assert data["failure_probability"] == pytest.approx(3 * DELTA + 2 * 0.05)  # optimism and rate count apart
    events = {name: p for c in data["certificates"] for name, p in c["detail"].get("may_fail", {}).items()}
    assert data["failure_probability"] == pytest.approx(math.fsum(events.values()))
    shown = " ".join(CliRunner().invoke(command, [str(file)]).output.split())
    assert "do so together with probability at least 0.87" in shown


def test_every_claim_that_says_with_which_probability_it_holds_is_counted(careless: rf.Run) -> None:
    for run in (careless, rf.learn("grid-v0", "linear-ucb", episodes=30, settings={"primal": {"width": "theory"}})):
        for c in run.certificates():
            if c.status == "proved" and "with probability at least" in c.why:
                assert c.detail["may_fail"], c.claim


def test_an_event_of_two_claims_counts_once_and_a_tuned_claim_never() -> None:
    claim = Certificate("a claim", 0.0, 1.0)
    tuned = Certificate("a guess", 0.0, 1.0, status="tuned")
    assert failure_probability([resting_on(claim, a=0.1), resting_on(claim, a=0.2), resting_on(tuned, b=0.5)]) == 0.2
    assert failure_probability([resting_on(claim, a=0.7, b=0.6)]) == 1.0
    assert failure_probability([claim]) == 0.0


def test_words_about_the_limit_are_true() -> None:
    """On coin-chain-v0 elimination promises fewer resets than there are unsafe triples: the limit is about a class."""
    found = rf.limit(rf.make("coin-chain-v0"))
    assert found.promised is not None
    assert found.promised < found.unsafe
    readme = (DOCS.parent / "README.md").read_text()
    assert "[no learner can promise fewer](" not in readme
    assert "no learner" not in BY_SIZES
    (row,) = [line for line in (DOCS / "what_is_guaranteed.md").read_text().splitlines() if "`auto` takes" in line]
    assert "if Assumption 1 holds" in row
    assert "triple" in row
