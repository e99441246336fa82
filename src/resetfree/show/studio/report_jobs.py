"""`python -m resetfree.show.studio.report_jobs PAGE RUN...`: one report, within bounds, in a process of its own.

A run file is somebody else's data. Whatever it makes of the process that draws it, the games go on in another one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from resetfree.core.errors import ResetFreeError
from resetfree.show.report.html import write_report
from resetfree.show.studio import limits

LOOK = 1.0  # seconds between two looks at who started us


def command(runs: Sequence[Path], page: Path) -> list[str]:
    """What makes a page of these runs."""
    return [sys.executable, "-m", "resetfree.show.studio.report_jobs", str(page), *map(str, runs)]


def bound(memory: int, seconds: float) -> None:
    """Ask the system to hold this process to so much memory and processor time, where it can."""
    with suppress(ImportError):
        import resource

        for name, most in (("AS", memory), ("CPU", int(seconds) + 1), ("CORE", 0)):
            kind = getattr(resource, f"RLIMIT_{name}", None)
            if kind is not None:
                with suppress(ValueError, OSError):  # the system knows a lower bound, or none
                    resource.setrlimit(kind, (most, most))


def main(page: str, *runs: str) -> int:
    """Make it: 0 done, 2 with one sentence."""
    bound(limits.REPORT_MEMORY, limits.REPORT_SECONDS)
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    try:
        write_report(runs, page)
    except ResetFreeError as error:
        print(error, file=sys.stderr)
        return 2
    except MemoryError:
        print(f"The report needs more than {limits.REPORT_MEMORY / 2**30:g} GB of memory.", file=sys.stderr)
        return 2
    return 0


def _follow(parent: int) -> None:
    """End when the studio was killed: nobody would ever read the page."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
