"""What is looked at: `resetfree report` (one HTML file, offline), `watch` (a film) and `studio` (the live page)."""

import atexit
import gc
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

import resetfree as rf
from resetfree.core.readable import counted
from resetfree.core.web import LOOPBACK
from resetfree.problems.registry import parse_options
from resetfree.show.cli.common import FILE, FOLDER, as_json, command, emit, out_option, settings
from resetfree.show.report import write_report
from resetfree.show.report.film_files import MOST_BYTES, MOST_FRAMES, MOST_RESETS
from resetfree.show.report.filming import film_run, titles_in_words
from resetfree.show.report.pictures import SIDE
from resetfree.show.studio import serve


@command(
    ("one run on one page", "resetfree report field.rfrun"),
    ("many runs, and every figure as a file", "resetfree report runs/*.rfrun -o all.html --figures figures"),
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


BOUNDS = f"at most {MOST_FRAMES} frames of {SIDE} pixels and {MOST_BYTES / 1e6:g} MB"


@command(
    ("a run on a grid", "resetfree watch field.rfrun -o field.gif"),
    ("a run in an environment, which you name yourself", "resetfree watch pole.rfrun CartPole-v1 -o pole.gif"),
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


@command(
    ("open the page in a browser", "resetfree studio"),
    ("on a machine without a screen", "resetfree studio --no-browser --port 8000"),
)
@click.option(
    "--folder",
    type=FOLDER,
    default=Path("runs"),
    show_default=True,
    help="The folder of run files; the page reads no others.",
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8765, show_default=True, help="Port of the page; 0: any free one."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Beyond loopback a token is required, which is sent unencrypted: everyone who can reach "
    "the address and has it can start runs and read all run files of the folder.",
)
@click.option(
    "--token", default="", help="Token that the page must send; generated if one is needed and none is given."
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def studio(folder: Path, port: int, host: str, token: str, no_browser: bool) -> None:
    """Draw a grid, choose players and watch them learn, in a browser.

    Ctrl-C saves every run and ends.
    """

    def ready(address: str) -> None:
        click.echo(f"The studio is at {address}   (runs are in '{folder}'; Ctrl-C saves them and ends)")
        if host not in LOOPBACK:
            click.echo(
                f"Warning: everyone who can reach {host} and has the token, which is sent unencrypted, can start runs "
                f"here and read all run files in '{folder}'.",
                err=True,
            )
        if not no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    atexit.register(gc.freeze)  # else Python spends a second on garbage collection at exit
    serve(folder, host, port, token=token, ready=ready, late=lambda sentence: click.echo(sentence, err=True))
    click.echo("Ended; every run is saved.")
