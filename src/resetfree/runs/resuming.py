"""A run between two sessions: the checkpoint of its game, and the game of a file put back as it was, bit for bit.

The checkpoint of a timed run also holds the plans that later rounds may rest on. A run that is resumed for more
episodes than planned keeps its plan: the players keep the constants of the number that was planned, so that the run
plays the same rounds whenever that is decided, and can be replayed; from there on those that depend on the number are
tuned.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import state
from resetfree.core.errors import InvalidInput, RunError
from resetfree.core.plain_tree import decode, encode
from resetfree.game.contract import depends_on_length
from resetfree.game.delayed import DelayedGame, HeldPlan, reset_chance
from resetfree.game.fleet import FleetGame
from resetfree.game.loop import Game
from resetfree.problems.blueprint import check_start
from resetfree.problems.contract import Note, Problem
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.recorded import ReplayedProblem, checked
from resetfree.runs.file.runfile import Checkpoint, encode_start
from resetfree.runs.session import IN_CALLBACK
from resetfree.runs.setup import Setup, rounds_of
from resetfree.theory.oracle import evaluator_of

SAVED = "timing"  # the name of the plans among the arrays of a checkpoint
STARTS = ("fell", "life", "ahead")  # what is kept of a `DelayedGame` besides the plans


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


def replay_since(setup: Setup, ledger: Ledger, requested: Collection[int]) -> None:
    """Replay the rounds after the checkpoint to the players, drawing the same random numbers.

    requested: rounds after which a reset was requested.

    The state of a persistent environment is unknown afterwards: it needs a reset.
    """
    world, game = setup.world, setup.game
    replayed = ReplayedProblem(world.problem, ledger.played(game.k + 1, ledger.last))
    oracle = evaluator_of(world.mdp, world.problem) if setup.spec["feedback"] == "exact" else None
    rounds = rounds_of(setup, problem=replayed, episodes=ledger.last, oracle=oracle)
    try:
        for this in rounds:
            game.s1 = None if this.k in requested else game.s1
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


def saved_plans(game: Game) -> dict[str, NDArray[Any]]:
    """The plans that later rounds may rest on, as an array for the checkpoint; none if not timed."""
    if isinstance(game, FleetGame):
        return {SAVED: np.frombuffer(game.saved(), dtype=np.uint8)}
    if not isinstance(game, DelayedGame):
        return {}
    plans = [np.frombuffer(held.data, dtype=np.uint8) for held in game.plans.values()]
    tree = {"fell": game.fell, "life": game.life, "ahead": game.ahead, "plans": plans}
    return {SAVED: np.frombuffer(encode(tree), dtype=np.uint8)}


def restore_plans(problem: Problem, game: Game, k: int, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put the plans of a checkpoint of round k back; raises InvalidInput."""
    if not isinstance(game, DelayedGame | FleetGame):
        return
    found = arrays.get(SAVED)
    if found is None or found.dtype != np.uint8:
        raise InvalidInput("The checkpoint has no plans.")
    if isinstance(game, FleetGame):
        game.restore(found.tobytes())
        return
    tree = decode(found.tobytes(), {})
    if not isinstance(tree, dict) or tree.keys() != {*STARTS, "plans"} or not isinstance(tree["plans"], list):
        raise InvalidInput("The checkpoint's plans must be a list, with the newest reset and two starts.")
    if not all(isinstance(data, np.ndarray) and data.dtype == np.uint8 for data in tree["plans"]):
        raise InvalidInput("The checkpoint's plans must be bytes.")
    held = [HeldPlan.read(data.tobytes()) for data in tree["plans"]]
    numbers = [one.based_on for one in held]
    if type(tree["fell"]) is not int or not 0 <= tree["fell"] <= k:
        raise InvalidInput("The checkpoint's newest reset must be one of its rounds.")
    if numbers != sorted(set(numbers)) or any(not 0 <= j <= k for j in numbers):
        raise InvalidInput("The checkpoint's plans must rest on its rounds.")
    if k > 0:
        check_start(problem, tree["life"])
        check_start(problem, tree["ahead"])
    game.fell, game.life, game.ahead = (tree[name] for name in STARTS)
    game.plans = {one.based_on: one for one in held}
    game.rng = reset_chance(game.seed, k + 1)


def check_more(path: Path, planned: int, played: int, wanted: int) -> None:
    """Refuse to resume a run for fewer episodes than it has."""
    if wanted < planned:
        raise RunError(
            f"The run file '{path}' has {planned} episodes, of which {played} are played: it can be resumed for "
            f"{planned} or more, not for {wanted}."
        )


def extension_note(setup: Setup, wanted: int) -> Note:
    """What an extension means for the players' claims; raises InvalidInput for a number that a player cannot have."""
    planned, problem = setup.spec["episodes"], setup.world.problem
    players: list[Any] = [setup.primal, setup.dual]
    for player in players:
        player.init(problem, wanted, setup.spec["seed"])  # raises where it would not fit into memory
    tuned = [one.name for one in players if depends_on_length(one, problem, planned, wanted)]
    what = f"planned for {planned} episodes, extended to {wanted}: "
    if tuned:
        names = " and ".join(f"'{name}'" for name in tuned)
        what += f"the constants of {names} depend on that number and are tuned from episode {planned + 1} on"
    else:
        what += "no constant of its players depends on that number"
    return Note(0, what)
