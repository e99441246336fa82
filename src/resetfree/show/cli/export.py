"""`resetfree export`: what a run has learned as one plain NumPy file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

import resetfree as rf
from resetfree.problems.world import parse_options
from resetfree.show.cli.common import FILE, as_json, emit, out_option, player_options, settings
from resetfree.show.cli.help_pages import Documented
from resetfree.use.exporting import describe_file


@click.command(
    cls=Documented,
    examples=[
        ("a policy that runs with NumPy alone", "resetfree export field.rfrun -o policy.npz"),
        ("for a run of your own environment", "resetfree export pump.rfrun plant:Pump"),
    ],
)
@click.argument("runfile", type=FILE)
@click.argument("problem", required=False)
@out_option("policy.npz", "The file; an older policy")
@settings
@player_options
@as_json
def export(
    runfile: Path,
    problem: str | None,
    out: Path,
    options: Sequence[str],
    primal: str | None,
    dual: str | None,
    as_json: bool,
) -> None:
    """Write a learned policy to one .npz file of plain arrays.

    PROBLEM is needed only if RUNFILE alone is not enough.
    """
    policy = rf.load(runfile, problem, parse_options(options), primal=primal, dual=dual).policy
    path = policy.export(out)
    kind, arrays = describe_file(policy)
    data = {"run_file": str(runfile), "policy_file": str(path), "kind": kind, "arrays": arrays, "policy": policy.about}

    def show(console: Console) -> None:
        sizes = ", ".join(f"{name} {tuple(shape)}" for name, shape in arrays.items())
        console.print(Text(f"{path}: {kind}, {sizes}"), soft_wrap=True)

    emit(data, as_json, show)
