"""What every registered finite problem must do, found by discovery and never listed by hand."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import resetfree as rf
from resetfree.problems.finite.tabular_policy import uniform

FINITE = [id for id in rf.problems() if isinstance(rf.make(id), rf.FiniteMDP)]
FAILS_ON_PURPOSE = {"footnote-v0"}

# (states, actions, horizon, reset states, layers of dynamics)
SIZES = {
    "coin-chain-v0": (7, 2, 6, 1, 6),
    "contexts-v0": (36, 5, 8, 6, 1),
    "doors-v0": (6, 2, 10, 1, 10),
    "drifting-v0": (30, 4, 6, 1, 6),
    "edge-all-safe-v0": (3, 2, 4, 1, 1),
    "edge-first-step-v0": (2, 2, 3, 1, 1),
    "edge-no-reset-v0": (2, 2, 4, 0, 1),
    "edge-one-action-v0": (3, 1, 2, 1, 1),
    "edge-one-step-v0": (2, 2, 1, 1, 1),
    "footnote-v0": (3, 4, 4, 1, 1),
    "generated-v0": (30, 5, 13, 6, 1),
    "grid-v0": (12, 5, 8, 2, 1),
    "ledge-v0": (2, 2, 1, 1, 1),
    "no-multiplier-v0": (12, 2, 2, 1, 1),
    "pits-v0": (25, 4, 10, 5, 1),
    "politex-trap-v0": (5, 2, 2, 1, 1),
    "random-linear-v0": (30, 4, 6, 1, 1),
    "thresholds-v0": (5, 2, 2, 1, 1),
}

NAN = float("nan")
BAD_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "coin-chain-v0": [{"m": 0}, {"m": 1001}, {"m": 4, "horizon": 3}],
    "contexts-v0": [{"m": 0}, {"m": 11}, {"order": "backwards"}],
    "doors-v0": [{"length": 0}, {"length": 10}],
    "drifting-v0": [{"horizon": 0}],
    "footnote-v0": [{"n_actions": 0}],
    "generated-v0": [{"draw": -1}],
    "grid-v0": [{"slip": 1.2}, {"horizon": 0}],
    "ledge-v0": [{"places": 0}, {"fall": 0.0}],
    "no-multiplier-v0": [{"bins": 0}, {"gap": 1.5}, {"gap": NAN}],
    "pits-v0": [{"n": 1}, {"slip": -0.1}, {"slip": NAN}, {"horizon": -1}, {"density": 1.01}, {"density": NAN},
                {"seed": -1}],
    "random-linear-v0": [{"n_states": 1}, {"n_actions": 0}, {"d": 1}, {"horizon": 0}, {"epsilon": 1.5}, {"seed": -1}],
}  # fmt: skip


def possible_starts(mdp: rf.FiniteMDP) -> NDArray[np.bool_]:
    """[S] every state in which some behaviour can start an episode; slow and plain, on the support."""
    steps = []
    for layer in range(mdp.transition.n_layers):
        matrix = mdp.transition.matrix(layer)
        matrix.data[:] = 1.0
        steps.append(matrix.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states).any(axis=1))
    starts: NDArray[np.bool_] = (mdp.start > 0) | (mdp.restart.ravel() > 0)
    while True:
        here = starts
        for h in range(mdp.n_transitions):
            dead = mdp.last_reset if h == mdp.n_transitions - 1 else mdp.reset
            here = steps[0 if mdp.transition.stationary else h][here].any(axis=0) & ~dead
        if mdp.contexts is not None:
            here = ((mdp.contexts.T > 0).astype(int) @ here.reshape(len(mdp.contexts), -1) > 0).ravel()
        if not (here & ~starts).any():
            return starts
        starts = starts | here


@pytest.mark.parametrize("id", FINITE)
def test_name_options_and_sizes(id: str) -> None:
    spec = rf.problems()[id]
    mdp = rf.make(id, **spec.options)
    assert mdp.name == id
    assert spec.summary.endswith(".")
    assert all(isinstance(default, int | float | bool | str) for default in spec.options.values())
    assert len(set(mdp.state_names)) == mdp.n_states
    assert len(set(mdp.action_names)) == mdp.n_actions
    assert not mdp.reward[:, mdp.reset].any()
    if id in SIZES:
        sizes = (mdp.n_states, mdp.n_actions, mdp.horizon, int(mdp.reset.sum()), mdp.transition.n_layers)
        assert sizes == SIZES[id]


@pytest.mark.parametrize("id", FINITE)
def test_same_options_same_arrays(id: str) -> None:
    one, two = rf.make(id), rf.make(id)
    for a, b in zip(one.model, two.model, strict=True):
        np.testing.assert_array_equal(a, b)
    for name in ("start", "restart", "phi", "xi", "contexts", "end_reset"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("id", FINITE)
def test_uniform_policy_plays_200_episodes(id: str) -> None:
    mdp = rf.make(id)
    starts = possible_starts(mdp)
    n = 0
    for episode in rf.simulate(mdp.problem(), uniform(mdp), 200, seed=5):
        n += 1
        assert starts[episode.start]
        assert 1 <= len(episode.actions) <= mdp.horizon
        assert episode.reset or len(episode.actions) == mdp.horizon
    assert n == 200


@pytest.mark.parametrize("id", FINITE)
def test_every_possible_start_admits_a_reset_free_policy(id: str) -> None:
    mdp = rf.make(id)
    solution = rf.solve(mdp)
    stuck = possible_starts(mdp) & ~solution.feasible
    assert stuck.any() == (id in FAILS_ON_PURPOSE)
    assert np.isfinite(solution.value[solution.feasible]).all()
    assert np.isfinite(solution.lambda_hat[solution.feasible]).all()
    assert (solution.lambda_hat[solution.feasible] >= 0).all()


@pytest.mark.parametrize(
    ("id", "options"),
    [
        ("coin-chain-v0", {"m": 1}),
        ("coin-chain-v0", {"m": 3, "horizon": 8}),
        ("contexts-v0", {"m": 10, "order": "random"}),
        ("doors-v0", {"length": 1, "horizon": 2}),
        ("doors-v0", {"length": 4, "horizon": 9}),
        ("drifting-v0", {"stationary": True}),
        ("no-multiplier-v0", {"gap": 0.2}),
        ("pits-v0", {"slip": 0.1}),
        ("pits-v0", {"n": 9, "slip": 0.3, "density": 0.5, "seed": 4}),
        ("pits-v0", {"n": 12, "density": 0.6, "horizon": 3}),
        ("random-linear-v0", {"n_states": 2, "d": 2, "n_actions": 1, "horizon": 1}),
        ("random-linear-v0", {"n_states": 4, "d": 9, "risk_pays": False}),
    ],
)
def test_assumption_1_holds_with_other_options_too(id: str, options: dict[str, Any]) -> None:
    mdp = rf.make(id, **options)
    assert not (possible_starts(mdp) & ~rf.solve(mdp).feasible).any()


@pytest.mark.parametrize(("id", "options"), [(id, one) for id, all in BAD_OPTIONS.items() for one in all])
def test_bad_options_are_refused_in_one_sentence(id: str, options: dict[str, Any]) -> None:
    with pytest.raises(rf.InvalidInput, match=rf"^The option '\w+' of problem '{id}' must .* Got .* instead\.$"):
        rf.make(id, **options)


BASE = 12


@pytest.mark.parametrize("order", ["cycle", "random"])
def test_context_is_constant_within_an_episode_and_changes_after_it(order: str) -> None:
    mdp = rf.make("contexts-v0", order=order)
    seen, carried = set(), 0
    for episode in rf.simulate(mdp.problem(), uniform(mdp), 300, seed=2):
        contexts = np.unique(episode.states // BASE)
        assert len(contexts) == 1
        here, after = int(contexts[0]), int(episode.next_start) // BASE
        seen.add((here, after))
        if not episode.reset:
            carried += 1
            assert episode.next_start % BASE == episode.states[-1] % BASE
        else:
            assert episode.next_start % BASE in (0, 11)  # the two homes
    assert carried > 0
    everything = {(i, j) for i in range(3) for j in range(3)}
    assert seen == ({(0, 1), (1, 2), (2, 0)} if order == "cycle" else everything)


def test_the_first_episode_has_the_first_context() -> None:
    mdp = rf.make("contexts-v0", order="random")
    assert {int(mdp.problem().first_start(u)) // BASE for u in np.linspace(0, 0.999, 50)} == {0}


def test_each_context_has_its_goal() -> None:
    mdp = rf.make("contexts-v0", m=10)
    goals = [mdp.state_names[s] for s in np.flatnonzero(mdp.reward[0, :, 0] == 1)]
    assert len({goal.split("|")[0] for goal in goals}) == 10
    assert sorted(goal.split("|")[1] for goal in goals) == sorted(str(c) for c in range(10))
    value = rf.solve(mdp).value.reshape(10, BASE)
    assert (np.nanmax(value, axis=1) == 8).all()  # standing on the goal for eight steps


def test_one_context_is_the_grid_itself() -> None:
    one, grid = rf.solve(rf.make("contexts-v0", m=1)), rf.solve(rf.make("grid-v0"))
    np.testing.assert_array_equal(one.value, grid.value)
    np.testing.assert_array_equal(one.lambda_hat, grid.lambda_hat)


def test_layout_shows_one_map_per_context() -> None:
    layout = rf.make("contexts-v0").layout
    assert (layout.n_rows, layout.n_cols) == (3, 14)
    assert len(np.unique(layout.cell)) == 36
    assert not np.isin(layout.cell % 14, (4, 9)).any()  # the empty columns between the maps


def names(mdp: rf.FiniteMDP, states: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> set[str]:
    return {mdp.state_names[s] for s in np.flatnonzero(states)}


def test_the_usual_small_field() -> None:
    mdp = rf.make("pits-v0")
    assert names(mdp, mdp.reset) == {"1,1", "1,3", "2,2", "3,1", "3,3"}
    assert names(mdp, mdp.start > 0) == {"0,0"}
    assert mdp.action_names == ("up", "down", "left", "right")
    assert names(mdp, mdp.reward[0, :, 0] > 0) == {"4,4"}
    assert mdp.layout is not None
    assert mdp.layout.cell.tolist() == list(range(25))
    np.testing.assert_allclose(mdp.restart[0], ~mdp.reset / 20)


def test_values_without_slipping_count_steps() -> None:
    """Ten steps, the way to the goal takes as many as it takes, the rest is paid; pits only force detours.

    (0,0) is 8 moves away along the ring: 2. (1,2) has pits on three sides, up and along the ring: 7 moves, 3.
    """
    mdp = rf.make("pits-v0")
    solution = rf.solve(mdp)
    value = dict(zip(mdp.state_names, solution.value.tolist(), strict=True))
    assert (value["0,0"], value["1,2"], value["2,3"], value["0,4"], value["4,4"]) == (2, 3, 7, 6, 10)
    assert (solution.lambda_hat[solution.feasible] == 0).all()


def test_slipping_leaves_only_the_ring_live() -> None:
    """Without "stay" each move may slip to both sides: (1,2), (2,1), (2,3), (3,2) have no safe move."""
    mdp = rf.make("pits-v0", slip=0.2)
    assert names(mdp, mdp.end_reset) == {"1,2", "2,1", "2,3", "3,2"}
    ring = {f"{r},{c}" for r in range(5) for c in range(5) if r in (0, 4) or c in (0, 4)}
    assert names(mdp, mdp.restart[0] > 0) == ring
    assert names(mdp, rf.solve(mdp).feasible) == ring


@pytest.mark.parametrize("n", [2, 3, 4, 6, 20])
@pytest.mark.parametrize("slip", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("density", [-1.0, 0.0, 0.4, 1.0])
def test_the_ring_is_free_and_live(n: int, slip: float, density: float) -> None:
    mdp = rf.make("pits-v0", n=n, slip=slip, density=density)
    inner = np.zeros((n, n), dtype=np.bool_)
    inner[1:-1, 1:-1] = True
    ring = ~inner.ravel()
    assert mdp.horizon == 2 * n
    assert not mdp.reset[ring].any()
    assert (mdp.restart[0, ring] > 0).all()
    solution = rf.solve(mdp)
    assert np.isfinite(solution.value[mdp.restart[0] > 0]).all()
    if density in (0.0, 1.0):
        free = 2 if n >= 7 else 1
        field = np.zeros((n, n), dtype=np.bool_)
        field[free:-free, free:-free] = density == 1.0
        np.testing.assert_array_equal(mdp.reset, field.ravel())


def test_an_explicit_density_draws_random_pits_at_n_5_too() -> None:
    drawn = [rf.make("pits-v0", density=0.4, seed=seed).reset for seed in range(4)]
    assert len({row.tobytes() for row in drawn}) == 4
    assert not any(np.array_equal(row, rf.make("pits-v0").reset) for row in drawn)


def test_the_share_of_pits_is_the_density() -> None:
    inner = 96 * 96
    for density, expected in ((-1.0, 0.15), (0.3, 0.3)):
        n_pits = int(rf.make("pits-v0", n=100, density=density, horizon=1).reset.sum())
        assert n_pits == pytest.approx(expected * inner, abs=5 * np.sqrt(expected * inner))


def test_a_large_field_stays_sparse() -> None:
    rf.make("pits-v0")  # compiled and loaded before counting
    tracemalloc.start()
    try:
        mdp = rf.make("pits-v0", n=200)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert mdp.n_states == 40_000
    assert mdp.transition.nnz <= 40_000 * 4
    assert peak < 60e6  # the dense array would take 51 gigabytes
    solution = rf.solve(mdp, starts=[0])
    assert solution.value[0] == 2.0  # along the ring: 398 moves of 400
    assert solution.lambda_hat[0] == 0.0


def dense(mdp: rf.FiniteMDP, layer: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """[live states * A, S] what can happen."""
    matrix = mdp.transition.matrix(layer).toarray()
    return np.asarray(matrix[: (mdp.n_states - 1) * mdp.n_actions])


@pytest.mark.parametrize("id", ["random-linear-v0", "drifting-v0"])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("risk_pays", [True, False])
def test_dynamics_and_rewards_are_linear(id: str, seed: int, risk_pays: bool) -> None:
    mdp = rf.make(id, seed=seed, risk_pays=risk_pays)
    assert mdp.phi is not None
    rows = mdp.phi[:-1].reshape(-1, 6)
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-14)
    assert np.linalg.matrix_rank(rows) == 6
    for layer in range(mdp.transition.n_layers):
        nu = np.linalg.lstsq(rows, dense(mdp, layer), rcond=None)[0]
        assert np.abs(rows @ nu - dense(mdp, layer)).max() < 1e-13
        assert nu.min() > -1e-12
        np.testing.assert_allclose(nu.sum(axis=1), 1, rtol=1e-12)
        assert np.linalg.norm(np.abs(nu).sum(axis=1)) <= np.sqrt(6) + 1e-9
        np.testing.assert_allclose(nu[-1], np.eye(30)[-1], atol=1e-12)
    omega = np.linalg.lstsq(rows, mdp.reward[0, :-1].ravel(), rcond=None)[0]
    assert np.abs(rows @ omega - mdp.reward[0, :-1].ravel()).max() < 1e-13
    assert omega[-1] == pytest.approx(1.0 if risk_pays else 0.0, abs=1e-12)


def test_action_0_is_safe_and_risky_pairs_reset_with_their_last_feature() -> None:
    mdp = rf.make("random-linear-v0")
    assert mdp.phi is not None
    chance = dense(mdp)[:, -1].reshape(29, 4)
    np.testing.assert_allclose(chance, mdp.phi[:-1, :, -1], rtol=1e-13)
    risky = chance > 0
    assert not risky[:, 0].any()
    assert risky.any()
    assert chance[risky].min() >= 0.1
    assert chance[risky].max() <= 0.5
    np.testing.assert_array_equal(rf.solve(mdp).safe_actions[0, :-1], ~risky)


@pytest.mark.parametrize("id", ["random-linear-v0", "drifting-v0"])
@pytest.mark.parametrize("seed", range(5))
def test_when_risk_does_not_pay_every_multiplier_is_exactly_zero(id: str, seed: int) -> None:
    solution = rf.solve(rf.make(id, seed=seed, risk_pays=False))
    assert (~solution.safe_actions[0, :-1]).any()
    assert (solution.lambda_hat[:-1] == 0).all()
    assert (rf.solve(rf.make(id, seed=seed)).lambda_hat[:-1] > 0).all()


def test_the_seed_matters() -> None:
    one, two = rf.make("random-linear-v0", seed=1), rf.make("random-linear-v0", seed=2)
    assert np.abs(dense(one) - dense(two)).max() > 0.01


def test_drifting_changes_with_the_step_and_its_twin_does_not() -> None:
    drifting, twin = rf.make("drifting-v0"), rf.make("drifting-v0", stationary=True)
    assert (drifting.stationary, twin.stationary) == (False, True)
    layers = [dense(drifting, h) for h in range(6)]
    assert min(np.abs(a - b).max() for i, a in enumerate(layers) for b in layers[:i]) > 0.01
    np.testing.assert_array_equal(layers[0], dense(twin))


def test_the_twin_is_random_linear() -> None:
    twin, same = rf.make("drifting-v0", stationary=True, seed=7), rf.make("random-linear-v0", seed=7)
    for a, b in zip(twin.model, same.model, strict=True):
        np.testing.assert_array_equal(a, b)
