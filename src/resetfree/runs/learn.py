"""`learn`: play the game, keep every round, and resume after any interruption with the same result, bit for bit.

All randomness comes from one seed. Every round is committed before a reset is requested, and at the latest after
`checkpoint_every` seconds, together with a checkpoint: the state of the game between two rounds. Resuming restores the
newest checkpoint, and replays the rounds since to the players.
"""

from __future__ import annotations

import dataclasses
import inspect
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core import arguments, state
from resetfree.core.arguments import flag, real, whole
from resetfree.core.errors import EnvironmentFailed, InvalidInput, ResetFreeError, RunError
from resetfree.core.interrupts import held
from resetfree.core.settings import check, expect
from resetfree.game.contract import DualPlayer, PrimalPlayer, Round
from resetfree.game.loop import Game, play, reset_if_due
from resetfree.players import Role
from resetfree.problems.blueprint import check_start
from resetfree.problems.contract import Problem
from resetfree.problems.operators import Operator
from resetfree.problems.world import World, find_world
from resetfree.runs.columns import COLUMNS, columns_of
from resetfree.runs.followed import followed
from resetfree.runs.ledger import Contents, Ledger, read
from resetfree.runs.newfile import raise_unsaved
from resetfree.runs.recall import TrainedPlayer
from resetfree.runs.recorded import ReplayedProblem, checked
from resetfree.runs.result import Run
from resetfree.runs.runfile import Checkpoint, encode_start, plain_row
from resetfree.runs.setup import Setup, check_settings, prepare
from resetfree.runs.spec import difference
from resetfree.runs.statements import classes_of
from resetfree.runs.stuck import STUCK, WHEN_STUCK, Watch, asked_after, check_asking, notice
from resetfree.theory.oracle.exact import Evaluator

Progress: TypeAlias = Callable[[Game, Round], object]
REWARD = COLUMNS.index("reward")
LEAST_REST = 20  # checkpoints of a large state take at most 1 / LEAST_REST of the time
FIRST = 0.1  # seconds to the first checkpoint, so that a young run can be read


class Stopped(ResetFreeError):
    """The user stopped a run (Ctrl-C). It is saved, and `run` holds its rounds."""

    def __init__(self, run: Run) -> None:
        where = "" if run.path is None else f", saved in '{run.path}'"
        super().__init__(f"Stopped after {len(run)} of {run.spec['episodes']} episodes{where}.")
        self.run = run


