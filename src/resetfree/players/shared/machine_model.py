"""A fitted model of a machine with continuous actions, and the search for a policy in it.

Legend: z = (s - centre) / scale [D]; a in [-1, 1]^A an action on the scale of its box; x = (z, a); f waves;
F = 1 + D + A + f features (1, x, cos(x.wave + phase)); B fits to resampled data; theta [A, D + 1] a policy,
a = tanh(theta.(z, 1)); P steps planned ahead; lam the price of a reset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import pi, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.state import require
from resetfree.players.shared.search_state import LEAST_SPREAD
from resetfree.problems.contract import Policy, State
from resetfree.problems.features._scaling import Scaling
from resetfree.problems.finite.transitions import Floats

FAR = 30.0  # where z is cut: a model that diverges predicts nothing
GONE = 1e-3  # when all imagined lives are less likely than this to go on, they have ended
LATEST = 64  # reset states that judge others
NEIGHBOURS = 8  # states beside each of them that decide how far it reaches
ELSEWHERE = 256  # further states that were lived in: what lies far from any reset state is not judged by one
NARROW = 0.5  # least width of the box: a sensor that never moved is no reason to expect a reset when it does
ELITE = 5  # one of so many policies is kept in each round of the search


@dataclass
class TanhPolicy(Policy):
    """The action middle + half tanh(weight.s + offset) of a box; without weights, every action is equally likely."""

    kind = "TanhPolicy"
    axes: ClassVar[dict[str, str]] = {"weight": "AD", "offset": "A", "low": "A", "high": "A"}
    stationary = True
    weight: Floats  # [A, D]
    offset: Floats  # [A]
    low: Floats = field(metadata={"fixed": True})  # [A] the box
    high: Floats = field(metadata={"fixed": True})  # [A]

    def check_loaded(self) -> None:
        """Raise InvalidInput unless it has a box."""
        require((self.low <= self.high).all(), "policy must have a box of actions")

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the action, the same at every step."""
        if not self.weight.any():
            return np.asarray(self.low + (self.high - self.low) * u)
        pushed = np.tanh(self.weight @ np.atleast_1d(np.asarray(s, dtype=np.float64)) + self.offset)
        return np.clip((self.low + self.high) / 2 + (self.high - self.low) / 2 * pushed, self.low, self.high)


@dataclass(frozen=True)
class Experience:
    """All transitions so far, and the states that were lived in or ended in a reset."""

    before: Floats  # [n, D]
    action: Floats  # [n, A] in [-1, 1]
    reward: Floats  # [n]
    after: Floats  # [n, D]
    lived: Floats  # [q, D]
    dead: Floats  # [r, D]


