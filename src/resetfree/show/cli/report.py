"""`resetfree report`: one HTML file that explains run files, offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from resetfree.problems.world import parse_options
from resetfree.show.cli.common import FILE, FOLDER, as_json, emit, out_option, settings
from resetfree.show.cli.help_pages import Documented
from resetfree.show.report.html import write_report


@click.command(
    cls=Documented,
    examples=[
        ("one run on one page", "resetfree report field.rfrun"),
        ("many runs, and every figure as a file", "resetfree report runs/*.rfrun -o all.html --figures figures"),
    ],
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=FILE)
@out_option("report.html", "The page; an older report")
@click.option("--problem", help="The problem of the runs, if it is your own: module:factory.")
@click.option(
    "--figures",
    type=FOLDER,
    metavar="DIR",
    help="Also write every figure and its data into this folder: .svg, .pdf, .png, .csv.",
)
@settings
@click.option("--all-figures", is_flag=True, help="Draw every figure of every group, even if there are many groups.")
@click.option(
    "--film/--no-film",
    default=None,
    help="A film in the page of one group: by default of a map and of kept pictures; --film also plays an environment "
    "again, which you name by --problem.",
)
@as_json
def report(
    runs: tuple[Path, ...],
    out: Path,
    problem: str | None,
    figures: Path | None,
    options: Sequence[str],
    all_figures: bool,
    film: bool | None,
    as_json: bool,
) -> None:
    """Explain runs on one HTML page that works offline.

    It has curves, the game, maps and certificates; runs that differ only in their seed are grouped.
    """
    details = True if all_figures else None
    made = write_report(
        runs, out, problem=problem, options=parse_options(options), figures=figures, details=details, film=film
    )

    def show(console: Console) -> None:
        words = f"{made.path}: {made.runs} run{'' if made.runs == 1 else 's'}, {len(made.figures)} figures, "
        console.print(Text(f"{words}{made.bytes / 1e6:.2f} MB, {made.seconds:.1f} s"), soft_wrap=True)
        if figures is not None:
            console.print(Text(f"Figures and their data: {figures}"), soft_wrap=True)

    emit(made.to_dict(), as_json, show)
