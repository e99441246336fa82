"""A method of your own that brings a system back: after each attempt, to a demonstrated state drawn at random."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import resetfree as rf
from resetfree.players.neural.autonomy.turns import CHOOSING, FORWARD, Context, TurnPlayer, TurnState, demonstrated


@dataclass(frozen=True)
class Shuttle(TurnPlayer):
    """One policy for all goals: an attempt at the task, then a demonstrated state."""

    name: ClassVar[str] = "shuttle"
    baseline: ClassVar[bool] = True
    agents: ClassVar[int] = 1

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> TurnState:
        """Refuse a task without demonstrations."""
        return demonstrated(self, super().init(problem, episodes, seed), problem)

    def goals(self, state: TurnState, agent: int, s: Any, rng: np.random.Generator) -> Any:
        """Half of the replayed steps are for a state that was demonstrated."""
        shown = state.guidance.achieved(state.rows.state[rng.integers(state.shown, size=len(s))])
        return np.where(rng.random((len(s), 1)) < 0.5, super().goals(state, agent, s, rng), shown)

    def next_turn(self, state: TurnState, s: Any, there: bool) -> Context:
        """The task after such a state, and such a state after the task."""
        if state.aimed:
            return Context(FORWARD)
        row = state.random(CHOOSING).integers(state.shown)
        return Context(FORWARD, state.guidance.achieved(state.rows.state[row][None])[0])


if __name__ == "__main__":
    task = rf.from_gym("gym:tabletop-small-v0", horizon=50, reward_range=(0, 1))
    run = rf.learn(task, primal=Shuttle(turn=100, hidden=8, batch=8), episodes=6, seed=0)
    print(f"{len(run)} episodes, {run.realised_resets[-1]:.0f} resets")
