"""What players with networks share: their settings, their state as plain arrays, and what they require.

Networks and optimisers are a tree of JAX, kept as the list of its arrays: so a checkpoint holds plain numbers, and what
is loaded has the types and shapes that `init` made. Everything random follows from the seed and the number of gradient
steps so far, so a run that is resumed on the same machine goes on bit for bit.

Legend: D numbers in a state, A in an action; H steps in an episode.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput, NotCertifiable
from resetfree.core.settings import Range
from resetfree.game.capabilities import Partner
from resetfree.game.contract import PrimalPlayer, Statement
from resetfree.players.neural.replay_batches import Batch, narrow, replayed
from resetfree.players.replay_buffer import StoredRows, check_pooling, no_rows
from resetfree.players.suitability import NETWORKS
from resetfree.problems.action_spaces import Box
from resetfree.problems.contract import Problem, State

Discount: TypeAlias = Annotated[float, Range(0, below=1)]
Rate: TypeAlias = Annotated[float, Range(above=0, most=1)]
Price: TypeAlias = Annotated[float, Range(0, 1e6)]
Size: TypeAlias = Annotated[int, Range(1, 65_536)]
MOST_PRICE = 1e6  # multipliers are cut here: float32 has no square of much larger ones
LATELY = 1000  # latest states by which falls are predicted where no network does
LOWER = "'learning_rate', 'price' or 'reward_scale'"
INSTALL = f"needs JAX and optax, which are not installed: {NETWORKS}"


@dataclass(kw_only=True)
class Trained:
    """Networks and optimisers as a list of arrays, and how many gradient steps they had."""

    learned: list[NDArray[Any]]
    updates: int = 0
    form: Any = field(metadata={"saved": False})  # of the tree whose leaves are `learned`
    seed: int = field(metadata={"saved": False})

    @property
    def tree(self) -> Any:
        """Networks and optimisers by name."""
        return self.form.unflatten(self.learned)

    def keep(self, tree: Any, updates: int, name: str, lower: str = LOWER) -> None:
        """Keep what was learned in further gradient steps; raises InvalidInput if it is not finite.

        lower: the settings that are to blame.
        """
        self.updates += updates
        learned = [np.array(leaf) for leaf in self.form.flatten_up_to(tree)]
        if not all(np.isfinite(leaf).all() for leaf in learned):
            raise InvalidInput(
                f"The networks of '{name}' must be finite. Got others after {self.updates} gradient steps: "
                f"give a smaller {lower}."
            )
        self.learned = learned

    def random(self, purpose: int) -> np.random.Generator:
        """Random numbers for the next gradient steps."""
        return np.random.default_rng([self.seed, purpose, self.updates])

    def word(self, purpose: int) -> np.uint32:
        """The seed for a purpose, as JAX takes it."""
        return np.uint32(np.random.SeedSequence([self.seed, purpose]).generate_state(1)[0])

    def step(self, further: int) -> np.uint32:
        """The number of a gradient step after the next one, as JAX takes it."""
        return np.uint32((self.updates + further) % 2**32)


@dataclass(kw_only=True)
class NeuralState(Trained):
    """All transitions, and what networks learned of them."""

    rows: StoredRows
    horizon: int = field(metadata={"saved": False})
    box: Box = field(metadata={"saved": False})

    def taken(self) -> NDArray[np.int64]:
        """The rows at which a transition begins."""
        return np.flatnonzero(self.rows.taken(self.rows.n))

    def falls(self) -> float:
        """The probability of a fall in an episode, by how often the agent fell lately."""
        dead = self.rows.dead[max(0, self.rows.n - LATELY) : self.rows.n]
        return float(1.0 - (1.0 - (dead.sum() + 0.5) / (len(dead) + 1.0)) ** self.horizon)


@dataclass(frozen=True)
class NeuralPlayer(PrimalPlayer[NeuralState]):
    """A player with networks; its settings are those that all of them have.

    hidden: units in each of two hidden layers.  batch: transitions in a gradient step.  gamma: the discount.
    price: what a fall costs, in rewards.  reward_scale: what rewards and price are multiplied with.
    """

    vectors_only: ClassVar[bool] = True
    action_spaces: ClassVar[tuple[type, ...]] = (Box,)
    hidden: Annotated[int, Range(1, 4096)] = 256
    learning_rate: Rate = 3e-4
    batch: Size = 256
    gamma: Discount = 0.99
    price: Price = 0.0
    reward_scale: Annotated[float, Range(above=0, most=1e6)] = 1.0

    def init(self, problem: Problem, episodes: int, seed: int) -> NeuralState:
        """Networks that have learned nothing; refuses states that are no vectors, and what is not installed."""
        box = problem.actions
        if problem.low is None or problem.n_states is not None or not isinstance(box, Box):
            raise NotCertifiable(
                f"The player '{self.name}' needs states that are vectors and actions that are a Box. "
                f"Got '{problem.name}' instead."
            )
        check_pooling(problem, self.name)
        size, rng = len(problem.low), np.random.default_rng([seed, 1])
        learned, form = leaves_of(self.name, lambda: self.fresh(size, box.size, rng))
        return NeuralState(
            rows=no_rows(problem), learned=learned, form=form, horizon=problem.horizon, seed=seed, box=box
        )

    @abstractmethod
    def fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        """Networks and optimisers before the first gradient step; size: D. The first call that needs JAX."""

    def priced(self, state: NeuralState, index: NDArray[np.int64]) -> Batch:
        """The transitions that begin at some rows, with the price of falls in their rewards."""
        return self.charged(replayed(state.rows, index, state.box.ends))

    def charged(self, batch: Batch) -> Batch:
        """The same transitions, their rewards reward_scale (r - price d)."""
        return batch._replace(reward=narrow(self.reward_scale * (batch.reward - self.price * batch.dead)))

    def earnings(self, state: NeuralState, value: float) -> float:
        """The reward of an episode, by a discounted value: H times its mean per step, within what is possible."""
        mean = (1.0 - self.gamma) * value / self.reward_scale
        return float(np.clip(mean, 0.0, 1.0) * state.horizon)

    @classmethod
    def partner(cls) -> Partner:
        """Nobody: the price of a fall is a setting."""
        return Partner("constant-penalty", "realised", {"C": 0.0})

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved."""
        constants: dict[str, Any] = {"hidden": self.hidden, "gamma": self.gamma, "price": self.price}
        return Statement(constants, False, "no theorem covers networks that are trained by gradient steps")


def leaves_of(name: str, fresh: Callable[[], Any]) -> tuple[list[NDArray[Any]], Any]:
    """The arrays of the tree that `fresh` makes, and its form; raises InvalidInput if JAX or optax is missing.

    name: of the player, for the sentence.  fresh: the first call that needs JAX.
    """
    try:
        import jax

        tree = fresh()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("jax", "jaxlib", "optax"):
            raise
        raise InvalidInput(f"The player '{name}' {INSTALL}.") from error
    leaves, form = jax.tree.flatten(tree)
    return [np.array(leaf) for leaf in leaves], form  # copies: no two leaves share memory


def start_vector(s1: State) -> NDArray[np.float32]:
    """[D] a start, as networks take it."""
    return narrow(np.atleast_1d(np.asarray(s1, dtype=np.float64)))
