"""The command line: tables for people, `--json` for programs; bad input is one sentence and status 2."""

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import click

import resetfree as rf
from resetfree.core.arguments import shown, words
from resetfree.core.discovery import Registry, Unfit
from resetfree.core.errors import Notice, ResetFreeError
from resetfree.core.files import lacks_room
from resetfree.core.interrupts import interrupted, terminable
from resetfree.show.cli.bench import bench
from resetfree.show.cli.certify import certify, check
from resetfree.show.cli.common import SETTINGS, DocumentedGroup
from resetfree.show.cli.demo import demo
from resetfree.show.cli.evaluate import copy, evaluate, export, export_transitions
from resetfree.show.cli.listing import list_
from resetfree.show.cli.machine import machine
from resetfree.show.cli.nonepisodic_life import nonepisodic
from resetfree.show.cli.report import report, studio, watch
from resetfree.show.cli.run import run
from resetfree.show.cli.solve import limit, solve
from resetfree.show.cli.sweep import sweep


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
app.add_under("Learn", [run, nonepisodic])
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
        for word in sys.argv[1:] if arguments is None else arguments:
            words(word, "words of a command")
        status = app.main(args=arguments, prog_name="resetfree", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except rf.Stopped as stopped:
        print(stopped, file=sys.stderr)
        return 130
    except (ResetFreeError, click.ClickException) as error:
        sentence = error.format_message() if isinstance(error, click.ClickException) else str(error)
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
