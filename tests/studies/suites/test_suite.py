"""The comparison: the same random numbers for all, widths from other instances, nothing lost and nothing done twice."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import resetfree as rf
from resetfree.players import Method, Setting, penalised
from resetfree.players.tabular.references import Uniform
from resetfree.problems.blueprint import fingerprint
from resetfree.problems.finite.mdp import FiniteProblem
from resetfree.studies import suites
from resetfree.studies.engines import Stop, StudyStopped
from resetfree.studies.statistics import Interval
from resetfree.studies.suites import SUITES, Case, Suite, find_suite, instance, methods, trials
from resetfree.studies.suites import suite_runner as running
from resetfree.studies.suites.suite_runner import (
    Entry,
    PlayedEntry,
    choose_width,
    compare,
    dominates,
    entries,
    front,
    reported_trials,
    run_suite,
    score,
    tuning_trials,
)
from resetfree.studies.suites.trials import Measured, MethodPlayers, MethodTrial, Results, ground, key_of, run_trial
from resetfree.studies.trial import Trial
from resetfree.theory.certificates.anytime import resets_upper

NAMES = ("algorithm 1", "fixed penalty B")
GRID = instance("grid-v0")


def two() -> list[Method]:
    return [methods()[name] for name in NAMES]


def short(**changes: Any) -> Suite:
    """The smallest suite that has everything: a stationary problem and one that is not."""
    return replace(find_suite("smoke", ["grid-v0", "doors-v0"]), **changes)


def trial(method: str = "algorithm 1", pooled: bool = True, **changes: Any) -> MethodTrial:
    return replace(Trial("grid-v0", {}, MethodPlayers("grid-v0", method, pooled, 0.1, False), 40, 3), **changes)


@pytest.fixture
def extra(monkeypatch: pytest.MonkeyPatch) -> Callable[[Method], Method]:
    """Adds a method for one test."""

    def add(method: Method) -> Method:
        known = {**methods(), method.name: method}
        monkeypatch.setattr(trials, "methods", lambda: known)
        return method

    return add


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[MethodTrial]:
    """Every trial that is played in this process."""
    seen: list[MethodTrial] = []

    def run(trial: MethodTrial, limit: float, stop: Stop) -> Measured:
        seen.append(trial)
        return run_trial(trial, limit, stop)

    monkeypatch.setattr(running, "run_trial", run)
    return seen


# -- the suites


def test_no_tuning_instance_is_reported_and_every_instance_has_a_bound() -> None:
    for case in SUITES["full"].cases:
        reported = {fingerprint(ground(i).problem) for i in case.reported}
        tuning = {fingerprint(ground(i).problem) for i in case.tuning}
        assert len(reported) == len(case.reported)
        assert len(tuning) == len(case.tuning) >= 2
        assert not reported & tuning
        assert all(ground(i).bound >= 1 for i in (*case.reported, *case.tuning))
        assert {i.id for i in case.tuning} == {i.id for i in case.reported}


def test_suites_have_the_problems_and_seeds_they_should() -> None:
    wanted = {
        "grid-v0", "thresholds-v0", "politex-trap-v0", "doors-v0", "coin-chain-v0", "random-linear-v0", "contexts-v0",
        "continuous-linear-v0", "drifting-v0", "pits-v0",
    }  # fmt: skip
    for suite in (SUITES[name] for name in ("smoke", "small", "full")):
        assert {case.reported[0].id for case in suite.cases} == wanted
        assert suite.seeds >= (2 if suite.name == "smoke" else 20)
    assert {case.label: case.episodes for case in SUITES["full"].cases}["pits-v0"] == 20_000
    with pytest.raises(rf.UnknownName, match="no suite 'smal'"):
        find_suite("smal")
    with pytest.raises(rf.UnknownName, match="Did you mean 'grid-v0'"):
        find_suite("small", ["grid-v1"])


# -- the methods


def test_the_methods_and_their_order() -> None:
    """Files of results, pages and pictures are read in this order."""
    order = """
        Ghosh 2022; Ghosh 2022, first start; Ghosh 2024; OPDOP; OPDOP, fast; OptCMDP; OptPrimalDual;
        OptPrimalDual, fast; Triple-Q; greedy composite; greedy composite, penalty B; greedy composite, rare;
        LSVI-UCB++; LSVI-UCB++, running bounds; perturbed history; auto; support elimination;
        support elimination, proved width; algorithm 1; algorithm 1, ridge b^2; algorithm 1, realised;
        fixed penalty B/4; fixed penalty B; fixed penalty 4B; no constraint; leave no trace; leave no trace, one way;
        medal; olsvi.fh; olsvi.fh, penalty B; mdp-exp2; mdp-exp2, penalty B; ucrl2; ucrl2, penalty B;
        slucb-qvi, tau = 1/20; slucb-qvi, tau = 0; shield with known support; one-step shield; constant safe policy;
        uniform; ucbvi, hoeffding; ucbvi, bernstein; ucbvi, bernstein, cost width; ucbvi, proved width; rlsvi
    """
    assert list(methods()) == " ".join(order.split()).split("; ")


def test_a_player_says_its_own_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One class, defined here, is a row of the tables: nothing else names it, and a subclass says its own."""

    class Patient(Uniform):
        name: ClassVar[str] = "patient"

        @staticmethod
        def methods() -> list[Method]:
            return [Method("patient", "ours", "Waits.", penalised(lambda s: Patient(), 0.0), widths=(), pools=False)]

    class Quiet(Patient):
        name: ClassVar[str] = "quiet"

    found: dict[str, Any] = {"primal": {"patient": Patient, "quiet": Quiet}, "dual": {}}
    monkeypatch.setattr(suites, "discover", found.__getitem__)
    methods.cache_clear()
    try:
        assert list(methods()) == ["auto", "patient"]
        with Results(tmp_path / "r.jsonl", "smoke") as results:
            played = run_suite(short(), [methods()["patient"]], results, jobs=1)
        assert [[o.status for o in p.outcomes] for p in played] == [["done", "done"]] * 2
        found["dual"] = {"other": Patient}
        methods.cache_clear()
        with pytest.raises(rf.InvalidInput, match="'patient' twice"):
            methods()
    finally:
        methods.cache_clear()


