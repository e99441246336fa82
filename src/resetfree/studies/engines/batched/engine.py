"""Float64 inside the engine, without a change to the user's JAX configuration.

Only NumPy arrays and opaque device values cross the boundary; nothing yields or calls back inside.

NumPy's default random numbers (PCG64) on the device, bit for bit, with jumps over unused draws.
Legend: a 128-bit number is a pair (hi, lo) of 64-bit ones. x' = M x + c is one step, M the multiplier and c the stream;
k steps are x -> M^k x + G_k c with G_k = 1 + M + .. + M^(k-1). A draw is the step's rotated hi ^ lo, its upper 53 bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from resetfree.core import Floats
from resetfree.players import DualProgram, PrimalProgram
from resetfree.players.batched import BatchedScene, Shape, Tables, Turn, by_purpose, offsets_of, roll

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


def after_first(seeds: Sequence[int]) -> tuple[Floats, Wide, Wide]:
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


P = ParamSpec("P")
T = TypeVar("T")


def in_float64(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` with 64-bit numbers in this thread, whatever the caller has set.

    >>> import jax.numpy as jnp
    >>> in_float64(lambda: str(jnp.ones(1).dtype))(), str(jnp.ones(1).dtype)
    ('float64', 'float32')
    """

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return inside


FEEDBACK = ("optimistic", "realised", "exact")  # cost signals of the dual player, see `resetfree.game.loop.FEEDBACK`


@dataclass(frozen=True)
class Program:
    """The static arguments of a segment: sizes and the compiled parts of the players. Equal programs compile once."""

    shape: Shape
    primal: PrimalProgram
    dual: DualProgram
    evaluate: bool
    columns: tuple[str, ...]

    @property
    def offsets(self) -> dict[str, Sequence[int]]:
        """By purpose, the positions of the uniforms that an episode uses."""
        return offsets_of(self.shape, self.primal.samples_actions)


class BatchWorld(NamedTuple):
    """The constant arrays of a program."""

    tables: Tables
    draws: StreamDraws
    primal: dict[str, Any]  # the player's numbers, [rows] each, and arrays
    dual: dict[str, Any]
    feedback: Any  # index of the feedback in FEEDBACK


class BatchState(NamedTuple):
    """The state of the games of a block: all that a checkpoint must hold."""

    k: Any  # rounds played
    s1: Any  # [rows] start of the next episode
    rng: Wide
    primal: Any
    dual: Any
    resets: Any  # [rows] resets so far
    reward: Any  # [rows] sum of rewards so far


def begin(program: Program, world: BatchWorld, s1: Any, rng: Wide) -> BatchState:
    """The state before the first round, on the host."""
    zero, k = np.zeros(len(s1)), np.zeros((), dtype=np.int32)
    primal, dual = program.primal.begin(program.shape, world.primal), program.dual.begin(world.dual)
    return BatchState(k, s1, rng, primal, dual, resets=zero.astype(np.int32), reward=zero)


def play_round(program: Program, world: BatchWorld, now: BatchState) -> tuple[BatchState, dict[str, Array]]:
    """The state after one episode of every row, and its columns [rows]."""
    shape, tables = program.shape, world.tables
    k = now.k + 1
    rng, drawn = uniforms(now.rng, world.draws)
    u = by_purpose(drawn, program.offsets)
    lam = program.dual.multiplier(world.dual, now.dual, now.s1)
    scene = BatchedScene(shape, tables, world.primal)
    plan = program.primal.plan(scene, now.primal, Turn(now.s1, lam, k, u), program.evaluate)
    path = roll(shape, tables, plan.actions, now.s1, u)
    signals = [plan.v_c, path.reset.astype(jnp.float64), *(plan.exact[1:] if plan.exact is not None else ())]
    g = jax.lax.select_n(world.feedback, *signals)
    clipped = jnp.minimum(jnp.maximum(g, 0.0), 1.0)
    dual = program.dual.learn(world.dual, now.dual, now.s1, k, g=clipped, was_reset=path.reset)
    primal = program.primal.learn(scene, now.primal, path, lam, plan)
    columns = {
        "s1": now.s1,
        "lam": lam,
        "v_r_hat": plan.v_r,
        "v_c_hat": plan.v_c,
        "upper": plan.upper,
        "cost_signal": g,
        "reward": path.total,
        "reset": path.reset,
        "steps": path.steps,
        "next_start": path.next_start,
    }
    if plan.exact is not None:
        columns |= {"v_r": plan.exact[0], "v_c": plan.exact[1]}
    resets, reward = now.resets + path.reset, now.reward + path.total
    then = BatchState(k, path.next_start, rng, primal, dual, resets=resets, reward=reward)
    return then, {name: columns[name] for name in program.columns}


@partial(jax.jit, static_argnames=("program", "length"))
def _segment(program: Program, world: BatchWorld, now: BatchState, length: int) -> tuple[BatchState, dict[str, Array]]:
    now, columns = jax.lax.scan(lambda x, _: play_round(program, world, x), now, length=length)
    return now, {name: column.T for name, column in columns.items()}


@in_float64
def play_segment(
    program: Program, world: BatchWorld, now: BatchState, length: int
) -> tuple[BatchState, dict[str, Array]]:
    """`length` rounds; returns at once, with values that the device may still be working on."""
    result: tuple[BatchState, dict[str, Array]] = _segment(program, world, now, length)
    return result
