"""A film as a file, GIF or MP4: captions below the pictures, resets held for a moment, and bounds on its size."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from resetfree.core.arguments import is_special
from resetfree.core.errors import InvalidInput, one_line
from resetfree.show.film.film_plan import MOST_FRAMES
from resetfree.show.report.style import INK, PIT, written

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
    return WrittenFilm(path, n, int(width), int(height), len(content), seconds)


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
