"""`learn`, `learn_fleet` and `load`: how a run begins, on one machine or several, and how one is resumed or read.

A resumed run has the same result as one that was never interrupted, bit for bit. All randomness comes from one seed.
Every round is committed before a reset is requested, and at the latest after `checkpoint_every` seconds, together with
a checkpoint: the state of the game between two rounds. Resuming restores the newest checkpoint, and replays the rounds
since to the players.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from resetfree.core import InvalidInput, RunError, arguments, whole
from resetfree.game.contract import MOST_EPISODES, DualPlayer, PrimalPlayer
from resetfree.players import current_settings
from resetfree.players.controlled import learner_of
from resetfree.problems import PROBLEMS, World, find_world
from resetfree.problems.blueprint import describe, model_from
from resetfree.problems.operators import Operator
from resetfree.runs.dataset_loading import taught_again, taught_anew
from resetfree.runs.file.ledger import Ledger, read, read_spec_of
from resetfree.runs.file.recorded import RecordedRound, ReplayedProblem, columns_of, difference
from resetfree.runs.file.runfile import Checkpoint, plain_row
from resetfree.runs.fleet.plan import FleetPlan, go_on_as_fleet
from resetfree.runs.live.acting import go_on, real_time, temporary_file
from resetfree.runs.playing import REWARD, Stopped, play_at_rate, play_rounds, run_of
from resetfree.runs.recall import classes_of, trusted_options
from resetfree.runs.request import HowLong, Options, Progress, RunRequest, What, signature_of
from resetfree.runs.result import MOST_KEPT, Run
from resetfree.runs.resuming import (
    check_more,
    extension_note,
    nonsense_refused,
    replay_since,
    restore,
)
from resetfree.runs.session import OpenRun, Session
from resetfree.runs.setup import Setup, as_timed, prepare, rounds_of
from resetfree.runs.stuck import WHEN_STUCK, Watch, requested_after

__all__ = ["Progress", "Stopped", "fulfil", "learn", "learn_fleet", "load"]
SINGLE = ("delay", "rate", "controller", "ask", "operator")  # options that are for one machine
PATIENCE = 4  # times as many episodes as on the machine, at most, that are played on a simulator


def learn(
    problem: Any,
    primal: str | PrimalPlayer[Any] = "auto",
    dual: str | DualPlayer[Any] = "auto",
    **options: Unpack[Options],
) -> Run:
    """Play `episodes` rounds of the two-player game on a problem, and keep every round.

    episodes: by default 2000; 200 where states are vectors, unless a limit (steps, seconds, max_resets) is given.
    problem: a gymnasium.Env, a FiniteMDP, a Problem, what has a method `problem()`, or what the command line takes.
    primal, dual: names, module:Class or players. "auto" (see `auto.choose`) picks what suits the problem, and the run
      says why; with a named primal player, "auto" is its partner: the paper's dual and feedback, unless it declares
      another; some have a partner and settings for the problem by their name alone (`PrimalPlayer.named`).
    settings: {"primal": {...}, "dual": {...}}, and {"problem": {...}} for a problem that is given by name (its options)
      and for a gymnasium.Env (arguments of `from_gym`).
    feedback: the cost signal of the dual player, see `game.FEEDBACK`, or "auto".
    B: bound on the multipliers for players that need one (default: the least one, computed by the oracle if available).
    controller: a function of the observation that returns the environment's own action (of the state, where it is
      counted), or module:function. It acts first, and wherever the learned policy is new or predicts danger; that takes
      over only where it is better by a test, and gives back (docs/controller.md).
    explore: resets that the learned policy may cause beside a controller (default: 3); 0 leaves all to the controller.
    path: the run file (default: none is written).  overwrite: whether it may replace a run file.
    resume: continue the run of that file, with the same arguments; a finished run is only read. With more `episodes`
      it goes on beyond its plan (see `extension`); without, it has those that it had. Without a `seed` it has its own.
    progress: called after every round with the game and the round.
    checkpoint_every: seconds between two checkpoints (less at the start), the most that a crash can lose; rounds before
      a reset by an operator are never lost.
    max_resets: end the run after so many resets; it can be resumed later with a larger number.
    operator: performs the resets during this call, if the problem needs an operator (default: the problem's own).
    delay: play with plans that rest on what was known so many rounds before the last one, or on the newest reset: as
      on a machine that does not wait for its learner. Each round records which (`run.columns["based_on"]`), and chance
      comes per round from (seed, k): other rounds than without it, also for delay=0.
    rate: steps per second in real time, "own" for the environment's own, or `Deadlines` (docs/real_time.md). Learning
      goes on in another process, and each round is played with the newest plan that is ready.
    max_staleness: at a rate, rounds by which a plan may be older than the newest round (default: 100); acting waits for
      a learner that is slower, with the machine in its safe action.
    learner: at a rate, the scheduling class of the process that learns: "lowest", which runs when nothing else wants
      to, or "usual"; or "ray", ray:ADDRESS or `RayLearner`: an actor of a Ray cluster (docs/real_time.md).
    callbacks: functions of the `Session`, called after every round: True or a text ends the run (see `callbacks`). At a
      rate they are called in a thread of their own, and not waited for (see `live.calling`).
    steps, seconds: end the run after so many steps, or so much time in all sessions; as with `max_resets`, it can be
      resumed later with a larger number. What ended a run is in `run.ended`.
    data: what to learn from before the first round: logs with named columns (tables, .csv, .parquet, .npz), runs and
      their files, rollouts of Gymnasium, datasets of Minari, or a list of those. Resets in them are known dangers, and
      no resets of this run.
    demonstrations: a few good episodes, in any form of `data`: data as well, and a policy to improve on.
    simulator: a simulator of the machine, in any form of `problem`, or a run on one: the players learn on it first,
      until as many `episodes` in a row had no reset (four times as many at most), and this run begins with what they
      saw and with their policy, as with `start_from`. Resets there are known dangers. A note says when the machine's
      dynamics are found to differ (docs/logs.md).
    start_from: an old run, whose data and policy this one begins with; from_what: "data", "policy" or "both" (default:
      both, or the data alone if its policy does not fit).
    ask: "when-stuck" has the agent put back when the run is stuck (`runs.stuck`): resets that are counted apart,
      and that no player sees; "never" (default) only notes it. A resumed run goes on as it began.

    Ctrl-C ends the run after the current round, saves it and raises `Stopped`; a second one, or one during a request to
    an operator, ends it at once. SIGTERM does the same. If a player, the problem, a callback or the operator raises,
    the rounds so far are saved before the exception propagates.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", episodes=50, seed=1)
    >>> len(run), int(run.realised_resets[-1]), round(float(run.resets[-1]))
    (50, 3, 3)
    """
    request = _requested(problem, {"primal": primal, "dual": dual, **options})
    with request.world() as world:  # closed when the run ends, if it was made here
        return fulfil(request, world)


learn.__signature__ = signature_of(learn)  # type: ignore[attr-defined]


def learn_fleet(
    machines: Any,
    primal: str | PrimalPlayer[Any] = "auto",
    dual: str | DualPlayer[Any] = "auto",
    *,
    n: int | None = None,
    operators: int | Sequence[Operator] = 1,
    reset_time: float = 0.0,
    risk: float = 1.0,
    where: str = "auto",
    **options: Unpack[Options],
) -> Run:
    """Learn on several machines of one kind at the same time: each reset teaches all.

    machines: a list with a problem, an environment or an id for each machine; or one id, for `n` machines (16).
    episodes: of all machines together; other options as of `learn`.
    operators: how many operators there are: a machine that needs a reset waits until one is free, who then goes to the
      machine that earned the most. Or a list of people (`OperatorReset`), who are waited for in real time.
    reset_time: steps that a reset takes.
    risk: how many falls may be expected of all episodes under way that try something new. With a smaller number they
      stand longer and fall less; with 1e9 they never stand because of others.
    where: "here", one after the other in this process (finite problems); "threads" (environments that are given as
      objects, and with people); "processes" (what is given by name); "ray" or ray:ADDRESS, on a Ray cluster.

    Rounds are in one run file, in the order in which their episodes were over; `run.columns` has the machine of each,
    when it began and ended, and how long the machine had waited (docs/fleet.md).

    >>> import resetfree as rf
    >>> run = rf.learn_fleet(["grid-v0"] * 4, episodes=200, operators=2, reset_time=10)
    >>> sorted(set(run.columns["machine"].tolist())), len(run)
    ([1, 2, 3, 4], 200)
    """
    given: dict[str, Any] = dict(options)
    for name in SINGLE:
        if given.get(name) not in (None, "never"):
            raise InvalidInput(f"The '{name}' of learn is for one machine. Leave it out of learn_fleet.")
    several = isinstance(machines, Sequence) and not isinstance(machines, str)
    first = next(iter(machines), None) if several else machines
    request = _requested(first, {"primal": primal, "dual": dual, **options})
    how = {"operators": operators, "reset_time": reset_time, "risk": risk, "where": where}
    world, plan = FleetPlan.of(machines, n, dict(request.what.options), **how)
    with world:
        return fulfil(request, world, plan)


def _requested(problem: Any, options: Mapping[str, Any]) -> RunRequest:
    """The request that arguments make; a run that is resumed without a `seed` has its own."""
    request = RunRequest.of(problem, options)
    if request.where.resume and "seed" not in options and request.where.path is not None:
        request = request.changed("what", seed=read_spec_of(request.where.path)["seed"])
    return request


def fulfil(request: RunRequest, world: World, fleet: FleetPlan | None = None) -> Run:
    """Play the run of a request on its problem, made by `request.world()`; what `learn` does once it has both.

    fleet: the machines, if there are several.
    """
    simulator = request.from_what.simulator
    if simulator is not None:
        known = request.where.resume or isinstance(simulator, Run)
        request = request.changed(
            "from_what", simulator=None, start_from=simulator if known else _first_on(simulator, request)
        )
        request = request.changed("from_what", start_from=None) if request.where.resume else request
    old = request.from_what.start_from
    if isinstance(old, str | Path):
        request = request.changed("from_what", start_from=load(old))
    clock, when, file = None, request.when, request.where.path
    timing: dict[str, Any] | None = None if when.delay is None else {"delay": when.delay}
    request.check_on(world)
    if when.rate is not None:
        clock = real_time(world, when.rate, when.max_staleness, when.learner)
        timing = {"rate": clock.deadlines.rate}
    timing = timing if fleet is None else fleet.timing
    with ExitStack() as kept:
        if request.where.resume and file is not None:
            world = _as_it_became(world, file)
            opened = _reopen(request, world, Ledger.reopen(file), timing, fleet)
            if isinstance(opened, Run):
                return opened
            kept.enter_context(nonsense_refused(opened.setup, file))
            opened = _with_first(request, opened)
        else:
            setup = _prepared(request, world, timing)
            if clock is not None and file is None:
                file = kept.enter_context(temporary_file())
            opened = _create(request, setup, file, fleet, on_simulator=simulator is not None)
            opened = _with_first(request, opened)
        if opened.schedule is not None:
            kept.callback(opened.schedule.close)
        if clock is not None:
            return play_at_rate(request, opened, clock)
        run = play_rounds(request, opened)
        return (
            play_rounds(request, _widened(request, opened, run)) if world.problem.advised_history and not fleet else run
        )


def _first_on(simulator: Any, request: RunRequest) -> Run:
    """The run on a simulator, as requested of the one on the machine; in no file, and without its limits.

    Resets cost nothing there, so it goes on until as many episodes in a row had none: what is learned next is not yet
    reliable when the last reset was a moment ago.
    """
    what, planned = What(simulator, seed=request.what.seed), HowLong(request.how_long.episodes)
    first = RunRequest(what, who=dataclasses.replace(request.who, controller=None, explore=None))
    with first.world() as world:
        n = int(whole(planned.planned(world.problem), "'episodes' of a run", 1, MOST_EPISODES))
        in_a_row = 0

        def is_reliable(session: Session) -> bool:
            nonlocal in_a_row
            in_a_row = 0 if session.round.episode.reset else in_a_row + 1
            return in_a_row >= n or (session.k >= n and (session.k + 1) * world.problem.horizon > MOST_KEPT)

        first = first.changed("how_long", episodes=min(PATIENCE * n, MOST_EPISODES))
        return fulfil(first.changed("around", callbacks=(is_reliable,)), world)


def _prepared(
    request: RunRequest, world: World, timing: dict[str, Any] | None, before: dict[str, Any] | None = None
) -> Setup:
    """The setup of a request.  before: the spec of the run that is resumed."""
    episodes: Any = request.how_long.planned(world.problem)
    episodes = episodes if before is None else before["episodes"]
    return as_timed(prepare(world, request.who, episodes=episodes, seed=request.what.seed, before=before), timing)


def _create(
    request: RunRequest, setup: Setup, file: Path | None, fleet: FleetPlan | None = None, on_simulator: bool = False
) -> OpenRun:
    """A new run, in a new file if it has one."""
    known, rows = None, []
    if request.from_what:
        known = taught_anew(setup, request.from_what)
    if known is not None:
        rows = known.rows()
        setup.spec["data"] = {**known.about(rows), **({"simulator": True} if on_simulator else {})}
    setup.spec.update({"ask": WHEN_STUCK} if request.around.ask == WHEN_STUCK else {})
    setup.checkpoint(0.0)  # what cannot be saved is refused before the first round
    starts, overwrite = setup.start_type, request.where.overwrite
    ledger = Ledger.create(file, setup.spec, starts=starts, overwrite=overwrite, data=rows)
    schedule = None if fleet is None else fleet.schedule(setup, ledger.episodes, 0.0)
    return OpenRun(setup, ledger, before=0.0, given=known, watch=Watch.of(setup.world.problem), schedule=schedule)


def _as_it_became(world: World, file: Path) -> World:
    """The problem of a file with the history of observations as its state, where the run had switched to one."""
    n = read_spec_of(file)["problem_options"].get("history")
    if type(n) is not int or "history" in world.options or not world.problem.may_remember:
        return world
    world.problem.remember(n)
    return dataclasses.replace(world, options={**world.options, "history": n})


def _with_first(request: RunRequest, opened: OpenRun) -> OpenRun:
    """The run with its rounds in memory, if its state may still become a history of observations.

    That is so only for runs that learn from their own rounds alone: played directly, without data or a controller.
    """
    problem, ledger = opened.setup.world.problem, opened.ledger
    alone = request.when.rate is request.when.delay is None and not request.from_what
    if not (alone and opened.schedule is request.who.controller is None and problem.may_remember):
        return opened
    rounds = list(ledger.played(1, ledger.last)) if ledger.last else []
    problem.review([one.episode for one in rounds])
    return dataclasses.replace(opened, first=rounds) if problem.may_remember else opened


def _widened(request: RunRequest, opened: OpenRun, run: Run) -> OpenRun:
    """The run restarted with a history of observations as its state: fresh players learn from the rounds so far."""
    world, problem, first = opened.setup.world, opened.setup.world.problem, opened.first or []
    n = problem.advised_history
    episodes = problem.remember(n, [one.episode for one in first])
    extended = dataclasses.replace(world, options={**world.options, "history": n})
    if run.path is not None:
        request = request.changed("where", overwrite=True, resume=False)
    again = _create(request, _prepared(request, extended, None), run.path)
    setup, ledger = again.setup, again.ledger
    rounds = [RecordedRound(one.k, new.start, new) for one, new in zip(first, episodes, strict=True)]
    replayed, as_text = ReplayedProblem(problem, rounds), setup.start_type == "TEXT"
    for this in rounds_of(setup, problem=replayed, episodes=len(rounds)):
        row, episode = columns_of(this), this.episode
        ledger.append(plain_row(row, as_text), episode)
        end, steps = episode.next_start, len(episode.actions)
        again.watch.see(this.k, this.s1, row[REWARD], episode.reset, end, goals=episode.goals, steps=steps)
    ledger.intervened(run.interventions)
    ledger.note(len(rounds), run.notes, problem.saved())
    return dataclasses.replace(again, before=run.seconds)


def _with_present_names(spec: dict[str, Any], setup: Setup) -> dict[str, Any]:
    """The spec of a file with the settings of its players under their present names; new settings have defaults."""
    players = {"primal": learner_of(setup.primal), "dual": setup.dual}
    named = {
        role: {**_defaults(player), **current_settings(player, spec[role]["settings"])}
        for role, player in players.items()
    }
    return {**spec, **{role: {**spec[role], "settings": own} for role, own in named.items()}}


def _defaults(player: Any) -> dict[str, Any]:
    """The settings of a player that it has by default; they may be newer than the file."""
    known = dataclasses.fields(player) if dataclasses.is_dataclass(player) else ()
    return {one.name: describe(one.default) for one in known if one.default == getattr(player, one.name)}


def _reopen(
    request: RunRequest,
    world: World,
    ledger: Ledger,
    timing: dict[str, Any] | None,
    fleet: FleetPlan | None,
) -> OpenRun | Run:
    """The run of a file, with its game where it ended; or the run itself, if it is finished."""
    file, episodes, spec = request.where.path, request.how_long.episodes, ledger.spec
    assert file is not None
    try:
        wanted = ledger.episodes if episodes is None else whole(episodes, "'episodes' of a run", 1, MOST_EPISODES)
        setup = _prepared(request, world, timing, spec)
        different, ask, asks = (
            difference(_with_present_names(spec, setup), setup.spec),
            request.around.ask,
            spec.get("ask", "never"),
        )
        if different or ask not in (None, asks):
            raise RunError(f"The run file '{file}' {different or f'was made with ask={asks!r}, not {ask!r}'}.")
        setup = dataclasses.replace(setup, spec=spec)
        check_more(file, ledger.episodes, ledger.last, wanted)
        k, before = ledger.saved()
        if k >= wanted:
            run = run_of(world, ledger.contents(), file)
            ledger.settle()
            ledger.close()
            return run
        known = taught_again(setup, ledger, request.from_what)
        note = extension_note(setup, wanted) if wanted > ledger.episodes else None
        schedule = None if fleet is None else fleet.schedule(setup, wanted, before)
        opened = OpenRun(setup, ledger, before, given=known, watch=Watch.of(world.problem), schedule=schedule)
        checkpoint = _go_on(opened, file, at_rate=request.when.rate is not None)
        setup.game.why = "resume"
        ledger.resume(checkpoint)
        if note is not None:
            ledger.extend(wanted, note)
    except BaseException:
        ledger.close()
        raise
    return opened


def _go_on(opened: OpenRun, file: Path, *, at_rate: bool) -> Checkpoint:
    """Put the game of a file after its last round; returns the checkpoint that the run goes on from."""
    setup, ledger, watch = opened.setup, opened.ledger, opened.watch
    problem, game = setup.world.problem, setup.game
    checkpoint, saved = ledger.newest()
    if "after_goal" not in ledger.spec and problem.units is None:
        problem.units = (0.0, 1.0)  # a run from before they were learned
    if at_rate:  # its learner replays them
        checkpoint = checkpoint or setup.checkpoint(opened.before)
        restore(problem, game, None, saved, ledger)
        go_on(setup, ledger)
    else:
        restore(problem, game, checkpoint, saved, ledger)
    contents = ledger.contents()
    with nonsense_refused(setup, file):
        if opened.schedule is not None:
            go_on_as_fleet(setup, ledger, opened.schedule)
        elif not at_rate:
            replay_since(setup, ledger, requested_after(contents.interventions) if problem.persistent else ())
        watch.replay(contents.columns, contents.interventions)
    return checkpoint if at_rate and checkpoint is not None else setup.checkpoint(opened.before)


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
            options = trusted_options({**spec, "problem": problem}, options, Path(path))
        with find_world(problem, options) as world:
            if world.fingerprint != spec["fingerprint"]:
                raise RunError(f"The run file '{path}' holds a run of another problem ('{spec['problem']}').")
            return made(world)
    if not PROBLEMS.knows(spec["problem"]):  # not even an id of Gymnasium without its prefix
        return made(_own_table(spec))
    try:
        found = find_world(spec["problem"], trusted_options(spec, options))
    except Exception:  # not registered here, or not with these options, which may be forged
        if options:
            raise
        return made(_own_table(spec))
    return made(found if found.fingerprint == spec["fingerprint"] else _own_table(spec))


def _own_table(spec: Mapping[str, Any]) -> World | None:
    """The problem of a user's own table, from the file alone if it was small enough to be kept there."""
    mdp = model_from(spec.get("model"), spec["problem"], spec["fingerprint"])
    return None if mdp is None else World(mdp.problem(), mdp, spec["problem"], {})
