"""Figures of what a group of runs learned: Regret, Resets and their prediction, rewards, the time line.

Legend: k episodes so far; Regret and Resets exact and cumulative; realised resets those that happened; H the horizon.
"""

from typing import Any

import numpy as np

from resetfree.core.certificate import Certificate
from resetfree.core.readable import counted, number
from resetfree.runs.display import MEANT
from resetfree.show.report import figures as draw
from resetfree.show.report.figures import Curve, Drawing, Growth, curve, growth, shown
from resetfree.show.report.groups import Group, every_path, rate
from resetfree.show.report.style import BLUE, GREEN, GREY, INK, ORANGE, PINK
from resetfree.theory.certificates import RATES, anytime

TICKS = 3000  # resets of a time line that are drawn one by one
BINS = 240  # of a time line with more
LEVEL = f"{100 * (1 - anytime.SHOWN):g} % confidence"
EARLY = " The episodes are on a logarithmic axis, since nearly all change is in the first tenth."


def figures(group: Group) -> list[Drawing]:
    """All figures of this file that can be drawn for the group."""
    exact = "regret" in group.measures
    drawn = [linear_regret, linear_resets, log_regret] if exact else [linear_resets]
    per_episode = [rewards(group, name) for name in ("reward", "original") if name in group.measures]
    drawn += [log_resets, time_line] if group.n > 1 else [log_resets]
    return [draw_one(group) for draw_one in drawn] + per_episode


def linear_regret(group: Group) -> Drawing:
    """Regret(k)."""
    curves = _curves(group, ("regret",), log=group.log)
    figure, axes = draw.canvas()
    axes.axhline(0, color=GREY, lw=0.8)
    draw.plot(axes, curves["regret"], "Regret", BLUE)
    draw.dress(axes, "Regret", "reward", log="x" * group.log)
    caption = (
        "Regret(k): what the best policy that is never reset would have earned more, summed over k episodes, exact and "
        f"never clipped. Below zero it was bought with resets.{EARLY * group.log} Unit: reward. "
        f"{draw.over_seeds(group.n)}"
    )
    alt = f"Regret over {group.rounds:,} episodes, ending at {number(curves['regret'].mean[-1])}."
    return Drawing(f"{group.name}-regret", "Regret", caption, alt, data=draw.columns(curves), figure=figure)


def linear_resets(group: Group) -> Drawing:
    """Resets(k): expected, realised, predicted by the player, and the bounds that need no model."""
    order = ("resets", "realised", "predicted", "upper", "lower")
    curves = _curves(group, [name for name in order if name in group.measures], log=group.log)
    figure, axes = draw.canvas()
    if "resets" in curves:
        draw.plot(axes, curves["resets"], "expected, exact", BLUE)
    draw.plot(axes, curves["realised"], "realised", ORANGE, ls="--")
    if "predicted" in curves:
        draw.plot(axes, curves["predicted"], "predicted by the player", PINK, ls="-.")
    axes.plot(curves["upper"].k, curves["upper"].mean, color=GREY, ls=":", label="certified bounds, no model")
    axes.plot(curves["lower"].k, curves["lower"].mean, color=GREY, ls=":")
    draw.dress(axes, "Resets", "resets", log="x" * group.log)
    draw.legend_above(axes)
    at = [run.columns["k"][run.columns["reset"]] for run in group.runs]
    ending = f", the last one in episode {max(int(ks[-1]) for ks in at if len(ks)):,}" if any(map(len, at)) else ""
    caption = (
        f"{_expected(group)} Realised: resets that happened{ending}. {_predicted(group)}Dotted: above and below the "
        f"expected resets, each with {LEVEL} after every episode at once, from the realised resets alone (mean over "
        f"seeds).{EARLY * group.log} Unit: resets. {draw.over_seeds(group.n)}"
    )
    alt = f"Resets over {group.rounds:,} episodes: {number(curves['realised'].mean[-1])} realised."
    return Drawing(f"{group.name}-resets", "Resets", caption, alt, data=draw.columns(curves), figure=figure)


def _predicted(group: Group) -> str:
    """What the primal player predicted, and whether the resets that happened agree; empty if it predicts none."""
    if "predicted" not in group.measures:
        return ""
    said = [run.foresight for run in group.runs]
    off = {verdict: sum(one.verdict == verdict for one in said) for verdict in ("too low", "too high")}
    verdicts = (
        ", ".join(word + (f" in {n} of {group.n} runs" if group.n > 1 else "") for word, n in off.items() if n)
        or "plausible"
    )
    means = "".join(
        f"; {number(np.mean(some), 2)} on average in episodes {where} a reset"
        for name, where in (("with_reset", "with"), ("without_reset", "without"))
        if (some := [value for one in said if (value := getattr(one, name)) is not None])
    )
    return (
        "Predicted: the primal player's own probability of a reset in each episode, before it was played, summed; "
        f"{MEANT[said[0].meant]}. At the end the predictions are {verdicts}{means}. "
    )


