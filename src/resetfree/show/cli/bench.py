"""`resetfree bench`: every method on every problem of a suite, with the same random numbers, into one file."""

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from resetfree.core.certificate import plain
from resetfree.core.settings import check_names, expect
from resetfree.players import Method
from resetfree.show.cli import bench_pages
from resetfree.show.cli.autonomy import autonomy
from resetfree.show.cli.common import FILE, Documented, as_json, command, emit, one_argument, stop
from resetfree.show.cli.progress import TrialsDisplay
from resetfree.show.report import comparison
from resetfree.studies.engines import StudyStopped
from resetfree.studies.suites import SUITES, find_suite, methods, split_names
from resetfree.studies.suites.suite_runner import Summary, compare, run_suite
from resetfree.studies.suites.trials import Results

WIDTH = 128  # characters that a table takes at least


class _Bench(Documented):
    """The command, with one word that stands for a comparison with options of its own."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """That of the other comparison, if it is named first."""
        if args[:1] == [str(autonomy.name)]:
            return autonomy.make_context(f"{info_name} {autonomy.name}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@command(
    ("a first look, in a minute or two", "resetfree bench smoke --seeds 2"),
    ("one problem of the full suite, on one core", "resetfree bench full --problems grid-v0 --jobs 1"),
    cls=_Bench,
)
@click.argument("suite", type=click.Choice(list(SUITES)))
@click.option("--out", type=FILE, help="The results file; default: bench/SUITE.jsonl.")
@click.option("--jobs", type=click.IntRange(1, 1000), help="Processes; default: one per core.")
@click.option("--seeds", type=click.IntRange(1, 100_000), help="Number of seeds to report; default: the suite's.")
@click.option("--methods", "chosen", metavar="A,B", help="Only these methods; see `list methods`.")
@click.option("--problems", metavar="X,Y", help="Only these problems, by label or id; see `list suites`.")
@click.option("--redo", metavar="A,B", help="Play the trials of these methods again.")
@click.option("--overwrite", is_flag=True, help="Start again if the results file exists, instead of continuing it.")
@click.option(
    "--docs", type=FILE, help="Also write the results as pages: this Markdown file, and one per problem beside it."
)
@as_json
@one_argument
def bench(given: SimpleNamespace) -> None:
    """Compare all methods on the problems of a suite.

    Every method gets the same random numbers. Ctrl-C saves; the same command continues. Methods that bring a system
    back themselves are compared by `resetfree bench autonomy`.
    """
    suite, docs = given.suite, given.docs
    labels = [case.label for case in SUITES[suite].cases]
    what = find_suite(suite, None if given.problems is None else split_names(given.problems, labels), given.seeds)
    players = _methods(given.chosen, learners=what.learners)
    again = [] if given.redo is None else _methods(given.redo)
    file = given.out or Path("bench") / f"{suite}.jsonl"
    expect(file.name, "'--out' of bench", "be the name of a file", got=f"'{file}'")
    if docs is not None:
        bench_pages.check_page(docs)
    expect(file.suffix != ".png", "'--out' of bench", "not end in .png, as its picture does", got=f"'{file}'")
    with (
        Results(file, suite, overwrite=given.overwrite, redo=[method.name for method in again]) as results,
        TrialsDisplay(quiet=True) as on,
    ):
        try:
            played = run_suite(what, players, results, jobs=given.jobs, progress=on)
        except StudyStopped as stopped:
            stop(stopped)
        others = results.others
    summary = compare(played)
    note = f"{others} trials in the results file were played by an earlier state of the code." if others else ""
    drawn = _write(given, summary, file.with_suffix(".png"), note)
    data = plain(
        {
            "suite": suite,
            "results_file": str(file),
            "picture": None if drawn is None else str(drawn),
            "docs": None if docs is None else str(docs),
            "trials": len(results.outcomes),
            "trials_of_earlier_code": others,
            **summary.to_dict(),
        }
    )

    files = "Files: " + "  ".join(str(p) for p in (file, drawn, docs) if p is not None)
    emit(data, given.as_json, lambda console: _show(console, summary, note, files))


def _write(given: SimpleNamespace, summary: Summary, picture: Path, note: str) -> Path | None:
    """Draw the picture, and write the pages of `--docs`; returns the picture if there is one."""
    draw, write = bench_pages.draw_pareto, bench_pages.write_pages
    if _is_many(summary):
        draw, write = bench_pages.draw_differences, bench_pages.write_page
    title = f"Suite '{given.suite}': mean over seeds and 95 % interval; down and to the left is better"
    drawn = draw(summary, picture, title)
    if given.docs is not None:
        words = ["resetfree", "bench", given.suite]
        for option, value in (("--seeds", given.seeds), ("--methods", given.chosen), ("--problems", given.problems)):
            words += [] if value is None else [option, str(value)]
        beside = draw(summary, given.docs.parent / "images" / f"{given.docs.stem}.png", title)  # its own copy
        seen = None if beside is None else f"images/{beside.name}"
        write(summary, given.docs, shlex.join([*words, "--docs", given.docs.as_posix()]), seen, note)
    return drawn


def _show(console: Console, summary: Summary, note: str, files: str) -> None:
    """Print the comparison."""
    console, many = Console(width=max(console.width, WIDTH)), _is_many(summary)
    for line in bench_pages.losses(summary) if many else []:
        console.print(Text(line))
    if many:
        console.print(Text(bench_pages.count(summary), style="bold"))
    for case, rows in summary.rows.items() if not many else ():
        console.print(Text(f"\n{comparison.heading(rows)}", style="bold"))
        for title, members in comparison.groups(rows):
            console.print(comparison.table(title, members))
        for row in rows:
            if (text := comparison.remarks(row)) is not None:
                console.print(Text(text, style="yellow"))
        console.print(Text(comparison.verdict(summary, case)))
    console.print(Text(f"\n{bench_pages.LINES_LEGEND if many else comparison.LEGEND}", style="dim"))
    if note:
        console.print(Text(note, style="yellow"))
    console.print(Text(files))


def _is_many(summary: Summary) -> bool:
    """Whether there are too many cases for a table each."""
    return len(summary.rows) > bench_pages.MANY


def _methods(text: str | None, *, learners: bool = False) -> list[Method]:
    """The methods named in `text`, or all; or all that are not given the model."""
    known = methods()
    if text is None:
        return [method for method in known.values() if not (learners and method.kind == "oracle")]
    names = split_names(text, known)
    check_names(names, known, "method")
    return [method for name, method in known.items() if name in names]
