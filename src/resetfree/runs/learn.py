"""`learn`: play the game, keep every round, and resume after any interruption with the same result, bit for bit.

All randomness comes from one seed. Every round is committed before a reset is requested, and at the latest after
`checkpoint_every` seconds, together with a checkpoint: the state of the game between two rounds. Resuming restores the
newest checkpoint, and replays the rounds since to the players.
"""

from __future__ import annotations

import dataclasses
import inspect
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
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
from resetfree.game.contract import MOST_EPISODES, DualPlayer, PrimalPlayer, Round
from resetfree.game.loop import Game, reset_if_due
from resetfree.players import Role
from resetfree.problems.blueprint import check_start
from resetfree.problems.contract import Problem
from resetfree.problems.model_data import model_from
from resetfree.problems.operators import Operator
from resetfree.problems.paced import Deadlines
from resetfree.problems.registry import PROBLEMS
from resetfree.problems.world import World, find_world
from resetfree.runs.changed_dynamics import change_note, watch_for
from resetfree.runs.columns import COLUMNS, columns_of
from resetfree.runs.ending import STOPPED, Budget, Ending
from resetfree.runs.extension import check_more, extension_note
from resetfree.runs.followed import followed
from resetfree.runs.known_data import GivenData
from resetfree.runs.ledger import Contents, Ledger, read
from resetfree.runs.live.acting import ByTheClock, act, by_the_clock, go_on, temporary_file
from resetfree.runs.newfile import raise_unsaved
from resetfree.runs.recall import TrainedPlayer
from resetfree.runs.recorded import ReplayedProblem, checked
from resetfree.runs.result import Run
from resetfree.runs.runfile import Checkpoint, encode_start, plain_row
from resetfree.runs.session import IN_CALLBACK, Callback, Callbacks, Session, check_callbacks
from resetfree.runs.setup import Setup, check_settings, prepare
from resetfree.runs.spec import difference
from resetfree.runs.statements import classes_of
from resetfree.runs.stuck import STUCK, WHEN_STUCK, Watch, asked_after, check_asking, notice
from resetfree.runs.teaching import taught_again, taught_anew
from resetfree.runs.timed import as_timed, restore_plans, rounds_of, saved_plans, timing_of
from resetfree.theory.oracle.exact import Evaluator

Progress: TypeAlias = Callable[[Game, Round], object]
REWARD = COLUMNS.index("reward")
EPISODES = 2000  # of a run for which no number is given
FROM = ("data", "policy", "both")  # what a run takes from an old one
LEAST_REST = 20  # checkpoints of a large state take at most 1 / LEAST_REST of the time
FIRST = 0.1  # seconds to the first checkpoint, so that a young run can be read


class Stopped(ResetFreeError):
    """The user stopped a run (Ctrl-C). It is saved, and `run` holds its rounds."""

    def __init__(self, run: Run) -> None:
        where = "" if run.path is None else f", saved in '{run.path}'"
        super().__init__(f"Stopped after {len(run)} of {run.episodes} episodes{where}.")
        self.run = run


