"""Leave No Trace: a reset policy whose values decide when the forward policy must stop.

After Eysenbach, Gu, Ibarz and Levine (2018, "Leave no trace: learning to reset for safe and autonomous reinforcement
learning").
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import Fraction, Range
from resetfree.players.neural.autonomy.turns import BACKWARD, FORWARD, AimedPolicy, Traits, TurnPlayer, TurnState
from resetfree.players.neural.networks import Layers, NetworkPolicy, forward, rectified
from resetfree.problems.action_spaces import to_unit
from resetfree.problems.contract import Policy, State


@dataclass
class AbortingPolicy(Policy):
    """A policy that gives way to another where the least of some values of its action is below a threshold."""

    kind = ""  # it is played, never deployed
    stationary = True
    acting: NetworkPolicy
    rescue: AimedPolicy
    critics: Layers  # of `rescue`, [n, ...]
    least: float
    scale: float = field(default=1.0)  # of values, to shares

    def act(self, h: int, s: State, u: Any) -> Floats:
        """The action of the first policy, or that of the other."""
        action = self.acting.act(h, s, u)
        return self.rescue.act(h, s, u) if self.aborts(s, action) else action

    def aborts(self, s: State, action: Floats) -> bool:
        """Whether the other policy takes over."""
        seen = np.where(self.rescue.aimed, self.rescue.aim, s)
        pair = np.concatenate([seen, to_unit(action, self.acting.low, self.acting.high)])
        return bool(self.scale * forward(self.critics, pair[None], rectified).min() < self.least)


@dataclass(frozen=True)
class LeaveNoTraceSAC(TurnPlayer):
    """A forward policy, and a reset policy that takes over where it might not find back.

    Kept: the reset policy's reward for being where the system starts; an ensemble of its values; before each forward
    action, the reset policy takes over if the least of them is below a threshold (early abort); an abort ends nothing
    for the forward policy. Departures: the reset policy acts in those states in which the abort applies, and not for
    the rest of the turn; the ensemble has 4 members and one target, the least of all, where the paper's have targets of
    their own; the forward policy has as many critics; a reset by hand is the problem's own (a fall), and not a decision
    after failed attempts to return; aborts begin after `settled` steps; demonstrations are in each batch, and goals are
    drawn anew, as for all methods here.

    q_min: threshold of the abort: gamma^t for a start that is t steps away.
    settled: steps before the first abort.

    >>> LeaveNoTraceSAC(q_min=0.5).critics
    4
    """

    name: ClassVar[str] = "leave-no-trace-sac"
    traits: ClassVar[Traits | None] = Traits(aborts=True)
    baseline: ClassVar[bool] = True
    critics: ClassVar[int] = 4
    q_min: Fraction = 0.2
    settled: Annotated[int, Range(0, 10**9)] = 5000

    def policy(self, state: TurnState) -> Policy:
        """The forward policy with its aborts, or the reset policy."""
        acting = super().policy(state)
        if state.agent == BACKWARD or state.rows.n - state.shown < self.settled:
            return acting
        rescue = state.actor(BACKWARD, state.guidance.starts[0])
        assert isinstance(rescue, AimedPolicy)
        scale = (1.0 - self.gamma) / self.reward_scale
        critics = state.part(BACKWARD, "critics")
        return AbortingPolicy(state.actor(FORWARD), rescue, critics, least=self.q_min, scale=scale)
