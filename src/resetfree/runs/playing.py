"""The loop of a run: rounds are played, kept, watched and saved, until there are enough or something ends it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from resetfree.core.errors import EnvironmentFailed, ResetFreeError, RunError
from resetfree.core.interrupts import held
from resetfree.core.state import check_structure
from resetfree.game.contract import Round
from resetfree.game.loop import Game, reset_if_due
from resetfree.players import Role
from resetfree.problems.operators import Operator
from resetfree.problems.world import World
from resetfree.runs.data.changed_dynamics import change_note, watch_for
from resetfree.runs.data.dataset import GivenData
from resetfree.runs.file.columns import COLUMNS, columns_of
from resetfree.runs.file.ending import STOPPED, Budget, Ending
from resetfree.runs.file.ledger import Contents, Ledger
from resetfree.runs.file.newfile import raise_unsaved
from resetfree.runs.file.runfile import plain_row
from resetfree.runs.live.acting import ByTheClock, act
from resetfree.runs.recall import TrainedPlayer
from resetfree.runs.result import Run
from resetfree.runs.resuming import checkpoint_of, restore, start_type
from resetfree.runs.session import Callback, Callbacks, Session
from resetfree.runs.setup import Setup
from resetfree.runs.stuck import STUCK, WHEN_STUCK, Watch, notice
from resetfree.runs.timed import rounds_of, timing_of
from resetfree.theory.oracle.exact import evaluator_of

Progress: TypeAlias = Callable[[Game, Round], object]
REWARD = COLUMNS.index("reward")
LEAST_REST = 20  # checkpoints of a large state take at most 1 / LEAST_REST of the time
FIRST = 0.1  # seconds to the first checkpoint, so that a young run can be read


class Stopped(ResetFreeError):
    """The user stopped a run (Ctrl-C). It is saved, and `run` holds its rounds."""

    def __init__(self, run: Run) -> None:
        where = "" if run.path is None else f", saved in '{run.path}'"
        super().__init__(f"Stopped after {len(run)} of {run.episodes} episodes{where}.")
        self.run = run


def play_rounds(
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
    as_text = start_type(setup) == "TEXT"
    episodes = ledger.episodes
    rounds = rounds_of(setup, episodes=episodes, oracle=evaluator_of(world.mdp, world.problem))
    problem, (resets, steps) = world.problem, ledger.totals()
    limited, ended = any(limit is not None for limit in budget), None
    asks = setup.spec.get("ask") == WHEN_STUCK
    append, start = ledger.append, clock()
    began, due = start - before, start + min(every, FIRST)
    changes = None if given is None else watch_for(given.episodes, problem)
    between = True  # whether the game is between two rounds: only then is its state consistent

    names = checkpoint_of(game, 0.0).arrays.keys()

    def save(*, everything: bool) -> None:
        """Commit all rounds and the problem's own state, with a checkpoint if `everything`."""
        checkpoint = checkpoint_of(game, clock() - began) if everything else None
        if checkpoint is not None:
            check_structure(checkpoint.arrays, names, game.k)
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
                    _discard(ledger, file, error)
                raise
            try:
                whole = (between or isinstance(error, EnvironmentFailed)) and ledger.last == game.k
                if whole or problem.persistent or not problem.saved():
                    save(everything=whole and checkpoint_of(game, 0.0).arrays.keys() == names)
                else:  # the problem is ahead of the rounds: those since the last commit are played again
                    ledger.abandon()
            except ResetFreeError as failure:
                error.add_note(f"The last rounds could not be saved: {failure}")
                raise error from None
            if isinstance(error, KeyboardInterrupt):
                if not ledger.broken:
                    ledger.ended(Ending(ledger.last, "stopped", STOPPED))
                raise Stopped(run_of(world, ledger.contents(), file, setup if whole else None)) from None
            raise
        run = run_of(world, ledger.contents(), file, setup)
        if stop and ended is not None and ended.kind == "stopped":
            raise Stopped(run)
        return run


def play_at_rate(
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
    """As `play_rounds`, by the clock.  shown: the file of the run that is returned, None for a temporary one."""
    world = setup.world
    with ledger:
        try:
            as_text = start_type(setup) == "TEXT"
            ended, newest = act(setup, ledger, before, clock, as_text=as_text, watch=watch, shown=shown, **options)
        except BaseException as error:
            if ledger.untouched and ledger.empty and not isinstance(error, KeyboardInterrupt):
                _discard(ledger, shown, error)
            if not isinstance(error, KeyboardInterrupt) or ledger.broken:
                raise
            ledger.ended(Ending(ledger.last, "stopped", STOPPED))
            raise Stopped(run_of(world, ledger.contents(), shown)) from None
        if ended is not None:
            ledger.ended(ended)
        is_known = newest is not None and newest.k == ledger.last
        if is_known:
            restore(world.problem, setup.game, newest, {}, ledger)
        run = run_of(world, ledger.contents(), shown, setup if is_known else None)
        if ended is not None and ended.kind == "stopped":
            raise Stopped(run)
        return run


def _discard(ledger: Ledger, shown: Path | None, error: BaseException) -> None:
    """Leave no empty file in the way of a run of which nothing was saved, and say why nothing was."""
    ledger.discard()
    if isinstance(error, RunError):
        raise_unsaved(shown, error)


def run_of(
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
