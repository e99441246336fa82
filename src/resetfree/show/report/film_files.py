"""Films of runs: which moments of the first rollout, resets and the last rollout are shown, and a GIF or MP4 of them.

Legend: a rollout begins with a reset (or with the run) and ends at the next (or with the run); titles call it a life. A
moment (k, h) is the state after h actions of episode k. Since an episode begins where the one before ended, h = 0 only
begins rollouts.
"""

import importlib.util
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from resetfree.core.arguments import is_special
from resetfree.core.errors import InvalidInput, one_line
from resetfree.runs.result import Run
from resetfree.show.report.style import INK, PIT, written

MOST_FRAMES = 600  # of a film
MOST_RESETS = 10  # that are shown; of more, they are spread over the run
LONGEST_ROLLOUT = 200_000  # steps: the end of a longer rollout would take too long to play again
BEFORE_A_RESET = 40  # frames that lead to a reset, at most
AT_AN_END = 120  # frames of the first and of the last rollout, at most

Moment = tuple[int, int]


class FilmedRollout(NamedTuple):
    """Episodes from one reset to the next."""

    first: int  # its first episode, from 1
    last: int
    reset: bool  # whether it ended with a reset
    steps: int


class FilmScene(NamedTuple):
    """A part of a film."""

    title: str
    moments: tuple[Moment, ...]
    reset: bool  # whether its last moment is a reset


def rollouts_of(run: Run) -> list[FilmedRollout]:
    """The rollouts of a run, in order.

    >>> import resetfree as rf
    >>> [rollout[:3] for rollout in rollouts_of(rf.learn("grid-v0", episodes=6))]
    [(1, 1, True), (2, 4, True), (5, 5, True), (6, 6, False)]
    """
    resets = set((np.flatnonzero(run.columns["reset"]) + 1).tolist())
    requested = [
        one.k for one in run.interventions if 0 < one.k < len(run)
    ]  # also "resume" and "stuck" begin a rollout
    ends = sorted({*resets, *requested, *([len(run)] if len(run) else [])})
    steps = np.concatenate([[0], run.columns["steps"].cumsum()])
    return [
        FilmedRollout(first + 1, last, last in resets, int(steps[last] - steps[first]))
        for first, last in zip([0, *ends], ends, strict=False)
    ]


