"""Lines across two sensors and rings around a place: found from few falls, never across what was lived in, in words."""

import numpy as np
import pytest
from numpy.typing import NDArray

from resetfree.players.model_based.reset_classifier import (
    SENSORS,
    Line,
    ResetClassifier,
    Ring,
    across_two,
    fit_classifier,
    walls,
)

Floats = NDArray[np.float64]


def uniform(n: int, size: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).uniform(-1.5, 1.5, size=(n, size))


def split(z: Floats, dead: NDArray[np.bool_], falls: int) -> tuple[Floats, Floats, Floats]:
    """What was lived in, the falls that are known and the others."""
    return z[~dead], z[dead][:falls], z[dead][falls:]


def classifiers(lived: Floats, fell: Floats) -> tuple[ResetClassifier, ResetClassifier]:
    """With lines and rings, and without."""
    squares = fit_classifier(lived, fell).weight, *walls(lived.min(axis=0), lived.max(axis=0), fell)
    return ResetClassifier(*squares, across_two(lived, fell)), ResetClassifier(*squares)


def test_three_falls_behind_a_line_show_it() -> None:
    z = uniform(3000, 8)
    lived, fell, new = split(z, z[:, 2] - z[:, 5] > 2.0, 3)
    (line,) = across_two(lived, fell)
    assert isinstance(line, Line)
    assert (line.sensors, line.coefficient, line.sign, line.falls) == ((2, 5), -1.0, 1.0, 3)
    assert line.lived < 2.0 / np.sqrt(2.0) < line.lived + line.gap
    with_it, without = classifiers(lived, fell)
    assert with_it.resets(new).mean() > 0.7 > 0.4 > without.resets(new).mean()
    assert with_it.resets(lived).mean() == without.resets(lived).mean()


def test_three_falls_around_a_place_show_it() -> None:
    z = uniform(6000, 6)
    lived, fell, new = split(z, np.hypot(z[:, 1] - 0.5, z[:, 3] + 0.4) < 0.4, 3)
    (ring,) = across_two(lived, fell)
    assert isinstance(ring, Ring)
    assert (ring.sensors, ring.falls) == ((1, 3), 3)
    with_it, without = classifiers(lived, fell)
    assert with_it.resets(new).mean() > 0.8 > 0.2 > without.resets(new).mean()
    many = across_two(*split(z, np.hypot(z[:, 1] - 0.5, z[:, 3] + 0.4) < 0.4, 30)[:2])[0]
    assert isinstance(many, Ring)
    assert np.hypot(many.place[0] - 0.5, many.place[1] + 0.4) < 0.1
    assert many.farthest < 0.45
    assert many.farthest + many.gap > 0.35


@pytest.mark.parametrize("seed", range(10))
def test_falls_without_a_reason_have_none(seed: int) -> None:
    """A ring is found with a chance of at most 1 %, so one of ten with at most 10 %; seeds are fixed."""
    z = uniform(2000, 5, seed)
    lived, fell, _ = split(z, np.random.default_rng(seed).random(len(z)) < 0.003, 6)
    assert len(fell) >= 2
    assert across_two(lived, fell) == ()


@pytest.mark.parametrize("seed", range(20))
def test_what_was_lived_in_is_never_behind(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4))
    fell = z[:5] + 0.5 * rng.normal(size=(5, 4))
    for one in across_two(z[5:], fell):
        assert one.behind(z[5:]).max() < 0.0
        assert (one.behind(fell) > 0.0).sum() >= one.falls >= 2


def test_the_slope_is_that_of_differences() -> None:
    across = (Line((0, 2), 0.5, -1.0, 0.3, 0.2, 2), Ring((1, 2), (0.2, 0.1), 0.4, 0.3, 3))
    classifier = ResetClassifier(
        0.3 * np.random.default_rng(1).normal(size=7), -np.full(3, 1.5), np.full(3, 1.5), across
    )
    z = uniform(200, 3)
    rises = [(classifier.logit(z + way) - classifier.logit(z - way)) / 2e-6 for way in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(classifier.gradient(z), np.stack(rises, axis=1), atol=1e-5)
    most = np.stack([one.behind(z) for one in across]).argmax(axis=0)
    assert set(most[classifier.resets(z)]) == {0, 1}


def test_one_fall_falls_at_ends_and_too_many_sensors_show_nothing() -> None:
    z = uniform(1000, 4)
    lived, fell, _ = split(z, z[:, 0] + z[:, 1] > 2.0, 3)
    assert across_two(lived, fell)
    assert across_two(lived, fell[:1]) == ()
    assert across_two(lived, fell + 9.0) == ()  # behind walls
    wide = np.hstack([lived, uniform(len(lived), SENSORS - 3)])
    assert across_two(wide, np.hstack([fell, np.zeros((3, SENSORS - 3))])) == ()
