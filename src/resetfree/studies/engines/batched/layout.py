"""A batch in memory: its program, its rows in blocks, and its state as named NumPy arrays and back, bit for bit.

Rows are played in blocks. On a CPU a block has a fixed number of rows (the last block is padded with copies), so that
the numbers of a row do not depend, bit for bit, on the number of rows; on other devices all rows are one block.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import numpy as np

from resetfree.core.arguments import whole
from resetfree.core.arrays import Ints
from resetfree.core.errors import InvalidInput, NotCertifiable
from resetfree.players import BatchedForm, Role, discover, has_batched_form
from resetfree.players.batched import shape_of, tables_of
from resetfree.problems.contract import Problem
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.world import find_world
from resetfree.runs.request import Who
from resetfree.runs.setup import Setup, prepare
from resetfree.studies.engines.batched import pcg64
from resetfree.studies.engines.batched.engine import FEEDBACK, BatchState, BatchWorld, Program, begin, in_float64

CPU_ROWS = 16  # rows of a block on a CPU: enough for its vectors, few enough for its caches
WRITTEN_OUT = 32  # the longest horizon that is unrolled on an accelerator


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that are played together: their indices in the batch, and the arrays of the program for them."""

    rows: Ints  # [b] indices in the batch; in the arrays, copies of the last row follow
    world: BatchWorld


@dataclass(frozen=True, eq=False)
class Ready:
    """Everything that is needed to play a batch."""

    mdp: FiniteMDP
    program: Program
    blocks: list[Block]
    start: list[BatchState]  # of each block
    seeds: Ints  # [n] of each row
    setting: Ints  # [n]


def settings_of(
    problem: Any, primal: Any, dual: Any, *, episodes: int, seeds: Sequence[int], feedback: str, B: float | None
) -> list[Setup]:
    """One setup per setting, checked as by `learn`."""
    lists = [list(players) if isinstance(players, list | tuple) else [players] for players in (primal, dual)]
    n = max(len(players) for players in lists)
    if not all(len(players) in (1, n) and players for players in lists):
        raise InvalidInput(
            "The lists of primal and dual players must be of one length (or one player). "
            f"Got {len(lists[0])} and {len(lists[1])} instead."
        )
    if len(seeds) == 0:
        raise InvalidInput("The 'seeds' of a batch must name at least one seed. Got none instead.")
    for seed in seeds:
        whole(seed, "'seeds' of a batch", 0)
    world = find_world(problem)
    pairs = zip(*(players * n if len(players) == 1 else players for players in lists), strict=True)
    players = [Who(p, d, feedback, B) for p, d in pairs]
    setups = [prepare(world, who, episodes=episodes, seed=int(seeds[0])) for who in players]
    if any(setup.spec["feedback"] != setups[0].spec["feedback"] for setup in setups):
        raise InvalidInput("The settings of one batch must have one feedback. Got several instead.")
    return setups


@in_float64
def make_ready(setups: list[Setup], seeds: Sequence[int], evaluate: bool, columns: tuple[str, ...]) -> Ready:
    """Make the program and its arrays, and move these to the device; nothing is compiled yet."""
    mdp = setups[0].world.mdp
    if mdp is None:
        raise NotCertifiable("The batched engine needs a finite problem whose model is known.")
    problem, spec = mdp.problem(), setups[0].spec
    primals = _forms("primal", [s.primal for s in setups], problem, spec["episodes"])
    duals = _forms("dual", [s.dual for s in setups], problem, spec["episodes"])
    primal, dual = primals[0].program, duals[0].program
    on_cpu = jax.default_backend() == "cpu"
    shape = shape_of(mdp, not on_cpu and mdp.horizon <= WRITTEN_OUT)
    program = Program(shape, primal, dual, evaluate or spec["feedback"] == "exact", columns)
    offsets = [at for part in program.offsets.values() for at in part]
    tables, feedback = jax.device_put((tables_of(mdp, shape), np.int32(FEEDBACK.index(spec["feedback"]))))

    seed_of = np.tile(np.array(seeds, dtype=np.int64), len(setups))
    setting = np.repeat(np.arange(len(setups)), len(seeds))
    blocks, start = [], []
    width = CPU_ROWS if on_cpu else len(seed_of)
    for first in range(0, len(seed_of), width):
        rows = np.arange(first, min(first + width, len(seed_of)))
        filled = np.append(rows, np.full(width - len(rows), rows[-1]))
        here = [int(seed) for seed in seed_of[filled]]
        u, state, stream = pcg64.after_first(here)
        given = _per_row(primals, setting[filled])
        if hasattr(primal, "by_seed"):
            given |= primal.by_seed(problem, here)
        draws = pcg64.draws(offsets, shape.n_uniforms, stream)
        world = BatchWorld(tables, draws, given, _per_row(duals, setting[filled]), feedback)
        s1 = np.array([problem.first_start(float(x)) for x in u], dtype=np.int32)
        now = begin(program, world, s1, state)
        blocks.append(Block(rows, jax.device_put(world)))
        start.append(jax.device_put(now))
    return Ready(mdp, program, blocks, start, seeds=seed_of, setting=setting)


