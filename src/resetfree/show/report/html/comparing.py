"""Several groups of runs compared, problem by problem: curves of all, and Regret against Resets."""

from __future__ import annotations

from resetfree.show.report.html.figures import HEIGHT, LONGEST, Drawing, canvas, dress, plain_text
from resetfree.show.report.html.groups import Group
from resetfree.show.report.html.series import curve, shown
from resetfree.show.report.style import GREY, line
from resetfree.studies.statistics import interval

MARKS = "os^Dvp*X"
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


def figures(groups: list[Group], number: int) -> list[Drawing]:
    """Figures for the groups of one problem."""
    with_regret = [g for g in groups if "regret" in g.measures]
    drawn = []
    if with_regret:
        drawn.append(_curves(groups, with_regret, "regret", number))
    exact = [g for g in groups if "resets" in g.measures]
    if len(exact) == len(groups):
        drawn.append(_curves(groups, exact, "resets", number))
    drawn.append(_curves(groups, groups, "realised", number))
    if len(with_regret) > 1:
        drawn.append(_pairs(groups, with_regret, number))
    return drawn


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


def _curves(all_groups: list[Group], groups: list[Group], name: str, number: int) -> Drawing:
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
    return Drawing(f"comparison{number}-{name}", title, caption, alt, data=data, figure=figure)


def _pairs(all_groups: list[Group], groups: list[Group], number: int) -> Drawing:
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
    return Drawing(f"comparison{number}-pairs", "Regret against Resets", caption, alt, data=data, figure=figure)


def _below(axes: object, height: float, n: int) -> None:
    """A legend under the axes, one line per group: nothing is covered."""
    figure = axes.figure  # type: ignore[attr-defined]
    box = axes.get_position()  # type: ignore[attr-defined]
    bottom = box.y0 + (0.17 * n + 0.1) / height
    axes.set_position((box.x0, bottom, box.width, box.y1 - bottom))  # type: ignore[attr-defined]
    handles, labels = axes.get_legend_handles_labels()  # type: ignore[attr-defined]
    spacing = {"handlelength": 1.8, "labelspacing": 0.25, "borderaxespad": 0.2}
    figure.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.02, 0.0), **spacing)
