"""Figures of the source tree, and a budget for each that may only fall.

    python benchmarks/tree.py [SRC ...]                  a column for each tree (`src/resetfree` of other check-outs)
    python benchmarks/tree.py --check budgets.toml       exit 1 if a figure is above its budget, or far below it
    python benchmarks/tree.py --tighten budgets.toml     lower each budget to its figure; none is ever raised
    python benchmarks/tree.py --docs docs/architecture.md    print the figures into the page, between its two marks

`make lint` runs the check. Whoever needs a larger budget edits the file by hand, and the diff shows it.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

PACKAGE = "resetfree"
MANY = 5  # the most positional arguments that a reader can distinguish
SLACK = 0.03  # a budget further above its figure than this share is lowered
NAMES = re.compile(r"^    name(?:: ClassVar\[str\])? = \"([a-z0-9-]+)\"", re.M)
START, END = "<!-- figures: benchmarks/tree.py -->", "<!-- end of figures -->"
# Runs a command in the package whose path is given, and counts the package's files with a function that ran before
# the first episode began (importing a file does not count: a reader follows calls).
TRACE = """
import os, sys
src = sys.argv[1]
sys.path.insert(0, os.path.dirname(src))
seen = set()
class Played(BaseException): pass
def watch(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(src) and code.co_name not in ("<module>", "<lambda>"):
        if code.co_name == "rollout":
            raise Played
        if not frame.f_back or frame.f_back.f_code.co_name != "<module>":
            seen.add(code.co_filename)
from resetfree.show.cli import main
sys.argv = ["resetfree", "run", "grid-v0", "--episodes", "5", "--json", "--out", sys.argv[2]]
sys.setprofile(watch)
try:
    main()
except (Played, SystemExit):
    pass
finally:
    sys.setprofile(None)
    print("files", len(seen))
"""


class Tree:
    """A package, parsed once."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.files = {path: path.read_text() for path in sorted(self.root.rglob("*.py"))}
        self.trees = {path: ast.parse(text) for path, text in self.files.items()}

    @property
    def project(self) -> Path:
        """The folder of the check-out."""
        return self.root.parent.parent

    @cached_property
    def inner(self) -> dict[Path, list[ast.AST]]:
        """All nodes of each module."""
        return {path: list(ast.walk(tree)) for path, tree in self.trees.items()}

    def nodes(self) -> Iterator[tuple[Path, ast.AST]]:
        """Every node of every module."""
        return ((path, node) for path, nodes in self.inner.items() for node in nodes)

    def functions(self, *rooms: str) -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
        """Every function, or those of some rooms."""
        for path, node in self.nodes():
            room = not rooms or path.relative_to(self.root).parts[0] in rooms
            if room and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node

    @cached_property
    def modules(self) -> dict[str, Path]:
        """The dotted name of each module, without the package's own."""
        found = {}
        for path in self.files:
            parts = path.relative_to(self.root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        return found

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """Which of our modules each module imports."""
        found: dict[str, set[str]] = {module: set() for module in self.modules}
        for module, path in self.modules.items():
            for node in self.inner[path]:
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
                    rest = (node.module or "").partition(".")[2]
                    for alias in node.names:
                        full = f"{rest}.{alias.name}".strip(".")
                        found[module].add(full if full in self.modules else rest)
        return found

    def import_lines(self, path: Path) -> set[int]:
        """Numbers of the lines that import something."""
        found: set[int] = set()
        for node in self.inner[path]:
            if isinstance(node, ast.Import | ast.ImportFrom):
                found |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        return found

    @cached_property
    def code(self) -> int:
        """Lines without imports, docstrings, comments and blanks."""
        count = 0
        for path, text in self.files.items():
            numbered = enumerate(text.splitlines(), 1)
            left = {n for n, line in numbered if line.strip() and not line.strip().startswith("#")}
            for node in self.inner[path]:
                if (
                    isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
                    and ast.get_docstring(node) is not None
                ):
                    left -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
            count += len(left - self.import_lines(path))
        return count


def files(tree: Tree) -> int:
    """Files in the package."""
    return len(tree.files)


def code_lines(tree: Tree) -> int:
    """Lines of code: without imports, docstrings, comments and blank lines."""
    return tree.code


def import_share(tree: Tree) -> float:
    """Import lines, in percent of the lines of code."""
    return round(100 * sum(len(tree.import_lines(path)) for path in tree.files) / tree.code, 1)


def lone_importers(tree: Tree) -> int:
    """Modules whose only importer lies outside their folder."""
    importers: dict[str, set[str]] = {module: set() for module in tree.modules}
    for module, targets in tree.imports.items():
        for target in targets - {module}:
            importers.setdefault(target, set()).add(module)

    def folder(module: str) -> Path:
        return tree.modules[module].parent

    return sum(
        len(by) == 1 and not tree.modules[module].name.startswith("__") and folder(*by) != folder(module)
        for module, by in importers.items()
    )


def _to_read(tree: Tree, player: str) -> int:
    """Player modules that the module of one player imports, directly or through others, and itself."""
    mark = re.compile(rf"^    name(?:: ClassVar\[str\])? = \"{player}\"", re.M)
    todo = [module for module, path in tree.modules.items() if mark.search(tree.files[path])]
    done: set[str] = set()
    while todo:
        module = todo.pop()
        if module.startswith("players.") and module not in done:
            done.add(module)
            todo += tree.imports[module]
    return len(done)


def modules_of_sac(tree: Tree) -> int:
    """Player modules that `sac` reaches through imports, itself included."""
    return _to_read(tree, "sac")


def modules_of_linear_ucb(tree: Tree) -> int:
    """Player modules that `linear-ucb` reaches through imports, itself included."""
    return _to_read(tree, "linear-ucb")


def files_before_round_1(tree: Tree) -> int:
    """Files with a function that runs in `run grid-v0` before the first episode."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", TRACE, str(tree.root), f"{folder}/run.sqlite"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"files (\d+)", done.stdout)
    if found is None:
        raise SystemExit(f"`run grid-v0` could not be traced: {done.stderr[-400:]}")
    return int(found[1])


def widest_function(tree: Tree) -> int:
    """Parameters of the widest function in `runs` and `show`."""

    def width(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        a = node.args
        return len([arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs) if arg.arg not in ("self", "cls")])

    return max(width(node) for _, node in tree.functions("runs", "show"))


def largest_function(tree: Tree) -> int:
    """Lines of the longest function, without its docstring."""

    def size(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        first = node.body[1] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body[0]
        return (node.end_lineno or 0) - first.lineno + 1

    return max(size(node) for _, node in tree.functions())


def largest_file(tree: Tree) -> int:
    """Lines of the longest module."""
    return max(len(text.splitlines()) for text in tree.files.values())


def shared_class_names(tree: Tree) -> int:
    """Public classes that share their name with another."""
    names = Counter(node.name for _, node in tree.nodes() if isinstance(node, ast.ClassDef))
    return sum(n for name, n in names.items() if n > 1 and not name.startswith("_"))


def long_calls(tree: Tree) -> int:
    """Calls with more than five arguments by position, outside kernels."""
    compiled = {
        node.name
        for _, node in tree.functions()
        if any(re.search(r"jit|compile|kernel", ast.unparse(mark)) for mark in node.decorator_list)
    }  # they take arguments by position only

    def name(call: ast.Call) -> str:
        return ast.unparse(call.func).split(".")[-1]

    calls = (node for _, node in tree.nodes() if isinstance(node, ast.Call) and len(node.args) > MANY)
    return sum(name(call) not in compiled for call in calls)


def late_imports(tree: Tree) -> int:
    """Imports of the package's own modules inside functions."""
    found = {
        (path, inner.lineno)
        for path, function in tree.functions()
        for inner in ast.walk(function)
        if isinstance(inner, ast.ImportFrom | ast.Import)
        for name in ([inner.module or ""] if isinstance(inner, ast.ImportFrom) else [a.name for a in inner.names])
        if name.split(".")[0] == PACKAGE
    }
    return len(found)


def refusals(tree: Tree) -> int:
    """Hand-written refusals of input."""
    return sum(
        isinstance(node, ast.Raise) and node.exc is not None and ast.unparse(node.exc).startswith("InvalidInput")
        for _, node in tree.nodes()
    )


def named_players(tree: Tree) -> int:
    """Modules outside `players` that name a player: its class or its registered name."""
    inside = {path: text for path, text in tree.files.items() if "players" in path.relative_to(tree.root).parts}
    names = {name for text in inside.values() for name in NAMES.findall(text)}
    classes = {
        node.name
        for path in inside
        for node in tree.inner[path]
        if isinstance(node, ast.ClassDef) and any("Player" in ast.unparse(base) for base in node.bases)
    }
    found = set()
    for path, node in tree.nodes():
        text = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
        word = isinstance(node, ast.Name) and node.id in classes
        if path not in inside and (text or word):
            found.add(path)
    return len(found)


def test_lines(tree: Tree) -> int:
    """Lines of the tests."""
    return sum(len(path.read_text().splitlines()) for path in (tree.project / "tests").rglob("*.py"))


MEASURES: tuple[Callable[[Tree], float], ...] = (
    files,
    code_lines,
    import_share,
    lone_importers,
    modules_of_sac,
    modules_of_linear_ucb,
    files_before_round_1,
    widest_function,
    largest_function,
    largest_file,
    shared_class_names,
    long_calls,
    late_imports,
    refusals,
    named_players,
    test_lines,
)


def figures(tree: Tree) -> dict[str, float]:
    """Every figure of a tree, by the name of its measure."""
    return {measure.__name__: measure(tree) for measure in MEASURES}


def findings(found: dict[str, float], budgets: dict[str, float]) -> list[str]:
    """One sentence for each figure that does not fit its budget."""
    said = [f"No budget for '{name}', which is {found[name]:g}." for name in found if name not in budgets]
    said += [f"A budget for '{name}', which nothing measures." for name in budgets if name not in found]
    for name in found.keys() & budgets.keys():
        figure, budget = found[name], budgets[name]
        if figure > budget:
            said.append(f"'{name}' is {figure:g}, above its budget of {budget:g}.")
        elif figure < budget * (1 - SLACK):
            said.append(f"'{name}' fell to {figure:g}: lower its budget of {budget:g} (--tighten).")
    return said


def tightened(text: str, found: dict[str, float]) -> str:
    """The file of budgets with each budget lowered to its figure; comments and order stay."""

    def lower(line: re.Match[str]) -> str:
        name, budget = line[1], float(line[2])
        return f"{name} = {min(budget, found.get(name, budget)):g}"

    return re.sub(r"^(\w+) = ([\d.]+)", lower, text, flags=re.M)


def table(columns: list[dict[str, float]], heads: list[str]) -> str:
    """A table in Markdown: a row for each measure, a column for each tree."""
    rows = [f"| what | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for measure in MEASURES:
        what = (measure.__doc__ or "").rstrip(".")
        rows.append(f"| {what} | {' | '.join(f'{column[measure.__name__]:g}' for column in columns)} |")
    return "\n".join(rows)


def with_figures(page: str, found: dict[str, float]) -> str:
    """The page with the figures between its two marks."""
    before, rest = page.split(START)
    _, after = rest.split(END)
    return f"{before}{START}\n{table([found], ['now'])}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", type=Path, default=[Path(__file__).parent.parent / "src" / PACKAGE])
    parser.add_argument("--check", type=Path, metavar="BUDGETS")
    parser.add_argument("--tighten", type=Path, metavar="BUDGETS")
    parser.add_argument("--docs", type=Path, metavar="PAGE")
    given = parser.parse_args()
    found = [figures(Tree(source)) for source in given.sources]
    if given.check:
        wrong = findings(found[0], tomllib.loads(given.check.read_text()))
        print("\n".join(wrong) or f"All {len(MEASURES)} figures of the tree are within their budgets.")
        raise SystemExit(bool(wrong))
    if given.tighten:
        given.tighten.write_text(tightened(given.tighten.read_text(), found[0]))
    if given.docs:
        given.docs.write_text(with_figures(given.docs.read_text(), found[0]))
    if not given.tighten and not given.docs:
        print(table(found, [str(source) for source in given.sources]))


if __name__ == "__main__":
    main()
