"""Figures of the game between the players: their regrets, the bounds that follow, the multiplier; and of the clock.

Legend: R_p(pi*) the primal player's regret, R_d(y) the dual player's against the multiplier function y; lambda_hat the
least optimal multipliers, lambda* = lambda_hat + 1. Regret = R_p(pi*) + R_d(0) and Resets <= R_p(pi*) + R_d(lambda*).
In real time or with a delay, a round's plan rests on the rounds up to based_on; its age are the rounds in between.
"""

from typing import Any

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.readable import counted, duration, number
from resetfree.runs.result import Run
from resetfree.show.report import figures as draw
from resetfree.show.report.figures import Curve, Drawing, curve, shown
from resetfree.show.report.groups import Group, clock
from resetfree.show.report.style import BLUE, GREEN, GREY, INK, ORANGE, PINK

DOTS = 600  # multipliers that are drawn
STARTS = 24  # start states that are named


def figures(group: Group) -> list[Drawing]:
    """All figures of this file that can be drawn for the group."""
    drawn = []
    if "regret" in group.measures:
        drawn += [regret_side(group), resets_side(group)]
    if constant_multiplier(group) is None:
        drawn.append(multipliers(group))
    elif isinstance(group.truths, str):
        return drawn  # the same number at every start, and nothing to compare it with
    if group.runs[0].columns["s1"].dtype.kind in "iu":
        drawn.append(by_start(group))
    return drawn


def constant_multiplier(group: Group) -> float | None:
    """The multiplier of every episode of every run, where it is always the same."""
    values = np.unique(np.concatenate([run.columns["lam"] for run in group.runs]))
    return float(values[0]) if len(values) == 1 else None


def regret_side(group: Group) -> Drawing:
    """R_p(pi*) + R_d(0) = Regret."""
    curves, gaps = _sides(group, dual_zero="r_zero", bounded="regret")
    figure, axes = draw.canvas()
    axes.axhline(0, color=GREY, lw=0.8)
    draw.plot(axes, curves["primal"], "R_p(π*), primal player", GREEN)
    draw.plot(axes, curves["dual_zero"], "R_d(0), dual player", PINK)
    draw.plot(axes, curves["sum"], "their sum", BLUE)
    axes.plot(curves["regret"].k, curves["regret"].mean, color=INK, ls=(0, (1, 2.5)), lw=2.2, label="Regret")
    draw.dress(axes, "The game: Regret is the sum of both regrets", "reward", log="x" * group.log)
    draw.legend_above(axes)
    apart = max(float(np.abs(gap).max()) for gap in gaps)
    caption = (
        "R_p(π*): regret of the primal player against π*; R_d(0): of the dual player against no multiplier. Their "
        f"sum is Regret: slack 0 (largest difference over all episodes and runs {number(apart, 2)}, rounding). "
        f"Unit: reward. {draw.over_seeds(group.n)}"
    )
    alt = f"Regrets of both players; their sum ends at {number(curves['sum'].mean[-1])}, as Regret does."
    words = (f"{group.name}-game-regret", "The players' regrets and Regret", caption, alt)
    return Drawing(*words, data=draw.columns(curves), figure=figure)


def resets_side(group: Group) -> Drawing:
    """R_p(pi*) + R_d(lambda*) >= Resets, with the slack between them."""
    curves, gaps = _sides(group, dual_star="r_star", bounded="resets")
    k, resets, total = curves["sum"].k, curves["resets"], curves["sum"]
    curves["slack"] = curve(gaps, k)
    figure, axes = draw.canvas()
    draw.plot(axes, total, "R_p(π*) + R_d(λ*)", GREEN)
    draw.plot(axes, resets, "Resets, expected", BLUE)
    axes.fill_between(k, resets.mean, total.mean, color=GREY, alpha=0.12, lw=0, label="slack")
    axes.axhline(0, color=GREY, lw=0.8)
    draw.dress(axes, "The game: what bounds Resets", "resets (bound: reward)", log="x" * group.log)
    draw.legend_above(axes)
    least = min(float(gap.min()) for gap in gaps)
    caption = (
        f"Resets are at most R_p(π*) + R_d(λ*), λ* = λ̂ + 1; grey: the slack, {number(curves['slack'].mean[-1])} at the "
        f"end (mean) and never below {number(least)} in any run. The data holds both terms. {draw.over_seeds(group.n)}"
    )
    alt = f"The sum of both regrets ends at {number(total.mean[-1])}, Resets at {number(resets.mean[-1])}."
    words = (f"{group.name}-game-resets", "The players' regrets and Resets", caption, alt)
    return Drawing(*words, data=draw.columns(curves), figure=figure)


