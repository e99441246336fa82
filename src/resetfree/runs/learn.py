"""`learn`: play the game, keep every round, and resume after any interruption with the same result, bit for bit.

All randomness comes from one seed. Every round is committed before a reset is requested, and at the latest after
`checkpoint_every` seconds, together with a checkpoint: the state of the game between two rounds. Resuming restores the
newest checkpoint, and replays the rounds since to the players.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from resetfree.core import arguments
from resetfree.core.arguments import flag, is_function, real, whole
from resetfree.core.errors import InvalidInput, RunError
from resetfree.core.settings import check, expect
from resetfree.game.contract import MOST_EPISODES, DualPlayer, PrimalPlayer
from resetfree.problems.model_data import model_from
from resetfree.problems.operators import Operator
from resetfree.problems.paced import Deadlines
from resetfree.problems.registry import PROBLEMS
from resetfree.problems.world import World, find_world
from resetfree.runs.data.pretraining import taught_again, taught_anew
from resetfree.runs.extension import check_more, extension_note
from resetfree.runs.file.ending import Budget
from resetfree.runs.file.ledger import Ledger, read
from resetfree.runs.file.spec import difference
from resetfree.runs.followed import followed
from resetfree.runs.live.acting import by_the_clock, go_on, temporary_file
from resetfree.runs.live.places import RayLearner, checked_place
from resetfree.runs.playing import Progress, Stopped, play_at_rate, play_rounds, run_of
from resetfree.runs.result import Run
from resetfree.runs.resuming import checkpoint_of, nonsense_refused, replay_since, restore, start_type
from resetfree.runs.session import Callback, check_callbacks
from resetfree.runs.setup import check_settings, prepare
from resetfree.runs.statements import classes_of
from resetfree.runs.stuck import WHEN_STUCK, Watch, asked_after, check_asking
from resetfree.runs.timed import as_timed

__all__ = ["Progress", "Stopped", "learn", "load"]
EPISODES = 2000  # of a run for which no number is given
FROM = ("data", "policy", "both")  # what a run takes from an old one


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
    learner: str | RayLearner = "lowest",
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
      to, or "usual"; or "ray", ray:ADDRESS or `RayLearner`: an actor of a Ray cluster (docs/real_time.md).
    callbacks: functions of the `Session`, called after every round: True or a text ends the run (see `callbacks`). At a
      rate they are called in a thread of their own, and not waited for (see `live.calling`).
    steps, seconds: end the run after so many steps, or so much time in all sessions; as with `max_resets`, it can be
      resumed later with a larger number. What ended a run is in `run.ended`.
    data: episodes to learn from before the first round: run files, files of transitions (.npz, .parquet), rollouts of
      Gymnasium, datasets of Minari, or a list of those. Resets in them are known dangers, and no resets of this run.
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
    (50, 6, 4)
    """
    resume, overwrite = flag(resume, "'resume' of learn"), flag(overwrite, "'overwrite' of learn")
    given = check_settings(settings)
    every = real(checkpoint_every, "'checkpoint_every' of learn", finite=False)
    expect(progress is None or is_function(progress), "'progress' of learn", "be a function", progress)
    if path is None and (resume or overwrite):
        raise InvalidInput("Only a run in a file can be resumed or overwritten. Got no file instead: give path=...")
    budget, watching = Budget.checked(max_resets, steps, seconds), check_callbacks(callbacks)
    if rate is not None and delay is not None:
        raise InvalidInput("A run is played at a rate or with a delay in rounds. Got both instead.")
    if rate is None and max_staleness is not None:
        raise InvalidInput("The 'max_staleness' of learn needs a 'rate'. Got none instead.")
    learner = checked_place(learner, at_rate=rate is not None)
    timing: dict[str, Any] | None = None
    if delay is not None:
        timing = {"delay": whole(delay, "'delay' of learn", 0, MOST_EPISODES)}
    check(ask, Literal["never", "when-stuck"] | None, "'ask' of learn")
    if ask == WHEN_STUCK and delay is not None:
        raise InvalidInput("A run that asks when it is stuck cannot be played with a delay. Got both instead.")
    if resume and overwrite:
        raise InvalidInput("A run is either resumed or overwritten. Got both: leave out resume=True or overwrite=True.")
    named = from_what is None or (isinstance(from_what, str) and from_what in FROM)
    expect(named, "'from_what' of learn", f"be one of {', '.join(FROM)}", from_what)
    if from_what is not None and start_from is None:
        raise InvalidInput("The 'from_what' of learn needs a 'start_from'. Got none instead.")
    old = load(start_from) if isinstance(start_from, str | Path) else start_from
    expect(old is None or isinstance(old, Run), "'start_from' of learn", "be a run or its file", start_from)
    file = None if path is None else arguments.path(path, "'path' of learn")
    played: Callable[..., Run] = partial(
        play_rounds, progress=progress, every=every, operator=operator, budget=budget, callbacks=watching
    )
    with find_world(problem, given.get("problem")) as world:  # closed when the run ends, if it was made here
        if operator is not None:
            _check_operator(world)
        if isinstance(episodes, int | np.integer):  # `prepare` refuses other numbers
            budget.check_reach(episodes, world.problem.horizon)
        if rate is not None:
            clock = by_the_clock(world, rate, max_staleness, learner)
            timing = {"rate": clock.deadlines.rate}
            played = partial(
                play_at_rate,
                clock=clock,
                shown=file,
                progress=progress,
                every=every,
                operator=operator,
                budget=budget,
                callbacks=watching,
            )
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
            checkpoint_of(setup.game, 0.0)  # what cannot be saved is refused before the first round
            with nullcontext(file) if rate is None or file is not None else temporary_file() as kept:
                ledger = Ledger.create(kept, setup.spec, starts=start_type(setup), overwrite=overwrite, data=rows)
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
                run = run_of(world, ledger.contents(), file)
                ledger.settle()
                ledger.close()
                return run
            known = taught_again(setup, ledger, data, old, from_what)
            note = extension_note(setup, wanted) if wanted > ledger.episodes else None
            checkpoint, saved = ledger.newest()
            if "after_goal" not in ledger.spec and world.problem.units is None:
                world.problem.units = (0.0, 1.0)  # a run from before they were learned
            watch = Watch.of(world.problem)
            if rate is None:
                restore(world.problem, setup.game, checkpoint, saved, ledger)
                contents = ledger.contents()
                with nonsense_refused(setup, file):
                    replay_since(setup, ledger, asked_after(contents.interventions) if world.problem.persistent else ())
                    watch.replay(contents.columns, contents.interventions)
                checkpoint = checkpoint_of(setup.game, before)
            else:  # its learner replays them
                checkpoint = checkpoint or checkpoint_of(setup.game, before)
                restore(world.problem, setup.game, None, saved, ledger)
                go_on(setup, ledger)
                contents = ledger.contents()
                with nonsense_refused(setup, file):
                    watch.replay(contents.columns, contents.interventions)
            setup.game.why = "resume"
            ledger.resume(checkpoint)
            if note is not None:
                ledger.extend(wanted, note)
        except BaseException:
            ledger.close()
            raise
        with nonsense_refused(setup, file):
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
    made = partial(run_of, contents=contents, file=file, players=players)
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


def _check_operator(world: World) -> None:
    """Refuse an operator for a problem that resets itself, or whose `perform_reset` takes none."""
    if not world.problem.persistent:
        raise InvalidInput(f"The problem '{world.name}' resets itself: it takes no operator.")
    if len(inspect.signature(world.problem.perform_reset).parameters) < 3:
        raise InvalidInput(f"The method 'perform_reset' of the problem '{world.name}' must take (u, why, operator).")
