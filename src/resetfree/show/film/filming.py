"""From a run file to its film."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from resetfree.problems.gym.adapter import GymProblem
from resetfree.runs.result import Run
from resetfree.show.film.film_files import Frame, WrittenFilm, check_film, write_film
from resetfree.show.film.film_plan import FilmScene, scenes_of
from resetfree.show.film.kept_pictures import beside, kept_frames
from resetfree.show.film.pictures_of_runs import draws, pictures_of


class Film(NamedTuple):
    """A film of a run, and where its pictures come from."""

    written: WrittenFilm
    titles: tuple[str, ...]
    source: str  # "kept" while the run was played, or "made again" from its record


def can_be_filmed(run: Run) -> bool:
    """Whether there is something to see of a run: kept pictures, a map, or an environment that draws itself."""
    if run.path is not None and beside(run.path).exists():
        return True
    if isinstance(run.problem, GymProblem):
        core = run.problem.env.unwrapped
        return "timing" not in run.spec and not getattr(core, "only_one", False) and draws(core)
    return run.mdp is not None and run.mdp.layout is not None


def film_run(run: Run, path: Path) -> Film:
    """Write the film of a run: kept pictures if there are any, else those of its moments, made again."""
    check_film(path)
    frames, source = frames_of(run)
    return Film(write_film(frames, path), titles_of(frames), source)


def frames_of(run: Run) -> tuple[list[Frame], str]:
    """The frames of a run's film, and where they come from, as in `Film`."""
    frames = None if run.path is None else kept_frames(run.path)
    return (_made_again(run, scenes_of(run)), "made again") if frames is None else (frames, "kept")


def titles_of(frames: list[Frame]) -> tuple[str, ...]:
    """The scenes of a film, each once, in their order."""
    return tuple(dict.fromkeys(one.left for one in frames))


def titles_in_words(titles: Sequence[str]) -> str:
    """The scenes of a film in few words.

    >>> titles_in_words(["the first life, reset 1 of 3", "reset 2 of 3", "reset 3 of 3", "the last life"])
    'the first life, 3 resets with the steps before them, the last life'
    >>> titles_in_words(["reset 1", "the last life"]), titles_in_words(["the first life", "how it ended"])
    ('a reset with the steps before it, the last life', 'the first life, how it ended')
    """
    n = sum("reset" in title for title in titles)
    resets = f"{n} resets with the steps before them" if n > 1 else "a reset with the steps before it"
    parts = dict.fromkeys(
        part if "reset" not in part else resets for title in titles for part in title.split(", ")
    )  # each once, in their order
    return ", ".join(parts)


def _made_again(run: Run, scenes: list[FilmScene]) -> list[Frame]:
    pictures = dict(pictures_of(run, {moment for scene in scenes for moment in scene.moments}))
    return [
        Frame(
            pictures[k, h],
            scene.title,
            f"episode {k:,} · step {h:,}",
            scene.reset and (k, h) == scene.moments[-1],
        )
        for scene in scenes
        for k, h in scene.moments
    ]
