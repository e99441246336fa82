"""Proved widths hold as often as they say, against the true model, and narrower ones do not.

Seeds are fixed. Were they drawn anew, the first test would fail with probability at most 1e-3 (`binom.sf` below) if the
theorem is right, and those of narrower widths by less on what was measured (`make bench-coverage`, hundreds of seeds).
"""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest
from benchmarks.coverage import ever_outside, interval_left, width_left
from numpy.typing import NDArray
from scipy.special import rel_entr
from scipy.stats import binom

import resetfree as rf
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.theory.certificates import OPTIMISM, certify
from resetfree.theory.proved_widths import CONCENTRATION, interval_width, noise_radius

Floats = NDArray[np.float64]
SEEDS, ALLOWED, P = 60, 8, 0.05
ROWS = np.array([[0.5, 0.5, 0.0], [0.9, 0.0, 0.1], [0.3, 0.3, 0.4], [0.01, 0.98, 0.01]])


def part_needed(seed: int, samples: int, log_term: float) -> float:
    """The largest kl(Phat(E), P(E)) / x_n over all sets and rows, after 1 .. samples draws of each row."""
    rng, n, needed = np.random.default_rng(seed), np.arange(1, samples + 1), 0.0
    x = (log_term + np.log(2 * np.sqrt(n))) / n
    for row in ROWS:
        drawn = rng.choice(len(row), size=samples, p=row)
        for inside in product((False, True), repeat=len(row) - 1):
            chosen = np.array([*inside, False])
            true, share = float(row[chosen].sum()), np.cumsum(chosen[drawn]) / n
            if 0 < true < 1:
                kl = rel_entr(share, true) + rel_entr(1 - share, 1 - true)
                needed = max(needed, float((kl / x).max()))
    return needed


@pytest.fixture(scope="module")
def parts() -> Floats:
    """[seeds] for the four cells of a problem of three outcomes."""
    problem = rf.make("ledge-v0", places=2, horizon=2).problem()
    assert problem.n_states is not None
    cells = problem.n_states * problem.n_actions
    log_term = interval_width(problem, True, P, 0.0).log_term - np.log(cells / len(ROWS))
    return np.array([part_needed(seed, 3000, log_term) for seed in range(SEEDS)])


def test_all_sets_are_in_their_intervals_as_often_as_the_width_says(parts: Floats) -> None:
    assert binom.sf(ALLOWED, SEEDS, CONCENTRATION * P) < 1e-3
    assert (parts > 1).sum() <= ALLOWED


def test_a_quarter_of_the_radii_is_too_little(parts: Floats) -> None:
    assert (parts > 0.25).sum() > SEEDS / 2


@pytest.mark.parametrize("q", [0.5, 0.2, 0.03])
@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_a_coin_leaves_its_interval_no_more_often_than_it_says(q: float, delta: float) -> None:
    """The probability itself, of all sequences of 500 tosses; and a smaller part of the radii is too little."""
    for left in (interval_left, width_left):
        assert 0 < ever_outside(q, 500, left(delta)) <= delta
    assert ever_outside(q, 500, interval_left(delta, 0.3)) > delta
    assert ever_outside(q, 500, width_left(delta, 0.05)) > delta


def test_the_recursion_counts_what_sampling_finds() -> None:
    tosses = np.random.default_rng(0).random((4000, 200)) < 0.3
    n = np.arange(1, 201)
    shares = np.cumsum(tosses, axis=1) / n
    kl = rel_entr(shares, 0.3) + rel_entr(1 - shares, 0.7)
    found = float((kl > (np.log(2) + np.log(2 * np.sqrt(n))) / n).any(axis=1).mean())
    assert ever_outside(0.3, 200, interval_left(0.5)) == pytest.approx(found, abs=4 * sqrt(0.25 / 4000))


def test_noise_stays_within_its_radius() -> None:
    """Coins of chance one half, which is the most that rewards in [0, 1] can be noisy."""
    width = interval_width(rf.make("ledge-v0").problem(), False, P, 0.5)
    single = width._replace(noise_log=float(np.log(2 / (CONCENTRATION * P))))  # one cell, half of p'
    radius = np.array([noise_radius(single, n) for n in range(1, 2001)])
    means = [
        np.cumsum(np.random.default_rng(seed).random(2000) < 0.5) / np.arange(1, 2001) - 0.5 for seed in range(SEEDS)
    ]
    assert sum(bool((np.abs(mean) > radius).any()) for mean in means) <= ALLOWED
    assert sum(bool((np.abs(mean) > sqrt(0.1) * radius).any()) for mean in means) > SEEDS / 2


def test_claims_of_runs_hold_as_often_as_they_say() -> None:
    """Every claim of `certify` on 20 short runs, with exact values: more than four fail once in 90 times at most."""
    assert binom.sf(4, 20, P + 0.02) < 1 / 90
    failed = 0
    for seed in range(20):
        primal = LinearUCB(width="proved", p=P)
        run = rf.learn("ledge-v0", primal, "projected-gradient", episodes=60, seed=seed, feedback="optimistic")
        found = certify(run)
        assert all(c.status == "proved" for c in found if c.claim in OPTIMISM)
        failed += any(c.refuted for c in found)
    assert failed <= 4