def log_regret(group: Group) -> Drawing:
    """Regret(k) on logarithmic axes with its growth and the theorem's bound."""
    curves = _curves(group, ("regret",), log=True)
    found, bound = growth(group.measures["regret"], group.rounds), rate(group, RATES[1])
    figure, axes = draw.canvas()
    draw.plot(axes, curves["regret"], "Regret", BLUE)
    _fit(axes, found, curves["regret"], BLUE)
    k = curves["regret"].k
    axes.plot(k, k * float(group.spec["horizon"]), color=GREY, ls=":", label="k H: holds for every run")
    bound_text = _bound(axes, bound, "Regret")
    draw.dress(axes, "Regret, log-log", "reward", log="xy")
    draw.legend(axes)
    hidden = int((curves["regret"].mean <= 0).sum())
    below = f" {hidden} of {len(k)} points are not positive, and not on a logarithmic axis." if hidden else ""
    caption = f"{_growth(found, 'Regret', group)} {bound_text}{below} Unit: reward. {draw.over_seeds(group.n)}"
    alt = f"Regret on logarithmic axes. {_growth(found, 'Regret', group)}"
    words = (f"{group.name}-regret-log", "Regret, log-log", caption, alt)
    return Drawing(*words, data=_with_bound(curves, bound), figure=figure)


def log_resets(group: Group) -> Drawing:
    """Resets(k) on logarithmic axes with their growth, the theorem's bound and those that hold on every path."""
    exact = "resets" in group.measures
    names = ["resets", "realised", "upper"] if exact else ["realised", "upper"]
    curves, main = _curves(group, names, log=True), names[0]
    found, bound, most = growth(group.measures[main], group.rounds), rate(group, RATES[2]), every_path(group)
    figure, axes = draw.canvas()
    if exact:
        draw.plot(axes, curves["resets"], "expected, exact", BLUE)
    draw.plot(axes, curves["realised"], "realised", ORANGE, ls="--")
    _fit(axes, found, curves[main], BLUE if exact else ORANGE)
    k = curves[main].k
    axes.plot(k, curves["upper"].mean, color=GREEN, ls=":", label="certified, no model")
    axes.plot(k, k, color=GREY, ls=":", label="k: holds for every run")
    if most is not None:
        axes.axhline(most.rhs, color=PINK, ls="-.", lw=1.2, label=f"no path exceeds {most.rhs:g}")
    bound_text = _bound(axes, bound, "Resets")
    draw.dress(axes, "Resets, log-log", "resets", log="xy")
    draw.legend(axes)
    path = "" if most is None else f" On every path at most {most.rhs:g} resets (proved, for realised resets)."
    caption = (
        f"{_growth(found, 'expected Resets' if exact else 'realised Resets', group)} {bound_text}{path} Unit: resets. "
        f"{draw.over_seeds(group.n)}"
    )
    alt = f"Resets on logarithmic axes. {_growth(found, 'Resets', group)}"
    words = (f"{group.name}-resets-log", "Resets, log-log", caption, alt)
    return Drawing(*words, data=_with_bound(curves, bound), figure=figure)


def rewards(group: Group, name: str) -> Drawing:
    """Reward per episode of late, as the players saw it ("reward") or as the environment gave it ("original")."""
    curves, scaled = _curves(group, (name,), log=group.log), name == "original"
    figure, axes = draw.canvas()
    draw.plot(axes, curves[name], "reward per episode", GREEN)
    unit = "environment's own units" if scaled else "reward per episode"
    draw.dress(axes, f"{'Return' if scaled else 'Reward'} per episode", unit, log="x" * group.log)
    what = "Return of an episode in the environment's own units" if scaled else "Reward collected per episode"
    caption = (
        f"{what}, mean over the newest tenth of the first k episodes, of up to {group.spec['horizon']} actions each; "
        f"what was bought with resets is in it. {draw.over_seeds(group.n)}"
    )
    alt = f"{what}, ending at {number(curves[name].mean[-1])}."
    words = (f"{group.name}-{name}", "Returns collected" if scaled else "Rewards collected", caption, alt)
    return Drawing(*words, data=draw.columns(curves), figure=figure)


