"""Model-based policy optimisation with a price on falls: soft actor-critic on short lives imagined by an ensemble.

After Janner, Fu, Zhang and Levine (2019, "When to trust your model") and Thomas, Luo and Ma (2021, "Safe reinforcement
learning by imagining the near future"). Kept: an ensemble of networks that predict means and variances, lives of a few
steps from states that were visited, one member drawn at each step, many gradient steps of the actor-critic per step, a
small share of real transitions in each batch, a large price for imagined falls. Adapted: falls are predicted by the
ensemble too (Thomas et al. know which states are unsafe); the ensemble is trained for a fixed number of gradient steps
at the end of each episode, in place of a validation set and elite members; imagined transitions are not kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.settings import Fraction, Range
from resetfree.players.neural.neural_players import NeuralState, Price, Rate, Size
from resetfree.players.neural.replay_batches import Batch, replayed
from resetfree.players.neural.soft_players import Draw, SoftPlayer

TOGETHER = 16  # gradient steps of the ensemble in one call of the compiled program
FITTING, STARTING, IMAGINING = 5, 6, 7  # purposes of random numbers


@dataclass(frozen=True)
class MBPO(SoftPlayer):
    """Soft actor-critic on rewards r - price d of imagined transitions, and a share `real` of those that happened.

    members, model_hidden, model_rate: the ensemble.  fits: its gradient steps for each step of an episode.
    imagined: lives that are imagined after each episode, each of `ahead` steps.

    >>> MBPO().price, MBPO().updates
    (100.0, 20)
    """

    name: ClassVar[str] = "mbpo"
    baseline: ClassVar[bool] = True
    price: Price = 100.0
    updates: Annotated[int, Range(1, 1000)] = 20
    members: Annotated[int, Range(1, 100)] = 5
    model_hidden: Annotated[int, Range(1, 4096)] = 200
    model_rate: Rate = 1e-3
    fits: Annotated[int, Range(1, 1000)] = 4
    imagined: Size = 4096
    ahead: Annotated[int, Range(1, 100)] = 4
    real: Fraction = 0.05

    def fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        """The actor-critic and the ensemble."""
        from resetfree.players.neural.imagined_ensemble import fresh_ensemble

        agent = super().fresh(size, n_actions, rng)
        return {**agent, **fresh_ensemble(size, n_actions, self.model_hidden, self.members, rng)}

    def prepare(self, state: NeuralState, taken: NDArray[np.int64], steps: int) -> tuple[Any, Draw]:
        """Fit the ensemble and imagine lives in it: batches are drawn from both, real and imagined."""
        from resetfree.players.neural.imagined_ensemble import fit, imagine, scales_of

        tree, real_draw = super().prepare(state, taken, steps)
        ends, rng = state.box.ends, state.random(FITTING)
        scales, shape = scales_of(replayed(state.rows, taken, ends)), (TOGETHER, self.members, self.batch)
        fits, rate = self.fits * steps, np.float32(self.model_rate)
        for done in range(0, fits, TOGETHER):
            batches, count = replayed(state.rows, rng.choice(taken, shape), ends), min(TOGETHER, fits - done)
            tree = fit(tree, batches, count=np.int32(count), rate=rate, scales=scales)
        starts = replayed(state.rows, state.random(STARTING).choice(taken, self.imagined), ends).state
        seed, first = state.word(IMAGINING), state.step(0)
        lived = imagine(tree, starts, seed=seed, first=first, scales=scales, ahead=self.ahead)
        pool = self.charged(Batch(*(np.asarray(one).reshape(-1, *one.shape[2:]) for one in lived)))
        return tree, lambda shape: self._mixed(pool, real_draw, shape, rng)

    def _mixed(self, pool: Batch, real_draw: Draw, shape: tuple[int, int], rng: np.random.Generator) -> Batch:
        """Batches [n, B, ...] whose first entries are real."""
        n, size = shape
        real = round(self.real * size)
        picks = rng.integers(len(pool.reward), size=(n, size - real))
        parts = zip(real_draw((n, real)), (one[picks] for one in pool), strict=True)
        return Batch(*(np.concatenate(pair, axis=1) for pair in parts))