# -- one trial


@pytest.mark.parametrize("pooled", [True, False])
def test_a_trial_says_what_learn_says(pooled: bool) -> None:
    outcome = run_trial(trial(pooled=pooled))
    primal, dual, feedback = methods()["algorithm 1"].build(Setting(ground(GRID).bound, 0.1, pooled))
    run = rf.learn("grid-v0", primal, dual, episodes=40, seed=3, feedback=feedback)
    assert outcome.status == "done"
    assert outcome.regret == pytest.approx(run.regret[-1], rel=1e-12)
    assert outcome.resets == pytest.approx(run.resets[-1], rel=1e-12)
    assert outcome.realised == run.realised_resets[-1]
    assert outcome.last_reset == np.flatnonzero(run.columns["reset"])[-1] + 1
    assert outcome.certificate == resets_upper(outcome.realised)
    assert outcome.covered == bool((resets_upper(run.realised_resets) >= run.resets).all())
    assert outcome.bound == run.spec["B"]


def test_all_methods_meet_the_same_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, list[float]]] = []
    original = FiniteProblem.rollout

    def rollout(self: FiniteProblem, policy: Any, start: int, u: Any) -> Any:
        seen.append((start, u.tolist()))
        return original(self, policy, start, u)

    monkeypatch.setattr(FiniteProblem, "rollout", rollout)
    by_method = []
    for name in methods():
        if methods()[name].inapplicable(ground(GRID).mdp) is None:
            seen.clear()
            outcome = run_trial(trial(name, pooled=False, episodes=4))
            assert outcome.status == "done", outcome.error
            game = seen[-4:]  # some methods are shown episodes before it
            by_method.append((game[0][0], [u for _, u in game]))
    assert len(by_method) > 2
    assert all(one == by_method[0] for one in by_method)
    seen.clear()
    run_trial(trial(episodes=4, seed=4))
    assert [u for _, u in seen] != by_method[0][1]


