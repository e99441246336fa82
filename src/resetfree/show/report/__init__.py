"""The report: run files in, one self-contained HTML file out; nothing is written unless all of it was made.

`write_report` is the entry, and `build` puts the page together, from top to bottom as it is read. Where its parts are:

groups           run files grouped by their specs, with the bounds of theorems for them
headline         the first figures and the result in a sentence, and the comparison of groups
html_tables      the tables: the overview (the first one), players, certificates, interventions, fleets
learning_curves, players, maps, films   the figures, each a `Drawing` of `figures`
page, style      sections and HTML; colours and fonts
pictures, filming   pictures and films in files of their own

It reads run files only, and names no player.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resetfree.core.arguments import is_special
from resetfree.core.errors import InvalidInput, RunError
from resetfree.core.readable import counted, number
from resetfree.core.settings import expect
from resetfree.show.report import films, maps, page, players, style
from resetfree.show.report import html_tables as tables
from resetfree.show.report import learning_curves as learning
from resetfree.show.report.figures import Drawing
from resetfree.show.report.films import FilmOfRun
from resetfree.show.report.groups import Collection, Group, collect
from resetfree.show.report.headline import by_problem, comparison_figures, headline, standings
from resetfree.show.report.headline import name as headline_name
from resetfree.show.report.page import Markup, join, tag

MARK = b'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy"'
DETAILED = 4  # groups up to which every figure of each is drawn by default
CORE = ("regret", "resets", "original", "reward")  # figures of each group if there are more groups
# The figures that are seen at once, at most MOST of them, in this order; the others are folded away.
FIRST = ("regret", "resets", "original", "reward", "map", "learned", "falls", "multiplier", "visits")
FIRST_IN_TIME = (*FIRST, "plan-ages", "deadlines", "lateness")
MOST = 6
COMPARED = ("regret", "realised", "pairs")  # figures of a comparison that are seen at once
LONGEST_TITLE = 120
GROWTH = "How fast they grow: logarithmic axes, with fits and bounds"


@dataclass(frozen=True)
class WrittenReport:
    """What was written."""

    path: Path
    runs: int
    figures: tuple[str, ...]  # their names: as anchors in the page, and of their files
    bytes: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "report": str(self.path),
            "runs": self.runs,
            "figures": list(self.figures),
            "bytes": self.bytes,
            "seconds": self.seconds,
        }


def write_report(
    runs: Sequence[str | Path],
    path: str | Path,
    *,
    problem: Any = None,
    options: Mapping[str, Any] | None = None,
    figures: str | Path | None = None,
    details: bool | None = None,
    film: bool | None = None,
) -> WrittenReport:
    """Write one self-contained HTML file about run files, and return what it holds.

    runs: run files, or folders of them such as that of a sweep, of one or several problems and players; those that
        differ by the seed only are taken together.
    path: the page; a file that is there is replaced only if it is such a page.
    problem, options: for runs whose problem is not registered, see `resetfree.load`.
    figures: a folder for every figure as SVG, PDF and PNG and its data as CSV.
    details: whether all figures of every group are drawn (default: if there are at most 4 groups).
    film: whether the page of one group has a film of its first run (default: where a map or kept pictures show it;
        True also plays an environment again, False leaves it out).
    Raises RunError for a run file that cannot be read, InvalidInput for a page that cannot be written.
    """
    began, target = time.perf_counter(), Path(path)
    check_target(target)
    found = collect(run_files(runs), problem, options)
    try:
        with style.look():
            drawn, text = build(found, len(found.groups) <= DETAILED if details is None else details, film)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise RunError(f"Some run holds numbers that cannot be drawn ({' '.join(str(error).split())}).") from error
    if figures is not None:
        for drawing in drawn:
            drawing.write(Path(figures))
    content = text.encode()
    with style.written(target, "report") as draft:
        draft.write_bytes(content)
    n = sum(group.n for group in found.groups) + len(found.empty)
    return WrittenReport(target, n, tuple(d.name for d in drawn), len(content), time.perf_counter() - began)


def run_files(given: Sequence[str | Path]) -> list[Path]:
    """The files that are meant: a folder, such as that of a sweep, stands for every run file in it."""
    found: list[Path] = []
    for path in map(Path, given):
        if not path.is_dir():
            found.append(path)
            continue
        try:
            inside = sorted(one for one in path.rglob("*.rfrun") if one.is_file())
        except OSError as error:
            raise RunError(f"The folder '{path}' cannot be read: {error.strerror}.") from error
        if not inside:
            raise RunError(f"There is no run file (*.rfrun) in the folder '{path}'.")
        found += inside
    return found


def check_target(target: Path) -> None:
    """Refuse, before any work, a target that cannot be written or is a file of another kind."""
    expect(not target.is_dir(), "report", "go to a file", got=f"the folder '{target}'")
    if target.exists():
        try:
            is_report = False
            if not is_special(target):
                with target.open("rb") as file:
                    is_report = file.read(len(MARK)) == MARK
        except OSError as error:
            raise InvalidInput(f"The report '{target}' cannot be replaced: {error.strerror}.") from error
        if not is_report:
            raise InvalidInput(f"The file '{target}' exists and is not a report: name another one (-o).")
    elif not target.parent.is_dir():
        raise InvalidInput(f"The report must go to a folder that exists. Got '{target}' instead.")


def build(found: Collection, details: bool, film: bool | None = False) -> tuple[list[Drawing], str]:
    """All figures, and the page they are in."""
    groups = found.groups
    shown = films.film_of(groups, film)
    drawn: list[Drawing] = []
    contents: dict[str, str] = {}
    body: list[Markup] = []
    comparable = by_problem(groups)
    if comparable:
        contents["comparison"] = "Comparison"
        body.append(_comparison(comparable, drawn))
    contents["overview"] = "Overview"
    body.append(_overview(found))
    for group in groups:
        contents[group.name] = group.label
        body.append(_group(group, drawn, details, alone=len(groups) == 1, film=shown))
    fleet = tables.fleets(found)
    if fleet is not None:
        contents["fleet"] = "Machines and operators"
        body.append(page.section("fleet", "Machines and operators", fleet))
    performed = tables.interventions(found)
    if performed is not None:
        contents["interventions"] = "Interventions"
        body.append(page.section("interventions", "Interventions", performed))
    problems = sorted({str(group.spec["problem"]) for group in groups} | {str(r.spec["problem"]) for r in found.empty})
    title = f"resetfree: {', '.join(one.removeprefix('gym:') for one in problems)}"
    n = sum(group.n for group in groups)
    rounds = sum(len(run) for group in groups for run in group.runs)
    together = "1 group" if len(groups) == 1 else f"{len(groups)} groups"
    summary = f"{n} run{'' if n == 1 else 's'} in {together}, {rounds:,} episodes in all."
    if n == len(groups) == 1:
        summary = f"{headline_name(groups[0])}, {rounds:,} episodes, seed {groups[0].runs[0].spec['seed']}."
    if len(title) > LONGEST_TITLE:
        title = f"{title[: LONGEST_TITLE - 1]}…"
    footer = "Made from the run files alone; certificates were computed anew. This file needs no network."
    return drawn, page.page(title, summary, _lead(groups, shown), contents, body=body, footer=footer)


def _lead(groups: list[Group], film: FilmOfRun | str | None) -> Markup:
    """What is wrong, if anything is, then the result, and its film."""
    parts: list[object] = []
    for sentence in tables.failures(groups):
        parts.append(tag("p", tag("strong", "A claim that must hold fails: "), sentence, class_="alert"))
    still = tables.stuck(groups)
    if len(still) == 1:
        parts.append(tag("p", tag("strong", "A run is stuck: "), still[0], class_="alert"))
    elif still:  # a wall of sentences would hide the result
        total, lines = sum(group.n for group in groups), [tag("p", sentence) for sentence in still]
        parts.append(tag("details", tag("summary", f"{len(still)} of {total} runs are stuck"), *lines, class_="alert"))
    parts.append(headline(groups))
    parts += [tag("p", sentence, class_="note") for sentence in tables.pushed(groups)]
    if film is not None:
        parts.append(tag("p", film, class_="note") if isinstance(film, str) else films.figure(film))
    return join(parts)


def _overview(found: Collection) -> Markup:
    parts: list[object] = [tables.overview(found.groups)] if found.groups else []
    parts += [tag("p", sentence, class_="note") for sentence in tables.unplayed(found)]
    parts += [tag("details", tag("summary", "How to read this page"), page.glossary())]
    return page.section("overview", "Runs and results", *parts)


def _comparison(comparable: list[list[Group]], drawn: list[Drawing]) -> Markup:
    parts: list[object] = []
    for which, members in enumerate(comparable, 1):
        new = comparison_figures(members, which)
        drawn += new
        first = [one for one in new if one.name.partition("-")[2] in COMPARED]
        rest = {"": [one for one in new if one not in first]}
        parts += [tag("h3", members[0].problem), standings(members), page.figures(first), _more(rest)]
    return page.section("comparison", "Comparison", *parts)


def _more(rest: Mapping[str, list[Drawing]]) -> Markup:
    """The figures that few need, folded away under their titles."""
    inside = [join([tag("h4", title) if title else "", page.figures(new)]) for title, new in rest.items() if new]
    titles = ", ".join(title.partition(":")[0] for title, new in rest.items() if title and new)
    words = counted(sum(map(len, rest.values())), "more figure") + (f": {titles}" if titles else "")
    return tag("details", tag("summary", words), *inside) if inside else Markup("")


def _group(
    group: Group, drawn: list[Drawing], details: bool, *, alone: bool, film: FilmOfRun | str | None = None
) -> Markup:
    sets = {
        "What was learned": learning.figures,
        "Before the resets": films.last_steps,
        "The clock and the age of plans": players.clock_figures,
        "The game between the players": players.figures,
        "The map": maps.figures,
        "What is believed to be dangerous": maps.danger_figures,
    }
    parts: list[object] = [
        tag("details", tag("summary", "What was run: problem, players, settings"), tables.settings(group))
    ]
    if isinstance(group.truths, str):
        why = f"it {group.truths}" if group.truths.startswith("needs ") else group.truths
        parts.append(tag("p", f"Regret is not shown: {why}.", class_="note"))
    same = players.constant_multiplier(group)
    if same is not None:
        parts.append(tag("p", f"The multiplier was {number(same)} in every episode.", class_="note"))
    if players.is_timed(group):
        parts.append(tag("p", players.clock_summary(group), class_="note"))
    made = {title: draw(group) for title, draw in sets.items() if details or draw is learning.figures}
    every = {one.name.removeprefix(f"{group.name}-"): one for new in made.values() for one in new}
    first = [every[name] for name in (FIRST_IN_TIME if details else CORE) if name in every][:MOST]
    made["What was learned"] = [one for one in made["What was learned"] if not one.name.endswith("-log")]
    rest = {title: [one for one in new if one not in first and details] for title, new in made.items()}
    rest = {"Run by run": rest.pop("What was learned"), **rest}
    rest[GROWTH] = [one for name, one in every.items() if name.endswith("-log") and details]
    drawn += [*first, *(one for new in rest.values() for one in new)]
    before = films.strips(film) if isinstance(film, FilmOfRun) else Markup("")
    parts += [tag("h3", "What was learned"), page.figures(first), before, _more(rest)]
    if details and not made["The map"] and group.mdp is not None and group.mdp.layout is not None:
        parts.append(tag("p", f"The map has more than {maps.LARGEST:,} cells, and is not drawn.", class_="note"))
    if not details:
        words = (
            f"With more than {DETAILED} groups only these figures of each are drawn; --all-figures draws the others."
        )
        parts.append(tag("p", words, class_="soft"))
    parts += [tag("h3", "Certificates: what is guaranteed and what is tuned"), tables.certificates(group)]
    return (page.section if alone else page.folded)(group.name, group.label, join(parts))
