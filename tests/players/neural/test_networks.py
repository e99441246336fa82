"""Networks as arrays: NumPy and JAX agree, densities are densities, and a policy is a policy whatever its weights."""

from math import erf, sqrt

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri

import resetfree as rf
from resetfree.players.neural.networks import forward, orthogonal_layers, policy_of, rectified, uniform_layers
from resetfree.players.neural.sac import draw_actions, squashed_log

BOX = rf.Box([-2.0, 0.0], [2.0, 1.0])


def test_the_policy_in_numpy_is_the_actor_in_jax() -> None:
    rng = np.random.default_rng(0)
    actor = uniform_layers((3, 32, 32, 4), rng)
    policy = policy_of(actor, None, BOX)
    s, u = rng.normal(size=(50, 3)), rng.uniform(size=(50, 2))
    drawn, _ = draw_actions(actor, jnp.asarray(s, jnp.float32), jnp.asarray(ndtri(u), jnp.float32))
    expected = np.array([0.0, 0.5]) + np.array([2.0, 0.5]) * np.asarray(drawn, dtype=np.float64)
    acted = np.array([policy.act(1, *pair) for pair in zip(s, u, strict=True)])
    np.testing.assert_allclose(acted, expected, atol=2e-5)
    assert np.ptp(acted, axis=0).min() > 0.5  # not all the same
    mean, _ = policy.outputs(s[0])
    np.testing.assert_allclose(policy.mode(1, s[0]), np.array([0.0, 0.5]) + np.array([2.0, 0.5]) * np.tanh(mean))


def test_several_networks_are_each_of_them() -> None:
    rng = np.random.default_rng(1)
    many, x = uniform_layers((3, 8, 8, 1), rng, copies=2), rng.normal(size=(5, 3))
    ones = [tuple((w[i], b[i, 0]) for w, b in many) for i in range(2)]
    expected = np.stack([forward(one, x, rectified) for one in ones])
    np.testing.assert_allclose(forward(many, x, rectified), expected, rtol=1e-6)
    np.testing.assert_allclose(forward(many, jnp.asarray(x), jax.nn.relu), expected, atol=1e-5)


def test_the_logarithm_is_that_of_the_density_of_the_action() -> None:
    """The derivative of P(tanh(x) <= a), by differences."""
    mean, deviation, a, step = 0.3, 0.7, np.linspace(-0.98, 0.98, 41), 1e-5

    def below(a: float) -> float:
        return 0.5 * (1.0 + erf((np.arctanh(a) - mean) / deviation / sqrt(2.0)))

    density = [(below(one + step) - below(one - step)) / (2.0 * step) for one in a]
    x = np.arctanh(a)[:, None]
    found = squashed_log(jnp.asarray((x - mean) / deviation), jnp.log(deviation), jnp.asarray(x))
    np.testing.assert_allclose(np.exp(found), density, rtol=1e-4)


def test_a_far_state_and_huge_weights_still_give_an_action() -> None:
    actor = tuple((np.full_like(w, 3e38), np.full_like(b, -3e38)) for w, b in uniform_layers((3, 8, 8, 4), RNG))
    for s in (np.full(3, 1e308), np.full(3, -1e308), np.zeros(3)):
        for u in (0.0, 0.5, np.array([0.1, 1.0 - 1e-16])):
            assert BOX.holds(policy_of(actor, None, BOX).act(1, s, u))


RNG = np.random.default_rng(2)


@pytest.mark.parametrize("sizes", [(3, 64, 64, 2), (70, 64, 8, 1)])
def test_ppo_begins_with_orthogonal_layers(sizes: tuple[int, ...]) -> None:
    layers = orthogonal_layers(sizes, RNG, last=0.01)
    for (weight, offset), gain in zip(layers, (sqrt(2.0), sqrt(2.0), 0.01), strict=True):
        n, m = weight.shape
        product = weight.T @ weight if n >= m else weight @ weight.T
        np.testing.assert_allclose(product, gain**2 * np.eye(min(n, m)), atol=1e-5)
        assert not offset.any()


def test_a_policy_of_a_file_must_have_a_box() -> None:
    policy = policy_of(uniform_layers((3, 8, 8, 4), RNG), None, BOX)
    policy.check_loaded()
    policy.low, policy.high = policy.high, policy.low
    with pytest.raises(rf.InvalidInput, match="must have a box of actions"):
        policy.check_loaded()
