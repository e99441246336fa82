"""Networks of two hidden layers as plain arrays, and the policy that one of them makes. None of this needs JAX.

Legend: D numbers in a state, A in an action; u, v units of the hidden layers. A network is a tuple of pairs (weight
[in, out], bias [out]); n networks of one shape are one tuple of pairs (weight [n, in, out], bias [n, 1, out]).
`forward` is the same function for NumPy and for JAX: only the activation differs.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput, NotCertifiable
from resetfree.core.extras import NETWORKS
from resetfree.core.settings import Range
from resetfree.core.state import require
from resetfree.game.capabilities import Partner
from resetfree.game.contract import PrimalPlayer, Statement
from resetfree.game.replay_buffer import ReplayBuffer, check_pooling, empty_buffer
from resetfree.problems.action_spaces import Box, from_unit, to_unit
from resetfree.problems.contract import Policy, Problem, State
from resetfree.problems.formula import Formula

Layers: TypeAlias = tuple[tuple[Any, Any], ...]
LEAST_LOG, MOST_LOG = -20.0, 2.0  # logarithm of a policy's standard deviation
FAR = 1e6  # states are clipped here: float32 has no square of much larger ones
LEAST_CHANCE = 1e-12  # the normal quantile of 0 is infinite


def forward(layers: Layers, x: Any, activation: Callable[[Any], Any]) -> Any:
    """[..., out] the network at x [..., in]; [n, ..., out] of n networks."""
    *hidden, (weight, bias) = layers
    for inner, shift in hidden:
        x = activation(x @ inner + shift)
    return x @ weight + bias


def rectified(x: Any) -> Any:
    """max(x, 0), in NumPy."""
    return np.maximum(x, 0.0)


def uniform_layers(sizes: tuple[int, ...], rng: np.random.Generator, copies: int | None = None) -> Layers:
    """Weights and biases uniform within 1 / sqrt(in): the initialisation of PyTorch, and so of most actor-critics."""
    many = () if copies is None else (copies,)
    made = []
    for n, m in pairwise(sizes):
        shapes = (*many, n, m), (*many, 1, m) if many else (m,)
        weight, bias = (rng.uniform(-1.0, 1.0, shape) / sqrt(n) for shape in shapes)
        made.append((weight.astype(np.float32), bias.astype(np.float32)))
    return tuple(made)


def orthogonal_layers(sizes: tuple[int, ...], rng: np.random.Generator, last: float) -> Layers:
    """Orthogonal weights of gain sqrt(2), `last` in the last layer, and no biases: the initialisation of PPO."""
    made = []
    for i, (n, m) in enumerate(pairwise(sizes)):
        q, r = np.linalg.qr(rng.normal(size=(max(n, m), min(n, m))))
        q = q * np.sign(np.diag(r))
        gain = last if i == len(sizes) - 2 else sqrt(2.0)
        made.append(((gain * (q if n >= m else q.T)).astype(np.float32), np.zeros(m, dtype=np.float32)))
    return tuple(made)


def normal_layers(sizes: tuple[int, ...], rng: np.random.Generator, last: float, copies: int | None = None) -> Layers:
    """Normal weights of deviation 1.4 / sqrt(in), `last` / sqrt(in) in the last layer, and no biases."""
    many = () if copies is None else (copies,)
    made = []
    for i, (n, m) in enumerate(pairwise(sizes)):
        gain = last if i == len(sizes) - 2 else 1.4
        weight = rng.normal(size=(*many, n, m)) * gain / sqrt(n)
        made.append((weight.astype(np.float32), np.zeros((*many, 1, m) if many else m, dtype=np.float32)))
    return tuple(made)


@dataclass
class NetworkPolicy(Policy):
    """The action middle + half tanh(m(s) + e^l(s) z) of a box; m, l are a network's outputs, z is standard normal."""

    kind = "NetworkPolicy"
    axes: ClassVar[dict[str, str]] = dict(first="Du", first_bias="u", second="uv", second_bias="v", mean="vA") | dict(
        mean_bias="A", log="vA", log_bias="A", low="A", high="A"
    )
    stationary = True
    first: Floats  # [D, u]
    first_bias: Floats = field(metadata={"saved_as": "first_offset"})  # [u]
    second: Floats  # [u, v]
    second_bias: Floats = field(metadata={"saved_as": "second_offset"})  # [v]
    mean: Floats  # [v, A]
    mean_bias: Floats = field(metadata={"saved_as": "mean_offset"})  # [A]
    log: Floats  # [v, A] of the logarithm of the standard deviation
    log_bias: Floats = field(metadata={"saved_as": "log_offset"})  # [A]
    low: Floats  # [A] the box
    high: Floats  # [A]
    smooth: bool = False  # whether hidden units are tanh; otherwise they are rectified

    def check_loaded(self) -> None:
        """Raise InvalidInput unless it has a box."""
        require((self.low <= self.high).all() and isinstance(self.smooth, bool), "policy must have a box of actions")

    def outputs(self, s: Any) -> tuple[Floats, Floats]:
        """[..., A] each: mean and standard deviation before tanh, in states s [..., D]."""
        x = np.clip(np.asarray(s, dtype=np.float64), -FAR, FAR)
        body = ((self.first, self.first_bias), (self.second, self.second_bias))
        activation = np.tanh if self.smooth else rectified
        x = activation(forward(body, x, activation))
        log = np.clip(x @ self.log + self.log_bias, LEAST_LOG, MOST_LOG)
        return x @ self.mean + self.mean_bias, np.exp(log)

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the action of the quantiles u; of u = 1/2 the tanh of the mean."""
        mean, deviation = self.outputs(np.atleast_1d(s))
        z = ndtri(np.clip(u, LEAST_CHANCE, 1.0 - LEAST_CHANCE))
        pushed = np.tanh(mean + deviation * z)
        return from_unit(pushed, self.low, self.high)

    def formula(self, state: Formula) -> Formula:
        """The mode, for export."""
        layers = ((self.first, self.first_bias), (self.second, self.second_bias), (self.mean, self.mean_bias))
        return state.clip(-FAR, FAR).layers(layers, self.smooth).tanh().in_box(self.low, self.high)


def policy_of(actor: Layers, log: Any, box: Box, *, smooth: bool = False) -> NetworkPolicy:
    """The policy of a network; its last A outputs are logarithms of standard deviations, unless `log` [A] holds them.

    >>> actor = uniform_layers((3, 8, 8, 2), np.random.default_rng(0))
    >>> policy = policy_of(actor, None, Box(-2.0, 2.0))
    >>> policy.mean.shape, policy.log.shape, abs(float(policy.mode(1, np.zeros(3))[0])) < 2
    ((8, 1), (8, 1), True)
    """
    (first, a), (second, b), (last, c) = [tuple(np.asarray(part, dtype=np.float64) for part in one) for one in actor]
    n, (low, high) = box.size, box.ends
    spread, bias = (last[:, n:], c[n:]) if log is None else (np.zeros_like(last), np.asarray(log, dtype=np.float64))
    parts = {"first": first, "first_bias": a, "second": second, "second_bias": b, "mean": last[:, :n]}
    parts |= {"mean_bias": c[:n], "log": spread, "log_bias": bias, "low": low, "high": high}
    return NetworkPolicy(**{name: np.ascontiguousarray(part) for name, part in parts.items()}, smooth=smooth)


# Batches for networks from the stored transitions: float32, actions on [-1, 1].


class Minibatch(NamedTuple):
    """Transitions, the same leading axes in each field."""

    state: Any  # [..., D]
    action: Any  # [..., A] in [-1, 1]
    reward: Any  # [...]
    next_state: Any  # [..., D]
    terminated: Any  # [...] 1 where `next_state` is a reset state


def replayed(rows: ReplayBuffer, index: NDArray[np.int64], ends: tuple[Floats, Floats]) -> Minibatch:
    """A batch from the replay buffer.

    index: [...] the rows at which its transitions begin.
    ends: [A] each, of the box of actions.
    """
    return Minibatch(
        state=narrow(rows.state[index]),
        action=narrow(to_unit(rows.action[index], *ends)),
        reward=narrow(rows.reward[index]),
        next_state=narrow(rows.state[index + 1]),
        terminated=narrow(rows.terminated[index + 1]),
    )


def narrow(numbers: Any) -> NDArray[np.float32]:
    """Numbers as float32, clipped where it would overflow."""
    return np.asarray(np.clip(numbers, -FAR, FAR), dtype=np.float32)


# --------------------------------------------------------------------------------------------------------------------

Discount: TypeAlias = Annotated[float, Range(0, below=1)]
Rate: TypeAlias = Annotated[float, Range(above=0, most=1)]
Price: TypeAlias = Annotated[float, Range(0, 1e6)]
Size: TypeAlias = Annotated[int, Range(1, 65_536)]
MOST_PRICE = 1e6  # multipliers are clipped here: float32 has no square of much larger ones
LATELY = 1000  # latest states by which falls are predicted where no network does
LOWER = "'learning_rate', 'price' or 'reward_scale'"
INSTALL = f"needs JAX and optax, which are not installed: {NETWORKS}"


@dataclass(kw_only=True)
class Trained:
    """Networks and optimisers as a list of arrays, and the number of their gradient steps so far."""

    learned: list[NDArray[Any]]
    gradient_steps: int = field(default=0, metadata={"saved_as": "updates"})
    form: Any = field(metadata={"saved": False})  # of the tree whose leaves are `learned`
    seed: int = field(metadata={"saved": False})

    @property
    def tree(self) -> Any:
        """Networks and optimisers by name."""
        return self.form.unflatten(self.learned)

    def keep(self, tree: Any, gradient_steps: int, name: str, lower: str = LOWER) -> None:
        """Keep the networks after further gradient steps; raises InvalidInput if they are not finite.

        lower: the settings to lower in that case, in words.
        """
        self.gradient_steps += gradient_steps
        learned = [np.array(leaf) for leaf in self.form.flatten_up_to(tree)]
        if not all(np.isfinite(leaf).all() for leaf in learned):
            raise InvalidInput(
                f"The networks of '{name}' must be finite. Got others after {self.gradient_steps} gradient steps: "
                f"give a smaller {lower}."
            )
        self.learned = learned

    def random(self, purpose: int) -> np.random.Generator:
        """Random numbers for the next gradient steps."""
        return np.random.default_rng([self.seed, purpose, self.gradient_steps])

    def word(self, purpose: int) -> np.uint32:
        """The seed for a purpose, as JAX takes it."""
        return np.uint32(np.random.SeedSequence([self.seed, purpose]).generate_state(1)[0])

    def step(self, further: int) -> np.uint32:
        """The number of a gradient step after the next one, as JAX takes it."""
        return np.uint32((self.gradient_steps + further) % 2**32)


@dataclass(kw_only=True)
class NeuralState(Trained):
    """All transitions, and the networks that learn from them."""

    rows: ReplayBuffer
    horizon: int = field(metadata={"saved": False})
    box: Box = field(metadata={"saved": False})

    def taken(self) -> NDArray[np.int64]:
        """The rows at which a transition begins."""
        return np.flatnonzero(self.rows.taken(self.rows.n))

    def falls(self) -> float:
        """The probability of a fall in an episode, by how often the agent fell lately."""
        terminated = self.rows.terminated[max(0, self.rows.n - LATELY) : self.rows.n]
        return float(1.0 - (1.0 - (terminated.sum() + 0.5) / (len(terminated) + 1.0)) ** self.horizon)


@dataclass(frozen=True)
class NeuralPlayer(PrimalPlayer[NeuralState]):
    """A player with networks; its settings are those that all of them have.

    hidden: units in each of two hidden layers.
    learning_rate: of all networks.
    batch: transitions in a gradient step.
    gamma: the discount.
    price: the cost of a fall, in rewards.
    reward_scale: factor of rewards and price.
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
        """Fresh networks; refuses states that are no vectors, and raises InvalidInput without JAX."""
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
            rows=empty_buffer(problem), learned=learned, form=form, horizon=problem.horizon, seed=seed, box=box
        )

    @abstractmethod
    def fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        """Networks and optimisers before the first gradient step; size: D. The first call that needs JAX."""

    def priced(self, state: NeuralState, index: NDArray[np.int64]) -> Minibatch:
        """The transitions that begin at some rows, with the price of falls in their rewards."""
        return self.charged(replayed(state.rows, index, state.box.ends))

    def charged(self, batch: Minibatch) -> Minibatch:
        """The same transitions, their rewards reward_scale (r - price d)."""
        return batch._replace(reward=narrow(self.reward_scale * (batch.reward - self.price * batch.terminated)))

    def earnings(self, state: NeuralState, value: float) -> float:
        """The reward of an episode, by a discounted value: H times its mean per step, within what is possible."""
        mean = (1.0 - self.gamma) * value / self.reward_scale
        return float(np.clip(mean, 0.0, 1.0) * state.horizon)

    @classmethod
    def partner(cls) -> Partner:
        """A constant penalty of 0: the price of a fall is a setting."""
        return Partner("constant-penalty", "realised", {"C": 0.0})

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved."""
        constants: dict[str, Any] = {"hidden": self.hidden, "gamma": self.gamma, "price": self.price}
        return Statement(constants, False, "no theorem covers networks that are trained by gradient steps")


def leaves_of(name: str, fresh: Callable[[], Any]) -> tuple[list[NDArray[Any]], Any]:
    """The arrays of the tree that `fresh` makes, and its form; raises InvalidInput if JAX or optax is missing.

    name: of the player, for the message.
    fresh: the first call that needs JAX.
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
