"""`learn`: play the game, keep every round, and go on after anything as if nothing had happened.

Everything random comes from one seed. Every round is in the file when a reset is asked for, and at the latest after
`checkpoint_every` seconds together with a checkpoint, which holds where the game stands between two rounds. A run that
is resumed goes back to the newest checkpoint, and its players are fed the rounds since: the same result, bit for bit.
"""

from __future__ import annotations

import dataclasses
import inspect
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core import arguments, state
from resetfree.core.arguments import flag, real, shown, whole
from resetfree.core.errors import EnvironmentFailed, InvalidInput, ResetFreeError, RunError
from resetfree.core.interrupts import held
from resetfree.game.contract import DualPlayer, PrimalPlayer, Round
from resetfree.game.loop import Game, play, reset_if_due
from resetfree.problems.blueprint import check_start
from resetfree.problems.contract import Problem
from resetfree.problems.operators import Operator
from resetfree.problems.world import World, find_world
from resetfree.runs.columns import columns_of
from resetfree.runs.followed import followed
from resetfree.runs.ledger import Contents, Ledger, read
from resetfree.runs.newfile import raise_unsaved
from resetfree.runs.recall import TrainedPlayer
from resetfree.runs.recorded import Fed, checked
from resetfree.runs.result import Run
from resetfree.runs.runfile import Checkpoint, encode_start, plain_row
from resetfree.runs.setup import Setup, check_settings, prepare
from resetfree.runs.spec import difference
from resetfree.theory.oracle.exact import Evaluator

Progress: TypeAlias = Callable[[Game, Round], object]
LEAST_REST = 20  # a checkpoint of a large state takes at most one part in so many of the time
FIRST = 0.1  # seconds to the first checkpoint: somebody who looks at a young run sees something


class Stopped(ResetFreeError):
    """The user stopped a run (Ctrl-C); it is saved, and `run` is what was played."""

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
) -> Run:
    """Let two players play `episodes` rounds on a problem, and keep every round.

    problem: a FiniteMDP, a Problem, anything with a method `problem()`, or what the command line takes.
    primal, dual: names, module:Class or players. "auto" (see `auto.choose`) picks what suits the problem, and the run
      says why; beside a named primal player, "auto" means its partner: the paper's dual and feedback, unless it names
      another.
    settings: {"primal": {...}, "dual": {...}}, and {"problem": {...}} for a name.
    feedback: what the dual player is told, see `game.FEEDBACK`, or "auto".
    B: bound on the multipliers for players that need one (default: the oracle's least one, where there is an oracle).
    path: the run file (default: none is written).  overwrite: whether it may replace one.
    resume: continue the run of that file, asked for with the same arguments; a finished one is only read.
    progress: called after every round with the game and the round.
    checkpoint_every: seconds between two checkpoints (less at the start), which is what a crash can cost; a reset that
      somebody performs costs none of the rounds before it.
    max_resets: end the run after so many resets; it can go on later with a larger number.
    operator: who performs the resets during this call, where the problem needs somebody to (default: whom it knows).

    Ctrl-C ends the run after the round that is being played, saves it and raises `Stopped`; a second one does not wait.
    While an operator is waited for, it does not wait either. On the command line SIGTERM does the same. If a player,
    the problem or the operator raises, the rounds so far are saved before the exception goes on.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", episodes=50, seed=1)
    >>> len(run), int(run.realised_resets[-1]), round(float(run.resets[-1]))
    (50, 9, 9)
    """
    resume, overwrite = flag(resume, "'resume' of learn"), flag(overwrite, "'overwrite' of learn")
    given = check_settings(settings)
    every = real(checkpoint_every, "'checkpoint_every' of learn", finite=False)
    if progress is not None and not callable(progress):
        raise InvalidInput(f"The 'progress' of learn must be a function. Got {shown(progress)} instead.")
    if path is None and (resume or overwrite):
        raise InvalidInput("Only a run in a file can be resumed or overwritten. Got no 'path' instead.")
    if max_resets is not None:
        whole(max_resets, "'max_resets' of a run", 1)
    if resume and overwrite:
        raise InvalidInput("A run is either resumed or overwritten. Got both instead.")
    file = None if path is None else arguments.path(path, "'path' of learn")
    world = find_world(problem, given.get("problem"))
    if world.made_here:
        own = {group: settings for group, settings in given.items() if group != "problem"}
        with world:  # closed when the run ends, however it ends
            return learn(
                world,
                primal,
                dual,
                episodes=episodes,
                seed=seed,
                feedback=feedback,
                path=path,
                resume=resume,
                overwrite=overwrite,
                B=B,
                settings=own,
                progress=progress,
                checkpoint_every=every,
                max_resets=max_resets,
                operator=operator,
            )
    if operator is not None:
        _check_operator(world)
    if not resume or file is None:
        setup = prepare(world, primal, dual, episodes, seed, feedback, B, given)
        _checkpoint(setup.game, 0.0)  # what cannot be saved is refused before the first round
        ledger = Ledger.create(file, setup.spec, starts=_start_type(setup), overwrite=overwrite)
        return _learn(setup, ledger, 0.0, progress, every, max_resets, operator)
    ledger = Ledger.reopen(file)
    try:
        setup = prepare(world, primal, dual, episodes, seed, feedback, B, given, before=ledger.spec)
        different = difference(ledger.spec, setup.spec)
        if different:
            raise RunError(f"The run file '{file}' {different}.")
        setup = dataclasses.replace(setup, spec=ledger.spec)
        k, seconds = ledger.saved()
        if k >= episodes:
            run = _run(world, ledger.contents(), file)
            ledger.close()
            return run
        checkpoint, seen = ledger.newest()
        _restore(world.problem, setup.game, checkpoint, seen, ledger)
        with _own_sense(setup, file):
            _feed(setup, ledger)
        setup.game.why = "resume"
        ledger.resume(_checkpoint(setup.game, seconds))
    except BaseException:
        ledger.close()
        raise
    with _own_sense(setup, file):
        return _learn(setup, ledger, seconds, progress, every, max_resets, operator)


