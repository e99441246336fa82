"""A shield over any method: no action that is near one that caused a reset, in a state near that one.

The bound. Scale every number of a state (without its goal) and of an action to [0, 1]; a pair (s, a) is permitted if it
differs by more than `radius` in some number from every pair that a reset followed. So of all resets that followed a
permitted pair, any two differ by more than `radius` in some number, on every path and for every system: their number is
at most (1 + floor(1 / radius))^(D + A), however the method learns. Not covered are resets in states in which no
candidate action was permitted: there the one farthest from resets is taken. With a radius below the least difference
of two states and two actions, as where both are counted, the bound is their number, that of elimination.

Legend: D numbers in a state without its goal, A in an action; n resets so far.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import NotCertifiable
from resetfree.game.replay_buffer import ReplayBuffer
from resetfree.problems.contract import Policy, Problem, State
from resetfree.problems.knowledge import Guidance

MOST_AXES = 4  # of an action up to which all corners are candidates, else one axis after another


class Region(NamedTuple):
    """The box of states and actions, without the goal."""

    own: Bools  # [all of a state] where its goal is not
    low: Floats  # [D + A]
    width: Floats  # [D + A]

    @classmethod
    def of(cls, problem: Problem, guidance: Guidance, name: str) -> "Region":
        """That of a problem; raises NotCertifiable where it has no ends."""
        box: Any = problem.actions
        assert problem.low is not None
        assert problem.high is not None
        own = np.ones(len(problem.low), dtype=np.bool_)
        own[guidance.goal] = False
        low, high = (np.append(s[own], a) for s, a in ((problem.low, box.low), (problem.high, box.high)))
        if not np.isfinite(high - low).all():
            raise NotCertifiable(
                f"The 'shield' of {name} needs observations with finite limits. Got '{problem.name}' instead: leave it "
                "out, or let the dual player price resets (--dual counting)."
            )
        return cls(own, low, np.maximum(high - low, 1e-12))

    def scaled(self, s: Floats, a: Floats) -> Floats:
        """[..., D + A] pairs on [0, 1]."""
        return np.asarray((np.concatenate([s[..., self.own], a], axis=-1) - self.low) / self.width)

    def fatal(self, rows: ReplayBuffer) -> Floats:
        """[n, D + A] the pairs that a reset followed."""
        last = np.flatnonzero(rows.terminated[1 : rows.n])
        return self.scaled(rows.state[last], rows.action[last])

    def most(self, radius: float) -> float:
        """The most resets that can follow permitted pairs.

        >>> Region(np.ones(1, dtype=bool), np.zeros(2), np.ones(2)).most(0.5)
        9.0
        """
        return float(1.0 + np.floor(1.0 / radius + 1e-9)) ** len(self.low)


@dataclass
class ShieldedPolicy(Policy):
    """A policy whose action gives way to the nearest permitted one."""

    kind = ""  # it is played, never deployed
    stationary = True
    acting: Policy
    region: Region
    fatal: Floats  # [n, D + A]
    radius: float

    def act(self, h: int, s: State, u: Any) -> Any:
        """The policy's action if it is permitted, else the nearest candidate that is, else the one farthest off."""
        action = np.asarray(self.acting.act(h, s, u), dtype=np.float64)
        size, s = len(action), np.asarray(s, dtype=np.float64)
        near = self.fatal[(np.abs(self.fatal - self.region.scaled(s, action))[:, :-size] <= self.radius).all(axis=1)]
        if not len(near):
            return action
        low, width = self.region.low[-size:], self.region.width[-size:]
        tried = np.concatenate([((action - low) / width)[None], candidates(size)])
        gap = np.abs(tried[:, None] - near[None, :, -size:]).max(axis=2).min(axis=1)
        permitted = gap > self.radius
        away = np.abs(tried - tried[0]).max(axis=1)
        best = int(np.where(permitted, away, np.inf).argmin() if permitted.any() else gap.argmax())
        return action if best == 0 else low + width * tried[best]


def candidates(size: int) -> Floats:
    """[m, A] actions on [0, 1]: the middle, the ends, and in few dimensions all corners between them.

    >>> len(candidates(3)), len(candidates(6))
    (27, 13)
    """
    if size <= MOST_AXES:
        return np.array(list(product((0.0, 0.5, 1.0), repeat=size)))
    steps = np.concatenate([np.zeros((1, size)), 0.5 * np.eye(size), -0.5 * np.eye(size)])
    return np.asarray(0.5 + steps)