def _forms(role: Role, players: Sequence[Any], problem: Problem, episodes: int) -> list[BatchedForm]:
    """The batched form of each player; their programs must be the same."""
    forms: list[BatchedForm] = []
    for player in players:
        if not has_batched_form(type(player)):
            names = ", ".join(sorted(name for name, cls in discover(role).items() if has_batched_form(cls)))
            what = getattr(player, "name", type(player).__name__)
            raise InvalidInput(f"The batched engine plays {names}. Got '{what}' instead.")
        forms.append(player.batched_form(problem, episodes))
        if type(player) is not type(players[0]) or forms[-1].program != forms[0].program:
            raise InvalidInput(
                f"The settings of one batch must differ in numbers only. Got {players[0]} and {player} instead."
            )
    return forms


def _per_row(forms: Sequence[BatchedForm], setting: Ints) -> dict[str, Any]:
    """Numbers as [rows], by the setting of each row; arrays are the same for all settings."""
    return {
        name: value
        if isinstance(value, np.ndarray)
        else np.array([float(form.numbers[name]) for form in forms])[setting]
        for name, value in forms[0].numbers.items()
    }


Arrays: TypeAlias = dict[str, np.ndarray[Any, Any]]
REQUEST = "asked"  # the name of the digest of the request among the arrays


def _named(now: BatchState) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(now)[0]
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]


def dump(now: Sequence[BatchState], blocks: Sequence[Block], request: str) -> Arrays:
    """Every array by its path, all rows together, with a digest of the request of the batch."""
    parts: dict[str, list[np.ndarray[Any, Any]]] = {}
    for current, block in zip(now, blocks, strict=True):
        for name, leaf in _named(current):
            parts.setdefault(name, []).append(np.asarray(leaf)[..., : len(block.rows)] if leaf.ndim else leaf)
    arrays = {name: np.concatenate(x, axis=-1) if x[0].ndim else np.asarray(x[0]) for name, x in parts.items()}
    return {REQUEST: np.array(request), **arrays}


@in_float64
def load(saved: Arrays, fresh: Sequence[BatchState], blocks: Sequence[Block], request: str) -> list[BatchState]:
    """The states that `dump` saved, in the structure of the fresh states of the same batch."""
    if str(saved.get(REQUEST, "")) != request:
        raise InvalidInput("The state must come from a batch with the same arguments. Got that of another instead.")
    n_rows = sum(len(block.rows) for block in blocks)
    result = []
    for current, block in zip(fresh, blocks, strict=True):
        leaves = []
        for name, leaf in _named(current):
            there = saved.get(name)
            shape = (*leaf.shape[:-1], n_rows) if leaf.ndim else ()
            if there is None or there.shape != shape or there.dtype != leaf.dtype:
                raise InvalidInput(f"The state must hold '{name}' as it was saved. Got something else instead.")
            if leaf.ndim:
                filled = np.append(block.rows, np.full(leaf.shape[-1] - len(block.rows), block.rows[-1]))
                there = there[..., filled]
            leaves.append(jax.device_put(there))
        result.append(jax.tree.unflatten(jax.tree.structure(current), leaves))
    return result
