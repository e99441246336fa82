"""Shared by the commands: options, output as text or JSON, and a solution as plain data."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import numpy as np
from rich.console import Console

from resetfree.core.errors import InvalidInput, NotCertifiable, ResetFreeError
from resetfree.players import BASES
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.resolve import parse_options, resolve_model
from resetfree.theory.oracle.dynamic_programming import Solution

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
DETAIL_LIMIT = 100_000  # entries of a [H, S, A] array that JSON still carries

FILE, FOLDER = click.Path(path_type=Path), click.Path(path_type=Path, file_okay=False)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
tensorboard_option = click.option(
    "--tensorboard", type=FOLDER, metavar="DIR", help="Also log to TensorBoard, in this folder (extra tensorboard)."
)
settings = click.option(
    "--set", "options", multiple=True, metavar="KEY=VALUE", help="Set an option of the problem; can be repeated."
)


def as_record(kind: Callable[..., T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Give a command its arguments as one record, whose fields are named like them."""

    def decorate(function: Callable[[T], None]) -> Callable[..., None]:
        @wraps(function)
        def command(**words: Any) -> None:
            function(kind(**words))

        return command

    return decorate


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
