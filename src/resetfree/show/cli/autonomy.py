"""`resetfree bench autonomy`: methods that bring a system back themselves, in one table and on one page."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from resetfree.core.certificate import plain
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import check_names
from resetfree.problems.registry import parse_options
from resetfree.show.cli.common import FILE, as_json, command, emit, one_argument
from resetfree.studies.engines import Workers
from resetfree.studies.statistics import Interval, interval
from resetfree.studies.suites import autonomy as suite
from resetfree.studies.suites import split_names

BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"


class MethodRow(NamedTuple):
    """A method on a task: its trials of one length, settings and engine."""

    task: str
    method: str
    steps: int
    settings: str
    engine: str
    seeds: int
    cut: int
    deployed: Interval
    interventions: Interval
    requested: float
    timeouts: str
    reward: Interval
    published: float | None
    command: str


def rows_of(lines: Iterable[suite.Line]) -> list[MethodRow]:
    """The rows, by task, and the best deployed success first; what was refused has none."""
    groups: dict[tuple[str, ...], list[suite.Line]] = {}
    for line in lines:
        if line["status"] != suite.REFUSED and line["deployed"]:
            options = " ".join(f"--set {key}={value}" for key, value in sorted(line["settings"].items()))
            key = line["task"], line["method"], str(line["steps"]), options, line["engine"]
            groups.setdefault(key, []).append(line)
    found = [_row(key, group) for key, group in groups.items()]
    return sorted(found, key=lambda row: (row.task, row.engine, row.steps, -row.deployed.mean, row.method))


def _row(key: tuple[str, ...], group: Sequence[suite.Line]) -> MethodRow:
    task, method, steps, options, engine = key
    seeds = sorted(line["seed"] for line in group)
    whole = [line for line in group if line["status"] != suite.CUT] or list(group)
    turns, timeouts = (sum(line.get(name, 0) for line in whole) for name in ("turns", "timeouts"))
    words = [
        "resetfree bench autonomy",
        f"--methods {method}",
        f"--tasks {task}",
        f"--seeds {seeds[0]}:{seeds[-1] + 1}",
    ]
    every = group[0].get("every", group[0]["deployed"][0][0])
    words += [f"--steps {steps} --every {every}", options, "--together" if engine == "together" else ""]
    return MethodRow(
        task,
        method,
        int(steps),
        options,
        engine,
        seeds=len(whole),
        cut=sum(line["status"] == suite.CUT for line in group),
        deployed=interval([float(np.mean([one[1] for one in line["deployed"][-suite.LAST :]])) for line in whole]),
        interventions=interval([float(line["interventions"]) for line in whole]),
        requested=float(np.mean([line["requested"] for line in whole])),
        timeouts=f"{timeouts} of {turns}" if turns else "",
        reward=interval([float(line["rewards"][-1]) for line in whole]),
        published=suite.published(method).get(task),
        command=" ".join(word for word in words if word),
    )


def span(found: Interval, digits: int = 2) -> str:
    """A mean and its interval."""
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def table_of(rows: Sequence[MethodRow]) -> Table:
    """The rows for a terminal."""
    table = Table(box=None, header_style="bold")
    for name in ("task", "method", "steps", "seeds", "deployed", "interventions", "requested", "time-outs", "cut"):
        table.add_column(name)
    for row in rows:
        numbers = span(row.deployed), span(row.interventions, 1), f"{row.requested:.1f}", row.timeouts
        cells = (row.task, row.method, f"{row.steps:,}", str(row.seeds), *numbers, str(row.cut or ""))
        table.add_row(*cells)
    return table


def commands(rows: Sequence[MethodRow]) -> list[str]:
    """The commands of rows; one for all that differ in the method only."""
    methods: dict[str, list[str]] = {}
    for row in rows:
        methods.setdefault(row.command.replace(f"--methods {row.method} ", "--methods {} ", 1), []).append(row.method)
    return [command.replace("{}", ",".join(names), 1) for command, names in methods.items()]


def markdown(rows: Sequence[MethodRow]) -> str:
    """A table per task and length, and the commands of its rows."""
    parts = []
    keys = dict.fromkeys((row.task, row.engine, row.steps, row.settings) for row in rows)
    for task, engine, steps, options in keys:
        own = [row for row in rows if (row.task, row.engine, row.steps, row.settings) == (task, engine, steps, options)]
        how = "all learners in one program" if engine == "together" else "each trial alone"
        parts.append(f"### `{task}`, {steps:,} steps, {how}{f', `{options}`' if options else ''}\n")
        parts.append("| method | seeds | deployed success | interventions | help requested | time-outs of turns | ")
        parts[-1] += "reward a step, continuing | published |\n|---|---|---|---|---|---|---|---|"
        for row in own:
            seeds = f"{row.seeds}, {row.cut} cut" if row.cut else str(row.seeds)
            published = "" if row.published is None else f"{row.published:.2f}"
            cells = span(row.deployed), span(row.interventions, 1), f"{row.requested:.1f}", row.timeouts
            parts.append(f"| {row.method} | {seeds} | {' | '.join(cells)} | {span(row.reward, 3)} | {published} |")
        parts.append("\n```sh\n" + "\n".join(commands(own)) + "\n```\n")
    return "\n".join(parts)


def write_page(page: Path, lines: Sequence[suite.Line]) -> None:
    """Replace what stands between two marks of a page; raises InvalidInput for a page without them."""
    before = page.read_text() if page.exists() else f"# Learning without resets\n\n{BEGIN}\n{END}\n"
    first, begin, rest = before.partition(BEGIN)
    _, end, last = rest.partition(END)
    if not begin or not end:
        raise InvalidInput(f"The page '{page}' must have the lines '{BEGIN}' and '{END}'.")
    refused = sorted({(line["method"], line["task"], line["why"]) for line in lines if line["status"] == suite.REFUSED})
    text = markdown(rows_of(lines)) + "".join(f"\n- `{method}` on `{task}`: {why}" for method, task, why in refused)
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
@click.option("--shield", type=click.FloatRange(0.0, 1.0, min_open=True), help="Of every method; as --set shield=R.")
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
    rows = rows_of(lines)
    emit(
        plain({"results_file": str(given.out), "trials": len(lines), "rows": [row._asdict() for row in rows]}),
        given.as_json,
        lambda console: Console(width=max(console.width, WIDTH)).print(table_of(rows)),
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
    chosen = {**parse_options(given.given_settings), **({} if given.shield is None else {"shield": given.shield})}
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
