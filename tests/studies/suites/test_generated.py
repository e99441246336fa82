"""The suite of generated problems: draws are reproducible and feasible, and a bad `auto` is caught."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.problems.zoo.test_registered import possible_starts

import resetfree as rf
from resetfree.players import Method, penalised
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.problems.blueprint import fingerprint
from resetfree.problems.zoo import generated
from resetfree.problems.zoo.generated import FAMILIES, acceptable, drawn_problem, family_of
from resetfree.show.cli.bench import _methods
from resetfree.studies import suites
from resetfree.studies.suites import SUITES, TUNING_DRAWS, Suite, find_suite, generated_cases, methods, trials
from resetfree.studies.suites.suite_runner import compare, entries, run_suite, tuning_trials
from resetfree.studies.suites.trials import Results, key_of

DRAWS = range(len(FAMILIES) * 3)


@pytest.mark.parametrize("draw", DRAWS)
def test_a_draw_is_reproducible_and_feasible(draw: int) -> None:
    """Assumption 1 by a slow and plain search, independent of the check that accepts draws."""
    mdp = rf.make("generated-v0", draw=draw)
    assert fingerprint(mdp.problem()) == fingerprint(drawn_problem(draw).mdp.problem())
    feasible = ~np.isnan(rf.solve(mdp).value)
    assert feasible[possible_starts(mdp)].all()
    assert 0 <= mdp.reward.min() <= mdp.reward.max() <= 1


def test_draws_differ_and_every_family_has_its_turn() -> None:
    assert len({fingerprint(drawn_problem(draw).mdp.problem()) for draw in DRAWS}) == len(DRAWS)
    assert {family_of(draw) for draw in DRAWS} == set(FAMILIES)
    found = [drawn_problem(draw) for draw in DRAWS]
    assert {one.family for one in found if not one.mdp.stationary} == {"doors", "drift"}


@pytest.mark.parametrize("draw", range(len(FAMILIES)))
def test_an_order_of_the_actions_changes_their_numbers_alone(draw: int) -> None:
    mdp, other = (rf.make("generated-v0", draw=draw, order=order) for order in (0, 3))
    names = [mdp.action_names.index(name) for name in other.action_names]
    assert sorted(names) == list(range(mdp.n_actions))
    for h in range(1 if mdp.transition.stationary else mdp.horizon):
        rows, same = ((m.transition.matrix(h).toarray(), m.n_states) for m in (mdp, other))
        by_action = rows[0].reshape(rows[1], -1, rows[1])[:, names]
        np.testing.assert_array_equal(by_action, same[0].reshape(by_action.shape))
    np.testing.assert_allclose(rf.solve(mdp).value, rf.solve(other).value)


def test_orders_of_the_actions_differ() -> None:
    orders = {tuple(rf.make("generated-v0", draw=5, order=order).action_names) for order in range(7)}
    assert len(orders) >= 6  # of 120


def test_each_seed_has_its_own_order() -> None:
    """Else luck in trying the first action first would count as certain."""
    case = SUITES["generated"].cases[3]
    assert [dict(one.options)["order"] for one in case.reported] == [1, 2, 3, 4, 5, 6]
    assert SUITES["generated"].seeds == 6


def test_a_draw_that_is_not_feasible_is_rejected_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cliff from which nothing leads back: the first two draws are such, and the third is taken."""
    good = drawn_problem(0).mdp
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 0] = transition[1, :, 2] = transition[2, :, 2] = 1.0
    cliff = rf.FiniteMDP(transition, np.zeros((3, 2)), [False, False, True], 1)
    safe = cliff.replace(reset=[False, False, False])
    found = iter([cliff, safe, good])
    monkeypatch.setitem(generated.FAMILIES, "pits", lambda rng: next(found))
    assert [acceptable(mdp) for mdp in (cliff, safe, good)] == [False, False, True]
    assert drawn_problem(0).rejected == 2


def test_the_suite_has_a_hundred_draws_and_tunes_on_others() -> None:
    suite = SUITES["generated"]
    reported = {dict(case.reported[0].options)["draw"] for case in suite.cases}
    assert reported == set(range(100))
    assert len(suite.cases) == len({case.label for case in suite.cases})
    assert not reported & set(TUNING_DRAWS)
    for case in suite.cases[:7]:
        draws = [dict(one.options)["draw"] for one in case.tuning]
        assert len(draws) == suite.tuning_instances
        assert {family_of(draw) for draw in draws} == {case.family}
    assert find_suite("generated", ["draw 17, drift"]).cases[0].reported[0].make().n_states > 1


def test_draws_of_one_family_share_their_tuning_trials() -> None:
    suite = replace(SUITES["generated"], cases=generated_cases([2, 9], 30))
    keys = [{key_of(t) for t in tuning_trials(e, suite)} for e in entries(suite, [methods()["fixed penalty B"]])]
    assert keys[0] == keys[2] != set()
    assert keys[0].isdisjoint(keys[1])  # pooled or not


def quick(draws: list[int]) -> Suite:
    return replace(SUITES["generated"], cases=generated_cases(draws, 100), seeds=4)


def test_a_bad_auto_is_dominated_and_ours_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The mutant plays at random, and the comparison must say so; draws 1 and 8 have doors."""
    one_width = {name: replace(methods()[name], widths=(0.05,)) for name in ("support elimination", "fixed penalty B")}

    def losses(auto: Method) -> dict[str, set[str]]:
        known: dict[str, Any] = {**methods(), **one_width, "auto": auto}
        monkeypatch.setattr(trials, "methods", lambda: known)
        with Results(tmp_path / "r.jsonl", "generated", overwrite=True) as results:
            played = run_suite(quick([1, 8]), [auto, *one_width.values()], results, jobs=1)
        return {case: {d.method for d in found} for case, found in compare(played).dominators.items()}

    assert not any(losses(suites.AUTO).values())
    careless = penalised(lambda s: LinearUCB(s.B, alpha=0.0), 0.0)
    bad = replace(suites.AUTO, summary="Bad: every action equally likely.", build=careless)
    assert all(losses(bad).values())


def test_all_that_are_not_given_the_model_play() -> None:
    chosen = {method.name for method in _methods(None, learners=True)}
    assert chosen == {name for name, method in methods().items() if method.kind != "oracle"}
