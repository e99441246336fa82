"""A comparison in words: the same tables for the terminal and for the page of results."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape
from rich.table import Table

from resetfree.errors import InvalidInput
from resetfree.experiments.statistics import SUBJECT, Dominator, Interval, Row, Summary
from resetfree.runs.drafts import drafted

COLUMNS = ("method", "pooled", "width", "Regret", "Resets", "realised (most)", "last reset", "seconds", "certificate")
LEGEND = (
    "Mean over seeds and 95 % bootstrap interval. Regret and Resets are exact and belong together: Regret can be "
    "negative, since a policy that is reset can earn more. realised: resets that happened (the most of any seed). last "
    "reset: the episode after which there was none. certificate: the bound on Resets that needs no model, and the "
    "share of seeds on which it held after every episode. *: on the Pareto front of Regret against Resets. †: is told "
    "the model or a part of it, and so left out of the front. Widths are chosen on other instances and seeds, with the "
    "same sweep for every method."
)


def groups(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """Rows with a theorem apart from tuned ones, pooled ones first, fewest resets first."""

    def place(row: Row) -> tuple[bool, bool, float]:
        return row.measures is None, not row.pooled, row.measures["resets"].mean if row.measures else 0.0

    guaranteed = sorted((row for row in rows if row.guaranteed), key=place)
    tuned = sorted((row for row in rows if not row.guaranteed), key=place)
    named = [("guaranteed: a theorem covers it as it is played", guaranteed), ("tuned, without a theorem", tuned)]
    return [(title, members) for title, members in named if members]


def cells(row: Row) -> list[str]:
    """What a row says, under `COLUMNS`."""
    mark = " *" if row.front else ""
    told = " †" if row.kind == "oracle" else ""
    width = "" if row.width is None else f"{row.width:g}"
    first = [row.method + told + mark, "yes" if row.pooled else "no", width]
    if row.measures is None:
        return [*first, *[""] * 6]
    m = row.measures
    return [
        *first, span(m["regret"]), span(m["resets"]), f"{span(m['realised'])} ({row.most_realised})",
        span(m["last_reset"]), _seconds(m["seconds"]), f"{m['certificate'].mean:.3g}, {row.covered or 0.0:.0%}",
    ]  # fmt: skip


def span(x: Interval) -> str:
    """A mean with its interval, in as many digits as it has.

    >>> span(Interval(1234.4, 1200.0, 1300.0)), span(Interval(0.25, 0.25, 0.25))
    ('1234 [1200, 1300]', '0.25')
    """
    mean, low, high = (f"{v:.0f}" if abs(v) >= 100 else f"{v:.3g}" for v in (x.mean, x.low, x.high))
    return mean if low == high else f"{mean} [{low}, {high}]"


def _seconds(x: Interval) -> str:
    return span(Interval(*(float(f"{v:.2g}") for v in (x.mean, x.low, x.high))))


def remarks(row: Row) -> str | None:
    """What must be known of a row whose seeds were not all played to the end."""
    if row.trials == 0:
        return f"{row.method}: not run. {row.note}"
    parts = [f"{row.stopped} of {row.trials} seeds stopped at the time limit"] if row.stopped else []
    if row.failed:
        parts.append(f"{row.failed} of {row.trials} seeds failed, the first with: {row.note}")
    pooling = "pooled" if row.pooled else "per step"
    return f"{row.method} ({pooling}): {'; '.join(parts)}." if parts else None


def verdict(summary: Summary, case: str) -> str:
    """Whether another method dominates the subject here."""
    if case not in summary.dominators:
        return f"'{SUBJECT}' was not played to the end here."
    found = summary.dominators[case]
    if not found:
        return f"Nothing dominates '{SUBJECT}'."
    return f"'{SUBJECT}' is dominated by " + "; ".join(map(_difference, found)) + "."


def heading(rows: list[Row]) -> str:
    """A case in one line."""
    bounds = [row.bound for row in rows if row.bound]
    about = f", B {max(bounds):.4g}" if bounds else ""
    return f"{rows[0].case}: {rows[0].episodes:,} episodes, {max(row.trials for row in rows)} seeds{about}"


def table(title: str, rows: list[Row]) -> Table:
    """One of the `groups` for a terminal, intervals below their means."""
    result = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    for name in COLUMNS:
        left = name in ("method", "pooled")
        result.add_column(name.replace(" (", "\n("), justify="left" if left else "right", no_wrap=name != "method")
    for row in rows:
        words = [
            word.replace(" [", "\n[").replace(", ", ",\n" if name == "certificate" else ", ")
            for name, word in zip(COLUMNS, cells(row), strict=True)
        ]
        result.add_row(*map(escape, words), style="bold" if row.method == SUBJECT else None)
    return result


def write_page(summary: Summary, path: Path, command: str, picture: str | None, note: str) -> Path:
    """The page of results, as Markdown."""
    lines = [
        "# Results",
        "",
        f"<!-- Generated by the command `{command}` on this tree; do not edit. -->",
        f"Generated by `{command}` on this tree; do not edit. {note}".strip(),
        "",
        LEGEND.replace("*:", "\\*:"),
        "",
    ]
    if picture is not None:
        lines += [f"![Regret against Resets, a panel per problem]({picture})", ""]
    for case, rows in summary.rows.items():
        lines += [f"## {heading(rows)}", ""]
        for title, members in groups(rows):
            lines += [f"**{title}**", "", _line(COLUMNS), _line(["---"] * len(COLUMNS))]
            lines += [_line(cells(row)) for row in members] + [""]
        lines += [f"- {text}" for row in rows if (text := remarks(row)) is not None]
        lines += [f"- {verdict(summary, case)}", ""]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with drafted(path) as draft:
            draft.write_text("\n".join(lines))
    except OSError as error:
        raise InvalidInput(f"The '--docs' must be a file that can be written. Got '{path}': {error}.") from error
    return path


def _line(words: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(word.replace("|", "\\|").replace("*", "\\*") for word in words) + " |"


def _difference(d: Dominator) -> str:
    told = ", which is told the model" if d.kind == "oracle" else ""
    pooling = "pooled" if d.pooled else "per step"
    regret = "no more regret" if d.clear else "more regret within the interval"
    return f"{d.method} ({pooling}{told}): Resets {span(d.resets)}, Regret {span(d.regret)}, {regret}"
