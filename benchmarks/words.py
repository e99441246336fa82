"""Words that only this project would understand, wherever a person reads: `python benchmarks/words.py [PATH ...]`.

The dictionary is the table in CONTRIBUTING.md: ours, the field's, and where a word counts.
  anywhere   in prose (docstrings, comments, messages, docs) and as a word of an identifier, such as `asked_after`
  name       as a whole identifier or file name
  setting    as the name of a field of a player: what users type after `--set`
A second table lists the names that stay, each in one file: users type them, or files hold them.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = re.compile(r"^\| ([^|]+) \| ([^|]+) \| (anywhere|name|setting) \|$", re.M)
KEPT = re.compile(r"^\| `(\w+)` \| `([\w/]+\.(?:py|js|md))` \|", re.M)
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
SOURCES = ("src/**/*.py",)
PAGES = ("README.md", "docs/**/*.md", "src/**/*.html", "src/**/*.js")


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


def dictionary(project: Path) -> tuple[Entry, ...]:
    """Every word of the table, one entry each."""
    rows = TABLE.findall((project / "CONTRIBUTING.md").read_text())
    return tuple(Entry(word.strip(" `"), say.strip(), where) for ours, say, where in rows for word in ours.split(","))


def kept_names(project: Path) -> dict[str, set[str]]:
    """By page, or file of the package, the names that stay."""
    result: dict[str, set[str]] = {}
    for name, file in KEPT.findall((project / "CONTRIBUTING.md").read_text()):
        result.setdefault(file if file.endswith(".md") else f"src/resetfree/{file}", set()).add(name)
    return result


@cache
def _prose(entries: tuple[Entry, ...]) -> tuple[re.Pattern[str], dict[str, Entry]]:
    """Where a word that counts anywhere stands in a text, and the entry of each."""
    wanted = {entry.ours.lower(): entry for entry in entries if entry.where == "anywhere"}
    words = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in sorted(wanted, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.I), wanted


def in_text(text: str, entries: tuple[Entry, ...]) -> Iterator[tuple[int, Entry]]:
    """Line and entry of each word in prose."""
    pattern, by_word = _prose(entries)
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, by_word[" ".join(match[0].lower().split())]


@cache
def in_name(name: str, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The entries that an identifier breaks."""
    parts = " ".join(part.lower() for part in PARTS.findall(name))
    whole = (entry for entry in entries if entry.where == "name" and name.strip("_") == entry.ours)
    return (*whole, *(entry for _, entry in in_text(parts, entries)))


def _settings(tree: ast.Module, entries: tuple[Entry, ...]) -> Iterator[tuple[int, Entry]]:
    """Fields of players, which are classes with a registered `name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any("Player" in ast.unparse(base) for base in node.bases):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    wrong = (e for e in entries if e.where == "setting" and e.ours == field.target.id)
                    yield from ((field.lineno, entry) for entry in wrong)


def _former(tree: ast.Module) -> set[int]:
    """The lines of `former_settings`."""
    fields = (node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign))
    found = (node for node in fields if ast.unparse(node.target) == "former_settings")
    return {line for node in found for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def in_source(source: str, entries: tuple[Entry, ...], kept: Collection[str] = ()) -> Iterator[tuple[int, Entry]]:
    """Line and entry of each word in a module: its identifiers, texts and comments, and its players' settings.

    The former names of settings (`former_settings`) have to be written out.
    """
    tree = ast.parse(source)
    former = _former(tree)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if line in former or token.string.strip("\"'") in kept:
            continue
        if token.type == tokenize.NAME:
            yield from ((line, entry) for entry in in_name(token.string, entries))
        elif token.type in (tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)):
            yield from ((line + n - 1, entry) for n, entry in in_text(token.string, entries))
    yield from _settings(tree, entries)


def findings(project: Path, only: tuple[str, ...] = ("",)) -> list[Found]:
    """Every place in the package and the pages, or in those paths that begin as `only` says."""
    entries, kept, found = dictionary(project), kept_names(project), []

    def files(globs: tuple[str, ...]) -> list[Path]:
        every = (one for glob in globs for one in project.glob(glob))
        return sorted(one for one in every if str(one.relative_to(project)).startswith(only))

    for path in files(SOURCES):
        stay = kept.get(path.relative_to(project).as_posix(), set())
        places = [*in_source(path.read_text(), entries, stay), *((1, entry) for entry in in_name(path.stem, entries))]
        found += [Found(path.relative_to(project), line, entry) for line, entry in sorted(places)]
    for path in files(PAGES):
        quoted = "|".join(kept.get(path.relative_to(project).as_posix(), ())) or "(?!)"
        places = sorted(in_text(re.sub(rf"([\"`])(?:{quoted})\1", "", path.read_text()), entries))
        found += [Found(path.relative_to(project), line, entry) for line, entry in places]
    return found


def main() -> int:
    shown = findings(Path(__file__).parent.parent, tuple(sys.argv[1:]) or ("",))
    print("\n".join([*map(str, shown), f"{len(shown)} words that only this project would understand."]))
    return bool(shown)


if __name__ == "__main__":
    sys.exit(main())