def learn(
    problem: Any,
    primal: str | PrimalPlayer[Any] = "auto",
    dual: str | DualPlayer[Any] = "auto",
    *,
    episodes: int | None = None,
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
    delay: int | None = None,
    rate: float | str | Deadlines | None = None,
    max_staleness: int | None = None,
    learner: str = "lowest",
    callbacks: Iterable[Callback] = (),
    steps: int | None = None,
    seconds: float | None = None,
    data: Any = None,
    start_from: str | Path | Run | None = None,
    from_what: str | None = None,
    ask: Literal["never", "when-stuck"] | None = None,
) -> Run:
    """Play `episodes` rounds (2000 if none are given) of the two-player game on a problem, and keep every round.

    problem: a gymnasium.Env, a FiniteMDP, a Problem, what has a method `problem()`, or what the command line takes.
    primal, dual: names, module:Class or players. "auto" (see `auto.choose`) picks what suits the problem, and the run
      says why; with a named primal player, "auto" is its partner: the paper's dual and feedback, unless it declares
      another; some have a partner and settings for the problem by their name alone (`AdaptsToProblem`).
    settings: {"primal": {...}, "dual": {...}}, and {"problem": {...}} for a problem that is given by name (its options)
      and for a gymnasium.Env (arguments of `from_gym`).
    feedback: the cost signal of the dual player, see `game.FEEDBACK`, or "auto".
    B: bound on the multipliers for players that need one (default: the least one, computed by the oracle if available).
    path: the run file (default: none is written).  overwrite: whether it may replace a run file.
    resume: continue the run of that file, with the same arguments; a finished run is only read. With more `episodes`
      it goes on beyond its plan (see `extension`); without, it has those that it had.
    progress: called after every round with the game and the round.
    checkpoint_every: seconds between two checkpoints (less at the start), the most that a crash can lose; rounds before
      a reset by an operator are never lost.
    max_resets: end the run after so many resets; it can be resumed later with a larger number.
    operator: performs the resets during this call, if the problem needs an operator (default: the problem's own).
    delay: play with plans that rest on what was known so many rounds before the last one, or on the newest reset: as
      on a machine that does not wait for its learner. Each round records which (`run.columns["based_on"]`), and chance
      comes per round from (seed, k): other rounds than without it, also for delay=0.
    rate: steps per second, by the clock, "own" for the environment's own, or `Deadlines` (docs/real_time.md). Learning
      goes on in another process, and each round is played with the newest plan that is ready.
    max_staleness: at a rate, rounds by which a plan may be older than the newest round (default: 100); acting waits for
      a learner that is slower, with the machine in its safe action.
    learner: at a rate, the scheduling class of the process that learns: "lowest", which runs when nothing else wants
      to, or "usual".
    callbacks: functions of the `Session`, called after every round: True or a text ends the run (see `callbacks`).
    steps, seconds: end the run after so many steps, or so much time in all sessions; as with `max_resets`, it can be
      resumed later with a larger number. What ended a run is in `run.ended`.
    data: episodes to learn from before the first round: run files, files of transitions (.npz), rollouts of Gymnasium,
      datasets of Minari, or a list of those. Resets in them are known dangers, and no resets of this run.
    start_from: an old run, whose data and policy this one begins with; from_what: "data", "policy" or "both" (default:
      both, or the data alone if its policy does not fit).
    ask: "when-stuck" has the agent put back when the run stands still (`runs.stuck`): resets that are counted apart,
      and that no player sees; "never" (default) only notes it. A resumed run goes on as it began.

    Ctrl-C ends the run after the current round, saves it and raises `Stopped`; a second one, or one during a request to
    an operator, ends it at once. SIGTERM does the same. If a player, the problem, a callback or the operator raises,
    the rounds so far are saved before the exception propagates.

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
        raise InvalidInput("Only a run in a file can be resumed or overwritten. Got no file instead: give path=...")
    budget, watching = Budget.checked(max_resets, steps, seconds), check_callbacks(callbacks)
    if rate is not None and delay is not None:
        raise InvalidInput("A run is played at a rate or with a delay in rounds. Got both instead.")
    if rate is None and max_staleness is not None:
        raise InvalidInput("The 'max_staleness' of learn needs a 'rate'. Got none instead.")
    if rate is not None and watching:
        raise InvalidInput(
            "Callbacks need the players, which are in another process at a 'rate'. Got both instead: give progress=..."
        )
    timing: dict[str, Any] | None = None
    if delay is not None:
        timing = {"delay": whole(delay, "'delay' of learn", 0, MOST_EPISODES)}
    check(ask, Literal["never", "when-stuck"] | None, "'ask' of learn")
    if ask == WHEN_STUCK and (rate is not None or delay is not None):
        raise InvalidInput(
            "A run that asks when it is stuck cannot be played at a rate or with a delay. Got both instead."
        )
    if resume and overwrite:
        raise InvalidInput("A run is either resumed or overwritten. Got both: leave out resume=True or overwrite=True.")
    expect(from_what in (None, *FROM), "'from_what' of learn", f"be one of {', '.join(FROM)}", from_what)
    if from_what is not None and start_from is None:
        raise InvalidInput("The 'from_what' of learn needs a 'start_from'. Got none instead.")
    old = load(start_from) if isinstance(start_from, str | Path) else start_from
    expect(old is None or isinstance(old, Run), "'start_from' of learn", "be a run or its file", start_from)
    file = None if path is None else arguments.path(path, "'path' of learn")
    played = partial(_play_rounds, progress=progress, every=every, operator=operator, budget=budget, callbacks=watching)
    with find_world(problem, given.get("problem")) as world:  # closed when the run ends, if it was made here
        if operator is not None:
            _check_operator(world)
        if isinstance(episodes, int | np.integer):  # `prepare` refuses other numbers
            budget.check_reach(episodes, world.problem.horizon)
        if rate is not None:
            clock = by_the_clock(world, rate, max_staleness, learner)
            timing = {"rate": clock.deadlines.rate}
            options = {"progress": progress, "every": every, "operator": operator, "budget": budget}
            played = partial(_play_at_rate, clock=clock, shown=file, **options)
        if ask == WHEN_STUCK:
            check_asking(world.problem)
        prepared = partial(
            prepare, world, primal, dual, episodes=EPISODES, seed=seed, feedback=feedback, B=B, settings=given
        )
        if not resume or file is None:
            setup = as_timed(prepared() if episodes is None else prepared(episodes=episodes), timing)
            known, rows = taught_anew(setup, data, old, from_what), []
            if known is not None:
                rows = known.rows()
                setup.spec["data"] = known.about(rows)
            setup.spec.update({"ask": ask} if ask == WHEN_STUCK else {})
            _checkpoint(setup.game, 0.0)  # what cannot be saved is refused before the first round
            with nullcontext(file) if rate is None or file is not None else temporary_file() as kept:
                ledger = Ledger.create(kept, setup.spec, starts=_start_type(setup), overwrite=overwrite, data=rows)
                return played(setup, ledger, 0.0, given=known, watch=Watch.of(world.problem))
        ledger = Ledger.reopen(file)
        try:
            wanted = ledger.episodes if episodes is None else whole(episodes, "'episodes' of a run", 1, MOST_EPISODES)
            setup = as_timed(prepared(before=ledger.spec, episodes=ledger.spec["episodes"]), timing)
            different = difference(ledger.spec, setup.spec)
            if different or ask not in (None, asks := ledger.spec.get("ask", "never")):
                raise RunError(f"The run file '{file}' {different or f'was made with ask={asks!r}, not {ask!r}'}.")
            setup = dataclasses.replace(setup, spec=ledger.spec)
            check_more(file, ledger.episodes, ledger.last, wanted)
            k, before = ledger.saved()
            if k >= wanted:
                run = _run(world, ledger.contents(), file)
                ledger.close()
                return run
            known = taught_again(setup, ledger, data, old, from_what)
            note = extension_note(setup, wanted) if wanted > ledger.episodes else None
            checkpoint, saved = ledger.newest()
            if "after_goal" not in ledger.spec and world.problem.units is None:
                world.problem.units = (0.0, 1.0)  # a run from before they were learned
            watch = Watch.of(world.problem)
            if rate is None:
                _restore(world.problem, setup.game, checkpoint, saved, ledger)
                contents = ledger.contents()
                with _nonsense_refused(setup, file):
                    _replay(setup, ledger, asked_after(contents.interventions) if world.problem.persistent else ())
                    watch.replay(contents.columns, contents.interventions)
                checkpoint = _checkpoint(setup.game, before)
            else:  # its learner replays them
                checkpoint = checkpoint or _checkpoint(setup.game, before)
                _restore(world.problem, setup.game, None, saved, ledger)
                go_on(setup, ledger)
            setup.game.why = "resume"
            ledger.resume(checkpoint)
            if note is not None:
                ledger.extend(wanted, note)
        except BaseException:
            ledger.close()
            raise
        with _nonsense_refused(setup, file):
            return played(setup, ledger, before, given=known, watch=watch)


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
    large), and a small table of your own is kept in the file; any other must be given for what needs the oracle
    (`regret`, `resets`): no code is run because a file names it.
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
    if not PROBLEMS.knows(spec["problem"]):  # not even an id of Gymnasium without its prefix
        return made(_own_table(spec))
    try:
        found = find_world(spec["problem"], followed(spec, options))
    except Exception:  # not registered here, or not with these options, which may be forged
        if options:
            raise
        return made(_own_table(spec))
    return made(found if found.fingerprint == spec["fingerprint"] else _own_table(spec))


def _own_table(spec: Mapping[str, Any]) -> World | None:
    """The problem of a user's own table, from the file alone if it was small enough to be kept there."""
    mdp = model_from(spec.get("model"), spec["problem"], spec["fingerprint"])
    return None if mdp is None else World(mdp.problem(), mdp, spec["problem"], {})


