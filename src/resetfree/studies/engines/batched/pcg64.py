"""NumPy's default random numbers (PCG64) on the device, bit for bit, with jumps over unused draws.

Legend: a 128-bit number is a pair (hi, lo) of 64-bit ones. x' = M x + c is one step, M the multiplier and c the stream;
k steps are x -> M^k x + G_k c with G_k = 1 + M + .. + M^(k-1). A draw is the step's rotated hi ^ lo, its upper 53 bits.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
MASK = (1 << 64) - 1
LOW = 0xFFFFFFFF


class Wide(NamedTuple):
    """128-bit integers as two arrays of 64-bit words, on the device or the host."""

    hi: Any
    lo: Any


class StreamDraws(NamedTuple):
    """The used draws of an episode: the constants of their jumps, and of the jump to the next episode."""

    times: Wide  # [n, 1] M^k
    plus: Wide  # [n, rows] G_k c


def split(numbers: Sequence[int]) -> Wide:
    """Python integers below 2^128 as two arrays of words."""
    return Wide(
        np.array([x >> 64 for x in numbers], dtype=np.uint64), np.array([x & MASK for x in numbers], dtype=np.uint64)
    )


def after_first(seeds: Sequence[int]) -> tuple[NDArray[np.float64], Wide, Wide]:
    """For each seed the first uniform of `np.random.default_rng(seed)`, the state after it, and the stream c."""
    first, states, streams = [], [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        first.append(rng.random())
        inner: Any = rng.bit_generator.state
        states.append(inner["state"]["state"])
        streams.append(inner["state"]["inc"])
    return np.array(first), split(states), split(streams)


def jump(steps: int) -> tuple[int, int]:
    """M^k and G_k modulo 2^128.

    >>> jump(1) == (MULTIPLIER, 1), jump(2)[1] == MULTIPLIER + 1
    (True, True)
    """
    power, total = 1, 0
    base, one = MULTIPLIER, 1  # of the jump over 2^i steps
    while steps:
        if steps & 1:
            power, total = power * base % (1 << 128), (total * base + one) % (1 << 128)
        base, one = base * base % (1 << 128), one * (base + 1) % (1 << 128)
        steps >>= 1
    return power, total


def draws(offsets: Sequence[int], n_uniforms: int, stream: Wide) -> StreamDraws:
    """The draws at `offsets` (from 0) of an episode of `n_uniforms`; the last jump ends the episode.

    Runs on the host: `multiply` works on NumPy arrays too.
    """
    jumps = [jump(at + 1) for at in offsets] + [jump(n_uniforms)]
    times, totals = split([x for x, _ in jumps]), split([x for _, x in jumps])
    times, totals = (Wide(x.hi[:, None], x.lo[:, None]) for x in (times, totals))
    return StreamDraws(times, multiply(totals, stream))


def uniforms(state: Wide, which: StreamDraws) -> tuple[Wide, Array]:
    """The state after the episode, and the uniforms [n - 1, rows] of the draws `which`."""
    every = add(multiply(which.times, state), which.plus)
    mixed, turn = every.hi ^ every.lo, every.hi >> np.uint64(58)
    turned = (mixed >> turn) | (mixed << ((np.uint64(64) - turn) & np.uint64(63)))
    u = (turned >> np.uint64(11)).astype(jnp.float64) * 2.0**-53
    return Wide(every.hi[-1], every.lo[-1]), u[:-1]


def add(x: Wide, y: Wide) -> Wide:
    """The sum modulo 2^128."""
    lo = x.lo + y.lo
    return Wide(x.hi + y.hi + (lo < x.lo).astype(jnp.uint64), lo)


def multiply(x: Wide, y: Wide) -> Wide:
    """The product modulo 2^128."""
    return Wide(_upper(x.lo, y.lo) + x.hi * y.lo + x.lo * y.hi, x.lo * y.lo)


def _upper(x: Array, y: Array) -> Array:
    """The upper 64 bits of the product of two words, from products of half words."""
    half, low = np.uint64(32), np.uint64(LOW)
    x1, x0, y1, y0 = x >> half, x & low, y >> half, y & low
    first, second = x1 * y0, x0 * y1
    carry = ((x0 * y0) >> half) + (first & low) + (second & low)
    return x1 * y1 + (first >> half) + (second >> half) + (carry >> half)
