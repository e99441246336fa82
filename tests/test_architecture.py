"""The tree is what it says: imports point one way, and the core stays quick to import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import resetfree

SRC = Path(resetfree.__file__).parent
# Each layer may import those before it, and itself only where it is a folder.
LAYERS = [
    ["errors", "interrupts", "rational", "kernels"],
    ["arguments"],
    ["certificate", "transitions", "state", "widths"],
    ["finite", "sets", "features", "operators"],
    ["policy", "grids", "registry"],
    ["problem", "contexts"],
    ["oracle", "game"],
    ["assumptions"],
    ["envs", "gym", "players", "nonepisodic", "choosing", "diagnostics"],
    ["regret", "algorithm1", "resolve"],
    ["theorems", "lemmas", "counterexamples"],
    ["runs"],
    ["certify"],
    ["deploy"],
    ["batched"],
    ["experiments", "tracking"],
    ["report"],
    ["sweeps"],
    ["studio"],
    ["cli", "__init__"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# What must be imported late because it lies above: the simulator made from a model, discovery, a run's certificates.
LATE = {
    ("finite", "problem"),
    ("registry", "envs"),
    ("counterexamples", "registry"),
    ("runs", "certify"),
    ("runs", "deploy"),
}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("resetfree"):
            parts = (node.module or "").split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names if alias.name in RANK}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("resetfree.")}
    return found


def test_imports_point_one_way() -> None:
    wrong = []
    for path in SRC.rglob("*.py"):
        top = path.relative_to(SRC).parts[0].removesuffix(".py")
        for other in imports(path):
            if other != top and (top, other) not in LATE and RANK[other] >= RANK[top]:
                wrong.append(f"{path.relative_to(SRC)} imports {other}")
    assert not wrong


def test_every_module_has_a_place() -> None:
    tops = {p.name.removesuffix(".py") for p in SRC.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert tops == set(RANK)


def test_no_file_is_too_long_to_read() -> None:
    assert not [p.name for p in SRC.rglob("*.py") if len(p.read_text().splitlines()) > 450]


def test_importing_the_package_leaves_slow_libraries_alone() -> None:
    """matplotlib and scipy.optimize take more than a second together; only the commands that need them import them."""
    code = "import sys, resetfree; print([m for m in ('matplotlib', 'scipy.optimize') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_no_player_imports_another_player() -> None:
    """What players share lies in files that begin with an underscore; a baseline may build on the player it varies."""
    wrong = []
    for path in (SRC / "players").rglob("*.py"):
        if path.name.startswith("_") or path.parent.name not in ("primal", "dual"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            module = getattr(node, "module", None) or ""
            if re.match(r"resetfree\.players\.(primal|dual)\.[a-z]", module):
                wrong.append(f"{path.name} imports {module}")
    assert not wrong
