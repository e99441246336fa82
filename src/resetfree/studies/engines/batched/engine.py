"""Float64 inside the engine, without a change to the user's JAX configuration.

Only NumPy arrays and opaque device values cross the boundary; nothing yields or calls back inside.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from resetfree.players import DualProgram, PrimalProgram
from resetfree.players.batched import BatchedScene, Shape, Tables, Turn, by_purpose, offsets_of, roll
from resetfree.studies.engines.batched import pcg64

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
    draws: pcg64.StreamDraws
    primal: dict[str, Any]  # the player's numbers, [rows] each, and arrays
    dual: dict[str, Any]
    feedback: Any  # index of the feedback in FEEDBACK


class BatchState(NamedTuple):
    """The state of the games of a block: all that a checkpoint must hold."""

    k: Any  # rounds played
    s1: Any  # [rows] start of the next episode
    rng: pcg64.Wide
    primal: Any
    dual: Any
    resets: Any  # [rows] resets so far
    reward: Any  # [rows] sum of rewards so far


def begin(program: Program, world: BatchWorld, s1: Any, rng: pcg64.Wide) -> BatchState:
    """The state before the first round, on the host."""
    zero, k = np.zeros(len(s1)), np.zeros((), dtype=np.int32)
    primal, dual = program.primal.begin(program.shape, world.primal), program.dual.begin(world.dual)
    return BatchState(k, s1, rng, primal, dual, resets=zero.astype(np.int32), reward=zero)


def play_round(program: Program, world: BatchWorld, now: BatchState) -> tuple[BatchState, dict[str, Array]]:
    """The state after one episode of every row, and its columns [rows]."""
    shape, tables = program.shape, world.tables
    k = now.k + 1
    rng, drawn = pcg64.uniforms(now.rng, world.draws)
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