def _sides(group: Group, bounded: str, **dual: str) -> tuple[dict[str, Curve], list[Floats]]:
    """Curves of both regrets, of their sum and of what it bounds; and the gap between these two, [K] per run.

    dual: the name of the dual player's curve, and of its measure.
    """
    m = group.measures
    k = shown(group.rounds, group.log)
    ((name, measure),) = dual.items()
    sums = [p + d for p, d in zip(m["r_p"], m[measure], strict=True)]
    series = {"primal": m["r_p"], name: m[measure], "sum": sums, bounded: m[bounded]}
    gaps = [total - part for total, part in zip(sums, m[bounded], strict=True)]
    return {name: curve(values, k) for name, values in series.items()}, gaps


def multipliers(group: Group) -> Drawing:
    """The multiplier of every shown episode, of every run."""
    k = shown(group.rounds, group.log)
    some = group.runs[: max(1, DOTS // len(k))]
    shown_runs = f"{draw.runs(group.n)}." if len(some) == group.n else f"The first {len(some)} of {draw.runs(group.n)}."
    figure, axes = draw.canvas()
    data: dict[str, list[Any]] = {"seed": [], "k": [], "s1": [], "lam": []}
    for run in some:
        lam = run.columns["lam"][k - 1]
        axes.plot(k, lam, ".", ms=3, color=GREEN, mew=0, label="played" if run is some[0] else None)
        data["seed"] += [run.spec["seed"]] * len(k)
        data["k"] += k.tolist()
        data["lam"] += lam.tolist()
        data["s1"] += [draw.plain_text(s) for s in run.columns["s1"][k - 1]]
    known, lines = group.truths, ""
    if not isinstance(known, str):
        top = max(float(t.hat.max()) for t in known)
        axes.axhline(top, color=BLUE, ls="--", lw=1.2, label="largest λ̂ of the starts")
        lines = f" Dashed: {number(top)}, the largest least optimal multiplier λ̂ of the starts that occurred (oracle)."
    if group.spec["B"] is not None:
        axes.axhline(float(group.spec["B"]), color=ORANGE, ls=":", lw=1.2, label="bound B")
        lines += f" Dotted: the bound B = {number(group.spec['B'])} ({draw.plain_text(group.spec['B_source'])})."
    draw.dress(axes, "Multiplier over time", "reward per reset", log="x" * group.log)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    draw.legend_above(axes)
    caption = (
        f"The multiplier λ that the dual player named at the start of {len(k)} of {group.rounds:,} episodes; "
        f"it depends on the start.{lines} Unit: reward per reset. {shown_runs}"
    )
    alt = "Multipliers played over the episodes."
    return Drawing(f"{group.name}-multiplier", "The multiplier over time", caption, alt, data=data, figure=figure)


def by_start(group: Group) -> Drawing:
    """The last multiplier at each start state, beside the oracle's."""
    states, counts, mean, low, high = last_multipliers(group)
    order = np.argsort(-counts, kind="stable")[:STARTS]
    order = order[np.argsort(states[order])]
    known = group.truths
    hat = np.full(len(states), np.nan)
    if not isinstance(known, str):
        for t in known:
            hat[np.isin(states, t.rounds.s1)] = t.solution.lambda_hat[states[np.isin(states, t.rounds.s1)]]
    names = [group.mdp.state_names[s] if group.mdp is not None else str(s) for s in states]
    x = np.arange(len(order))
    many = len(order) > 10  # then their names are vertical, and need room
    figure, axes = draw.canvas(draw.HEIGHT + 0.35 * many, draw.BOTTOM + 0.35 * many)
    spread = [mean[order] - low[order], high[order] - mean[order]]
    axes.errorbar(x, mean[order], yerr=spread, fmt="o", ms=4, color=GREEN, lw=1.0, label="last played, mean and range")
    if np.isfinite(hat).any():
        axes.plot(x, hat[order], "D", ms=4.5, mfc="none", color=BLUE, label="λ̂, oracle")
        axes.plot(x, hat[order] + 1, "_", ms=9, color=ORANGE, label="λ* = λ̂ + 1")
    draw.dress(axes, "Multiplier over start states", "reward per reset", x="start state")
    axes.set_xticks(x, [draw.plain_text(names[i], 12) for i in order], rotation=90 if many else 0)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    draw.legend_above(axes)
    fewer = f" The {len(order)} most frequent of {len(states)} starts; the data has all."
    some = "" if len(order) == len(states) else fewer
    caption = (
        "The last multiplier that was played at each start state: mean over the runs that started there, and from the "
        f"smallest to the largest.{some} Unit: reward per reset. {draw.runs(group.n)}."
    )
    alt = f"Multipliers at {len(order)} start states."
    data = {"state": states, "name": [draw.plain_text(n) for n in names], "episodes": counts}
    data |= {"lam_mean": mean, "lam_low": low, "lam_high": high, "lambda_hat": hat}
    words = (f"{group.name}-multiplier-starts", "The multiplier over start states", caption, alt)
    return Drawing(*words, data=data, figure=figure)


def last_multipliers(group: Group) -> tuple[Any, Any, Floats, Floats, Floats]:
    """Starts of all runs, how many episodes began there, and the last multiplier played there: mean, least, largest."""
    found: dict[int, list[float]] = {}
    for run in group.runs:
        s1, lam = run.columns["s1"][::-1], run.columns["lam"][::-1]
        for state, index in zip(*np.unique(s1, return_index=True), strict=True):
            found.setdefault(int(state), []).append(float(lam[index]))
    every, n = np.unique(np.concatenate([run.columns["s1"] for run in group.runs]), return_counts=True)
    last = [np.array(found[int(state)]) for state in every]
    mean, low, high = (np.array([f(x) for x in last]) for f in (np.mean, np.min, np.max))
    return every, n, np.clip(mean, low, high), low, high  # clipped by rounding only


TIMED = ("based_on", "missed", "lateness")  # columns of such runs


def clock_figures(group: Group) -> list[Drawing]:
    """All figures of the clock that can be drawn for the group."""
    if not is_timed(group):
        return []
    by_clock = all(np.isfinite(run.columns["lateness"]).any() for run in group.runs)
    return [ages(group), *([deadlines(group), lateness(group)] if by_clock else [])]


def is_timed(group: Group) -> bool:
    """Whether every run of the group has the columns."""
    return all(name in run.columns for run in group.runs for name in TIMED)


def clock_summary(group: Group) -> str:
    """One sentence: rate, deadlines, lateness and ages, beside resets and reward."""
    rate = clock(group.spec).get("rate")
    parts = [f"{rate:g} steps per second"] if isinstance(rate, int | float) else []
    missed, steps = (sum(int(run.columns[name].sum()) for run in group.runs) for name in ("missed", "steps"))
    late = np.concatenate([run.columns["lateness"] for run in group.runs])
    if np.isfinite(late).any():
        share = 100 * steps / max(steps + missed, 1)
        parts += [f"{counted(missed, 'deadline')} missed ({number(share)} % of commands in time)"]
        parts += [f"the latest command {duration(float(np.nanmax(late)))} after its tick"]
    age = np.concatenate([_ages(run) for run in group.runs])
    parts += [f"plans up to {age.max():.0f} rounds old, {number(age.mean())} on average"]
    resets = sum(int(run.realised_resets[-1]) for run in group.runs)
    reward = float(np.mean([run.columns["reward"].mean() for run in group.runs]))
    return f"{'; '.join(parts)}; {counted(resets, 'reset')}, {number(reward)} reward per episode."


def ages(group: Group) -> Drawing:
    """How old plans were: mean so far, and the oldest so far."""
    each = [_ages(run) for run in group.runs]
    values = {"age_mean": [_mean(x) for x in each], "oldest": [np.maximum.accumulate(x) for x in each]}
    caption = (
        "Rounds that were over when an episode began and that its plan did not rest on yet; 0 in a world that waits. "
        "After a reset the next plan always rests on it."
    )
    alt = "Age of the plans in rounds, {age_mean} on average, at most {oldest}."
    lines = [("mean so far", BLUE, "-"), ("oldest so far", GREY, ":")]
    return _drawn(group, "plan-ages", ("Age of the plans", "rounds"), values, lines, caption=caption, alt=alt)


def deadlines(group: Group) -> Drawing:
    """Deadlines missed so far beside the resets that happened."""
    missed = [np.cumsum(run.columns["missed"].astype(np.float64)) for run in group.runs]
    values = {"missed": missed, "realised": group.measures["realised"]}
    caption = "Ticks of the clock that passed without a command of their own, beside the resets that happened."
    alt = "{missed} deadlines missed, {realised} resets."
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
    alt = "Lateness, {late_mean} ms on average, at most {latest} ms."
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
    k = shown(group.rounds, group.log)
    curves = {name: curve([v[: group.rounds] for v in each], k) for name, each in values.items()}
    figure, axes = draw.canvas()
    for one, (label, colour, style) in zip(curves.values(), lines, strict=True):
        draw.plot(axes, one, label, colour, ls=style)
    title, axis = titles
    draw.dress(axes, title, axis, log="x" * group.log)
    draw.legend_above(axes)
    words = alt.format_map({name: number(one.mean[-1]) for name, one in curves.items()})
    caption = f"{caption} {draw.over_seeds(group.n)}"
    return Drawing(f"{group.name}-{name}", title, caption, words, data=draw.columns(curves), figure=figure)


def _ages(run: Run) -> Floats:
    return np.asarray(run.plan_ages, dtype=np.float64)


def _mean(values: Floats) -> Floats:
    return np.asarray(np.cumsum(values) / np.arange(1, len(values) + 1))
