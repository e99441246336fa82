"""A run put back from its file, bit for bit: between two sessions, and whole from its seed, to compare the record.

The checkpoint of a timed run also holds the plans that later rounds may rest on. A run that is resumed for more
episodes than planned keeps its plan: the players keep the constants of the number that was planned, so that the run
plays the same rounds whenever that is decided, and can be replayed; from there on those that depend on the number are
tuned.

A replay of the whole run compares every number that can be recomputed with the record. It takes as long as the run did,
and holds for the machine and the versions of the run. A persistent environment, which keeps its own state, cannot be
replayed; but a timed run can, from its file: its players are given the recorded episodes, and make every plan again;
every recorded action is compared with that of the plan, of the recorded state and of the random numbers of (seed, k).
Rounds in which a deadline was missed, so that an action was held, are left out.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Floats, InvalidInput, NotCertifiable, ResetFreeError, RunError, state
from resetfree.core.certificate import Certificate
from resetfree.core.plain_tree import decode
from resetfree.game.contract import Round, depends_on_length
from resetfree.game.delayed import STARTS, DelayedGame, HeldPlan, RecordedDelays, reset_chance
from resetfree.game.fleet import FleetGame
from resetfree.game.loop import Game
from resetfree.problems import Choices, Note, Problem, World
from resetfree.problems.blueprint import Blueprint, check_start
from resetfree.problems.stepping import playable
from resetfree.runs.data.dataset import read_data, taught
from resetfree.runs.file import runfile
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.recorded import COLUMNS, FLEET, TIMING, ReplayedProblem, checked, columns_of
from resetfree.runs.file.runfile import Checkpoint
from resetfree.runs.recall import BROKEN, ROLES
from resetfree.runs.request import Who
from resetfree.runs.result import Run
from resetfree.runs.session import IN_CALLBACK
from resetfree.runs.setup import SAVED, Setup, arrays_of, as_timed, least_bound, prepare, rounds_of
from resetfree.theory.oracle import evaluator_of


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


ROUNDS = "both players play every round again as it is recorded, bit for bit (rounds that differ)"
ACTIONS = "every action on record is that of its plan, of the state on record and of chance (rounds that differ)"
CHECKPOINT = "the newest checkpoint is what the players knew then, bit for bit (entries that differ)"
SPEC = "everything else that the record says of its problem and its players is so (entries that differ)"
COMPARED = (*("fingerprint", "horizon", "n_states", "n_actions", "persistent", "blueprint", "statements"), *ROLES)


def whole_run(run: Run) -> list[Certificate]:
    """Certificates that replay a run: of its rounds, its newest checkpoint, and the rest of its spec.

    Of a timed run also of its actions.
    """
    timed = "timing" in run.spec and not _is_fleet(run)
    try:
        setup = _setup(run)
        kept = None if run.path is None else _checkpoint(run.path)
        played = (_play_timed if timed else _play)(run, setup, -1 if kept is None else kept.k)
    except (ResetFreeError, *BROKEN) as error:
        claims = (ROUNDS, *([ACTIONS] if timed else []), CHECKPOINT, SPEC)
        return [Certificate.not_applicable(claim, str(error)) for claim in claims]
    where = f"round {played.differ[0] + 1}" if played.differ else None
    found = [_none_differ(ROUNDS, len(played.differ), where, {"columns": sorted(played.names)})]
    if timed:
        where = f"round {played.acted[0] + 1}" if played.acted else None
        detail = {"compared": played.compared, "left_out": len(run) - played.compared}
        found.append(_none_differ(ACTIONS, len(played.acted), where, detail))
    if kept is None or not played.then:
        found.append(Certificate.not_applicable(CHECKPOINT, "there is none, or it is not of a round that was played"))
    else:
        found.append(_entries(CHECKPOINT, _checkpoint_differs(run, kept, played.then)))
    if isinstance(setup.world.problem, Blueprint):
        why = "the problem is not given: its players were played again with what the file says of it"
        return [*found, Certificate.not_applicable(SPEC, why)]
    return [*found, _entries(SPEC, _spec_differs(run, setup))]


class Played(NamedTuple):
    """What a replay found."""

    differ: list[int]  # the rounds that differ, from 0
    names: set[str]  # in which columns
    then: dict[str, Any]  # the state of the game when the checkpoint was made; empty if that was never
    acted: Sequence[int] = ()  # the rounds whose actions differ
    compared: int = 0  # rounds whose actions were compared


def _is_fleet(run: Run) -> bool:
    """Whether it is of several machines: a finite fleet plays the same rounds again."""
    return "machines" in run.spec.get("timing", {})


def _setup(run: Run) -> Setup:
    """The run before its first round, made again from the names and settings in its record."""
    spec = run.spec
    if spec["persistent"] and ("timing" not in spec or _is_fleet(run)):
        raise NotCertifiable("A persistent environment keeps its own state, so that its rounds cannot be played again.")
    if _is_fleet(run) and run.extended is not None:
        raise NotCertifiable("The fleet was extended: which episodes began before that depends on when it was.")
    world = World(_problem(run), run.mdp, spec["problem"], spec["problem_options"])
    who = Who(run.player_again("primal"), run.player_again("dual"), spec["feedback"])
    setup = prepare(world, who, episodes=spec["episodes"], seed=spec["seed"], before=spec)
    if run.path is not None and "data" in spec:
        with runfile.reading(run.path) as connection:
            given = read_data(connection, spec, run.path)
        setup.game.primal = taught(setup.primal, setup.game.primal, world.problem, given)
    return as_timed(setup, spec.get("timing"))


def _problem(run: Run) -> Problem:
    """The problem, or what the file says of it, which suffices where episodes are those of the record."""
    try:
        problem: Problem = run.problem_again()
        return problem
    except NotCertifiable:
        if not run.spec["persistent"]:
            raise
    described = Blueprint(run.spec["problem"], run.spec.get("blueprint"))
    described.persistent = True
    return described


def _checkpoint(path: Path) -> runfile.Checkpoint | None:
    with runfile.reading(path) as connection:
        return runfile.read_checkpoint(connection, path)


def _play(run: Run, setup: Setup, at: int) -> Played:
    """Play a run again, in its problem.  at: the round of its checkpoint."""
    game = setup.game
    rounds = rounds_of(setup, episodes=min(len(run), run.episodes), oracle=_oracle(run, setup.world.problem))
    differ: list[int] = []
    names: set[str] = set()
    then = _state(game) if at == 0 else {}
    for k, this in enumerate(rounds):
        wrong = _wrong_columns(run, k, columns_of(this), timing_of(game, this))
        names |= wrong
        differ += [k] if wrong else []
        if game.k == at:
            then = _state(game)
    return Played([*differ, *range(game.k, len(run))], names, then)


def _play_timed(run: Run, setup: Setup, at: int) -> Played:
    """Give the players the recorded episodes with the recorded delays, and compare what they make of them."""
    c, game, problem = run.columns, setup.game, setup.world.problem
    if run.path is None:
        raise NotCertifiable("A run without a file keeps no episodes, which a timed run is replayed from.")
    assert isinstance(game, DelayedGame)
    has_rate, last = "rate" in run.spec["timing"], min(len(run), run.episodes)
    schedule = RecordedDelays(c["based_on"]) if has_rate else None
    waits = not (problem.persistent or has_rate)  # then also what followed the actions is played again
    differ: list[int] = []
    acted: list[int] = []
    names: set[str] = set()
    compared = 0
    then = _state(game) if at == 0 else {}
    with runfile.reading(run.path) as connection:
        replayed = ReplayedProblem(problem, runfile.read_played(connection, run.path, 1, len(run)))
        rounds = rounds_of(
            setup, problem=replayed, episodes=last, oracle=_oracle(run, setup.world.problem), schedule=schedule
        )
        for k in range(last):
            if problem.persistent and not np.array_equal(c["s1"][k], game.s1):
                game.s1 = None  # a session began here, with a reset
            u = game.chance(max(problem.n_uniforms, problem.actions.n_uniforms * problem.horizon))
            try:
                this = next(rounds)
            except InvalidInput:  # the record contradicts itself
                last = k
                break
            wrong = _wrong_columns(run, k, columns_of(this), timing_of(game, this)[: 2 if has_rate else None])
            names |= wrong
            differ += [k] if wrong else []
            if c["missed"][k] == 0:
                compared += 1
                acted += [] if (_goes_so if waits else _acts_so)(problem, this, u) else [k]
            if game.k == at:
                then = _state(game)
    rest = range(last, len(run))
    return Played([*differ, *rest], names, then, [*acted, *rest], compared)


def _wrong_columns(run: Run, k: int, row: tuple[Any, ...], timing: tuple[Any, ...] = ()) -> set[str]:
    """The columns in which round k, from 0, differs from what was recorded."""
    found = dict(zip((*COLUMNS, *TIMING, *FLEET), (*row, *timing), strict=False))
    if found["next_start"] is None and run.columns["next_start"].dtype.kind in "if":
        found["next_start"] = runfile.NOWHERE
    return {name for name, value in found.items() if not _same(run.columns[name][k], value)}


def _goes_so(problem: Problem, this: Round, u: Floats) -> bool:
    """Whether an episode is the one that the problem plays with its plan and these random numbers."""
    one, other = this.episode, problem.rollout(this.plan.policy, this.s1, u)
    names = ("states", "actions", "rewards", "reset", "next_start")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def _acts_so(problem: Problem, this: Round, u: Floats) -> bool:
    """Whether the actions of an episode are those of its plan: see `stepping` for the order of random numbers."""
    episode, space = this.episode, problem.actions
    act, blocks = playable(this.plan.policy, problem).act, u[: space.n_uniforms * problem.horizon]
    chance = blocks.reshape(-1, problem.horizon).T
    for h, action in enumerate(episode.actions, 1):
        now = chance[h - 1, 0] if isinstance(space, Choices) else chance[h - 1]
        if not np.array_equal(act(h, episode.states[h - 1], now), action):
            return False
    return True


def _oracle(run: Run, problem: Problem) -> Any:
    return evaluator_of(run.mdp, problem)


def _state(game: Game) -> dict[str, Any]:
    """The entries of a checkpoint of the game as it is now."""
    copies = {name: np.array(array) for name, array in arrays_of(game).items()}
    return {**copies, "random numbers": dict(game.rng.bit_generator.state), "next start": game.s1}


def _checkpoint_differs(run: Run, kept: runfile.Checkpoint, then: dict[str, Any]) -> list[str]:
    """The entries of a checkpoint that differ from the state of the game then."""
    found = {**kept.arrays, "random numbers": kept.rng, "next start": kept.s1}
    left: set[str] = set()
    if "timing" in run.spec:  # its chance comes from (seed, k)
        left = {"random numbers"}
        left |= {SAVED} if "rate" in run.spec["timing"] else set()  # plans that were made and not played
        left |= {"next start"} if run.spec["persistent"] and kept.s1 is None else set()  # of a run before its reset
    return [name for name in {**then, **found} if name not in left and not _equal(then, found, name)]


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
        least = least_bound(run.mdp, setup.world.problem)
        differ += [] if least is None or least == spec["B"] else ["B_source"]
    elif spec["B_source"] != fresh["B_source"]:
        differ.append("B_source")
    return differ


def _entries(claim: str, differ: list[str]) -> Certificate:
    return _none_differ(claim, len(differ), ", ".join(differ[:3]) or None, {"differ": differ})


def _none_differ(claim: str, n: int, witness: str | None, detail: dict[str, Any]) -> Certificate:
    """The claim that n, a number of differences, is zero."""
    return Certificate(claim, n, 0.0, 0.0, "==", witness=witness, detail=detail, status="checked")


def _same(one: Any, other: Any) -> bool:
    """Equal, or both not a number."""
    both = isinstance(one, float) and isinstance(other, float) and np.isnan(one) and np.isnan(other)
    return bool(both) or bool(np.array_equal(one, other))


def timing_of(game: Game, this: Round) -> tuple[Any, ...]:
    """The values for `columns.TIMING` of a round that was just played in a world that waits; none if not timed.

    Of a fleet also those of `columns.FLEET`.
    """
    if isinstance(game, FleetGame):
        return game.timing()
    if not isinstance(game, DelayedGame):
        return ()
    return this.based_on, game.plans[this.based_on].digest, 0, math.nan
