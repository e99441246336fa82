"""What is proved holds on real runs, what is tuned says so, and a changed record is caught by the right claim."""

import dataclasses
import json
from functools import cache
from math import e, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.bank import edit, learn
from tests.mutants.honest import without_oracle

import resetfree as rf
from resetfree.core.certificate import in_every_round, over_rounds
from resetfree.core.readable import number
from resetfree.runs.file.ledger import Ledger, read
from resetfree.runs.file.recorded import COLUMNS
from resetfree.runs.resuming import whole_run
from resetfree.show.cli.certify import certify as command
from resetfree.theory.certificates import OPTIMISM, RATES, certify, primal_bound
from resetfree.theory.certificates.anytime import DELTA, resets_bound
from resetfree.theory.certificates.claims_rates import solved_for_resets
from resetfree.theory.widths import theory_beta

REPLAYED = "the multipliers are those of the dual player"
DUALS = ("projected-gradient", "constant-step", "adagrad-norm", "optimistic-gradient", "coin-betting",
         "constant-penalty", "counting", "search", "doubling")  # fmt: skip


@cache
def play(problem: str = "grid-v0", width: str = "theory", dual: str = "projected-gradient", **options: Any) -> rf.Run:
    settings = {"primal": {"width": width}} if width else {}
    return learn(problem, dual=dual, **{"episodes": 300, "seed": 1, "settings": settings, **options})


def find(certificates: list[rf.Certificate], words: str) -> rf.Certificate:
    found = [c for c in certificates if words in c.claim]
    assert len(found) == 1, [c.claim for c in found]
    return found[0]


def failing(certificates: list[rf.Certificate]) -> set[str]:
    return {c.claim for c in certificates if c.applies and not c.holds}


def changed(run: rf.Run, column: str, k: int, value: float) -> rf.Run:
    """The same run with one entry of its record (round k) changed."""
    copy = run.columns[column].copy()
    copy[k - 1] = value
    return dataclasses.replace(run, columns={**run.columns, column: copy})


@pytest.mark.parametrize("problem", ["grid-v0", "random-linear-v0"])
@pytest.mark.parametrize("feedback", ["optimistic", "realised"])
def test_everything_proved_holds_with_the_proved_width(problem: str, feedback: str) -> None:
    found = certify(play(problem, feedback=feedback))
    assert failing(found) == set()
    assert {c.status for c in found if c.applies} == {"proved", "checked", "identity"}
    for claim in (*OPTIMISM, *RATES):
        assert find(found, claim).status == "proved"
        assert "with probability at least 0.9" in find(found, claim).why
    for claim in RATES:
        assert find(found, claim).detail["vacuous"]  # and it is said
    assert find(found, REPLAYED).lhs == 0
    assert find(found, OPTIMISM[0]).detail["violations"] == 0


@pytest.mark.parametrize("problem", ["grid-v0", "random-linear-v0"])
def test_what_is_tuned_is_never_called_proved(problem: str) -> None:
    found = certify(play(problem, "tuned"))
    for claim in (*OPTIMISM, *RATES, "Regret is at most what the primal player's upper bounds"):
        assert find(found, claim).status == "tuned"
        assert "the width is tuned, not proved" in find(found, claim).why
    assert not [c for c in found if c.refuted]
    assert find(found, "Regret equals R_p(pi*) + R_d(0)").status == "identity"
    assert find(found, "Resets are at most what the resets so far allow").status == "proved"


@pytest.mark.parametrize("dual", DUALS)
@pytest.mark.parametrize("feedback", ["optimistic", "realised", "exact"])
def test_every_dual_player_keeps_its_bound(dual: str, feedback: str) -> None:
    run = play("random-linear-v0", "tuned", dual, episodes=150, feedback=feedback)
    found = certify(run)
    assert not [c for c in found if c.refuted]
    replayed = find(found, REPLAYED)
    assert replayed.applies == (dual != "search")
    if dual == "search":
        assert "queries the primal player" in replayed.why
    for name in ("0", "lambda*"):
        bound = find(found, f"online regret against {name} is at most its bound")
        known = dual != "counting" and (dual != "search" or feedback == "optimistic")
        assert bound.applies == known
        assert find(found, f"R_d({name}) equals the online regret").holds
        assert find(found, f"R_d({name}) is at most the dual player's bound").applies == known


