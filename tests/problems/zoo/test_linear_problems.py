"""The random linear problems: P = phi nu, r = phi omega, and when risk pays."""

from __future__ import annotations

import numpy as np
import pytest

import resetfree as rf


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
