"""`resetfree sweep`: problems x players x settings x seeds from a TOML file, on processes, Ray or an accelerator."""

import json
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from resetfree.core.readable import low_to_high, number
from resetfree.show.cli import common
from resetfree.show.cli.common import FILE, FOLDER, TrialsDisplay, as_json, emit, show_next
from resetfree.show.report.style import line, look, round_number, save
from resetfree.studies.engines import Count, StudyStopped
from resetfree.studies.engines.sweep_runner import ENGINES, check_engine, run_sweep, standing
from resetfree.studies.gathering import Gathered, arrow, gather
from resetfree.studies.plan import SweepPlan, check_plan, parse_plan, read_plan
from resetfree.studies.trial import SweepFolder, with_settings, write_text

SHOWN = ("resets", "regret", "realised_resets")  # Regret never without Resets beside it
HEADINGS = {"resets": "Resets", "regret": "Regret", "realised_resets": "realised resets"}
MOST_LINES = 12  # of one picture
PLAYERS = 19  # characters of the column of players, at least: longer names are rare
NOTE = (
    "Interquartile mean over seeds [95 % bootstrap interval], and the mean, after the last episode. "
    "Resets are expected ones and exact, Regret is exact and never clipped; – where there is no oracle."
)


@dataclass(frozen=True)
class SummaryLine:
    """A configuration: what it consists of, and the rows of its summary by measure."""

    words: dict[str, Any]
    rows: dict[str, list[dict[str, Any]]]  # in the order of k

    @property
    def label(self) -> str:
        """Players, settings, feedback and episodes, which distinguish it within its problem."""
        settings = json.loads(self.words["settings"])
        sides = [with_settings(self.words[role], settings.get(role, {})) for role in ("primal", "dual")]
        return f"{sides[0]} / {sides[1]}, {self.words['feedback']}, K = {self.words['episodes']}"

    @property
    def problem(self) -> str:
        """Its problem with its options."""
        return with_settings(self.words["problem"], json.loads(self.words["problem_options"]))

    def last(self, measure: str) -> dict[str, Any] | None:
        """Its statistics after the last episode, None if the measure does not exist."""
        rows = self.rows.get(measure, [])
        return rows[-1] if rows and rows[-1]["k"] == self.words["episodes"] else None


Problems = Mapping[str, Sequence[SummaryLine]]


def read_summary(folder: SweepFolder) -> dict[str, list[SummaryLine]]:
    """The configurations of a gathered sweep by problem."""
    _, pq = arrow()
    lines: dict[str, SummaryLine] = {}
    for row in _rows(pq, folder.summary):
        words = {key: row[key] for key in ("problem", "problem_options", "primal", "dual", "settings", "feedback")}
        own = lines.setdefault(row["configuration"], SummaryLine({**words, "episodes": row["episodes"]}, {}))
        own.rows.setdefault(row["measure"], []).append(row)
    problems: dict[str, list[SummaryLine]] = {}
    for one in lines.values():
        problems.setdefault(one.problem, []).append(one)
    return problems


def write_markdown(folder: SweepFolder, problems: Problems, counts: str, picture: bool) -> None:
    """report.md: a table per problem."""
    parts = [f"# Sweep\n\n{counts}\n\n{NOTE}\n"]
    if picture:
        parts.append(f"![Resets and Regret over the episodes]({folder.picture.name})\n")
    for problem, lines in problems.items():
        head = ["players", "seeds", *(HEADINGS[name] for name in SHOWN)]
        rows = [head, ["---"] * len(head), *([one.label, *_cells(one)] for one in lines)]
        table = "\n".join(f"| {' | '.join(cell.replace('|', '¦') for cell in row)} |" for row in rows)
        parts.append(f"## {problem}\n\n{table}\n")
    with folder.writing():
        write_text(folder.report, "\n".join(parts))


def tables(problems: Problems, narrow: bool = False) -> Iterator[Table]:
    """The same tables for the terminal; a narrow one has no room for means and for all that the players share."""
    for problem, lines in problems.items():
        shared = _shared(lines) if narrow else ""
        table = Table(
            title=f"{problem}{shared}", title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0)
        )
        table.add_column("players", overflow="fold", min_width=PLAYERS)
        table.add_column("seeds", justify="right")
        for name in SHOWN:
            table.add_column(HEADINGS[name].removesuffix(" resets") if narrow else HEADINGS[name])
        for one in lines:
            table.add_row(one.label.removesuffix(shared), *_cells(one, narrow))
        yield table