def test_a_trial_that_takes_too_long_is_stopped() -> None:
    outcome = run_trial(trial(episodes=10**7), limit=0.0)
    assert outcome.status == "stopped"
    assert 0 < outcome.played < 10**7


def test_a_trial_ends_when_told_to() -> None:
    with pytest.raises(trials.Interrupted):
        run_trial(trial(episodes=10**7), stop=lambda: True)


def test_an_error_is_kept_and_stops_nothing(extra: Callable[[Method], Method], tmp_path: Path) -> None:
    def build(s: Setting) -> Any:
        raise ValueError("no\nsuch luck")

    broken = extra(Method("broken", "baseline", "Raises.", build))
    not_here = replace(two()[0], name="not here", inapplicable=lambda mdp: "It cannot.")
    with Results(tmp_path / "r.jsonl", "smoke") as results:
        played = run_suite(short(), [broken, not_here, *two()], results, jobs=1)
    summary = compare(played)
    rows = [row for row in summary.rows["grid-v0"] if row.method == "broken"]
    assert [row.failed for row in rows] == [2, 2]
    assert rows[0].note == "ValueError: no such luck"
    assert rows[0].measures is None
    assert not rows[0].front
    last = [row for row in summary.rows["grid-v0"] if row.method == "not here"]
    assert [(row.trials, row.note) for row in last] == [(0, "It cannot.")]
    assert all(row.complete for row in summary.rows["grid-v0"] if row.method in NAMES)
    kept = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()[1:]]
    assert any(line["outcome"]["error"] == "ValueError: no such luck" for line in kept)


# -- widths


def entry(method: Method, case: Case | None = None) -> Entry:
    return Entry(case or short().cases[0], method, True, None)


def test_entries_are_pooled_only_where_that_makes_sense() -> None:
    never = replace(two()[0], name="never", pools=False)
    not_here = replace(two()[0], name="not here", inapplicable=lambda mdp: "It cannot.")
    found = [(e.case.label, e.method.name, e.pooled) for e in entries(short(), [two()[0], never, not_here])]
    assert found == [
        ("grid-v0", "algorithm 1", True), ("grid-v0", "algorithm 1", False), ("grid-v0", "never", False),
        ("grid-v0", "not here", False), ("doors-v0", "algorithm 1", False), ("doors-v0", "never", False),
        ("doors-v0", "not here", False),
    ]  # fmt: skip


def test_widths_are_chosen_on_tuning_trials_only() -> None:
    suite, case = SUITES["full"], SUITES["full"].cases[0]
    this = entry(two()[0], case)
    tuning = tuning_trials(this, suite)
    assert len(tuning) == 4 * suite.tuning_instances * suite.tuning_seeds
    assert not {instance(t.problem, **t.options) for t in tuning} & set(case.reported)
    assert all(t.players.tuning and t.episodes < case.episodes for t in tuning)
    reported = {key_of(t): t for width in this.method.widths for t in reported_trials(this, suite, width)}
    assert not {t.seed for t in tuning} & {t.seed for t in reported.values()}
    assert not {key_of(t) for t in tuning} & set(reported)
    # On the tuning trials 0.1 is best; reported ones that speak for another width change nothing.
    outcomes = {key_of(t): Measured("done", t.episodes, regret=abs(t.players.width - 0.1), bound=2.0) for t in tuning}
    outcomes |= {
        key: Measured("done", t.episodes, regret=-1e9 * (t.players.width == 0.2)) for key, t in reported.items()
    }
    assert choose_width(this, suite, outcomes) == 0.1
    assert choose_width(entry(replace(two()[0], widths=())), suite, {}) == 0.0
    assert choose_width(entry(replace(two()[0], widths=(0.3,))), suite, {}) == 0.3


