"""The chances of a reset: tested on whole lives that were not learned from, corrected, and little by few falls."""

from __future__ import annotations

import numpy as np
import pytest

from resetfree.core.arrays import Bools, Floats
from resetfree.players.model_based.reset_classifier import ResetClassifier, fit_classifier
from resetfree.players.neural.network_search import (
    Calibration,
    Correction,
    calibrated_classifier,
    dealt,
    fit_correction,
)

SENSORS = 12


def chance(z: Floats) -> Floats:
    """How likely a state is a reset state, in truth: it depends on one sensor of many."""
    return np.asarray(1.0 / (1.0 + np.exp(5.0 - 1.5 * z[:, 0])))


def lives(n: int, seed: int) -> tuple[Floats, Bools]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, SENSORS))
    return z, rng.random(n) < chance(z)


def loss(x: Floats, dead: Bools) -> float:
    return float(np.logaddexp(0.0, np.where(dead, -x, x)).sum() / dead.sum())


def test_a_life_is_dealt_whole() -> None:
    dead = np.random.default_rng(0).random(300) < 0.1
    fold, begins = dealt(dead), np.append(True, dead[:-1])
    assert ((fold[1:] != fold[:-1]) == begins[1:]).all()
    assert set(fold) == {0, 1, 2, 3}


def test_a_known_correction_is_found() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(0.0, 3.0, 20_000)
    dead = rng.random(len(x)) < 1.0 / (1.0 + np.exp(1.0 - 0.5 * x))
    assert fit_correction(x, dead) == pytest.approx((-1.0, 0.5), abs=0.05)


def test_few_falls_correct_little() -> None:
    """The same share of falls, ten times as often: without what is expected before, both would correct alike."""
    x = np.full(100, -3.0)
    shifts = []
    for falls, times in ((1, 1), (10, 10)):
        dead = np.arange(100 * times) < falls * 30
        shifts.append(fit_correction(np.tile(x, times), dead))
    few, many = (one(np.array([-3.0]))[0] for one in shifts)
    wanted = np.log(0.3 / 0.7)
    assert -3.0 < few < many - 0.02 < wanted
    assert many == pytest.approx(wanted, abs=0.05)
    assert fit_correction(x, np.zeros(100, dtype=np.bool_)).shift > -1.5  # what never happened is not impossible
    assert fit_correction(np.zeros(0), np.zeros(0, dtype=np.bool_)) == Correction(0.0, 1.0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_judge_of_few_falls_is_sure_of_too_much_and_corrected(seed: int) -> None:
    z, dead = lives(1000, seed)
    classifier, tested = calibrated_classifier(z, dead, np.random.default_rng(0))
    assert tested is not None
    assert 10 <= tested.falls == dead.sum() <= 30
    assert tested.loss_after < tested.loss_before
    plain, (new, fell) = uncorrected(z, dead), lives(50_000, 100 + seed)
    assert loss(classifier.logit(new), fell) < loss(plain.logit(new), fell) - 0.05  # better on unseen trajectories
    slope = float(classifier.weight[1:] @ plain.weight[1:] / (plain.weight[1:] @ plain.weight[1:]))
    np.testing.assert_allclose(classifier.weight[1:], slope * plain.weight[1:], atol=1e-9)
    assert slope < 0.9
    predicted = float((1.0 / (1.0 + np.exp(-classifier.logit(new)))).mean())
    assert 0.5 < predicted / fell.mean() < 2.0
    assert 0.5 < tested.after / tested.falls < 2.0


def uncorrected(z: Floats, dead: Bools) -> ResetClassifier:
    lived, fell = z[~dead], z[dead]
    return fit_classifier(lived, fell).calibrated((len(lived), len(fell)), (len(lived), len(fell)))


def test_one_fall_is_no_test() -> None:
    z, dead = lives(50, 3)
    dead[:] = np.arange(50) == 20
    classifier, tested = calibrated_classifier(z, dead, np.random.default_rng(0))
    assert tested is None
    np.testing.assert_array_equal(classifier.weight, uncorrected(z, dead).weight)


def test_a_long_last_life_does_not_make_falls_rare_twice() -> None:
    """Short lives, then one that goes on: how often resets are met is counted once, in all of them."""
    (z, dead), (more, _) = lives(1500, 0), lives(20_000, 9)
    z, dead = np.concatenate([z, more]), np.append(dead, np.zeros(len(more), dtype=np.bool_))
    _, tested = calibrated_classifier(z, dead, np.random.default_rng(0))
    assert tested is not None
    assert tested.before < 3 * tested.falls
    assert 0.5 < tested.after / tested.falls < 2.0


def test_the_sentence_of_a_test() -> None:
    said = str(Calibration(5, 7.94, 5.41, 4.1, 3.62))
    assert said == (
        "the reset predictor expected 7.9 falls in trajectories that it had not seen, where 5 happened; "
        "corrected 5.4 (log loss a fall 4.10, now 3.62)"
    )
