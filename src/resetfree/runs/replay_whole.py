"""Replay of a whole run from its seed: every number that can be recomputed is compared with the record.

It takes as long as the run did, and holds for the machine and the versions of the run. A persistent environment, which
keeps its own state, cannot be replayed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import state
from resetfree.core.certificate import Certificate
from resetfree.core.errors import NotCertifiable, ResetFreeError
from resetfree.game.loop import Game, play
from resetfree.problems.world import World
from resetfree.runs import runfile
from resetfree.runs.columns import COLUMNS, columns_of
from resetfree.runs.known_data import read_data, taught
from resetfree.runs.result import Run
from resetfree.runs.setup import Setup, prepare
from resetfree.runs.statements import BROKEN, ROLES
from resetfree.theory.assumptions import dual_class
from resetfree.theory.oracle.exact import Evaluator

ROUNDS = "both players play every round again as it is recorded, bit for bit (rounds that differ)"
CHECKPOINT = "the newest checkpoint is what the players knew then, bit for bit (entries that differ)"
ASKED = "everything else that the record says of its problem and its players is so (entries that differ)"
COMPARED = (*("fingerprint", "horizon", "n_states", "n_actions", "persistent", "blueprint", "statements"), *ROLES)


def whole_run(run: Run) -> list[Certificate]:
    """Certificates that replay a run: of its rounds, its newest checkpoint, and the rest of its spec."""
    try:
        setup = _setup(run)
        kept = None if run.path is None else _checkpoint(run.path)
        differ, names, then = _play(run, setup, -1 if kept is None else kept.k)
    except (ResetFreeError, *BROKEN) as error:
        return [Certificate.not_applicable(claim, str(error)) for claim in (ROUNDS, CHECKPOINT, ASKED)]
    where = f"round {differ[0] + 1}" if differ else None
    rounds = _none_differ(ROUNDS, len(differ), where, {"columns": sorted(names)})
    if kept is None or not then:
        checkpoint = Certificate.not_applicable(CHECKPOINT, "there is none, or it is not of a round that was played")
    else:
        found = {**kept.arrays, "random numbers": kept.rng, "next start": kept.s1}
        checkpoint = _entries(CHECKPOINT, [name for name in {**then, **found} if not _equal(then, found, name)])
    return [rounds, checkpoint, _entries(ASKED, _spec_differs(run, setup))]


def _setup(run: Run) -> Setup:
    """The run before its first round, made again from the names and settings in its record."""
    spec = run.spec
    if spec["persistent"]:
        raise NotCertifiable("A persistent environment keeps its own state, so that its rounds cannot be played again.")
    world = World(run.problem_again(), run.mdp, spec["problem"], spec["problem_options"])
    primal, dual = run.player_again("primal"), run.player_again("dual")
    episodes, seed, feedback = spec["episodes"], spec["seed"], spec["feedback"]
    setup = prepare(world, primal, dual, episodes=episodes, seed=seed, feedback=feedback, before=spec)
    if run.path is not None and "data" in spec:
        with runfile.reading(run.path) as connection:
            given = read_data(connection, spec, run.path)
        setup.game.primal = taught(setup.primal, setup.game.primal, world.problem, given)
    return setup


def _checkpoint(path: Path) -> runfile.Checkpoint | None:
    with runfile.reading(path) as connection:
        return runfile.read_checkpoint(connection, path)


def _play(run: Run, setup: Setup, at: int) -> tuple[list[int], set[str], dict[str, Any]]:
    """The rounds that differ, from 0, in which columns, and the state of the game after `at` rounds (empty: never)."""
    c, game, problem, feedback = run.columns, setup.game, setup.world.problem, run.spec["feedback"]
    episodes, oracle = min(len(run), run.episodes), None if run.mdp is None else Evaluator(run.mdp)
    rounds = play(problem, setup.primal, setup.dual, game, episodes=episodes, feedback=feedback, oracle=oracle)
    differ: list[int] = []
    names: set[str] = set()
    then = _state(game) if at == 0 else {}
    for k, this in enumerate(rounds):
        wrong = [name for name, value in zip(COLUMNS, columns_of(this), strict=True) if not _same(c[name][k], value)]
        names |= set(wrong)
        differ += [k] if wrong else []
        if game.k == at:
            then = _state(game)
    return [*differ, *range(game.k, len(run))], names, then


def _state(game: Game) -> dict[str, Any]:
    """The entries of a checkpoint of the game as it is now."""
    arrays = state.dump(game.primal, "primal.") | state.dump(game.dual, "dual.")
    copies = {name: np.array(array) for name, array in arrays.items()}
    return {**copies, "random numbers": dict(game.rng.bit_generator.state), "next start": game.s1}


def _equal(one: dict[str, Any], other: dict[str, Any], name: str) -> bool:
    if name not in one or name not in other:
        return False
    a, b = one[name], other[name]
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        floats: NDArray[Any] | bool = a.dtype.kind == b.dtype.kind == "f"
        return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=bool(floats)))
    return _same(a, b)


def _spec_differs(run: Run, setup: Setup) -> list[str]:
    """The keys of the recorded spec whose values differ from those of the players and the problem made again."""
    spec, fresh = run.spec, setup.spec
    differ = [key for key in COMPARED if key in spec and spec[key] != fresh[key]]
    if spec["B"] != fresh["B"]:
        differ.append("B")
    if spec["B_source"] == "oracle":
        least = None if run.mdp is None else dual_class(run.mdp).detail.get("B")
        differ += [] if least is None or least == spec["B"] else ["B_source"]
    elif spec["B_source"] != fresh["B_source"]:
        differ.append("B_source")
    return differ


def _entries(claim: str, differ: list[str]) -> Certificate:
    return _none_differ(claim, len(differ), ", ".join(differ[:3]) or None, {"differ": differ})


def _none_differ(claim: str, n: int, witness: str | None, detail: dict[str, Any]) -> Certificate:
    """The claim that n, a number of differences, is zero."""
    return Certificate(claim, n, 0.0, tolerance=0.0, kind="==", witness=witness, detail=detail)


def _same(one: Any, other: Any) -> bool:
    """Equal, or both not a number."""
    both = isinstance(one, float) and isinstance(other, float) and np.isnan(one) and np.isnan(other)
    return bool(both) or bool(np.array_equal(one, other))
