"""A fitted model of a machine with continuous actions: how it moves, what it earns, and where it is reset.

Legend: z = (s - centre) / scale [D]; a in [-1, 1]^A an action on the scale of its box; x = (z, a); B draws of the
dynamics; theta [A, D + 1] a policy, a = tanh(theta.(z, 1)); P steps planned ahead; lam the price of a reset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.state import require
from resetfree.players.model_based.reset_judge import NARROW, ResetJudge, fit_judge, walls
from resetfree.players.model_based.slants_and_rings import across_two
from resetfree.players.model_based.smooth_regression import JUMP, LEAST_GAP, Draws, draw_functions
from resetfree.problems.action_spaces import from_unit
from resetfree.problems.contract import Policy, State
from resetfree.problems.features._scaling import Scaling
from resetfree.problems.finite.transitions import Bools, Floats

FAR = 30.0  # where z is cut: a model that diverges predicts nothing
BEYOND = 0.25  # a step may be larger than any seen by this part of their range
JUDGED = 2000  # states lived in that the judge learns from: half are the latest, half any
FELL = 256  # latest reset states that it learns from
STILL = 1e-6  # a sensor with a relative deviation below this never moved
FIRST = 20  # states that make the first box
EXPECTED = 10.0  # resets, and widths lived in outside of the box, that are taken for seen before there are any


@dataclass
class TanhPolicy(Policy):
    """The action middle + half tanh(weight.s + offset) of a box; without weights, any one in `reach` of the middle."""

    kind = "TanhPolicy"
    axes: ClassVar[dict[str, str]] = {"weight": "AD", "offset": "A", "low": "A", "high": "A"}
    stationary = True
    weight: Floats  # [A, D]
    offset: Floats  # [A]
    low: Floats = field(metadata={"fixed": True})  # [A] the box
    high: Floats = field(metadata={"fixed": True})  # [A]
    reach: float = 1.0  # part of the box

    def check_loaded(self) -> None:
        """Raise InvalidInput unless it has a box."""
        require((self.low <= self.high).all(), "policy must have a box of actions")
        require(0.0 <= self.reach <= 1.0, "policy must reach a part of its box")

    def same_as(self, other: TanhPolicy) -> bool:
        """Whether it acts like another one in the same box."""
        return np.array_equal(self.weight, other.weight) and np.array_equal(self.offset, other.offset)

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the action, the same at every step."""
        if not self.weight.any():
            return from_unit(self.reach * (2.0 * np.asarray(u) - 1.0), self.low, self.high)
        pushed = np.tanh(self.weight @ np.atleast_1d(np.asarray(s, dtype=np.float64)) + self.offset)
        return from_unit(pushed, self.low, self.high)


class Experience(NamedTuple):
    """Transitions, and the states that were lived in or ended in a reset."""

    before: Floats  # [n, D]
    action: Floats  # [n, A] in [-1, 1]
    reward: Floats  # [n]
    after: Floats  # [n, D]
    lived: Floats  # [q, D] all of them in the order of visit
    dead: Floats  # [r, D] all of them


@dataclass(frozen=True)
class MachineModel:
    """Draws of dynamics and rewards, a judge of reset states, and the box of all states that were lived in."""

    scaling: Scaling
    steps: Draws  # z' - z
    rewards: Draws  # one output
    smallest: Floats  # [D + 1] what steps and rewards are cut to
    largest: Floats  # [D + 1]
    judge: ResetJudge
    low: Floats  # [D] the box
    high: Floats  # [D]
    least: Floats  # [D] what z cannot leave
    most: Floats  # [D]
    caution: float  # how dangerous it is to go outside of the box, per width

    def surprised(self, seen: Experience) -> Bools:
        """[n] whether the steps of these transitions are missed by far: a set point that moved, a blow."""
        z = self.scaling(seen.before)
        basis = self.steps.features(np.concatenate([z, seen.action], axis=1))
        missed = np.abs(z + basis @ self.steps.weight.mean(axis=0) - self.scaling(seen.after)).max(axis=1)
        return np.asarray(missed > JUMP * max(float(np.median(missed)), LEAST_GAP))

    def outside(self, z: Floats) -> Floats:
        """[n] how far z [n, D] is outside of the box in its farthest sensor, in widths; 0 inside."""
        return np.asarray(np.maximum(self.beyond(z).max(axis=1), 0.0))

    @cached_property
    def widths(self) -> Floats:
        """[D] of the box, in which distances from it are measured."""
        return widths(self.low, self.high)

    def beyond(self, z: Floats) -> Floats:
        """[n, D] how far each sensor of z is outside of the box, in widths; negative inside."""
        return np.asarray(np.maximum(z - self.high, self.low - z) / self.widths)

    def danger(self, z: Floats, reached: Floats) -> tuple[Floats, Floats]:
        """[n] the probability that coming to z [n, D] is a reset, and how far outside lives have now been.

        reached: [n] how far they had been. 1 by the judge, else by how much farther it is: a life that stays a little
        outside takes that risk once, not in every step.
        """
        farthest = np.maximum(reached, self.outside(z))
        risk = np.minimum(self.caution * (farthest - reached), 1.0)
        return np.maximum(self.judge.resets(z), risk), farthest


