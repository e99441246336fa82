"""Features and sets: a product of contexts keeps its tasks' features, and the check of U is the players' own U."""

import numpy as np
import pytest
from tests.property.random_mdps import closed_mdp

import resetfree as rf
from resetfree.players.dual import Space, functions
from resetfree.problems.finite.composed import with_contexts
from resetfree.theory.assumptions import dual_class, linearity
from resetfree.theory.sets import for_features

CHAIN = [[0.3, 0.7], [0.6, 0.4]]


def linear_tasks() -> list[rf.FiniteMDP]:
    """Two linear problems over the same states, with features of their own."""
    return [rf.make("random-linear-v0", seed=seed) for seed in (0, 1)]


def test_a_product_of_linear_problems_is_linear_in_the_lifted_features() -> None:
    tasks = linear_tasks()
    product = with_contexts(tasks, CHAIN)
    assert product.phi is not None
    assert product.xi is not None
    n, d = tasks[0].n_states, tasks[0].phi.shape[-1]  # type: ignore[union-attr]
    assert product.phi.shape == (2 * n, 4, 2 * d)
    finding = linearity(product)
    assert finding.holds, finding.sentence
    assert finding.detail["d"] == 2 * d
    for c, task in enumerate(tasks):
        block = product.phi[c * n : (c + 1) * n]
        assert task.phi is not None
        assert np.array_equal(block[..., c * d : (c + 1) * d], task.phi)
        assert np.count_nonzero(block) == np.count_nonzero(task.phi)
    assert rf.check(product)["dual class"].holds


def test_features_of_one_context_do_not_serve_another() -> None:
    """Without blocks the product is not linear: the lift is needed, and the check can fail."""
    tasks = linear_tasks()
    product = with_contexts(tasks, CHAIN)
    stacked = np.concatenate([task.phi for task in tasks if task.phi is not None])
    assert linearity(product, stacked).holds is False


def test_a_task_without_features_is_lifted_as_what_it_stands_for() -> None:
    linear, plain = linear_tasks()
    bare = plain.replace(phi=None, xi=None)
    product = with_contexts([linear, bare], CHAIN)
    assert product.phi is not None
    assert product.xi is not None
    n, d = linear.n_states, linear.phi.shape[-1]  # type: ignore[union-attr]
    assert product.phi.shape[-1] == d + n * 4
    assert np.array_equal(product.xi, np.repeat(np.eye(2), n, axis=0))
    assert linearity(product).holds
    assert with_contexts([bare, bare], CHAIN).phi is None
    assert with_contexts([bare, bare], CHAIN).xi is None


def test_a_learner_plays_the_product_with_its_features() -> None:
    run = rf.learn(with_contexts(linear_tasks(), CHAIN), "linear-ucb", episodes=30, seed=0)
    assert len(run) == 30
    assert all(c.holds for c in run.certificates() if c.status == "proved")


@pytest.mark.parametrize("seed", range(25))
def test_the_least_theta_lies_in_the_set_of_the_players(seed: int) -> None:
    """One definition of U: non-negative at every state, reset states too, so the players can play what is found."""
    rng = np.random.default_rng(seed)
    mdp = closed_mdp(seed)
    xi = rng.standard_normal((mdp.n_states, 3))
    xi[:, 0] = np.abs(xi[:, 0]) + (~mdp.reset) * 2.0
    xi /= np.linalg.norm(xi, axis=1, keepdims=True)
    mdp = mdp.replace(xi=xi)
    finding = dual_class(mdp)
    if finding.detail.get("theta") is None:
        assert finding.holds is not True
        return
    theta, B = np.asarray(finding.detail["theta"]), finding.detail["B"]
    assert (xi @ theta).min() >= -1e-8 * B
    assert for_features(xi, B).contains(theta, 1e-8 * B)
    among = functions(mdp.problem(), B * (1 + 1e-9), "auto", "test")
    assert isinstance(among, Space)
    assert np.allclose(among.moved(theta, 0, 0.0), theta, atol=1e-7 * B)


def test_a_reset_row_can_decide() -> None:
    """The grid with features that are negative only at a pit: the players' set excludes what would do elsewhere."""
    mdp = rf.make("grid-v0")
    pit = int(np.flatnonzero(mdp.reset)[0])
    xi = np.full((mdp.n_states, 2), [0.8, 0.0])
    xi[:, 1] = np.linspace(-0.6, 0.6, mdp.n_states)
    free = dual_class(mdp, xi)
    assert free.holds
    xi[pit] = -xi[int(free.detail["largest_at"])]  # whatever is positive there is negative here
    finding = dual_class(mdp, xi)
    assert finding.holds is False
    assert finding.detail["B"] is None
    assert not mdp.reset[finding.witness]


def test_a_reset_row_that_is_too_long_is_named() -> None:
    mdp = rf.make("grid-v0")
    pit = int(np.flatnonzero(mdp.reset)[0])
    xi = np.ones((mdp.n_states, 1))
    xi[pit] = 2.0
    finding = dual_class(mdp, xi)
    assert finding.holds is False
    assert finding.witness == pit


def test_a_multiplier_beyond_floats_is_not_bounded() -> None:
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = 1.0
    transition[0, 1] = [1.0, 1e-200, 0.0]
    transition[1, :] = [1.0, 0.0, 1e-200]
    for xi in (None, np.eye(3)):
        mdp = rf.FiniteMDP(transition, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [0, 0, 1], 2, xi=xi)
        finding = dual_class(mdp)
        assert finding.holds is None
        assert "exceeds what a float can hold" in finding.sentence
