"""Players that learn by soft actor-critic: when they learn, from which transitions, and what they plan.

Legend: see `actor_critic`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core.settings import Count, Range
from resetfree.game.contract import Plan, Round
from resetfree.players.model_based.machine_search import no_policy
from resetfree.players.neural.networks import forward, policy_of, rectified
from resetfree.players.neural.neural_players import MOST_PRICE, NeuralPlayer, NeuralState, start_vector
from resetfree.players.neural.replay_batches import Batch
from resetfree.players.requirements import check_multiplier
from resetfree.problems.contract import State

Draw: TypeAlias = Callable[[tuple[int, int]], Batch]  # (n, B) -> batches [n, B, ...]
TOGETHER = 64  # gradient steps in one call of the compiled program
BATCHES, NOISE = 2, 3  # purposes of random numbers


@dataclass(frozen=True)
class SoftPlayer(NeuralPlayer):
    """Soft actor-critic with two critics, slow targets and a temperature that is learned.

    The policy of an episode does not change within it: gradient steps follow at its end, `updates` for each of its
    steps. The first `warmup` steps take every action with equal probability, and nothing is learned in them.

    tau: the share by which targets follow the critics in each gradient step.
    """

    costs: ClassVar[bool] = False  # whether there are critics of cost, weighted with the dual player's multiplier
    tau: Annotated[float, Range(above=0, most=1)] = 0.005
    updates: Annotated[int, Range(1, 1000)] = 1
    warmup: Count = 100

    def fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        """Actor, critics, targets, temperature, and their optimisers."""
        from resetfree.players.neural.actor_critic import fresh_actor_critic

        return fresh_actor_critic(size, n_actions, self.hidden, self.costs, rng)

    def plan(self, state: NeuralState, s1: State, lam: float) -> Plan:
        """The actor's policy, whatever lam is; before anything is learned, every action is equally likely."""
        check_multiplier(lam)
        s = start_vector(s1)
        if state.updates == 0:
            return Plan(no_policy(state.box, len(s)), state.horizon / 2.0, 0.5)
        tree = state.tree
        policy = policy_of(tree["actor"], None, state.box)
        pair = np.concatenate([s, np.tanh(policy.outputs(s)[0])])
        worth = float(forward(tree["critics"], pair, rectified).min())
        v_c = float(np.clip(forward(tree["costs"], pair, rectified).max(), 0.0, 1.0)) if self.costs else state.falls()
        return Plan(policy, self.earnings(state, worth), v_c)

    def update(self, state: NeuralState, round: Round) -> NeuralState:
        """Keep the episode, and learn from all of them."""
        from resetfree.players.neural.actor_critic import Learning, improve

        state.rows.add(round.episode)
        taken = state.taken()
        if len(taken) < max(1, self.warmup):
            return state
        steps = self.updates * len(round.episode.actions)
        tree, draw = self.prepare(state, taken, len(round.episode.actions))
        how = Learning(*(np.float32(one) for one in (self.learning_rate, self.gamma, self.tau)))
        lam, seed = np.float32(min(round.lam, MOST_PRICE)), state.word(NOISE)
        for done in range(0, steps, TOGETHER):
            batches, count = draw((TOGETHER, self.batch)), np.int32(min(TOGETHER, steps - done))
            tree = improve(tree, batches, count=count, seed=seed, first=state.step(done), lam=lam, how=how)
        state.keep(tree, steps, self.name)
        return state

    def prepare(self, state: NeuralState, taken: NDArray[np.int64], steps: int) -> tuple[Any, Draw]:
        """The networks, and where their batches come from: all transitions, each equally likely.

        taken: the rows at which transitions begin.  steps: of the latest episode.
        """
        rng = state.random(BATCHES)
        return state.tree, lambda shape: self.priced(state, rng.choice(taken, shape))
