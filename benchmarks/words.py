"""Words that only this project would understand, wherever a person reads: `python benchmarks/words.py [PATH ...]`.

The dictionary is the table in CONTRIBUTING.md: ours, the field's, and where a word counts.
  anywhere   in prose (docstrings, comments, messages, docs) and as a word of an identifier, such as `asked_after`
  name       as a whole identifier or file name
  setting    as the name of a field of a player: what users type after `--set`
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TABLE = re.compile(r"^\| ([^|]+) \| ([^|]+) \| (anywhere|name|setting) \|$", re.M)
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
SOURCES = ("src/**/*.py",)
PAGES = ("README.md", "docs/*.md", "src/**/*.html", "src/**/*.js")


class Entry(NamedTuple):
    """A line of the dictionary."""

    ours: str
    say: str
    where: str


class Found(NamedTuple):
    """A place where a word of ours stands."""

    path: Path
    line: int
    entry: Entry

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.entry.ours}': say {self.entry.say}"


def dictionary(project: Path) -> list[Entry]:
    """Every word of the table, one entry each."""
    rows = TABLE.findall((project / "CONTRIBUTING.md").read_text())
    return [Entry(word.strip(" `"), say.strip(), where) for ours, say, where in rows for word in ours.split(",")]


def _prose(entries: list[Entry]) -> dict[Entry, re.Pattern[str]]:
    """For each word that counts anywhere, where it stands in a text."""
    wanted = [entry for entry in entries if entry.where == "anywhere"]
    return {e: re.compile(rf"(?<![\w-]){re.escape(e.ours)}(?![\w-])".replace(r"\ ", r"\s+"), re.I) for e in wanted}


def in_text(text: str, entries: list[Entry]) -> Iterator[tuple[int, Entry]]:
    """Line and entry of each word in prose."""
    for entry, pattern in _prose(entries).items():
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, entry


def in_name(name: str, entries: list[Entry]) -> Iterator[Entry]:
    """The entries that an identifier breaks."""
    parts = " ".join(part.lower() for part in PARTS.findall(name))
    for entry in entries:
        whole = entry.where == "name" and name.strip("_") == entry.ours
        part = entry.where == "anywhere" and re.search(rf"\b{entry.ours}\b", parts)
        if whole or part:
            yield entry


def _settings(tree: ast.Module, entries: list[Entry]) -> Iterator[tuple[int, Entry]]:
    """Fields of players, which are classes with a registered `name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any("Player" in ast.unparse(base) for base in node.bases):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    wrong = (e for e in entries if e.where == "setting" and e.ours == field.target.id)
                    yield from ((field.lineno, entry) for entry in wrong)


def in_source(source: str, entries: list[Entry]) -> Iterator[tuple[int, Entry]]:
    """Line and entry of each word in a module: its identifiers, texts and comments, and its players' settings."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if token.type == tokenize.NAME:
            yield from ((line, entry) for entry in in_name(token.string, entries))
        elif token.type in (tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)):
            yield from ((line + n - 1, entry) for n, entry in in_text(token.string, entries))
    yield from _settings(ast.parse(source), entries)


def findings(project: Path) -> list[Found]:
    """Every place in the package and the pages where a word of ours stands."""
    entries, found = dictionary(project), []
    for path in sorted(one for glob in SOURCES for one in project.glob(glob)):
        places = [*in_source(path.read_text(), entries), *((1, entry) for entry in in_name(path.stem, entries))]
        found += [Found(path.relative_to(project), line, entry) for line, entry in sorted(places)]
    for path in sorted(one for glob in PAGES for one in project.glob(glob)):
        places = sorted(in_text(path.read_text(), entries))
        found += [Found(path.relative_to(project), line, entry) for line, entry in places]
    return found


if __name__ == "__main__":
    only = tuple(sys.argv[1:])
    shown = [str(one) for one in findings(Path(__file__).parent.parent) if not only or str(one.path).startswith(only)]
    print("\n".join([*shown, f"{len(shown)} places"]))
