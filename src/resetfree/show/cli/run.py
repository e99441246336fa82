"""`resetfree run`: two players learn on a problem, and every round is kept in a file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table
from rich.text import Text

import resetfree as rf
from resetfree.core.certificate import plain
from resetfree.core.errors import AssumptionViolated, NotCertifiable, OperatorTimeout, ResetFreeError, RunError
from resetfree.game.capabilities import PlansAhead
from resetfree.game.loop import FEEDBACK
from resetfree.runs.diagnostics import past_horizon
from resetfree.runs.foresight import Foresight
from resetfree.runs.tracking import tracked
from resetfree.show.cli.common import FILE, emit, tensorboard_option
from resetfree.show.cli.common import as_json as json_option
from resetfree.show.cli.progress import Display, Tally, duration
from resetfree.show.cli.run_request import (
    FIELDS,
    asked_by,
    default_file,
    find_operator,
    opened,
    require_operator,
    resumed,
)
from resetfree.studies.trial import NamedPlayers, Trial

MEANS = ("with_reset", "without_reset")  # of what was predicted
DECISIONS = 5  # latest decisions of the primal player that are shown
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
@click.option("--resume", is_flag=True, help="Resume the run file; options that are not given are taken from it.")
@click.option("--overwrite", is_flag=True, help="Replace the run file if it exists.")
@json_option
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
    ask: Literal["never", "when-stuck"] | None,
) -> None:
    """Learn on PROBLEM and keep every round in a file. Ctrl-C ends it after the current episode, and saves it."""
    request = Trial(problem, {}, NamedPlayers(primal, dual, feedback, bound), episodes, seed)
    file = out or default_file(request)
    operator = find_operator(reached, operator_deadline, file)
    if resume:
        silent = [field for field in FIELDS if context.get_parameter_source(field) is ParameterSource.DEFAULT]
        request = resumed(request, file, pairs, silent)
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
    again += [] if tensorboard is None else ["--tensorboard", str(tensorboard)]
    budget = [] if max_resets is None else ["--max-resets", str(max_resets)]
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
                operator=None if (who := operator or asked_by(world)) is None else progress.watching(who),
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
    data = summary(done, max_resets)
    if data["stopped_because"] is not None:
        so_far = data["realised_resets"] + data["asked_resets"]
        words = shlex.join([*again, "--max-resets", str(so_far + (max_resets or 0))])
        click.echo(
            f"Ended at the allowed number of resets ({so_far}), after {len(done)} of {request.episodes} episodes. "
            f"Go on with: {words}",
            err=True,
        )
    emit(data, as_json, lambda console: show(console, data))


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
            **{key: spec[key] for key in ("problem", "problem_options", "horizon", "episodes", "seed", "feedback")},
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
            "seconds": run.seconds,
            "pauses": None if waits is None else {name: getattr(waits, name) for name in ("last", "longest", "total")},
            "episodes_played": len(run),
            "max_resets": max_resets,
            "stopped_because": "max_resets" if len(run) < spec["episodes"] else None,
            "interventions": len(run.interventions),
            "seconds_waited": waited,
            "resets_bound": tally.upper,
            "recent": {"episodes": length, "resets": lately, "bound": bound},
            "further_resets_bound": tally.further(spec["episodes"] - len(run)),
            "most_further_resets": None if most is None else max(most - tally.resets, 0),
            "mean_steps_between_resets": tally.mean_steps,
            "mean_seconds_between_resets": max(run.seconds - waited, 0.0) / tally.resets if tally.resets else None,
            "run_file": None if run.path is None else str(run.path),
        }
    )
    return result


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
    if data["chosen"]:
        rows.insert(2, ("chosen because", data["chosen"]))
    for role in ("primal", "dual"):
        statement = data["statements"][role]
        constants = " ".join(f"{key}={_short(value)}" for key, value in statement["constants"].items())
        verdict = "guaranteed" if statement["covered"] else "no guarantee"
        outside = next((one["k"] for one in data["notes"] if one["tuned"]), None)
        if role == "primal" and statement["covered"] and outside is not None:
            verdict = f"tuned from episode {outside} on"
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
