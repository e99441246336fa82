"""The result of a report: its tiles at the top, and several groups compared, problem by problem.

Legend: the last tenth of a run is what it had learned; a share is of what is possible without a reset.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from resetfree.core.readable import counted, number, percent, since
from resetfree.show.report.figures import HEIGHT, LONGEST, Drawing, canvas, curve, dress, plain_text, shown
from resetfree.show.report.groups import Group, every_path
from resetfree.show.report.page import Markup, below, join, table, tag
from resetfree.show.report.style import GREY, line
from resetfree.studies.statistics import Interval, chance_of_less, interval, trimmed
from resetfree.theory.certificates import anytime
from resetfree.theory.regret import LATE, Possible, in_words, possible


@dataclass(frozen=True)
class Tile:
    """A number, what it is and what it means."""

    value: str
    what: str
    note: str

    def markup(self) -> Markup:
        """As an element of the page."""
        return tag("div", tag("b", self.value), tag("span", self.what), tag("small", self.note), class_="tile")


def headline(groups: Sequence[Group]) -> Markup:
    """The sentence and the tiles of these groups; nothing without a round."""
    if not groups:
        return Markup("")
    if len(groups) == 1:
        sentence, tiles = one_group(groups[0]), _tiles(groups[0])
    elif len({str(group.spec["fingerprint"]) for group in groups}) == 1:
        sentence, tiles = _best(groups)
    else:
        sentence, tiles = _totals(groups)
    return join([tag("p", sentence, class_="headline"), tag("div", *(tile.markup() for tile in tiles), class_="tiles")])


def one_group(group: Group) -> str:
    """How many resets there were, and since when there was none."""
    counts, last = group.final("realised"), _last_reset(group)
    most, episodes = int(max(counts)), counted(group.rounds, "episode")
    if most == 0:
        return f"No reset in {episodes}{'' if group.n == 1 else f', in any of {group.n} runs'}."
    when = since(last, group.rounds)
    if group.n == 1:
        return f"{counted(most, 'reset')} in {episodes}{when}."
    mean = number(float(np.mean(counts)))
    return f"{mean} resets in {episodes}, on average over {group.n} seeds (most {most:,}){when}."


def _tiles(group: Group) -> list[Tile]:
    last, most = _last_reset(group), every_path(group)
    resets = group.final("realised")
    note = f"the last one in episode {last:,}" if last else f"in {group.rounds:,} episodes"
    if group.n > 1:
        note = f"mean of {group.n} seeds, most {max(resets):,.0f}; {note}"
    if most is not None:
        sizes = group.runs[0].statements["primal"].get("most_resets")
        beforehand = "" if sizes in (None, most.rhs) else f", by the model; {number(sizes)} without it"
        words = f"proved on every path, where Assumption 1 holds{beforehand}"
        third = Tile(f"≤ {number(most.rhs)}", "resets, whatever happens", words)
    else:
        upper = float(np.max(group.final("upper")))
        words = f"with {100 * (1 - anytime.SHOWN):g} % confidence, from the resets so far alone"
        third = Tile(f"≤ {number(upper)}", "expected resets", words)
    return [
        Tile(number(float(np.mean(resets))), "reset" if np.mean(resets) == 1 else "resets", note),
        _earned(group),
        third,
    ]


def _earned(group: Group) -> Tile:
    """The reward of an episode in the last tenth, in the environment's own units where there are such."""
    value, scaled = late_reward(group), "original" in group.measures
    note = "in the environment's own units" if scaled else f"the last tenth of {group.rounds:,} episodes"
    if not isinstance(group.truths, str):
        found = [possible(t.solution, t.rounds.s1[: group.rounds]) for t in group.truths]
        known = Possible(*(None if None in column else float(np.mean(column)) for column in zip(*found, strict=True)))
        note = "; ".join(in_words(late_reward(group, "reward"), known)) or note
    return Tile(number(value), "reward per episode at the end", note)


