"""`resetfree run`: two players learn on a problem, and every round is kept in a file.

`RunCommand.of` turns the command line into a `RunRequest`, `RunCommand.play` has `runs.learn.fulfil` play it, and
`_resumed` takes from the run file what was not given.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import click
from click.core import ParameterSource

import resetfree as rf
from resetfree.core.errors import EnvironmentFailed, InvalidInput, OperatorTimeout, RunError
from resetfree.game.loop import FEEDBACK
from resetfree.players import BASES, discover, partner_of, player_class
from resetfree.players import settings as defaults_of
from resetfree.problems.operators import CHANNELS, OperatorReset
from resetfree.problems.registry import World, full_name, in_family, is_machine, option_names, parse_options
from resetfree.runs.file.ledger import read, read_episodes_of, read_spec_of
from resetfree.runs.learn import fulfil
from resetfree.runs.live.learner_location import RAY, LearnerLocation, RayLearner
from resetfree.runs.recall import trusted_options
from resetfree.runs.request import FROM, OPTIONS, RunRequest
from resetfree.runs.setup import split_settings
from resetfree.runs.tracking import tracked
from resetfree.show.cli.common import FILE, as_json, command, emit, tensorboard_option
from resetfree.show.cli.progress import Display
from resetfree.show.cli.run_summary import show_run, summary
from resetfree.show.report.filming import MOST_KEPT, filmed
from resetfree.studies.trial import stored_settings

LEARNER = "learner."  # what the settings of the learner begin with
FROM_FILE = ("primal", "dual", "feedback", "episodes", "seed")  # what a resumed run takes from its file if not given
Settings = dict[str, dict[str, Any]]
BEGINS = ("--data", "--demonstrations", "--simulator", "--from", "--from-what")
AT_LEAST_1, AT_LEAST_0 = click.IntRange(min=1), click.IntRange(min=0)
# What ends a run, and what a run has spent of it.
LIMITS: dict[str, Callable[[rf.Run], float]] = {
    "max_resets": lambda run: (int(run.realised_resets[-1]) if len(run) else 0) + len(run.requested_resets),
    "steps": lambda run: int(run.columns["steps"].sum()),
    "seconds": lambda run: round(run.seconds, 1),
}
# The options that are arguments of `learn`, by the name of those: they have their default, and the option its name,
# unless it is given here.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "primal": {"help": "The player that chooses the policy: a name from `list players`, or module:Class."},
    "dual": {"help": "The player that prices resets."},
    "episodes": {
        "type": AT_LEAST_1,
        "metavar": "N",
        "help": "Episodes to play; default: 2000, or 200 where states are vectors and no limit is given.",
    },
    "seed": {"type": AT_LEAST_0, "metavar": "N", "help": "Seed of all random numbers."},
    "feedback": {"type": click.Choice(["auto", *FEEDBACK]), "help": "The cost signal for the dual player."},
    "B": {
        "named": "--bound",
        "type": float,
        "help": "Bound B on the price of a reset; default: the smallest that suffices, if it is known.",
    },
    "controller": {
        "metavar": "module:function",
        "help": "A controller of yours, which acts first: a function of the observation (docs/controller.md).",
    },
    "explore": {
        "type": AT_LEAST_0,
        "metavar": "N",
        "help": "Resets that the learned policy may cause beside the controller; default: 3.",
    },
    "settings": {
        "named": "--set",
        "multiple": True,
        "default": (),
        "metavar": "KEY=VALUE",
        "help": "A setting, such as problem.n=7, primal.scale=0.1 or dual.B=40; the bare key if only one of them has "
        "it. Can be repeated.",
    },
    "max_resets": {"type": AT_LEAST_1, "metavar": "N", "help": "Stop after this many resets; --resume continues."},
    "operator": {
        "default": "none",
        "metavar": "WHO",
        "help": "Who performs resets: none (the problem resets itself), terminal, http, http:PORT, ntfy:URL, "
        "webhook:URL, mail:FILE, a folder, another name from `list operators`, or module:Class; see docs/hardware.md.",
    },
    "path": {"named": "--out", "type": FILE, "help": "Where to save the run; default: a file in the folder runs."},
    "steps": {"type": AT_LEAST_1, "metavar": "N", "help": "Stop after this many steps."},
    "seconds": {"type": float, "metavar": "SECONDS", "help": "Stop after this time in all."},
    "resume": {
        "is_flag": True,
        "help": "Continue the run file with its own options; with more --episodes, beyond its plan.",
    },
    "overwrite": {"is_flag": True, "help": "Replace the run file if it exists."},
    "delay": {
        "type": AT_LEAST_0,
        "metavar": "ROUNDS",
        "help": "Act on plans that are this many rounds old, to simulate a machine that does not wait "
        "(docs/columns.md).",
    },
    "rate": {
        "metavar": "HZ",
        "help": "Act in real time, at this many steps per second, and learn in another process; own: the "
        "environment's rate.",
    },
    "max_staleness": {
        "type": AT_LEAST_1,
        "metavar": "ROUNDS",
        "help": "With --rate: wait for the learner when the plan is older than this; default: 100.",
    },
    "learner": {
        "metavar": "WHERE",
        "help": "With --rate: where learning happens. lowest or usual: a process of that scheduling class; ray, "
        "ray:auto, ray:HOST:PORT or ray://HOST:PORT: an actor on a Ray cluster (with --set learner.gpus=1, for "
        "example).",
    },
    "data": {
        "multiple": True,
        "type": FILE,
        "default": (),
        "help": "Learn from this first: a run file, a log with named columns (.csv, .parquet, .npz), or minari:NAME. "
        "Can be repeated; see docs/logs.md.",
    },
    "demonstrations": {
        "multiple": True,
        "type": FILE,
        "default": (),
        "help": "As --data, a few good episodes, whose behaviour the learner improves on.",
    },
    "simulator": {
        "metavar": "PROBLEM",
        "help": "Learn on this simulator of the machine first (docs/logs.md).",
    },
    "start_from": {
        "named": "--from",
        "type": FILE,
        "metavar": "OLD",
        "help": "Begin with the data and the policy of an old run.",
    },
    "from_what": {"type": click.Choice(FROM), "help": "What to take from it; default: whatever fits."},
    "ask": {
        "type": click.Choice(["never", "when-stuck"]),
        "help": "Whether to ask for a reset when the run is stuck (docs/goals.md); default: never.",
    },
}


def options_of(names: Collection[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add options of `ARGUMENTS`."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        for name in [name for name in reversed(ARGUMENTS) if name in names]:
            own = {"default": OPTIONS[name][1], **ARGUMENTS[name]}
            named = own.pop("named", f"--{name.replace('_', '-')}")
            shown = own["default"] is not None and not own.get("multiple") and not own.get("is_flag")
            function = click.option(named, name, show_default=shown, **own)(function)
        return function

    return add


@command(
    ("learn to balance a pole", "resetfree run CartPole-v1 --episodes 400 --out pole.rfrun"),
    ("continue it later, or after Ctrl-C", "resetfree run CartPole-v1 --out pole.rfrun --resume --episodes 800"),
    groups={
        "What is learned": ["--episodes", "--seed", "--set", "--primal", "--dual", "--feedback", "--bound"],
        "The run file": ["--out", "--resume", "--overwrite", "--json", "--verbose", "--film", "--tensorboard"],
        "When it ends": ["--max-resets", "--steps", "--seconds"],
        "Who resets it": ["--operator", "--operator-deadline", "--ask"],
        "What it begins with": ["--controller", "--explore", *BEGINS],
        "Machines that do not wait": ["--rate", "--delay", "--max-staleness", "--learner"],
    },
)
@click.argument("problem")
@options_of(ARGUMENTS)
@click.option("--operator-deadline", type=float, metavar="SECONDS", help="How long to wait for the operator.")
@tensorboard_option
@as_json
@click.option("-v", "--verbose", is_flag=True, help="End with everything that is known about the run, not 12 lines.")
@click.option(
    "--film",
    type=click.IntRange(1, MOST_KEPT),
    metavar="N",
    help="Keep the last N pictures before each reset, for `watch`; the environment draws every step, which takes time.",
)
@click.pass_context
def run(context: click.Context, /, problem: str, **words: Any) -> None:
    """Learn on a problem, and record every episode in a file.

    Ctrl-C stops after the current episode and saves the run; --resume continues it bit for bit.
    """
    silent = [name for name in words if context.get_parameter_source(name) is ParameterSource.DEFAULT]
    command = RunCommand.of(full_name(problem), words, silent)
    try:
        done = command.play()
    except rf.Stopped as stopped:
        click.echo(f"{stopped} Continue with: {command.again()}", err=True)
        raise click.exceptions.Exit(130) from None
    except (OperatorTimeout, EnvironmentFailed) as error:
        resume = f"The run is saved. Continue with: {command.again()}"
        saved = resume if command.file.exists() else "Nothing was played."
        raise RunError(f"{error} {saved}") from error
    found = summary(done, words["max_resets"])
    if (kind := found["stopped_because"]) in LIMITS:
        so_far = LIMITS[kind](done)
        click.echo(
            f"Reached the limit of {so_far} {kind.removeprefix('max_')} after {len(done)} of "
            f"{done.episodes} episodes. "
            f"Continue with: {command.again(**{kind: so_far + (words[kind] or 0)})}",
            err=True,
        )
    emit(found, words["as_json"], lambda console: show_run(console, done, found, words["verbose"]))


@dataclass(frozen=True)
class RunCommand:
    """A parsed command line, ready to be played."""

    request: RunRequest
    operator: OperatorReset | None  # the person of --operator
    words: Mapping[str, Any]  # the options by name, to write the command that continues it

    @classmethod
    def of(cls, problem: str, words: Mapping[str, Any], silent: Sequence[str]) -> Self:
        """The command of parsed options (`words`); silent: the names of those that were not given."""
        place, pairs = _place_of(words["learner"], words["settings"])
        own: dict[str, Any] = {"learner": place, "rate": _hertz(words["rate"])}
        own |= {name: list(words[name]) or None for name in ("data", "demonstrations")}
        own |= {"path": words["path"] or _default_file(problem, words), "settings": None, "operator": None}
        file, resume = own["path"], words["resume"]
        operator = _find_operator(words["operator"], words["operator_deadline"], file)
        timing = read_spec_of(file).get("timing", {}) if resume else {}
        for name in timing.keys() & {"delay", "rate"}:
            own[name] = timing[name] if words[name] is None else own.get(name, words[name])
        request = RunRequest.of(problem, {**{name: words[name] for name in ARGUMENTS}, **own})
        if resume:
            request = _resumed(request, pairs, [name for name in FROM_FILE if name in silent])
            if "operator" in silent:
                _require_operator(problem, file)
        elif file.exists() and not words["overwrite"]:
            raise RunError(
                f"The run file '{file}' exists. Continue it (--resume), replace it (--overwrite) or name another "
                "(--out)."
            )
        return cls(_with_settings(request, pairs), operator, words)

    @property
    def file(self) -> Path:
        """The run file."""
        assert self.request.where.path is not None
        return self.request.where.path

    def play(self) -> rf.Run:
        """Make the problem, and play the run with a progress display."""
        request, film, board, quiet = self.request, *(self.words[name] for name in ("film", "tensorboard", "as_json"))
        before, how = self.file if request.where.resume else None, dict[str, Any](file=self.file, when=request.when)
        with (
            request.world() as world,
            _filmed(world, film, request),
            Display(episodes := request.how_long.planned(world.problem), before, quiet=quiet, **how) as progress,
            self.operator or nullcontext(),
            nullcontext(progress) if board is None else tracked(progress, board, world, episodes, before) as note,
        ):
            who = self.operator or _operator_of(world)
            operator = None if who is None else progress.watching(who)
            return fulfil(request.changed("around", progress=note, operator=operator), world)

    def again(self, **limits: float) -> str:
        """The command that continues this run.  limits: new values of options such as `max_resets`."""
        request, words = self.request, self.words
        again = ["resetfree", "run", request.what.problem, "--resume", "--out", str(self.file)]
        for role, player in (("--primal", request.who.primal), ("--dual", request.who.dual)):
            again += [role, str(player)] if ":" in str(player) else []  # a class is imported only if it is named
        again += [] if self.operator is None else ["--operator", words["operator"]]
        again += [] if request.who.controller is None else ["--controller", str(request.who.controller)]
        deadline, place = words["operator_deadline"], request.when.learner
        again += [] if deadline is None else ["--operator-deadline", f"{deadline:g}"]
        if place != OPTIONS["learner"][1]:
            again += ["--learner", words["learner"], *(_own_pairs(place) if isinstance(place, RayLearner) else [])]
        for name in ("max_staleness", "tensorboard", "film", *LIMITS):
            value = limits.get(name, words[name])
            again += [] if value is None else [f"--{name.replace('_', '-')}", f"{value}"]
        return shlex.join(again)


def _filmed(world: World, most: int | None, request: RunRequest) -> AbstractContextManager[object]:
    """Keep pictures around resets while the run is played, if `--film` says how many."""
    if most is None:
        return nullcontext()
    file, at_rate = request.where.path, request.when.rate is not None
    assert file is not None
    return filmed(world, most, file, resume=request.where.resume, real_time=at_rate)


def _default_file(problem: str, words: Mapping[str, Any]) -> Path:
    """The default run file, named after problem, players and seed."""
    primal, dual = words["primal"], words["dual"]
    players = "auto" if primal == dual == "auto" else f"{primal}-{dual}"
    return Path("runs") / (re.sub(r"[^\w.-]+", "-", f"{problem}-{players}-seed{words['seed']}") + ".rfrun")


def _with_settings(request: RunRequest, pairs: Mapping[str, Any]) -> RunRequest:
    """The request with the settings of `--set`, each given to its owner: the problem, the primal or the dual player.

    A key that several may have must be qualified, as problem.KEY. Which players "auto" chooses depends on the problem,
    which is not made yet: their settings stay in `Who.unowned` until then.
    """
    what, who = request.what, request.who
    names = option_names(what.problem)
    if who.primal == "auto":
        if who.dual != "auto":
            player_class("dual", str(who.dual))  # an unknown name is refused before the problem is made
        own = _options_of_problem(pairs, names)
        who = replace(who, unowned=(pairs, names))
    else:
        dual = partner_of(player_class("primal", str(who.primal))).dual if who.dual == "auto" else who.dual
        given = split_settings(pairs, names, who.primal, dual)
        own = given["problem"]
        who = replace(who, settings={role: {**who.settings.get(role, {}), **given[role]} for role in BASES})
    return replace(request, who=who).changed("what", options={**what.options, **own})


def _options_of_problem(pairs: Mapping[str, Any], names: list[str] | None) -> dict[str, Any]:
    """The pairs that belong to the problem before the players are known."""
    result = {}
    for key, value in pairs.items():
        group, dot, name = key.partition(".")
        if dot and group == "problem":
            result[name] = value
        elif key in names if names is not None else group not in BASES and key not in _settings_of_players():
            result[key] = value
    return result


@cache
def _settings_of_players() -> set[str]:
    players = [player for role in BASES for player in discover(role).values()]
    return {name for player in players for name in (*defaults_of(player), *player.former_settings)}


def _resumed(request: RunRequest, pairs: Mapping[str, Any], silent: Sequence[str]) -> RunRequest:
    """What --resume restores on the command line: fields that were not given are taken from the run file.

    The state of the players and of the random numbers is restored later, by `runs.resuming`.

    pairs: the settings of --set.  silent: the names of the options that were not given.
    """
    file = request.where.path
    assert file is not None
    spec, problem = read_spec_of(file), request.what.problem
    if spec["problem"] != problem:
        raise RunError(f"The run file '{file}' holds a run of '{spec['problem']}', not of '{problem}'.")
    given = {key.removeprefix("problem."): value for key, value in pairs.items()}
    own, who = trusted_options(spec, given, file), request.who
    settings: Settings = {}
    for role in BASES:
        named = spec[role]["name"] if role in silent else getattr(who, role)
        if role in silent and named not in discover(role):
            raise InvalidInput(
                f"The run file '{file}' is of a {role} player '{named}' that is not registered, and a "
                f"file never makes code run: name its class again, --{role} module:Class."
            )
        defaults = {} if named == "auto" else defaults_of(player_class(role, named))
        settings[role] = stored_settings(spec, role, defaults, bound=who.B is None)
        who = replace(who, **{role: named})
    who = replace(who, settings=settings, feedback=spec["feedback"] if "feedback" in silent else who.feedback)
    options = {key: value for key, value in own.items() if key in spec["problem_options"] or key not in given}
    request = replace(request, who=who).changed("what", options=options)
    if "seed" in silent:
        request = request.changed("what", seed=spec["seed"])
    if "episodes" in silent:
        request = request.changed("how_long", episodes=read_episodes_of(file))
    return request


def _hertz(rate: str | None) -> float | str | None:
    """The argument of `--rate`: a number, or "own"."""
    if rate is None or rate == "own":
        return rate
    try:
        return float(rate)
    except ValueError:
        raise InvalidInput(
            f"The '--rate' must be a number of steps per second, or own. Got '{rate}' instead."
        ) from None


def _place_of(learner: str, pairs: Sequence[str]) -> tuple[LearnerLocation, dict[str, Any]]:
    """The place that `--learner` names, with its settings (--set learner.KEY=VALUE), and the remaining settings."""
    given = parse_options(pairs)
    own = {key: value for key, value in given.items() if key.startswith(LEARNER)}
    others = {key: value for key, value in given.items() if key not in own}
    if learner.split(":")[0] == RAY:
        return RayLearner.parse(learner, {key.removeprefix(LEARNER): value for key, value in own.items()}), others
    if own:
        raise InvalidInput(f"The settings '{LEARNER}KEY' are of a learner on Ray. Got '--learner {learner}' instead.")
    return learner, others


def _own_pairs(learner: RayLearner) -> list[str]:
    """The settings of a learner on Ray that differ from the defaults, as words of a command."""
    usual = RayLearner(learner.address)
    changed = [one.name for one in fields(learner) if getattr(learner, one.name) != getattr(usual, one.name)]
    return [word for name in changed for word in ("--set", f"{LEARNER}{name}={getattr(learner, name)}")]


def _require_operator(problem: str, file: Path) -> None:
    """Raise InvalidInput if a run whose resets a person performed is resumed without --operator."""
    asks_itself = is_machine(problem)  # a person at this terminal
    if in_family(problem) and not asks_itself and any(one.who != "environment" for one in read(file).interventions):
        raise InvalidInput(
            f"The run file '{file}' is of a run whose resets a person performed. "
            "Give '--operator' again (none: the environment resets itself)."
        )


def _operator_of(world: World) -> OperatorReset | None:
    """The operator that the problem brings itself, if it is a person; None otherwise."""
    own = getattr(world.problem, "operator", None)
    return own if isinstance(own, OperatorReset) else None


def _find_operator(reached: str, deadline: float | None, file: Path) -> OperatorReset | None:
    """The operator that `--operator` names; a folder must be distinguishable from a misspelt name."""
    if reached == "none":
        if deadline is not None:
            raise InvalidInput("The '--operator-deadline' needs an '--operator'. Got none instead.")
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
