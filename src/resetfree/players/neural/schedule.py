"""How boldly a learner with networks acts: what it strives for follows from what was earned and how often it fell.

Rewards have no scale of their own: they are measured in their range in the first steps (`unit`), from their median then
(`base`). While nothing has ever fallen, disagreement of the ensemble is sought. From the first fall on, the weight of
rewards beside falls grows from 0 with the steps, and rewards beyond a cap count less. A learner that neither falls
nor earns more becomes bolder, and one that falls again more careful: `boldness` is a factor of the weight, and its root
one of the planner's deviation and the inverse of the pessimism.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.game.replay_buffer import ReplayBuffer
from resetfree.players.neural.actor_critic import Objective
from resetfree.players.neural.networks import FAR

RANGE = (0.025, 0.975)  # quantiles of rewards, whose distance is their range
LEAST_UNIT = 1e-6
TIMID, BOLD = 1.0, 4.0  # least and largest boldness
GROWTH, WIDEST = 100, 6.0  # steps in which the first actions grow, and by which factor
FIRST, ROUNDS = 400, 4  # rows that the first ones count for in each round of the first learning
OFTEN, EARLY = 4, 2000  # how often to learn, up to which row since learning began
SMOOTH = 0.7  # correlation of successive noise
ROLLOUT_NOISE = 0.1  # of actions in rollouts


class LearningProgress(NamedTuple):
    """What is kept of the past."""

    base: float = 0.0
    unit: float = 0.0  # 0: not known yet
    boldness: float = 1.0
    best: float = 0.0  # mean reward of `patience` steps without a fall
    first_fall: int = 0  # rows up to it; 0: none


@dataclass(frozen=True)
class Schedule:
    """How an aim follows from the past; all found by trying."""

    begin: int = 200  # steps of smooth noise before anything is learned
    gentle: float = 0.15  # deviation of that noise; while nothing falls, it grows
    ramp: int = 3000  # steps from the first fall in which the weight of rewards grows to 1
    cap: float = 1.3  # ranges above the first rewards, from which on more counts less
    settled: int = 2000  # steps from which on the units of rewards stay
    pessimism: float = 1.0
    optimism: float = 0.5  # while nothing has fallen
    price: float = 1.0  # factor of the multiplier
    spread: float = 0.3
    noise: float = 0.05  # of actions that are played
    wide_noise: float = 0.1  # while nothing has fallen
    patience: int = 1000  # steps without a fall and without more reward, until it becomes bolder
    doubling: int = 6000  # further steps in which boldness doubles
    shrink: float = 0.9  # its factor for each fall
    flat: float = 0.02  # of the range: rewards that rise by less count as flat

    def played_noise(self, now: LearningProgress) -> float:
        """The deviation of noise in actions that are played."""
        return self.noise if now.first_fall else self.wide_noise


def progressed(
    was: LearningProgress, rows: ReplayBuffer, before: int, schedule: Schedule, *, refit: bool
) -> LearningProgress:
    """The progress after the rows from `before` on.  refit: whether the units of rewards are found anew."""
    n, falls = rows.n, np.flatnonzero(rows.terminated[: rows.n])
    rewards = rows.reward[:n][rows.taken(n)]
    if not len(rewards):
        return was
    if (refit and before < schedule.settled) or not was.unit:
        low, high = np.quantile(rewards, RANGE)
        was = was._replace(base=float(np.median(rewards)), unit=max(float(high - low), LEAST_UNIT))
        was = was._replace(best=max(was.best, was.base) if before else was.base)
    if len(falls) and not was.first_fall:
        was = was._replace(first_fall=int(falls[0]) + 1)
    new = int((falls >= before).sum())
    life = n - (int(falls[-1]) + 1 if len(falls) else 0)
    boldness, latest = was.boldness, float(rewards[-schedule.patience :].mean())
    if new and n > was.first_fall + schedule.ramp:
        boldness = max(TIMID, boldness * schedule.shrink**new)
    elif was.first_fall and not new and life >= schedule.patience and latest <= was.best + schedule.flat * was.unit:
        boldness = min(BOLD, boldness * 2.0 ** ((n - before) / schedule.doubling))
    best = max(was.best, latest) if life >= schedule.patience else was.best
    return was._replace(boldness=float(boldness), best=float(best))


def aimed(now: LearningProgress, rows: ReplayBuffer, lam: float, schedule: Schedule) -> Objective:
    """What is strived for next."""
    careful = {
        "weight": now.boldness * np.clip((rows.n - now.first_fall) / schedule.ramp, 0.0, 1.0),
        "cap": now.base + schedule.cap * now.unit,
        "pessimism": schedule.pessimism / np.sqrt(now.boldness),
        "spread": schedule.spread * np.sqrt(now.boldness),
    }
    free = {"weight": 1.0, "cap": FAR, "pessimism": -schedule.optimism, "spread": schedule.spread}
    numbers = {
        "base": now.base,
        "unit": now.unit,
        "price": schedule.price * lam,
        "noise": ROLLOUT_NOISE,
        **(careful if now.first_fall else free),
    }
    return Objective(**{name: np.float32(value) for name, value in numbers.items()})


def gradient_steps(rate: float, before: int, n: int, late: int = 0) -> int:
    """Gradient steps when rows have grown from `before` to n: `rate` for each, and more at first.

    late: rows that there were when learning began.

    The first time (`before` is 0), they are those of one of ROUNDS rounds.
    """
    steps = FIRST if not before else (n - before) * (OFTEN if n - late <= EARLY else 1)
    return max(1, round(rate * steps))


def first_noise(schedule: Schedule, fell: bool, steps: int, count: int) -> Floats:
    """[count] deviations of the first actions: a machine that is stable at rest is found at little cost.

    fell: whether anything has fallen.  steps: taken before.

    >>> first_noise(Schedule(), False, 0, 101)[::50].round(2)
    array([0.15, 0.37, 0.9 ])
    """
    grown = np.clip(np.arange(steps, steps + count) / GROWTH, 0.0, 1.0) if not fell else np.zeros(count)
    return np.asarray(schedule.gentle * WIDEST**grown)


def smooth_noise(seed: list[int], shape: tuple[int, int]) -> Floats:
    """[H, A] standard normal numbers with the correlation 0.7 from step to step."""
    noise = np.random.default_rng(seed).normal(size=shape)
    for h in range(1, shape[0]):
        noise[h] = SMOOTH * noise[h - 1] + np.sqrt(1.0 - SMOOTH**2) * noise[h]
    return noise
