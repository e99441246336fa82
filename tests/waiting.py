"""Waiting for other threads and processes, and surroundings in which processes find the tests: one place for all."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[1]
LONG = 300.0  # seconds that a busy computer may need for anything
T = TypeVar("T")


def until(good: Callable[[], T], pause: float = 0.01) -> T:
    """Wait for something that will be so, and return it."""
    end = time.monotonic() + LONG
    while not (found := good()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(pause)
    return found


def appear(path: Path, process: "subprocess.Popen[Any] | None" = None) -> Path:
    """Wait for a file that a process makes before it ends."""

    def there() -> bool:
        assert path.exists() or process is None or process.poll() is None, process.communicate()
        return path.exists()

    until(there)
    return path


def surroundings(**more: str) -> dict[str, str]:
    """Variables for a process that imports tests, and the package from where this process has it."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]), **more}


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except OSError:  # it has just ended
            continue
    return found


def is_gone(pid: int) -> bool:
    """Whether a process that is no child of ours has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
