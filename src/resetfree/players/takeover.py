"""The test by which a learned policy takes over from a controller, and gives back.

In a trial a coin decides before each episode who acts: the learned policy with a probability p that is known. So
whatever changes with time (set points, wear, where the last episode ended) favours neither. With v the value of an
episode, (reward - lam per reset) per step, cut to [0, 1], and c what the episodes before predict of it from the state
that it begins in (`expected`),

    x = (v - c) / p  if the learned policy acts,  -(v - c) / (1 - p)  if the controller does

has the mean E[v of the learned policy] - E[v of the controller], from the same state. c only takes noise out of x: it
is known before the episode, so that no prediction, however wrong, favours one of them. The learned policy takes over
once

    sum_b share_b prod_t (1 + b m_t x_t) >= 1 / error,  m = min(p / c, (1 - p) / (1 - c)),

a bet on each episode (Waudby-Smith and Ramdas 2024). While learned policies are no better on average, x has no positive
mean, whatever the distribution of values and whichever policies are tried. So the sum is a supermartingale, and by
Ville's inequality it ever gets so large with a probability of at most `error`. With p near c what is better by g needs
about 5 / g episodes: no test needs many fewer that must tell it from what loses everything in one episode of 1 / g.
Where set points move within episodes, values differ by more than policies do, and it takes many more.

Before the test has decided, p is about the probability that the learned policy is the better one, from both means of
v - c and from what the learner predicts: a better one acts more and more, a worse one less and less.

That it is *worse* only delays the learned policy, so a faster test suffices, of the mean of n values of x:

    mean(x) < -r_n,  r_n = sd(x) sqrt(2 (n rho + 1) log(sqrt(n rho + 1) / error) / (n^2 rho)),

an asymptotic confidence sequence (Waudby-Smith et al. 2024). The j-th test has the error error / (j (j + 1)), so that
all of them together have `error`. Before any test, a trial pauses after an episode in which the learned policy earned
less than the controller ever did. What an episode leaves to the next is not compared: it should be short beside one.

Legend: lam the price of a reset.
"""

from dataclasses import dataclass, field
from enum import Enum
from math import erf, inf, log, sqrt

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.state import require

ERROR = 0.05  # with which the learned policy takes over, or gives back, wrongly
EVEN, MOST, CHARGE = 0.5, 0.9, 0.9  # p if nothing is known, p and 1 - p at most, and p once it is in charge
BETS, SHARES = np.array([0.95, 0.4, 0.12]), np.array([0.5, 0.3, 0.2])  # parts of what it may bet each time
LEAST = 20  # episodes before which nothing is decided to be worse: fewer are too few where values are skewed
RHO = 0.1  # where that test is sharpest: at about thirty episodes
MIDDLE = 0.05  # c lies so far from 0 and 1
LATEST = 200  # episodes from which values are predicted
RIDGE, CLIPPED = 0.3, 4.0  # of that regression: its noise, and deviations from the mean at most
DOUBTED, DOUBT = 0.5, 0.02  # part of a predicted gain that is expected, and the least doubt about it
LARGEST = 0.1  # most of it: a model that promises more is not believed


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


def expected(starts: Floats, values: Floats, start: Floats) -> float:
    """The value of an episode from `start` [D], from those of n others by a Gaussian process: nearly a mean for few.

    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> [round(expected(x, 1.0 - abs(x[:, 0]), np.array([at])), 1) for at in (0.0, 0.5)]
    [1.0, 0.5]
    """
    if not len(values) or (starts == start).all():
        return float(values.mean()) if len(values) else EVEN
    mean, centre, scale = float(values.mean()), starts.mean(axis=0), starts.std(axis=0) + 1e-9
    z, here = (np.clip((one - centre) / scale, -CLIPPED, CLIPPED) for one in (starts, start[None]))
    weight = np.linalg.solve(_alike(z, z) + RIDGE * np.eye(len(z)), values - mean)
    return mean + float(_alike(here, z)[0] @ weight)