def _play_rounds(
    setup: Setup,
    ledger: Ledger,
    before: float,
    *,
    progress: Progress | None,
    every: float,
    operator: Operator | None,
    budget: Budget,
    callbacks: tuple[Callback, ...],
    given: GivenData | None,
    watch: Watch,
) -> Run:
    """The loop of a run, after `before` seconds in earlier sessions; closes the ledger.

    given: what it began with.  watch: for standing still, after the rounds so far.
    """
    world, game, file, clock = setup.world, setup.game, ledger.path, time.monotonic
    as_text = _start_type(setup) == "TEXT"
    episodes = ledger.episodes
    rounds = rounds_of(setup, episodes=episodes, oracle=None if world.mdp is None else Evaluator(world.mdp))
    problem, (resets, steps) = world.problem, ledger.totals()
    limited, ended = any(limit is not None for limit in budget), None
    asks = setup.spec.get("ask") == WHEN_STUCK
    append, start = ledger.append, clock()
    began, due = start - before, start + min(every, FIRST)
    changes = None if given is None else watch_for(given.episodes, problem)
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

    session = Session(
        setup,
        path=file,
        save=lambda: save(everything=True),
        contents=ledger.contents,
        operator=operator,
        began=began,
    )
    calls = Callbacks(callbacks, session)

    with held(getattr(progress, "stopping", None)) as stop, ledger, ExitStack() as opened:
        try:
            opened.enter_context(calls.open())
            while game.k < episodes and ended is None and not stop:
                if limited and (ended := budget.spent(game.k, resets, steps, clock() - began)) is not None:
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
                append(plain_row(row, as_text), episode, timing_of(game, this))
                resets, steps = resets + episode.reset, steps + len(episode.actions)
                if changes is not None and (changed := changes(episode)):
                    changes = None
                    problem.noted.append(change_note(changed))
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
                if callbacks:
                    ended = calls(this)
                if clock() >= due:
                    then = clock()
                    save(everything=True)
                    due = clock() + max(min(every, then - start), LEAST_REST * (clock() - then))
            save(everything=True)
            if stop and game.k < episodes:
                ended = ended or Ending(game.k, "stopped", STOPPED)
            if ended is not None:
                ledger.ended(ended)
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
                if not ledger.broken:
                    ledger.ended(Ending(ledger.last, "stopped", STOPPED))
                raise Stopped(_run(world, ledger.contents(), file, setup if whole else None)) from None
            raise
        run = _run(world, ledger.contents(), file, setup)
        if stop and ended is not None and ended.kind == "stopped":
            raise Stopped(run)
        return run