def time_line(group: Group) -> Drawing:
    """When resets happened: a row per run."""
    at = [np.flatnonzero(run.columns["reset"]) + 1 for run in group.runs]
    total, log = sum(map(len, at)), group.log
    figure, axes = draw.canvas(1.1 + max(0.35, min(0.14 * group.n, 2.1)))
    longest = max(len(run) for run in group.runs)
    for row, (run, ks) in enumerate(zip(group.runs, at, strict=True)):
        axes.plot([1, len(run)], [row, row], color=GREY, lw=0.5)
        marks = ks if total <= TICKS else _thinned(ks, longest, log)
        axes.plot(marks, np.full(len(marks), row), "|", ms=max(3.0, 9.0 - 0.25 * group.n), color=ORANGE, mew=0.9)
    draw.dress(axes, "Realised resets", "seed", log="x" * log)
    axes.set_ylim(group.n - 0.5, -0.5)
    some = range(0, group.n, max(1, group.n // 6))
    axes.set_yticks(list(some), [str(group.runs[i].spec["seed"]) for i in some])
    axes.set_xlim(0 if not log else 0.9, longest * (1.1 if log else 1.01))
    axes.spines["left"].set_visible(False)
    ending = f"; the last one in episode {max(int(ks[-1]) for ks in at if len(ks)):,}" if total else ""
    binned = "" if total <= TICKS else " There are too many to draw each: a mark is one or more."
    caption = (
        f"Each mark is an episode that ended in a reset, a row per run (seed).{binned} {counted(total, 'reset')} in "
        f"{draw.runs(group.n)}{ending}."
    )
    alt = f"Time line of {counted(total, 'realised reset')}, {draw.runs(group.n)}."
    words = (f"{group.name}-time-line", "Realised resets on a time line", caption, alt)
    return Drawing(*words, data=_reset_data(group, at), figure=figure)


def _thinned(ks: Any, longest: int, log: bool) -> Any:
    """The first reset of each interval that can be distinguished on the axis."""
    place = np.log(ks) / np.log(longest + 1) if log else ks / (longest + 1)
    return ks[np.unique((place * BINS).astype(np.int64), return_index=True)[1]]


def _reset_data(group: Group, at: list[Any]) -> dict[str, Any]:
    """Every reset; if there are many, their number in each interval of episodes."""
    seeds = [run.spec["seed"] for run in group.runs]
    if sum(map(len, at)) <= 10 * TICKS:
        return {"seed": np.repeat(seeds, [len(ks) for ks in at]), "k": np.concatenate(at)}
    edges = np.linspace(0, max(len(run) for run in group.runs), BINS + 1).astype(np.int64)
    counts = [np.histogram(ks, edges + 0.5)[0] for ks in at]
    between = {"after_k": np.tile(edges[:-1], group.n), "up_to_k": np.tile(edges[1:], group.n)}
    return {"seed": np.repeat(seeds, BINS), **between, "resets": np.concatenate(counts)}


def _curves(group: Group, names: Any, *, log: bool) -> dict[str, Curve]:
    k = shown(group.rounds, log)
    return {name: curve([v[: group.rounds] for v in group.measures[name]], k) for name in names}


def _expected(group: Group) -> str:
    if "resets" in group.measures:
        return "Expected: probability of a reset under each policy from its start, summed, exact."
    return "Expected resets are not known: the model behind these runs is not."


def _fit(axes: Any, found: Growth | None, shown_curve: Curve, colour: str) -> None:
    """The fitted power through the end of the mean."""
    if found is None or shown_curve.mean[-1] <= 0:
        return
    k = np.array([found.first, found.last])
    e = found.exponent
    power = 1.25 * shown_curve.mean[-1] * (k / found.last) ** e.mean
    axes.plot(k, power, color=colour, lw=1.0, ls=(0, (3, 2)), label=f"fit: {_power(found)}")


def _power(found: Growth) -> str:
    """The exponent with its interval."""
    mean, low, high = (f"{x + 0.0:.2f}".replace("-0.00", "0.00") for x in vars(found.exponent).values())
    return f"k^{mean} [{low}, {high}]" if found.n > 1 else f"k^{mean}"


def _growth(found: Growth | None, what: str, group: Group) -> str:
    if found is None:
        why = "the runs are too short" if group.rounds < 16 else "no run has a positive value throughout"
        return f"No growth exponent of {what} is fitted: {why}."
    among = f" over n = {found.n} seeds" if found.n > 1 else " (n = 1)"
    lacking = f"; {found.without} runs without one, as they are not positive there" if found.without else ""
    return (
        f"Growth of {what}: {_power(found)}{among}, by least squares on k = {found.first:,} to {found.last:,} "
        f"(drawn above the curve){lacking}."
    )


def _bound(axes: Any, bound: tuple[Any, Any, Certificate] | str, what: str) -> str:
    if isinstance(bound, str):
        return f"No theorem's bound is drawn: {bound}."
    k, values, claim = bound
    vacuous = " (vacuous)" if claim.detail.get("vacuous") else ""
    axes.plot(k, values, color=INK, lw=1.2, ls="-.", marker=".", ms=4, label=f"theorem's bound{vacuous}")
    words = f" It is vacuous: no run can exceed {number(claim.detail['trivial'])}." if vacuous else ""
    return f"The theorem bounds {what} by {number(values[-1])} after {k[-1]:,} episodes, {claim.why}.{words}"


def _with_bound(curves: dict[str, Curve], bound: tuple[Any, Any, Certificate] | str) -> dict[str, Any]:
    data = draw.columns(curves)
    if not isinstance(bound, str):
        k, values, _ = bound
        column = np.full(len(data["k"]), np.nan)
        for i, at in enumerate(k):
            column[data["k"] == at] = values[i]
        data["theorem_bound"] = column
    return data
