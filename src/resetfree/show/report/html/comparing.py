"""Several groups of runs compared, problem by problem: curves of all, and Regret against Resets."""

from __future__ import annotations

import numpy as np

from resetfree.show.report.comparison import span
from resetfree.show.report.html.figures import HEIGHT, LONGEST, Drawing, canvas, dress, plain_text
from resetfree.show.report.html.groups import Group
from resetfree.show.report.html.headline import late_reward, name, number
from resetfree.show.report.html.phrases import Markup, table, tag
from resetfree.show.report.html.series import curve, shown
from resetfree.show.report.style import GREY, line
from resetfree.studies.statistics import Interval, chance_of_less, interval, trimmed

MARKS = "os^Dvp*X"
MANY = 3  # runs of every group from which on their distribution is drawn
TITLES = {  # and units
    "regret": ("Regret", "reward"),
    "resets": ("Resets, expected", "resets"),
    "realised": ("Resets, realised", "resets"),
}


def by_problem(groups: list[Group]) -> list[list[Group]]:
    """The groups of each problem that has at least two."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(str(group.spec["fingerprint"]), []).append(group)
    return [members for members in found.values() if len(members) > 1]


def figures(groups: list[Group], which: int) -> list[Drawing]:
    """Figures for the groups of one problem."""
    with_regret = [g for g in groups if "regret" in g.measures]
    drawn = []
    if with_regret:
        drawn.append(_curves(groups, with_regret, "regret", which))
    exact = [g for g in groups if "resets" in g.measures]
    if len(exact) == len(groups):
        drawn.append(_curves(groups, exact, "resets", which))
    drawn.append(_curves(groups, groups, "realised", which))
    if len(with_regret) > 1:
        drawn.append(_pairs(groups, with_regret, which))
    if min(group.n for group in groups) >= MANY:
        drawn.append(_profile(groups, which))
    return drawn


def standings(groups: list[Group]) -> Markup:
    """The groups of one problem from the fewest resets on: interquartile means, and how surely the first is ahead."""
    resets = {group.name: trimmed(group.final("realised")) for group in groups}
    order = sorted(groups, key=lambda group: resets[group.name].mean)
    first, rows = order[0], []
    for group in order:
        ahead: object = "–"
        if group is not first and min(first.n, group.n) > 1:
            chance = chance_of_less(first.final("realised"), group.final("realised"))
            ahead = f"{chance.mean:.0%} [{chance.low:.0%}, {chance.high:.0%}]"
        regret = group.final("regret")
        ends = [_cell(resets[group.name]), _cell(trimmed(regret)) if regret else "–"]
        rows.append((tag("a", name(group), href=f"#{group.name}"), group.n, *ends, number(late_reward(group)), ahead))
    head = (
        "group",
        "n",
        "Resets, realised",
        "Regret",
        "reward per episode at the end",
        "chance that the first has fewer resets",
    )
    caption = (
        "Interquartile means over seeds (without the least and the largest quarter) and 95 % bootstrap intervals; the "
        "chance that a run of the first line has fewer resets than a run of this line, ties counted half"
    )
    return table(head, rows, numbers=range(1, 6), caption=caption)


def _cell(x: Interval) -> str:
    return span(x).replace(" [", "\n[")


def _profile(groups: list[Group], which: int) -> Drawing:
    """The share of the runs of each group that had at most so many resets."""
    height = _tall(groups)
    figure, axes = canvas(height)
    rows: list[tuple[object, ...]] = []
    most = max(max(group.final("realised")) for group in groups)
    for i, (group, name_of) in enumerate(zip(groups, names(groups), strict=True)):
        ends = np.unique(group.final("realised"))
        x = np.concatenate([[0.0], ends, [most]])
        share = np.array([np.mean(np.array(group.final("realised")) <= at) for at in x])
        axes.step(x, share, where="post", label=f"{name_of}, n = {group.n}", **line(i))
        rows += [(group.label, group.n, *row) for row in zip(x.tolist(), share.tolist(), strict=True)]
    dress(axes, "Share of runs with at most so many resets", "share of runs", x="resets, realised")
    axes.set_ylim(-0.03, 1.03)
    _below(axes, height, len(groups))
    caption = (
        "Left and high is good: how many of the runs of a group (n in the legend) had at most x resets in all. A curve "
        "above another throughout is better on every quantile."
    )
    alt = f"Profiles of the resets of {len(groups)} groups, between 0 and {most:.4g}."
    data = dict(zip(("group", "n", "resets", "share"), zip(*rows, strict=True), strict=True))
    return Drawing(f"comparison{which}-profile", "Profiles of Resets", caption, alt, data=data, figure=figure)


def names(groups: list[Group]) -> list[str]:
    """Short labels of the groups of a problem: players and differing settings, without players that are all equal."""
    parts = [g.label.removeprefix(f"{g.spec['problem']}, ").partition(" (") for g in groups]
    same = len({players for players, _, _ in parts}) == 1
    result = []
    for players, bracket, rest in parts:
        if same and rest:
            result.append(plain_text(rest.removesuffix(")")))
        else:  # the distinguishing settings are at the end
            room = max(12, LONGEST - len(bracket + rest))
            result.append(plain_text(players, room) + plain_text(bracket + rest, LONGEST - 12))
    return result


def _tall(groups: list[Group]) -> float:
    return HEIGHT + 0.17 * len(groups) + 0.1


def _curves(all_groups: list[Group], groups: list[Group], name: str, which: int) -> Drawing:
    """One measure of all groups over the episodes, the episodes on a logarithmic axis."""
    title, unit = TITLES[name]
    height = _tall(groups)
    figure, axes = canvas(height)
    rows: list[tuple[object, ...]] = []
    for group, name_of in zip(groups, names(groups), strict=True):
        k = shown(group.rounds, log=True)
        found = curve([v[: group.rounds] for v in group.measures[name]], k)
        look = line(all_groups.index(group))
        axes.plot(k, found.mean, label=f"{name_of}, n = {group.n}", **look)
        if group.n > 1:
            axes.fill_between(k, found.low, found.high, color=look["color"], alpha=0.18, lw=0)
        numbers = (part.tolist() for part in (k, found.mean, found.low, found.high))
        rows += [(group.label, group.n, *row) for row in zip(*numbers, strict=True)]
    if name == "regret":
        axes.axhline(0, color=GREY, lw=0.8)
    dress(axes, title, unit, log="x")
    _below(axes, height, len(groups))
    caption = (
        f"{title} of every group on this problem. Lines: means over the seeds (n in the legend); bands: 95 % bootstrap "
        f"intervals of the mean where n > 1. Unit: {unit}."
    )
    alt = f"{title} of {len(groups)} groups over the episodes."
    data = dict(zip(("group", "n", "k", "mean", "low", "high"), zip(*rows, strict=True), strict=True))
    return Drawing(f"comparison{which}-{name}", title, caption, alt, data=data, figure=figure)


def _pairs(all_groups: list[Group], groups: list[Group], which: int) -> Drawing:
    """Regret(K) against Resets(K): the trade-off between them."""
    height = _tall(groups)
    figure, axes = canvas(height)
    rows: list[tuple[object, ...]] = []
    for group, name_of in zip(groups, names(groups), strict=True):
        i = all_groups.index(group)
        x, y = interval(group.final("resets")), interval(group.final("regret"))
        colour = line(i)["color"]
        axes.plot([x.low, x.high], [y.mean, y.mean], color=colour, lw=1.0)
        axes.plot([x.mean, x.mean], [y.low, y.high], color=colour, lw=1.0)
        axes.plot(x.mean, y.mean, MARKS[i % len(MARKS)], ms=6, color=colour, label=f"{name_of}, n = {group.n}")
        rows.append((group.label, group.n, group.rounds, *vars(y).values(), *vars(x).values()))
    axes.axhline(0, color=GREY, lw=0.8)
    dress(axes, "Regret against Resets", "Regret, reward", x="Resets, expected")
    _below(axes, height, len(groups))
    lengths = sorted({group.rounds for group in groups})
    unequal = "" if len(lengths) == 1 else " The groups have different numbers of episodes, and are not on equal terms."
    caption = (
        "Both at the end of the runs, exact; left and low is good, negative Regret is bought with resets. Marks: means "
        f"over seeds (n in the legend) after {' or '.join(f'{x:,}' for x in lengths)} episodes; bars: 95 % bootstrap "
        f"intervals.{unequal}"
    )
    alt = f"Regret against Resets of {len(groups)} groups."
    sides = [f"{what}{side}" for what in ("regret", "resets") for side in ("", "_low", "_high")]
    data = dict(zip(("group", "n", "episodes", *sides), zip(*rows, strict=True), strict=True))
    return Drawing(f"comparison{which}-pairs", "Regret against Resets", caption, alt, data=data, figure=figure)


def _below(axes: object, height: float, n: int) -> None:
    """A legend under the axes, one line per group: nothing is covered."""
    figure = axes.figure  # type: ignore[attr-defined]
    box = axes.get_position()  # type: ignore[attr-defined]
    bottom = box.y0 + (0.17 * n + 0.1) / height
    axes.set_position((box.x0, bottom, box.width, box.y1 - bottom))  # type: ignore[attr-defined]
    handles, labels = axes.get_legend_handles_labels()  # type: ignore[attr-defined]
    spacing = {"handlelength": 1.8, "labelspacing": 0.25, "borderaxespad": 0.2}
    figure.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.02, 0.0), **spacing)