def learn(
    problem: Any,
    primal: str | PrimalPlayer[Any] = "auto",
    dual: str | DualPlayer[Any] = "auto",
    *,
    episodes: int = 2000,
    seed: int = 0,
    feedback: str = "auto",
    path: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    B: float | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Progress | None = None,
    checkpoint_every: float = 2.0,
    max_resets: int | None = None,
    operator: Operator | None = None,
    ask: Literal["never", "when-stuck"] | None = None,
) -> Run:
    """Play `episodes` rounds of the two-player game on a problem, and keep every round.

    problem: a FiniteMDP, a Problem, anything with a method `problem()`, or what the command line takes.
    primal, dual: names, module:Class or players. "auto" (see `auto.choose`) picks what suits the problem, and the run
      says why; with a named primal player, "auto" is its partner: the paper's dual and feedback, unless it declares
      another; some have a partner and settings for the problem by their name alone (`AdaptsToProblem`).
    settings: {"primal": {...}, "dual": {...}}, and {"problem": {...}} for a problem that is given by name.
    feedback: the cost signal of the dual player, see `game.FEEDBACK`, or "auto".
    B: bound on the multipliers for players that need one (default: the least one, computed by the oracle if available).
    path: the run file (default: none is written).  overwrite: whether it may replace a run file.
    resume: continue the run of that file, with the same arguments; a finished run is only read.
    progress: called after every round with the game and the round.
    checkpoint_every: seconds between two checkpoints (less at the start), the most that a crash can lose; rounds before
      a reset by an operator are never lost.
    max_resets: end the run after so many resets; it can be resumed later with a larger number.
    operator: performs the resets during this call, if the problem needs an operator (default: the problem's own).
    ask: "when-stuck" has the agent put back when the run stands still (`runs.stuck`): resets that are counted apart,
      and that no player sees; "never" (default) only notes it. A resumed run goes on as it began.

    Ctrl-C ends the run after the current round, saves it and raises `Stopped`; a second one, or one during a request to
    an operator, ends it at once. On the command line SIGTERM does the same. If a player, the problem or the operator
    raises, the rounds so far are saved before the exception propagates.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", episodes=50, seed=1)
    >>> len(run), int(run.realised_resets[-1]), round(float(run.resets[-1]))
    (50, 9, 9)
    """
    resume, overwrite = flag(resume, "'resume' of learn"), flag(overwrite, "'overwrite' of learn")
    given = check_settings(settings)
    every = real(checkpoint_every, "'checkpoint_every' of learn", finite=False)
    expect(progress is None or callable(progress), "'progress' of learn", "be a function", progress)
    if path is None and (resume or overwrite):
        raise InvalidInput("Only a run in a file can be resumed or overwritten. Got no 'path' instead.")
    if max_resets is not None:
        whole(max_resets, "'max_resets' of a run", 1)
    check(ask, Literal["never", "when-stuck"] | None, "'ask' of learn")
    if resume and overwrite:
        raise InvalidInput("A run is either resumed or overwritten. Got both instead.")
    file = None if path is None else arguments.path(path, "'path' of learn")
    played = partial(_play_rounds, progress=progress, every=every, max_resets=max_resets, operator=operator)
    with find_world(problem, given.get("problem")) as world:  # closed when the run ends, if it was made here
        if operator is not None:
            _check_operator(world)
        if ask == WHEN_STUCK:
            check_asking(world.problem)
        prepared = partial(
            prepare, world, primal, dual, episodes=episodes, seed=seed, feedback=feedback, B=B, settings=given
        )
        if not resume or file is None:
            setup = prepared()
            setup.spec.update({"ask": ask} if ask == WHEN_STUCK else {})
            _checkpoint(setup.game, 0.0)  # what cannot be saved is refused before the first round
            ledger = Ledger.create(file, setup.spec, starts=_start_type(setup), overwrite=overwrite)
            return played(setup, ledger, 0.0, Watch.of(world.problem))
        ledger = Ledger.reopen(file)
        try:
            setup = prepared(before=ledger.spec)
            different = difference(ledger.spec, setup.spec)
            if different or ask not in (None, asks := ledger.spec.get("ask", "never")):
                raise RunError(f"The run file '{file}' {different or f'was made with ask={asks!r}, not {ask!r}'}.")
            setup = dataclasses.replace(setup, spec=ledger.spec)
            k, seconds = ledger.saved()
            if k >= episodes:
                run = _run(world, ledger.contents(), file)
                ledger.close()
                return run
            checkpoint, saved = ledger.newest()
            if "after_goal" not in ledger.spec and world.problem.units is None:
                world.problem.units = (0.0, 1.0)  # a run from before they were learned
            _restore(world.problem, setup.game, checkpoint, saved, ledger)
            before, watch = ledger.contents(), Watch.of(world.problem)
            with _nonsense_refused(setup, file):
                _replay(setup, ledger, asked_after(before.interventions) if world.problem.persistent else ())
                watch.replay(before.columns, before.interventions)
            setup.game.why = "resume"
            ledger.resume(_checkpoint(setup.game, seconds))
        except BaseException:
            ledger.close()
            raise
        with _nonsense_refused(setup, file):
            return played(setup, ledger, seconds, watch)


def load(
    path: str | Path,
    problem: Any = None,
    options: Mapping[str, Any] | None = None,
    *,
    primal: str | type[PrimalPlayer[Any]] | None = None,
    dual: str | type[DualPlayer[Any]] | None = None,
) -> Run:
    """Read a run file, also while it is being written.

    problem: the problem of the run. A registered one is made again automatically (unless it has changed since, or is
    large); any other must be given for what needs the oracle (`regret`, `resets`): no code is run because a file names
    it.
    options: of a problem that is given by name, those that are not taken from a file: code, and what makes it large.
    primal, dual: the classes of players that are not registered, or module:Class; their settings are those of the file.
    """
    file = arguments.path(path, "'path' of load")
    contents = read(file)
    spec = contents.spec
    players = classes_of(spec, {"primal": primal, "dual": dual}, file)
    made = partial(_run, contents=contents, file=file, players=players)
    if problem is not None:
        if isinstance(problem, str):
            options = followed({**spec, "problem": problem}, options, Path(path))
        with find_world(problem, options) as world:
            if world.fingerprint != spec["fingerprint"]:
                raise RunError(f"The run file '{path}' holds a run of another problem ('{spec['problem']}').")
            return made(world)
    if ":" in spec["problem"]:
        return made(None)
    try:
        found = find_world(spec["problem"], followed(spec, options))
    except Exception:  # not registered here, or not with these options, which may be forged
        if options:
            raise
        return made(None)
    return made(found if found.fingerprint == spec["fingerprint"] else None)


