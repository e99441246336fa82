"""Mutants of formulas: each number of a bound times 0.9, and each term of a sum left out, one at a time.

Generated from the text of a function, and put in place of its code, so that everything that calls it has the mutant.
"""

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
TICKS: list[None] = []  # turns of loops since the mutant is in place
MOST_TICKS = 100_000
INEXACT = ("range", "arange", "shape", "reshape")  # calls whose numbers count something


def plain(function: Any) -> Any:
    """The Python function behind its decorators: a compiled, checked, cached or class one, or a property."""
    if isinstance(function, property):
        function = function.fget
    function = getattr(function, "py_func", function)
    return inspect.unwrap(getattr(function, "__func__", function))


def mutants(function: Any) -> dict[str, Any]:
    """Code of every slight mutant, by a description of what is changed where."""
    honest = plain(function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(honest)))
    found: dict[str, Any] = {}
    for description, change in (("all of it times 0.9", _all_scaled), *_changes(tree)):
        broken = copy.deepcopy(tree)
        change(broken)
        found[description] = _compiled(broken, honest)
    return found


def _changes(tree: ast.Module) -> Iterator[tuple[str, Callable[[ast.Module], None]]]:
    """What can be changed, and how; nodes are found again by their place in the walk."""
    skipped = {id(inner) for node in ast.walk(tree) if _counts(node) for inner in ast.walk(node) if inner is not node}
    for i, node in enumerate(ast.walk(tree)):
        if id(node) in skipped or not isinstance(node, ast.BinOp) or _counts(node):
            continue
        where = f"line {node.lineno}: {ast.unparse(node)}"
        for side in ("left", "right"):
            inner = getattr(node, side)
            number = isinstance(inner, ast.Constant) and type(inner.value) in (int, float) and inner.value
            if number and isinstance(node.op, ARITHMETIC):
                yield f"{where}: {inner.value} times 0.9", _scaled(i, side)
            other = isinstance(node.op, ast.Add) or (side == "right" and isinstance(node.op, ast.Sub))
            if other:
                yield f"{where}: without {ast.unparse(inner)}", _without(i, side)


def _counts(node: ast.AST) -> bool:
    """Whether the numbers in a node are places or conditions, and no part of a formula."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", getattr(node.func, "id", "")) in INEXACT
    if isinstance(node, ast.BinOp):
        words = any(isinstance(inner, ast.Constant) and isinstance(inner.value, str) for inner in ast.walk(node))
        return words or isinstance(node.op, ast.FloorDiv)
    return isinstance(node, ast.Slice | ast.Compare | ast.JoinedStr | ast.Raise | ast.Assert)


def _all_scaled(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            whole: Any = ast.parse(f"__import__({__name__!r}, fromlist=['scaled']).scaled(x)").body[0]
            whole.value.args = [node.value]
            node.value = whole.value


def _scaled(i: int, side: str) -> Callable[[ast.Module], None]:
    def change(tree: ast.Module) -> None:
        number: Any = getattr(list(ast.walk(tree))[i], side)
        number.value = 0.9 * number.value

    return change


def _without(i: int, side: str) -> Callable[[ast.Module], None]:
    def change(tree: ast.Module) -> None:
        node: Any = list(ast.walk(tree))[i]
        kept = node.right if side == "left" else node.left
        node.op, node.left, node.right = ast.Mult(), kept, ast.Constant(1)

    return change


def _compiled(tree: ast.Module, honest: Any) -> Any:
    definition: Any = tree.body[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.While):  # a mutant may never end
            node.body[:0] = ast.parse(f"__import__({__name__!r}, fromlist=['tick']).tick()").body
    definition.decorator_list = []
    names: dict[str, Any] = {}
    future = ast.parse("from __future__ import annotations").body
    module = ast.fix_missing_locations(ast.Module([*future, definition], []))
    exec(compile(module, "<mutant>", "exec"), honest.__globals__, names)
    return names[honest.__name__].__code__


@contextmanager
def in_place(function: Any, code: Any) -> Iterator[None]:
    """The function with this code, wherever it is used; nothing that it has returned before is kept."""
    target = plain(function)
    honest = target.__code__
    _forget(function)
    TICKS.clear()
    target.__code__ = code
    try:
        yield
    finally:
        target.__code__ = honest
        _forget(function)


def _forget(function: Any) -> None:
    getattr(function, "cache_clear", lambda: None)()


def tick() -> None:
    """Count a turn of a loop, and end one that is endless."""
    TICKS.append(None)
    if len(TICKS) > MOST_TICKS:
        raise RuntimeError("an endless loop")


def scaled(value: Any) -> Any:
    """0.9 of every number in what a bound returns."""
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, list | tuple):
        parts = [scaled(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return 0.9 * value