@pytest.mark.parametrize("dual", ["projected-gradient", "constant-step", "adagrad-norm", "optimistic-gradient"])
def test_bounds_hold_for_functions_of_many_features(dual: str) -> None:
    """One-hot xi: iterates move apart from theta*, and the printed 1.5 is no theorem where they are farther than B."""
    mdp = rf.make("grid-v0").replace(xi=np.eye(12), name="one-hot")
    found = certify(learn(mdp, "uniform", dual, episodes=200, feedback="realised"))
    assert not [c for c in found if c.refuted]
    for name in ("0", "lambda*"):
        assert find(found, f"online regret against {name} is at most its bound").applies


def test_the_printed_constant_is_claimed_only_where_it_is_proved() -> None:
    mdp = rf.make("grid-v0").replace(xi=np.eye(12), name="one-hot")
    run = learn(mdp, "uniform", episodes=200, feedback="realised", settings={"dual": {"B": 60.0}})
    found = certify(run)
    assert find(found, "against 0 is at most 1.5 B sqrt(k)").holds
    assert "outside of the dual player's set" in find(found, "online regret against lambda*").why
    far = certify(learn(mdp, "uniform", episodes=200, feedback="realised"))
    printed = find(far, "against lambda* is at most 1.5 B sqrt(k)")
    assert not printed.applies
    assert "1.5 is proved where |theta_k - u| is at most B" in printed.why


@pytest.mark.parametrize(
    ("column", "value", "claim"),
    [
        ("lam", 0.123, REPLAYED),
        ("v_r", 9.0, "V_r lies in [0, H]"),
        ("v_c", -0.5, "V_c in [0, 1]"),
        ("v_r_hat", -1.0, "the primal player's V_r is at least"),
        ("upper", 0.0, "V* is at most what the primal player names"),
        ("cost_signal", 0.5, "the dual player was given the optimistic cost"),
        ("next_start", 11, "every episode starts where the one before left the agent"),
        ("reward", 9000.0, "the rewards collected differ"),
        ("v_r", np.nan, "V_r lies in [0, H]"),
    ],
)
def test_a_changed_record_is_caught(column: str, value: float, claim: str) -> None:
    run = play()
    k = int(np.flatnonzero(run.columns["s1"] != 11)[20]) + 1  # not the goal, where little is above V*
    found = certify(changed(run, column, k, value))
    caught = find(found, claim)
    assert caught.refuted
    assert caught.witness in (f"round {k}", f"round {k + 1}")  # a start is compared with the end before it


def test_a_value_above_what_a_policy_can_have_is_caught() -> None:
    run = play("random-linear-v0", "tuned")
    k = int(np.argmin(run.columns["v_c"])) + 1
    found = certify(changed(run, "v_r", k, 5.9))
    assert find(found, "V_r - lambda_hat V_c is at most V* in every round").witness == f"round {k}"
    assert not find(found, "V_r - lambda_hat V_c is at most V* in every round").holds


@pytest.mark.parametrize("column", [c for c in COLUMNS if c != "k"])
def test_playing_again_catches_any_change(column: str) -> None:
    run = play("random-linear-v0", "tuned", episodes=60)
    assert whole_run(run)[0].holds
    value = run.columns[column][8]
    other = (not value) if column == "reset" else value + 1 if value.dtype.kind == "i" else np.nextafter(value, 9.0)
    other = 1.0 if column == "original_return" else other  # not a number where rewards are not scaled
    found = whole_run(changed(run, column, 9, other))[0]
    assert not found.holds
    assert (found.lhs, found.witness, found.detail["columns"]) == (1, "round 9", [column])
    unknown = dataclasses.replace(run, spec={**run.spec, "primal": {"name": "mine", "settings": {}}})
    assert not whole_run(unknown)[0].applies


def test_playing_again_without_an_oracle() -> None:
    assert whole_run(without_oracle(play(feedback="realised")))[0].holds


def test_optimistic_costs_above_the_truth_are_caught() -> None:
    run = play()
    k = int(np.argmin(run.columns["v_c"])) + 1
    found = certify(changed(changed(run, "v_c_hat", k, 1.0), "cost_signal", k, 1.0))
    assert not find(found, OPTIMISM[2]).holds
    assert find(found, OPTIMISM[2]).witness == f"round {k}"
    assert not find(found, REPLAYED).holds


def test_many_resets_of_policies_said_to_be_safe_are_caught() -> None:
    run = play(width="tuned")
    columns = {**run.columns, "v_c": run.columns["v_c"] * 0.01}
    found = certify(dataclasses.replace(run, columns=columns))
    assert not find(found, "Resets are at least what the resets so far need").holds
    none = dataclasses.replace(run, columns={**run.columns, "reset": np.zeros(len(run), dtype=np.bool_)})
    assert not find(certify(none), "Resets are at most what the resets so far allow").holds


