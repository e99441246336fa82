"""The result, before anything else: one sentence and three tiles.

Legend: the last tenth of a run is what it had learned; a share is of what is possible without a reset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from resetfree.show.report.html.bounds import every_path
from resetfree.show.report.html.groups import Group
from resetfree.show.report.html.phrases import Markup, join, tag
from resetfree.theory.certificates import anytime
from resetfree.theory.comparators import LATE, Possible, in_words, possible


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
    return join(
        [
            tag("p", sentence, class_="headline"),
            tag("div", *(tile.markup() for tile in tiles), class_="tiles"),
        ]
    )


def one_group(group: Group) -> str:
    """How many resets there were, and since when there was none."""
    counts, last = group.final("realised"), _last_reset(group)
    most, episodes = int(max(counts)), f"{group.rounds:,} episode{'' if group.rounds == 1 else 's'}"
    if most == 0:
        return f"No reset in {episodes}{'' if group.n == 1 else f', in any of {group.n} runs'}."
    since = f"; none since episode {last:,}" if last < group.rounds else ""
    if group.n == 1:
        return f"{most:,} reset{'' if most == 1 else 's'} in {episodes}{since}."
    mean = number(float(np.mean(counts)))
    return f"{mean} resets in {episodes}, on average over {group.n} seeds (most {most:,}){since}."


def _tiles(group: Group) -> list[Tile]:
    last, most = _last_reset(group), every_path(group)
    resets = group.final("realised")
    note = f"the last one in episode {last:,}" if last else f"in {group.rounds:,} episodes"
    if group.n > 1:
        note = f"mean of {group.n} seeds, most {max(resets):,.0f}; {note}"
    if most is not None:
        third = Tile(
            f"≤ {number(most.rhs)}", "resets, whatever happens", "proved on every path, where Assumption 1 holds"
        )
    else:
        upper = float(np.max(group.final("upper")))
        words = f"with {100 * (1 - anytime.DELTA):g} % confidence, from the resets so far alone"
        third = Tile(f"≤ {number(upper)}", "expected resets", words)
    return [Tile(number(float(np.mean(resets))), "resets", note), _earned(group), third]


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
        Tile(number(resets), "resets in all", f"{resets / rounds:.2%} of the episodes"),
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
    return Tile(f"{n:,}", "runs", f"in {len(groups)} groups")


def name(group: Group) -> str:
    """A group without its problem."""
    return group.label.removeprefix(f"{group.spec['problem']}, ")


def number(value: float) -> str:
    """A number as people write it.

    >>> number(2.0), number(0.0253), number(11.555), number(1234567.0)
    ('2', '0.025', '11.6', '1,234,567')
    """
    if value == round(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 else f"{value:.2g}"
