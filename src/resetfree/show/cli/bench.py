"""`resetfree bench`: every method on every problem of a suite, with the same random numbers, into one file.

`bench autonomy` is a comparison with options of its own: methods that bring a system back themselves, at equal steps.
"""

import shlex
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from resetfree.core.errors import InvalidInput
from resetfree.core.settings import check_names, expect
from resetfree.players import Method
from resetfree.problems.registry import parse_options
from resetfree.show.cli import bench_pages
from resetfree.show.cli.common import FILE, Documented, TrialsDisplay, as_json, command, emit, one_argument, stop
from resetfree.show.report import comparison
from resetfree.studies.engines import StudyStopped, Workers
from resetfree.studies.suites import SUITES, find_suite, methods, split_names
from resetfree.studies.suites import autonomy as turns
from resetfree.studies.suites.suite_runner import Summary, compare, run_suite
from resetfree.studies.suites.trials import Results

WIDTH = 128  # characters that a table takes at least
BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"
FIRST = "tabletop-small-v0"  # the task of `bench autonomy` by default


def write_page(page: Path, lines: Sequence[turns.Line]) -> None:
    """Replace what stands between two marks of a page; raises InvalidInput for a page without them."""
    before = page.read_text() if page.exists() else f"# Learning without resets\n\n{BEGIN}\n{END}\n"
    first, begin, rest = before.partition(BEGIN)
    _, end, last = rest.partition(END)
    if not begin or not end:
        raise InvalidInput(f"The page '{page}' must have the lines '{BEGIN}' and '{END}'.")
    refused = sorted({(line["method"], line["task"], line["why"]) for line in lines if line["status"] == turns.REFUSED})
    text = comparison.autonomy_tables(comparison.autonomy_rows(lines))
    text += "".join(f"\n- `{method}` on `{task}`: {why}" for method, task, why in refused)
    page.write_text(f"{first}{BEGIN}\n\n{text}\n{END}{last}")


@command(
    (
        "one method on the small table, two seeds",
        "resetfree bench autonomy --methods medal --seeds 0:2 --steps 2000 --every 1000",
    ),
    (
        "eight methods and five seeds in one program, for an accelerator",
        "resetfree bench autonomy --together --seeds 0:5 --steps 200000",
    ),
)
@click.option("--methods", metavar="A,B", help="Only these methods, or module:Class; default: all.")
@click.option("--tasks", metavar="X,Y", default=FIRST, show_default=True, help="Ids of the tasks, or all.")
@click.option("--seeds", metavar="FIRST:END", default="0:5", show_default=True, help="The seeds.")
@click.option("--steps", type=click.IntRange(100, 10**9), default=40_000, show_default=True, help="Of each trial.")
@click.option("--every", type=click.IntRange(50, 10**9), default=2_000, show_default=True, help="Between evaluations.")
@click.option("--set", "given_settings", multiple=True, metavar="KEY=VALUE", help="A setting of every method.")
@click.option("--shield", type=click.FloatRange(0, 1, min_open=True), help="Of every method; as --set shield=R.")
@click.option("--limit", type=click.FloatRange(min=1), help="Seconds after which a trial is cut, and marked as such.")
@click.option("--jobs", type=click.IntRange(1, 1000), default=1, show_default=True, help="Processes.")
@click.option("--together", is_flag=True, help="All methods and seeds in one compiled program (tabletop).")
@click.option("--out", type=FILE, default=Path("bench/autonomy.jsonl"), show_default=True, help="The results file.")
@click.option("--page", type=FILE, help="Write the page from all lines of the results file.")
@click.option("--only-page", is_flag=True, help="Play nothing: make the page from the lines that are there.")
@as_json
@one_argument
def autonomy(given: SimpleNamespace) -> None:
    """Compare methods that learn without resets: interventions, and deployed success at equal steps.

    What the results file holds is not played again; trials that were cut are.
    """
    if not given.only_page:
        for line in _played(given):
            turns.keep(given.out, line)
            if not given.as_json and not given.together:
                click.echo(sentence(line), err=True)
    lines = list(turns.newest(turns.read(given.out)).values())
    if given.page is not None:
        write_page(given.page, lines)
    rows = comparison.autonomy_rows(lines)
    emit(
        {"results_file": str(given.out), "trials": len(lines), "rows": [row._asdict() for row in rows]},
        given.as_json,
        lambda console: Console(width=max(console.width, WIDTH)).print(comparison.autonomy_table(rows)),
    )


def sentence(line: turns.Line) -> str:
    """A trial in a line."""
    if line["status"] == turns.REFUSED:
        return f"{line['method']} on {line['task']}: {line['why']}"
    last = line["deployed"][-1][1] if line["deployed"] else float("nan")
    return (
        f"{line['method']} on {line['task']}, seed {line['seed']}: {last:.2f} deployed after {line['taken']:,} steps, "
        f"{line['interventions']} interventions, {line['requested']} requested ({line['status']}, {line['seconds']} s)"
    )


def _played(given: SimpleNamespace) -> Iterator[turns.Line]:
    """The lines of those trials that are missing."""
    names = turns.named(
        None if given.methods is None else [one for one in given.methods.split(",") if one], together=given.together
    )
    ids = turns.tasks() if given.tasks == "all" else split_names(given.tasks, turns.tasks())
    check_names(ids, turns.tasks(), "task")
    chosen = {**parse_options(given.given_settings), **({} if given.shield is None else {"shield": given.shield})}
    first = turns.AutonomyTrial("", "", 0, steps=given.steps, every=given.every, settings=chosen, limit=given.limit)
    there = {key for key, line in turns.newest(turns.read(given.out)).items() if line["status"] != turns.CUT}
    seeds = seeds_of(given.seeds)
    if given.together:
        for task in ids:
            lines: list[turns.Line] = []
            for lines in turns.play_together(names, task, seeds, first):
                done = f"{lines[0]['taken']:,} steps, {lines[0]['seconds']:.0f} s"
                click.echo(f"{task}: {done}: {_so_far(lines)}", err=True)
                yield from lines  # also those that are cut: what is killed has not lost them
        return
    trials = [first._replace(method=name, task=task, seed=seed) for seed in seeds for task in ids for name in names]
    left = deque(one for one in trials if one.key not in there)
    if given.jobs == 1:
        yield from map(turns.play, left)
        return
    with Workers[turns.AutonomyTrial, turns.Line](min(given.jobs, max(len(left), 1)), turns.play) as pool:
        for trial, line in pool.do(left):
            if line is None:
                raise InvalidInput(
                    f"The process of '{trial.method}' on '{trial.task}' was killed: give fewer '--jobs'."
                )
            yield line


def _so_far(lines: list[turns.Line]) -> str:
    """The mean of the last evaluation by method."""
    by_method: dict[str, list[float]] = {}
    for line in lines:
        by_method.setdefault(line["method"], []).append(line["deployed"][-1][1])
    return ", ".join(f"{name} {sum(found) / len(found):.2f}" for name, found in by_method.items())


def seeds_of(text: str) -> list[int]:
    """The seeds that FIRST:END means; raises InvalidInput."""
    first, _, end = text.partition(":")
    if not (first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise InvalidInput(f"The '--seeds' of this comparison must be FIRST:END, as in 0:5. Got '{text}' instead.")
    return list(range(int(first), int(end)))


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
    data = {
        "suite": suite,
        "results_file": str(file),
        "picture": None if drawn is None else str(drawn),
        "docs": None if docs is None else str(docs),
        "trials": len(results.outcomes),
        "trials_of_earlier_code": others,
        **summary.to_dict(),
    }

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