def test_the_score_weighs_resets_with_the_bound() -> None:
    assert score(Measured("done", 10, regret=3.0, resets=2.0, bound=5.0), 10) == 13.0
    assert score(Measured("stopped", 5, regret=3.0, resets=2.0, bound=5.0), 10) == 26.0
    assert score(Measured("failed", 5), 10) == float("inf")


def test_seeds_take_turns_on_the_instances() -> None:
    suite = SUITES["full"]
    case = next(case for case in suite.cases if case.label == "random-linear-v0")
    found = reported_trials(entry(two()[0], case), suite, 0.1)
    assert [t.seed for t in found] == list(range(20))
    assert [instance(t.problem, **t.options) for t in found] == [*case.reported] * 4


# -- the file


def test_what_is_in_the_file_is_not_played_again(counted: list[MethodTrial], tmp_path: Path) -> None:
    file = tmp_path / "new" / "r.jsonl"
    with Results(file, "smoke") as results:
        first = run_suite(short(), two(), results, jobs=1)
    n = len(counted)
    assert n == len({key_of(t) for t in counted}) == 2 * 3 * (4 + 2)
    with Results(file, "smoke") as results:
        assert results.others == 0
        again = run_suite(short(), two(), results, jobs=1)
    assert len(counted) == n
    assert again == first
    with Results(file, "smoke") as results:  # more seeds: only those are missing
        run_suite(short(seeds=3), two(), results, jobs=1)
    assert [t.seed for t in counted[n:]] == [2] * 6
    with Results(file, "smoke", redo=["algorithm 1"]) as results:
        run_suite(short(seeds=3), two(), results, jobs=1)
    assert {t.players.method for t in counted[n + 6 :]} == {"algorithm 1"}
    assert len(counted) == n + 6 + 3 * (4 + 3)


def test_an_interrupted_comparison_goes_on(
    monkeypatch: pytest.MonkeyPatch, counted: list[MethodTrial], tmp_path: Path
) -> None:
    file = tmp_path / "r.jsonl"

    def interrupted(trial: MethodTrial, limit: float, stop: Stop) -> Measured:
        if len(counted) == 7:
            raise KeyboardInterrupt
        counted.append(trial)
        return run_trial(trial, limit, stop)

    with Results(file, "smoke") as results, monkeypatch.context() as patch:
        patch.setattr(running, "run_trial", interrupted)
        with pytest.raises(StudyStopped, match="Stopped after 7 of 36 trials, saved in"):
            run_suite(short(), two(), results, jobs=1)
    with file.open("a") as half:
        half.write('{"key": "cut sho')  # as a crash would leave it
    with Results(file, "smoke") as results:
        assert len(results.outcomes) == 7
        run_suite(short(), two(), results, jobs=1)
    assert len(counted) == len({key_of(t) for t in counted}) == 36
    assert len(file.read_text().splitlines()) == 37


def test_processes_say_the_same_as_one(tmp_path: Path) -> None:
    suite = find_suite("smoke", ["thresholds-v0"])
    found = []
    for jobs in (1, 2):
        with Results(tmp_path / f"{jobs}.jsonl", "smoke") as results:
            played = run_suite(suite, two()[:1], results, jobs=jobs)
        found.append([[replace(o, seconds=0.0) for o in p.outcomes] for p in played])
    assert found[0] == found[1]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_text("dear diary\n")
    with pytest.raises(rf.RunError, match="holds no results of bench"):
        Results(file, "smoke")
    assert file.read_text() == "dear diary\n"
    Results(file, "smoke", overwrite=True).close()
    with pytest.raises(rf.RunError, match="results of suite 'smoke', not of 'small'"):
        Results(file, "small")
    lines = file.read_text()
    file.write_text(lines + "damaged\n" + lines)
    with pytest.raises(rf.RunError, match="Line 2 of the results file"):
        Results(file, "smoke")
    with pytest.raises(rf.RunError, match="cannot be written"):
        Results(Path("/dev/null/r.jsonl"), "smoke")


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    with (
        Results(tmp_path / "r", "smoke") as results,
        pytest.raises(rf.RunError, match="is being written by another process"),
    ):
        Results(results.path, "smoke")
    with Results(tmp_path / "r", "smoke") as results:
        results.add(trial(), Measured("done"))
        with pytest.raises(rf.RunError, match="kept once"):
            results.add(trial(), Measured("done"))


