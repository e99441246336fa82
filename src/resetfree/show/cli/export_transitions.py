"""`resetfree transitions`: every step of a run in one file for other programs."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from resetfree.runs.data.transition_files import write_transitions
from resetfree.show.cli.common import FILE, as_json, emit, out_option
from resetfree.show.cli.help_pages import Documented


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
