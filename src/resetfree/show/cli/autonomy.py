"""`resetfree bench autonomy`: methods that bring a system back themselves, in one table and on one page."""

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import click
from rich.console import Console

from resetfree.core.certificate import plain
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import check_names
from resetfree.problems.registry import parse_options
from resetfree.show.cli.common import FILE, as_json, command, emit, one_argument
from resetfree.show.report.comparison import autonomy_rows, autonomy_table, autonomy_tables
from resetfree.studies.engines import Workers
from resetfree.studies.suites import autonomy as suite
from resetfree.studies.suites import split_names

BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"


def write_page(page: Path, lines: Sequence[suite.Line]) -> None:
    """Replace what stands between two marks of a page; raises InvalidInput for a page without them."""
    before = page.read_text() if page.exists() else f"# Learning without resets\n\n{BEGIN}\n{END}\n"
    first, begin, rest = before.partition(BEGIN)
    _, end, last = rest.partition(END)
    if not begin or not end:
        raise InvalidInput(f"The page '{page}' must have the lines '{BEGIN}' and '{END}'.")
    refused = sorted({(line["method"], line["task"], line["why"]) for line in lines if line["status"] == suite.REFUSED})
    text = autonomy_tables(autonomy_rows(lines))
    text += "".join(f"\n- `{method}` on `{task}`: {why}" for method, task, why in refused)
    page.write_text(f"{first}{BEGIN}\n\n{text}\n{END}{last}")


FIRST = "tabletop-small-v0"
WIDTH = 128  # characters that the table takes at least


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
@click.option("--methods", metavar="A,B", help="Only these methods; default: all.")
@click.option("--tasks", metavar="X,Y", default=FIRST, show_default=True, help="Ids of the tasks, or all.")
@click.option("--seeds", metavar="FIRST:END", default="0:5", show_default=True, help="The seeds.")
@click.option("--steps", type=click.IntRange(100, 10**9), default=40_000, show_default=True, help="Of each trial.")
@click.option("--every", type=click.IntRange(50, 10**9), default=2_000, show_default=True, help="Between evaluations.")
@click.option("--set", "given_settings", multiple=True, metavar="KEY=VALUE", help="A setting of every method.")
@click.option("--limit", type=click.FloatRange(min=1.0), help="Seconds after which a trial is cut, and marked as such.")
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
            suite.keep(given.out, line)
            if not given.as_json and not given.together:
                click.echo(sentence(line), err=True)
    lines = list(suite.newest(suite.read(given.out)).values())
    if given.page is not None:
        write_page(given.page, lines)
    rows = autonomy_rows(lines)
    emit(
        plain({"results_file": str(given.out), "trials": len(lines), "rows": [row._asdict() for row in rows]}),
        given.as_json,
        lambda console: Console(width=max(console.width, WIDTH)).print(autonomy_table(rows)),
    )


def sentence(line: suite.Line) -> str:
    """A trial in a line."""
    if line["status"] == suite.REFUSED:
        return f"{line['method']} on {line['task']}: {line['why']}"
    last = line["deployed"][-1][1] if line["deployed"] else float("nan")
    return (
        f"{line['method']} on {line['task']}, seed {line['seed']}: {last:.2f} deployed after {line['taken']:,} steps, "
        f"{line['interventions']} interventions, {line['requested']} requested ({line['status']}, {line['seconds']} s)"
    )


def _played(given: SimpleNamespace) -> Iterator[suite.Line]:
    """The lines of those trials that are missing."""
    names = suite.named(
        None if given.methods is None else [one for one in given.methods.split(",") if one], together=given.together
    )
    ids = suite.tasks() if given.tasks == "all" else split_names(given.tasks, suite.tasks())
    check_names(ids, suite.tasks(), "task")
    chosen = parse_options(given.given_settings)
    first = suite.AutonomyTrial("", "", 0, steps=given.steps, every=given.every, settings=chosen, limit=given.limit)
    there = {key for key, line in suite.newest(suite.read(given.out)).items() if line["status"] != suite.CUT}
    seeds = seeds_of(given.seeds)
    if given.together:
        for task in ids:
            lines: list[suite.Line] = []
            for lines in suite.play_together(names, task, seeds, first):
                done = f"{lines[0]['taken']:,} steps, {lines[0]['seconds']:.0f} s"
                click.echo(f"{task}: {done}: {_so_far(lines)}", err=True)
                yield from lines  # also those that are cut: what is killed has not lost them
        return
    trials = [first._replace(method=name, task=task, seed=seed) for seed in seeds for task in ids for name in names]
    left = deque(one for one in trials if one.key not in there)
    if given.jobs == 1:
        yield from map(suite.play, left)
        return
    with Workers[suite.AutonomyTrial, suite.Line](min(given.jobs, max(len(left), 1)), suite.play) as pool:
        for trial, line in pool.do(left):
            if line is None:
                raise InvalidInput(
                    f"The process of '{trial.method}' on '{trial.task}' was killed: give fewer '--jobs'."
                )
            yield line


def _so_far(lines: list[suite.Line]) -> str:
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
