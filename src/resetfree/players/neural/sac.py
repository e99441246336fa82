"""Soft actor-critic: an actor and two critics that learn from all transitions; a fall costs a fixed price.

After Haarnoja et al. (2018, "Soft actor-critic algorithms and applications"). Kept: two critics and their slow targets,
a squashed normal policy, a temperature that holds the entropy at -A, the settings that are usual for MuJoCo. Adapted:
gradient steps come at the end of an episode, as many per step as `updates` says; the end of an episode is no end of
life, only a fall is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from resetfree.players.neural.soft_players import SoftPlayer


@dataclass(frozen=True)
class SAC(SoftPlayer):
    """Soft actor-critic on rewards r - price d, where d says whether the agent fell; the multiplier does not enter.

    >>> SAC(updates=10).price
    0.0
    """

    name: ClassVar[str] = "sac"
    baseline: ClassVar[bool] = True
