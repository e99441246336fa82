"""`resetfree run`: let two players learn on a problem, and keep every round in a file."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
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
    ResetFreeError,
    RunError,
    UnknownName,
)
from resetfree.game.auto import choose
from resetfree.game.capabilities import PlansAhead
from resetfree.game.loop import FEEDBACK
from resetfree.players import BASES, Role, discover, player_class
from resetfree.players import settings as defaults_of
from resetfree.players.pairing import partner_of
from resetfree.problems.operators import CHANNELS, OperatorReset
from resetfree.problems.resolve import option_names, parse_options
from resetfree.problems.world import World, find_world
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
class RunRequest:
    """What a run is to be, from the command line and from the file that is resumed; `opened` makes its problem."""

    problem: str
    primal: str
    dual: str
    episodes: int
    seed: int
    feedback: str
    bound: float | None = None
    settings: Settings = dataclasses.field(default_factory=dict)

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
    help="Who performs resets: terminal, http, http:PORT, a folder (docs/hardware.md), a name of `list operators` or "
    "module:Class; none: the problem itself.",
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
    request = RunRequest(problem, primal, dual, episodes, seed, feedback, bound)
    file = out or request.default_file
    operator = find_operator(reached, operator_deadline, file)
    if resume:
        request = _resumed(context, request, file, pairs)
        if context.get_parameter_source("reached") is ParameterSource.DEFAULT:
            _check_nobody_is_left_out(request, file)
    elif file.exists() and not overwrite:
        raise RunError(
            f"The run file '{file}' exists. Go on with it (--resume), replace it (--overwrite) or name another (--out)."
        )
    again = ["resetfree", "run", request.problem, "--resume", "--out", str(file)]
    for role, player in (("--primal", request.primal), ("--dual", request.dual)):
        again += [role, player] if ":" in player else []  # a class is imported because the user names it, each time
    again += [] if operator is None else ["--operator", reached]
    again += [] if operator_deadline is None else ["--operator-deadline", f"{operator_deadline:g}"]
    again += [] if tensorboard is None else ["--tensorboard", str(tensorboard)]
    budget = [] if max_resets is None else ["--max-resets", str(max_resets)]
    resumed = file if resume else None
    try:
        with (
            opened(request, pairs) as (world, settings),
            Display(request.episodes, resumed, file=file) as progress,
            operator or nullcontext(),
            tracked(progress, tensorboard, world, request.episodes, {}, resumed) as note,
        ):
            done = rf.learn(
                world,
                request.primal,
                request.dual,
                episodes=request.episodes,
                seed=request.seed,
                feedback=request.feedback,
                path=file,
                resume=resume,
                overwrite=overwrite,
                B=request.bound,
                settings=settings,
                progress=note,
                max_resets=max_resets,
                operator=None if operator is None else progress.watching(operator),
            )
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
            f"Ended at the most resets that were allowed ({so_far}), after {len(done)} of {request.episodes} episodes. "
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
    name = reached.partition(":")[0]
    if CHANNELS.knows(name):
        address = file.with_name(f"{file.name}.operator.json") if CHANNELS.find(name).takes_address else None
        return OperatorReset(by=reached, deadline=deadline, address=address)
    if os.sep in reached or Path(reached).is_dir():
        return OperatorReset(by=Path(reached), deadline=deadline)
    if ":" in reached:
        return OperatorReset(by=reached, deadline=deadline)
    raise InvalidInput(
        "The '--operator' must be terminal, http, http:PORT, none or a folder (one that exists, or with a "
        f"'{os.sep}' in its name). Got '{reached}' instead."
    )


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
    try:
        player = run.player_again("primal")
    except ResetFreeError:  # a player that is not at hand
        return None
    return (
        past_horizon(run.columns, player.steps_ahead(run.spec["horizon"])) if isinstance(player, PlansAhead) else None
    )


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


@contextmanager
def opened(request: RunRequest, pairs: Sequence[str]) -> Iterator[tuple[World, Settings]]:
    """The problem of a run, made once and closed at the end, and the settings of its players.

    pairs: KEY=VALUE of what the request does not hold yet. Which players `auto` stands for depends on the problem, and
    which bare keys are the problem's on the players: so a key that both may have must say whose it is.
    """
    names = option_names(request.problem)
    before = {group: request.settings.get(group, {}) for group in GROUPS}
    players: dict[Role, str] = {"primal": request.primal, "dual": request.dual}
    if "auto" not in players.values():
        given = split_settings(pairs, {"problem": names, **_setting_names(players)})
        with find_world(request.problem, before["problem"] | given["problem"]) as world:
            yield world, {role: before[role] | given[role] for role in players}
        return
    own = _problem_s(pairs, names)
    with find_world(request.problem, before["problem"] | own) as world:
        found = choose(world.problem, discover("primal"), bound_known=True)
        partner = found.dual if request.primal == "auto" else partner_of(request.primal).dual
        chosen: dict[Role, str] = {"primal": found.primal, "dual": partner}
        players = {role: chosen[role] if name == "auto" else name for role, name in players.items()}
        given = split_settings(pairs, {"problem": names, **_setting_names(players)})
        for key in given["problem"].keys() - own.keys():
            ways = " or ".join(f"{group}.{key}" for group in GROUPS)
            raise InvalidInput(f"The setting '{key}' must say whose it is: {ways}. Got '{key}' instead.")
        yield world, {role: before[role] | given[role] for role in players}


def split_settings(pairs: Sequence[str], names: Mapping[str, list[str] | None]) -> Settings:
    """KEY=VALUE pairs by what they belong to: the problem, the primal or the dual player.

    names: the settings that each has, None where any name will do.
    """
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


def _setting_names(players: Mapping[Role, str]) -> dict[str, list[str] | None]:
    """The settings that the players have; an unknown name is refused here."""
    return {role: list(defaults_of(player_class(role, player))) for role, player in players.items()}


def _problem_s(pairs: Sequence[str], names: list[str] | None) -> dict[str, Any]:
    """The pairs that are the problem's before the players are known: all that no player has, if any name will do."""
    result = {}
    for key, value in parse_options(pairs).items():
        group, dot, name = key.partition(".")
        if dot and group == "problem":
            result[name] = value
        elif key in names if names is not None else group not in BASES and key not in _settings_of_players():
            result[key] = value
    return result


