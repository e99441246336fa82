"""`python -m resetfree.show.studio.report_jobs TARGET RUN...`: one report (.html) or film (.gif), within bounds, in a
separate process.

A run file is untrusted data: whatever it does to the process that draws it, the games in the studio are not affected.
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
from resetfree.runs.learn import load
from resetfree.show.film.game_film import film_game
from resetfree.show.report.html import write_report
from resetfree.show.studio import limits

LOOK = 1.0  # seconds between two checks that the studio is still there


def command(runs: Sequence[Path], target: Path) -> list[str]:
    """The command line that writes a page about these runs, or a film of them."""
    return [sys.executable, "-m", "resetfree.show.studio.report_jobs", str(target), *map(str, runs)]


def bound(memory: int, seconds: float) -> None:
    """Limit the memory (bytes) and processor time (seconds) of this process, where the system can."""
    with suppress(ImportError):
        import resource

        for name, most in (("AS", memory), ("CPU", int(seconds) + 1), ("CORE", 0)):
            kind = getattr(resource, f"RLIMIT_{name}", None)
            if kind is not None:
                with suppress(ValueError, OSError):  # the system knows a lower bound, or none
                    resource.setrlimit(kind, (most, most))


def main(target: str, *runs: str) -> int:
    """Write the report or the film; status 0 done, 2 with one sentence on standard error."""
    bound(limits.REPORT_MEMORY, limits.REPORT_SECONDS)
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    try:
        if target.endswith(".gif"):
            film_game([load(run) for run in runs], Path(target))
        else:
            write_report(runs, target)
    except ResetFreeError as error:
        print(error, file=sys.stderr)
        return 2
    except MemoryError:
        print(f"It needs more than {limits.REPORT_MEMORY / 2**30:g} GB of memory.", file=sys.stderr)
        return 2
    return 0


def _follow(parent: int) -> None:
    """End this process when the studio was killed: the page would never be read."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