def draw(problems: Problems, path: Path) -> Path | None:
    """Interquartile means with their bands over the episodes, one row of axes per problem; None if there are none."""
    from matplotlib.figure import Figure  # half a second to import: only when a picture is wanted

    if not problems:
        return None
    shown = dict(list(problems.items())[:MOST_LINES])
    with look():
        figure = Figure(figsize=(11, 3.2 * len(shown)), layout="constrained")
        grid = figure.subplots(len(shown), 2, squeeze=False)
        for row, (problem, lines) in zip(grid, shown.items(), strict=True):
            for axes, measure in zip(row, _measures(lines), strict=True):
                for i, one in enumerate(lines[:MOST_LINES]):
                    points = one.rows.get(measure, [])
                    k, mean, *band = ([point[key] for point in points] for key in ("k", "iqm", "iqm_low", "iqm_high"))
                    axes.plot(k, mean, label=one.label, **line(i))
                    axes.fill_between(k, *band, color=line(i)["color"], alpha=0.2, lw=0)
                left = len(lines) - MOST_LINES
                more = f" ({left} more in the table)" if left > 0 else ""
                unit = "reward" if measure == "regret" else "resets"
                axes.set(title=f"{problem}: {HEADINGS[measure]}{more}", xlabel="episode", ylabel=unit)
                if not any(measure in one.rows for one in lines):  # an axis without data has no logarithm
                    axes.text(0.5, 0.5, "not known: there is no oracle", ha="center", transform=axes.transAxes)
                    continue
                axes.set_xscale("log")
                axes.xaxis.set_major_formatter(round_number)
                axes.xaxis.set_minor_formatter("")
            row[0].legend(fontsize=6)
        return save(figure, path, own=True)


def _measures(lines: Sequence[SummaryLine]) -> tuple[str, str]:
    """The measures to draw: expected resets, or realised ones without an oracle, and regret."""
    return "resets" if any("resets" in one.rows for one in lines) else "realised_resets", "regret"


def _shared(lines: Sequence[SummaryLine]) -> str:
    """What all labels of a problem end with."""
    ends = {f", K = {one.words['episodes']}" for one in lines}
    return ends.pop() if len(ends) == 1 else ""


def _cells(one: SummaryLine, narrow: bool = False) -> list[str]:
    rows = [one.last(measure) for measure in SHOWN]
    seeds = max((row["n"] for row in rows if row is not None), default=0)
    return [str(seeds), *(_cell(row, narrow) for row in rows)]


def _cell(row: Mapping[str, Any] | None, narrow: bool) -> str:
    if row is None:
        return "–"
    if narrow:
        return f"{number(row['iqm'])} {low_to_high(row['iqm_low'], row['iqm_high'])}"
    return f"{number(row['iqm'], 4)} {low_to_high(row['iqm_low'], row['iqm_high'], 4)}, mean {number(row['mean'], 4)}"


def _rows(pq: Any, path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches():
            yield from batch.to_pylist()


WIDTH = 128  # characters that a table takes at least
FIRST = 5  # trials that --dry-run shows


class SweepGroup(common.DocumentedGroup):
    """`sweep FILE` is `sweep run FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the subcommand `run` if it was left out; without any word, the help."""
        args = args or ["--help"]
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=SweepGroup,
    examples=[
        ("play every trial of a file", "resetfree sweep study.toml"),
        ("see how far it is", "resetfree sweep status sweeps/study"),
    ],
)
def sweep() -> None:
    """Play many trials from a TOML file, and gather the results.

    The file names problems, players, settings and seeds (docs/sweeps.md). `sweep FILE` is `sweep run FILE`.
    """


ENGINE_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default="auto",
        show_default=True,
        help="local: processes; ray: a Ray cluster; batched: an accelerator; auto: batched where it is faster.",
    ),
    click.option("--address", help="HOST:PORT of a Ray cluster, or auto; default: start one."),
    click.option(
        "--workers",
        type=click.IntRange(1),
        help="Number of processes, of the local engine or of a cluster that is started.",
    ),
    common.tensorboard_option,
    click.option(
        "--time-limit", type=float, metavar="SECONDS", help="Time limit of a trial; one that takes longer fails."
    ),
)


