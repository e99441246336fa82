"""The test by which a learned policy takes over from a controller, and gives back.

In a trial a coin decides before each episode who acts: the learned policy with a probability p that is known. So
whatever changes with time (set points, wear, where the last episode ended) favours neither. With v the value of an
episode, (reward - lam per reset) per step, cut to [0, 1], and c the mean value of the controller's episodes before,

    x = (v - c) / p  if the learned policy acts,  -(v - c) / (1 - p)  if the controller does

has the mean E[v of the learned policy] - E[v of the controller], from the same state. The learned policy takes over
once

    sum_b share_b prod_t (1 + b m_t x_t) >= 1 / error,  m = min(p / c, (1 - p) / (1 - c)),

a bet on each episode (Waudby-Smith and Ramdas 2024). While learned policies are no better on average, x has no positive
mean, whatever the distribution of values and whichever policies are tried. So the sum is a supermartingale, and by
Ville's inequality it ever gets so large with a probability of at most `error`. With p near c what is better by g needs
about 5 / g episodes: no test needs many fewer that must tell it from what loses everything in one episode of 1 / g.

That it is *worse* only delays the learned policy, so a faster test suffices, of the mean of n values of x:

    mean(x) < -r_n,  r_n = sd(x) sqrt(2 (n rho + 1) log(sqrt(n rho + 1) / error) / (n^2 rho)),

an asymptotic confidence sequence (Waudby-Smith et al. 2024). The j-th test has the error error / (j (j + 1)), so that
all of them together have `error`. Before any test, a trial pauses after an episode in which the learned policy earned
less than the controller ever did. What an episode leaves to the next is not compared: it should be short beside one.

Legend: lam the price of a reset.
"""

from dataclasses import dataclass, field
from enum import Enum
from math import inf, log, sqrt

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.state import require

ERROR = 0.05  # with which the learned policy takes over, or gives back, wrongly
EVEN, MOST, CHARGE = 0.5, 0.8, 0.9  # p at first, p at most while it wins, and p once the learned policy is in charge
BETS, SHARES = np.array([0.95, 0.5, 0.2]), np.array([0.6, 0.2, 0.2])  # parts of what it may bet each time
LEAST = 20  # episodes before which nothing is decided to be worse: fewer are too few where values are skewed
RHO = 0.1  # where that test is sharpest: at about thirty episodes
MIDDLE = 0.05  # c lies so far from 0 and 1


class Verdict(Enum):
    """What an episode has shown."""

    BETTER = 1
    WORSE = 2
    POOR = 3  # it earned less than the controller ever did
    OPEN = 4


def radius(n: int, variance: float, error: float) -> float:
    """How far a mean of n values may lie from the truth at any n, with the probability 1 - error.

    >>> round(radius(30, 1.0, 0.05), 2), radius(1, 0.0, 0.05)
    (0.57, inf)
    """
    if n < LEAST:
        return inf
    scale = n * RHO + 1.0
    return sqrt(variance * 2.0 * scale * log(sqrt(scale) / error) / (n * n * RHO))


@dataclass
class Comparison:
    """Whose turn it is, and what all episodes of a test have shown."""

    seed: int = field(metadata={"saved": False})
    tests: int = 1  # begun so far
    trying: bool = False  # whether it is the learned policy's turn
    share: float = EVEN  # p of this episode
    in_charge: bool = False  # whether the learned policy was better by the test
    wealth: Floats = field(default_factory=SHARES.copy)  # of each bet
    n: int = 0  # episodes of this test
    mean: float = 0.0  # of x
    squares: float = 0.0  # sum of squared deviations
    lowest: float = 1.0  # value of any episode of the controller without a reset
    usual: Floats = field(default_factory=lambda: np.zeros(2))  # number of these, and the sum of their values
    centre: float = EVEN  # c of this episode

    def check_loaded(self) -> None:
        """Raise InvalidInput for what is no probability."""
        require(self.tests > 0 and 0.0 < self.share < 1.0 and 0.0 < self.centre < 1.0, "test must be one")

    @property
    def error(self) -> float:
        """Of this test."""
        return ERROR / (self.tests * (self.tests + 1))

    @property
    def is_better(self) -> bool:
        """Whether the learned policy takes over."""
        return not self.in_charge and bool(self.wealth.sum() >= 1.0 / self.error)

    @property
    def is_worse(self) -> bool:
        """Whether the mean of x is certain to be negative."""
        return -self.mean > radius(self.n, self.squares / max(self.n - 1, 1), self.error)

    def begin_test(self, k: int, *, in_charge: bool = False) -> None:
        """A fresh test from round k on."""
        self.tests, self.n, self.mean, self.squares, self.in_charge = self.tests + 1, 0, 0.0, 0.0, in_charge
        self.wealth = SHARES.copy()
        self.toss(k)

    def toss(self, k: int) -> None:
        """Decide who acts after round k."""
        known, total = self.usual.tolist()
        self.centre = min(max(total / max(known, 1.0), MIDDLE), 1.0 - MIDDLE)
        winning = min(max(self.centre, EVEN), MOST) if self.wealth.sum() > 1.0 else EVEN
        self.share = CHARGE if self.in_charge else winning
        self.trying = bool(np.random.default_rng([self.seed, k, 5]).random() < self.share)

    def see(self, value: float) -> None:
        """Any episode of the controller without a reset."""
        self.lowest = min(self.lowest, value)
        self.usual = self.usual + np.array([1.0, value])

    def add(self, value: float, k: int) -> Verdict:
        """Take in an episode of whose turn it was, and toss for the one after round k."""
        is_poor, p, c = self.trying and value < self.lowest, self.share, self.centre
        x = (value - c) / p if self.trying else -(value - c) / (1.0 - p)
        if not self.in_charge:
            self.wealth = self.wealth * (1.0 + BETS * min(p / c, (1.0 - p) / (1.0 - c)) * x)
        self.n += 1
        step = x - self.mean
        self.mean += step / self.n
        self.squares += step * (x - self.mean)
        self.toss(k)
        found = Verdict.POOR if is_poor else Verdict.OPEN
        return Verdict.BETTER if self.is_better else Verdict.WORSE if self.is_worse else found
