"""Figures of runs in real time or with delay: how late commands were, deadlines missed, and how old the plans were.

Legend: a round's plan rests on the rounds up to based_on; its age are the rounds in between. Nothing is drawn for runs
in which the world waited.
"""

from __future__ import annotations

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.runs.result import Run
from resetfree.show.report.html import figures as draw
from resetfree.show.report.html.figures import Drawing
from resetfree.show.report.html.groups import Group, clock
from resetfree.show.report.html.series import curve, shown
from resetfree.show.report.style import BLUE, GREEN, GREY, ORANGE

TIMED = ("based_on", "missed", "lateness")  # columns of such runs


def figures(group: Group) -> list[Drawing]:
    """All figures of this file that can be drawn for the group."""
    if not is_timed(group):
        return []
    by_clock = all(np.isfinite(run.columns["lateness"]).any() for run in group.runs)
    return [ages(group), *([deadlines(group), lateness(group)] if by_clock else [])]


def is_timed(group: Group) -> bool:
    """Whether every run of the group has the columns."""
    return all(name in run.columns for run in group.runs for name in TIMED)


def summary(group: Group) -> str:
    """One sentence: rate, deadlines, lateness and ages, beside resets and reward."""
    rate = clock(group.spec).get("rate")
    parts = [f"{rate:g} steps per second"] if isinstance(rate, int | float) else []
    missed, steps = (sum(int(run.columns[name].sum()) for run in group.runs) for name in ("missed", "steps"))
    late = np.concatenate([run.columns["lateness"] for run in group.runs])
    if np.isfinite(late).any():
        share = 100 * steps / max(steps + missed, 1)
        parts += [f"{missed:,} deadlines missed ({share:.4g} % of commands in time)"]
        parts += [f"the latest command {1000 * np.nanmax(late):.3g} ms after its tick"]
    age = np.concatenate([_ages(run) for run in group.runs])
    parts += [f"plans up to {age.max():.0f} rounds old, {age.mean():.3g} on average"]
    resets = sum(int(run.realised_resets[-1]) for run in group.runs)
    reward = float(np.mean([run.columns["reward"].mean() for run in group.runs]))
    return f"{'; '.join(parts)}; {resets:,} resets, {reward:.4g} reward per episode."


def ages(group: Group) -> Drawing:
    """How old plans were: mean so far, and the oldest so far."""
    each = [_ages(run) for run in group.runs]
    values = {"age_mean": [_mean(x) for x in each], "oldest": [np.maximum.accumulate(x) for x in each]}
    caption = (
        "Rounds that were over when an episode began and that its plan did not rest on yet; 0 in a world that waits. "
        "After a reset the next plan always rests on it."
    )
    alt = "Age of the plans in rounds, {age_mean:.3g} on average, at most {oldest:.4g}."
    lines = [("mean so far", BLUE, "-"), ("oldest so far", GREY, ":")]
    return _drawn(group, "plan-ages", ("Age of the plans", "rounds"), values, lines, caption=caption, alt=alt)


def deadlines(group: Group) -> Drawing:
    """Deadlines missed so far beside the resets that happened."""
    missed = [np.cumsum(run.columns["missed"].astype(np.float64)) for run in group.runs]
    values = {"missed": missed, "realised": group.measures["realised"]}
    caption = "Ticks of the clock that passed without a command of their own, beside the resets that happened."
    alt = "{missed:.4g} deadlines missed, {realised:.4g} resets."
    lines = [("deadlines missed", BLUE, "-"), ("resets", ORANGE, "--")]
    titles = ("Deadlines missed and resets", "count so far")
    return _drawn(group, "deadlines", titles, values, lines, caption=caption, alt=alt)


def lateness(group: Group) -> Drawing:
    """The latest command of each episode: mean so far, and the largest so far."""
    late = [1000 * np.nan_to_num(run.columns["lateness"].astype(np.float64)) for run in group.runs]
    values = {"late_mean": [_mean(x) for x in late], "latest": [np.maximum.accumulate(x) for x in late]}
    caption = (
        "How long after its tick the latest command of an episode went out, in milliseconds of the monotonic clock."
    )
    alt = "Lateness, {late_mean:.3g} ms on average, at most {latest:.4g} ms."
    lines = [("mean so far", GREEN, "-"), ("latest so far", GREY, ":")]
    titles = ("Latest command of an episode", "milliseconds")
    return _drawn(group, "lateness", titles, values, lines, caption=caption, alt=alt)


def _drawn(
    group: Group,
    name: str,
    titles: tuple[str, str],
    values: dict[str, list[Floats]],
    lines: list[tuple[str, str, str]],
    *,
    caption: str,
    alt: str,
) -> Drawing:
    """Curves over the episodes.

    titles: of the figure and of its axis.  values: of every run, by name.  lines: label, colour and style of each.
    alt: with the last mean of each by its name.
    """
    k = shown(group.rounds, log=True)
    curves = {name: curve([v[: group.rounds] for v in each], k) for name, each in values.items()}
    figure, axes = draw.canvas()
    for one, (label, colour, style) in zip(curves.values(), lines, strict=True):
        draw.plot(axes, one, label, colour, ls=style)
    title, axis = titles
    draw.dress(axes, title, axis, log="x")
    draw.legend_above(axes)
    words = alt.format_map({name: float(one.mean[-1]) for name, one in curves.items()})
    caption = f"{caption} {draw.over_seeds(group.n)}"
    return Drawing(f"{group.name}-{name}", title, caption, words, data=draw.columns(curves), figure=figure)


def _ages(run: Run) -> Floats:
    return np.asarray(run.plan_ages, dtype=np.float64)


def _mean(values: Floats) -> Floats:
    return np.asarray(np.cumsum(values) / np.arange(1, len(values) + 1))