# -- statistics


def test_the_front_on_hand_data() -> None:
    assert front([(1.0, 5.0), (2.0, 3.0), (2.0, 3.0), (2.0, 4.0), (9.0, -1.0), (9.0, 0.0)]) == [
        True, True, True, False, True, False,
    ]  # fmt: skip


def outcomes(resets: list[float], regret: list[float], **more: Any) -> tuple[Measured, ...]:
    return tuple(Measured("done", 9, regret=y, resets=x, **more) for x, y in zip(resets, regret, strict=True))


def test_who_dominates_on_hand_data() -> None:
    ours = outcomes([10.0, 12.0, 11.0, 30.0], [5.0, 6.0, 7.0, 50.0])
    fewer = outcomes([9.0, 11.0, 10.0, 29.0], [5.0, 6.0, 7.0, 50.0])  # one reset less on every seed: paired, so clear
    found = dominates(fewer, ours)
    assert found is not None
    assert found[0] == Interval(-1.0, -1.0, -1.0)
    assert found[1] == Interval(0.0, 0.0, 0.0)
    assert dominates(ours, fewer) is None
    assert dominates(ours, ours) is None
    assert dominates(outcomes([9.0, 11.0, 10.0, 29.0], [6.0, 7.0, 8.0, 51.0]), ours) is None  # surely more regret
    within = dominates(outcomes([9.0, 11.0, 10.0, 29.0], [4.0, 7.0, 7.5, 50.0]), ours)  # more, but not beyond doubt
    assert within is not None
    assert within[1].mean > 0
    assert dominates(outcomes([20.0, 2.0, 11.0, 29.0], [0.0, 0.0, 0.0, 0.0]), ours) is None  # fewer, but not surely


def test_a_summary_names_the_front_and_the_dominators() -> None:
    base = two()[0]

    def played(name: str, kind: Any, *rest: Measured) -> PlayedEntry:
        return PlayedEntry(entry(replace(base, name=name, kind=kind)), 0.1, rest)

    summary = compare([
        played("auto", "ours", *outcomes([10.0, 12.0], [5.0, 7.0], covered=True, realised=3)),
        played("better", "baseline", *outcomes([5.0, 6.0], [5.0, 7.0])),
        played("greedy", "baseline", *outcomes([50.0, 60.0], [-9.0, -9.0])),
        played("knows", "oracle", *outcomes([0.0, 0.0], [-20.0, 0.0])),
        played("slow", "baseline", Measured("stopped", 3), *outcomes([0.0], [0.0])),
    ])  # fmt: skip
    rows = {row.method: row for row in summary.rows["grid-v0"]}
    assert {name for name, row in rows.items() if row.front} == {"better", "greedy"}
    assert (rows["slow"].stopped, rows["slow"].done, rows["slow"].complete) == (1, 1, False)
    assert (rows["auto"].covered, rows["better"].covered, rows["auto"].most_realised) == (1.0, 0.0, 3)
    found = summary.dominators["grid-v0"]
    assert [(d.method, d.kind, d.clear) for d in found] == [("knows", "oracle", True), ("better", "baseline", True)]
    json.dumps(summary.to_dict(), allow_nan=False)
    assert compare([played("other", "ours", *outcomes([1.0], [1.0]))]).dominators == {}