def engine_options(function: common.F) -> common.F:
    """Add the options that say how trials are played."""
    for option in reversed(ENGINE_OPTIONS):
        function = option(function)
    return function


strict_option = click.option("--strict", is_flag=True, help="Exit with status 1 if a trial failed.")


@common.command(
    ("play every trial; the results go to sweeps/study", "resetfree sweep run study.toml"),
    ("only say what would be played", "resetfree sweep run study.toml --dry-run"),
    to=sweep,
)
@click.argument("file", type=FILE)
@click.option("--out", type=FOLDER, help="Folder of the results; default: sweeps/FILE.")
@engine_options
@click.option("--update", is_flag=True, help="Use the folder of another sweep for FILE; the trials of both are kept.")
@click.option("--dry-run", is_flag=True, help="Only print the number of trials and the first few.")
@strict_option
@as_json
def run(file: Path, out: Path | None, update: bool, dry_run: bool, strict: bool, as_json: bool, **engine: Any) -> None:
    """Play the trials of FILE and gather the results.

    Ctrl-C saves; the same command continues.
    """
    plan, text = read_plan(file)
    check_plan(plan)
    folder = SweepFolder(out or Path("sweeps") / file.stem)
    if dry_run:
        return _describe(plan, folder, as_json)
    arrow()  # a missing dependency is reported before anything is played
    check_engine(engine["engine"], engine["address"], engine["time_limit"])
    folder.prepare(text, update=update)
    _play(plan, folder, engine, strict, as_json)


@common.command(
    ("how far it is", "resetfree sweep status sweeps/study"),
    ("the same, for a program", "resetfree sweep status sweeps/study --json"),
    to=sweep,
)
@click.argument("folder", type=FILE)
@as_json
def status(folder: Path, as_json: bool) -> None:
    """Show how far a sweep is, and the errors of failed trials."""
    place = SweepFolder(folder)
    count = standing(parse_plan(place.text()), place)
    data = _numbers(count, place) | {"is_played": place.is_played}

    def show(console: Console) -> None:
        console.print(Text(_sentence(count)), soft_wrap=True)
        _show_errors(console, count, place)

    emit(data, as_json, show)


@common.command(
    ("play what failed again", "resetfree sweep retry sweeps/study"),
    ("from the beginning, with more time each", "resetfree sweep retry sweeps/study --afresh --time-limit 600"),
    to=sweep,
)
@click.argument("folder", type=FILE)
@click.option("--afresh", is_flag=True, help="Start failed trials from the beginning, instead of resuming them.")
@engine_options
@strict_option
@as_json
def retry(folder: Path, afresh: bool, strict: bool, as_json: bool, **engine: Any) -> None:
    """Play the failed and missing trials of a sweep again."""
    place = SweepFolder(folder)
    plan = parse_plan(place.text())
    arrow()
    with place.playing():
        for id in place.failed():
            if afresh:
                place.remove_trial(id)
            place.forget_error(id)
    _play(plan, place, engine, strict, as_json)


@common.command(
    ("gather what is finished so far", "resetfree sweep report sweeps/study"),
    ("the same, on one core", "resetfree sweep report sweeps/study --workers 1"),
    to=sweep,
)
@click.argument("folder", type=FILE)
@click.option(
    "--workers", type=click.IntRange(min=1), help="Number of processes that read run files; default: one per core."
)
@as_json
def report(folder: Path, workers: int | None, as_json: bool) -> None:
    """Gather the finished trials: tables, a report, a picture.

    It writes results.parquet, summary.parquet, report.md and curves.png into FOLDER.
    """
    place = SweepFolder(folder)
    plan = parse_plan(place.text())
    began = time.perf_counter()
    found = gather(plan, place, processes=workers)
    problems = _write_report(place, found, len(plan.trials))
    data = {"folder": str(place.path), "trials": len(plan.trials), "seconds": time.perf_counter() - began}

    def show(console: Console) -> None:
        _show_tables(console, problems)
        console.print(Text(_files(place)), soft_wrap=True)

    emit(data | _gathered(found, place), as_json, show)