def load(path: str | Path, problem: Any = None, options: Mapping[str, Any] | None = None) -> Run:
    """Read a run file, also while it is being written.

    problem: the problem of the run. A registered one is made again by itself (unless it has changed since, or is
    large); anything else must be given for what needs the oracle (`regret`, `resets`): no code is run because a file
    names it.
    options: of a problem that is given by name, those that the file names in vain: code, and what makes it large.
    """
    file = arguments.path(path, "'path' of load")
    contents = read(file)
    spec = contents.spec
    if problem is not None:
        if isinstance(problem, str):
            options = followed({**spec, "problem": problem}, options, Path(path))
        with find_world(problem, options) as world:
            if world.fingerprint != spec["fingerprint"]:
                raise RunError(f"The run file '{path}' holds a run of another problem ('{spec['problem']}').")
            return _run(world, contents, file)
    if ":" in spec["problem"]:
        return _run(None, contents, file)
    try:
        found = find_world(spec["problem"], followed(spec, options))
    except Exception:  # not registered here, or not with these options, which a stranger may have made up
        if options:
            raise
        return _run(None, contents, file)
    return _run(found if found.fingerprint == spec["fingerprint"] else None, contents, file)


def _learn(
    setup: Setup,
    ledger: Ledger,
    before: float,
    progress: Progress | None,
    every: float,
    max_resets: int | None,
    operator: Operator | None,
) -> Run:
    """The loop; closes the ledger."""
    world, game, file, clock = setup.world, setup.game, ledger.path, time.monotonic
    as_text = _start_type(setup) == "TEXT"
    oracle = None if world.mdp is None else Evaluator(world.mdp)
    rounds = play(
        world.problem, setup.primal, setup.dual, game,
        episodes=setup.spec["episodes"], feedback=setup.spec["feedback"], oracle=oracle,
    )  # fmt: skip
    problem, resets = world.problem, ledger.resets()
    append, start = ledger.append, clock()
    began, due = start - before, start + min(every, FIRST)
    between = True  # whether the game stands between two rounds: only then is there a state to keep

    names = _checkpoint(game, 0.0).arrays.keys()

    def save(*, everything: bool) -> None:
        """Commit all rounds, with a checkpoint if `everything`; what the problem itself knows goes with them."""
        checkpoint = _checkpoint(game, clock() - began) if everything else None
        if checkpoint is not None and checkpoint.arrays.keys() != names:
            other = min(checkpoint.arrays.keys() ^ names)
            raise InvalidInput(
                f"The state of a player must keep its structure. Got '{other}' in round {game.k} or at the start only: "
                "keep the same fields, keys and lengths, and let arrays grow instead."
            )
        ledger.commit(checkpoint, problem.saved())

    with held() as stop, ledger:
        try:
            while game.k < setup.spec["episodes"] and not stop:
                if max_resets is not None and resets >= max_resets:
                    break
                if game.s1 is None:
                    if game.k > 0:  # whoever is asked may take long, and what was played must be safe by then
                        save(everything=False)
                    try:
                        with stop.at_once():
                            reset_if_due(problem, game, operator)
                    finally:  # also where the world fails after a reset that somebody performed
                        ledger.intervened(dataclasses.replace(one, k=game.k) for one in problem.interventions())
                between = False
                this = next(rounds)
                between = True
                append(plain_row(columns_of(this), as_text), this.episode)
                resets += this.episode.reset
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
        if stop and len(run) < setup.spec["episodes"]:
            raise Stopped(run)
        return run