@dataclass(frozen=True)
class MachineModel:
    """Dynamics and rewards, linear in features that are solved for, and the reset states next to those seen."""

    scaling: Scaling
    wave: Floats  # [D + A, f]
    phase: Floats  # [f]
    coefficient: Floats  # [B, F, D + 1] of z' - z, and of the reward in the last column
    spread: Floats  # [B, D] of what a fit leaves open, per step
    rewards: tuple[float, float]  # least and greatest seen
    dead: Floats  # [r, D] latest reset states
    near: Floats  # [q, D] states that were lived in: those nearest to the reset states, and some others
    low: Floats  # [D] the box of all states that were lived in
    high: Floats  # [D]
    least: Floats  # [D] what z cannot leave
    most: Floats  # [D]
    caution: float  # how dangerous it is to be outside of the box, per width

    def danger(self, z: Floats) -> Floats:
        """[...] the probability that z [..., D] is a reset state: by its nearest known state and by how far outside."""
        width = np.maximum(self.high - self.low, NARROW)
        outside = np.maximum(z - self.high, self.low - z) / width
        danger = np.clip(self.caution * outside.max(axis=-1), 0.0, 1.0)
        if len(self.dead):
            danger = np.maximum(danger, _nearest(z, self.dead) < _nearest(z, self.near))
        return np.asarray(danger)

    def imagine(self, theta: Floats, starts: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """[m, n] expected rewards, and [m, n] probabilities of a reset, of m policies in lives from n starts.

        theta: [m, A, D + 1].  starts: [n, D] on the scale of z; start i is played in fit i modulo B.
        noise: [P, n, D] standard normal numbers, the same for every policy, so that all are compared on the same luck.
        """
        size, members = starts.shape[1], np.arange(len(starts)) % len(self.coefficient)
        gain, offset = theta[:, :, :size].transpose(0, 2, 1), theta[:, None, :, size]
        z = np.broadcast_to(starts, (len(theta), *starts.shape))
        alive, earned = np.ones(z.shape[:2]), np.zeros(z.shape[:2])
        step = np.empty((*z.shape[:2], size + 1))
        for luck in noise:
            inputs = features(z, np.tanh(z @ gain + offset), self.wave, self.phase)
            for b, coefficient in enumerate(self.coefficient):
                step[:, members == b] = inputs[:, members == b] @ coefficient
            z = np.clip(z + step[..., :size] + self.spread[members] * luck, self.least, self.most)
            earned += alive * np.clip(step[..., size], *self.rewards)
            alive *= 1.0 - self.danger(z)
            if (alive < GONE).all():
                break
        return earned, 1.0 - alive


def _nearest(z: Floats, points: Floats) -> Floats:
    """[...] the squared distance of z [..., D] to the nearest of points [n, D], less |z|^2."""
    return np.asarray(((points**2).sum(axis=1) - 2.0 * z @ points.T).min(axis=-1))


def features(z: Floats, action: Floats, wave: Floats, phase: Floats) -> Floats:
    """[..., F] the features of (z, a)."""
    x = np.concatenate([z, action], axis=-1)
    waves = sqrt(2.0 / max(1, len(phase))) * np.cos(x @ wave + phase)
    return np.concatenate([np.ones((*x.shape[:-1], 1)), x, waves], axis=-1)


def fit_machine(
    seen: Experience,
    scaling: Scaling,
    bounds: tuple[Floats, Floats],
    *,
    waves: int,
    bandwidth: float,
    reg: float,
    bags: int,
    caution: float,
    seed: int,
) -> MachineModel:
    """The model of what was seen.

    bounds: [D] each, what states cannot leave.  waves, bandwidth: number and scale of the cosines.
    reg: the ridge; a tenth of it on linear features, which are preferred.  bags: B.
    """
    z, after = scaling(seen.before), scaling(seen.after)
    size, n_actions = z.shape[1], seen.action.shape[1]
    rng = np.random.default_rng([seed, waves, size, n_actions])
    wave, phase = rng.normal(size=(size + n_actions, waves)) / bandwidth, rng.uniform(0.0, 2.0 * pi, waves)
    inputs = features(z, seen.action, wave, phase)
    targets = np.concatenate([after - z, seen.reward[:, None]], axis=1)
    ridge = np.full(inputs.shape[1], reg)
    ridge[: 1 + size + n_actions] /= 10.0
    coefficient, spread = [], []
    for b in range(bags):
        weight = np.random.default_rng([seed, 1 + b]).exponential(size=(len(z), 1))  # rows keep theirs as more come
        weighted = inputs * weight
        solved = np.linalg.solve(weighted.T @ inputs + np.diag(ridge), weighted.T @ targets)
        coefficient.append(solved)
        spread.append((targets - inputs @ solved)[:, :size].std(axis=0))
    lived, dead = scaling(seen.lived), scaling(seen.dead[-LATEST:])
    least, most = (np.clip((end - scaling.centre) / scaling.scale, -FAR, FAR) for end in bounds)
    return MachineModel(
        scaling=scaling,
        wave=wave,
        phase=phase,
        coefficient=np.array(coefficient),
        spread=np.array(spread),
        rewards=(float(seen.reward.min()), float(seen.reward.max())),
        dead=dead,
        near=lived[_judges(lived, dead, np.random.default_rng([seed, len(lived)]))],
        low=lived.min(axis=0),
        high=lived.max(axis=0),
        least=least,
        most=most,
        caution=caution,
    )


def _judges(lived: Floats, dead: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Indices of states nearest to each reset state, and of some others."""
    chosen = set(rng.choice(len(lived), min(ELSEWHERE, len(lived)), replace=False).tolist())
    for z in dead:
        distance = ((lived - z) ** 2).sum(axis=1)
        chosen |= set(np.argpartition(distance, min(NEIGHBOURS, len(lived) - 1))[:NEIGHBOURS].tolist())
    return np.array(sorted(chosen))


def search_machine(
    model: MachineModel,
    starts: Floats,
    played: Floats,
    *,
    lam: float,
    planning: int,
    population: int,
    rounds: int,
    rng: np.random.Generator,
) -> Floats:
    """Theta of largest reward - lam (probability of a reset) in the model, by the cross-entropy method.

    starts: [n, D] states, not scaled.  played: theta of the policy that is played now, which takes part.
    """
    z = model.scaling(starts)
    noise = rng.normal(size=(planning, *z.shape))

    def worth(theta: Floats) -> Floats:
        earned, reset = model.imagine(theta, z, noise)
        return np.asarray((earned - lam * reset).mean(axis=1))

    best, value = played, -np.inf
    mean, spread = np.zeros_like(best), np.ones_like(best)
    for _ in range(rounds):
        candidates = mean + spread * rng.normal(size=(population, *mean.shape))
        candidates[0], candidates[1] = mean, best
        worths = worth(candidates)
        elite = np.argsort(-worths, kind="stable")[: max(2, population // ELITE)]
        mean, spread = candidates[elite].mean(axis=0), candidates[elite].std(axis=0) + LEAST_SPREAD
        if worths[elite[0]] > value:
            best, value = candidates[elite[0]], worths[elite[0]]
    return mean if worth(mean[None])[0] >= value else best