@cache
def _settings_of_players() -> set[str]:
    return {name for role in BASES for player in discover(role).values() for name in defaults_of(player)}


def _resumed(context: click.Context, request: RunRequest, file: Path, pairs: Sequence[str]) -> RunRequest:
    """What was not said again, from the file."""
    spec = read_spec_of(file)
    if spec["problem"] != request.problem:
        raise RunError(f"The run file '{file}' holds a run of '{spec['problem']}', not of '{request.problem}'.")
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
        if role in silent:
            if stored[role] not in discover(role):
                raise InvalidInput(
                    f"The run file '{file}' is of a {role} player '{stored[role]}' that is not known here, and nothing "
                    f"is imported because a file names it: name its class again, --{role} module:Class."
                )
            defaults = defaults_of(discover(role)[stored[role]])
        else:
            said_again = getattr(request, role)
            defaults = {} if said_again == "auto" else defaults_of(player_class(role, said_again))
        skip = () if request.bound is None and spec["B_source"] == "given" else ("B",)
        settings[role] = {
            name: value
            for name, value in spec[role]["settings"].items()
            if name not in skip and isinstance(value, bool | int | float | str) and value != defaults.get(name)
        }
    return dataclasses.replace(request, **{name: stored[name] for name in silent}, settings=settings)


def _check_nobody_is_left_out(request: RunRequest, file: Path) -> None:
    """A machine that a person was asked to reset must not reset itself because a word was forgotten."""
    if request.problem.startswith("gym:") and any(one.who != "environment" for one in read(file).interventions):
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
