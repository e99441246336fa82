"""Several tasks whose turns lead back to one another: MTRF, and reset-free walking as of Ha et al. (2020).

MTRF after Gupta et al. (2021, "Reset-free reinforcement learning via multi-task learning"); Ha, Xu, Tan, Levine and Tan
(2020, "Learning to walk in the real world with minimal human effort").
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.game.capabilities import Partner
from resetfree.players.neural.autonomy.turns import FORWARD, Context, Traits, TurnPlayer, TurnState


@dataclass(frozen=True)
class MTRF(TurnPlayer):
    """One policy for all tasks of a graph: after each turn, the next task is chosen by the state.

    Kept: the state selects the next task by a graph that is given, in which some tasks undo others. Departures: the
    tasks are goals of one policy, where the paper's have a policy each; it learns from all steps for all tasks, with
    demonstrations in each batch; the graph is the task's own (`Guidance.onward`), and on tasks with one start it has
    two kinds of edges: back to the start, and on from there.

    >>> MTRF().agents
    1
    """

    name: ClassVar[str] = "mtrf"
    traits: ClassVar[Traits | None] = Traits(two=False, graph=True)
    baseline: ClassVar[bool] = True
    agents: ClassVar[int] = 1

    def goals(self, state: TurnState, agent: int, s: Floats, rng: np.random.Generator) -> Floats:
        """Their own, or those of the task and its starts."""
        guidance = state.guidance
        tasks = np.concatenate([guidance.goals, guidance.starts])
        drawn = tasks[rng.integers(len(tasks), size=len(s))]
        return np.where(rng.random((len(s), 1)) < self.relabelled, drawn, s[:, guidance.goal])

    def next_turn(self, state: TurnState, s: Floats, there: bool) -> Context:
        """The task that the graph has for this state."""
        guidance = state.guidance
        chosen = int(guidance.onward(s[None])[0])
        return Context(FORWARD, np.concatenate([guidance.goals, guidance.starts])[chosen])

    def after_reset(self, state: TurnState) -> Context:
        """The task in the state after it."""
        return Context(FORWARD)


@dataclass(frozen=True)
class Ha2020(MTRF):
    """Tasks that lead back to the middle, and a multiplier on critics of cost that grows with each fall.

    Kept: directions of walking as tasks, of which the next is the one that leads back to the middle of the workspace;
    critics of cost, and a Lagrangian multiplier. Departures: those of `MTRF`; the multiplier is that of the dual player
    `counting`, which grows with each fall, where the paper descends on a learned cost; a cost is a reset (a fall, or
    leaving the workspace), where the paper bounds roll and pitch; the robot stands up by a reset, not by a controller.

    >>> Ha2020.partner().dual
    'counting'
    """

    name: ClassVar[str] = "ha2020"
    traits: ClassVar[Traits | None] = None
    baseline: ClassVar[bool] = True
    costs: ClassVar[bool] = True

    @classmethod
    def partner(cls) -> Partner:
        """A multiplier that grows with each fall."""
        return Partner("counting", "realised")
