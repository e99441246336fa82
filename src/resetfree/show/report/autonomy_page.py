"""The page of `resetfree bench autonomy`: tables of its lines, with published figures and their source beside them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.table import Table

from resetfree.core.errors import InvalidInput
from resetfree.studies.statistics import Interval, interval
from resetfree.studies.suites.autonomy import CUT, LAST, REFUSED, Line, published

BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"


class Row(NamedTuple):
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


def rows_of(lines: Iterable[Line]) -> list[Row]:
    """The rows, by task, and the best deployed success first; what was refused has none."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        if line["status"] != REFUSED and line["deployed"]:
            options = " ".join(f"--set {key}={value}" for key, value in sorted(line["settings"].items()))
            key = line["task"], line["method"], str(line["steps"]), options, line["engine"]
            groups.setdefault(key, []).append(line)
    found = [_row(key, group) for key, group in groups.items()]
    return sorted(found, key=lambda row: (row.task, row.engine, row.steps, -row.deployed.mean, row.method))


def _row(key: tuple[str, ...], group: Sequence[Line]) -> Row:
    task, method, steps, options, engine = key
    seeds = sorted(line["seed"] for line in group)
    whole = [line for line in group if line["status"] != CUT] or list(group)
    turns, timeouts = (sum(line.get(name, 0) for line in whole) for name in ("turns", "timeouts"))
    words = [
        "resetfree bench autonomy",
        f"--methods {method}",
        f"--tasks {task}",
        f"--seeds {seeds[0]}:{seeds[-1] + 1}",
    ]
    words += [f"--steps {steps}", options, "--together" if engine == "together" else ""]
    return Row(
        task,
        method,
        int(steps),
        options,
        engine,
        seeds=len(whole),
        cut=sum(line["status"] == CUT for line in group),
        deployed=interval([float(np.mean([one[1] for one in line["deployed"][-LAST:]])) for line in whole]),
        interventions=interval([float(line["interventions"]) for line in whole]),
        requested=float(np.mean([line["requested"] for line in whole])),
        timeouts=f"{timeouts} of {turns}" if turns else "",
        reward=interval([float(line["rewards"][-1]) for line in whole]),
        published=published(method).get(task),
        command=" ".join(word for word in words if word),
    )


def span(found: Interval, digits: int = 2) -> str:
    """A mean and its interval."""
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def table_of(rows: Sequence[Row]) -> Table:
    """The rows for a terminal."""
    table = Table(box=None, header_style="bold")
    for name in ("task", "method", "steps", "seeds", "deployed", "interventions", "requested", "time-outs", "cut"):
        table.add_column(name)
    for row in rows:
        numbers = span(row.deployed), span(row.interventions, 1), f"{row.requested:.1f}", row.timeouts
        table.add_row(row.task, row.method, f"{row.steps:,}", str(row.seeds), *numbers, str(row.cut or ""))
    return table


def markdown(rows: Sequence[Row]) -> str:
    """A table per task and length, and the command of each of its rows."""
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
        parts.append("\n```text\n" + "\n".join(row.command for row in own) + "\n```\n")
    return "\n".join(parts)


def write_page(page: Path, lines: Sequence[Line]) -> None:
    """Replace what stands between two marks of a page; raises InvalidInput for a page without them."""
    before = page.read_text() if page.exists() else f"# Learning without resets\n\n{BEGIN}\n{END}\n"
    first, begin, rest = before.partition(BEGIN)
    _, end, last = rest.partition(END)
    if not begin or not end:
        raise InvalidInput(f"The page '{page}' must have the lines '{BEGIN}' and '{END}'.")
    refused = sorted({(line["method"], line["task"], line["why"]) for line in lines if line["status"] == REFUSED})
    text = markdown(rows_of(lines)) + "".join(f"\n- `{method}` on `{task}`: {why}" for method, task, why in refused)
    page.write_text(f"{first}{BEGIN}\n\n{text}\n{END}{last}")
