"""The process that acts in real time: it takes the newest plan, plays an episode at its rate, and hands it on.

Between two episodes it looks at a board, and waits only where the game says so: for the first plan, for one that
contains the newest reset, before that reset is performed, and for a learner that has fallen back too far. A machine
never waits without a command meanwhile: it has fallen, is held, or gets the safe action at every tick. Everything else
is done elsewhere: rounds are committed by a thread (`recorder`), plans are made by another process (`learner`). The
garbage collector runs between episodes only.
"""

import dataclasses
import gc
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from resetfree.core import InvalidInput, NotCertifiable, Notice, PositiveInt, RunError, check
from resetfree.core.interrupts import Stop, held
from resetfree.core.system import Scheduling, take_highest
from resetfree.core.ticks import SECOND, Ticks
from resetfree.game.contract import DualPlayer, Plan, PrimalPlayer, Round
from resetfree.game.delayed import DelayedGame, HeldPlan, policy_classes, reset_chance
from resetfree.game.loop import Direct, Game, reset_if_due
from resetfree.problems import Episode, Note, Problem, World
from resetfree.problems.operators import Operator
from resetfree.problems.paced import Deadlines, Holding, rate_for, rollout_at_rate
from resetfree.problems.stepping import SteppedProblem
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.newfile import STOPPED, Ending
from resetfree.runs.file.recorded import checked
from resetfree.runs.file.runfile import Checkpoint
from resetfree.runs.live.assignment import Assignment
from resetfree.runs.live.board import board_folder
from resetfree.runs.live.learner_location import LOWEST, LearnerLocation, RayLearner
from resetfree.runs.live.supervisor import Supervisor
from resetfree.runs.live.threads import CallbackThread, PlanReader, PlayedRound, RealTimeSession, Recorder
from resetfree.runs.request import RunRequest
from resetfree.runs.session import OpenRun
from resetfree.runs.setup import Setup, rounds_of
from resetfree.runs.stuck import STUCK, WHEN_STUCK, advised
from resetfree.theory.oracle import evaluator_of

MAX_STALENESS = 100  # rounds
LONG = 60.0  # seconds of waiting after which a message is due
PAUSE = 0.002  # seconds between two looks while it waits
WHOLE = 1024  # episodes between two whole garbage collections, if there is no reset in between
SWITCH = 1e-4  # seconds after which the recorder must let go of the interpreter
FAREWELL = 5.0  # seconds in which the learner may save what it knows when the user stops the run


@dataclass(frozen=True)
class RealTime:
    """How a run at a rate is played.

    max_staleness: rounds by which the plan of an episode may be older than the newest round. Acting waits for a learner
      that is slower, or gone, with the machine in its safe action.
    learner: where it learns: "lowest", in a process of the lowest scheduling class, "usual", in one of the usual, or on
      Ray.
    """

    deadlines: Deadlines
    max_staleness: int = MAX_STALENESS
    learner: LearnerLocation = LOWEST


def real_time(world: World, rate: Any, max_staleness: int | None, learner: LearnerLocation) -> RealTime:
    """The arguments `rate` (Hz, "own" or Deadlines), `max_staleness` and `learner` of a run, checked."""
    problem, most = world.problem, MAX_STALENESS if max_staleness is None else max_staleness
    check(most, PositiveInt, "'max_staleness' of a run")
    if not isinstance(problem, SteppedProblem):
        raise InvalidInput(
            f"Only a problem that is played step by step can be played at a rate. Got '{world.name}' instead: give a "
            "delay, or an environment."
        )
    if isinstance(learner, RayLearner):
        learner.check_there()
    if isinstance(rate, Deadlines):
        return RealTime(dataclasses.replace(rate, rate=rate_for(problem, rate.rate)), most, learner)
    return RealTime(Deadlines(rate_for(problem, None if rate == "own" else rate)), most, learner)


@contextmanager
def temporary_file() -> Iterator[Path]:
    """Where a run at a rate is written that keeps no file: its learner follows one."""
    with tempfile.TemporaryDirectory(prefix="resetfree-") as folder:
        yield Path(folder) / "run.rfrun"