def _play_rounds(
    setup: Setup,
    ledger: Ledger,
    before: float,
    watch: Watch,
    *,
    progress: Progress | None,
    every: float,
    max_resets: int | None,
    operator: Operator | None,
) -> Run:
    """The loop of a run, after `before` seconds in earlier sessions; closes the ledger."""
    world, game, file, clock = setup.world, setup.game, ledger.path, time.monotonic
    as_text = _start_type(setup) == "TEXT"
    oracle = None if world.mdp is None else Evaluator(world.mdp)
    episodes, feedback = setup.spec["episodes"], setup.spec["feedback"]
    rounds = play(world.problem, setup.primal, setup.dual, game, episodes=episodes, feedback=feedback, oracle=oracle)
    problem, resets, asks = world.problem, ledger.resets(), setup.spec.get("ask") == WHEN_STUCK
    append, start = ledger.append, clock()
    began, due = start - before, start + min(every, FIRST)
    between = True  # whether the game is between two rounds: only then is its state consistent

    names = _checkpoint(game, 0.0).arrays.keys()

    def save(*, everything: bool) -> None:
        """Commit all rounds and the problem's own state, with a checkpoint if `everything`."""
        checkpoint = _checkpoint(game, clock() - began) if everything else None
        if checkpoint is not None and checkpoint.arrays.keys() != names:
            other = min(checkpoint.arrays.keys() ^ names)
            raise InvalidInput(
                f"The state of a player must keep its structure. Got '{other}' in round {game.k} or at the start only: "
                "keep the same fields, keys and lengths, and let arrays grow instead."
            )
        ledger.commit(checkpoint, problem.saved())

    with held(getattr(progress, "stopping", None)) as stop, ledger:
        try:
            while game.k < episodes and not stop:
                if max_resets is not None and resets >= max_resets:
                    break
                if game.s1 is None:
                    if game.k > 0:  # an operator may take long: the rounds so far must be safe by then
                        save(everything=False)
                    try:
                        with stop.at_once():
                            reset_if_due(problem, game, operator)
                    finally:  # also if the environment fails after a reset by an operator
                        ledger.intervened(dataclasses.replace(one, k=game.k) for one in problem.interventions())
                    resets += game.why == STUCK
                    watch.moved()
                between = False
                this = next(rounds)
                between = True
                row, episode = columns_of(this), this.episode
                append(plain_row(row, as_text), episode)
                resets += episode.reset
                if watch.see(this.k, this.s1, row[REWARD], episode.reset, episode.next_start, goals=episode.goals):
                    notice(watch, problem, asks)
                    if asks:
                        game.s1, game.why = None, STUCK
                game.stuck = watch.words
                if problem.noted:
                    ledger.note(this.k, problem.noted, problem.saved())
                    problem.noted.clear()
                if progress is not None:
                    progress(game, this)
                if clock() >= due:
                    then = clock()
                    save(everything=True)
                    due = clock() + max(min(every, then - start), LEAST_REST * (clock() - then))
            save(everything=True)
        except BaseException as error:
            if ledger.broken or (ledger.untouched and not isinstance(error, KeyboardInterrupt)):
                if ledger.empty:
                    ledger.discard()  # nothing was played or saved: do not leave an empty file in the way
                    if isinstance(error, RunError):
                        raise_unsaved(file, error)
                raise
            try:
                whole = (between or isinstance(error, EnvironmentFailed)) and ledger.last == game.k
                if whole or problem.persistent or not problem.saved():
                    save(everything=whole and _checkpoint(game, 0.0).arrays.keys() == names)
                else:  # the problem is ahead of the rounds: those since the last commit are played again
                    ledger.abandon()
            except ResetFreeError as failure:
                error.add_note(f"The last rounds could not be saved: {failure}")
                raise error from None
            if isinstance(error, KeyboardInterrupt):
                raise Stopped(_run(world, ledger.contents(), file, setup if whole else None)) from None
            raise
        run = _run(world, ledger.contents(), file, setup)
        if stop and len(run) < episodes:
            raise Stopped(run)
        return run


