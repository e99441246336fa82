"""A continuum in several dimensions: its features and simulator, and answers by quadrature checked in other ways."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import resetfree as rf
from resetfree.problems.continuum import Continuum, inside_continuum
from resetfree.problems.zoo.continuous_box import ContinuousBoxMDP, dealt, grid
from resetfree.theory.assumptions import check_continuum, feasible, linear
from resetfree.theory.oracle import nodes, quadrature

Floats = NDArray[np.float64]
PLACES = grid(np.array([0.05, 0.45, 0.75]), 2)


def instance(**options: Any) -> ContinuousBoxMDP:
    mdp: ContinuousBoxMDP = rf.make("continuous-linear-v0", **{"dimension": 2, **options})
    return mdp


def smooth(h: int, states: Floats) -> Floats:
    """A policy that is analytic and depends on the step and on every coordinate."""
    logits = np.stack([0 * states[:, 0], 3 * states[:, 0] - h, 4 * states[:, -1] - 2], axis=1)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def rough(h: int, states: Floats) -> Floats:
    """A policy that jumps along a line that no rule knows."""
    return np.asarray(np.eye(3)[np.where(states @ [1.0, 0.7321] < 0.61 + 0.05 * h, 0, 1)])


@pytest.mark.parametrize("options", [{}, {"dimension": 3, "d": 3, "seed": 2}])
def test_features_are_mixtures_and_the_assumptions_hold(options: dict[str, Any]) -> None:
    mdp = instance(**options)
    x = np.random.default_rng(0).random((200, mdp.dimension))
    phi, unsafe = mdp.rows(x), mdp.dangers(x)
    assert phi.shape == (200, 3, mdp.d)
    assert np.abs(phi.sum(axis=2) - 1).max() <= 1e-14
    assert (phi >= 0).all()
    assert not unsafe[:, 0].any()
    assert (phi[..., -1][unsafe] >= 0.1).all()
    assert (phi[..., -1][~unsafe] == 0).all()
    assert bool(check_continuum(mdp))


def test_a_broken_assumption_is_found() -> None:
    class Falls(ContinuousBoxMDP):
        def rows(self, states: Floats) -> Floats:
            return np.roll(super().rows(states), 1, axis=1)

    class Heavy(ContinuousBoxMDP):
        def densities(self, states: Floats) -> Floats:
            return 1.01 * super().densities(states)

    mdp = instance()
    fields = (mdp.horizon, mdp.shape, mdp.danger, mdp.risk, mdp.control, mdp.omega)
    assert not feasible(Falls(*fields)).holds
    assert not linear(Heavy(*fields)).holds


def test_one_dimension_is_the_interval() -> None:
    """The same numbers as a box of one dimension: the same problem, with the exact answer of piecewise polynomials."""
    line = rf.make("continuous-linear-v0")
    box = ContinuousBoxMDP(
        line.horizon, line.shape[:, None, :], line.danger[:, None, :], line.risk, line.control, omega=line.omega
    )
    x = np.linspace(0.0, 1.0, 101)
    assert np.abs(box.rows(x[:, None]) - line.phi(x)).max() <= 1e-15
    assert np.array_equal(box.dangers(x[:, None]), line.unsafe(x))
    assert box.densities(x[:, None]) == pytest.approx(line.density(x), rel=1e-13)
    exact, both = quadrature.solve(line), [nodes.solve(mdp, nodes.rule(mdp, 256)) for mdp in (line, box)]
    assert both[0].weights == pytest.approx(both[1].weights, abs=1e-13)
    assert np.abs(both[0].weights - exact.weights).max() <= 5e-7
    assert np.abs(both[0].value(x) - exact.value(x)).max() <= 5e-7
    assert np.abs(both[0].lambda_hat(x) - exact.lambda_hat(x)).max() <= 5e-6
    assert both[0].largest_multiplier == pytest.approx(exact.largest_multiplier, rel=1e-6)

    def policy(h: int, states: Floats) -> Floats:
        return smooth(h, np.reshape(states, (-1, 1)))

    exactly, found = quadrature.evaluate(line, policy), nodes.evaluate(line, policy)
    assert found.reward_weights == pytest.approx(exactly.reward_weights, abs=1e-13)
    assert found.cost_weights == pytest.approx(exactly.cost_weights, abs=1e-13)


def test_cells_converge_to_the_answer() -> None:
    """A finite problem of n^2 cells, solved by dynamic programming: an error of the order of 1 / n^2."""
    mdp = instance()
    answer, truth, errors = nodes.solve(mdp), nodes.evaluate(mdp, smooth), []
    for n in (10, 20):
        cells, x = mdp.discretise(n), grid((np.arange(n) + 0.5) / n, 2)
        found = rf.solve(cells, starts=[0])
        last = np.array([[1.0, 0.0, 0.0]])
        values = rf.evaluate(cells, np.stack([np.append(smooth(h, x), last, axis=0) for h in range(1, 6)]))
        v_r, v_c = truth(x)
        errors.append([
            np.abs(found.value[:-1] - answer.value(x)).max(),
            np.abs(values.v_r[:-1] - v_r).max(),
            np.abs(values.v_c[:-1] - v_c).max(),
        ])  # fmt: skip
        assert np.array_equal(found.safe_actions[0, :-1], ~mdp.dangers(x))
    assert (np.array(errors[1]) <= np.array(errors[0]) / [2.5, 3.5, 3.5]).all()
    assert (np.array(errors[1]) <= [3e-3, 2e-3, 1e-3]).all()


def test_what_more_nodes_change() -> None:
    """Nothing for a smooth policy; little for one that jumps along a line, and for V*, as much as is said of it."""
    mdp = instance()
    fine, here = nodes.rule(mdp, 16), nodes.rule(mdp, 8)
    for policy, most in ((smooth, 1e-12), (rough, 1e-3)):
        gaps = np.subtract(nodes.evaluate(mdp, policy, fine)(PLACES), nodes.evaluate(mdp, policy, here)(PLACES))
        assert np.abs(gaps).max() <= most
    said = nodes.solve(mdp, here).at(PLACES)
    assert np.abs(nodes.solve(mdp, fine).value(PLACES) - said.value).max() <= said.error <= 1e-4


def test_at_the_nodes_no_policy_earns_more_than_its_resets_cost() -> None:
    """The rule is a finite linear MDP: V_r - lambda_hat V_c <= V* to rounding, however rough a policy is."""
    mdp, rng = instance(seed=1), np.random.default_rng(0)
    at = nodes.rule(mdp, 3)
    answer = nodes.solve(mdp, at)
    hat, best = answer.lambda_hat(PLACES), answer.value(PLACES)
    for scale in (0.3, 30.0):
        table: dict[Any, Floats] = {}

        def policy(h: int, states: Floats, scale: float = scale, table: dict[Any, Floats] = table) -> Floats:
            key = (h, len(states))
            if key not in table:
                logits = scale * rng.random((len(states), 3))
                weights = np.exp(logits - logits.max(axis=1, keepdims=True))
                table[key] = weights / weights.sum(axis=1, keepdims=True)
            return table[key]

        v_r, v_c = nodes.evaluate(mdp, policy, at)(PLACES)
        assert (v_r - hat * v_c <= best + 1e-12).all()
    v_r, v_c = nodes.evaluate(mdp, answer.policy, at)(PLACES)
    assert v_r == pytest.approx(best, abs=1e-12)
    assert (v_c == 0).all()


def test_the_multiplier_is_attained_at_a_node() -> None:
    """To deviate once, at the node of step 2 where the ratio is largest, earns what it costs times the multiplier."""
    mdp = instance(seed=3)
    at = nodes.rule(mdp, 4)
    answer = nodes.solve(mdp, at)
    ratios = answer._ratios(at.x, at.phi, 2)
    node = int(ratios.argmax())

    def deviate(h: int, states: Floats) -> Floats:
        rows = answer.policy(h, states)
        if h == 2 and len(states) == len(at.x):
            worth = np.where(mdp.dangers(at.x[node : node + 1])[0], at.phi[node] @ answer.weights[1], -np.inf)
            rows[node] = np.eye(3)[int(worth.argmax())]
        return rows

    start = np.array([[0.95, 0.95]])
    v_r, v_c = nodes.evaluate(mdp, deviate, at)(start)
    assert v_c[0] > 0
    assert (v_r - answer.value(start)) / v_c == pytest.approx(ratios.max(), rel=1e-6)
    assert ratios.max() <= answer.later_ratio <= answer.largest_multiplier <= mdp.horizon / mdp.risk[1:].min()


def test_means_of_episodes_are_the_values() -> None:
    """By Hoeffding each of the two bounds fails with probability 1e-6 at most, over the choice of the seed."""
    mdp, n, start = instance(), 2000, np.array([0.3, 0.6])
    runs = list(rf.simulate(mdp.problem(), lambda h, s: smooth(h, s[None])[0], n, seed=2, starts=[start] * n))
    v_r, v_c = (float(one[0]) for one in nodes.evaluate(mdp, smooth)([start]))
    width = np.sqrt(np.log(2 / 1e-6) / (2 * n))
    assert abs(np.mean([e.reset for e in runs]) - v_c) <= width
    assert abs(np.mean([e.total_reward for e in runs]) - v_r) <= mdp.horizon * width
    assert 0.05 < v_c < 0.95


def test_episodes_keep_the_protocol() -> None:
    mdp = instance()
    problem, answer = mdp.problem(), nodes.solve(mdp, nodes.rule(mdp, 3))
    safe = list(rf.simulate(problem, lambda h, s: answer.policy(h, s[None])[0], 30, seed=3))
    assert not any(e.reset for e in safe)
    risky = list(rf.simulate(problem, lambda h, s: np.full(3, 1 / 3), 60, seed=4))
    assert any(e.reset for e in risky)
    for e in risky:
        assert ((e.states[-1] == -1).all()) == e.reset
        assert inside_continuum([e.next_start], mdp).all()
    assert not inside_continuum([None, np.array([0.5]), np.array([0.5, 1.5]), "x"], mdp).any()
    assert isinstance(mdp, Continuum)


def test_one_uniform_number_is_dealt_out_to_independent_coordinates() -> None:
    points = np.array([dealt((i + 0.5) / 4096, 2) for i in range(4096)])
    cells = (8 * points[:, 0]).astype(np.int64) * 8 + (8 * points[:, 1]).astype(np.int64)
    assert (np.bincount(cells, minlength=64) == 64).all()


def test_bad_input_is_refused() -> None:
    mdp = instance()
    with pytest.raises(rf.InvalidInput, match=r"must lie in \[0, 1\]\^2"):
        mdp.rows(np.array([[0.5, 1.5]]))
    with pytest.raises(rf.InvalidInput, match="multiple of 10"):
        mdp.discretise(25)
    with pytest.raises(rf.InvalidInput, match="at step 5"):
        nodes.evaluate(mdp, lambda h, s: np.full((len(s), 3), 0.3))
    for options in ({"dimension": 4}, {"dimension": 0}):
        with pytest.raises(rf.InvalidInput, match="continuous-linear-v0"):
            rf.make("continuous-linear-v0", **options)
