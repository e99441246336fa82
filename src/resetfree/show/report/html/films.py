"""The film of a run in its page, and the pictures that led to its resets.

A page shows it where it costs little: of a map, or of pictures that the run has kept. An environment is played again
only on request, which may take as long as the run.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image

from resetfree.core.errors import ResetFreeError
from resetfree.problems.gym.adapter import GymProblem
from resetfree.runs.result import Run
from resetfree.show.film.film_files import EncodedFilm, Frame, encode
from resetfree.show.film.film_plan import spread
from resetfree.show.film.filming import can_be_filmed, frames_of, titles_in_words, titles_of
from resetfree.show.film.kept_pictures import beside
from resetfree.show.report.html.groups import Group
from resetfree.show.report.html.maps import LARGEST
from resetfree.show.report.html.phrases import Markup, join, tag

MOST_BYTES = 2_000_000  # of a film in a page; in its text a third more
RESETS = 6  # whose pictures are shown
BEFORE = 5  # pictures that led to a reset
BACK = 25  # frames over which these are spread
WIDE = 180  # pixels of one


class FilmOfRun(NamedTuple):
    """The film of one run, and pictures of the frames before its resets: [(title, pictures)]."""

    run: Run
    film: EncodedFilm
    titles: tuple[str, ...]
    source: str
    before: list[tuple[str, list[bytes]]]


def film_of(groups: Sequence[Group], film: bool | None) -> FilmOfRun | str | None:
    """The film of the first run if the page is about one group; a sentence if it was wanted and cannot be made.

    film: None makes it where it costs little, True also where the environment has to be played again, False never.
    """
    if film is False or len(groups) != 1:
        return "A film is of one group of runs: make a page of one of them." if film else None
    run = groups[0].runs[0]
    layout = None if isinstance(run.problem, GymProblem) or run.mdp is None else run.mdp.layout
    mapped = layout is not None and layout.n_rows * layout.n_cols <= LARGEST
    cheap = run.path is not None and (mapped or beside(run.path).exists())
    if not film and not cheap:
        return None
    try:
        frames, source = frames_of(run)
        made = encode(frames, ".gif", MOST_BYTES)
    except ResetFreeError as error:
        return f"There is no film: {error}" if film or can_be_filmed(run) else None
    return FilmOfRun(run, made, titles_of(frames), source, [] if mapped else _before_resets(frames))


def figure(found: FilmOfRun) -> Markup:
    """The film, which can be folded away, with its size."""
    film, seed = found.film, found.run.spec["seed"]
    how = "kept while the run was played" if found.source == "kept" else "made from the record"
    size = f"{film.seconds:.0f} s, {len(film.content) / 1e6:.2f} MB, pictures {how}"
    words = f"The run with seed {seed}: {titles_in_words(found.titles)} ({size})."
    picture = tag(
        "img", src=_address("gif", film.content), alt=f"Film: {words}", width=str(film.width), height=str(film.height)
    )
    return tag("details", tag("summary", "Film of the run"), picture, tag("p", words), class_="film", open=True)


def strips(found: FilmOfRun) -> Markup:
    """The pictures that led to each reset, side by side."""
    if not found.before:
        return Markup("")
    rows = [
        tag(
            "div",
            tag("div", *(_image(one, f"{title}, picture {i} of {len(shown)}") for i, one in enumerate(shown, 1))),
            tag("p", f"Before {title}; the last picture is the state that needed the reset."),
            class_="strip",
        )
        for title, shown in found.before
    ]
    return join(rows)


def _before_resets(frames: Sequence[Frame]) -> list[tuple[str, list[bytes]]]:
    ends = [i for i, one in enumerate(frames) if one.reset]
    result = []
    for end in spread(ends, RESETS):
        first = end
        while first > 0 and frames[first - 1].left == frames[end].left and end - first < BACK:
            first -= 1
        shown = [frames[i] for i in spread(range(first, end + 1), BEFORE)]
        result.append((frames[end].left, [_small(one.picture) for one in shown]))
    return result


def _small(picture: Image.Image) -> bytes:
    copy, file = picture.copy(), io.BytesIO()
    copy.thumbnail((WIDE, WIDE))
    copy.save(file, "JPEG", quality=80)
    return file.getvalue()


def _image(picture: bytes, alt: str) -> Markup:
    return tag("img", src=_address("jpeg", picture), alt=alt)


def _address(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
