"""`resetfree watch`: a film of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

import resetfree as rf
from resetfree.problems.world import parse_options
from resetfree.show.cli.common import FILE, as_json, emit, out_option, settings
from resetfree.show.cli.help_pages import Documented
from resetfree.show.cli.wording import counted
from resetfree.show.film.film_files import MOST_BYTES
from resetfree.show.film.film_plan import MOST_FRAMES, MOST_RESETS
from resetfree.show.film.filming import film_run, titles_in_words
from resetfree.show.film.pictures_of_runs import SIDE

BOUNDS = f"at most {MOST_FRAMES} frames of {SIDE} pixels and {MOST_BYTES / 1e6:g} MB"


@click.command(
    cls=Documented,
    examples=[
        ("a run on a grid", "resetfree watch field.rfrun -o field.gif"),
        ("a run in an environment, which you name yourself", "resetfree watch pole.rfrun CartPole-v1 -o pole.gif"),
    ],
    epilog=f"A film has {BOUNDS}, and shows at most {MOST_RESETS} resets.",
)
@click.argument("runfile", type=FILE)
@click.argument("problem", required=False)
@out_option("film.gif", "The film, .gif or .mp4 (with imageio-ffmpeg); an older one")
@settings
@as_json
def watch(runfile: Path, problem: str | None, out: Path, options: Sequence[str], as_json: bool) -> None:
    """Make a film of a run: its first life, its resets, its last life.

    Grids are drawn from RUNFILE. An environment draws itself: every life is played again from its seed with the
    recorded actions, and compared with the record. A file never makes code run, so PROBLEM must name the environment.
    Runs that cannot be played again keep their pictures while they run: resetfree run --film N.
    """
    made = film_run(rf.load(runfile, problem, parse_options(options)), out)
    film = made.written
    data = {
        "run_file": str(runfile),
        "film": str(film.path),
        "frames": film.frames,
        "width": film.width,
        "height": film.height,
        "bytes": film.bytes,
        "seconds": film.seconds,
        "pictures": made.source,
        "scenes": list(made.titles),
    }

    def show(console: Console) -> None:
        size = f"{film.width} x {film.height} pixels, {film.bytes / 1e6:.2f} MB"
        words = f"{film.path}: {film.seconds:.0f} s, {counted(film.frames, 'frame')}, {size}"
        console.print(Text(words), soft_wrap=True)
        console.print(Text(f"It shows {titles_in_words(made.titles)}.", style="dim"))

    emit(data, as_json, show)