def go_on(setup: Setup, ledger: Ledger) -> None:
    """Put the game of a resumed run after its last round; what its players know is for the learner to restore."""
    game, problem = setup.game, setup.world.problem
    assert isinstance(game, DelayedGame)
    try:
        for last in checked(problem, ledger.played(ledger.last, ledger.last)):
            game.k, game.s1 = last.k, None if problem.persistent else last.episode.next_start
    except InvalidInput as error:
        raise RunError(f"The rounds in '{ledger.path}' do not fit this problem: {error}") from error
    resets = np.flatnonzero(ledger.contents().columns["reset"])
    game.fell = int(resets[-1]) + 1 if len(resets) else 0


def act(request: RunRequest, opened: OpenRun, clock: RealTime) -> tuple[Ending | None, Checkpoint | None]:
    """Play the rest of a run, at its rate.

    Returns what ended it before its last episode, and the newest checkpoint of this call. Whatever is raised, the
    rounds so far are committed.
    """
    setup, ledger, watch, around = opened.setup, opened.ledger, opened.watch, request.around
    game, began, file = setup.game, time.monotonic() - opened.before, ledger.path
    assert file is not None
    assert isinstance(game, DelayedGame)
    if setup.spec["feedback"] == "exact":
        raise NotCertifiable(
            "The feedback 'exact' needs an oracle, which the learner of a run at a rate does not have."
        )

    def report(this: Round) -> None:
        game.stuck = watch.words
        if around.progress is not None:
            around.progress(game, this)
        callbacks.add(this)

    if begins := getattr(around.progress, "begins", None):
        begins(game)
    session = RealTimeSession(setup, file, request.where.path, around.operator, began)
    callbacks = CallbackThread(around.callbacks, session, setup.world.problem.horizon / clock.deadlines.rate)
    with held() as stop, callbacks, board_folder() as folder, Supervisor(folder) as learner:
        most, where, every = clock.max_staleness, clock.learner, request.where.checkpoint_every
        patience = clock.deadlines.patience
        learner.start(
            Assignment.of(
                setup, file, learner.folder, every=every, max_staleness=most, learner=where, patience=patience
            )
        )
        recorder = Recorder(
            ledger,
            learner,
            as_text=setup.start_type == "TEXT",
            seconds=lambda: time.monotonic() - began,
            progress=report,
            oracle=evaluator_of(setup.world.mdp, setup.world.problem),
            watch=watch,
            pause=min(0.5 / clock.deadlines.rate, PAUSE),
        )
        with recorder, _quiet() as scheduling, PlanReader(learner.plans, policy_classes()) as plans:
            acting = _Acting(setup, clock, _Others(learner, plans, recorder, callbacks), stop)
            acting.tell(f"The process that acts: {scheduling.words}")
            try:
                ended = acting.play(ledger, request, began)
            finally:
                acting.release()
            acting.end()
        recorder.check()
        return ended, recorder.newest


class _Others(NamedTuple):
    """What works beside the thread that acts."""

    learner: Supervisor
    plans: PlanReader
    recorder: Recorder
    callbacks: CallbackThread


