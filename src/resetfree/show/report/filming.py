"""From a run to its film: pictures that were kept while it was played, or that are made again from its record.

Kept ones (`resetfree run --film N`) are written every few seconds, so that the run can be watched, and lie beside the
run file, in RUNFILE.film: a zip of JPEG pictures, scene by scene, and an index. Of many resets the first and the newest
are kept, `EARLY + LATE` scenes in all, of pictures of `SIDE` pixels.
"""

import hashlib
import io
import json
import sqlite3
import time
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, SupportsFloat
from urllib.parse import quote

import gymnasium
from PIL import Image

from resetfree.core.errors import InvalidInput, ResetFreeError, RunError, one_line
from resetfree.core.files import drafted
from resetfree.problems.contract import Problem
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.operators import Automatic
from resetfree.problems.registry import World
from resetfree.runs.file.ledger import read_spec_of
from resetfree.runs.file.runfile import read_spec, sentences
from resetfree.runs.result import Run
from resetfree.show.report.film_files import (
    MOST_FRAMES,
    MOST_RESETS,
    FilmScene,
    Frame,
    WrittenFilm,
    check_film,
    scenes_of,
    write_film,
)
from resetfree.show.report.pictures import Picture, draws, pictures_of, prepare_to_render, rendered

ENDING = ".film"
INDEX = "film.json"
LAST = "the last life"
MOST_KEPT = 100  # frames before a reset
EARLY, LATE = 3, MOST_RESETS - 3  # scenes that are kept: the first and the newest ones
MOST = 50_000_000  # bytes of a file that is read
SIDE = 320  # pixels
EVERY = 5.0  # seconds between two times that they are written while the run is played


KeptScene = tuple[dict[str, Any], list[bytes]]  # title, steps, and whether it ends with a reset; pictures


class KeptScenes(NamedTuple):
    """What was kept of a run: the number of rollouts so far, and scenes."""

    rollouts: int = 0
    scenes: Sequence[KeptScene] = ()


class FilmedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose last N pictures before each reset are kept, those of its first steps, and its last ones."""

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        problem: Problem,
        most: int,
        before: KeptScenes,
        save: Callable[[KeptScenes], None],
    ) -> None:
        super().__init__(env)
        self._problem, self._most, self._save, self._saved = problem, most, save, time.monotonic()
        self._latest: deque[tuple[int, Picture]] = deque(maxlen=most)  # steps of the rollout so far, and pictures
        self._step, self.rollouts = 0, before.rollouts
        self.scenes = [scene for scene in before.scenes if scene[0]["title"] != LAST]

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Keep what led to this reset, and begin a new rollout; a restart after a goal, which has no seed, is none."""
        if "seed" not in options:
            return self.env.reset(**options)
        self._keep(f"reset {self.rollouts:,}", reset=True)
        self._latest.clear()
        found = self.env.reset(**options)
        self.rollouts, self._step = self.rollouts + 1, 0
        self._look()
        return found

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a step, and look."""
        found = self.env.step(action)
        self._step += 1
        self._look()
        if self.rollouts == 1 and self._step == self._most:
            self._keep("the first life", reset=False)
        if time.monotonic() - self._saved > EVERY:
            with suppress(OSError, ResetFreeError):  # it is only to be watched: the end of the run says what is wrong
                self._save(self.kept())
            self._saved = time.monotonic()
        return found

    @property
    def newest(self) -> Picture:
        """What was seen last."""
        return self._latest[-1][1]

    def kept(self) -> KeptScenes:
        """The scenes so far, and the end of the rollout that is going on."""
        return KeptScenes(self.rollouts, _some([*self.scenes, *self._scene(LAST, reset=False)]))

    def _look(self) -> None:
        picture = rendered(self._problem)
        picture.thumbnail((SIDE, SIDE))
        self._latest.append((self._step, picture))

    def _keep(self, title: str, reset: bool) -> None:
        self.scenes = _some([*self.scenes, *self._scene(title, reset)])

    def _scene(self, title: str, reset: bool) -> list[KeptScene]:
        """What was seen last, as a scene; none if it is less than two pictures."""
        if len(self._latest) < 2:
            return []
        about = {"title": title, "steps": [step for step, _ in self._latest], "fell": reset}
        return [(about, [jpeg(picture) for _, picture in self._latest])]


def _some(scenes: list[KeptScene]) -> list[KeptScene]:
    """The first and the newest scenes."""
    return scenes[:EARLY] + scenes[max(len(scenes) - LATE, EARLY) :]


@contextmanager
def filmed(world: World, most: int | None, file: Path, *, resume: bool, real_time: bool) -> Iterator[FilmedEnv | None]:
    """While a run is played, keep its pictures around resets; at its end, also an early one, write them beside it.

    most: pictures before each reset; None to keep none. A map needs none: it is drawn from the run file.
    resume: whether a run is continued, whose pictures so far are kept too.
    """
    problem = world.problem
    if most is None or (world.mdp is not None and world.mdp.layout is not None and not isinstance(problem, GymProblem)):
        yield None
        return
    if not isinstance(problem, GymProblem):
        raise InvalidInput(f"'{world.name}' has neither a map nor an environment that draws it: leave out --film.")
    if real_time:
        raise InvalidInput("Pictures take longer than a deadline allows: leave out --film or --rate.")
    prepare_to_render(problem.env, problem.name)
    _try_out(problem)
    bare = problem.env

    def save(kept: KeptScenes) -> None:
        if kept.scenes and file.exists():
            _write(kept, file)

    before = (kept_scenes(file) if resume else None) or KeptScenes()
    camera = FilmedEnv(bare, problem, most, before, save)
    problem.env = camera
    try:
        yield camera
    finally:
        problem.env = bare
        save(camera.kept())


def _try_out(problem: GymProblem) -> None:
    """Draw a copy of the environment: what is missing is said before anything is played."""
    try:
        twin = problem.twin()
    except InvalidInput:  # it cannot be copied: its first reset will show
        return
    try:
        twin.perform_reset(0.5, "start", Automatic())
        rendered(twin)
    finally:
        if twin.env is not problem.env:
            twin.close()


def beside(file: Path) -> Path:
    """The file of the pictures of a run file."""
    return file.with_name(file.name + ENDING)


def _write(kept: KeptScenes, file: Path) -> None:
    # This process is writing the file: only SQLite may open it, as closing it otherwise would drop SQLite's locks.
    with (
        closing(sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True)) as connection,
        sentences(file),
    ):
        run = _identity(read_spec(connection, file))
    index = {"run": run, "lives": kept.rollouts, "scenes": [about for about, _ in kept.scenes]}
    with drafted(beside(file)) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(INDEX, json.dumps(index))
        for i, (_, pictures) in enumerate(kept.scenes):
            for j, picture in enumerate(pictures):
                archive.writestr(f"{i}/{j}.jpg", picture)


def _identity(spec: dict[str, Any]) -> str:
    """What tells a run from another one that had the same file."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()


