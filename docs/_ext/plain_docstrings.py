"""Docstrings of this project as pages: plain text with `names`, arguments, formulas and examples, no markup to learn.

A docstring has paragraphs, arguments ("phi: [S, A, d] ...", continued by indented lines), examples (">>>") and indented
code. Its formulas use *, | and _ as mathematics does: what reStructuredText would read as markup is escaped.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from sphinx.ext.autodoc._dynamic import _signatures

ARGUMENT = re.compile(r"^(\*{0,2}(?:[a-z_]\w*|[A-Z])(?:, \*{0,2}\w+)*): +(\S.*)$")
SECOND_ARGUMENT = re.compile(r"(?<=[.)])  (?=(?:[a-z_]\w*|[A-Z])(?:, \w+)*: )")
NAME = re.compile(r"^[A-Za-z_][\w.]*$")
LIST_MARK = re.compile(r"^([-+]|\d+\.|[A-Za-z]\.|\.\.|>>>|:)(?=\s|$)")


def escape(text: str) -> str:
    r"""Text as reStructuredText that shows exactly it; `names` link to what they name, other `code` is shown as such.

    >>> escape("|psi| <= b_, see `solve` and `a b`s")
    '\\|psi\\| <= b\\_, see `solve` and ``a b``\\ s'
    """
    pieces = re.split(r"(`[^`]+`)", text)
    out = []
    for i, piece in enumerate(pieces):
        if i % 2:
            inside = piece[1:-1]
            marked = piece if NAME.match(inside) else f"``{inside}``"
            before = "\\ " if re.search(r"[\w\\]$", pieces[i - 1]) else ""
            after = "\\ " if re.match(r"\w", pieces[i + 1]) else ""
            out.append(before + marked + after)
        else:
            out.append(re.sub(r"([\\*|_`])", r"\\\1", piece))
    return LIST_MARK.sub(r"\\\1", "".join(out))


def to_rst(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText.

    >>> to_rst(["One line.", "", "x: [S] a", "  function.  y: another."])
    ['One line.', '', '* ``x``: [S] a function.', '* ``y``: another.', '']
    >>> to_rst([">" * 3 + " 1 + 1", "2"])
    ['.. code-block:: pycon', '', '   >>> 1 + 1', '   2', '']
    """
    out: list[str] = []
    for block in _blocks(lines):
        if block[0].lstrip().startswith(">>>"):
            out += _code("pycon", block)
        elif all(line.startswith("    ") for line in block):
            out += _code("python", block)
        else:
            out += _prose(block)
    return out


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []


def _code(language: str, block: list[str]) -> list[str]:
    body = textwrap.dedent("\n".join(block)).split("\n")
    return [f".. code-block:: {language}", "", *(f"   {line}" for line in body), ""]


def _prose(block: list[str]) -> list[str]:
    """Paragraphs and arguments; indented lines go on with an argument, and stand by themselves below a paragraph."""
    base = min(len(line) - len(line.lstrip()) for line in block)
    items: list[tuple[str, str]] = []  # (kind, text)
    for line in block:
        text, deeper = line.strip(), len(line) - len(line.lstrip()) > base
        if deeper and items and items[-1][0] == "argument":
            items[-1] = ("argument", f"{items[-1][1]} {text}")
        elif deeper:
            items.append(("line", text))
        elif ARGUMENT.match(text):
            items.append(("argument", text))
        elif items and items[-1][0] == "text":
            items[-1] = ("text", f"{items[-1][1]} {text}")
        else:
            items.append(("text", text))
    out: list[str] = []
    for kind, text in items:
        if kind == "argument":
            for one in SECOND_ARGUMENT.split(text):
                found = ARGUMENT.match(one)
                assert found is not None
                names = ", ".join(f"``{name}``" for name in found[1].split(", "))
                out.append(f"* {names}: {escape(found[2])}")
        else:
            if out and (kind == "text" or not out[-1].startswith("| ")):
                out.append("")
            out.append(f"| {escape(text)}" if kind == "line" else escape(text))
    return [*out, ""]


def fields_of(cls: type) -> list[str]:
    """The annotated fields of a class that a comment explains, one line each, as `name: comment`.

    >>> from resetfree.game.contract import Round
    >>> fields_of(Round)[0]
    'k: counted from 1'
    """
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return []
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    found, lines = [], source.split("\n")
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno is not None:
            name, rest = node.target.id, lines[node.end_lineno - 1].encode()[node.end_col_offset or 0 :].decode()
            said = re.match(r"\s*#\s+(?!type:|noqa|fmt:)(.+)", rest)
            if said and not name.startswith("_"):
                found.append(f"{name}: {said[1]}")
    return found


def _process(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    text = list(lines)
    if inspect.isclass(found) and (listed := fields_of(found)):
        text += ["", *listed]
    lines[:] = to_rst(text)


def setup(app: Any) -> dict[str, Any]:
    """Hook into autodoc; defaults are not looked up in the source of what states its own signature, such as `learn`."""
    look_up = _signatures.update_default_value
    if not hasattr(look_up, "__wrapped__"):

        @functools.wraps(look_up)
        def update(obj: Any, **bound: bool) -> None:
            if not hasattr(obj, "__signature__"):
                look_up(obj, **bound)

        _signatures.update_default_value = update
    app.connect("autodoc-process-docstring", _process)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
