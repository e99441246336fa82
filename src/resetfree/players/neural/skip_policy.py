"""A linear policy and a small network that corrects it. None of this needs JAX.

Legend: D numbers in a state, A in an action; u, v units of the hidden layers; z = (s - centre) / scale. An actor is
{"skip": (weight [D, A], bias [A]), "net": layers (D -> u -> v -> A)}, on the scale of z:  a = tanh(skip(z) + net(z))
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy.special import ndtri

from resetfree.core.arrays import Floats
from resetfree.core.state import require
from resetfree.players.neural.networks import FAR, LEAST_CHANCE, Layers, forward, uniform_layers
from resetfree.problems.action_spaces import Box, from_unit
from resetfree.problems.contract import Policy, State
from resetfree.problems.features.scaling import Scaling
from resetfree.problems.formula import Formula

Actor: TypeAlias = dict[str, Any]


def first_actor(theta: Floats, hidden: int, rng: np.random.Generator) -> Actor:
    """The actor that begins as the policy theta [A, D + 1]: the last layer of its network is 0."""
    n_actions, size = theta.shape[0], theta.shape[1] - 1
    *inner, (weight, bias) = uniform_layers((size, hidden, hidden, n_actions), rng)
    layers = (*inner, (np.zeros_like(weight), np.zeros_like(bias)))
    narrow = theta.astype(np.float32)
    return {"skip": (np.ascontiguousarray(narrow[:, :-1].T), narrow[:, -1].copy()), "net": layers}


def pushes(actor: Actor, z: Any, activation: Any) -> Any:
    """[..., A] the actor's output before tanh, in z [..., D]; the same for NumPy and JAX."""
    weight, bias = actor["skip"]
    return z @ weight + bias + forward(actor["net"], z, activation)


@dataclass
class SkipPolicy(Policy):
    """The action middle + half (tanh(weight.s + bias + network(s)) + noise n) of a box; n is standard normal."""

    kind = "SkipPolicy"
    axes: ClassVar[dict[str, str]] = dict(
        weight="AD",
        bias="A",
        first="Du",
        first_bias="u",
        second="uv",
        second_bias="v",
        last="vA",
        last_bias="A",
        low="A",
        high="A",
    )
    stationary = True
    weight: Floats  # [A, D]
    bias: Floats = field(metadata={"saved_as": "offset"})  # [A]
    first: Floats  # [D, u]
    first_bias: Floats = field(metadata={"saved_as": "first_offset"})  # [u]
    second: Floats  # [u, v]
    second_bias: Floats = field(metadata={"saved_as": "second_offset"})  # [v]
    last: Floats  # [v, A]
    last_bias: Floats = field(metadata={"saved_as": "last_offset"})  # [A]
    low: Floats = field(metadata={"fixed": True})  # [A] the box
    high: Floats = field(metadata={"fixed": True})  # [A]
    noise: float = 0.0  # deviation of actions on [-1, 1], while it learns

    def check_loaded(self) -> None:
        """Raise InvalidInput unless it has a box and a noise."""
        require((self.low <= self.high).all() and self.noise >= 0.0, "policy must have a box of actions and a noise")

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the action of the quantiles u; of u = 1/2 the one without noise."""
        x = np.clip(np.atleast_1d(np.asarray(s, dtype=np.float64)), -FAR, FAR)
        layers = (self.first, self.first_bias), (self.second, self.second_bias), (self.last, self.last_bias)
        pushed = np.tanh(self.weight @ x + self.bias + forward(layers, x, np.tanh))
        normal = ndtri(np.clip(u, LEAST_CHANCE, 1.0 - LEAST_CHANCE))
        return from_unit(np.clip(pushed + self.noise * normal, -1.0, 1.0), self.low, self.high)

    def formula(self, state: Formula) -> Formula:
        """The mode, for export."""
        x = state.clip(-FAR, FAR)
        layers = (self.first, self.first_bias), (self.second, self.second_bias), (self.last, self.last_bias)
        pushed = x.affine(self.weight.T, self.bias).add(x.layers(layers, smooth=True))
        return pushed.tanh().in_box(self.low, self.high)


def skip_policy(actor: Actor, scaling: Scaling, box: Box, noise: float = 0.0) -> SkipPolicy:
    """The policy of an actor, for states that are not scaled."""
    weight, bias, *rest = (np.asarray(part, dtype=np.float64) for part in (*actor["skip"], *_flat(actor["net"])))
    first, first_bias, *others = rest
    inner, outer = first / scaling.scale[:, None], weight / scaling.scale[:, None]
    first_bias = first_bias - scaling.centre @ inner
    second, second_bias, last, last_bias = others
    low, high = box.ends
    return SkipPolicy(
        weight=np.ascontiguousarray(outer.T),
        bias=bias - scaling.centre @ outer,
        first=inner,
        first_bias=first_bias,
        second=second,
        second_bias=second_bias,
        last=last,
        last_bias=last_bias,
        low=low,
        high=high,
        noise=noise,
    )


def _flat(layers: Layers) -> list[Any]:
    return [part for layer in layers for part in layer]
