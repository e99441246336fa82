"""R3L: a second policy perturbs the system into states that are new, so that the task is learned from everywhere.

After Zhu et al. (2020, "The ingredients of real world robotic reinforcement learning").
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
    fit,
    fresh_part,
)
from resetfree.players.neural.networks import Layers, forward, narrow, rectified, uniform_layers
from resetfree.players.neural.sac import Tree

LARGEST = 5.0  # novelty in units of its mean
FEATURES = 16  # outputs of the random network


@dataclass(frozen=True)
class R3L(TurnPlayer):
    """A policy for the task, and one that seeks states in which a random network is not yet predicted, in turn.

    Kept: a perturbation policy whose reward is the error of random network distillation (Burda et al. 2018), in turn
    with the task's. Departures: states are vectors, so no representation is learned, and the reward of the task is
    given, where the paper learns it from pictures of the goal; novelty is in units of its mean over the states so far,
    and bounded; the networks do not see the goal; each policy learns from the steps of both; demonstrations are in each
    batch, and goals are drawn anew, as for all methods here.

    novelty_steps: of the predicting network, for each step of an episode.

    >>> R3L().novelty_steps
    0.2
    """

    name: ClassVar[str] = "r3l"
    published: ClassVar[Mapping[str, float]] = {"tabletop-v0": 0.97, "sawyer-door-v0": 0.55, "sawyer-peg-v0": 0.0}
    traits: ClassVar[Traits | None] = Traits(perturbs=True)
    baseline: ClassVar[bool] = True
    novelty_steps: Annotated[float, Range(above=0, most=100)] = 0.2

    def fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        """Both agents, the random network, and the one that predicts it."""
        agents, sizes = super().fresh(size, n_actions, rng), (size, self.hidden, self.hidden, FEATURES)
        random, predicting = uniform_layers(sizes, rng), fresh_part(uniform_layers(sizes, rng))
        return {**agents, "random": random, "novelty": predicting, "usual": np.ones((), np.float32)}

    def reward(self, state: TurnState, tree: Tree, agent: int, after: Floats) -> Floats:
        """Novelty for the second policy."""
        if agent != BACKWARD:
            return super().reward(state, tree, agent, after)
        found = novelty(tree["random"], tree["novelty"]["network"], narrow(state.without_goal(after)))
        return np.minimum(found / float(tree["usual"]), LARGEST)

    def fit_others(self, state: TurnState, tree: Tree, lived: NDArray[np.int64], m: int) -> Tree:
        """The predicting network, on states of the latest episode, and what is usual."""
        rng, n = state.random(CHOOSING), max(1, round(self.novelty_steps * m))
        x = narrow(state.without_goal(state.rows.state[rng.choice(lived[-m:], (n, WIDE))]))
        part = fit(tree["novelty"], x, forward(tree["random"], x, rectified), np.float32(3e-4), binary=False)
        seen = narrow(state.without_goal(state.rows.state[rng.choice(lived, 8 * WIDE)]))
        usual = novelty(tree["random"], part["network"], seen).mean()
        return {**tree, "novelty": part, "usual": np.float32(max(usual, 1e-12))}


def novelty(random: Layers, predicting: Layers, s: Any) -> Floats:
    """[n] the squared error with which the random network is predicted in states [n, D]."""
    missed = forward(random, s, rectified) - forward(predicting, s, rectified)
    return np.asarray((np.asarray(missed, dtype=np.float64) ** 2).mean(axis=-1))