def kept_scenes(file: Path) -> KeptScenes | None:
    """What was kept of the run in a file, None if there is nothing; raises RunError if it cannot be read."""
    path = beside(file)
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > MOST:
            raise ValueError(f"it has more than {MOST / 1e6:g} MB")
        with zipfile.ZipFile(path) as archive:
            if sum(one.file_size for one in archive.infolist()) > MOST:
                raise ValueError(f"it unpacks to more than {MOST / 1e6:g} MB")
            index = json.loads(archive.read(INDEX))
            if index["run"] != _identity(read_spec_of(file)):
                return None
            scenes = [
                (
                    {"title": str(one["title"])[:80], "steps": [*map(int, one["steps"])], "fell": bool(one["fell"])},
                    [archive.read(f"{i}/{j}.jpg") for j in range(len(one["steps"]))],
                )
                for i, one in enumerate(index["scenes"][: EARLY + LATE])
            ]
            return KeptScenes(int(index["lives"]), scenes)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise RunError(
            f"The pictures in '{path}' cannot be read ({one_line(error)}). Remove it to have them made again."
        ) from error


def kept_frames(file: Path) -> list[Frame] | None:
    """The pictures beside a run file as the frames of a film; None if there are none of this run."""
    kept = kept_scenes(file)
    if kept is None or not kept.scenes:
        return None
    share = MOST_FRAMES // len(kept.scenes)
    try:
        return [
            Frame(_opened(pictures[j]), about["title"], f"step {step:,} of this life", about["fell"] and j == n - 1)
            for about, pictures in kept.scenes
            for n in [len(pictures)]
            for j, step in list(enumerate(about["steps"]))[-share:]
        ]
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise RunError(f"A picture in '{beside(file)}' cannot be read ({one_line(error)}).") from error


def _opened(data: bytes) -> Picture:
    picture = Image.open(io.BytesIO(data), formats=["JPEG"])
    if max(picture.size) > SIDE:
        raise ValueError("it is too large")
    return picture.convert("RGB")


def jpeg(picture: Picture) -> bytes:
    """The bytes of a small file."""
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    return file.getvalue()


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
        Frame(pictures[k, h], scene.title, f"episode {k:,} · step {h:,}", scene.reset and (k, h) == scene.moments[-1])
        for scene in scenes
        for k, h in scene.moments
    ]
