"""Figures of the source tree: `python benchmarks/tree.py [SRC ...]`, a column for each tree.

For the figures of docs/architecture.md: check out the older commit elsewhere and name both `src/resetfree`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

MANY = 5  # the most positional arguments that a reader can distinguish
NAMES = re.compile(r"^    name(?:: ClassVar\[str\])? = \"([a-z0-9-]+)\"", re.M)


class Tree:
    """A package, parsed once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = {path: path.read_text() for path in sorted(root.rglob("*.py"))}
        self.trees = {path: ast.parse(text) for path, text in self.files.items()}

    def nodes(self) -> Iterator[tuple[Path, ast.AST]]:
        """Every node of every module."""
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                yield path, node

    def functions(self) -> Iterator[tuple[Path, ast.FunctionDef]]:
        """Every function."""
        for path, node in self.nodes():
            if isinstance(node, ast.FunctionDef):
                yield path, node


def top_nodes(tree: Tree) -> int:
    """Files and folders directly in the package."""
    return len([p for p in tree.root.iterdir() if p.name != "__pycache__"])


def lines(tree: Tree) -> int:
    """Lines of Python."""
    return sum(len(text.splitlines()) for text in tree.files.values())


def code_lines(tree: Tree) -> int:
    """Lines of code: without imports, docstrings, comments and blank lines."""
    code = 0
    for path, text in tree.files.items():
        numbered = enumerate(text.splitlines(), 1)
        left = {n for n, line in numbered if line.strip() and not line.strip().startswith("#")}
        for node in ast.walk(tree.trees[path]):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
                left -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
            elif isinstance(node, ast.Import | ast.ImportFrom):
                left -= set(range(node.lineno, (node.end_lineno or 0) + 1))
        code += len(left)
    return code


def shared_file_names(tree: Tree) -> int:
    """File names that are used more than once."""
    names = Counter(path.name for path in tree.files if not path.name.startswith("__"))
    return sum(n > 1 for n in names.values())


def shared_class_names(tree: Tree) -> int:
    """Public classes that share their name with another."""
    names = Counter(node.name for _, node in tree.nodes() if isinstance(node, ast.ClassDef))
    return sum(n for name, n in names.items() if n > 1 and not name.startswith("_"))


def long_calls(tree: Tree) -> int:
    """Calls with more than five arguments by position."""
    return sum(isinstance(node, ast.Call) and len(node.args) > MANY for _, node in tree.nodes())


def longest_call(tree: Tree) -> int:
    """Arguments by position of the longest call."""
    return max(len(node.args) for _, node in tree.nodes() if isinstance(node, ast.Call))


def late_imports(tree: Tree) -> int:
    """Imports of the package's own modules inside functions."""
    found = {
        (path, inner.lineno)
        for path, function in tree.functions()
        for inner in ast.walk(function)
        if isinstance(inner, ast.ImportFrom | ast.Import)
        for name in ([inner.module or ""] if isinstance(inner, ast.ImportFrom) else [a.name for a in inner.names])
        if name.split(".")[0] == "resetfree"
    }
    return len(found)


def skipped_formatting(tree: Tree) -> int:
    """Places that the formatter leaves alone."""
    return sum(len(re.findall(r"# fmt: (?:skip|off)", text)) for text in tree.files.values())


def named_players(tree: Tree) -> int:
    """Modules outside `players` that name a player: its class, its module or its registered name."""
    inside = {path: text for path, text in tree.files.items() if "players" in path.relative_to(tree.root).parts}
    names = {name for text in inside.values() for name in NAMES.findall(text)}
    classes = {
        node.name
        for path in inside
        for node in ast.walk(tree.trees[path])
        if isinstance(node, ast.ClassDef) and any("Player" in ast.unparse(base) for base in node.bases)
    }
    found = set()
    for path, node in tree.nodes():
        if path in inside:
            continue
        text = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
        word = isinstance(node, ast.Name) and node.id in classes
        if text or word:
            found.add(path)
    return len(found)


def raises(tree: Tree) -> int:
    """Hand-written refusals of input."""
    return sum(
        isinstance(node, ast.Raise) and node.exc is not None and ast.unparse(node.exc).startswith("InvalidInput")
        for _, node in tree.nodes()
    )


def largest_function(tree: Tree) -> int:
    """Lines of the longest function, without its docstring."""

    def size(node: ast.FunctionDef) -> int:
        first = node.body[1] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body[0]
        return (node.end_lineno or 0) - first.lineno + 1

    return max(size(node) for _, node in tree.functions())


def largest_file(tree: Tree) -> int:
    """Lines of the longest module."""
    return max(len(text.splitlines()) for text in tree.files.values())


MEASURES: tuple[Callable[[Tree], int], ...] = (
    top_nodes,
    lines,
    code_lines,
    shared_file_names,
    shared_class_names,
    long_calls,
    longest_call,
    late_imports,
    skipped_formatting,
    named_players,
    raises,
    largest_function,
    largest_file,
)


def main(roots: list[str]) -> None:
    trees = [Tree(Path(root)) for root in roots or ["src/resetfree"]]
    for measure in MEASURES:
        what = (measure.__doc__ or "").rstrip(".")
        print(f"| {what:<75} | {' | '.join(f'{measure(tree):>6}' for tree in trees)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
