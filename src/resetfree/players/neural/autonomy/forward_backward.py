"""Soft actor-critic in one continuing life, alone or with a second policy that returns to a start: naive RL and FBRL.

After Han, Levine and Abbeel (2015, "Learning compound multi-step controllers under unknown dynamics") and Zhu et al.
(2020, "The ingredients of real world robotic reinforcement learning"), in the form of the benchmark EARL (Sharma et al.
2022). What each class keeps and changes, it says itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from resetfree.players.neural.autonomy.turns import Traits, TurnPlayer


@dataclass(frozen=True)
class Naive(TurnPlayer):
    """Soft actor-critic for the task alone, in one continuing life: nothing brings the system back.

    As EARL's naive baseline. Departures: demonstrations are a fixed share of each batch, where EARL puts them once into
    the replay buffer; half of the replayed steps have another goal of the task, which EARL does not do.

    >>> Naive().turn
    200
    """

    name: ClassVar[str] = "naive"
    published: ClassVar[Mapping[str, float]] = {"tabletop-v0": 0.36, "sawyer-door-v0": 0.02, "sawyer-peg-v0": 0.0}
    traits: ClassVar[Traits | None] = Traits(two=False)
    baseline: ClassVar[bool] = True
    agents: ClassVar[int] = 1


@dataclass(frozen=True)
class FBRL(TurnPlayer):
    """A forward policy for the task, and a backward policy that returns to a start, in turn.

    Kept: turns of fixed length, the reward for being where the system starts, demonstrations of both ways, no end of an
    episode at the end of a turn. Departures: those of `Naive`; and each policy learns from the steps of both, with its
    own rewards, where EARL's have a buffer each.

    >>> FBRL().agents
    2
    """

    name: ClassVar[str] = "fbrl"
    published: ClassVar[Mapping[str, float]] = {"tabletop-v0": 0.93, "sawyer-door-v0": 0.85, "sawyer-peg-v0": 0.0}
    traits: ClassVar[Traits | None] = Traits()
    baseline: ClassVar[bool] = True
