"""`resetfree fleet`: several machines of one kind learn on one problem, with one learner."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table

import resetfree as rf
from resetfree.core.errors import EnvironmentFailed, OperatorTimeout, RunError
from resetfree.core.readable import counted, number
from resetfree.problems.operators import OperatorReset
from resetfree.problems.registry import full_name
from resetfree.runs.file.ledger import read_spec_of
from resetfree.runs.fleet.plan import WHERE, FleetPlan
from resetfree.runs.learn import fulfil
from resetfree.runs.request import OPTIONS
from resetfree.runs.result import fleet_table
from resetfree.show.cli.common import Documented, as_json, emit
from resetfree.show.cli.progress import Display
from resetfree.show.cli.run import ARGUMENTS, RunCommand, options_of
from resetfree.show.cli.run_summary import show_run, summary

TAKEN = (
    *("episodes", "seed", "settings", "primal", "dual", "feedback", "B", "path", "resume", "overwrite"),
    *("max_resets", "steps", "seconds", "data", "simulator", "start_from", "from_what"),
)
SIZES = ("machines", "operators", "reset_time", "risk")  # what a resumed fleet takes from its file
SHOWN = 32  # machines up to which the table is shown


@click.command(
    cls=Documented,
    examples=[
        ("sixteen machines and two operators", "resetfree fleet grid-v0 --machines 16 --operators 2 --reset-time 20"),
        ("continue it later, or after Ctrl-C", "resetfree fleet grid-v0 --out fleet.rfrun --resume --episodes 4000"),
    ],
    groups={
        "The fleet": ["--machines", "--operators", "--operator", "--reset-time", "--risk", "--where"],
        "What is learned": ["--episodes", "--seed", "--set", "--primal", "--dual", "--feedback", "--bound"],
        "The run file": ["--out", "--resume", "--overwrite", "--json", "--verbose"],
        "When it ends": ["--max-resets", "--steps", "--seconds"],
        "What it begins with": ["--data", "--simulator", "--from", "--from-what"],
    },
)
@click.argument("problem")
@options_of(TAKEN)
@click.option("--machines", type=click.IntRange(min=1), default=16, show_default=True, help="How many machines.")
@click.option("--operators", type=click.IntRange(min=1), default=1, show_default=True, help="How many operators.")
@click.option(
    "--operator",
    "people",
    multiple=True,
    metavar="WHO",
    help="A person who performs resets in real time, as of `run`: http:PORT, ntfy:URL, ... Once for each of them.",
)
@click.option("--reset-time", type=float, default=0.0, show_default=True, help="Steps that a reset takes.")
@click.option(
    "--risk",
    type=float,
    default=1.0,
    show_default=True,
    help="How many falls may be expected of all episodes under way that try something new.",
)
@click.option("--where", default="auto", show_default=True, help=f"Where the machines are: {', '.join(WHERE)}.")
@as_json
@click.option("-v", "--verbose", is_flag=True, help="End with everything that is known about the run, not 12 lines.")
@click.pass_context
def fleet(context: click.Context, /, problem: str, **words: Any) -> None:
    """Learn on several machines of one kind at the same time: each reset teaches all.

    All rounds are in one run file, in the order in which their episodes were over; docs/fleet.md has more. Ctrl-C stops
    after the current episode and saves the run; --resume continues it.
    """
    silent = [name for name in words if context.get_parameter_source(name) is ParameterSource.DEFAULT]
    command = FleetCommand.of(full_name(problem), {**_usual(), **words, "operator": "none"}, [*silent, "operator"])
    try:
        done = command.play_fleet(silent)
    except rf.Stopped as stopped:
        click.echo(f"{stopped} Continue with: {command.again()}", err=True)
        raise click.exceptions.Exit(130) from None
    except (OperatorTimeout, EnvironmentFailed) as error:
        saved = f"Continue with: {command.again()}" if command.file.exists() else "Nothing was played."
        raise RunError(f"{error} {saved}") from error
    found = {**summary(done, words["max_resets"]), "fleet": fleet_table(done)}
    emit(found, words["as_json"], lambda console: _show(console, done, found, words["verbose"]))


def _usual() -> dict[str, Any]:
    """The words of `run` that a fleet does not take, as if they were not given."""
    rest = {name: how for name, how in ARGUMENTS.items() if name not in TAKEN}
    given = {name: how.get("default", OPTIONS[name][1]) for name, how in rest.items()}
    return {**given, "operator_deadline": None, "tensorboard": None, "film": None}


@dataclass(frozen=True)
class FleetCommand(RunCommand):
    """A command line of a fleet."""

    def play_fleet(self, silent: Collection[str]) -> rf.Run:
        """Make the machines, and play the run with a display."""
        request, words = self.request, dict(self.words)
        before = self.file if request.where.resume else None
        if before is not None:
            kept = read_spec_of(before).get("timing", {})
            words |= {name: kept[name] for name in SIZES if name in kept and name in silent}
        with ExitStack() as stack:
            each = enumerate(words["people"], 1)
            people = [stack.enter_context(OperatorReset(by=who, who=f"operator {i}")) for i, who in each]
            how = {name: words[name] for name in ("reset_time", "risk", "where")}
            how["operators"] = people or words["operators"]
            world, plan = FleetPlan.of(request.what.problem, words["machines"], dict(request.what.options), **how)
            stack.enter_context(world)
            episodes = request.how_long.planned(world.problem)
            progress = stack.enter_context(Display(episodes, before, file=self.file, quiet=words["as_json"]))
            return fulfil(request.changed("around", progress=progress), world, plan)

    def again(self, **limits: float) -> str:
        """The command that continues it."""
        words = shlex.split(super().again(**limits))
        people = [part for who in self.words["people"] for part in ("--operator", who)]
        return shlex.join(["resetfree", "fleet", *words[2:], *people])


def _show(console: Console, run: rf.Run, data: Mapping[str, Any], verbose: bool) -> None:
    found = data["fleet"]
    if found is not None and len(found["machines"]) <= SHOWN:
        unit = "steps" if found["in_steps"] else "seconds"
        title = f"{number(found['time'])} {unit} of each machine"
        table = Table(box=None, padding=(0, 2, 0, 0), title=title, title_justify="left")
        for name in ("machine", "episodes", "steps", "resets", "acted", "waited", "longest wait", "stood"):
            table.add_column(name, justify="right")
        for one in found["machines"]:
            table.add_row(*(number(value) for value in one.values()))
        console.print(table)
        for one in found["operators"]:
            words = f"operator {one['operator']}: {counted(one['resets'], 'reset')}, busy {one['busy']:.0%} of the time"
            console.print(words, style="dim")
    show_run(console, run, data, verbose)