def scenes_of(run: Run) -> list[FilmScene]:
    """The scenes of a run's film, with at most `MOST_FRAMES` moments; raises InvalidInput for an empty run."""
    rollouts, steps = rollouts_of(run), run.columns["steps"]
    if not rollouts:
        raise InvalidInput("A film needs a run of at least one episode. Got none instead.")
    resets = [i for i, rollout in enumerate(rollouts) if rollout.reset]
    shown = spread(resets, MOST_RESETS)
    each = min(BEFORE_A_RESET, (MOST_FRAMES - 2 * AT_AN_END) // max(len(shown), 1))
    scenes = []
    if 0 not in shown or rollouts[0].steps > each:
        start = _moments(rollouts[0], steps, slice(0, min(AT_AN_END, rollouts[0].steps)))
        scenes.append(FilmScene("the first life", start, False))
    for number, i in enumerate(resets, 1):
        if i in shown:
            title = f"{'the first life, ' if i == 0 else ''}reset {number:,} of {len(resets):,}"
            scenes.append(FilmScene(title, _moments(rollouts[i], steps, slice(-each, None)), True))
    last = rollouts[-1]
    if not last.reset and len(rollouts) > 1:
        whole = last.steps <= LONGEST_ROLLOUT
        part = slice(-AT_AN_END, None) if whole else slice(0, AT_AN_END)
        scenes.append(
            FilmScene("the last life" if whole else "how the last life began", _moments(last, steps, part), False)
        )
    elif not last.reset and last.steps > AT_AN_END and last.steps <= LONGEST_ROLLOUT:
        scenes.append(FilmScene("how it ended", _moments(last, steps, slice(-AT_AN_END, None)), False))
    return scenes


def spread(these: Sequence[int], most: int) -> list[int]:
    """At most so many of them, the first and the last included.

    >>> spread([2, 3, 5, 8, 13], 3), spread([1], 3), spread([], 3)
    ([2, 5, 13], [1], [])
    """
    if len(these) <= most:
        return list(these)
    return [these[i] for i in np.linspace(0, len(these) - 1, most).round().astype(int).tolist()]


def _moments(rollout: FilmedRollout, steps: NDArray[Any], part: slice) -> tuple[Moment, ...]:
    """A part of the moments of a rollout, from 0 to its number of steps, without listing all of them."""
    ends = np.cumsum(steps[rollout.first - 1 : rollout.last])
    return tuple(_located(rollout, ends, range(rollout.steps + 1)[part]))


def _located(rollout: FilmedRollout, ends: NDArray[Any], at: Sequence[int]) -> Iterator[Moment]:
    for t in at:
        i = int(np.searchsorted(ends, t))  # the episode in which step t of the rollout lies
        yield rollout.first + i, t - (int(ends[i - 1]) if i else 0)


MOST_BYTES = 6_000_000  # of a film; a larger one is made again, smaller
STRIP = 24  # pixels of the caption
FRAME, HELD, LAST = 50, 900, 1500  # milliseconds: of a frame, of a reset, of the last frame
COLOURS = 128  # of a GIF
MARKS = {".gif": (0, b"GIF8"), ".mp4": (4, b"ftyp")}  # how these files begin, and where


class Frame(NamedTuple):
    """A picture, what it shows, whether it ends in a reset, and whether it is held for a moment as resets are."""

    picture: Image.Image
    left: str
    right: str
    reset: bool = False
    held: bool = False


class EncodedFilm(NamedTuple):
    """A film in memory."""

    content: bytes
    frames: int
    width: int
    height: int
    seconds: float  # that it takes to watch


class WrittenFilm(NamedTuple):
    """A film that was written."""

    path: Path
    frames: int
    width: int
    height: int
    bytes: int
    seconds: float  # that it takes to watch


def check_film(path: Path) -> None:
    """Refuse, before any work, a name that cannot become a film."""
    if path.suffix not in MARKS:
        raise InvalidInput(f"A film must be a .gif or an .mp4. Got '{path}' instead.")
    if path.suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise InvalidInput("An .mp4 needs an encoder: pip install imageio-ffmpeg, or name a .gif.")
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidInput(f"A film must go to a file in a folder that exists. Got '{path}' instead.")
    if path.exists():
        at, mark = MARKS[path.suffix]
        try:
            is_film = False
            if not is_special(path):
                with path.open("rb") as file:
                    is_film = file.read(at + len(mark))[at:] == mark
        except OSError as error:
            raise InvalidInput(f"The film '{path}' cannot be replaced: {error.strerror}.") from error
        if not is_film:
            raise InvalidInput(f"The file '{path}' exists and is not such a film: name another one (-o).")


def write_film(frames: Iterable[Frame], path: Path) -> WrittenFilm:
    """Write a film of at most `MOST_FRAMES` frames and `MOST_BYTES` bytes."""
    check_film(path)
    content, n, *about = encode(list(frames), path.suffix, MOST_BYTES)
    with written(path, "film") as draft:
        draft.write_bytes(content)
    width, height, seconds = about
    return WrittenFilm(path, n, int(width), int(height), bytes=len(content), seconds=seconds)


def encode(kept: Sequence[Frame], ending: str, most: int) -> EncodedFilm:
    """A film, ".gif" or ".mp4", of at most `MOST_FRAMES` frames and `most` bytes.

    If it has more bytes, every second of its frames and a quarter of its width are left out, again if need be.
    """
    if not kept or len(kept) > MOST_FRAMES:
        raise InvalidInput(f"A film must have from 1 to {MOST_FRAMES} frames. Got {len(kept)} instead.")
    scale = 1.0
    while True:
        pictures = _captioned(kept, scale)
        times = [HELD if one.reset or one.held else FRAME for one in kept[:-1]] + [LAST]
        content = (_gif if ending == ".gif" else _mp4)(pictures, times)
        if len(content) <= most:
            return EncodedFilm(content, len(kept), *pictures[0].size, sum(times) / 1000)
        if len(kept) < 20:
            raise InvalidInput(f"A film of these pictures is larger than {most / 1e6:g} MB however it is made.")
        kept = [one for i, one in enumerate(kept) if i % 2 or one.reset or one.held or i == len(kept) - 1]
        scale *= 0.75


def _captioned(frames: Sequence[Frame], scale: float) -> list[Image.Image]:
    """All pictures of one even size, with their captions below them."""
    width = max(one.picture.width for one in frames)
    height = max(one.picture.height for one in frames)
    size = max(int(width * scale), 160) // 2 * 2, max(int(height * scale), 16) // 2 * 2
    font = ImageFont.load_default(12)
    result = []
    for one in frames:
        page = Image.new("RGB", (size[0], size[1] + STRIP), "white")
        factor = min(size[0] / one.picture.width, size[1] / one.picture.height)
        fitted = (max(int(one.picture.width * factor), 1), max(int(one.picture.height * factor), 1))
        picture = one.picture if one.picture.size == fitted else one.picture.resize(fitted)
        page.paste(picture, ((size[0] - picture.width) // 2, (size[1] - picture.height) // 2))
        pen = ImageDraw.Draw(page)
        middle = size[1] + STRIP / 2
        pen.text((6, middle), one.left, PIT if one.reset else INK, font, anchor="lm")
        if pen.textlength(one.left, font) + pen.textlength(one.right, font) + 18 <= size[0]:
            pen.text((size[0] - 6, middle), one.right, INK, font, anchor="rm")
        if one.reset:
            pen.rectangle((0, 0, size[0] - 1, size[1] - 1), None, PIT, 3)
        result.append(page)
    return result


def _gif(pictures: Sequence[Image.Image], times: Sequence[int]) -> bytes:
    file = io.BytesIO()
    palette = _palette(pictures)
    first, *others = (one.quantize(palette=palette, dither=Image.Dither.NONE) for one in pictures)
    first.save(file, "GIF", save_all=True, append_images=others, duration=list(times), loop=0, optimize=False)
    return file.getvalue()


def _palette(pictures: Sequence[Image.Image]) -> Image.Image:
    """One palette for all pictures, from a few of them: frames then differ only where something moves."""
    some = [pictures[i] for i in np.linspace(0, len(pictures) - 1, min(len(pictures), 9)).astype(int)]
    sheet = Image.new("RGB", (some[0].width, some[0].height * len(some) + 4 * STRIP), PIT)  # the red of resets too
    for i, one in enumerate(some):
        sheet.paste(one, (0, i * one.height))
    return sheet.quantize(COLOURS, dither=Image.Dither.NONE)


def _mp4(pictures: Sequence[Image.Image], times: Sequence[int]) -> bytes:
    import subprocess
    import tempfile

    import imageio_ffmpeg  # the extra `film`

    width, height = pictures[0].size
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{1000 / FRAME:g}", "-i", "-"]
    even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]  # as most players need it
    shown = b"".join(
        np.ascontiguousarray(picture).tobytes() * max(time // FRAME, 1)
        for picture, time in zip(pictures, times, strict=True)
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "film.mp4"
        try:
            program = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", *raw]
            # Not by the package's own writer, which forks this process: beside JAX's threads that may hang.
            subprocess.run(
                [*program, *even, "-vcodec", "libx264", "-pix_fmt", "yuv420p", str(file)],
                input=shown,
                capture_output=True,
                check=True,
            )
            return file.read_bytes()
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:  # none here, or one that does not run
            said = (
                error.stderr.decode(errors="replace") if isinstance(error, subprocess.CalledProcessError) else ""
            ).strip()
            reason = (said.splitlines() or [one_line(error)])[0].rstrip(".")
            raise InvalidInput(f"The encoder of .mp4 films does not run here ({reason}): name a .gif.") from error
