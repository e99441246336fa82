"""`resetfree run`: let two players learn on a problem, and keep every round in a file."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table
from rich.text import Text

import resetfree as rf
from resetfree.core.certificate import plain
from resetfree.core.errors import (
    AssumptionViolated,
    InvalidInput,
    NotCertifiable,
    OperatorTimeout,
    RunError,
    UnknownName,
)
from resetfree.game.auto import choose
from resetfree.game.loop import FEEDBACK
from resetfree.players import BASES, Role, discover, make_player
from resetfree.players import settings as defaults_of
from resetfree.problems.operators import OperatorReset
from resetfree.problems.operators.person import HTTP
from resetfree.problems.resolve import option_names, parse_options
from resetfree.problems.world import find_world
from resetfree.runs.diagnostics import past_horizon
from resetfree.runs.followed import followed
from resetfree.runs.ledger import read, read_spec_of
from resetfree.runs.setup import GROUPS
from resetfree.runs.tracking import tracked
from resetfree.show.cli.common import as_json as json_option
from resetfree.show.cli.common import say
from resetfree.show.cli.progress import Display, Tally, duration

Settings = dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a run is asked for, from the command line or from the file that is resumed."""

    problem: str
    primal: str
    dual: str
    episodes: int
    seed: int
    feedback: str
    settings: Settings

    @property
    def default_file(self) -> Path:
        """A name that tells runs apart."""
        players = "auto" if self.primal == self.dual == "auto" else f"{self.primal}-{self.dual}"
        words = f"{self.problem}-{players}-seed{self.seed}"
        return Path("runs") / (re.sub(r"[^\w.-]+", "-", words) + ".rfrun")


@click.command()
@click.argument("problem")
@click.option("--primal", default="auto", show_default=True, help="The player that chooses the policy.")
@click.option("--dual", default="auto", show_default=True, help="The player that chooses the multiplier.")
@click.option("--episodes", type=click.IntRange(min=1), default=2000, show_default=True, help="Rounds to play.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Where all chance comes from.")
@click.option(
    "--feedback",
    type=click.Choice(["auto", *FEEDBACK]),
    default="auto",
    show_default=True,
    help="What the dual player is told.",
)
@click.option("--bound", type=float, help="Bound B on the multipliers; default: the oracle's least one.")
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting: problem.n=7, primal.scale=0.1, dual.B=40, or the bare key where it fits one only; repeat.",
)
@click.option("--max-resets", type=click.IntRange(min=1), help="End the run after so many resets; it can go on later.")
@click.option(
    "--operator",
    "reached",
    default="none",
    show_default=True,
    metavar="WHO",
    help="Who performs resets: terminal, http, http:PORT or a folder (docs/hardware.md); none: the problem itself.",
)
@click.option("--operator-deadline", type=float, metavar="SECONDS", help="How long a person is waited for.")
@click.option("--out", type=click.Path(path_type=Path), help="The run file; default: a new one in the folder runs.")
@click.option(
    "--tensorboard", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Also write TensorBoard files into this folder (extra tensorboard).",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with the run file; what is not said again is taken from it.")
