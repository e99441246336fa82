"""The whole run made once more, from its seed: every number that can be had again is compared with the record.

It takes as long as the run did, and holds for the machine and the versions that the run was made with. What a world did
that keeps its own state cannot be done once more.
"""

from __future__ import annotations

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
from resetfree.runs.result import Run
from resetfree.runs.setup import Setup, prepare
from resetfree.runs.statements import BROKEN
from resetfree.theory.assumptions import dual_class
from resetfree.theory.oracle.exact import Evaluator

ROUNDS = "both players play every round again as it is recorded, bit for bit (rounds that differ)"
CHECKPOINT = "the newest checkpoint is what the players knew then, bit for bit (entries that differ)"
ASKED = "everything else that the record says of its problem and its players is so (entries that differ)"
COMPARED = (
    "fingerprint",
    "horizon",
    "n_states",
    "n_actions",
    "persistent",
    "blueprint",
    "statements",
    "primal",
    "dual",
)


def whole_run(run: Run) -> list[Certificate]:
    """Everything that can be recomputed of a run: its rounds, its newest checkpoint, and what it says was asked for."""
    try:
        setup = _setup(run)
        kept = None if run.path is None else _checkpoint(run)
        differ, names, then = _play(run, setup, -1 if kept is None else kept.k)
    except (ResetFreeError, *BROKEN) as error:
        return [Certificate.not_applicable(claim, str(error)) for claim in (ROUNDS, CHECKPOINT, ASKED)]
    where = f"round {differ[0] + 1}" if differ else None
    rounds = Certificate(ROUNDS, len(differ), 0.0, 0.0, "==", where, {"columns": sorted(names)})
    if kept is None or not then:
        checkpoint = Certificate.not_applicable(CHECKPOINT, "there is none, or it is not of a round that was played")
    else:
        found = {**kept.arrays, **_stand(kept.rng, kept.s1)}
        checkpoint = _entries(CHECKPOINT, [name for name in {**then, **found} if not _equal(then, found, name)])
    return [rounds, checkpoint, _entries(ASKED, _asked_otherwise(run, setup))]


def _setup(run: Run) -> Setup:
    """The run before its first round, made again from the names and settings in its record."""
    spec = run.spec
    if spec["persistent"]:
        raise NotCertifiable("What a world did that keeps its own state cannot be done once more.")
    world = World(run.problem_again(), run.mdp, spec["problem"], spec["problem_options"])
    primal, dual = run.player_again("primal"), run.player_again("dual")
    return prepare(world, primal, dual, spec["episodes"], spec["seed"], spec["feedback"], None, {}, before=spec)


def _checkpoint(run: Run) -> runfile.Checkpoint | None:
    assert run.path is not None
    connection = runfile.connect(run.path, "ro")
    try:
        with runfile.sentences(run.path):
            return runfile.read_checkpoint(connection, run.path)
    finally:
        connection.close()


def _play(run: Run, setup: Setup, at: int) -> tuple[list[int], set[str], dict[str, Any]]:
    """The rounds that differ, from 0, in which columns, and where the game stood after `at` rounds (empty: never)."""
    spec, c, game, problem = run.spec, run.columns, setup.game, setup.world.problem
    rounds = play(
        problem, setup.primal, setup.dual, game, episodes=min(len(run), spec["episodes"]), feedback=spec["feedback"],
        oracle=None if run.mdp is None else Evaluator(run.mdp),
    )  # fmt: skip
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
    """What a checkpoint of this moment holds."""
    arrays = state.dump(game.primal, "primal.") | state.dump(game.dual, "dual.")
    copies = {name: np.array(array) for name, array in arrays.items()}
    return {**copies, **_stand(dict(game.rng.bit_generator.state), game.s1)}


def _stand(rng: dict[str, Any], s1: Any) -> dict[str, Any]:
    return {"random numbers": rng, "next start": s1}


def _equal(one: dict[str, Any], other: dict[str, Any], name: str) -> bool:
    if name not in one or name not in other:
        return False
    a, b = one[name], other[name]
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        floats: NDArray[Any] | bool = a.dtype.kind == b.dtype.kind == "f"
        return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=bool(floats)))
    return _same(a, b)


def _asked_otherwise(run: Run, setup: Setup) -> list[str]:
    """What the record says of itself and its parts do not."""
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
    where = ", ".join(differ[:3]) or None
    return Certificate(claim, len(differ), 0.0, 0.0, "==", where, {"differ": differ})


def _same(one: Any, other: Any) -> bool:
    """Equal, or both not a number."""
    both = isinstance(one, float) and isinstance(other, float) and np.isnan(one) and np.isnan(other)
    return bool(both) or bool(np.array_equal(one, other))