def late_reward(group: Group, column: str | None = None) -> float:
    """Mean reward per episode over the last tenth of the episodes that all runs have."""
    name = column or ("original_return" if "original" in group.measures else "reward")
    return float(np.mean([run.columns[name][_late(group) : group.rounds].mean() for run in group.runs]))


def _late(group: Group) -> int:
    return group.rounds - max(1, group.rounds // LATE)


def _last_reset(group: Group) -> int:
    return max(
        int(run.columns["k"][: group.rounds][run.columns["reset"][: group.rounds]].max(initial=0)) for run in group.runs
    )


def _best(groups: Sequence[Group]) -> tuple[str, list[Tile]]:
    """Several groups of one problem: which had the fewest resets, and which earned most."""
    resets = [float(np.mean(group.final("realised"))) for group in groups]
    rewards = [late_reward(group) for group in groups]
    few, much = int(np.argmin(resets)), int(np.argmax(rewards))
    episodes = sorted({group.rounds for group in groups})
    played = f"{episodes[0]:,}" if len(episodes) == 1 else f"{episodes[0]:,} to {episodes[-1]:,}"
    also = " and earned most at the end" if few == much else f"; {name(groups[much])} earned most at the end"
    sentence = (
        f"Of {len(groups)} groups on {groups[0].spec['problem']}, {name(groups[few])} had the fewest resets"
        f" ({number(resets[few])} in {played} episodes){also}."
    )
    tiles = [
        Tile(number(resets[few]), "fewest resets", f"{name(groups[few])}; most: {number(max(resets))}"),
        Tile(number(rewards[much]), "most reward per episode at the end", name(groups[much])),
    ]
    known = [group for group in groups if "regret" in group.measures]
    if known:
        regrets = [float(np.mean(group.final("regret"))) for group in known]
        least = int(np.argmin(regrets))
        bought = "; below zero it was bought with resets" if regrets[least] < 0 else ""
        tiles.append(Tile(number(regrets[least]), "least Regret", f"{name(known[least])}{bought}"))
    else:
        tiles.append(_count(groups))
    return sentence, tiles


def _totals(groups: Sequence[Group]) -> tuple[str, list[Tile]]:
    """Several problems: who had the fewest resets on how many of them, and how much was played."""
    problems = {str(group.spec["fingerprint"]) for group in groups}
    resets = sum(float(run.realised_resets[-1]) for group in groups for run in group.runs)
    rounds = sum(len(run) for group in groups for run in group.runs)
    tiles = [
        _winner(groups) or Tile(f"{len(problems):,}", "problems", f"{len(groups):,} groups of runs"),
        Tile(f"{rounds:,}", "episodes", _count(groups).value + " runs"),
        Tile(number(resets), "resets in all", f"{percent(resets / rounds)} of the episodes"),
    ]
    return (
        f"{len(groups)} groups of runs on {len(problems)} problems: {number(resets)} resets in {rounds:,} episodes.",
        tiles,
    )


def _winner(groups: Sequence[Group]) -> Tile | None:
    """Who had the fewest resets on the most problems; None where no problem has two groups."""
    by_problem: dict[str, list[Group]] = {}
    for group in groups:
        by_problem.setdefault(str(group.spec["fingerprint"]), []).append(group)
    contests = [members for members in by_problem.values() if len(members) > 1]
    won = Counter(name(min(members, key=lambda g: float(np.mean(g.final("realised"))))) for members in contests)
    if not won:
        return None
    best, count = won.most_common(1)[0]
    return Tile(f"{count} of {len(contests)}", "problems on which it had the fewest resets", best)


def _count(groups: Sequence[Group]) -> Tile:
    n = sum(group.n for group in groups)
    return Tile(f"{n:,}", "run" if n == 1 else "runs", f"in {len(groups)} groups")


def name(group: Group) -> str:
    """A group without its problem."""
    return group.label.removeprefix(f"{group.problem or group.spec['problem']}, ")


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


def comparison_figures(groups: list[Group], which: int) -> list[Drawing]:
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
            ahead = _ahead(chance_of_less(first.final("realised"), group.final("realised")), first.n * group.n)
        regret = group.final("regret")
        ends = [below(resets[group.name]), below(trimmed(regret)) if regret else "–"]
        rows.append((tag("a", name(group), href=f"#{group.name}"), group.n, *ends, number(late_reward(group)), ahead))
    head = (
        "group",
        "runs",
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


def _ahead(chance: Interval, pairs: int) -> str:
    """How surely the first has fewer resets; where all pairs of runs agree, an interval would claim too much.

    >>> _ahead(Interval(1.0, 1.0, 1.0), 9), _ahead(Interval(0.8, 0.5, 0.95), 9)
    ('in all 9 pairs of runs', '80 % [50 %, 95 %]')
    """
    if chance.mean in (0.0, 1.0):
        return f"in {'all' if chance.mean else 'none of'} {counted(pairs, 'pair')} of runs"
    return f"{percent(chance.mean, 2)} [{percent(chance.low, 2)}, {percent(chance.high, 2)}]"


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
        axes.step(x, share, where="post", label=f"{name_of}, {counted(group.n, 'run')}", **line(i))
        rows += [(group.label, group.n, *row) for row in zip(x.tolist(), share.tolist(), strict=True)]
    dress(axes, "Share of runs with at most so many resets", "share of runs", x="resets, realised")
    axes.set_ylim(-0.03, 1.03)
    _below(axes, height, len(groups))
    caption = (
        "Left and high is good: how many of the runs of a group (counted in the legend) had at most x resets in all. A "
        "curve above another throughout is better on every quantile."
    )
    alt = f"Profiles of the resets of {len(groups)} groups, between 0 and {number(most)}."
    data = dict(zip(("group", "n", "resets", "share"), zip(*rows, strict=True), strict=True))
    return Drawing(f"comparison{which}-profile", "Profiles of Resets", caption, alt, data=data, figure=figure)


def names(groups: list[Group]) -> list[str]:
    """Short labels of the groups of a problem: players and differing settings, without players that are all equal."""
    parts = [name(g).partition(" (") for g in groups]
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
    """One measure of all groups over the episodes."""
    title, unit = TITLES[name]
    log = all(group.log for group in all_groups)
    height = _tall(groups)
    figure, axes = canvas(height)
    rows: list[tuple[object, ...]] = []
    for group, name_of in zip(groups, names(groups), strict=True):
        k = shown(group.rounds, log)
        found = curve([v[: group.rounds] for v in group.measures[name]], k)
        look = line(all_groups.index(group))
        axes.plot(k, found.mean, label=f"{name_of}, {counted(group.n, 'run')}", **look)
        if group.n > 1:
            axes.fill_between(k, found.low, found.high, color=look["color"], alpha=0.18, lw=0)
        numbers = (part.tolist() for part in (k, found.mean, found.low, found.high))
        rows += [(group.label, group.n, *row) for row in zip(*numbers, strict=True)]
    if name == "regret":
        axes.axhline(0, color=GREY, lw=0.8)
    dress(axes, title, unit, log="x" * log)
    _below(axes, height, len(groups))
    caption = (
        f"{title} of every group on this problem. Lines: means over the runs (counted in the legend); bands: 95 % "
        f"bootstrap intervals of the mean where there are several. Unit: {unit}."
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
        axes.plot(
            x.mean, y.mean, MARKS[i % len(MARKS)], ms=6, color=colour, label=f"{name_of}, {counted(group.n, 'run')}"
        )
        rows.append((group.label, group.n, group.rounds, *vars(y).values(), *vars(x).values()))
    axes.axhline(0, color=GREY, lw=0.8)
    dress(axes, "Regret against Resets", "Regret, reward", x="Resets, expected")
    _below(axes, height, len(groups))
    lengths = sorted({group.rounds for group in groups})
    unequal = "" if len(lengths) == 1 else " The groups have different numbers of episodes, and are not on equal terms."
    caption = (
        "Both at the end of the runs, exact; left and low is good, negative Regret is bought with resets. Marks: means "
        f"over the runs (counted in the legend) after {' or '.join(f'{x:,}' for x in lengths)} episodes; bars: 95 % "
        f"bootstrap intervals.{unequal}"
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
