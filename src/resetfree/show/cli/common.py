"""Shared by the commands: help pages, options, output as text or JSON, progress of the trials of a study."""

import gc
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, TypeVar

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from resetfree.core.certificate import plain
from resetfree.core.errors import InvalidInput, NotCertifiable, ResetFreeError
from resetfree.core.readable import duration
from resetfree.players import BASES
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import parse_options, resolve_model
from resetfree.show.cli.progress import EVERY, OnTerminal
from resetfree.studies.engines import Count
from resetfree.theory.oracle.dynamic_programming import Solution

WIDEST = 100  # columns: longer lines are hard to read
LINES_EVERY = 10.0  # seconds between two lines of a study without a terminal
WHOLE = 10_000  # characters of a summary before it is cut: never
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": WIDEST}

# How click writes numbers and their ranges, and how people do.
SIGNS = (
    (r"([\d.]+)<=x<=([\d.]+)", r"from \1 to \2"),
    (r"([\d.]+)<x<=([\d.]+)", r"above \1, at most \2"),
    (r"x>=([\d.]+)", r"at least \1"),
    (r"not in the range ", "not "),
    (r"not a valid integer( range)?", "not a whole number"),
    (r"not a valid float( range)?", "not a number"),
    (r"\bINTEGER( RANGE)?", "N"),
    (r"\bFLOAT( RANGE)?", "NUMBER"),
)

Examples = Sequence[tuple[str, str]]  # what each does, and the command


def in_words(text: str) -> str:
    """A sentence or a help text of click without its signs.

    >>> in_words("5 is not in the range 0<=x<=1."), in_words("[default: 0; x>=0]"), in_words("--share FLOAT RANGE")
    ('5 is not from 0 to 1.', '[default: 0; at least 0]', '--share NUMBER')
    """
    for sign, words in SIGNS:
        text = re.sub(sign, words, text)
    return text


class _Page(click.HelpFormatter):
    """Help with bold headings, which are plain where output is no terminal."""

    def write_heading(self, heading: str) -> None:
        """A heading in bold."""
        super().write_heading(click.style(heading, bold=True))


class _PageContext(click.Context):
    """A context whose help is a `_Page`."""

    formatter_class = _Page


