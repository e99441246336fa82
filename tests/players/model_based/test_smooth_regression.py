"""Smooth functions from few examples, against the same formulas written out, and against what they must not do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from resetfree.players.model_based import smooth_regression as regression
from resetfree.players.model_based.smooth_regression import draw_functions, fit_scales, likelihood, scattered

Floats = NDArray[np.float64]
NO_DRAW = np.zeros(1, dtype=np.int64)


def examples(n: int, seed: int = 0) -> tuple[Floats, Floats]:
    """A function of three inputs: one output is curved in the first, the other linear in the second."""
    x = np.random.default_rng(seed).normal(size=(n, 3))
    return x, np.stack([np.sin(2.0 * x[:, 0]), 3.0 * x[:, 1] - 1.0], axis=1)


def parts(logs: Floats, x: Floats, n_outputs: int, *, edges: bool = False) -> list[tuple[Floats, float]]:
    """The smooth and linear covariance, and the noise, of every output."""
    d = x.shape[1]
    smooth, linear, noise = np.exp(2.0 * logs[d:].reshape(3, n_outputs))
    distance = (((x[:, None] - x[None]) / np.exp(logs[:d])) ** 2).sum(axis=2)
    far = np.sqrt(3.0 * distance)
    radial = (1.0 + far) * np.exp(-far) if edges else np.exp(-0.5 * distance)
    one = np.ones((len(x), 1))
    inputs = np.concatenate([one, x], axis=1)
    return [
        (smooth[o] * radial + linear[o] * inputs @ inputs.T, noise[o] + regression.LEAST_NOISE)
        for o in range(n_outputs)
    ]


@given(st.integers(0, 2**32 - 1), st.integers(5, 20), st.booleans())
def test_the_likelihood_and_its_gradient_are_those_of_the_whole_covariance(seed: int, n: int, edges: bool) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
    logs = np.concatenate([rng.uniform(0.0, 2.0, 3), rng.uniform(-1.0, 1.0, 4), rng.uniform(-3.0, -1.0, 2)])
    inputs = np.concatenate([np.ones((n, 1)), x], axis=1)
    squared = np.stack([(column[:, None] - column) ** 2 for column in x.T])
    value, gradient = likelihood(logs, inputs, y, squared, edges)
    plain = 0.1 * ((logs[:3] - regression.LENGTH) ** 2).sum() + 0.01 * (logs[-2:] ** 2).sum()
    for o, (covariance, noise) in enumerate(parts(logs, x, 2, edges=edges)):
        whole = covariance + noise * np.eye(n)
        plain += 0.5 * y[:, o] @ np.linalg.solve(whole, y[:, o]) + 0.5 * np.linalg.slogdet(whole)[1]
    assert value == pytest.approx(plain, rel=1e-8, abs=1e-8)
    ways = 1e-5 * np.eye(len(logs))
    values = [[likelihood(logs + side * w, inputs, y, squared, edges)[0] for side in (1.0, -1.0)] for w in ways]
    np.testing.assert_allclose(gradient, -np.diff(values)[:, 0] / 2e-5, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("edges", [False, True])
def test_the_mean_is_that_of_the_processes(edges: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many radial functions as examples, the solution in the basis is that of the whole covariance."""
    monkeypatch.setattr(regression, "RENEWALS", 0)
    x, y = examples(30)
    drawn = draw_functions(x, y, 1, np.random.default_rng(0), edges=edges)
    mean, deviation = y.mean(axis=0), y.std(axis=0)
    scales = fit_scales(x, (y - mean) / deviation, edges=edges)
    logs = np.concatenate([np.log(scales.length), 0.5 * np.log([*scales.smooth, *scales.linear]), np.full(2, -40.0)])
    new = np.random.default_rng(1).uniform(-1.0, 1.0, size=(10, 3))
    for o in range(2):
        whole, _ = parts(logs, np.concatenate([x, new]), 2, edges=edges)[o]
        inner = whole[:30, :30] + scales.noise[o] * np.eye(30)
        expected = mean[o] + whole[30:, :30] @ np.linalg.solve(inner, y[:, o] - mean[o])
        found = drawn.values(new, np.zeros(10, dtype=np.int64))[:, o]
        np.testing.assert_allclose(found, expected, atol=2e-3 * deviation[o])


def test_few_examples_are_enough_and_the_inputs_that_matter_are_found() -> None:
    x, y = examples(40)
    drawn = draw_functions(x, y, 1, np.random.default_rng(0))
    new, truth = examples(200, seed=1)
    inside = (np.abs(new) < 1.5).all(axis=1)
    gap = drawn.values(new, np.zeros(200, dtype=np.int64)) - truth
    assert np.abs(gap[inside]).max() < 0.1
    assert drawn.length[0] < 0.2 * drawn.length[[1, 2]].min()


