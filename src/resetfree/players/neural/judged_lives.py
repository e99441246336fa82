"""A reset judge of a whole run whose chances are tested, and corrected, on lives that it has not learned from.

A judge of few falls is sure of too much: its chances are right about the falls it learned from. So lives are dealt to a
few folds, whole, since the steps of one life resemble each other. The states of each fold are judged by a judge of the
others, and what it says, as log odds x, is corrected to  shift + slope x,  the most probable pair given what happened
there, with shift ~ N(0, 1) and slope ~ N(1, 1/4) before: few falls correct little. How often resets are met at all is
counted in all lives, not in those of the others: the last life is often longer than all before it.

Legend: z [n, D] scaled states in the order of visit, dead [n] which are reset states; a life ends with one of these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from resetfree.players.model_based.machine_model import FELL, JUDGED
from resetfree.players.model_based.reset_judge import LARGEST, ResetJudge, fit_judge
from resetfree.problems.finite.transitions import Bools, Floats

FOLDS = 4
LEAST_FALLS = 2  # with one, no judge of other lives has seen any
SLOPES = (0.1, 2.0)  # least and most
SHIFTS, SLOPED = 1.0, 0.5  # deviations of what is expected before


class Correction(NamedTuple):
    """What log odds x become: shift + slope x."""

    shift: float = 0.0
    slope: float = 1.0

    def __call__(self, x: Floats) -> Floats:
        """[n] the corrected log odds."""
        return self.shift + self.slope * x


class Calibration(NamedTuple):
    """How chances of a reset agree with what happened, on lives that the judge did not learn from."""

    falls: int
    before: float  # falls that were predicted: the sum of all chances
    after: float  # the same with the correction, whose two numbers were fitted to these lives
    loss_before: float  # - log of the chance given to what happened, per fall
    loss_after: float

    def __str__(self) -> str:
        """One sentence, for the record."""
        tested = f"the reset predictor expected {self.before:.1f} falls in lives that it had not learned from, where "
        tested += f"{self.falls} happened; corrected {self.after:.1f} "
        return tested + f"(log loss a fall {self.loss_before:.2f}, now {self.loss_after:.2f})"


def dealt(dead: Bools) -> NDArray[np.int64]:
    """[n] the fold of each state: that of its life, one life after the other.

    >>> dealt(np.array([False, True, False, False, True, False])).tolist()
    [0, 0, 1, 1, 1, 2]
    """
    return np.asarray(np.concatenate([[0], np.cumsum(dead)[:-1]]) % FOLDS, dtype=np.int64)


def fit_correction(x: Floats, dead: Bools) -> Correction:
    """The most probable correction of log odds x [n], given which of these were reset states."""
    start = np.array([Correction().shift, Correction().slope])
    widths = np.array([SHIFTS, SLOPED])

    def loss(pair: Floats) -> tuple[float, Floats]:
        y = pair[0] + pair[1] * x
        wrong = 1.0 / (1.0 + np.exp(-y)) - dead
        away = (pair - start) / widths
        value = float(_surprise(y, dead) + 0.5 * (away**2).sum())
        return value, np.array([wrong.sum(), wrong @ x]) + away / widths

    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-LARGEST, LARGEST), SLOPES]).x
    return Correction(float(found[0]), float(found[1]))


def judge_lives(z: Floats, dead: Bools, rng: np.random.Generator) -> tuple[ResetJudge, Calibration | None]:
    """The judge of all lives, as log odds, and how it was tested; None and no correction while falls are too few."""
    judge, falls = _judge(z, dead, np.ones(len(z), dtype=np.bool_), rng), int(dead.sum())
    if falls < LEAST_FALLS:
        return judge, None
    fold, x = dealt(dead), np.zeros(len(z))
    for one in range(FOLDS):
        here = fold == one
        if here.any() and not here.all():
            x[here] = np.clip(_judge(z, dead, ~here, rng).logit(z[here]), -LARGEST, LARGEST)
    correction = fit_correction(x, dead)
    both = x, correction(x)
    sums = (float((1.0 / (1.0 + np.exp(-one))).sum()) for one in both)
    losses = (_surprise(one, dead) / falls for one in both)
    return judge.corrected(*correction), Calibration(falls, *sums, *losses)


def _judge(z: Floats, dead: Bools, some: Bools, rng: np.random.Generator) -> ResetJudge:
    """The judge of some of the states, as log odds that suit how often resets were met in all of them."""
    lived, fell = np.flatnonzero(some & ~dead), np.flatnonzero(some & dead)[-FELL:]
    if len(lived) > JUDGED:
        lived = rng.choice(lived, JUDGED, replace=False)
    met = int((~dead).sum()), int(dead.sum())
    return fit_judge(z[lived], z[fell]).calibrated((len(lived), len(fell)), met)


def _surprise(y: Floats, dead: Bools) -> float:
    """- log of the chances that log odds y [n] give to what happened, summed."""
    return float(np.logaddexp(0.0, np.where(dead, -y, y)).sum())