class Documented(click.Command):
    """A command with examples, whose options may be in groups.

    examples: what each does, and the command; they are parsed by a test.
    groups: headings and the options under them; the others come last.
    """

    context_class = _PageContext

    def __init__(
        self, *args: Any, examples: Examples = (), groups: Mapping[str, Sequence[str]] | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.examples, self.groups = tuple(examples), dict(groups or {})

    def format_options(self, context: click.Context, page: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        options = [one for one in self.get_params(context) if isinstance(one, click.Option)]
        left = {option.opts[0]: option for option in options}
        for heading, names in [*self.groups.items(), ("Options", None)]:
            chosen = list(left) if names is None else names
            found = [left.pop(name).get_help_record(context) for name in chosen if name in left]
            if lines := [(in_words(option), in_words(what)) for option, what in filter(None, found)]:
                with page.section(heading):
                    page.write_dl(lines)

    def format_epilog(self, context: click.Context, page: click.HelpFormatter) -> None:
        """Write the examples, each below what it does."""
        super().format_epilog(context, page)
        if self.examples:
            with page.section("Examples"):
                for what, line in self.examples:
                    page.write_text(click.style(f"# {what}", dim=True))
                    page.write(f"{'':>{page.current_indent}}$ {line}\n")


class DocumentedGroup(Documented, click.Group):
    """Commands under headings."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.headings: dict[str, str] = {}

    def add_under(self, heading: str, commands: Sequence[click.Command]) -> None:
        """Add commands under a heading."""
        for command in commands:
            self.add_command(command)
            self.headings[str(command.name)] = heading

    def list_commands(self, context: click.Context) -> list[str]:
        """Names of the commands, in the order in which they were added."""
        return list(self.commands)

    def format_options(self, context: click.Context, page: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(context, page)
        super().format_options(context, page)

    def format_commands(self, context: click.Context, page: click.HelpFormatter) -> None:
        """Write every command with its whole summary, under its heading."""
        under: dict[str, list[tuple[str, str]]] = {heading: [] for heading in self.headings.values()}
        for name in self.list_commands(context):
            command = self.get_command(context, name)
            if command is not None and not command.hidden:
                heading = self.headings.get(name, "From other packages" if self.headings else "Commands")
                under.setdefault(heading, []).append((name, command.get_short_help_str(WHOLE)))
        width = max((len(name) for rows in under.values() for name, _ in rows), default=0)
        for heading, rows in under.items():
            if rows:
                with page.section(heading):
                    page.write_dl([(name.ljust(width), summary) for name, summary in rows])


def command(
    *examples: tuple[str, str], to: click.Group | None = None, **options: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command, of the group `to`, with these examples: what each does, and the command."""
    return (to or click).command(examples=examples, **{"cls": Documented, **options})


def show_next(console: Console, commands: Sequence[tuple[str, str]]) -> None:
    """Print commands to type next, a line each so that they can be copied; what they do, where it fits."""
    column = 2 + max(len(command) for command, _ in commands)
    fits = all(2 + column + len(what) <= console.width for _, what in commands)
    console.print(Text("\nNext:", style="bold"))
    for command, what in commands:
        line = Text.assemble(f"  {command:<{column}}" if fits else f"  {command}", (what if fits else "", "dim"))
        console.print(line, soft_wrap=True)


F = TypeVar("F", bound=Callable[..., Any])
DETAIL_LIMIT = 100_000  # entries of a [H, S, A] array that JSON still carries

FILE, FOLDER = click.Path(path_type=Path), click.Path(path_type=Path, file_okay=False)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
tensorboard_option = click.option(
    "--tensorboard", type=FOLDER, metavar="DIR", help="Also log to TensorBoard, in this folder (extra tensorboard)."
)
settings = click.option(
    "--set", "options", multiple=True, metavar="KEY=VALUE", help="Set an option of the problem; can be repeated."
)


def one_argument(function: Callable[[SimpleNamespace], None]) -> Callable[..., None]:
    """Give a command its arguments as one object, with an attribute for each argument and option."""

    @wraps(function)
    def command(**words: Any) -> None:
        function(SimpleNamespace(**words))

    return command


def player_options(function: F) -> F:
    """Add --primal and --dual to a command that reads a run file, which may not name code."""
    for role in BASES:
        words = f"The {role} player of the run, if it is your own: module:Class."
        function = click.option(f"--{role}", metavar="CLASS", help=words)(function)
    return function


def out_option(default: str, replaced: str) -> Callable[[F], F]:
    """Add the option -o of a command that writes one file."""
    words = f"{replaced} is replaced, any other file is left alone."
    return click.option("-o", "--out", type=FILE, default=Path(default), show_default=True, help=words)


def finite_model(problem: str, options: Sequence[str], what: str) -> FiniteMDP:
    """The model of a finite problem; `what` is what only these can do, for the message about another."""
    return finite(resolve_model(problem, parse_options(options)), problem, what)


def finite(mdp: object, problem: str, what: str) -> FiniteMDP:
    """A model that was made already, if it is that of a finite problem."""
    if not isinstance(mdp, FiniteMDP):
        raise InvalidInput(f"Only finite problems {what}. Got '{problem}', whose states are a continuum, instead.")
    return mdp


def problem_argument(function: F) -> F:
    """Add the argument PROBLEM and the options --set and --json to a command."""
    return click.argument("problem")(settings(as_json(function)))


def emit(data: dict[str, Any], as_json: bool, show: Callable[[Console], None]) -> None:
    """Print `data` as one JSON object, with null for what is not finite, or call `show` for readable output."""
    if as_json:
        click.echo(json.dumps(plain(data), allow_nan=False))
    else:
        show(Console())


def stop(stopped: ResetFreeError) -> NoReturn:
    """End a command that the user stopped, with status 130; without garbage collection, which would take a second."""
    click.echo(str(stopped), err=True)
    gc.freeze()
    raise click.exceptions.Exit(130) from None


def solution_json(solution: Solution, multipliers: bool) -> dict[str, Any]:
    """The solution of a finite problem as plain data; null for "infeasible" or "not computed"."""
    mdp = solution.mdp
    small = mdp.horizon * mdp.n_states * mdp.n_actions <= DETAIL_LIMIT
    empty = np.full(mdp.n_states, np.nan)
    return {
        "n_states": mdp.n_states,
        "n_actions": mdp.n_actions,
        "horizon": mdp.horizon,
        "boundary": mdp.boundary,
        "n_feasible": int(solution.feasible.sum()),
        "state_names": list(mdp.state_names),
        "feasible": solution.feasible.tolist(),
        "value": numbers(solution.value),
        "lambda_hat": numbers(solution.lambda_hat if multipliers else empty),
        "lambda_star": numbers(solution.lambda_star if multipliers else empty),
        "least_reset_probability": numbers(solution.cost),
        "long_run_gain": numbers(_long_run(solution)),
        "policy": solution.policy.tolist() if small else None,
        "safe_actions": solution.safe_actions.tolist() if small else None,
    }


def _long_run(solution: Solution) -> Any:
    """[S] the best average reward per step, nan where there is none or it is not computed."""
    try:
        return solution.long_run.gain
    except NotCertifiable:
        return np.full(solution.mdp.n_states, np.nan)


def numbers(values: Any) -> list[float | None]:
    """Numbers for JSON: null for those that are not finite."""
    return [float(x) if np.isfinite(x) else None for x in values]


class TrialsDisplay(OnTerminal):
    """Trials done and the time left: a line that changes on a terminal; elsewhere lines, or nothing if `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        console = Console(stderr=True)
        self._due, self._engine, self._quiet = 0.0, "", quiet
        self._progress: Progress | None = None
        if console.is_terminal:
            columns = (TextColumn("trials"), MofNCompleteColumn(), BarColumn(bar_width=24))
            self._progress = Progress(
                *columns, TextColumn("{task.description}", markup=False), console=console, transient=True
            )
            self._task = self._progress.add_task("", total=None)

    def __call__(self, count: Count) -> None:
        """Show the progress of a study."""
        now = time.monotonic()
        if count.engine != self._engine:
            self._engine, self._due = count.engine, 0.0
            self._print(f"Engine {count.engine}: {count.why}." if count.why else f"Engine {count.engine}.")
        if now < self._due and count.done + count.failed < count.total:
            return
        self._due = now + (LINES_EVERY if self._progress is None else EVERY)
        words = [] if self._quiet else [f"{count.running} running", f"{count.failed} failed"]
        words += [] if count.seconds_left is None else [f"{duration(count.seconds_left)} left"]
        line = " · ".join([*words, count.last] if count.last else words)
        if self._progress is not None:
            done = count.done + count.failed
            self._progress.update(self._task, completed=done, total=count.total, description=line)
        elif not self._quiet:
            self._print(f"{count.done} of {count.total} trials done · {line}")

    def _print(self, line: str) -> None:
        if self._progress is None:
            click.echo(line, err=True)
        else:
            self._progress.console.print(Text(line))