def beyond(z: Floats, low: Floats, high: Floats) -> Floats:
    """[n, D] how far each sensor of z is outside of [low, high], in widths; negative inside."""
    return np.asarray(np.maximum(z - high, low - z) / widths(low, high))


def widths(low: Floats, high: Floats) -> Floats:
    """[D] of a box, in which distances from it are measured."""
    return np.maximum(high - low, NARROW)


def fit_machine(
    seen: Experience, bounds: tuple[Floats, Floats], *, draws: int, caution: float, rng: np.random.Generator
) -> MachineModel:
    """The model of what was seen.  bounds: [D] each, what states cannot leave.  draws: B.

    Steps and rewards are fitted on their own: what a reward depends on closely (a way to a set point) is often what
    the steps hardly depend on, and one set of lengths would serve neither. Rewards are expected to have edges: many
    fall with a distance, which has a tip where most is earned.
    """
    centre, spread = seen.before.mean(axis=0), seen.before.std(axis=0)
    scaling = Scaling(centre, np.where(spread > STILL * (1.0 + np.abs(centre)), spread, 1.0))
    z, lived = scaling(seen.before), scaling(seen.lived)
    step, reward, x = scaling(seen.after) - z, seen.reward[:, None], np.concatenate([z, seen.action], axis=1)
    more = BEYOND * np.ptp(step, axis=0)  # but no reward is expected that was never earned
    some, dead = lived[latest_and_any(len(lived), JUDGED, rng)], scaling(seen.dead[-FELL:])
    low, high = lived.min(axis=0), lived.max(axis=0)
    least, most = (np.clip((end - scaling.centre) / scaling.scale, -FAR, FAR) for end in bounds)
    return MachineModel(
        scaling=scaling,
        steps=draw_functions(x, step, draws, rng),
        rewards=draw_functions(x, reward, draws, rng, edges=True),
        smallest=np.append(step.min(axis=0) - more, reward.min()),
        largest=np.append(step.max(axis=0) + more, reward.max()),
        judge=ResetJudge(fit_judge(some, dead).weight, *walls(low, high, dead), across_two(lived, dead)),
        low=low,
        high=high,
        least=least,
        most=most,
        caution=learned_caution(lived, len(seen.dead), caution),
    )


def latest_and_any(n: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """At most so many of n rows: half of them the latest, and any before these."""
    if n <= most:
        return np.arange(n)
    latest = n - most // 2
    return np.concatenate([rng.choice(latest, most - most // 2, replace=False), np.arange(latest, n)])


def learned_caution(lived: Floats, resets: int, caution: float) -> float:
    """How dangerous it is to go outside of the box, after a life in z [q, D] with so many resets.

    Each of the states was inside or outside of the box of those before it: the more widths outside were lived in, the
    less there is to fear, and the more with every reset.
    """
    low, high = np.minimum.accumulate(lived)[:-1], np.maximum.accumulate(lived)[:-1]
    outside = np.clip(beyond(lived[1:], low, high).max(axis=1), 0.0, 1.0)[FIRST:]
    return caution * (EXPECTED + resets) / (EXPECTED + float(outside.sum()))