def test_functions_with_edges_follow_a_tip() -> None:
    """A reward that falls with the distance to a set point, seen on the way to eight of them, among 20 inputs."""
    rng = np.random.default_rng(0)

    def seen(n_ways: int) -> tuple[Floats, Floats]:
        ways = rng.normal(size=(n_ways, 1, 2)) * 0.9 ** np.arange(40)[:, None]
        x = np.concatenate([ways.reshape(-1, 2), rng.normal(size=(40 * n_ways, 18))], axis=1)
        return x, np.maximum(0.0, 1.0 - np.hypot(x[:, :1], x[:, 1:2]) / 2.5)

    (x, y), (new, truth) = seen(8), seen(40)
    left = []
    for edges in (False, True):
        drawn = draw_functions(x, y, 1, np.random.default_rng(0), edges=edges)
        left.append(float(((drawn.values(new, np.zeros(len(new), dtype=np.int64)) - truth) ** 2).mean() / truth.var()))
    assert left[1] < 0.25 < 0.4 < left[0], left


def test_draws_agree_where_much_was_seen_and_differ_elsewhere() -> None:
    x, y = examples(60)
    drawn = draw_functions(x, y, 8, np.random.default_rng(0))
    spread = [
        np.std([drawn.values(where[None], np.array([b]))[0, 0] for b in range(8)]) for where in (x[0], np.full(3, 4.0))
    ]
    assert spread[0] < 0.02
    assert spread[1] > 10.0 * spread[0]


def test_a_jump_is_left_out_and_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blow in one example of sixty: the functions elsewhere are those without it, and are not if it is kept."""
    x, y = examples(60)
    struck = y.copy()
    struck[7] += 40.0
    new, truth = examples(200, seed=1)
    inside = (np.abs(new) < 1.5).all(axis=1)

    def miss() -> float:
        found = draw_functions(x, struck, 1, np.random.default_rng(0)).values(new, np.zeros(200, dtype=np.int64))
        return float(np.abs(found - truth)[inside].max())

    assert miss() < 0.1
    monkeypatch.setattr(regression, "JUMP", np.inf)
    assert miss() > 1.0


def test_what_an_example_misses_is_what_the_others_predict() -> None:
    x, y = examples(25)
    y = y + 0.1 * np.random.default_rng(5).normal(size=y.shape)
    fit = regression._fit(x, y, np.random.default_rng(0), edges=False)
    left = fit.left_open()
    for i in (0, 7, 24):
        rest = np.arange(25) != i
        without = fit._replace(basis=fit.basis[rest], unit=fit.unit[rest])
        gaps = [
            abs(fit.unit[i, o] - (fit.basis[i] * prior) @ best) for o, (prior, _, best) in enumerate(without.solved())
        ]
        assert left[i] == pytest.approx(max(gaps), rel=1e-6)


def test_noise_is_what_all_examples_leave_open_however_well_few_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales that know of no noise, as those of few examples with many inputs often are."""
    x, y = examples(500)
    y = y + 0.3 * np.random.default_rng(5).normal(size=y.shape)
    fitted = fit_scales(x[:100], y[:100])._replace(noise=np.full(2, 1e-5))
    monkeypatch.setattr(regression, "fit_scales", lambda *given, **how: fitted)
    drawn = draw_functions(x, y, 4, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.noise, 0.3, rtol=0.15)
    new, truth = examples(200, seed=1)
    inside = (np.abs(new) < 1.5).all(axis=1)

    def miss() -> float:
        found = draw_functions(x, y, 1, np.random.default_rng(0)).values(new, np.zeros(200, dtype=np.int64))
        return float(np.abs(found - truth)[inside].mean())

    renewed = miss()
    monkeypatch.setattr(regression, "RENEWALS", 0)
    assert renewed < 0.8 * miss()
    assert (draw_functions(x, y, 4, np.random.default_rng(0)).noise < 0.02).all()


def test_an_output_that_rests_has_no_say_in_the_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """The force of an end stop is 0 but for where it is met; how the rest moves does not depend on that place."""
    monkeypatch.setattr(regression, "JUMP", np.inf)
    x = np.random.default_rng(0).normal(size=(120, 3))
    y = np.stack([np.sin(x[:, 0]), np.sin(x[:, 1]), 5.0 * np.maximum(x[:, 2] - 0.8, 0.0)], axis=1)
    resting = draw_functions(x, y, 1, np.random.default_rng(0))
    assert resting.values(np.array([[0.0, 0.0, 2.0]]), NO_DRAW)[0, 2] > 1.0  # it is still learned
    monkeypatch.setattr(regression, "RESTING", -1.0)
    assert resting.length[2] > 10.0 * draw_functions(x, y, 1, np.random.default_rng(0)).length[2]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_hardly_any_examples_and_sensors_that_never_move(n: int) -> None:
    x = np.concatenate([np.random.default_rng(0).normal(size=(n, 1)), np.zeros((n, 2))], axis=1)
    drawn = draw_functions(x, np.zeros((n, 2)), 4, np.random.default_rng(0))
    assert np.isfinite(drawn.values(np.full((1, 3), 9.0), NO_DRAW)).all()


def test_rows_are_scattered_over_what_was_seen() -> None:
    """One row in a thousand is far from the others: any 20 miss most of them, scattered ones find all."""
    x = np.concatenate([np.zeros((4000, 2)), np.array([[9.0, 0.0], [0.0, 9.0], [-9.0, 0.0], [0.0, -9.0]])])
    chosen = scattered(x, 20, np.random.default_rng(0))
    assert {4000, 4001, 4002, 4003} <= set(chosen.tolist())
    assert len(chosen) == 20
    assert scattered(x[:5], 20, np.random.default_rng(0)).tolist() == [0, 1, 2, 3, 4]
