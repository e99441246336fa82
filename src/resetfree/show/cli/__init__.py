"""The command line: tables for people, `--json` for programs; bad input is one sentence and status 2."""

import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

import resetfree as rf
from resetfree.core.arguments import shown, words
from resetfree.core.discovery import Registry, Unfit
from resetfree.core.errors import InvalidInput, Notice, ResetFreeError
from resetfree.core.files import lacks_room
from resetfree.core.interrupts import interrupted, terminable
from resetfree.problems.registry import find_world
from resetfree.show.cli.bench import bench
from resetfree.show.cli.certify import certify, check
from resetfree.show.cli.common import (
    SETTINGS,
    DocumentedGroup,
    as_json,
    command,
    emit,
    in_words,
    show_next,
    solution_json,
)
from resetfree.show.cli.evaluate import copy, evaluate, export, export_transitions
from resetfree.show.cli.fleet import fleet
from resetfree.show.cli.listing import list_
from resetfree.show.cli.machine import machine
from resetfree.show.cli.progress import Display
from resetfree.show.cli.report import report, studio, watch
from resetfree.show.cli.run import run
from resetfree.show.cli.run_summary import show_brief, summary
from resetfree.show.cli.solve import grid_map, limit, nonepisodic, solve
from resetfree.show.cli.sweep import sweep
from resetfree.show.report import write_report
from resetfree.show.report.pictures import draw_run, draw_solution

EPISODES = 10_000


@command(
    ("learn the default grid; the files go to the folder resetfree-demo", "resetfree demo"),
    ("keep the files in another folder", "resetfree demo --out first-look"),
)
@click.option("--out", default="resetfree-demo", show_default=True, help="Folder for the run file and the pictures.")
@as_json
def demo(out: str, as_json: bool) -> None:
    """Learn the default grid, and check every claim about it.

    It draws the map, shows the run as it learns, and writes pictures and a report.
    """
    began = time.perf_counter()
    world = find_world("grid-v0")
    mdp = world.mdp
    assert mdp is not None
    solution, report, claims = rf.solve(mdp), rf.check(mdp), rf.certify_problem(mdp)
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"The '--out' of demo must be a folder that can be made. Got '{out}': {error}.") from error
    if not as_json:
        console = Console()
        console.print(f"[bold]{mdp.name}[/] {mdp}: each episode begins where the previous one ended")
        console.print(grid_map(solution))
    # The demo owns its folder: its own run file is replaced, a file of another kind never is.
    file = folder / "grid-v0.rfrun"
    with Display(EPISODES) as progress:
        done = rf.learn(world, episodes=EPISODES, path=file, overwrite=file.exists(), progress=progress)
    claims += done.certificates()
    pictures = [draw_solution(solution, folder / "grid-v0.png"), draw_run(done, folder / "learning.png")]
    page = folder / "report.html"
    write_report([file], page)
    proved = [c for c in claims if c.status == "proved"]
    checks, identities = ([c for c in claims if c.status == status] for status in ("checked", "identity"))
    seconds = time.perf_counter() - began
    data = {
        **summary(done),
        "pictures": [str(p) for p in pictures],
        "report": str(page),
        "assumptions_hold": bool(report),
        "claims": len(proved),
        "checks": len(checks),
        "vacuous": sum(bool(c.vacuous) for c in proved),
        "claims_hold": not any(c.refuted for c in claims),
        "demo_seconds": seconds,
        "solution": solution_json(solution, True),
    }

    def show(console: Console) -> None:
        show_brief(console, done, data)
        held, fit, identical = (f"{sum(c.holds for c in some)} of {len(some)}" for some in (proved, checks, identities))
        vacuous = f" ({data['vacuous']} vacuous)" if data["vacuous"] else ""
        found = f"{held} proved claims hold{vacuous}, {fit} checks of the record, {identical} identities"
        console.print(f"\nThe paper's assumptions {'hold' if report else 'are broken'}. {found}.", highlight=False)
        console.print(f"Pictures: {'  '.join(map(str, pictures))}", highlight=False)
        console.print(f"The whole run on one page: {page}", highlight=False)
        show_next(
            console,
            [
                ("resetfree studio", "draw a grid and watch"),
                ("resetfree run CartPole-v1", "learn to balance a pole"),
                (f"resetfree certify {shlex.quote(str(file))}", "the claims, one by one"),
                ("resetfree list", "all problems"),
            ],
        )

    emit(data, as_json, show)


