"""The three assumptions: what they accept, what they reject, and the witness they name."""

import json
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize, nnls

import resetfree as rf
from resetfree.problems.finite.composed import with_contexts
from resetfree.problems.finite.safety import RESTART, START
from resetfree.theory import assumptions
from resetfree.theory.assumptions import (
    AssumptionReport,
    Finding,
    dual_class,
    feasibility,
    least_norm,
    least_norm_equal,
    linearity,
    reachable_starts,
)

Floats = NDArray[np.float64]


def corridor(n: int, horizon: int, **options: object) -> rf.FiniteMDP:
    """States 0..n-1 and a pit; "on" moves right (at the end into the pit), "stay" stays; nothing leads back."""
    transition = np.zeros((n + 1, 2, n + 1))
    for s in range(n):
        transition[s, 0, s + 1] = transition[s, 1, s] = 1.0
    reset = np.arange(n + 1) == n
    return rf.FiniteMDP(transition, np.full((n + 1, 2), 0.5), reset, horizon, **options)  # type: ignore[arg-type]


def test_the_default_problem_is_accepted() -> None:
    report = rf.check(rf.make("grid-v0"))
    assert report
    assert [finding.holds for finding in report] == [True, True, True]
    assert report["dual class"].detail["B"] == pytest.approx(38.8664632, abs=1e-9)
    assert report["feasibility"].detail["reachable_starts"] == 10
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["holds"] is True
    assert [f["assumption"] for f in data["findings"]] == ["feasibility", "linearity", "dual class"]


def test_a_restart_that_must_reset_is_rejected_by_name() -> None:
    report = rf.check(rf.make("footnote-v0"))
    assert not report
    finding = report["feasibility"]
    assert finding.holds is False
    assert finding.witness == 1
    assert finding.sentence.startswith("From state bad (index 1) no policy avoids resets for certain, and an")
    assert "a restart" in finding.sentence
    assert report["dual class"].detail["left_out"] == 1
    assert "Left out" in report["dual class"].sentence
    with pytest.raises(rf.AssumptionViolated, match="bad"):
        rf.close(rf.make("footnote-v0"))


def test_the_story_of_a_start_is_told() -> None:
    mdp = corridor(9, horizon=2, start=0, restart=4)
    found = reachable_starts(mdp)
    assert found.states.tolist() == [True] * 9 + [False]
    assert found.origin[0] == START
    assert found.origin[4] == RESTART
    assert found.path(3) == [0, 1, 3] or found.path(3) == [0, 2, 3]
    assert found.explain(0) == "it is a start"
    assert found.explain(4) == "it is a restart"
    assert found.explain(6) == "1 episode after a restart, along 4 -> 6"
    assert found.explain(9) == "no behaviour starts an episode there"
    long = reachable_starts(corridor(20, horizon=1))
    assert long.explain(15) == "15 episodes after a start, along 0 -> 1 -> 2 -> ... -> 14 -> 15"


@pytest.mark.parametrize(("boundary", "steps"), [("physical", 3), ("literal", 2)])
def test_the_boundary_decides_how_far_an_episode_goes(boundary: str, steps: int) -> None:
    transition = np.zeros((8, 1, 8))
    transition[np.arange(8), 0, (np.arange(8) + 1) % 8] = 1.0  # a ring of one action
    mdp = rf.FiniteMDP(transition, np.zeros((8, 1)), np.zeros(8), 3, boundary=boundary)  # type: ignore[arg-type]
    expected = {s * steps % 8 for s in range(8)}
    assert set(np.flatnonzero(reachable_starts(mdp).states).tolist()) == expected


def test_states_where_the_end_is_a_reset_are_not_next_starts() -> None:
    free, cut = corridor(5, horizon=1), corridor(5, horizon=1, end_reset=[0, 0, 1, 0, 0, 0])
    assert reachable_starts(free).states.sum() == 5
    assert reachable_starts(cut).states.tolist() == [True, True, False, False, False, False]


def test_contexts_can_make_a_reset_state_a_start() -> None:
    """Standing where the next task may call it a reset is a reset: a start that cannot move away is infeasible."""
    one = rf.FiniteMDP(np.ones((2, 1, 1)) * np.eye(2)[:, None], np.zeros((2, 1)), [False, False], 2, start=1, restart=0)
    two = rf.FiniteMDP(np.ones((2, 1, 1)) * np.eye(2)[:, None], np.zeros((2, 1)), [False, True], 2, start=0, restart=0)
    mdp = with_contexts([one, two], [[0.5, 0.5], [0.5, 0.5]])
    finding = feasibility(mdp)
    assert finding.holds is False
    assert finding.witness == 1
    assert "no policy avoids resets for certain" in finding.sentence
    literal = with_contexts([one.replace(horizon=1, boundary="literal"), two.replace(horizon=1, boundary="literal")],
                            [[0.5, 0.5], [0.5, 0.5]])  # fmt: skip
    assert "is a reset state" in feasibility(literal).sentence
    with pytest.raises(rf.AssumptionViolated):  # nothing ever arrives, so no arrival can be made a reset
        rf.close(literal)