def test_starts_that_are_none() -> None:
    for start in (99, -1, 5):  # 5 is a pit
        found = certify(changed(play(), "s1", 7, start))
        assert not find(found, "every start is a state outside the reset set").holds
        assert "some starts are not states of this problem" in find(found, "every other claim").why


def test_without_an_oracle_it_says_what_needs_one() -> None:
    run = play(feedback="realised")
    found = certify(without_oracle(run))
    assert failing(found) == set()
    for claim in ("Regret equals", "Resets are at most R_p", "saddle-point", *OPTIMISM, *RATES, "against lambda*"):
        certificate = find(found, claim)
        assert not certificate.applies
        assert "needs an oracle" in certificate.why
    assert find(found, REPLAYED).holds  # the problem is registered, and the dual player sees no model
    assert find(found, "online regret against 0 is at most its bound").applies
    known = certify(run)
    resets = find(found, "Resets lie between")
    assert resets.lhs <= run.resets[-1] <= resets.rhs
    shown = resets_bound(run.realised_resets, run.columns["k"])[-1]  # what terminal, report and studio show
    assert resets.rhs == shown
    tested = find(known, "Resets are at most what the resets so far allow")
    assert tested.rhs > shown  # a test that honest runs pass more often says so, and which bound is shown
    assert tested.why.startswith("with probability at least 0.99 after every round at once; no assumption is needed")
    assert tested.why.endswith(f"; with 95 % confidence it is {number(shown)}, the bound shown beside a run")
    assert resets.status == "stated"  # an interval is no claim: it neither holds nor fails
    assert not resets.applies
    assert resets.to_dict()["holds"] is None
    regret = find(found, "Regret lies between")  # that B is large enough, and the problem linear, only a model tells
    assert regret.status == "not applicable"
    assert "cannot be checked without the model" in regret.why
    upper = find(known, "Regret is at most what the primal player's upper bounds").rhs
    assert f"{upper:.6g}]" in regret.why


def test_problems_that_are_not_at_hand() -> None:
    run = without_oracle(play())
    for spec, why in (
        ({**run.spec, "problem": "my.module:factory"}, "neither given nor registered"),
        ({**run.spec, "fingerprint": "0"}, "not what it was"),
        ({**run.spec, "dual": {"name": "mine", "settings": {}}}, "There is no dual player 'mine'"),
    ):
        found = certify(dataclasses.replace(run, spec=spec, problem=None))
        assert why in find(found, REPLAYED).why
        assert find(found, "Resets lie between").status == "stated"


def test_policies_that_were_not_evaluated() -> None:
    run = play()
    found = certify(dataclasses.replace(without_oracle(run), mdp=run.mdp))
    assert "did not record" in find(found, "Regret equals").why


def test_a_start_without_a_safe_policy_ends_what_is_defined() -> None:
    run = learn("footnote-v0", "uniform", "coin-betting", episodes=60, feedback="realised", seed=0)
    found = certify(run)
    assert "no reset-free policy exists" in find(found, "Regret equals").why
    assert find(found, "Resets are at most what the resets so far allow").holds  # resets are defined all the same
    assert not failing(found)


def test_fixed_penalty() -> None:
    found = certify(play(width="tuned", dual="constant-penalty"))
    assert find(found, "for fixed C").holds
    assert find(found, "online regret against lambda* is at most its bound").rhs == 0
    low = certify(play(width="tuned", dual=rf_penalty(3.0)))
    assert "is not above max lambda_hat" in find(low, "for fixed C").why
    assert "below the comparator" in find(low, "online regret against lambda*").why


def rf_penalty(C: float) -> Any:
    from resetfree.players.dual.one_multiplier import ConstantPenalty

    return ConstantPenalty(C=C)


def test_the_oracle_player_is_within_every_rate() -> None:
    found = certify(learn("random-linear-v0", "best-response", episodes=200))
    assert failing(found) == set()
    assert find(found, RATES[0]).rhs == 0
    assert find(found, RATES[2]).status == "proved"
    assert find(found, OPTIMISM[0]).status == "proved"


