"""The results of a sweep from its summary: a table per problem in Markdown and on the terminal, and curves."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from resetfree.core.readable import low_to_high, number
from resetfree.show.report.style import line, look, round_number, save
from resetfree.studies.folder import SweepFolder, write_text
from resetfree.studies.gathering import arrow
from resetfree.studies.trial import with_settings

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
        title = f"{problem}{shared}"
        table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
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
                    k = [point["k"] for point in points]
                    axes.plot(k, [point["iqm"] for point in points], label=one.label, **line(i))
                    band = [[point[end] for point in points] for end in ("iqm_low", "iqm_high")]
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