def _accept(name: str, found: Any) -> click.Command:
    if not isinstance(found, click.Command):
        raise Unfit(f"must be a click.Command, and is {shown(found)}")
    return found


COMPLETING = "_RESETFREE_COMPLETE"  # what click has a shell set for its completions
COMMANDS: Registry[click.Command] = Registry("command", group="resetfree.commands", accept=_accept)


class Commands(DocumentedGroup):
    """The commands of this package, and those of other packages, which are imported when used or listed."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Names of the commands: built-in ones first."""
        return [*super().list_commands(context), *(name for name in COMMANDS if name not in self.commands)]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of this name; another package cannot replace a built-in one."""
        built_in = self.commands.get(name)
        return COMMANDS.find(name) if built_in is None and COMMANDS.knows(name) else built_in


@click.group(
    cls=Commands,
    context_settings=SETTINGS,
    examples=[
        ("see it work", "resetfree demo"),
        ("learn to balance a pole", "resetfree run CartPole-v1 --out pole.rfrun"),
    ],
)
@click.version_option(rf.__version__, prog_name="resetfree")
def app() -> None:
    """Train agents in one continuous life: each episode begins where the previous one ended.

    A PROBLEM is an id from `resetfree list`, a Gymnasium id such as CartPole-v1, the address of a machine
    (udp://HOST:PORT), or your own module:factory. Every command explains itself: resetfree COMMAND --help.
    """


app.add_under("Try", [demo, studio, list_, machine])
app.add_under("Learn", [run, fleet, nonepisodic])
INSPECT = (check, solve, limit, watch, report, certify, evaluate, export, export_transitions, copy)
app.add_under("Inspect", INSPECT)
app.add_under("Compare", [sweep, bench])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 done, 1 a claim failed under --strict, 2 bad input, 130 stopped, 143 stopped by SIGTERM."""
    with terminable() as terminated, warnings.catch_warnings():
        warnings.simplefilter("always", Notice)
        warnings.showwarning = _shown(warnings.showwarning)
        status = _run(arguments)
    return 143 if terminated.received and status == 130 else status


def _run(arguments: Sequence[str] | None) -> int:
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        for word in given:
            words(word, "words of a command")
        status = app.main(args=given or ["--help"], prog_name="resetfree", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except rf.Stopped as stopped:
        print(stopped, file=sys.stderr)
        return 130
    except (ResetFreeError, click.ClickException) as error:
        sentence = _in_words(error) if isinstance(error, click.ClickException) else str(error)
        status = _refused(sentence)
        return 130 if interrupted(error) else status
    except (click.Abort, KeyboardInterrupt):
        return _stopped()
    except BrokenPipeError:  # the reader of the output has closed it: no failure
        sys.stderr.close()
        return 0
    except SystemExit as error:
        if COMPLETING in os.environ:  # a shell wanted its completions
            return int(error.code or 0)
        # raised by a problem or player of the user
        return _refused(f"A problem or player ended the program: exit({error.code!r}).")
    except Exception as error:
        if interrupted(error):
            return _stopped()
        if isinstance(error, OSError):  # a name that is too long, a folder that may not be written, a disk that is full
            return _refused(_unusable(error))
        if isinstance(error, MemoryError):
            return _refused("There is not enough memory for this. Choose a smaller problem or fewer episodes.")
        raise


def _in_words(error: click.ClickException) -> str:
    """The sentence of a refused command line, without signs for words."""
    sentence = in_words(error.format_message())
    if isinstance(error, click.MissingParameter) and error.ctx is not None:
        return f"{sentence} See `{error.ctx.command_path} --help`."
    return sentence


def _unusable(error: OSError) -> str:
    if lacks_room(error):
        return f"The output cannot be written: {error.strerror}."
    where = "A file" if error.filename is None else f"'{error.filename!s}'"
    return f"{where} cannot be used: {error.strerror or error}."


def _stopped() -> int:
    print("Stopped.", file=sys.stderr)
    return 130


def _shown(otherwise: Callable[..., None]) -> Callable[..., None]:
    """How warnings are shown: a `Notice` as one line, others as they are."""

    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        if issubclass(category, Notice):
            print(f"Note: {message}", file=sys.stderr)
        else:
            otherwise(message, category, *where)

    return show


def _refused(sentence: str) -> int:
    print(" ".join(sentence.split()), file=sys.stderr)
    return 2