def test_players_that_promise_nothing() -> None:
    found = certify(learn("grid-v0", "uniform", episodes=50))
    for claim in (*OPTIMISM, "Regret is at most what the primal player's upper bounds"):
        assert "names no upper bound" in find(found, claim).why
    assert "No theorem bounds the regret of the primal player 'uniform'" in find(found, RATES[0]).why


def test_what_a_proved_width_rests_on() -> None:
    settings = {"primal": {"width": "theory"}}
    noisy = learn(rf.make("grid-v0").replace(noise=0.1), episodes=50, settings=settings)
    assert "Gaussian noise" in find(certify(noisy), OPTIMISM[0]).why
    coin = learn(rf.make("grid-v0").replace(noise="bernoulli"), episodes=50, settings=settings)
    assert find(certify(coin), OPTIMISM[0]).status == "proved"
    blurred = rf.make("grid-v0").replace(phi=np.ones((12, 5, 1)))
    assert "not known to be linear" in find(certify(learn(blurred, episodes=50, settings=settings)), OPTIMISM[0]).why
    large = learn("grid-v0", dual="counting", episodes=60, settings={**settings, "dual": {"eta": 10.0}})
    found = certify(large)
    assert find(found, OPTIMISM[0]).status == "tuned"
    assert "multipliers up to B" in find(found, OPTIMISM[0]).why
    assert not find(found, RATES[0]).applies


def test_the_rate_is_its_formula() -> None:
    K, H, A, d = 300, 6, 4, 6
    run = play("random-linear-v0", feedback="realised")
    found = certify(run)
    B = run.spec["B"]
    alpha = log(A) * K / (2 * (1 + B + H))
    beta_r, beta_c = (theory_beta(d, H, K, B, 0.05, alpha, r) for r in (H, 1.0))
    primal = 2 * H * (1 + B + H) + 2 * (beta_r + B * beta_c) * H * sqrt(2 * d * K * log(1 + K / d))
    primal += 2 * (H + B) * sqrt(K * H * log(2 / 0.05))
    assert primal_bound(run).most == pytest.approx(primal, rel=1e-12)
    alone = (
        2 * H * (1 + B + H) + 2 * beta_r * H * sqrt(2 * d * K * log(1 + K / d)) + 2 * H * sqrt(K * H * log(2 / 0.05))
    )
    assert find(found, RATES[1]).rhs == pytest.approx(alone, rel=1e-12)
    paid = alone + run.columns["lam"].max() * K
    assert find(found, RATES[0]).rhs == pytest.approx(min(primal, paid), rel=1e-12)
    dual = find(found, "online regret against lambda* is at most its bound").rhs
    b, level = max(B, 1.0), log(2 / DELTA)
    chance = min(primal + dual + b * sqrt(K * level / 2), 2 * (primal + dual) + 4 * (e - 2) * b**2 * level)
    assert find(found, RATES[2]).rhs == pytest.approx(chance, rel=1e-12)
    assert find(found, RATES[1]).detail["trivial"] == K * H


def test_an_extended_run_is_certified_by_what_holds_in_all_rounds_at_once() -> None:
    """To go on may have been decided by what happened: Azuma's bound is for the planned rounds, Freedman's for all."""
    settings = {"primal": {"width": "proved", "anytime": True}}
    run = learn("ledge-v0", episodes=300, feedback="realised", settings=settings)
    extended = dataclasses.replace(run, spec={**run.spec, "episodes": 200})
    whole, late = (find(certify(one), RATES[2]) for one in (run, extended))
    assert whole.status == late.status == "proved"
    rest, root = late.detail["primal"] + late.detail["dual"], late.detail["per_root"]
    b, level = run.spec["B"], log(2 / DELTA)
    freedman = solved_for_resets(2 * rest + 4 * (e - 2) * b**2 * level, 2 * root, 300)
    assert late.detail["reduction"] == pytest.approx(freedman)
    azuma = solved_for_resets(rest + b * sqrt(300 * level / 2), root, 300)
    assert azuma < freedman
    assert whole.detail["reduction"] == pytest.approx(azuma)
    assert late.rhs <= freedman
    assert whole.rhs <= azuma


def test_a_cap_that_grows_with_the_rounds_is_no_cap_of_an_extended_run() -> None:
    """Multipliers that double at every reset: 3 planned rounds bound them by 8, and 40 rounds do not."""
    settings = {"primal": {"width": "proved", "anytime": True}}
    run = learn("ledge-v0", dual="doubling", episodes=40, feedback="realised", B=1e6, settings=settings)
    assert run.columns["lam"].max() > 8
    assert "reduction" in find(certify(run), RATES[2]).detail
    extended = dataclasses.replace(run, spec={**run.spec, "episodes": 3})
    found = find(certify(extended), RATES[2])
    assert "reduction" not in found.detail  # what is left is by unsafe edges


