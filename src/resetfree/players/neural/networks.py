"""Networks of two hidden layers as plain arrays, and the policy that one of them makes. None of this needs JAX.

Legend: D numbers in a state, A in an action; u, v units of the hidden layers. A network is a tuple of pairs (weight
[in, out], offset [out]); n networks of one shape are one tuple of pairs (weight [n, in, out], offset [n, 1, out]).
`forward` is the same function for NumPy and for JAX: only the activation differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy.special import ndtri

from resetfree.core.state import require
from resetfree.problems.action_spaces import Box, from_unit
from resetfree.problems.contract import Policy, State
from resetfree.problems.finite.transitions import Floats

Layers: TypeAlias = tuple[tuple[Any, Any], ...]
LEAST_LOG, MOST_LOG = -20.0, 2.0  # logarithm of a policy's standard deviation
FAR = 1e6  # states are cut here: float32 has no square of much larger ones
LEAST_CHANCE = 1e-12  # the normal quantile of 0 is infinite


def forward(layers: Layers, x: Any, activation: Callable[[Any], Any]) -> Any:
    """[..., out] the network at x [..., in]; [n, ..., out] of n networks."""
    *hidden, (weight, offset) = layers
    for inner, shift in hidden:
        x = activation(x @ inner + shift)
    return x @ weight + offset


def rectified(x: Any) -> Any:
    """max(x, 0), in NumPy."""
    return np.maximum(x, 0.0)


def uniform_layers(sizes: tuple[int, ...], rng: np.random.Generator, copies: int | None = None) -> Layers:
    """Weights and offsets uniform within 1 / sqrt(in): how PyTorch begins, and so most actor-critics."""
    many = () if copies is None else (copies,)
    made = []
    for n, m in pairwise(sizes):
        shapes = (*many, n, m), (*many, 1, m) if many else (m,)
        weight, offset = (rng.uniform(-1.0, 1.0, shape) / sqrt(n) for shape in shapes)
        made.append((weight.astype(np.float32), offset.astype(np.float32)))
    return tuple(made)


def orthogonal_layers(sizes: tuple[int, ...], rng: np.random.Generator, last: float) -> Layers:
    """Orthogonal weights of gain sqrt(2), `last` in the last layer, and no offsets: how PPO begins."""
    made = []
    for i, (n, m) in enumerate(pairwise(sizes)):
        q, r = np.linalg.qr(rng.normal(size=(max(n, m), min(n, m))))
        q = q * np.sign(np.diag(r))
        gain = last if i == len(sizes) - 2 else sqrt(2.0)
        made.append(((gain * (q if n >= m else q.T)).astype(np.float32), np.zeros(m, dtype=np.float32)))
    return tuple(made)


@dataclass
class NetworkPolicy(Policy):
    """The action middle + half tanh(m(s) + e^l(s) z) of a box; m, l are a network's outputs, z is standard normal."""

    kind = "NetworkPolicy"
    axes: ClassVar[dict[str, str]] = dict(
        first="Du",
        first_offset="u",
        second="uv",
        second_offset="v",
        mean="vA",
        mean_offset="A",
        log="vA",
        log_offset="A",
        low="A",
        high="A",
    )
    stationary = True
    first: Floats  # [D, u]
    first_offset: Floats  # [u]
    second: Floats  # [u, v]
    second_offset: Floats  # [v]
    mean: Floats  # [v, A]
    mean_offset: Floats  # [A]
    log: Floats  # [v, A] of the logarithm of the standard deviation
    log_offset: Floats  # [A]
    low: Floats  # [A] the box
    high: Floats  # [A]
    smooth: bool = False  # whether hidden units are tanh; otherwise they are rectified

    def check_loaded(self) -> None:
        """Raise InvalidInput unless it has a box."""
        require((self.low <= self.high).all() and isinstance(self.smooth, bool), "policy must have a box of actions")

    def outputs(self, s: Any) -> tuple[Floats, Floats]:
        """[..., A] each: mean and standard deviation before tanh, in states s [..., D]."""
        x = np.clip(np.asarray(s, dtype=np.float64), -FAR, FAR)
        body = ((self.first, self.first_offset), (self.second, self.second_offset))
        activation = np.tanh if self.smooth else rectified
        x = activation(forward(body, x, activation))
        log = np.clip(x @ self.log + self.log_offset, LEAST_LOG, MOST_LOG)
        return x @ self.mean + self.mean_offset, np.exp(log)

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the action of the quantiles u; of u = 1/2 the tanh of the mean."""
        mean, deviation = self.outputs(np.atleast_1d(s))
        z = ndtri(np.clip(u, LEAST_CHANCE, 1.0 - LEAST_CHANCE))
        pushed = np.tanh(mean + deviation * z)
        return from_unit(pushed, self.low, self.high)


def policy_of(actor: Layers, log: Any, box: Box, *, smooth: bool = False) -> NetworkPolicy:
    """The policy of a network; its last A outputs are logarithms of standard deviations, unless `log` [A] holds them.

    >>> actor = uniform_layers((3, 8, 8, 2), np.random.default_rng(0))
    >>> policy = policy_of(actor, None, Box(-2.0, 2.0))
    >>> policy.mean.shape, policy.log.shape, abs(float(policy.mode(1, np.zeros(3))[0])) < 2
    ((8, 1), (8, 1), True)
    """
    (first, a), (second, b), (last, c) = [tuple(np.asarray(part, dtype=np.float64) for part in one) for one in actor]
    n, (low, high) = box.size, box.ends
    spread, offset = (last[:, n:], c[n:]) if log is None else (np.zeros_like(last), np.asarray(log, dtype=np.float64))
    parts = {"first": first, "first_offset": a, "second": second, "second_offset": b, "mean": last[:, :n]}
    parts |= {"mean_offset": c[:n], "log": spread, "log_offset": offset, "low": low, "high": high}
    return NetworkPolicy(**{name: np.ascontiguousarray(part) for name, part in parts.items()}, smooth=smooth)
