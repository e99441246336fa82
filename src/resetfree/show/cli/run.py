"""`resetfree run`: two players learn on a problem, and every round is kept in a file."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from click.core import ParameterSource

import resetfree as rf
from resetfree.core.certificate import plain
from resetfree.core.errors import (
    AssumptionViolated,
    EnvironmentFailed,
    NotCertifiable,
    OperatorTimeout,
    ResetFreeError,
    RunError,
)
from resetfree.game.capabilities import PlansAhead
from resetfree.game.loop import FEEDBACK
from resetfree.problems.resolve import full_name
from resetfree.runs.diagnostics import past_horizon
from resetfree.runs.file.ledger import read_spec_of
from resetfree.runs.live.places import LEARNERS, RayLearner
from resetfree.runs.tracking import tracked
from resetfree.show.cli.common import FILE, emit, tensorboard_option
from resetfree.show.cli.common import as_json as json_option
from resetfree.show.cli.help_pages import Documented
from resetfree.show.cli.progress import Display, Tally
from resetfree.show.cli.run_request import (
    FIELDS,
    asked_by,
    default_file,
    find_operator,
    hertz,
    opened,
    own_pairs,
    place_of,
    require_operator,
    resumed,
)
from resetfree.show.cli.run_summary import show_run
from resetfree.show.film.kept_pictures import MOST_KEPT, filmed
from resetfree.studies.trial import NamedPlayers, Trial
from resetfree.theory.certificates.asked import ROLES, past_plan

MEANS = ("with_reset", "without_reset")  # of what was predicted
# What ends a run, and what a run has spent of it.
LIMITS: dict[str, Callable[[rf.Run], float]] = {
    "max_resets": lambda run: (int(run.realised_resets[-1]) if len(run) else 0) + len(run.asked),
    "steps": lambda run: int(run.columns["steps"].sum()),
    "seconds": lambda run: round(run.seconds, 1),
}


@click.command(
    cls=Documented,
    examples=[
        ("learn to balance a pole", "resetfree run CartPole-v1 --episodes 400 --out pole.rfrun"),
        ("continue it later, or after Ctrl-C", "resetfree run CartPole-v1 --out pole.rfrun --resume --episodes 800"),
    ],
    groups={
        "What is learned": ["--episodes", "--seed", "--set", "--primal", "--dual", "--feedback", "--bound"],
        "The run file": ["--out", "--resume", "--overwrite", "--json", "--film", "--tensorboard"],
        "When it ends": ["--max-resets", "--steps", "--seconds"],
        "Who resets it": ["--operator", "--operator-deadline", "--ask"],
        "What it begins with": ["--data", "--from", "--from-what"],
        "Machines that do not wait": ["--rate", "--delay", "--max-staleness", "--learner"],
    },
)
@click.argument("problem")
@click.option(
    "--primal",
    default="auto",
    show_default=True,
    help="The player that chooses the policy: a name from `list players`, or module:Class.",
)
@click.option("--dual", default="auto", show_default=True, help="The player that prices resets.")
@click.option(
    "--episodes", type=click.IntRange(min=1), metavar="N", default=2000, show_default=True, help="Episodes to play."
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True, help="Seed of all random numbers."
)
@click.option(
    "--feedback",
    type=click.Choice(["auto", *FEEDBACK]),
    default="auto",
    show_default=True,
    help="The cost signal for the dual player.",
)
@click.option(
    "--bound", type=float, help="Bound B on the price of a reset; default: the smallest that suffices, if it is known."
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting, such as problem.n=7, primal.scale=0.1 or dual.B=40; the bare key if only one of them has it. "
    "Can be repeated.",
)
@click.option(
    "--max-resets", type=click.IntRange(min=1), metavar="N", help="Stop after this many resets; --resume continues."
)
@click.option(
    "--operator",
    "reached",
    default="none",
    show_default=True,
    metavar="WHO",
    help="Who performs resets: none (the problem resets itself), terminal, http, http:PORT, a folder, a name from "
    "`list operators`, or module:Class; see docs/hardware.md.",
)
@click.option("--operator-deadline", type=float, metavar="SECONDS", help="How long to wait for the operator.")
@click.option("--out", type=FILE, help="Where to save the run; default: a file in the folder runs.")
@tensorboard_option
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Stop after this many steps.")
@click.option("--seconds", type=float, metavar="SECONDS", help="Stop after this time in all.")
@click.option(
    "--resume",
    is_flag=True,
    help="Continue the run file with its own options; with more --episodes, beyond its plan.",
)
@click.option("--overwrite", is_flag=True, help="Replace the run file if it exists.")
@json_option
@click.option(
    "--delay",
    type=click.IntRange(min=0),
    metavar="ROUNDS",
    help="Act on plans that are this many rounds old, to simulate a machine that does not wait (docs/columns.md).",
)
@click.option(
    "--rate",
    metavar="HZ",
    help="Act in real time, at this many steps per second, and learn in another process; own: the environment's rate.",
)
@click.option(
    "--max-staleness",
    type=click.IntRange(min=1),
    metavar="ROUNDS",
    help="With --rate: wait for the learner when the plan is older than this; default: 100.",
)
@click.option(
    "--learner",
    metavar="WHERE",
    default=LEARNERS[0],
    show_default=True,
    help="With --rate: where learning happens. lowest or usual: a process of that scheduling class; ray, ray:auto, "
    "ray:HOST:PORT or ray://HOST:PORT: an actor on a Ray cluster (with --set learner.gpus=1, for example).",
)
@click.option(
    "--data",
    multiple=True,
    type=FILE,
    help="Learn from this file first: a run file, or transitions (.npz, .parquet). Can be repeated.",
)
@click.option(
    "--from", "start_from", type=FILE, metavar="OLD", help="Begin with the data and the policy of an old run."
)
@click.option(
    "--from-what", type=click.Choice(["data", "policy", "both"]), help="What to take from it; default: whatever fits."
)
@click.option(
    "--ask",
    type=click.Choice(["never", "when-stuck"]),
    help="Whether to ask for a reset when the run is stuck (docs/help.md); default: never.",
)
@click.option(
    "--film",
    type=click.IntRange(1, MOST_KEPT),
    metavar="N",
    help="Keep the last N pictures before each reset, for `watch`; the environment draws every step, which takes time.",
)
@click.pass_context
def run(
    context: click.Context,
    problem: str,
    primal: str,
    dual: str,
    episodes: int,
    seed: int,
    feedback: str,
    bound: float | None,
    pairs: Sequence[str],
    max_resets: int | None,
    reached: str,
    operator_deadline: float | None,
    out: Path | None,
    tensorboard: Path | None,
    resume: bool,
    overwrite: bool,
    as_json: bool,
    delay: int | None,
    rate: str | None,
    max_staleness: int | None,
    learner: str,
    steps: int | None,
    seconds: float | None,
    data: Sequence[Path],
    start_from: Path | None,
    from_what: str | None,
    ask: Literal["never", "when-stuck"] | None,
    film: int | None,
) -> None:
    """Learn on a problem, and record every episode in a file.

    Ctrl-C stops after the current episode and saves the run; --resume continues it bit for bit.
    """
    place, pairs = place_of(learner, pairs)
    request = Trial(full_name(problem), {}, NamedPlayers(primal, dual, feedback, bound), episodes, seed)
    file = out or default_file(request)
    operator = find_operator(reached, operator_deadline, file)
    if resume:
        silent = [field for field in FIELDS if context.get_parameter_source(field) is ParameterSource.DEFAULT]
        request = resumed(request, file, pairs, silent)
        before_timing = read_spec_of(file).get("timing", {})
        delay = before_timing.get("delay") if delay is None else delay
        rate = str(before_timing["rate"]) if rate is None and "rate" in before_timing else rate
        if context.get_parameter_source("reached") is ParameterSource.DEFAULT:
            require_operator(request, file)
    elif file.exists() and not overwrite:
        raise RunError(
            f"The run file '{file}' exists. Continue it (--resume), replace it (--overwrite) or name another (--out)."
        )
    again = ["resetfree", "run", request.problem, "--resume", "--out", str(file)]
    for role, player in (("--primal", request.players.primal), ("--dual", request.players.dual)):
        again += [role, player] if ":" in player else []  # a class is imported only if the command names it
    again += [] if operator is None else ["--operator", reached]
    again += [] if operator_deadline is None else ["--operator-deadline", f"{operator_deadline:g}"]
    if place != LEARNERS[0]:
        again += ["--learner", learner, *(own_pairs(place) if isinstance(place, RayLearner) else [])]
    again += [] if max_staleness is None else ["--max-staleness", f"{max_staleness}"]
    again += [] if tensorboard is None else ["--tensorboard", str(tensorboard)]
    again += [] if film is None else ["--film", str(film)]
    limits: dict[str, float | None] = {"max_resets": max_resets, "steps": steps, "seconds": seconds}
    budget = [word for name, limit in limits.items() for word in _limit(name, limit)]
    before = file if resume else None
    try:
        with (
            opened(request, pairs) as (world, settings),
            filmed(world, film, file, resume=resume, by_the_clock=rate is not None),
            Display(request.episodes, before, file=file) as progress,
            operator or nullcontext(),
            tracked(progress, tensorboard, world, request.episodes, options={}, resumed=before) as note,
        ):
            done = rf.learn(
                world,
                **{**request.arguments, "settings": settings},
                path=file,
                resume=resume,
                overwrite=overwrite,
                progress=note,
                max_resets=max_resets,
                steps=steps,
                seconds=seconds,
                operator=None if (who := operator or asked_by(world)) is None else progress.watching(who),
                delay=delay,
                rate=hertz(rate),
                max_staleness=max_staleness,
                learner=place,
                data=list(data) or None,
                start_from=start_from,
                from_what=from_what,
                ask=ask,
            )
    except rf.Stopped as stopped:
        click.echo(f"{stopped} Continue with: {shlex.join(again + budget)}", err=True)
        raise click.exceptions.Exit(130) from None
    except (OperatorTimeout, EnvironmentFailed) as error:
        resume_it = f"The run is saved. Continue with: {shlex.join(again + budget)}"
        saved = resume_it if file.exists() else "Nothing was played."
        raise RunError(f"{error} {saved}") from error
    found = summary(done, max_resets)
    if (kind := found["stopped_because"]) in LIMITS:
        so_far = LIMITS[kind](done)
        more = {**limits, kind: so_far + (limits[kind] or 0)}
        words = shlex.join([*again, *(word for name, limit in more.items() for word in _limit(name, limit))])
        click.echo(
            f"Reached the limit of {so_far} {kind.removeprefix('max_')} after {len(done)} of {request.episodes} "
            f"episodes. Continue with: {words}",
            err=True,
        )
    emit(found, as_json, lambda console: show_run(console, done, found))


def _limit(name: str, value: float | None) -> list[str]:
    """A limit as words of a command."""
    return [] if value is None else [f"--{name.replace('_', '-')}", f"{value}"]


def summary(run: rf.Run, max_resets: int | None = None) -> dict[str, Any]:
    """The result of a run as plain data."""
    spec = run.spec
    tally, foreseen, waits = Tally.of(run.columns), run.foresight, run.pauses
    most = run.statements["primal"].get("most_resets")
    waited = sum(one.seconds for one in run.interventions)
    length, lately, bound = tally.recent
    regret: float | None = None
    resets: float | None = None
    try:
        regret, resets = float(run.regret[-1]), float(run.resets[-1])
    except NotCertifiable:
        pass
    except AssumptionViolated:  # a start without a reset-free policy: regret is undefined, resets are not
        resets = float(run.resets[-1])
    result: dict[str, Any] = plain(
        {
            **{key: spec[key] for key in ("problem", "problem_options", "horizon", "seed", "feedback")},
            "episodes": run.episodes,
            "planned": spec["episodes"],
            "data": spec.get("data"),
            "tuned_after_plan": {role: bool(past_plan(run, role)) for role in ROLES},
            **{key: spec[key] for key in ("B", "B_source", "chosen")},
            **{role: spec[role]["name"] for role in ("primal", "dual")},
            "settings": {role: spec[role]["settings"] for role in ("primal", "dual")},
            "statements": run.statements,
            "warning": _warning(run),
            "decisions": [one._asdict() for one in run.decisions],
            "regret": regret,
            "resets": resets,
            "realised_resets": tally.resets,
            "asked_resets": len(run.asked),
            "predicted_resets": foreseen.predicted,
            "goals": tally.goals if "goals" in run.columns else None,
            "after_goal": spec.get("after_goal") or None,
            "notes": [asdict(one) for one in run.notes],
            "prediction": {name: getattr(foreseen, name) for name in ("meant", "verdict", *MEANS)},
            "timing": timing(run),
            "seconds": run.seconds,
            "pauses": None if waits is None else {name: getattr(waits, name) for name in ("last", "longest", "total")},
            "episodes_played": len(run),
            "max_resets": max_resets,
            "stopped_because": None if run.ended is None else run.ended.kind,
            "ended": None if run.ended is None else run.ended.why,
            "interventions": len(run.interventions),
            "seconds_waited": waited,
            "resets_bound": tally.upper,
            "recent": {"episodes": length, "resets": lately, "bound": bound},
            "further_resets_bound": tally.further(run.episodes - len(run)),
            "most_further_resets": None if most is None else max(most - tally.resets, 0),
            "mean_steps_between_resets": tally.mean_steps,
            "mean_seconds_between_resets": max(run.seconds - waited, 0.0) / tally.resets if tally.resets else None,
            "run_file": None if run.path is None else str(run.path),
        }
    )
    return result


def timing(run: rf.Run) -> dict[str, Any] | None:
    """The request of a timed run, how old its plans were, and how late it acted; None for any other run."""
    if "timing" not in run.spec:
        return None
    ages, late = run.plan_ages, run.columns["lateness"]
    latest = float(late[~np.isnan(late)].max()) if not np.isnan(late).all() else None
    age = {"mean": float(ages.mean()), "most": int(ages.max())} if len(ages) else None
    missed = int(run.columns["missed"].sum())
    restarts = {why: sum(one.restart == why for one in run.notes) for why in ("ended", "hung")}
    return {**run.spec["timing"], "plan_age": age, "missed": missed, "latest": latest, "restarts": restarts}


def _warning(run: rf.Run) -> str | None:
    """A warning if resets happen beyond the planning horizon of the primal player, if it has one."""
    try:
        player = run.player_again("primal")
    except ResetFreeError:  # the player cannot be made again
        return None
    if not isinstance(player, PlansAhead):
        return None
    return past_horizon(run.columns, player.steps_ahead(run.spec["horizon"]))