def _play(plan: SweepPlan, folder: SweepFolder, engine: dict[str, Any], strict: bool, as_json: bool) -> None:
    """Play the trials, write the report and print both; engine: the values of `engine_options`."""
    began = time.perf_counter()
    try:
        with TrialsDisplay() as display:
            count = run_sweep(plan, folder, **engine, progress=display)
    except StudyStopped as stopped:
        common.stop(stopped)
    found = gather(plan, folder, processes=engine["workers"], run_code=True)
    shown = _write_report(folder, found, len(plan.trials))
    data = _numbers(count, folder) | _gathered(found, folder)
    data |= {"engines": count.engines, "engine_why": count.why, "seconds": time.perf_counter() - began}

    def show(console: Console) -> None:
        _show_tables(console, shown)
        console.print(Text(_sentence(count)), soft_wrap=True)
        _show_errors(console, count, folder)
        console.print(Text(_files(folder)), soft_wrap=True)
        if count.done:
            show_next(console, [(f"resetfree report {shlex.quote(str(folder.path))}", "all runs on one page")])

    emit(data, as_json, show)
    if strict and count.failed:
        raise click.exceptions.Exit(1)


def _describe(plan: SweepPlan, folder: SweepFolder, as_json: bool) -> None:
    n = len(plan.configurations)
    data: dict[str, Any] = {
        "trials": len(plan.trials),
        "configurations": n,
        "repeated": plan.repeated,
        "episodes": sum(trial.episodes for trial in plan.trials),
        "folder": str(folder.path),
        "first": [{"id": trial.id, "trial": str(trial)} for trial in plan.trials[:FIRST]],
    }

    def show(console: Console) -> None:
        again = f" ({plan.repeated} given twice)" if plan.repeated else ""
        words = f"{len(plan.trials):,} trials{again} of {n:,} configurations, {data['episodes']:,} episodes"
        console.print(Text(f"{words}, into '{folder.path}'. The first:"), soft_wrap=True)
        for trial in plan.trials[:FIRST]:
            console.print(Text(f"  {trial.id}  {trial}"), soft_wrap=True)

    emit(data, as_json, show)


def _write_report(folder: SweepFolder, found: Gathered, total: int) -> Problems:
    problems = read_summary(folder)
    picture = draw(problems, folder.picture)
    counts = f"{found.trials} of {total} trials, {found.configurations} configurations."
    write_markdown(folder, problems, counts, picture is not None)
    return problems


def _numbers(count: Count, folder: SweepFolder) -> dict[str, Any]:
    return {
        "folder": str(folder.path),
        "trials": count.total,
        **{name: getattr(count, name) for name in ("done", "failed", "running", "waiting")},
        "errors": [{"trial": id, "error": text, "file": str(folder.error_file(id))} for id, text in count.errors],
    }


def _gathered(found: Gathered, folder: SweepFolder) -> dict[str, Any]:
    counts = {"gathered": found.trials, "rows": found.rows, "configurations": found.configurations}
    return {**counts, **{name: str(getattr(folder, name)) for name in ("results", "summary", "report")}}


def _show_tables(console: Console, problems: Problems) -> None:
    narrow = console.is_terminal and console.width < WIDTH
    console = console if narrow else Console(width=max(console.width, WIDTH))
    for table in tables(problems, narrow):
        console.print(table)
    if problems:
        console.print(Text(NOTE if not narrow else NOTE.replace(", and the mean", ""), style="dim"))


def _files(folder: SweepFolder) -> str:
    there = [folder.results, folder.summary, folder.report, folder.picture]
    return "Files: " + "  ".join(str(file) for file in there if file.exists())


def _sentence(count: Count) -> str:
    left = count.total - count.done - count.failed - count.running
    words = [f"{count.done} of {count.total} trials done", f"{count.running} running" * (count.running > 0)]
    words += [f"{left} to play" * (left > 0), f"{count.failed} failed"]
    return ", ".join(word for word in words if word) + "."


def _show_errors(console: Console, count: Count, folder: SweepFolder) -> None:
    for id, error in count.errors:
        console.print(Text(f"  {id}  {error}", style="yellow"), soft_wrap=True)
    if count.failed:
        words = f"Tracebacks: '{folder.path / 'errors'}'. Try again: resetfree sweep retry {folder.path}"
        console.print(Text(words), soft_wrap=True)
