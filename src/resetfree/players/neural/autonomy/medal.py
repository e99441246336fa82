"""MEDAL: a backward policy whose states cannot be distinguished from those of demonstrations.

After Sharma, Ahmad and Finn (2022, "A state-distribution matching approach to non-episodic reinforcement learning").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.settings import Range
from resetfree.players.neural.autonomy.turns import (
    BACKWARD,
    CHOOSING,
    WIDE,
    Traits,
    TurnPlayer,
    TurnState,
    demonstrated,
    fit,
    fresh_part,
)
from resetfree.players.neural.networks import forward, narrow, rectified, uniform_layers
from resetfree.players.neural.sac import Tree
from resetfree.problems.contract import Problem

LARGEST = 5.0  # reward: where C is above 0.993, more means nothing


@dataclass(frozen=True)
class MedalSAC(TurnPlayer):
    """A forward policy, and a backward policy that matches the states of demonstrations.

    Kept: the backward reward -log(1 - C(s)), C a classifier of the demonstrations' states against those in which the
    backward policy lately was, trained on mixtures of both (mixup); turns of fixed length. Departures: the classifier
    does not see the goal; its reward is bounded, and computed anew where a step is replayed; the backward policy learns
    from the steps of both, and from demonstrations of the way back, which the paper does not give it; they are a fixed
    share of each batch.

    classifier_steps: of the classifier, for each step of an episode.

    >>> MedalSAC().classifier_steps
    0.2
    """

    name: ClassVar[str] = "medal-sac"
    published: ClassVar[Mapping[str, float]] = {"tabletop-v0": 0.98, "sawyer-door-v0": 1.0, "sawyer-peg-v0": 0.22}
    traits: ClassVar[Traits | None] = Traits(matches=True)
    baseline: ClassVar[bool] = True
    classifier_steps: Annotated[float, Range(above=0, most=100)] = 0.2

    def fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        """Both agents, and the classifier."""
        agents = super().fresh(size, n_actions, rng)
        return {**agents, "classifier": fresh_part(uniform_layers((size, self.hidden, self.hidden, 1), rng))}

    def init(self, problem: Problem, episodes: int, seed: int) -> TurnState:
        """Refuse a task without demonstrations, too."""
        return demonstrated(self, super().init(problem, episodes, seed), problem)

    def reward(self, state: TurnState, tree: Tree, agent: int, after: Floats) -> Floats:
        """-log(1 - C) for the backward policy."""
        if agent != BACKWARD:
            return super().reward(state, tree, agent, after)
        odds = forward(tree["classifier"]["network"], narrow(state.without_goal(after)), rectified)[:, 0]
        return np.asarray(np.minimum(np.logaddexp(0.0, odds), LARGEST))

    def fit_others(self, state: TurnState, tree: Tree, lived: NDArray[np.int64], m: int) -> Tree:
        """The classifier: 1 on demonstrations, 0 where the backward policy was."""
        if not state.kept:
            return tree
        rng, n = state.random(CHOOSING), max(1, round(self.classifier_steps * m))
        shown = state.rows.state[rng.integers(state.forth, size=(n, WIDE))]
        met = state.backward[rng.integers(len(state.backward), size=(n, WIDE))]
        share = rng.random((n, WIDE, 1))
        x = state.without_goal(share * shown + (1.0 - share) * met)
        return {**tree, "classifier": fit(tree["classifier"], narrow(x), narrow(share), np.float32(3e-4), binary=True)}