def test_restarts_count_only_in_contexts_that_come() -> None:
    task = rf.FiniteMDP(
        np.ones((2, 1, 1)) * np.eye(2)[:, None], np.zeros((2, 1)), [False, False], 1, start=0, restart=1
    )
    mdp = with_contexts([task, task, task], [[0, 1, 0], [0, 1, 0], [0, 0, 1]])  # context 0 once, then 1, never 2
    assert reachable_starts(mdp).states.tolist() == [True, False, True, True, False, False]


def test_closing_repairs_what_fails() -> None:
    transition = np.zeros((4, 2, 4))  # 0 stays or goes to 1, from which everything leads to the pit 3; 2 is a safe home
    transition[0, 0, 0] = transition[0, 1, 1] = transition[1, :, 3] = transition[2, :, 0] = 1.0
    mdp = rf.FiniteMDP(transition, np.zeros((4, 2)), [0, 0, 0, 1], 2, start=2)
    finding = feasibility(mdp)
    assert (finding.holds, finding.witness) == (False, 1)
    assert "along 2 -> 1" in finding.sentence
    repaired = rf.close(mdp)
    assert repaired.end_reset.tolist() == [False, True, False, False]
    assert bool(rf.check(repaired))
    assert rf.close(repaired) is repaired


# Linear problems


def test_the_random_linear_problem_is_linear_and_a_perturbed_one_is_not() -> None:
    mdp = rf.make("random-linear-v0")
    finding = linearity(mdp)
    assert finding.holds
    assert finding.detail["norms"]["mu"] == pytest.approx(np.sqrt(6))
    assert finding.detail["norms"]["cost"] == pytest.approx(1.0)
    assert rf.check(mdp)
    dense = mdp.transition.matrix().toarray().reshape(30, 4, 30)
    dense[7, 2] = 0.999 * dense[7, 2] + 0.001 * np.eye(30)[5]
    moved = rf.check(mdp.replace(transition=dense))
    assert not moved
    assert moved["linearity"].witness == 7
    worst = moved["linearity"].detail["worst"]
    assert (worst["part"], worst["state"], worst["action"], worst["step"]) == ("transition", 7, 2, None)
    assert "state s7, action a2" in moved["linearity"].sentence
    reward = mdp.reward[0].copy()
    reward[3, 1] = 1 - reward[3, 1]
    finding = linearity(mdp.replace(reward=reward))
    assert (finding.holds, finding.witness, finding.detail["worst"]["part"]) == (False, 3, "reward")


def test_a_layered_problem_names_the_step() -> None:
    mdp = rf.make("drifting-v0")
    assert linearity(mdp).holds
    dense = np.stack([mdp.transition.matrix(h).toarray().reshape(30, 4, 30) for h in range(6)])
    dense[4, 9, 3] = np.roll(dense[4, 9, 3], 1)
    finding = linearity(mdp.replace(transition=dense))
    assert finding.holds is False
    assert finding.detail["worst"]["step"] == 5
    last = dense.copy()
    last[4], last[5] = dense[3], dense[4]
    assert not linearity(mdp.replace(transition=last)).holds
    assert linearity(mdp.replace(transition=last, boundary="literal")).holds  # the last layer moves nothing there


def test_one_hot_features_are_linear_without_computing_and_with() -> None:
    mdp = rf.make("grid-v0")
    assert "Nothing was computed" in linearity(mdp).sentence
    finding = linearity(mdp, np.eye(60).reshape(12, 5, 60))
    assert finding.holds
    assert finding.detail["rank"] == 50  # pairs of reset states do not count
    assert finding.detail["norms"]["mu"] == pytest.approx(np.sqrt(50))


def test_projections_find_the_same_witness_as_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = rf.make("random-linear-v0", n_states=60)
    dense = mdp.transition.matrix().toarray().reshape(60, 4, 60)
    dense[7, 2] = (1 - 1e-6) * dense[7, 2] + 1e-6 * np.eye(60)[5]
    full = linearity(mdp.replace(transition=dense))
    monkeypatch.setattr(sys.modules[linearity.__module__], "DENSE_ENTRIES", 1_000)
    sketched = linearity(mdp.replace(transition=dense))
    assert sketched.detail["worst"] == full.detail["worst"]
    assert linearity(mdp).holds


