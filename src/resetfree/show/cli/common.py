"""Shared by the commands: help pages, options, output as text or JSON."""

import gc
import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, TypeVar

import click
import numpy as np
from rich.console import Console
from rich.text import Text

from resetfree.core.errors import InvalidInput, NotCertifiable, ResetFreeError
from resetfree.players import BASES
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import parse_options, resolve_model
from resetfree.theory.oracle.dynamic_programming import Solution

WIDEST = 100  # columns: longer lines are hard to read
WHOLE = 10_000  # characters of a summary before it is cut: never
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": WIDEST}

Examples = Sequence[tuple[str, str]]  # what each does, and the command


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
            if lines := [one for one in found if one is not None]:
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
    """Print `data` as one JSON object, or call `show` for readable output."""
    if as_json:
        click.echo(json.dumps(data, allow_nan=False))
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
