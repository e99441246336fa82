"""The film of a run in its page, the pictures that led to its resets, and the last observations before them.

A page shows it where it costs little: of a map, or of pictures that the run has kept. An environment is played again
only on request, which may take as long as the run.
"""

import base64
import io
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from resetfree.core.errors import ResetFreeError
from resetfree.problems.gym.adapter import GymProblem
from resetfree.runs.data.all_transitions import unscaled_episodes
from resetfree.runs.result import Run
from resetfree.show.report import figures as draw
from resetfree.show.report.figures import Drawing
from resetfree.show.report.film_files import EncodedFilm, Frame, encode, spread
from resetfree.show.report.filming import beside, can_be_filmed, frames_of, titles_in_words, titles_of
from resetfree.show.report.groups import Group
from resetfree.show.report.maps import LARGEST
from resetfree.show.report.page import Markup, join, tag
from resetfree.show.report.style import BLUE, GREY, ORANGE

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


STEPS = 30  # before a reset
DRAWN_RESETS = 12  # that are drawn: the first ones
SENSORS = 6  # that are drawn: those that were furthest from usual at a reset
EPISODES = 20_000  # that are looked through


def last_steps(group: Group) -> list[Drawing]:
    """The last observations before the resets of the first run that has any; none where observations are no vectors."""
    for run in group.runs:
        if run.path is None or not run.columns["reset"].any():
            continue
        try:
            ends, usual, spread = _last_steps(run.path)
        except ResetFreeError:  # a damaged record: the other figures say so
            return []
        if ends:
            return [_drawing(group, int(run.spec["seed"]), ends, usual=usual, spread=spread)]
    return []


def sensors(group: Group, count: int) -> list[str]:
    """The names of the numbers of an observation: the machine's own, else observation[0] and so on, as in conditions.

    What a file says is taken only if there is one name for each, and none is that of another column of the figure.
    """
    found: Any = group.spec.get("sensors")
    good = isinstance(found, list) and len(found) == count and all(isinstance(name, str) for name in found)
    if good and len({*found, "reset", "step"}) == count + 2:
        return list(found)
    return [f"observation[{i}]" for i in range(count)]


def _last_steps(path: Any) -> tuple[list[NDArray[Any]], NDArray[Any], NDArray[Any]]:
    """[n, D] observations before each of the first resets, and mean and standard deviation [D] of all observations."""
    ends: list[NDArray[Any]] = []
    n, total, squares = 0, np.zeros(1), np.zeros(1)
    for episode in islice(unscaled_episodes(path), EPISODES):
        states = np.asarray(episode.states)
        if states.ndim != 2 or states.dtype.kind != "f":
            return [], total, squares
        n, total, squares = n + len(states), total + states.sum(axis=0), squares + np.square(states).sum(axis=0)
        if episode.reset and len(ends) < DRAWN_RESETS:
            ends.append(states[-STEPS - 1 :])
    mean = total / max(n, 1)
    return ends, mean, np.sqrt(np.maximum(squares / max(n, 1) - mean**2, 0.0))


def _drawing(
    group: Group, seed: int, ends: list[NDArray[Any]], *, usual: NDArray[Any], spread: NDArray[Any]
) -> Drawing:
    from matplotlib.figure import Figure

    away = np.abs(np.stack([end[-1] for end in ends]) - usual).mean(axis=0) / np.where(spread > 0, spread, 1.0)
    chosen = np.sort(np.argsort(-away, kind="stable")[:SENSORS])
    called = sensors(group, len(usual))
    rows = -(-len(chosen) // 2)
    height = 0.9 + 1.35 * rows
    figure = Figure(figsize=(draw.WIDTH, height))
    panels = figure.subplots(rows, 2, squeeze=False, sharex=True)
    figure.subplots_adjust(0.13, 0.47 / height, 0.97, 1 - 0.42 / height, wspace=0.32, hspace=0.45)
    for axes in panels.flat[len(chosen) :]:
        axes.set_visible(False)
    for axes, sensor in zip(panels.flat, chosen, strict=False):
        axes.axhspan(usual[sensor] - spread[sensor], usual[sensor] + spread[sensor], color=GREY, alpha=0.15, lw=0)
        for i, end in enumerate(ends):
            newest = i == len(ends) - 1
            axes.plot(
                np.arange(1 - len(end), 1), end[:, sensor], color=ORANGE if newest else BLUE, lw=1.4 if newest else 0.7
            )
            axes.plot(0, end[-1, sensor], "x", color=ORANGE if newest else BLUE, ms=4)
        draw.dress(axes, draw.plain_text(called[sensor]), "", x="")
    for axes in panels[-1]:
        axes.set_xlabel("steps before the reset")
    data: dict[str, Any] = {"reset": [], "step": [], **{called[sensor]: [] for sensor in chosen}}
    for i, end in enumerate(ends):
        data["reset"] += [i + 1] * len(end)
        data["step"] += list(range(1 - len(end), 1))
        for sensor in chosen:
            data[called[sensor]] += end[:, sensor].tolist()
    shown = (
        f"the {len(chosen)} of {len(usual)} numbers that were furthest from usual" if len(usual) > SENSORS else "all"
    )
    first = "the first reset" if len(ends) == 1 else f"the first {len(ends)} resets"
    caption = (
        f"The last {STEPS} observations before {first} of "
        f"seed {seed} (orange: the newest of them; cross: the state that had to be reset), {shown}. Grey: mean and one "
        "standard deviation of all observations."
    )
    alt = f"The last observations before {len(ends)} resets, {len(chosen)} numbers each."
    words = (f"{group.name}-falls", "The last steps before resets", caption, alt)
    return Drawing(*words, data=data, figure=figure)
