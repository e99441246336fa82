"""A package of somebody else's: modules and the metadata that an installer leaves beside them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import resetfree

SRC = Path(resetfree.__file__).parents[1]


def install(
    folder: Path,
    files: Mapping[str, str],
    points: Mapping[str, Mapping[str, str]],
    *,
    name: str = "mine",
    requires: tuple[str, ...] = (),
) -> Path:
    """Put a distribution into a folder as pip would, and return the folder."""
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    extras = {line.rpartition("== ")[2].strip("'\"") for line in requires if "extra ==" in line}
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
    lines += [f"Provides-Extra: {extra}" for extra in sorted(extras)] + [f"Requires-Dist: {line}" for line in requires]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    groups = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in own.items()) for group, own in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    return folder


def python(code: str, *paths: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own that sees these folders first."""
    path = os.pathsep.join(map(str, [*paths, SRC]))
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, env={**os.environ, "PYTHONPATH": path}
    )