def _play_at_rate(
    setup: Setup,
    ledger: Ledger,
    before: float,
    *,
    clock: ByTheClock,
    shown: Path | None,
    given: GivenData | None,
    watch: Watch,
    **options: Any,
) -> Run:
    """As `_play_rounds`, by the clock.  shown: the file of the run that is returned, None for a temporary one."""
    world = setup.world
    with ledger:
        try:
            ended, newest = act(setup, ledger, before, clock, as_text=_start_type(setup) == "TEXT", **options)
        except BaseException as error:
            if ledger.untouched and ledger.empty and not isinstance(error, KeyboardInterrupt):
                ledger.discard()  # nothing was played or saved: do not leave an empty file in the way
                if isinstance(error, RunError):
                    raise_unsaved(shown, error)
            if not isinstance(error, KeyboardInterrupt) or ledger.broken:
                raise
            ledger.ended(Ending(ledger.last, "stopped", STOPPED))
            raise Stopped(_run(world, ledger.contents(), shown)) from None
        if ended is not None:
            ledger.ended(ended)
        is_known = newest is not None and newest.k == ledger.last
        if is_known:
            _restore(world.problem, setup.game, newest, {}, ledger)
        run = _run(world, ledger.contents(), shown, setup if is_known else None)
        if ended is not None and ended.kind == "stopped":
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
    arrays = state.dump(game.primal, "primal.") | state.dump(game.dual, "dual.") | saved_plans(game)
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
        restore_plans(problem, game, checkpoint.k, checkpoint.arrays)
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
def _nonsense_refused(setup: Setup, file: Path) -> Iterator[None]:
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
        ended=contents.ended,
        extended=contents.episodes if contents.episodes > contents.spec["episodes"] else None,
    )