def test_features_that_are_too_large_and_measures_that_are() -> None:
    mdp = rf.make("random-linear-v0")
    assert mdp.phi is not None
    large = linearity(mdp, 2 * mdp.phi)
    assert large.holds is False
    assert large.witness is not None
    assert "norm at most 1" in large.sentence
    small = linearity(mdp, mdp.phi / 2)
    assert small.holds is False
    assert "must be at most sqrt(d)" in small.sentence


def test_where_phi_leaves_freedom_smaller_measures_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features with redundant coordinates: the measures of least norm are too large, others are not."""
    mdp = rf.make("random-linear-v0", n_states=8, n_actions=3, d=3)
    assert mdp.phi is not None
    verdicts = []
    for seed in (10, 14, 22, 30):
        wide = np.concatenate([np.eye(3), 0.5 * np.random.default_rng(seed).standard_normal((3, 1))], axis=1)
        phi = mdp.phi @ wide
        phi /= max(1.0, np.linalg.norm(phi, axis=2).max())
        verdicts.append(linearity(mdp, phi))
        with monkeypatch.context() as patch:
            patch.setattr(
                sys.modules[linearity.__module__], "PROGRAM_ENTRIES", 0
            )  # without the programs it is an open question
            unknown = linearity(mdp, phi)
            assert unknown.holds is None
            assert "others may be smaller" in unknown.sentence
            assert unknown.detail["norms"]["mu"] > verdicts[-1].detail["norms"]["mu"]
    assert {finding.holds for finding in verdicts} == {True, False}
    for finding in verdicts:
        assert finding.detail["rank"] == 3
        assert finding.holds == (finding.detail["norms"]["mu"] <= 2.0)


# The dual class


def test_the_smallest_ball_of_the_grid() -> None:
    """xi = 1 needs the smallest ball, one-hot features the largest; affine ones use coordinates scaled to [0, 1]."""
    mdp = rf.make("grid-v0")
    row, col = np.divmod(np.arange(12), 4)
    affine = np.stack([np.ones(12), row / 2, col / 3], axis=1) / np.sqrt(3)
    constant, linear_, one_hot = (dual_class(mdp, xi) for xi in (np.ones((12, 1)), affine, np.eye(12)))
    assert constant.detail["B"] == pytest.approx(38.8664632, abs=1e-7)
    assert linear_.detail["B"] == pytest.approx(57.0901682, abs=1e-6)
    assert one_hot.detail["B"] == pytest.approx(91.0917460, abs=1e-6)
    assert all(finding.holds for finding in (constant, linear_, one_hot))
    assert constant.detail["equality_B"] is None
    assert one_hot.detail["equality_B"] == pytest.approx(one_hot.detail["B"])
    hat = rf.solve(mdp).lambda_hat
    theta = np.asarray(linear_.detail["theta"])
    live = ~mdp.reset
    assert (affine[live] @ theta - hat[live] - 1).min() == pytest.approx(0, abs=1e-7)


def test_features_that_cannot_express_the_multiplier() -> None:
    mdp = rf.make("grid-v0")
    blind = np.ones((12, 1))
    blind[2] = 0.0
    finding = dual_class(mdp, blind)
    assert (finding.holds, finding.witness, finding.detail["B"]) == (False, 2, None)
    assert "fails at state 0,2" in finding.sentence
    signs = np.ones((12, 1))
    signs[7] = -1.0
    assert dual_class(mdp, signs).holds is False
    large = dual_class(mdp, np.full((12, 1), 1.5))
    assert large.holds is False
    assert "xi must have norm at most 1" in large.sentence


def test_too_large_a_problem_is_not_checked_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = rf.make("grid-v0")
    monkeypatch.setattr(assumptions, "LARGEST_WORK", 1.0)
    report = rf.check(mdp)
    assert report  # feasibility holds and nothing fails
    assert report["dual class"].holds is None
    assert "starts=" in report["dual class"].sentence
    asked = rf.check(mdp, starts=[0, 2])
    assert asked["dual class"].detail["B"] == pytest.approx(38.8664632)
    with pytest.raises(rf.AssumptionViolated):
        dual_class(rf.make("footnote-v0"), starts=[1])


def test_nothing_to_bound_where_no_start_is_feasible() -> None:
    mdp = rf.make("footnote-v0").replace(start=1)
    finding = dual_class(mdp)
    assert finding.holds is None
    assert not rf.check(mdp)


@pytest.mark.parametrize("seed", range(60))
def test_least_norm_is_that_of_a_general_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 6)), int(rng.integers(1, 30))
    centre = rng.standard_normal(d)
    rows: Floats = rng.standard_normal((n, d)) + centre * rng.choice([0.5, 2.0])
    bounds = rng.exponential(10.0, size=n) * rng.integers(0, 2, size=n)
    theta, deciding = least_norm(rows, bounds)
    possible = linprog(np.zeros(d), A_ub=-rows, b_ub=-bounds, bounds=(None, None), method="highs")
    assert (theta is not None) == (possible.status == 0)
    if theta is None:
        return
    assert (rows @ theta - bounds).min() >= -1e-7 * max(1.0, bounds.max())
    assert np.allclose(rows[deciding] @ theta, bounds[deciding])
    if len(deciding):  # optimal: theta is a combination of the deciding rows with weights that are not negative
        assert nnls(rows[deciding].T, theta)[1] <= 1e-7 * np.linalg.norm(theta)
    solved = minimize(
        lambda x: x @ x, possible.x, jac=lambda x: 2 * x, method="SLSQP", options={"maxiter": 500, "ftol": 1e-12},
        constraints=[{"type": "ineq", "fun": lambda x: rows @ x - bounds, "jac": lambda x: rows}],
    )  # fmt: skip
    if solved.success:
        assert np.linalg.norm(theta) == pytest.approx(np.linalg.norm(solved.x), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_least_norm_with_equalities_is_that_of_a_general_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(3, 6))
    rows, others = rng.standard_normal((2, d)), rng.standard_normal((int(rng.integers(0, 4)), d))
    values = rng.exponential(5.0, size=2)
    theta = least_norm_equal(rows, values, others)
    solved = minimize(
        lambda x: x @ x, np.linalg.lstsq(rows, values, rcond=None)[0], method="SLSQP", options={"ftol": 1e-12},
        constraints=[
            {"type": "eq", "fun": lambda x: rows @ x - values}, {"type": "ineq", "fun": lambda x: others @ x},
        ] if len(others) else [{"type": "eq", "fun": lambda x: rows @ x - values}],
    )  # fmt: skip
    fixed = {"A_eq": rows, "b_eq": values, "A_ub": -others, "b_ub": np.zeros(len(others))}
    assert (theta is not None) == (linprog(np.zeros(d), **fixed, bounds=(None, None), method="highs").status == 0)
    if theta is None:
        return
    assert np.allclose(rows @ theta, values)
    assert (others @ theta >= -1e-7).all()
    if solved.success:
        assert np.linalg.norm(theta) == pytest.approx(np.linalg.norm(solved.x), rel=1e-5)


def test_equalities_that_contradict_each_other() -> None:
    rows = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert least_norm_equal(rows, np.array([1.0, 2.0, 0.0]), np.zeros((0, 2))) is None
    assert least_norm_equal(rows[1:], np.array([2.0, 1.0]), np.array([[-1.0, 0.0]])) is None


# Inputs and reports


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"xi": np.ones(12)}, r"The 'xi' of check must have shape \[S, d\] = \[12, d\]. Got \(12,\) instead."),
        ({"xi": np.ones((11, 2))}, r"Got \(11, 2\) instead"),
        ({"xi": np.full((12, 1), np.nan)}, "The 'xi' of check must be finite"),
        ({"phi": np.ones((12, 5))}, r"The 'phi' of check must have shape \[S, A, d\] = \[12, 5, d\]"),
        ({"phi": np.ones((12, 4, 2))}, r"Got \(12, 4, 2\) instead"),
        ({"phi": np.full((12, 5, 1), np.inf)}, "The 'phi' of check must be finite"),
    ],
)
def test_what_features_must_be(options: dict[str, Floats], sentence: str) -> None:
    with pytest.raises(rf.InvalidInput, match=sentence):
        rf.check(rf.make("grid-v0"), **options)


def test_only_finite_problems_can_be_checked() -> None:
    with pytest.raises(rf.NotCertifiable, match="FiniteProblem"):
        rf.check(rf.make("grid-v0").problem())


def test_a_report_is_true_only_if_feasibility_was_found_to_hold() -> None:
    yes, open_, no = (Finding(name, holds, "") for name, holds in (("feasibility", True), ("x", None), ("y", False)))
    assert AssumptionReport("p", (yes, open_))
    assert not AssumptionReport("p", (yes, no))
    assert not AssumptionReport("p", (open_,))
    assert not AssumptionReport("p", (Finding("feasibility", None, ""),))
    assert "not checked" in str(open_)


def test_checks_do_not_load_the_optimiser_before_it_is_needed() -> None:
    modules = "sys, resetfree.theory.theorems, resetfree.theory.lemmas"
    code = f"import {modules}; print('scipy.optimize' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