def _alike(z: Floats, other: Floats) -> Floats:
    """[n, m] covariances of values: of a linear part in z and |z|, and of a smooth one with edges."""
    size = max(z.shape[1], 1)
    away = np.sqrt(((z[:, None] - other) ** 2).sum(axis=2) * 3.0 / (4.0 * size))
    return np.asarray((1.0 + away) * np.exp(-away) + (z @ other.T + np.abs(z) @ np.abs(other).T) / size)


@dataclass
class Comparison:
    """Whose turn it is, and what all episodes of a test have shown."""

    seed: int = field(metadata={"saved": False})
    size: int = field(default=1, metadata={"saved": False})  # D
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
    gain: float = field(default=0.0, metadata={"least": None, "later": True})  # of v, as the learner predicts it
    sums: Floats = field(default_factory=lambda: np.zeros((2, 3)), metadata={"later": True})  # by actor: see `add`
    starts: Floats = field(init=False, metadata={"grows": (0,), "later": True})  # [n, D] of the latest episodes
    values: Floats = field(default_factory=lambda: np.zeros(0), metadata={"grows": (0,), "later": True})  # [n] of them

    def __post_init__(self) -> None:
        self.starts = np.zeros((0, self.size))

    def check_loaded(self) -> None:
        """Raise InvalidInput for what is no probability."""
        require(self.tests > 0 and 0.0 < self.share < 1.0, "test must be one")
        require(len(self.starts) == len(self.values), "each start must have a value")

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
        self.wealth, self.sums = SHARES.copy(), np.zeros((2, 3))
        self.toss(k)

    def toss(self, k: int) -> None:
        """Decide who acts after round k."""
        known, total = self.usual.tolist()
        most = min(max(total / max(known, 1.0), EVEN), MOST)
        self.share = CHARGE if self.in_charge else min(max(self.promise(), 1.0 - MOST), most)
        self.trying = bool(np.random.default_rng([self.seed, k, 5]).random() < self.share)

    def promise(self) -> float:
        """The probability that the learned policy is better, from what was predicted and from both means of v - c."""
        n, total, squares = self.sums.T
        likely = DOUBTED * min(max(self.gain, -LARGEST), LARGEST)
        precision, weighted = 1.0 / (abs(likely) + DOUBT) ** 2, likely / (abs(likely) + DOUBT) ** 2
        if n.min() > 0.0:
            variance = (squares.sum() + DOUBT) / n.sum()
            seen = 1.0 / (variance * (1.0 / n).sum())
            precision, weighted = precision + seen, weighted + seen * float(total[1] / n[1] - total[0] / n[0])
        return 0.5 * (1.0 + erf(weighted / sqrt(2.0 * precision)))

    def see(self, start: Floats, value: float, *, controller: bool) -> None:
        """Any episode; `controller`: one of the controller without a reset."""
        self.starts = np.concatenate([self.starts, start[None]])[-LATEST:]
        self.values = np.append(self.values, value)[-LATEST:]
        if controller:
            self.lowest = min(self.lowest, value)
            self.usual = self.usual + np.array([1.0, value])

    def add(self, start: Floats, value: float, k: int) -> Verdict:
        """Take in an episode of whose turn it was, before `see` does, and toss for the one after round k."""
        is_poor, p = self.trying and value < self.lowest, self.share
        c = min(max(expected(self.starts, self.values, start), MIDDLE), 1.0 - MIDDLE)
        x = (value - c) / p if self.trying else -(value - c) / (1.0 - p)
        if not self.in_charge:
            self.wealth = self.wealth * (1.0 + BETS * min(p / c, (1.0 - p) / (1.0 - c)) * x)
        self.sums[int(self.trying)] += (1.0, value - c, (value - c) ** 2)
        self.n += 1
        step = x - self.mean
        self.mean += step / self.n
        self.squares += step * (x - self.mean)
        self.toss(k)
        found = Verdict.POOR if is_poor else Verdict.OPEN
        return Verdict.BETTER if self.is_better else Verdict.WORSE if self.is_worse else found
