"""The tables of a comparison, the same for the terminal and for the pages of results."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from resetfree.studies.statistics import Interval
from resetfree.studies.suites.standings import SUBJECT, Dominator, Row, Summary

UNPLAYED, UNDOMINATED = f"'{SUBJECT}' was not played to the end here.", f"Nothing dominates '{SUBJECT}'."
COLUMNS = ("method", "pooled", "width", "Regret", "Resets", "realised (most)", "last reset", "seconds", "certificate")
LEGEND = (
    "Mean over seeds and 95 % bootstrap interval. Regret and Resets are exact and belong together: Regret can be "
    "negative, since a policy that is reset can earn more. realised: resets that happened (the most of any seed). last "
    "reset: the episode after which there was none. certificate: the bound on Resets that needs no model, and the "
    "share of seeds on which it held after every episode. *: on the Pareto front of Regret against Resets. †: is given "
    "the model or a part of it, and so left out of the front. Widths are chosen on other instances and seeds, with the "
    "same sweep for every method. unsafe: pairs (s, a), or triples (h, s, a) where steps differ, that bound the resets "
    "of elimination on every path. limit: resets below which no learner can stay on all problems of these sizes."
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
    """The cells of a row, under `COLUMNS`."""
    mark = " *" if row.front else ""
    given = " †" if row.kind == "oracle" else ""
    width = "" if row.width is None else f"{row.width:g}"
    first = [row.method + given + mark, "yes" if row.pooled else "no", width]
    if row.measures is None:
        return [*first, *[""] * 6]
    m = row.measures
    return [
        *first,
        span(m["regret"]),
        span(m["resets"]),
        f"{span(m['realised'])} ({row.most_realised})",
        span(m["last_reset"]),
        span(Interval(*(float(f"{x:.2g}") for x in vars(m["seconds"]).values()))),
        f"{m['certificate'].mean:.3g}, {row.covered or 0.0:.0%}",
    ]


def span(x: Interval) -> str:
    """A mean with its interval, in as many digits as it has.

    >>> span(Interval(1234.4, 1200.0, 1300.0)), span(Interval(0.25, 0.25, 0.25))
    ('1234 [1200, 1300]', '0.25')
    """
    mean, low, high = (f"{v:.0f}" if abs(v) >= 100 else f"{v:.3g}" for v in (x.mean, x.low, x.high))
    return mean if low == high else f"{mean} [{low}, {high}]"


def remarks(row: Row) -> str | None:
    """A remark on a row whose seeds were not all played to the end; None without one."""
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
        return UNPLAYED
    found = summary.dominators[case]
    if not found:
        return UNDOMINATED
    return f"'{SUBJECT}' is dominated by " + "; ".join(map(_difference, found)) + "."


def heading(rows: list[Row]) -> str:
    """A case in one line."""
    bounds = [row.bound for row in rows if row.bound]
    about = f", B {max(bounds):.4g}" if bounds else ""
    if rows[0].limit is not None:
        about += f", unsafe {rows[0].unsafe:,}, limit {rows[0].limit:,}"
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


def _difference(d: Dominator) -> str:
    given = ", which is given the model" if d.kind == "oracle" else ""
    pooling = "pooled" if d.pooled else "per step"
    regret = "no more regret" if d.clear else "more regret within the interval"
    return f"{d.method} ({pooling}{given}): Resets {span(d.resets)}, Regret {span(d.regret)}, {regret}"
