"""`resetfree export`, `transitions`, `copy`: a policy for NumPy, every step for other programs, a copy of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

import resetfree as rf
from resetfree.problems.resolve import parse_options
from resetfree.runs.data.transition_files import write_transitions
from resetfree.runs.file.ledger import read
from resetfree.runs.file.newfile import copy_run
from resetfree.show.cli.common import FILE, Documented, as_json, emit, out_option, player_options, settings
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


@click.command(
    name="transitions",
    cls=Documented,
    examples=[
        ("for NumPy", "resetfree transitions field.rfrun -o steps.npz"),
        ("for pandas, Polars or DuckDB", "resetfree transitions field.rfrun -o steps.parquet"),
    ],
)
@click.argument("runfile", type=FILE)
@out_option("data.npz", "The file, .npz, .parquet (extra sweep) or .minari; an older file of transitions")
@as_json
def export_transitions(runfile: Path, out: Path, as_json: bool) -> None:
    """Write every step of a run to one file, for other programs.

    The columns are round, step, state, action, reward, reset and next state.
    """
    columns = write_transitions(runfile, out)
    episodes, resets = len(set(columns["round"].tolist())), int(columns["reset"].sum())
    data = {
        "run_file": str(runfile),
        "data_file": str(out),
        "transitions": len(columns["round"]),
        "episodes": episodes,
        "resets": resets,
        "columns": {name: [str(column.dtype), *column.shape[1:]] for name, column in columns.items()},
    }

    def show(console: Console) -> None:
        words = f"{out}: {data['transitions']:,} transitions of {episodes:,} episodes, {resets:,} of them reset"
        console.print(Text(words), soft_wrap=True)

    emit(data, as_json, show)


@click.command(
    name="copy",
    cls=Documented,
    examples=[
        ("keep a copy while it is written", "resetfree copy field.rfrun backup.rfrun"),
        ("say how much was copied, for a script", "resetfree copy field.rfrun backup.rfrun --json"),
    ],
)
@click.argument("runfile", type=FILE)
@click.argument("copy", type=FILE)
@as_json
def copy(runfile: Path, copy: Path, as_json: bool) -> None:
    """Copy a run file, also while the run is being written.

    The copy is one file with all that was saved at one moment; it can be resumed. An existing file is not replaced.
    """
    copy_run(runfile, copy)
    episodes = read(copy).k
    data = {"run_file": str(runfile), "copy": str(copy), "episodes": episodes, "bytes": copy.stat().st_size}

    def show(console: Console) -> None:
        console.print(Text(f"{copy}: {episodes:,} episodes of '{runfile}', {data['bytes']:,} bytes"), soft_wrap=True)

    emit(data, as_json, show)