def test_what_the_resets_so_far_allow_is_vacuous_while_every_round_may_be_one() -> None:
    for episodes, vacuous in ((3, True), (60, False)):
        found = find(
            certify(learn("grid-v0", primal="best-response", episodes=episodes, seed=1)), "Resets are at most what"
        )
        assert (found.detail["vacuous"], found.detail["trivial"]) == (vacuous, episodes)
        assert (found.detail["upper"] == episodes) == vacuous


def test_an_interrupted_run_is_certified_as_far_as_it_went() -> None:
    whole = play()
    part = dataclasses.replace(whole, columns={name: column[:100] for name, column in whole.columns.items()})
    found = certify(part)
    assert failing(found) == set()
    assert find(found, RATES[1]).witness == "round 100"
    assert primal_bound(part).most < primal_bound(whole).most
    none = dataclasses.replace(whole, columns={name: column[:0] for name, column in whole.columns.items()})
    assert [c.why for c in certify(none)] == ["no round was played"]


def test_a_temperature_that_grows() -> None:
    settings = {"primal": {"width": "theory", "anytime": True}}
    found = certify(learn("random-linear-v0", episodes=200, settings=settings))
    assert failing(found) == set()
    assert find(found, RATES[0]).status == "proved"


def test_certificates_become_json() -> None:
    for run in (play(), without_oracle(play())):
        data = json.loads(json.dumps([c.to_dict() for c in run.certificates()], allow_nan=False))
        assert {c["status"] for c in data} <= {"proved", "checked", "tuned", "identity", "stated", "not applicable"}
        assert all((c["holds"] is None) == (c["status"] in ("stated", "not applicable")) for c in data)


def test_claims_over_rounds() -> None:
    assert over_rounds("c", [1.0, 2.0], [1.0, 2.0], kind="==").holds
    assert over_rounds("c", [1.0, 2.0, 3.0], 2.5).witness == "round 3"
    assert not over_rounds("c", [np.nan, 2.0], 2.5).holds
    worst = in_every_round("c", [1.0, np.nan, 3.0], 2.0)
    assert not worst.holds
    assert worst.detail["violations"] == 2


def saved(path: Path, width: str = "theory") -> Path:
    learn("grid-v0", episodes=60, path=path, settings={"primal": {"width": width}})
    return path


def test_command_certifies_and_keeps(tmp_path: Path) -> None:
    file = saved(tmp_path / "a.rfrun")
    result = CliRunner().invoke(command, [str(file), "--json", "--strict"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    assert data["holds"]
    assert data["stored"]
    counts = data["counts"]
    assert counts["proved"] > 10
    assert counts["identity"] > 10
    assert counts["proved_failed"] == counts["identity_failed"] == 0
    by_status = [c["status"].replace(" ", "_") for c in data["certificates"]]
    assert all(counts[status] == by_status.count(status) for status in set(by_status))
    assert read(file).certificates == data["certificates"]
    shown = CliRunner().invoke(command, [str(file), "--replay"]).output
    assert "both players play every round again" in shown
    assert f"identity all {counts['identity']} hold checks of the arithmetic" in " ".join(shown.split())
    every = CliRunner().invoke(command, [str(file), "--all"]).output
    assert "Regret equals R_p(pi*) + R_d(0)" in every
    assert "vacuous" in every


def test_command_fails_only_if_asked_to(tmp_path: Path) -> None:
    file = saved(tmp_path / "a.rfrun")
    edit(file, "UPDATE rounds SET lam = lam + 1 WHERE k = 7")
    assert CliRunner().invoke(command, [str(file)]).exit_code == 0
    result = CliRunner().invoke(command, [str(file), "--strict", "--json"])
    assert result.exit_code == 1
    assert not json.loads(result.output)["holds"]
    assert "round 7" in CliRunner().invoke(command, [str(file)]).output


def test_command_answers_while_the_file_is_being_written(tmp_path: Path) -> None:
    file = saved(tmp_path / "a.rfrun", "tuned")
    with Ledger.reopen(file):
        result = CliRunner().invoke(command, [str(file), "--json"])
    assert result.exit_code == 0
    data = json.loads(result.output)
    assert not data["stored"]
    assert "another process" in data["not_stored"]
    assert read(file).certificates == []
