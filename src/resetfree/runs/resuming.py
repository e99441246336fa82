"""A run between two sessions: the checkpoint of its game, and the game of a file put back as it was, bit for bit."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import state
from resetfree.core.errors import InvalidInput, RunError
from resetfree.game.loop import Game
from resetfree.problems.blueprint import check_start
from resetfree.problems.contract import Problem
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.recorded import ReplayedProblem, checked
from resetfree.runs.file.runfile import Checkpoint, encode_start
from resetfree.runs.session import IN_CALLBACK
from resetfree.runs.setup import Setup
from resetfree.runs.timed import restore_plans, rounds_of, saved_plans
from resetfree.theory.oracle.exact import evaluator_of


def start_type(setup: Setup) -> str:
    """The SQL type of the starts of this problem, see `runfile.START_TYPES`."""
    if setup.world.problem.n_states is not None:
        return "INTEGER"
    if setup.game.s1 is None:
        return "TEXT"
    if isinstance(setup.game.s1, float | np.floating):
        return "REAL"
    encode_start(setup.game.s1)  # raises if it cannot be kept
    return "TEXT"


def checkpoint_of(game: Game, seconds: float) -> Checkpoint:
    """The state of the game between two rounds, after so many seconds; raises InvalidInput if it cannot be saved."""
    arrays = state.dump(game.primal, "primal.") | state.dump(game.dual, "dual.") | saved_plans(game)
    state.check_arrays(arrays)
    return Checkpoint(game.k, seconds, dict(game.rng.bit_generator.state), game.s1, arrays)


def restore(
    problem: Problem, game: Game, checkpoint: Checkpoint | None, own: dict[str, NDArray[Any]], ledger: Ledger
) -> None:
    """Restore a fresh game from the checkpoint, and the problem's own state `own` from after the last round."""
    try:
        if own:
            problem.restore(own)
        if checkpoint is None:
            return
        game.rng.bit_generator.state = checkpoint.rng
        for side in ("primal", "dual"):
            fresh = getattr(game, side)
            if state.is_replayed(fresh):
                state.replay(fresh, (one.episode for one in checked(problem, ledger.played(1, checkpoint.k))))
            setattr(game, side, state.load(fresh, checkpoint.arrays, f"{side}."))
        if checkpoint.s1 is not None or not problem.persistent:
            check_start(problem, checkpoint.s1)
        restore_plans(problem, game, checkpoint.k, checkpoint.arrays)
    except (InvalidInput, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        why = " ".join(str(error).split())
        raise RunError(
            f"The checkpoint in '{ledger.path}' does not fit this problem or these players: {why}"
        ) from error
    game.k, game.s1 = checkpoint.k, checkpoint.s1


def replay_since(setup: Setup, ledger: Ledger, asked: Collection[int]) -> None:
    """Replay the rounds after the checkpoint to the players, drawing the same random numbers.

    asked: rounds after which a reset was asked for.

    The state of a persistent environment is unknown afterwards: it needs a reset.
    """
    world, game = setup.world, setup.game
    replayed = ReplayedProblem(world.problem, ledger.played(game.k + 1, ledger.last))
    oracle = evaluator_of(world.mdp, world.problem) if setup.spec["feedback"] == "exact" else None
    rounds = rounds_of(setup, problem=replayed, episodes=ledger.last, oracle=oracle)
    try:
        for this in rounds:
            game.s1 = None if this.k in asked else game.s1
    except InvalidInput as error:
        why = " ".join(str(error).split())
        raise RunError(f"The rounds in '{ledger.path}' do not fit this problem or these players: {why}") from error
    if world.problem.persistent:
        game.s1 = None


@contextmanager
def nonsense_refused(setup: Setup, file: Path) -> Iterator[None]:
    """Raise RunError where our own code fails on numbers of a file that pass every check."""
    try:
        yield
    except (ArithmeticError, LookupError, ValueError) as error:
        # Exceptions of a user's own code propagate as they are.
        if any(note.startswith(IN_CALLBACK) for note in getattr(error, "__notes__", ())):
            raise
        if not all(type(x).__module__.startswith(state.OWN) for x in (setup.primal, setup.dual, setup.world.problem)):
            raise
        raise RunError(
            f"The run in '{file}' cannot be resumed: its players fail on the numbers in its checkpoint "
            f"({type(error).__name__}: {' '.join(str(error).split())})."
        ) from error
