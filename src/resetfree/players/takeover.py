"""When a learned policy takes over from a controller and gives back, by a test, and in which states it may act.

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

**Where it may act**: among the states that were safe so far, and a little beyond.
Counted states are those that were seen. States that are vectors lie in a box, and in the ellipsoid with the shape of
the cloud of safe states: a box alone has corners in which no state ever was, and from which no controller recovers.

Legend: lam the price of a reset; D numbers in a state; C [D, D] the covariance of safe states, m their mean; |s - m|_C
the Mahalanobis distance.
"""

from dataclasses import dataclass, field
from enum import Enum
from math import erf, inf, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Floats, require
from resetfree.problems import Problem, State

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


MARGIN = 0.1  # share of its size by which a learned policy may leave the region of the states that were safe
UNSAFE = 20  # steps before a reset whose states do not count as safe
ROUND = 1e-4  # of each number's variance: what keeps C invertible where numbers depend on each other
TINY = 1e-12


@dataclass
class SafeStates:
    """What is known of the states that were safe."""

    ends: NDArray[Any]  # bool [S], or a box [2, D]
    known: int = 0  # so many
    mean: Floats = field(default_factory=lambda: np.zeros(0))  # [D]
    squares: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # [D, D] sum of products of deviations
    farthest: float = 0.0  # the largest distance |s - m|_C of them

    @classmethod
    def none(cls, problem: Problem) -> "SafeStates":
        """Before any was seen."""
        n, d = problem.n_states, 0 if problem.low is None else len(problem.low)
        ends = np.zeros((2, d)) if n is None else np.zeros(n, dtype=np.bool_)
        return cls(ends, mean=np.zeros(d), squares=np.zeros((d, d)))

    def check_loaded(self) -> None:
        """Raise InvalidInput for what is no covariance."""
        require((np.diag(self.squares) >= 0.0).all() and self.farthest >= 0.0, "safe states must have a covariance")

    def see(self, states: NDArray[Any], *, reset: bool) -> None:
        """Take the states of an episode for safe, but those shortly before a reset."""
        safe = states[: max(len(states) - UNSAFE, 1)] if reset else states
        if self.ends.dtype == np.bool_:
            self.ends[safe] = True
        elif self.ends.shape[1]:
            ends = np.array([safe.min(axis=0), safe.max(axis=0)], dtype=np.float64)
            if self.known:
                ends = np.array([np.minimum(ends[0], self.ends[0]), np.maximum(ends[1], self.ends[1])])
            self.ends = ends
            self._add(np.asarray(safe, dtype=np.float64))
        self.known += len(safe)

    def _add(self, safe: Floats) -> None:
        n, total = len(safe), self.known + len(safe)
        mean = safe.mean(axis=0)
        apart, away = mean - self.mean, safe - mean
        self.squares = self.squares + away.T @ away + np.outer(apart, apart) * (self.known * n / total)
        self.mean = self.mean + apart * (n / total)
        distances = np.linalg.norm((safe - self.mean) @ self._whitening(total).T, axis=1)
        self.farthest = max(self.farthest, float(distances.max()))

    def _whitening(self, n: int) -> Floats:
        """[D, D] W with |W (s - m)| = |s - m|_C."""
        c = self.squares / max(n, 1)
        inner = c + np.diag(ROUND * np.diag(c) + TINY)
        return np.asarray(np.linalg.inv(np.linalg.cholesky(inner)))

    def allowed(self) -> NDArray[Any]:
        """Where a learned policy may act: bool [S], or [3 + D, D] the ends of a box, m, and W / (how far it may go)."""
        if self.ends.dtype == np.bool_:
            return self.ends.copy()
        wider = MARGIN * (self.ends[1] - self.ends[0])
        box = np.array([self.ends[0] - wider, self.ends[1] + wider, self.mean])
        reach = (1.0 + MARGIN) * max(self.farthest, TINY)
        return np.concatenate([box, self._whitening(self.known) / reach])


def within_region(region: NDArray[Any], s: State) -> bool:
    """Whether a state lies in what `allowed` gave; all do in one without axes.

    >>> safe = SafeStates(np.zeros((2, 2)), mean=np.zeros(2), squares=np.zeros((2, 2)))
    >>> safe.see(np.array([[-1.0, -1.0], [-0.5, -0.5], [0.5, 0.5], [1.0, 1.0]]), reset=False)
    >>> [within_region(safe.allowed(), np.array(s)) for s in ([1.0, 1.0], [1.05, 1.05], [1.2, 1.2], [1.0, -1.0])]
    [True, True, False, False]
    """
    if region.dtype == np.bool_:
        return bool(region[s])
    if not region.shape[1]:
        return True
    low, high, mean, whitening = region[0], region[1], region[2], region[3:]
    inside = bool((low <= s).all() and (s <= high).all())
    return inside and float(np.linalg.norm(whitening @ (s - mean))) <= 1.0