class _Acting(Direct):
    """The schedule of a run in real time: each round is played with the newest plan that is ready, and handed on."""

    def __init__(self, setup: Setup, clock: RealTime, others: _Others, stop: Stop) -> None:
        problem, game = setup.world.problem, setup.game
        assert isinstance(problem, SteppedProblem)
        assert isinstance(game, DelayedGame)
        self._setup, self._problem, self._game, self._clock, self._stop = setup, problem, game, clock, stop
        self._learner, self._plans, self._recorder, self._callbacks = others
        self._asks = setup.spec.get("ask") == WHEN_STUCK
        self._ticks = Ticks(clock.deadlines.rate)
        self._plan: HeldPlan | None = None
        self._number, self._digest = 0, 0  # of the plan on its board
        self._begun = game.k  # rounds of earlier sessions
        self._moved = False  # whether the safe action was commanded since the sensors of the next start
        self._notes: list[Note] = []

    def tell(self, sentence: str, *, loud: bool = False, restart: str = "") -> None:
        """Record a sentence with the next round; warn of it at once if it is `loud`.  restart: of a `Note`."""
        self._notes.append(Note(self._game.k, sentence, restart=restart))
        if loud:
            warnings.warn(sentence, Notice, stacklevel=2)

    def play(self, ledger: Ledger, request: RunRequest, began: float) -> Ending | None:
        """Play until all episodes are played, a limit is reached, or the user stops it; returns which of these.

        began: when the run would have begun in one session, on the monotonic clock.
        """
        game, episodes, (resets, steps) = self._game, ledger.episodes, ledger.totals()
        rounds = rounds_of(self._setup, episodes=episodes, schedule=self)
        while isinstance(self._clock.learner, RayLearner) and self._learner.scheduling() is None and not self._stop:
            self._hear()  # a cluster that refuses it does so before anything is reset
            time.sleep(10 * PAUSE)
        while game.k < episodes and not self._stop:
            ended = request.how_long.spent(game.k, resets, steps, time.monotonic() - began)
            ended = ended or self._callbacks.ending(game.k)
            if ended is not None:
                return ended
            resets += self._is_stuck()
            if game.s1 is None:
                # Afterwards nothing is waited for, whether the machine is held then or not. The first plan rests on
                # where the first round starts.
                if game.k > 0 and self._newest_plan() is None:
                    break
                self._reset(request.around.operator)
            if game.k == 0:
                self._learner.begin(game.s1)
            this = next(rounds, None)
            if this is None:
                break
            resets, steps = resets + this.episode.reset, steps + len(this.episode.actions)
        return Ending(game.k, "stopped", STOPPED) if self._stop and game.k < episodes else None

    def _is_stuck(self) -> bool:
        """Note that the run is stuck; whether a reset is requested, for which the machine is released."""
        game, recorder = self._game, self._recorder
        if not recorder.stuck or game.s1 is None:
            return False
        recorder.stuck = False
        text = advised(recorder.watch, self._problem, self._asks)
        recorder.note(game.k, [Note(game.k, text, stuck=True)], {})
        if self._problem.persistent:
            warnings.warn(text, Notice, stacklevel=2)
        if self._asks:
            self.release()
            game.s1, game.why = None, STUCK
        return self._asks

    def release(self) -> None:
        """Nothing more is commanded: the machine is left in its safe action."""
        Holding(self._problem, self._clock.deadlines).release()

    def end(self) -> None:
        """Commit everything, and have the learner save what it knows by then."""
        self._recorder.flush()
        self._callbacks.finish(self._stop, FAREWELL)
        until = time.monotonic() + FAREWELL
        while self._game.k > self._begun:  # else there is nothing new to be saved
            self._learner.look(ending=True)
            self._recorder.look()
            self._recorder.flush()
            newest = self._recorder.newest
            if (newest is not None and newest.k >= self._game.k) or (self._stop and time.monotonic() > until):
                break
            self._hear()
            time.sleep(0.02)
        self._hear()
        if self._notes and self._game.k > 0:
            self._recorder.note(self._game.k, self._notes, {})
            self._recorder.flush()

    def _reset(self, operator: Operator | None) -> None:
        """Have a reset performed; the rounds so far are safe by then."""
        self._recorder.flush()
        gc.collect()
        self._ticks.stop()
        try:
            with self._stop.at_once():
                self._game.rng = reset_chance(self._game.seed, self._game.k + 1)
                reset_if_due(self._problem, self._game, operator)
            self._moved = False
        finally:  # also if the environment fails after a reset by an operator; soon, since a machine may go on by now
            done = [dataclasses.replace(one, k=self._game.k) for one in self._problem.interventions()]
            self._recorder.intervened(done)

    def plan(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> tuple[int, float, Plan] | None:
        """The newest plan that is ready; None if the user stops the run while there is none."""
        found = self._newest_plan()
        return None if found is None else found[:3]

    def episode(self, problem: Problem, policy: Any, game: Game) -> Episode:
        """Roll the policy out at the rate of the run."""
        chance, moved = self._game.chance(problem.n_uniforms), self._moved
        self._moved = False
        deadlines, ticks = self._clock.deadlines, self._ticks
        return rollout_at_rate(self._problem, policy, game.s1, chance, ticks=ticks, deadlines=deadlines, moved=moved)

    def learn(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game, this: Round) -> None:
        """Hand the round on: it is committed by a thread, and learned from by another process."""
        problem, ticks, k, episode = self._problem, self._ticks, this.k, this.episode
        timing = (this.based_on, self._digest, ticks.missed, ticks.latest_ns / SECOND)
        notes, self._notes = [*self._notes, *problem.noted], []
        problem.noted.clear()
        own = {name: array.copy() for name, array in problem.saved().items()}
        self._recorder.add(PlayedRound(this, timing, notes, own))
        game.k, game.s1, game.why = k, episode.next_start, "reset"
        self._game.fell = k if episode.reset else self._game.fell
        self._hear()
        gc.collect(1 if k % WHOLE else 2)

    def _hear(self) -> None:
        """What happened elsewhere: raises what ended the learner or the recorder."""
        self._recorder.check()
        self._plans.check()
        self._learner.check()
        self._callbacks.check()
        while self._learner.reports:
            report = self._learner.reports.pop(0)
            self.tell(report.what, loud=True, restart=report.restart)
        while self._callbacks.reports:
            self.tell(self._callbacks.reports.pop(0), loud=True)

    def _newest_plan(self) -> HeldPlan | None:
        """The newest plan that the next round may be played with; waits for it only if there is none."""
        self._take()
        least = max(self._game.fell, self._game.k - self._clock.max_staleness, 0)
        if self._plan is None or self._plan.based_on < least:
            self._wait(least)
        return None if self._stop else self._plan

    def _take(self) -> None:
        found = self._plans.newest
        if found is not None and found.number > self._number:
            self._number, self._digest, self._plan = found
            if self._number == 1:
                words = self._learner.scheduling()
                self.tell(f"The process that learns: {words}")

    def _wait(self, least: int) -> None:
        """Wait for a plan that rests on round `least` or a later one; the machine is safe meanwhile."""
        holding = None if self._game.s1 is None else Holding(self._problem, self._clock.deadlines)
        pause = min(PAUSE, 0.25 / self._clock.deadlines.rate)
        if self._game.s1 is not None and self._plan is not None and least > self._game.fell:
            self.tell(
                f"After episode {self._game.k} the newest plan rests on episode {self._plan.based_on}, and at most "
                f"{self._clock.max_staleness} may lie between (max_staleness): the safe action is held until the "
                "learner has caught up.",
                loud=True,
            )
        self._ticks.stop()
        long = time.monotonic() + LONG
        while not self._stop and (self._plan is None or self._plan.based_on < least):
            if holding is not None:
                holding.look()
                self._moved |= holding.commanded
            time.sleep(pause)
            if time.monotonic() > long:
                long += 10 * LONG
                hint = "" if self._clock.learner != LOWEST else ", or has no processor to itself (--learner usual)"
                hint = ", or is out of reach" if isinstance(self._clock.learner, RayLearner) else hint
                self.tell(f"After {LONG:g} s there is still no plan to act on: the learner computes{hint}.", loud=True)
            self._hear()
            self._take()


@contextmanager
def _quiet() -> Iterator[Scheduling]:
    """Nothing in the way of an episode: the highest scheduling class, no garbage collection, short turns of threads."""
    switch, collected = sys.getswitchinterval(), gc.isenabled()
    policy = (os.sched_getscheduler(0), os.sched_getparam(0)) if hasattr(os, "sched_getparam") else None
    nice = os.getpriority(os.PRIO_PROCESS, 0) if hasattr(os, "getpriority") else 0
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(SWITCH)
    try:
        yield take_highest()
    finally:
        with suppress(OSError):
            if policy is not None:
                os.sched_setscheduler(0, *policy)
            if hasattr(os, "setpriority"):
                os.setpriority(os.PRIO_PROCESS, 0, nice)
        sys.setswitchinterval(switch)
        gc.unfreeze()
        if collected:
            gc.enable()