def _start_type(setup: Setup) -> str:
    """The SQL type of the starts of this problem, see `runfile.START_TYPES`."""
    if setup.world.problem.n_states is not None:
        return "INTEGER"
    if setup.game.s1 is None:
        return "TEXT"
    if isinstance(setup.game.s1, float | np.floating):
        return "REAL"
    encode_start(setup.game.s1)  # raises if it cannot be kept
    return "TEXT"


def _checkpoint(game: Game, seconds: float) -> Checkpoint:
    arrays = state.dump(game.primal, "primal.") | state.dump(game.dual, "dual.")
    state.check_arrays(arrays)
    return Checkpoint(game.k, seconds, dict(game.rng.bit_generator.state), game.s1, arrays)


def _restore(
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
    except (InvalidInput, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        why = " ".join(str(error).split())
        raise RunError(
            f"The checkpoint in '{ledger.path}' does not fit this problem or these players: {why}"
        ) from error
    game.k, game.s1 = checkpoint.k, checkpoint.s1


def _replay(setup: Setup, ledger: Ledger, asked: Collection[int]) -> None:
    """Replay the rounds after the checkpoint to the players, drawing the same random numbers.

    asked: rounds after which a reset was asked for.

    The state of a persistent environment is unknown afterwards: it needs a reset.
    """
    world, game = setup.world, setup.game
    replayed = ReplayedProblem(world.problem, ledger.played(game.k + 1, ledger.last))
    oracle = Evaluator(world.mdp) if world.mdp is not None and setup.spec["feedback"] == "exact" else None
    rounds = play(
        replayed, setup.primal, setup.dual, game, episodes=ledger.last, feedback=setup.spec["feedback"], oracle=oracle
    )
    try:
        for this in rounds:
            game.s1 = None if this.k in asked else game.s1
    except InvalidInput as error:
        why = " ".join(str(error).split())
        raise RunError(f"The rounds in '{ledger.path}' do not fit this problem or these players: {why}") from error
    if world.problem.persistent:
        game.s1 = None


@contextmanager
def _nonsense_refused(setup: Setup, file: Path) -> Iterator[None]:
    """Raise RunError where our own code fails on numbers of a file that pass every check."""
    try:
        yield
    except (ArithmeticError, LookupError, ValueError) as error:
        # Exceptions of a user's own code propagate as they are.
        if not all(type(x).__module__.startswith(state.OWN) for x in (setup.primal, setup.dual, setup.world.problem)):
            raise
        raise RunError(
            f"The run in '{file}' cannot be resumed: its players fail on the numbers in its checkpoint "
            f"({type(error).__name__}: {' '.join(str(error).split())})."
        ) from error


def _check_operator(world: World) -> None:
    """Refuse an operator for a problem that resets itself, or whose `perform_reset` takes none."""
    if not world.problem.persistent:
        raise InvalidInput(f"The problem '{world.name}' resets itself: it takes no operator.")
    if len(inspect.signature(world.problem.perform_reset).parameters) < 3:
        raise InvalidInput(f"The method 'perform_reset' of the problem '{world.name}' must take (u, why, operator).")


def _run(
    world: World | None,
    contents: Contents,
    file: Path | None,
    setup: Setup | None = None,
    *,
    players: Mapping[Role, type] = MappingProxyType({}),
) -> Run:
    """The run of a file's contents; `setup`, if it was played here and its game is after the last round."""
    return Run(
        spec=contents.spec,
        columns=contents.columns,
        mdp=None if world is None else world.mdp,
        path=file,
        seconds=contents.seconds,
        interventions=contents.interventions,
        notes=contents.notes,
        problem=None if world is None else world.problem,
        learned=None if setup is None else TrainedPlayer(setup.primal, setup.game.primal),
        pauses=None if setup is None else setup.game.pauses,
        fit=contents.fit,
        players=players,
    )