def _start_type(setup: Setup) -> str:
    """How the starts of this problem are kept."""
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
    """Put a fresh game where the checkpoint was taken, and the problem itself where it was after the last round."""
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


def _feed(setup: Setup, ledger: Ledger) -> None:
    """Let the players see the rounds after the checkpoint as they saw them then; random numbers are drawn as then.

    Where a persistent world stands by now, nobody knows.
    """
    world, game = setup.world, setup.game
    fed = Fed(world.problem, ledger.played(game.k + 1, ledger.last))
    oracle = Evaluator(world.mdp) if world.mdp is not None and setup.spec["feedback"] == "exact" else None
    rounds = play(
        fed, setup.primal, setup.dual, game, episodes=ledger.last, feedback=setup.spec["feedback"], oracle=oracle
    )
    try:
        deque(rounds, maxlen=0)
    except InvalidInput as error:
        why = " ".join(str(error).split())
        raise RunError(f"The rounds in '{ledger.path}' do not fit this problem or these players: {why}") from error
    if world.problem.persistent:
        game.s1 = None


@contextmanager
def _own_sense(setup: Setup, file: Path) -> Iterator[None]:
    """A sentence for numbers in a file that pass every check and mean nothing."""
    try:
        yield
    except (ArithmeticError, LookupError, ValueError) as error:
        # Whoever brings code of their own sees what it raised.
        if not all(type(x).__module__.startswith(state.OWN) for x in (setup.primal, setup.dual, setup.world.problem)):
            raise
        raise RunError(
            f"The run in '{file}' cannot go on: the numbers in its checkpoint make no sense to its players "
            f"({type(error).__name__}: {' '.join(str(error).split())})."
        ) from error


def _check_operator(world: World) -> None:
    """Only a world that cannot put itself back needs somebody who does."""
    if not world.problem.persistent:
        raise InvalidInput(f"The problem '{world.name}' resets itself: no operator can be asked.")
    if len(inspect.signature(world.problem.perform_reset).parameters) < 3:
        raise InvalidInput(f"The method 'perform_reset' of the problem '{world.name}' must take (u, why, operator).")


def _run(world: World | None, contents: Contents, file: Path | None, setup: Setup | None = None) -> Run:
    """What a run file holds; `setup`, where it was played here and its game stands after the last round."""
    mdp, problem = (None, None) if world is None else (world.mdp, world.problem)
    learned = None if setup is None else TrainedPlayer(setup.primal, setup.game.primal)
    return Run(
        contents.spec, contents.columns, mdp, file, contents.seconds, contents.interventions, problem, learned,
        contents.fit,
    )  # fmt: skip
