"""The loop of a run: play a round, save it, call callbacks, check limits, until the run ends.

`play_rounds` is for problems that wait for the learner, `play_at_rate` for real time (`runs.live.acting`).
"""

import dataclasses
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

from resetfree.core import EnvironmentFailed, ResetFreeError, RunError
from resetfree.core.interrupts import Stop, held
from resetfree.core.state import check_structure
from resetfree.game.contract import RequestsHelp, Round
from resetfree.game.loop import reset_if_due
from resetfree.players import Role
from resetfree.problems import World
from resetfree.runs.changed_dynamics import change_note, watch_for
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.newfile import STOPPED, Contents, Ending, raise_unsaved
from resetfree.runs.file.recorded import COLUMNS, EpisodeBuffer, RecordedRound, columns_of
from resetfree.runs.file.runfile import plain_row
from resetfree.runs.live.acting import RealTime, act
from resetfree.runs.recall import TrainedPlayer
from resetfree.runs.request import RunRequest
from resetfree.runs.result import MOST_KEPT, Run
from resetfree.runs.resuming import restore, timing_of
from resetfree.runs.session import Callbacks, OpenRun, Session
from resetfree.runs.setup import Setup, rounds_of
from resetfree.runs.stuck import STUCK, WHEN_STUCK, note_flat, notice
from resetfree.theory.oracle import evaluator_of

REWARD = COLUMNS.index("reward")
LEAST_REST = 20  # checkpoints of a large state take at most 1 / LEAST_REST of the time
FIRST = 0.1  # seconds to the first checkpoint, so that a young run can be read


class Stopped(ResetFreeError):
    """The user stopped a run (Ctrl-C). It is saved, and `run` holds its rounds."""

    def __init__(self, run: Run) -> None:
        where = "" if run.path is None else f", saved in '{run.path}'"
        super().__init__(f"Stopped after {len(run)} of {run.episodes} episodes{where}.")
        self.run = run


def play_rounds(request: RunRequest, opened: OpenRun) -> Run:
    """Play the remaining rounds of a run on a problem that waits for its learner; closes the run file."""
    setup, ledger = opened.setup, opened.ledger
    progress, game = request.around.progress, setup.game
    with held(getattr(progress, "stopping", None)) as stop, ledger, ExitStack() as calls:
        playing = _Playing(request, opened, stop)
        if begins := getattr(progress, "begins", None):
            begins(game)
        try:
            calls.enter_context(playing.callbacks.open())
            ended = playing.play()
            playing.save(everything=True)
            if stop and game.k < ledger.episodes:
                ended = ended or Ending(game.k, "stopped", STOPPED)
            if ended is not None:
                ledger.ended(ended)
        except BaseException as error:
            playing.save_after(error)
            raise
        run = run_of(setup.world, ledger.contents(), ledger.path, setup, kept=playing.kept)
        if stop and ended is not None and ended.kind == "stopped":
            raise Stopped(run)
        return run


