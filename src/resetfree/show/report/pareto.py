"""Regret against resets, a panel per problem: what each method pays in one for the other. Reads summaries only."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from resetfree.show.report.style import BLUE, GREEN, GREY, ORANGE, PINK, save
from resetfree.studies.suites.standings import SUBJECT, Row, Summary

# Colours that colour-blind readers distinguish, and shapes; filled if data is pooled.
LOOKS = {"ours": (BLUE, "o"), "paper": (ORANGE, "s"), "baseline": (GREY, "^"), "oracle": (PINK, "D")}
NAMES = {"ours": "ours", "paper": "Algorithm 1", "baseline": "baseline", "oracle": "is given the model"}
COLUMNS = 4
LABELS = 4  # of the front that are named, its ends among them
SPREAD = 20.0  # from the smallest to the largest, above which a scale is logarithmic


def draw_pareto(summary: Summary, path: Path, title: str) -> Path | None:
    """Write the picture (PNG, SVG or PDF by the name's ending) and return its path; None if no method was finished."""
    from matplotlib.figure import Figure  # half a second to import: only when a picture is wanted
    from matplotlib.lines import Line2D

    cases = {case: [row for row in rows if row.complete] for case, rows in summary.rows.items()}
    cases = {case: rows for case, rows in cases.items() if rows}
    if not cases:
        return None
    n_cols = min(COLUMNS, len(cases))
    n_rows = math.ceil(len(cases) / n_cols)
    figure = Figure(figsize=(max(3.6 * n_cols, 7.0), 3.2 * n_rows + 0.9), layout="constrained")
    grid = figure.subplots(n_rows, n_cols, squeeze=False).ravel()
    for axes, (case, rows) in zip(grid, cases.items(), strict=False):
        _panel(axes, case, rows)
    for axes in grid[len(cases) :]:
        axes.set_visible(False)
    kinds = [kind for kind in LOOKS if any(row.kind == kind for rows in cases.values() for row in rows)]
    marks: list[Any] = [
        Line2D([], [], ls="", marker=LOOKS[kind][1], color=LOOKS[kind][0], label=NAMES[kind]) for kind in kinds
    ]
    marks.append(Line2D([], [], ls="", marker="o", mfc="white", color="black", label="hollow: data kept per step"))
    marks.append(Line2D([], [], ls="-", color=GREEN, label="Pareto front"))
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=11)
    return save(figure, path, make_folder=True)


def _panel(axes: Any, case: str, rows: list[Row]) -> None:
    """Means with their intervals, the Pareto front, and some names."""
    for row in rows:
        assert row.measures is not None
        x, y = row.measures["resets"], row.measures["regret"]
        colour, marker = LOOKS[row.kind]
        xerr, yerr = ([[max(one.mean - one.low, 0.0)], [max(one.high - one.mean, 0.0)]] for one in (x, y))
        look = {"color": colour, "marker": marker, "mfc": colour if row.pooled else "white"}
        front = 3 if row.kind in ("ours", "paper") else 2
        axes.errorbar(x.mean, y.mean, xerr=xerr, yerr=yerr, ms=5, lw=0.8, zorder=front, **look)
    points = [(r, r.measures["resets"].mean, r.measures["regret"].mean) for r in rows if r.measures]
    best = sorted((a, b, r.method) for r, a, b in points if r.front)
    axes.plot([a for a, _, _ in best], [b for _, b, _ in best], color=GREEN, lw=1.2, zorder=1, drawstyle="steps-post")
    _scale(axes.set_xscale, [a for _, a, _ in points], 1.0)
    _scale(axes.set_yscale, [b for _, _, b in points], 10.0)
    some = {round(i * (len(best) - 1) / max(LABELS - 1, 1)) for i in range(LABELS)} if best else set()
    named = [best[i] for i in sorted(some)] + [(a, b, r.method) for r, a, b in points if r.method == SUBJECT]
    middle = sum(axes.get_xlim()) / 2
    for a, b, name in dict.fromkeys(named):
        side, shift = ("right", -5) if a > middle else ("left", 5)
        text = axes.annotate(name, (a, b), xytext=(shift, 4), textcoords="offset points", fontsize=6, ha=side)
        text.set_in_layout(False)
    axes.set_title(f"{case}, K = {rows[0].episodes:,}, {rows[0].trials} seeds", fontsize=9)
    axes.set_xlabel("Resets", fontsize=8)
    axes.set_ylabel("Regret", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _scale(set_scale: Any, values: list[float], unit: float) -> None:
    """Logarithmic for values of different magnitudes, but linear near zero: regret can be negative, and resets none."""
    sizes = [max(abs(v), unit) for v in values]
    if max(sizes) > SPREAD * min(sizes):
        set_scale("symlog", linthresh=unit)
