"""What the commands share: options, output for people and for programs, and a solution as plain data."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click
import numpy as np
from rich.console import Console

from resetfree.core.errors import ResetFreeError
from resetfree.theory.oracle.dynamic_programming import Solution

F = TypeVar("F", bound=Callable[..., Any])
DETAIL_LIMIT = 100_000  # entries of a [H, S, A] array that JSON still carries

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
settings = click.option(
    "--set", "options", multiple=True, metavar="KEY=VALUE", help="An option of the problem; repeat."
)


def problem_argument(function: F) -> F:
    """PROBLEM and its options, as the commands that only look at a problem take them."""
    return click.argument("problem")(settings(as_json(function)))


def say(data: dict[str, Any], as_json: bool, show: Callable[[Console], None]) -> None:
    """One JSON object for programs, or `show` for people."""
    if as_json:
        click.echo(json.dumps(data, allow_nan=False))
    else:
        show(Console())


def stop(stopped: ResetFreeError) -> NoReturn:
    """End a command that the user stopped, soon: to clean up what the process ends with would take a second."""
    click.echo(str(stopped), err=True)
    gc.freeze()
    raise click.exceptions.Exit(130) from None


def solution_json(solution: Solution, multipliers: bool) -> dict[str, Any]:
    """What `solve --json` says of a finite problem; null stands for "infeasible" or "not computed"."""
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
        "policy": solution.policy.tolist() if small else None,
        "safe_actions": solution.safe_actions.tolist() if small else None,
    }


def numbers(values: Any) -> list[float | None]:
    """What JSON has for numbers: null where there is none."""
    return [float(x) if np.isfinite(x) else None for x in values]
