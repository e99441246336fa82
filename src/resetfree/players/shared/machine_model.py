"""A fitted model of a machine with continuous actions, and the search for a policy in it.

Legend: z = (s - centre) / scale [D]; a in [-1, 1]^A an action on the scale of its box; x = (z, a); B draws of the
dynamics; theta [A, D + 1] a policy, a = tanh(theta.(z, 1)); P steps planned ahead; lam the price of a reset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from cmaes import CMA

from resetfree.core.state import require
from resetfree.players.shared.reset_judge import ResetJudge, fit_judge
from resetfree.players.shared.smooth_regression import Draws, draw_functions
from resetfree.problems.action_spaces import from_unit
from resetfree.problems.contract import Policy, State
from resetfree.problems.features._scaling import Scaling
from resetfree.problems.finite.transitions import Floats

FAR = 30.0  # where z is cut: a model that diverges predicts nothing
GONE = 1e-3  # an imagined life that is less likely than this to go on has ended
NARROW = 1.0  # least width of the box: a sensor that hardly moved is no reason to expect a reset when it does
BEYOND = 0.25  # a step may be larger than any seen by this part of their range
JUDGED = 2000  # states lived in that the judge learns from: half are the latest, half any
FELL = 256  # latest reset states that it learns from
STILL = 1e-6  # a sensor with a relative deviation below this never moved
AFRESH, NEARBY = 0.5, 0.2  # first deviation of a search from nothing, and from the policy that is played
STEEPEST = 1e6  # weights from which on a policy is not searched around: its actions are the ends of the box
TRUSTED = 0.3  # predicted resets of a policy that goes on living up to which the model is believed


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
        return from_unit(pushed, self.low, self.high)


class Experience(NamedTuple):
    """Transitions, and the states that were lived in or ended in a reset."""

    before: Floats  # [n, D]
    action: Floats  # [n, A] in [-1, 1]
    reward: Floats  # [n]
    after: Floats  # [n, D]
    lived: Floats  # [q, D]
    dead: Floats  # [r, D]


class Forecast(NamedTuple):
    """What imagined lives come to, of m policies from n starts."""

    reward: Floats  # [m, n] expected sum
    reset: Floats  # [m, n] probability of a reset

    def worth(self, lam: float) -> Floats:
        """[m] of each policy."""
        return np.asarray((self.reward - lam * self.reset).mean(axis=1))


@dataclass(frozen=True)
class MachineModel:
    """Draws of dynamics and rewards, a judge of reset states, and the box of all states that were lived in."""

    scaling: Scaling
    steps: Draws  # z' - z, and the reward in the last output
    smallest: Floats  # [D + 1] what the outputs are cut to
    largest: Floats  # [D + 1]
    judge: ResetJudge
    low: Floats  # [D] the box
    high: Floats  # [D]
    least: Floats  # [D] what z cannot leave
    most: Floats  # [D]
    caution: float  # how dangerous it is to be outside of the box, per width

    def danger(self, z: Floats) -> Floats:
        """[n] the probability that z [n, D] is a reset state: 1 by the judge, else by how far it is outside."""
        outside = np.maximum(z - self.high, self.low - z) / np.maximum(self.high - self.low, NARROW)
        return np.asarray(np.maximum(self.judge.resets(z), np.clip(self.caution * outside.max(axis=1), 0.0, 1.0)))

    def imagine(self, theta: Floats, starts: Floats, noise: Floats) -> Forecast:
        """Lives of m policies theta [m, A, D + 1] from n starts [n, D], on the scale of z; start i in draw i modulo B.

        noise: [P, n, D] standard normal numbers, the same for every policy, so that all are compared on the same luck.
        Lives that have ended are not imagined further.
        """
        m, (n, size) = len(theta), starts.shape
        policy, start = np.repeat(np.arange(m), n), np.tile(np.arange(n), m)
        draw, noisy = start % len(self.steps.weight), self.steps.noise[:size]
        alive, earned = np.ones(m * n), np.zeros(m * n)
        on, z = np.arange(m * n), starts[start]
        for luck in noise:
            mine = theta[policy[on]]
            action = np.tanh(np.einsum("nad,nd->na", mine[:, :, :size], z) + mine[:, :, size])
            step = self.steps.values(np.concatenate([z, action], axis=1), draw[on])
            step = np.clip(step, self.smallest, self.largest)
            z = np.clip(z + step[:, :size] + noisy * luck[start[on]], self.least, self.most)
            earned[on] += alive[on] * step[:, size]
            alive[on] *= 1.0 - self.danger(z)
            goes_on = alive[on] > GONE
            on, z = on[goes_on], z[goes_on]
            if not len(on):
                break
        return Forecast(earned.reshape(m, n), 1.0 - alive.reshape(m, n))


def fit_machine(
    seen: Experience, bounds: tuple[Floats, Floats], *, draws: int, caution: float, rng: np.random.Generator
) -> MachineModel:
    """The model of what was seen.  bounds: [D] each, what states cannot leave.  draws: B."""
    centre, spread = seen.before.mean(axis=0), seen.before.std(axis=0)
    scaling = Scaling(centre, np.where(spread > STILL * (1.0 + np.abs(centre)), spread, 1.0))
    z, after, lived = scaling(seen.before), scaling(seen.after), scaling(seen.lived)
    targets = np.concatenate([after - z, seen.reward[:, None]], axis=1)
    beyond = BEYOND * np.ptp(targets, axis=0)
    beyond[-1] = 0.0  # no reward is expected that was never earned
    some = lived
    if len(lived) > JUDGED:
        half = JUDGED // 2
        some = np.concatenate([lived[rng.choice(len(lived) - half, half, replace=False)], lived[-half:]])
    least, most = (np.clip((end - scaling.centre) / scaling.scale, -FAR, FAR) for end in bounds)
    return MachineModel(
        scaling=scaling,
        steps=draw_functions(np.concatenate([z, seen.action], axis=1), targets, draws, rng),
        smallest=targets.min(axis=0) - beyond,
        largest=targets.max(axis=0) + beyond,
        judge=fit_judge(some, scaling(seen.dead[-FELL:])),
        low=lived.min(axis=0),
        high=lived.max(axis=0),
        least=least,
        most=most,
        caution=caution,
    )


class MachineSearch(NamedTuple):
    """A search for the policy of largest reward - lam (probability of a reset) in a model, by CMA-ES.

    It starts from nothing and, with half of its generations, from the policy that is played.
    """

    model: MachineModel
    starts: Floats  # [n, D] not scaled
    lam: float
    planning: int  # P
    population: int
    rounds: int  # generations in all
    seed: int

    def best(self, played: Floats | None, *, living: bool) -> Floats:
        """The best theta found.

        played: theta of the policy that is played now, None if there is none.
        living: whether it goes on living. Then it is replaced only if the model is right about it: one that predicts
          its resets has no say.
        """
        starts = self.model.scaling(self.starts)
        noise = np.random.default_rng(self.seed).normal(size=(self.planning, *starts.shape))
        nothing = np.zeros((len(self.model.steps.length) - starts.shape[1], starts.shape[1] + 1))
        best, value, origins = nothing, -np.inf, [(nothing, AFRESH)]
        if played is not None and np.abs(played).max() < STEEPEST:
            now = self.model.imagine(played[None], starts, noise)
            if living and now.reset.mean() > TRUSTED:
                return played
            best, value, origins = played, float(now.worth(self.lam)[0]), [(nothing, AFRESH), (played, NEARBY)]
        for i, (origin, deviation) in enumerate(origins):
            search = CMA(origin.ravel(), deviation, seed=(self.seed + i) % 2**32, population_size=self.population)
            for _ in range(max(1, self.rounds // len(origins))):
                asked = np.array([search.ask() for _ in range(self.population)])
                worths = self.model.imagine(asked.reshape(-1, *best.shape), starts, noise).worth(self.lam)
                search.tell(list(zip(asked, -worths, strict=True)))
                if worths.max() > value:
                    best, value = asked[worths.argmax()].reshape(best.shape), float(worths.max())
            middle = search.mean.reshape(best.shape)
            worth = float(self.model.imagine(middle[None], starts, noise).worth(self.lam)[0])
            if worth >= value:
                best, value = middle, worth
        return best
