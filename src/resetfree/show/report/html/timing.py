"""Figures of runs by the clock or with delay: how late commands were, deadlines missed, and how old the plans were.

Legend: a round's plan rests on the rounds up to based_on; its age are the rounds in between. Nothing is drawn for runs
in which the world waited.
"""

from __future__ import annotations

import numpy as np

from resetfree.problems.finite.transitions import Floats
from resetfree.runs.result import Run
from resetfree.show.report.html import figures as draw
from resetfree.show.report.html.figures import Drawing
from resetfree.show.report.html.groups import Group, clock
from resetfree.show.report.html.series import Curve, curve, shown
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
    curves = _curves(group, {"age_mean": [_mean(x) for x in each], "oldest": [np.maximum.accumulate(x) for x in each]})
    figure, axes = draw.canvas()
    draw.plot(axes, curves["age_mean"], "mean so far", BLUE)
    draw.plot(axes, curves["oldest"], "oldest so far", GREY, ls=":")
    draw.dress(axes, "Age of the plans", "rounds", log="x")
    draw.legend_above(axes)
    caption = (
        "Rounds that were over when an episode began and that its plan did not rest on yet; 0 in a world that waits. "
        f"After a reset the next plan always rests on it. {draw.over_seeds(group.n)}"
    )
    alt = (
        f"Age of the plans in rounds, {curves['age_mean'].mean[-1]:.3g} on average, at most {_last(curves, 'oldest')}."
    )
    words = (f"{group.name}-plan-ages", "Age of the plans", caption, alt)
    return Drawing(*words, data=draw.columns(curves), figure=figure)


def deadlines(group: Group) -> Drawing:
    """Deadlines missed so far beside the resets that happened."""
    missed = [np.cumsum(run.columns["missed"].astype(np.float64)) for run in group.runs]
    curves = _curves(group, {"missed": missed, "realised": group.measures["realised"]})
    figure, axes = draw.canvas()
    draw.plot(axes, curves["missed"], "deadlines missed", BLUE)
    draw.plot(axes, curves["realised"], "resets", ORANGE, ls="--")
    draw.dress(axes, "Deadlines missed and resets", "count so far", log="x")
    draw.legend_above(axes)
    caption = (
        "Ticks of the clock that passed without a command of their own, beside the resets that happened. "
        f"{draw.over_seeds(group.n)}"
    )
    alt = f"{_last(curves, 'missed')} deadlines missed, {_last(curves, 'realised')} resets."
    words = (f"{group.name}-deadlines", "Deadlines missed and resets", caption, alt)
    return Drawing(*words, data=draw.columns(curves), figure=figure)


def lateness(group: Group) -> Drawing:
    """The latest command of each episode: mean so far, and the largest so far."""
    late = [1000 * np.nan_to_num(run.columns["lateness"].astype(np.float64)) for run in group.runs]
    each = {"late_mean": [_mean(x) for x in late], "latest": [np.maximum.accumulate(x) for x in late]}
    curves = _curves(group, each)
    figure, axes = draw.canvas()
    draw.plot(axes, curves["late_mean"], "mean so far", GREEN)
    draw.plot(axes, curves["latest"], "latest so far", GREY, ls=":")
    draw.dress(axes, "Latest command of an episode", "milliseconds", log="x")
    draw.legend_above(axes)
    caption = (
        "How long after its tick the latest command of an episode went out, in milliseconds of the monotonic clock. "
        f"{draw.over_seeds(group.n)}"
    )
    alt = f"Lateness, {curves['late_mean'].mean[-1]:.3g} ms on average, at most {_last(curves, 'latest')} ms."
    words = (f"{group.name}-lateness", "Latest command of an episode", caption, alt)
    return Drawing(*words, data=draw.columns(curves), figure=figure)


def _ages(run: Run) -> Floats:
    return np.asarray(run.plan_ages, dtype=np.float64)


def _mean(values: Floats) -> Floats:
    return np.asarray(np.cumsum(values) / np.arange(1, len(values) + 1))


def _curves(group: Group, values: dict[str, list[Floats]]) -> dict[str, Curve]:
    k = shown(group.rounds, log=True)
    return {name: curve([v[: group.rounds] for v in each], k) for name, each in values.items()}


def _last(curves: dict[str, Curve], name: str) -> str:
    return f"{curves[name].mean[-1]:.4g}"
