"""The tree is what it says: nine rooms, imports that point one way, and a core that is quick to import."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import resetfree
from resetfree.game.contract import Player
from resetfree.players import FAMILIES, NAMES_PLAYER

SRC = Path(resetfree.__file__).parent
# Each room may import those before it, and itself.
ROOMS = ("core", "problems", "game", "theory", "players", "use", "runs", "studies", "show")
# What an extra brings. Modules that cannot be imported without it may be imported where it is needed.
OPTIONAL = {"jax", "ray", "pyarrow", "starlette", "uvicorn", "tensorboardX", "optax", "serial", "wandb", "mlflow"}


class Import(NamedTuple):
    """One name that a module imports."""

    module: str  # the importing one, dotted, without the package's own name
    target: str  # the imported module, in full
    name: str | None
    late: bool  # inside a function


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in SRC.rglob("*.py"):
        parts = path.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str) -> tuple[Import, ...]:
    tree = ast.parse(modules()[module].read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    late = {id(node) for function in functions for node in ast.walk(function)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: imports are written in full"
            found += [Import(module, node.module or "", alias.name, id(node) in late) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [Import(module, alias.name, None, id(node) in late) for alias in node.names]
    return tuple(found)


def inside(one: Import) -> str | None:
    """Which of our modules is imported, if it is one."""
    top, _, rest = one.target.partition(".")
    if top != "resetfree":
        return None
    full = f"{rest}.{one.name or ''}".strip(".")
    return full if full in modules() else rest


def ours() -> Iterator[tuple[Import, str]]:
    """Every import of one of our modules by another."""
    for module in modules():
        for one in imports(module):
            if (target := inside(one)) is not None:
                yield one, target


@cache
def optional(module: str) -> bool:
    """Whether a module cannot be imported without an extra."""
    for one in imports(module):
        target = inside(one)
        if not one.late and (one.target.split(".")[0] in OPTIONAL or (target and optional(target))):
            return True
    return False


def test_there_are_nine_rooms() -> None:
    tops = {p.name for p in SRC.iterdir() if p.suffix == ".py" or next(p.rglob("*.py"), None)}
    assert tops == {*ROOMS, "__init__.py"}


def test_imports_point_one_way() -> None:
    rank = {room: i for i, room in enumerate(ROOMS)}
    top = "show"  # the command line is written against the public surface
    wrong = [
        f"{one.module} imports {target or 'resetfree'}"
        for one, target in ours()
        if one.module and rank[one.module.split(".")[0]] < rank.get(target.split(".")[0], rank[top])
    ]
    assert not wrong


def test_nothing_is_imported_late_but_what_needs_an_extra() -> None:
    wrong = [f"{one.module} imports {target}" for one, target in ours() if one.late and not optional(target)]
    assert not wrong


def test_no_module_imports_in_a_circle() -> None:
    known = modules()
    edges: dict[str, set[str]] = {module: set() for module in known}
    for one, target in ours():
        if one.module != target and one.module:
            edges[one.module].add(target)
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for other in sorted(edges[module]):
                visit(other, (*path, module))
            done.add(module)

    for module in known:
        visit(module, ())


def test_no_module_imports_what_another_keeps_for_itself() -> None:
    private = re.compile(r"_[a-z]\w*")
    wrong = [f"{one.module} imports {one.target}.{one.name}" for one, _ in ours() if private.fullmatch(one.name or "")]
    assert not wrong


def test_tests_import_from_the_package_what_is_public_there() -> None:
    """`rf.Episode`, not the module that it happens to lie in; the fuzz counts what importing a module does."""
    wrong = []
    for path in (path for path in Path(__file__).parent.rglob("*.py") if "fuzz" not in path.parts):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("resetfree."):
                module = importlib.import_module(node.module or "")
                names = {alias.name for alias in node.names}.intersection(resetfree.__all__)
                wrong += [f"{path}: {name}" for name in names if getattr(module, name) is getattr(resetfree, name)]
    assert not wrong


def test_no_file_is_too_long_to_read() -> None:
    assert not [p.name for p in SRC.rglob("*.py") if len(p.read_text().splitlines()) > 450]


def test_importing_the_package_leaves_slow_libraries_alone() -> None:
    """matplotlib and scipy.optimize take more than a second together; only the commands that need them import them."""
    code = "import sys, resetfree; print([m for m in ('matplotlib', 'scipy.optimize') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_no_module_of_ours_pickles_or_evaluates() -> None:
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"} & set(names), path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile"), path
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load"):
                assert any(k.arg == "allow_pickle" and ast.unparse(k.value) == "False" for k in node.keywords), path


@cache
def player_modules() -> set[str]:
    """The modules that define a player."""
    families = {f"players.{family}" for role in FAMILIES.values() for family in role}
    inside = {module: path for module, path in modules().items() if module.rpartition(".")[0] in families}
    return {module for module, path in inside.items() if NAMES_PLAYER.search(path.read_text())}


@cache
def players() -> tuple[set[str], set[str]]:
    """Registered names and class names of all players."""
    names, classes = set(), set()
    for module in modules():
        if module not in player_modules():
            continue
        for cls in vars(importlib.import_module(f"resetfree.{module}")).values():
            if isinstance(cls, type) and issubclass(cls, Player) and isinstance(vars(cls).get("name"), str):
                names.add(cls.name)
                classes.add(cls.__name__)
    return names, classes


def named(text: str) -> set[str]:
    """The players that a text names: by a name with a hyphen anywhere, by one that is an ordinary word in quotes."""
    found = set()
    for name in players()[0]:
        quoted = rf"""(?:^|["'`]){re.escape(name)}(?:$|["'`])"""
        anywhere = rf"(?<![\w-]){re.escape(name)}(?![\w+-])"
        if re.search(anywhere if "-" in name else quoted, text):
            found.add(name)
    return found


def namings(path: Path) -> Iterator[str]:
    """Every place in a file that names a player: its module, its class or its name, in docstrings as well."""
    where = path.relative_to(SRC)
    if path.suffix != ".py":
        yield from (f"{where}: {name}" for name in named(path.read_text()))
        return
    for node in ast.walk(ast.parse(path.read_text())):
        found: set[str] = set()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = named(node.value)
        elif isinstance(node, ast.Name | ast.Attribute):
            found = {node.id if isinstance(node, ast.Name) else node.attr} & players()[1]
        elif isinstance(node, ast.ImportFrom | ast.Import):
            full = [alias.name for alias in node.names]
            full = [f"{node.module}.{name}" for name in full] if isinstance(node, ast.ImportFrom) else full
            known = {f"resetfree.{module}" for module in player_modules()}
            found = {name for name in full if name in known or name.rpartition(".")[0] in known}
        yield from (f"{where}:{getattr(node, 'lineno', 0)}: {name}" for name in found)


def test_nothing_outside_of_players_names_a_player() -> None:
    """What others need of a player it says itself (`game.capabilities`), so that adding one is adding one file."""
    texts = [path for path in SRC.rglob("*") if path.suffix in (".py", ".js", ".html")]
    assert not [place for path in texts if path.relative_to(SRC).parts[0] != "players" for place in namings(path)]


def test_a_named_player_is_found_wherever_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard above sees all the ways to name one, and no ordinary word."""
    players()  # of the package itself
    monkeypatch.setattr(sys.modules[__name__], "SRC", tmp_path)
    file = tmp_path / "show.py"
    for text, many in {
        "from resetfree.players.dual.one_multiplier import anything": 1,
        "import resetfree.players.dual.one_multiplier": 1,
        "from resetfree.players.linear import linear_ucb": 1,
        "x = LinearUCB": 1,
        "x = module.Search()": 1,
        "x = name == 'search'": 1,
        '"""Play it as `uniform`."""': 1,
        '"""Beside linear-ucb and its dual."""': 1,
        '"""A uniform search, and how far it is from searching."""': 0,
        "from resetfree.players import discover": 0,
        "x = 'counting resets'": 0,
    }.items():
        file.write_text(text)
        assert len(list(namings(file))) == many, text
