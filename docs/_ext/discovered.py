"""What is discovered in the package, as tables and pages made when the site is built: none of them can go stale.

`player-status` is a table of players with what each says about itself on `grid-v0`; `player-classes` documents their
classes; `public-names` lists what `import resetfree as rf` offers, linked to where it is documented. These are for
`{eval-rst}` blocks. `toctree-of-these` is a toctree whose patterns may match nothing, for pages that are generated.
"""

from __future__ import annotations

import importlib
import re
from fnmatch import filter as filter_names
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.directives.other import TocTree
from sphinx.util.docutils import SphinxDirective

import resetfree as rf
from resetfree.core.errors import ResetFreeError
from resetfree.players import Role, discover, settings
from resetfree.players.testing.trial_problems import fill
from resetfree.problems.blueprint import describe
from resetfree.problems.contract import Problem
from resetfree.show.cli.listing import summary_line

from .plain_docstrings import escape

WHERE, EPISODES = "grid-v0", 4000  # what the statements of the table are about
GROUPS: dict[str, tuple[Role, bool]] = {  # role, and whether baselines are meant
    "primal": ("primal", False),
    "baselines": ("primal", True),
    "dual": ("dual", False),
}


class Status(NamedTuple):
    """One row of the table."""

    name: str
    path: str  # dotted name of the class
    summary: str
    settings: dict[str, Any]
    standing: str  # in one or two words
    why: str


def players(group: str) -> dict[str, Any]:
    """The player classes of a group by name."""
    role, baselines = GROUPS[group]
    return {name: cls for name, cls in discover(role).items() if cls.baseline == baselines}


def status(name: str, cls: Any, problem: Problem) -> Status:
    """What a player with its default settings says about itself on a problem, or with what words it refuses it."""
    player = fill(cls(), problem)
    try:
        player.init(problem, EPISODES, 0)
        said = player.statement(problem, EPISODES)
    except ResetFreeError as error:
        standing, why = "refuses this problem", f"{error} In general: {player.statement(problem, EPISODES).why}."
    else:
        standing = "theorem" if said.covered else "tuned"
        if said.most_resets is not None:
            standing = f"{standing}; resets at most {said.most_resets:g} on every path"
        why = f"{said.why}."
    return Status(
        name, f"{cls.__module__}.{cls.__qualname__}", summary_line(cls), describe(settings(cls)), standing, why
    )


def table(rows: list[Status]) -> list[str]:
    """The rows as a list-table."""
    lines = [".. list-table::", "   :header-rows: 1", "   :class: players", "   :widths: 18 40 42", ""]
    lines += ["   * - player", "     - what it does, and its settings", f"     - what it says on {WHERE}"]
    for row in rows:
        options = ", ".join(f"``{key} = {value}``" for key, value in row.settings.items())
        lines += [f"   * - :py:obj:`{row.name} <{row.path}>`", f"     - {escape(row.summary)}", ""]
        lines += [f"       {options or 'No settings.'}", f"     - **{row.standing}**", "", f"       {escape(row.why)}"]
    return lines


def documented(folder: Path) -> list[str]:
    """The modules that the pages in a folder document."""
    texts = (page.read_text() for page in sorted(folder.glob("*.md")))
    return [name for text in texts for name in re.findall(r"automodule:: (\S+)", text)]


def home(name: str, modules: list[str]) -> str:
    """Where a public name is documented: the module of a page that has it, the one that defines it first."""
    thing = getattr(rf, name)
    having = [m for m in modules if vars(importlib.import_module(m)).get(name) is thing and _shows(m, name)]
    if not having:
        raise LookupError(f"resetfree.{name} is on no page of the API.")
    return f"{max(having, key=lambda m: m == thing.__module__)}.{name}"


def _shows(module: str, name: str) -> bool:
    """Whether a page about a module shows a name: those of `__all__`, or what is defined there."""
    found = importlib.import_module(module)
    return name in found.__all__ if hasattr(found, "__all__") else getattr(found, name).__module__ == module


class TheseTocTree(TocTree):
    """A toctree without the patterns that match no page."""

    def run(self) -> list[nodes.Node]:
        """Leave them out, then as ever."""
        pages = self.env.found_docs
        given: list[str] = list(self.content)  # type: ignore[has-type]
        self.content = StringList([line for line in given if "*" not in line or filter_names(pages, line)])
        return super().run()


class PlayerStatus(SphinxDirective):
    """`.. player-status:: primal` (or baselines, dual)."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table."""
        problem = rf.make(WHERE).problem()
        rows = [status(name, cls, problem) for name, cls in players(self.arguments[0]).items()]
        return self.parse_text_to_nodes("\n".join(table(rows)))


class PlayerClasses(SphinxDirective):
    """`.. player-classes:: primal` (or baselines, dual): the classes' own documentation."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One autoclass each; methods are those of every player, and not repeated."""
        text: list[str] = []
        for name, cls in players(self.arguments[0]).items():
            text += [f".. autoclass:: {cls.__module__}.{cls.__qualname__}", "   :no-members:", ""]
            text += [f"   Name: ``{name}``.", ""]
        return self.parse_text_to_nodes("\n".join(text))


class PublicNames(SphinxDirective):
    """`.. public-names::`: what the package itself offers."""

    def run(self) -> list[nodes.Node]:
        """Name, first line, and where more is said."""
        modules = documented(Path(self.env.srcdir) / "api")
        lines = [".. list-table::", "   :widths: 25 75", ""]
        for name in rf.__all__:
            first = (getattr(rf, name).__doc__ or "").strip().split("\n")[0]
            lines += [f"   * - :py:obj:`rf.{name} <{home(name, modules)}>`", f"     - {escape(first)}"]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Any) -> dict[str, Any]:
    """Make the directives known."""
    app.add_directive("toctree-of-these", TheseTocTree)
    app.add_directive("player-status", PlayerStatus)
    app.add_directive("player-classes", PlayerClasses)
    app.add_directive("public-names", PublicNames)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