@click.option("--overwrite", is_flag=True, help="Replace the run file if it exists.")
@json_option
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
) -> None:
    """Learn on PROBLEM and keep every round in a file. Ctrl-C ends it after the episode being played, and saves it."""
    asked = Asked(problem, primal, dual, episodes, seed, feedback, {})
    file = out or asked.default_file
    operator = find_operator(reached, operator_deadline, file)
    if resume:
        asked = _resumed(context, asked, file, pairs, with_bound=bound is None)
        if context.get_parameter_source("reached") is ParameterSource.DEFAULT:
            _check_nobody_is_left_out(asked, file)
    elif file.exists() and not overwrite:
        raise RunError(
            f"The run file '{file}' exists. Go on with it (--resume), replace it (--overwrite) or name another (--out)."
        )
    given = split_settings(asked, pairs)
    settings = {group: asked.settings.get(group, {}) | given[group] for group in GROUPS}
    again = ["resetfree", "run", asked.problem, "--resume", "--out", str(file)]
    again += [] if operator is None else ["--operator", reached]
    again += [] if operator_deadline is None else ["--operator-deadline", f"{operator_deadline:g}"]
    again += [] if tensorboard is None else ["--tensorboard", str(tensorboard)]
    budget = [] if max_resets is None else ["--max-resets", str(max_resets)]
    try:
        with (
            Display(asked.episodes, file if resume else None, file=file) as progress,
            operator or nullcontext(),
            tracked(
                progress, tensorboard, asked.problem, asked.episodes, settings["problem"], file if resume else None
            ) as note,
        ):
            done = rf.learn(
                asked.problem, asked.primal, asked.dual, episodes=asked.episodes, seed=asked.seed,
                feedback=asked.feedback, path=file, resume=resume, overwrite=overwrite, B=bound, settings=settings,
                progress=note, max_resets=max_resets,
                operator=None if operator is None else progress.watching(operator),
            )  # fmt: skip
    except rf.Stopped as stopped:
        click.echo(f"{stopped} Go on with: {shlex.join(again + budget)}", err=True)
        raise click.exceptions.Exit(130) from None
    except OperatorTimeout as error:
        saved = (
            f"The run is saved. Go on with: {shlex.join(again + budget)}" if file.exists() else "Nothing was played."
        )
        click.echo(f"{error} {saved}", err=True)
        raise click.exceptions.Exit(2) from None
    data = summary(done, max_resets)
    if data["stopped_because"] is not None:
        so_far = data["realised_resets"]
        words = shlex.join([*again, "--max-resets", str(so_far + (max_resets or 0))])
        click.echo(
            f"Ended at the most resets that were allowed ({so_far}), after {len(done)} of {asked.episodes} episodes. "
            f"Go on with: {words}",
            err=True,
        )
    say(data, as_json, lambda console: show(console, data))


def find_operator(reached: str, deadline: float | None, file: Path) -> OperatorReset | None:
    """Whom `--operator` means; a folder must be told from a word that is spelt wrong."""
    if reached == "none":
        if deadline is not None:
            raise InvalidInput("The '--operator-deadline' needs an '--operator' who is waited for. Got none instead.")
        return None
    if HTTP.fullmatch(reached):
        return OperatorReset(by=reached, deadline=deadline, address=file.with_name(f"{file.name}.operator.json"))
    if reached == "terminal":
        return OperatorReset(by=reached, deadline=deadline)
    if os.sep not in reached and not Path(reached).is_dir():
        raise InvalidInput(
            "The '--operator' must be terminal, http, http:PORT, none or a folder (one that exists, or with a "
            f"'{os.sep}' in its name). Got '{reached}' instead."
        )
    return OperatorReset(by=Path(reached), deadline=deadline)


def summary(run: rf.Run, max_resets: int | None = None) -> dict[str, Any]:
    """What a run came to, as plain data."""
    spec = run.spec
    tally = Tally.of(run.columns)
    most = run.statements["primal"].get("most_resets")
    waited = sum(one.seconds for one in run.interventions)
    length, lately, bound = tally.recent
    regret: float | None = None
    resets: float | None = None
    try:
        regret, resets = float(run.regret[-1]), float(run.resets[-1])
    except NotCertifiable:
        pass
    except AssumptionViolated:  # a start without a reset-free policy: regret is not defined, resets are
        resets = float(run.resets[-1])
    result: dict[str, Any] = plain({
        "problem": spec["problem"], "primal": spec["primal"]["name"], "dual": spec["dual"]["name"],
        "episodes": spec["episodes"], "seed": spec["seed"], "regret": regret, "resets": resets,
        "realised_resets": tally.resets, "seconds": run.seconds, "episodes_played": len(run),
        "max_resets": max_resets, "stopped_because": "max_resets" if len(run) < spec["episodes"] else None,
        "interventions": len(run.interventions), "seconds_waited": waited,
        "resets_bound": tally.upper, "recent": {"episodes": length, "resets": lately, "bound": bound},
        "further_resets_bound": tally.further(spec["episodes"] - len(run)),
        "most_further_resets": None if most is None else max(most - tally.resets, 0),
        "mean_steps_between_resets": tally.mean_steps,
        "mean_seconds_between_resets": max(run.seconds - waited, 0.0) / tally.resets if tally.resets else None,
        "run_file": None if run.path is None else str(run.path), "feedback": spec["feedback"], "B": spec["B"],
        "B_source": spec["B_source"], "chosen": spec["chosen"], "statements": run.statements,
        "problem_options": spec["problem_options"], "horizon": spec["horizon"], "warning": _warning(run),
        "settings": {role: spec[role]["settings"] for role in ("primal", "dual")},
    })  # fmt: skip
    return result


