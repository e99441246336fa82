"""RISC: a policy whose turn it is gives way as soon as it knows well enough how to go on from here.

After Patil, Rajendran, Berseth and Chandar (2024, "Intelligent switching for reset-free RL").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from resetfree.core.arrays import Floats
from resetfree.core.settings import Fraction, Range
from resetfree.players.neural.autonomy.turns import SWITCHING, Traits, TurnPlayer, TurnState


@dataclass(frozen=True)
class RISC(TurnPlayer):
    """A forward and a backward policy, whose turns end early where they are competent.

    Kept: turns end with a probability that grows with the agent's competence in the present state, never before a least
    number of steps; values go on beyond the end of a turn, which is not terminal. Departures: the competence is the
    smallest critic's value as a share of the largest, where the paper trains a critic of success; it is looked at when
    an episode of the game ends, not in each step; demonstrations are in each batch, and goals are drawn anew, as for
    all methods here.

    least: steps of a turn at least.
    eagerness: the probability to end a turn where competence is complete.

    >>> RISC().least
    50
    """

    name: ClassVar[str] = "risc"
    published: ClassVar[Mapping[str, float]] = {"tabletop-v0": 1.0, "sawyer-door-v0": 1.0, "sawyer-peg-v0": 0.16}
    traits: ClassVar[Traits | None] = Traits(early=True)
    baseline: ClassVar[bool] = True
    least: Annotated[int, Range(1, 1_000_000)] = 50
    eagerness: Fraction = 0.9

    def over(self, state: TurnState, s: Floats, there: bool) -> bool:
        """Whether time is over, or the policy is competent in this state."""
        if super().over(state, s, there):
            return True
        if state.steps < self.least or state.gradient_steps == 0:
            return False
        seen = state.guidance.with_goal(s[None], state.aim) if state.aimed else s[None]
        competence = float(self.shares(state, state.agent, seen)[0])
        return bool(state.random(SWITCHING).random() < self.eagerness * competence)
