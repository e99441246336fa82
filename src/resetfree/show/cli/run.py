"""`resetfree run`: two players learn on a problem, and every round is kept in a file."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table
from rich.text import Text

import resetfree as rf
from resetfree.core.certificate import plain
from resetfree.core.errors import AssumptionViolated, NotCertifiable, OperatorTimeout, ResetFreeError, RunError
from resetfree.game.capabilities import PlansAhead
from resetfree.game.loop import FEEDBACK
from resetfree.problems.resolve import full_name
from resetfree.runs.diagnostics import past_horizon
from resetfree.runs.foresight import Foresight
from resetfree.runs.ledger import read_spec_of
from resetfree.runs.live.places import LEARNERS, RayLearner
from resetfree.runs.tracking import tracked
from resetfree.show.cli.common import FILE, emit, tensorboard_option
from resetfree.show.cli.common import as_json as json_option
from resetfree.show.cli.progress import Display, Tally, duration
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
from resetfree.show.report.html.html_tables import data_words
from resetfree.studies.trial import NamedPlayers, Trial
from resetfree.theory.certificates.asked import ROLES, past_plan

MEANS = ("with_reset", "without_reset")  # of what was predicted
DECISIONS = 5  # latest decisions of the primal player that are shown
# What ends a run, and what a run has spent of it.
LIMITS: dict[str, Callable[[rf.Run], float]] = {
    "max_resets": lambda run: (int(run.realised_resets[-1]) if len(run) else 0) + len(run.asked),
    "steps": lambda run: int(run.columns["steps"].sum()),
    "seconds": lambda run: round(run.seconds, 1),
}
NOTES = 5  # latest notes about the problem that are shown


@click.command()
@click.argument("problem")
@click.option(
    "--primal",
    default="auto",
    show_default=True,
    help="Chooses the policy: a name from `list players`, or module:Class.",
)
@click.option("--dual", default="auto", show_default=True, help="Chooses the multiplier: a name or module:Class.")
@click.option("--episodes", type=click.IntRange(min=1), default=2000, show_default=True, help="Rounds to play.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all random numbers.")
@click.option(
    "--feedback",
    type=click.Choice(["auto", *FEEDBACK]),
    default="auto",
    show_default=True,
    help="The cost signal that the dual player receives.",
)
@click.option("--bound", type=float, help="Bound B on the multipliers; default: the oracle's least one.")
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting: problem.n=7, primal.scale=0.1, dual.B=40, or the bare key if only one has it; repeat.",
)
@click.option(
    "--max-resets", type=click.IntRange(min=1), help="End the run after so many resets; it can be resumed later."
)
@click.option(
    "--operator",
    "reached",
    default="none",
    show_default=True,
    metavar="WHO",
    help="Who performs resets: terminal, http, http:PORT, a folder (docs/hardware.md), a name from `list operators` or "
    "module:Class; none: the problem resets itself.",
)
@click.option("--operator-deadline", type=float, metavar="SECONDS", help="How long to wait for a person.")
@click.option("--out", type=FILE, help="The run file; default: a new one in the folder runs.")
@tensorboard_option
@click.option("--steps", type=click.IntRange(min=1), help="End the run after so many steps; it can be resumed later.")
@click.option("--seconds", type=float, help="End the run after so much time in all; it can be resumed later.")
@click.option(
    "--resume",
    is_flag=True,
    help="Resume the run file; options that are not given are taken from it; more --episodes go on beyond its plan.",
)
@click.option("--overwrite", is_flag=True, help="Replace the run file if it exists.")
@json_option
@click.option(
    "--delay",
    type=click.IntRange(min=0),
    metavar="ROUNDS",
    help="Play with plans that are so many rounds old, as on a machine that does not wait (docs/columns.md).",
)
@click.option(
    "--rate",
    metavar="HZ",
    help="Play by the clock, so many steps per second, and learn in another process; own: the environment's own rate.",
)
@click.option(
    "--max-staleness",
    type=click.IntRange(min=1),
    metavar="ROUNDS",
    help="At a rate: how many rounds old a plan may be before acting waits for the learner; default: 100.",
)
@click.option(
    "--learner",
    metavar="WHERE",
    default=LEARNERS[0],
    show_default=True,
    help="At a rate: where it learns: lowest or usual, a process of that scheduling class; ray, ray:auto, "
    "ray:HOST:PORT or ray://HOST:PORT, an actor of a Ray cluster (with --set learner.gpus=1, for example).",
)
@click.option(
    "--data",
    multiple=True,
    type=FILE,
    help="Learn from this file first: a run file, or transitions (.npz, .parquet); repeat.",
)
@click.option("--from", "start_from", type=FILE, metavar="OLD", help="Begin with data and policy of an old run file.")
@click.option("--from-what", type=click.Choice(["data", "policy", "both"]), help="What to take; default: what fits.")
@click.option(
    "--ask",
    type=click.Choice(["never", "when-stuck"]),
    help="Whether to have the agent put back when the run stands still (docs/help.md); default: never.",
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
) -> None:
    """Learn on PROBLEM and keep every round in a file. Ctrl-C ends it after the current episode, and saves it."""
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
            f"The run file '{file}' exists. Go on with it (--resume), replace it (--overwrite) or name another (--out)."
        )
    again = ["resetfree", "run", request.problem, "--resume", "--out", str(file)]
    for role, player in (("--primal", request.players.primal), ("--dual", request.players.dual)):
        again += [role, player] if ":" in player else []  # a class is imported only if the command names it
    again += [] if operator is None else ["--operator", reached]
    again += [] if operator_deadline is None else ["--operator-deadline", f"{operator_deadline:g}"]
    again += ["--learner", learner, *own_pairs(place)] if isinstance(place, RayLearner) else []
    again += [] if tensorboard is None else ["--tensorboard", str(tensorboard)]
    limits: dict[str, float | None] = {"max_resets": max_resets, "steps": steps, "seconds": seconds}
    budget = [word for name, limit in limits.items() for word in _limit(name, limit)]
    before = file if resume else None
    try:
        with (
            opened(request, pairs) as (world, settings),
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
        click.echo(f"{stopped} Go on with: {shlex.join(again + budget)}", err=True)
        raise click.exceptions.Exit(130) from None
    except OperatorTimeout as error:
        resume_it = f"The run is saved. Go on with: {shlex.join(again + budget)}"
        saved = resume_it if file.exists() else "Nothing was played."
        click.echo(f"{error} {saved}", err=True)
        raise click.exceptions.Exit(2) from None
    found = summary(done, max_resets)
    if (kind := found["stopped_because"]) in LIMITS:
        so_far = LIMITS[kind](done)
        more = {**limits, kind: so_far + (limits[kind] or 0)}
        words = shlex.join([*again, *(word for name, limit in more.items() for word in _limit(name, limit))])
        click.echo(
            f"Ended at the allowed number of {kind.removeprefix('max_')} ({so_far}), after {len(done)} of "
            f"{request.episodes} episodes. Go on with: {words}",
            err=True,
        )
    emit(found, as_json, lambda console: show(console, found))


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
    return {**run.spec["timing"], "plan_age": age, "missed": missed, "latest": latest}


def _warning(run: rf.Run) -> str | None:
    """A warning if resets happen beyond the planning horizon of the primal player, if it has one."""
    try:
        player = run.player_again("primal")
    except ResetFreeError:  # the player cannot be made again
        return None
    if not isinstance(player, PlansAhead):
        return None
    return past_horizon(run.columns, player.steps_ahead(run.spec["horizon"]))


def show(console: Console, data: Mapping[str, Any]) -> None:
    """Print the summary of a run as a table."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    k = data["episodes_played"]
    planned = "" if k == data["episodes"] else f" of {data['episodes']}"
    planned += "" if data["planned"] == data["episodes"] else f", planned were {data['planned']},"
    bound = "" if data["B"] is None else f"   B = {data['B']:.6g} ({data['B_source'] or 'given'})"
    players = f"{data['primal']} against {data['dual']}"
    recently = f"{data['recent']['bound']:.4g} in the last {data['recent']['episodes']} episodes"
    rows = [
        ("problem", f"{data['problem']}, episodes of {data['horizon']} actions"),
        ("players", f"{players}, feedback {data['feedback']}, seed {data['seed']}{bound}"),
        ("episodes", f"{k}{planned} in {data['seconds']:.2f} s"),
        ("regret", _per_episode(data["regret"], k)),
        ("resets, expected", _per_episode(data["resets"], k)),
        ("resets, realised", _per_episode(data["realised_resets"], k)),
        ("resets, predicted", _predicted(data)),
        ("resets, bound", f"expected at most {data['resets_bound']:.4g} in all, {recently} (95 % each)"),
    ]
    if data["data"] is not None:
        rows.insert(2, ("began with", data_words(data["data"])))
    if data["asked_resets"]:
        total = data["realised_resets"] + data["asked_resets"]
        rows.insert(6, ("resets, asked", f"{data['asked_resets']} besides, when it was stuck: {total} in all"))
    if data["goals"] or data["after_goal"]:
        then = "" if data["after_goal"] is None else f", after each: {data['after_goal']}"
        rows.append(("goals", f"{_per_episode(data['goals'], k)}{then}"))
    if data["realised_resets"]:
        apart = duration(data["mean_seconds_between_resets"])
        rows.append(("between resets", f"{data['mean_steps_between_resets']:.4g} steps, {apart} on average"))
    if data["interventions"]:
        rows.append(
            ("performed", f"{data['interventions']} times, {duration(data['seconds_waited'])} of waiting in all")
        )
    if data["pauses"] is not None and data["pauses"]["longest"]:
        longest, total = (duration(data["pauses"][name]) for name in ("longest", "total"))
        rows.append(("pauses", f"{longest} at the longest, {total} in all: what the players computed between episodes"))
    if data["timing"] is not None and data["timing"]["plan_age"] is not None:
        age, rate = data["timing"]["plan_age"], data["timing"].get("rate")
        clock = "" if rate is None else f"{rate:g} Hz, {data['timing']['missed']} deadlines missed"
        clock += f", the latest command {1000 * data['timing']['latest']:.3g} ms after its tick; " if clock else ""
        rows.append(("timing", f"{clock}plans were {age['mean']:.2g} rounds old on average (most {age['most']})"))
    if data["ended"]:
        rows.append(("ended", data["ended"]))
    if data["chosen"]:
        rows.insert(2, ("chosen because", data["chosen"]))
    for role in ("primal", "dual"):
        statement = data["statements"][role]
        constants = " ".join(f"{key}={_short(value)}" for key, value in statement["constants"].items())
        verdict = "guaranteed" if statement["covered"] else "no guarantee"
        outside = next((one["k"] for one in data["notes"] if one["tuned"]), None)
        if role == "primal" and statement["covered"] and outside is not None:
            verdict = f"tuned from episode {outside} on"
        if role == "primal" and statement["covered"] and data["data"] is not None:
            verdict = "tuned: it began with data"
        if statement["covered"] and data["tuned_after_plan"][role]:
            verdict = f"tuned from episode {data['planned'] + 1} on"
        if not statement["covered"] and statement.get("most_resets") is not None:
            verdict = "resets guaranteed"
        if data["regret"] is None and verdict != "no guarantee":  # the assumptions of the theorem could not be checked
            verdict += " if Assumption 1 holds"
        rows.append((f"{role}: {verdict}", statement["why"] + (f" [{constants}]" if constants else "")))
    shown = data["decisions"][-DECISIONS:]
    rows += [("decided" if i == 0 else "", f"after episode {one['k']}: {one['what']}") for i, one in enumerate(shown)]
    if data["warning"]:
        rows.append(("note", data["warning"]))
    rows += [
        ("STUCK" if one["stuck"] else "note", f"episode {one['k']}: {one['what']}") for one in data["notes"][-NOTES:]
    ]
    rows.append(("run file", data["run_file"]))
    for name, text in rows:
        style = "bold red" if name == "STUCK" else ""
        table.add_row(Text(name, style=style), Text(str(text), style=style))
    console.print(table)


def _per_episode(value: float | None, k: int) -> str:
    if value is None:
        return "not known: no oracle, or a start without a reset-free policy"
    return f"{value:.6g}   ({value / k:.4g} per episode)"


def _predicted(data: Mapping[str, Any]) -> str:
    predicted, said = data["predicted_resets"], data["prediction"]
    words = Foresight(predicted=predicted, realised=data["realised_resets"], **said).words
    return words if predicted is None else f"{predicted:.6g}   ({words})"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