class _Playing:
    """The loop of a run: its rounds are kept, watched and saved."""

    def __init__(self, request: RunRequest, opened: OpenRun, stop: Stop) -> None:
        self._request, self._stop = request, stop
        self._setup, self._ledger, self._watch = opened.setup, opened.ledger, opened.watch
        self._first = opened.first
        world, self._game = opened.setup.world, opened.setup.game
        self._problem = world.problem
        self._start = time.monotonic()
        self._began = self._start - opened.before
        self._due = self._start + min(request.where.checkpoint_every, FIRST)
        self._resets, self._steps = opened.ledger.totals()
        oracle = evaluator_of(world.mdp, world.problem)
        self._rounds = rounds_of(opened.setup, episodes=opened.ledger.episodes, oracle=oracle, schedule=opened.schedule)
        self._fleet = opened.schedule
        self._as_text = opened.setup.start_type == "TEXT"
        self._asks = opened.setup.spec.get("ask") == WHEN_STUCK
        primal = opened.setup.primal
        self._helps = primal if isinstance(primal, RequestsHelp) and world.problem.persistent else None
        self._changes = None if opened.given is None else watch_for(opened.given.episodes, world.problem)
        self._names = self._setup.checkpoint(0.0).arrays.keys()
        # The episodes of a run without a file; None if it has one, or they are too many.
        self.kept: EpisodeBuffer | None = EpisodeBuffer() if opened.ledger.path is None else None
        self._between = True  # whether the game is between two rounds: only then is its state consistent
        session = Session(
            opened.setup,
            path=opened.ledger.path,
            save=lambda: self.save(everything=True),
            contents=opened.ledger.contents,
            operator=request.around.operator,
            began=self._began,
        )
        self.callbacks = Callbacks(request.around.callbacks, session)

    def play(self) -> Ending | None:
        """Play until all episodes are played, or something ends the run: then it is returned.

        It also ends where the state shall become a history, which the problem advises.
        """
        game, limits, progress = self._game, self._request.how_long, self._request.around.progress
        limited, called, clock = limits.is_limited, bool(self._request.around.callbacks), time.monotonic
        episodes, ended = self._ledger.episodes, None
        while game.k < episodes and ended is None and not self._stop:
            if limited:
                ended = limits.spent(game.k, self._resets, self._steps, clock() - self._began)
                if ended is not None:
                    break
            if game.s1 is None and self._fleet is None:
                self._reset()
            self._between = False
            this = next(self._rounds)
            self._between = True
            self._keep(this)
            if self._first is not None and self._remembers(this, self._first):
                break
            if progress is not None:
                progress(game, this)
            if called:
                ended = self.callbacks(this)
            if (now := clock()) >= self._due:
                self.save(everything=True)
                usual = min(self._request.where.checkpoint_every, now - self._start)
                self._due = clock() + max(usual, LEAST_REST * (clock() - now))
        return ended

    def _reset(self) -> None:
        """Have a reset performed. An operator may take long: the rounds so far must be safe by then."""
        game, problem = self._game, self._problem
        if game.k > 0:
            self.save(everything=False)
        try:
            with self._stop.at_once():
                reset_if_due(problem, game, self._request.around.operator)
        finally:  # also if the environment fails after a reset by an operator
            self._ledger.intervened(dataclasses.replace(one, k=game.k) for one in problem.interventions())
        self._resets += game.why == STUCK
        self._watch.moved()

    def _keep(self, this: Round) -> None:
        """Append a round to the file, with what is noticed in it."""
        game, problem, watch = self._game, self._problem, self._watch
        row, episode = columns_of(this), this.episode
        self._ledger.append(plain_row(row, self._as_text), episode, timing_of(game, this))
        self._resets, self._steps = self._resets + episode.reset, self._steps + len(episode.actions)
        if self._fleet is not None:
            if episode.reset and problem.persistent:  # it is safe before an operator is called
                self.save(everything=False)
            self._ledger.intervened(dataclasses.replace(one, k=this.k) for one in self._fleet.crew.interventions())
        if self.kept is not None:
            self.kept.add(episode)
            self.kept = self.kept if self._steps <= MOST_KEPT else None
        if self._changes is not None and (changed := self._changes(episode)):
            self._changes = None
            problem.noted.append(change_note(changed))
        end, steps = episode.next_start, len(episode.actions)
        if watch.see(this.k, this.s1, row[REWARD], episode.reset, end, goals=episode.goals, steps=steps):
            notice(watch, problem, self._asks)
            if self._asks:
                game.s1, game.why = None, STUCK
        elif self._helps is not None and game.s1 is not None and self._helps.needs_help(game.primal, game.s1):
            game.s1, game.why = None, STUCK
        elif watch.is_flat and not watch.sentence:  # a run that was stuck has heard more than this
            note_flat(watch.flat, problem)
        game.stuck = watch.words
        if noted := list(problem.noted):  # a machine of a fleet may note more meanwhile
            self._ledger.note(this.k, noted, problem.saved())
            del problem.noted[: len(noted)]

    def _remembers(self, this: Round, first: list[RecordedRound]) -> bool:
        """Keep a round while the state of the problem may become a history; whether it shall."""
        first.append(RecordedRound(this.k, this.s1, this.episode))
        if not self._problem.may_remember:
            self._first = None
        return self._problem.advised_history > 0

    def save(self, *, everything: bool) -> None:
        """Commit all rounds and the problem's own state, with a checkpoint if `everything`."""
        checkpoint = self._setup.checkpoint(time.monotonic() - self._began) if everything else None
        if checkpoint is not None:
            check_structure(checkpoint.arrays, self._names, self._game.k)
        self._ledger.commit(checkpoint, self._problem.saved())

    def save_after(self, error: BaseException) -> None:
        """Save what can be saved after an error; raises `Stopped` for Ctrl-C, and what the error means for the file."""
        ledger, game, problem = self._ledger, self._game, self._problem
        if ledger.broken or (ledger.untouched and not isinstance(error, KeyboardInterrupt)):
            if ledger.empty:
                _discard(ledger, ledger.path, error)
            return
        try:
            whole = (self._between or isinstance(error, EnvironmentFailed)) and ledger.last == game.k
            if whole or problem.persistent or not problem.saved():
                self.save(everything=whole and self._setup.checkpoint(0.0).arrays.keys() == self._names)
            else:  # the problem is ahead of the rounds: those since the last commit are played again
                ledger.abandon()
        except ResetFreeError as failure:
            error.add_note(f"The last rounds could not be saved: {failure}")
            raise error from None
        if isinstance(error, KeyboardInterrupt):
            if not ledger.broken:
                ledger.ended(Ending(ledger.last, "stopped", STOPPED))
            setup = self._setup
            last = setup if whole else None
            raise Stopped(run_of(setup.world, ledger.contents(), ledger.path, last, kept=self.kept)) from None


def play_at_rate(request: RunRequest, opened: OpenRun, clock: RealTime) -> Run:
    """As `play_rounds`, in real time."""
    setup, ledger, shown = opened.setup, opened.ledger, request.where.path
    world = setup.world
    with ledger:
        try:
            ended, newest = act(request, opened, clock)
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
        last = setup if is_known else None
        kept = None if shown is not None else _kept(ledger)
        run = run_of(world, ledger.contents(), shown, last, kept=kept)
        if ended is not None and ended.kind == "stopped":
            raise Stopped(run)
        return run


def _kept(ledger: Ledger) -> EpisodeBuffer | None:
    """The episodes of a file that is deleted when the run ends, unless they are too many."""
    _, steps = ledger.totals()
    if steps > MOST_KEPT:
        return None
    kept = EpisodeBuffer()
    for one in ledger.played(1, ledger.last):
        kept.add(one.episode)
    return kept


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
    kept: EpisodeBuffer | None = None,
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
        played=None if kept is None else list(zip(*kept.take(), strict=True)),
    )
