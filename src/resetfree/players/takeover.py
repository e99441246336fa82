"""The test by which a learned policy takes over from a controller, and gives back.

In a trial, episodes of both come in pairs; a coin decides which of the two is first, so that whatever else changes with
time (set points, wear) favours neither. The value of an episode is (reward - lam per reset) per step, cut to [0, 1].
With d_i the value of the i-th episode of the learned policy less that of the i-th of the controller, it takes over once

    sum_b share_b prod_{i <= n} (1 + b d_i) >= 1 / error,

a bet on each pair (Waudby-Smith and Ramdas 2024). While learned policies are no better on average, d_i has no positive
mean, whatever its distribution and whichever policies are tried. So the sum is a supermartingale, and by Ville's
inequality it ever gets so large with a probability of at most `error`. What is better by g needs about 5 / g pairs: no
test needs many fewer that must tell it from what loses everything in one episode of 1 / g. (A coin for each block of
several episodes would need as many blocks: the differences within one are not independent.)

That it is *worse* only delays the learned policy, so a faster test suffices, of the mean D of n differences:

    mean(D) < -r_n,  r_n = sd(D) sqrt(2 (n rho + 1) log(sqrt(n rho + 1) / error) / (n^2 rho)),

an asymptotic confidence sequence (Waudby-Smith et al. 2024). Once the learned policy is in charge, D are differences
between the means of blocks of both. The j-th test has the error error / (j (j + 1)), so that all of them together have
`error`. Before any test, a trial pauses after an episode in which the learned policy earned less than the controller
ever did.

Legend: lam the price of a reset.
"""

from dataclasses import dataclass, field
from enum import Enum
from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.state import require

ERROR = 0.05  # with which the learned policy takes over, or gives back, wrongly
PROBE, CHARGE = 2, 20  # episodes of the controller and of the learned policy, once that is in charge
BETS, SHARES = np.array([0.95, 0.5, 0.2]), np.array([0.6, 0.2, 0.2])  # parts of what it has that it bets each time
LEAST_PAIRS = 10  # before which nothing is decided to be worse: fewer are too few where differences are skewed
RHO = 0.3  # where that test is sharpest: at about ten pairs
FEW_PAIRS = 5  # after which a trial may end: a learned policy that is wrongly held back costs no more than time


class Verdict(Enum):
    """What a pair has shown."""

    BETTER = 1
    WORSE = 2
    POOR = 3  # an episode earned less than the controller ever did
    OPEN = 4


def radius(n: int, variance: float, error: float, least: int = LEAST_PAIRS) -> float:
    """How far a mean of n differences may lie from the truth at any n, with the probability 1 - error.

    >>> round(radius(10, 1.0, 0.05), 2), radius(1, 0.0, 0.05)
    (0.99, inf)
    """
    if n < least:
        return inf
    scale = n * RHO + 1.0
    return sqrt(variance * 2.0 * scale * log(sqrt(scale) / error) / (n * n * RHO))


@dataclass
class Comparison:
    """Whose turn it is, what both have earned in this pair, and what all pairs of a test have shown."""

    seed: int = field(metadata={"saved": False})
    tests: int = 1  # begun so far
    trying: bool = False  # whether it is the learned policy's turn
    in_charge: bool = False  # whether the learned policy was better by the test
    wealth: Floats = field(default_factory=SHARES.copy)  # of each bet
    pairs: int = 0
    mean: float = 0.0  # of the differences
    squares: float = 0.0  # sum of their squared deviations
    poor: bool = False  # whether the learned policy earned less in this pair than the controller ever did
    lowest: float = 1.0  # value of any episode of the controller without a reset
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, np.int64))  # by actor: episodes of this pair
    sums: Floats = field(default_factory=lambda: np.zeros(2))  # of their values

    def check_loaded(self) -> None:
        """Raise InvalidInput for blocks that are too long."""
        require((self.counts <= CHARGE).all() and self.tests > 0, "blocks must be those of a test")

    @property
    def error(self) -> float:
        """Of this test."""
        return ERROR / (self.tests * (self.tests + 1))

    @property
    def is_better(self) -> bool:
        """Whether the learned policy takes over.

        >>> found = Comparison(seed=0)
        >>> for n in range(120):
        ...     found.bet(0.04)
        ...     if n in (99, 119):
        ...         print(found.is_better)
        False
        True
        """
        return not self.in_charge and bool(self.wealth.sum() >= 1.0 / self.error)

    @property
    def is_worse(self) -> bool:
        """Whether the mean difference is certain to be negative."""
        least = LEAST_PAIRS if self.in_charge else FEW_PAIRS
        return -self.mean > radius(self.pairs, self.squares / max(self.pairs - 1, 1), self.error, least)

    def begin_test(self, k: int, *, in_charge: bool = False) -> None:
        """A fresh test from round k on."""
        self.tests, self.pairs, self.mean, self.squares, self.in_charge = self.tests + 1, 0, 0.0, 0.0, in_charge
        self.wealth = SHARES.copy()
        self.begin_pair(k)

    def begin_pair(self, k: int) -> None:
        """A fresh pair of blocks; a coin decides who is first."""
        self.trying = bool(np.random.default_rng([self.seed, k, 5]).integers(2))
        self.counts, self.sums, self.poor = np.zeros(2, np.int64), np.zeros(2), False

    def bet(self, difference: float) -> None:
        """Bet on a pair of episodes."""
        self.wealth = self.wealth * (1.0 + BETS * difference)

    def refuse(self, k: int) -> bool:
        """The learned policy does not act although it is its turn; returns whether the pair is given up.

        What it has earned in this pair stays: to leave it out because danger is predicted later could favour it.
        """
        if self.counts[1]:
            self.trying = False
            return False
        self.begin_pair(k)
        return True

    def add(self, value: float, k: int) -> Verdict:
        """Take in an episode of whose turn it is, and what the pair has shown if it is complete after round k."""
        actor = int(self.trying)
        self.counts[actor] += 1
        self.sums[actor] += value
        self.poor = self.poor or (self.trying and value < self.lowest)
        size = (PROBE, CHARGE)[actor] if self.in_charge else 1
        if self.counts[actor] < size and not self.poor:
            return Verdict.OPEN
        if not self.counts[1 - actor]:
            self.trying = not self.trying
            return Verdict.OPEN
        return self._complete(k)

    def _complete(self, k: int) -> Verdict:
        """Take in the difference of a pair."""
        controller, learned = (self.sums / self.counts).tolist()
        if not self.in_charge:
            self.bet(learned - controller)
        self.pairs += 1
        step = learned - controller - self.mean
        self.mean += step / self.pairs
        self.squares += step * (learned - controller - self.mean)
        found = Verdict.POOR if self.poor else Verdict.OPEN
        found = Verdict.BETTER if self.is_better else Verdict.WORSE if self.is_worse else found
        self.begin_pair(k)
        return found
