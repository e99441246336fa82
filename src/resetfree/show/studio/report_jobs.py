"""`python -m resetfree.show.studio.report_jobs TARGET RUN...`: one report (.html) or film (.gif), within bounds, in a
separate process; and the film of a game: lanes on the same problem side by side, episode by episode.

A run file is untrusted data: whatever it does to the process that draws it, the games in the studio are not affected.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from resetfree.core.errors import InvalidInput, ResetFreeError
from resetfree.runs.file import runfile
from resetfree.runs.file.recorded import check_episode
from resetfree.runs.learn import load
from resetfree.runs.result import Run
from resetfree.show.report import write_report
from resetfree.show.report.film_files import Frame, check_film, spread, write_film
from resetfree.show.report.filming import Film, film_run
from resetfree.show.report.pictures import Picture, drawn_map, with_agent
from resetfree.show.report.style import BLUE, INK, ORANGE, PIT
from resetfree.show.studio import limits

AT_AN_END = 4  # episodes at the start and at the end that are shown
BETWEEN = 8  # episodes between them, those in which some lane was reset
MOST_STEPS = 30  # frames of an episode, at most
SIDE = 340  # pixels of a lane
HEAD, GAP = 40, 12  # pixels above a lane, and between two
COLOURS = (BLUE, ORANGE)


def film_game(runs: Sequence[Run], path: Path) -> Film:
    """Write the film of a game: of one lane that of its run, of several all lanes side by side."""
    if len(runs) == 1:
        return film_run(runs[0], path)
    check_film(path)
    if any(run.mdp is None or run.mdp.layout is None for run in runs):
        raise InvalidInput("The lanes of a game are filmed on a map, and this problem has none.")
    shown = shown_episodes(runs)
    titles = tuple(f"episode {k:,}" for k in shown)
    return Film(write_film(list(_frames(runs, shown)), path), titles, "made again")


def shown_episodes(runs: Sequence[Run]) -> list[int]:
    """The first and the last episodes that all lanes have, and some between in which a lane was reset."""
    n = min(len(run) for run in runs)
    if not n:
        raise InvalidInput("A film needs a game of at least one episode. Got none instead.")
    ends = {*range(1, min(AT_AN_END, n) + 1), *range(max(n - AT_AN_END, 0) + 1, n + 1)}
    resets = np.flatnonzero(np.any([run.columns["reset"][:n] for run in runs], axis=0)) + 1
    between = [k for k in resets.tolist() if k not in ends]
    return sorted(ends | set(spread(between, BETWEEN)))


def _frames(runs: Sequence[Run], shown: Sequence[int]) -> Iterator[Frame]:
    lanes = [_Lane(run, colour) for run, colour in zip(runs, COLOURS, strict=False)]
    for k in shown:
        for lane in lanes:
            lane.take(k)
        longest = max(len(lane.states) for lane in lanes)
        steps = spread(range(longest), MOST_STEPS)
        for before, t in pairwise([-1, *steps]):
            lands = any(lane.reset and before < len(lane.states) - 1 <= t for lane in lanes)
            yield Frame(_side_by_side([lane.picture(t) for lane in lanes]), f"episode {k:,}", "", held=lands)


class _Lane:
    """One run of the game, and the episode of it that is shown."""

    def __init__(self, run: Run, colour: str) -> None:
        assert run.mdp is not None
        self._run, self._mdp, self._colour = run, run.mdp, colour
        self._problem, self._map = run.problem_again(), drawn_map(run.mdp, SIDE)
        self.states, self.reset, self._resets = list[int](), False, 0

    def take(self, k: int) -> None:
        """Read an episode from the record."""
        path = self._run.path
        if path is None:
            raise InvalidInput("Only run files can be filmed: give the runs a 'path' when they are made.")
        with runfile.reading(path) as connection:
            (played,) = runfile.read_played(connection, path, k, k)
        check_episode(self._problem, played)
        self.states, self.reset = played.episode.states.tolist(), played.episode.reset
        self._resets = int(self._run.realised_resets[k - 1])

    def picture(self, t: int) -> Picture:
        """The lane after t steps of the episode, under its name and its resets so far."""
        over = t >= len(self.states) - 1
        at_reset = self.reset and over
        field = with_agent(self._map, self._mdp, self.states[: t + 1], self._colour)
        if at_reset:
            ImageDraw.Draw(field).rectangle((0, 0, field.width - 1, field.height - 1), None, PIT, 4)
        page = Image.new("RGB", (max(field.width, 220), field.height + HEAD), "white")
        page.paste(field, ((page.width - field.width) // 2, HEAD))
        pen, resets = ImageDraw.Draw(page), self._resets - (self.reset and not over)
        pen.text((2, 9), str(self._run.spec["primal"]["name"])[:34], self._colour, ImageFont.load_default(15), "lm")
        words = f"{resets:,} reset{'' if resets == 1 else 's'} so far"
        pen.text((2, 28), words, PIT if at_reset else INK, ImageFont.load_default(13), "lm")
        return page


def _side_by_side(pictures: Sequence[Picture]) -> Picture:
    width = sum(one.width for one in pictures) + GAP * (len(pictures) - 1)
    page, x = Image.new("RGB", (width, max(one.height for one in pictures)), "white"), 0
    for one in pictures:
        page.paste(one, (x, 0))
        x += one.width + GAP
    return page


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