def _warning(run: rf.Run) -> str | None:
    """Whether danger lies beyond what the player plans ahead, where it says how far that is."""
    settings = run.spec["primal"]["settings"]
    if "planning" not in settings:
        return None
    return past_horizon(run.columns, settings["planning"] or run.spec["horizon"])


def show(console: Console, data: Mapping[str, Any]) -> None:
    """The same for people."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    k = data["episodes_played"]
    planned = "" if k == data["episodes"] else f" of {data['episodes']}"
    bound = "" if data["B"] is None else f"   B = {data['B']:.6g} ({data['B_source'] or 'given'})"
    rows = [
        ("problem", f"{data['problem']}, episodes of {data['horizon']} actions"),
        (
            "players",
            f"{data['primal']} against {data['dual']}, feedback {data['feedback']}, seed {data['seed']}{bound}",
        ),
        ("episodes", f"{k}{planned} in {data['seconds']:.2f} s"),
        ("regret", _per_episode(data["regret"], k)),
        ("resets, expected", _per_episode(data["resets"], k)),
        ("resets, realised", _per_episode(data["realised_resets"], k)),
        ("resets, bound", _bounds(data)),
    ]
    if data["realised_resets"]:
        apart = duration(data["mean_seconds_between_resets"])
        rows.append(("between resets", f"{data['mean_steps_between_resets']:.4g} steps, {apart} on average"))
    if data["interventions"]:
        rows.append(("performed", f"{data['interventions']} times, waited {duration(data['seconds_waited'])} for"))
    if data["chosen"]:
        rows.insert(2, ("chosen because", data["chosen"]))
    for role in ("primal", "dual"):
        statement = data["statements"][role]
        constants = " ".join(f"{key}={_short(value)}" for key, value in statement["constants"].items())
        verdict = "guaranteed" if statement["covered"] else "no guarantee"
        if not statement["covered"] and statement.get("most_resets") is not None:
            verdict = "resets guaranteed"
        if data["regret"] is None and verdict != "no guarantee":  # nobody could check what the theorem rests on
            verdict += " if Assumption 1 holds"
        rows.append((f"{role}: {verdict}", statement["why"] + (f" [{constants}]" if constants else "")))
    if data["warning"]:
        rows.append(("note", data["warning"]))
    rows.append(("run file", data["run_file"]))
    for name, text in rows:
        table.add_row(Text(name), Text(str(text)))
    console.print(table)


def split_settings(asked: Asked, pairs: Sequence[str]) -> Settings:
    """KEY=VALUE pairs by what they belong to: the problem, the primal or the dual player."""
    names: dict[str, list[str] | None] = {"problem": option_names(asked.problem)}
    players: dict[Role, str] = {"primal": asked.primal, "dual": asked.dual}
    if "auto" in players.values():
        chosen = _chosen(asked, pairs, names["problem"])
        players = {role: chosen[role] if name == "auto" else name for role, name in players.items()}
    for role, player in players.items():
        make_player(role, player)  # an unknown name is refused here
        names[role] = list(defaults_of(discover(role)[player]))
    result: Settings = {group: {} for group in GROUPS}
    for key, value in parse_options(pairs).items():
        group, dot, name = key.partition(".")
        if dot and group in GROUPS:
            result[group][name] = value
            continue
        fits = [group for group in GROUPS if key in (names[group] or ())]
        if not fits and names["problem"] is None:
            fits = ["problem"]
        if not fits:
            raise UnknownName("setting", key, sorted({name for group in GROUPS for name in names[group] or ()}))
        if len(fits) > 1:
            ways = " or ".join(f"{group}.{key}" for group in fits)
            raise InvalidInput(f"The setting '{key}' must say whose it is: {ways}. Got '{key}' instead.")
        result[fits[0]][key] = value
    return result


def _chosen(asked: Asked, pairs: Sequence[str], options: list[str] | None) -> dict[Role, str]:
    """Which players `auto` will stand for, so that a bare key can be told to be theirs."""
    if asked.primal != "auto":  # the paper's dual, whatever the problem is
        return {"primal": asked.primal, "dual": "projected-gradient"}
    given = {key.removeprefix("problem."): value for key, value in parse_options(pairs).items()}
    theirs = {name for role in BASES for player in discover(role).values() for name in defaults_of(player)}
    own = {
        key: value
        for key, value in given.items()
        if (key.partition(".")[0] not in BASES and key not in theirs if options is None else key in options)
    }
    found = choose(find_world(asked.problem, own).problem, bound_known=True)
    return {"primal": found.primal, "dual": found.dual}


def _resumed(context: click.Context, asked: Asked, file: Path, pairs: Sequence[str], *, with_bound: bool) -> Asked:
    """What was not said again, from the file."""
    spec = read_spec_of(file)
    if spec["problem"] != asked.problem:
        raise RunError(f"The run file '{file}' holds a run of '{spec['problem']}', not of '{asked.problem}'.")
    stored = {**spec, "primal": spec["primal"]["name"], "dual": spec["dual"]["name"]}
    silent = [
        name
        for name in ("primal", "dual", "episodes", "seed", "feedback")
        if context.get_parameter_source(name) is ParameterSource.DEFAULT
    ]
    said = {key.removeprefix("problem."): value for key, value in parse_options(pairs).items()}
    own = followed(spec, said, file)
    settings: Settings = {"problem": {key: own[key] for key in spec["problem_options"]}}
    for role in BASES:
        # What is left out is either a default or told by the oracle, and comes out the same again.
        known = discover(role).get(stored[role])
        defaults = {} if known is None else defaults_of(known)
        skip = () if with_bound and spec["B_source"] == "given" else ("B",)
        settings[role] = {
            name: value
            for name, value in spec[role]["settings"].items()
            if name not in skip and isinstance(value, bool | int | float | str) and value != defaults.get(name)
        }
    return dataclasses.replace(asked, **{name: stored[name] for name in silent}, settings=settings)


def _check_nobody_is_left_out(asked: Asked, file: Path) -> None:
    """A machine that a person was asked to reset must not reset itself because a word was forgotten."""
    if asked.problem.startswith("gym:") and any(one.who != "environment" for one in read(file).interventions):
        raise InvalidInput(
            f"The run file '{file}' is of a run whose resets a person performed. "
            "Say '--operator' again (none: the environment resets itself)."
        )


def _bounds(data: Mapping[str, Any]) -> str:
    recent = data["recent"]
    return (
        f"expected at most {data['resets_bound']:.4g} in all, {recent['bound']:.4g} in the last {recent['episodes']} "
        "episodes (95 % each)"
    )


def _per_episode(value: float | None, k: int) -> str:
    return (
        "not known: no oracle, or a start without a reset-free policy"
        if value is None
        else (f"{value:.6g}   ({value / k:.4g} per episode)")
    )


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
