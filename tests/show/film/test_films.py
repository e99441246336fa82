"""Films of runs: what they show is what happened, a scene of a reset ends with it, and their size is bounded."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from PIL import Image, ImageColor
from tests.bank import edit
from tests.show.cli.commands import run, run_json

import resetfree as rf
from resetfree.runs.file import runfile
from resetfree.runs.file.recorded import RecordedRound
from resetfree.show.report import film_files
from resetfree.show.report.film_files import MOST_FRAMES, MOST_RESETS, Frame, Moment, rollouts_of, scenes_of, write_film
from resetfree.show.report.filming import EARLY, LATE, beside, kept_frames
from resetfree.show.report.pictures import SIDE, pictures_of
from resetfree.show.report.style import BLUE, PIT

CART = ("CartPole-v1", "--primal", "uniform", "--dual", "counting", "--feedback", "realised", "--set", "horizon=30")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with more resets than a film shows."""
    path = tmp_path_factory.mktemp("films") / "grid.rfrun"
    rf.learn("grid-v0", "uniform", episodes=60, path=path)
    return path


@pytest.fixture(scope="module")
def cart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in an environment, interrupted and resumed, with its pictures."""
    path = tmp_path_factory.mktemp("films") / "cart.rfrun"
    from resetfree.show.cli import main

    assert main(["run", *CART, "--episodes", "12", "--out", str(path), "--film", "5", "--max-resets", "2"]) == 0
    again = ["run", "CartPole-v1", "--out", str(path), "--resume", "--film", "5"]
    assert main(again) == 0
    return path


def episodes(path: Path) -> list[RecordedRound]:
    with runfile.reading(path) as connection:
        return list(runfile.read_played(connection, path, 1, 10**6))


def frames_of(film: Path) -> list[tuple[Image.Image, int]]:
    with Image.open(film) as opened:
        found = []
        for i in range(getattr(opened, "n_frames", 1)):
            opened.seek(i)
            found.append((opened.convert("RGB"), int(opened.info["duration"])))
        return found


def near(picture: Image.Image, at: tuple[int, int], colour: str) -> bool:
    found = picture.getpixel(at)
    assert isinstance(found, tuple)
    return max(abs(a - b) for a, b in zip(found, ImageColor.getrgb(colour), strict=True)) < 40


def test_the_scenes_are_the_first_life_falls_and_the_last_life(grid: Path) -> None:
    made = rf.load(grid)
    rollouts, scenes = rollouts_of(made), scenes_of(made)
    resets = np.flatnonzero(made.columns["reset"]) + 1
    assert [rollout.last for rollout in rollouts if rollout.reset] == resets.tolist()
    assert sum(rollout.steps for rollout in rollouts) == made.columns["steps"].sum()
    assert sum(len(scene.moments) for scene in scenes) <= MOST_FRAMES
    ends = [scene.moments[-1] for scene in scenes if scene.reset]
    assert len(resets) > len(ends) == MOST_RESETS
    steps = made.columns["steps"]
    assert {*ends} < {(int(k), int(steps[k - 1])) for k in resets}
    assert (ends[0][0], ends[-1][0]) == (resets[0], resets[-1])
    assert "the first life" in scenes[0].title
    for scene in scenes:
        assert all(after > before for before, after in zip(scene.moments, scene.moments[1:], strict=False))


def test_a_life_too_long_to_be_played_again_is_shown_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rf.learn("grid-v0", episodes=200)
    last = rollouts_of(made)[-1]
    assert not last.reset
    assert scenes_of(made)[-1].moments[-1] == (200, 8)
    monkeypatch.setattr(film_files, "LONGEST_ROLLOUT", last.steps - 1)
    assert scenes_of(made)[-1].moments[0] == (last.first, 0)


def test_every_fall_on_a_map_ends_with_the_agent_in_a_reset_state(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, film = rf.load(grid), tmp_path / "film.gif"
    data = run_json(capsys, "watch", str(grid), "-o", str(film))
    frames = frames_of(film)
    scenes = scenes_of(made)
    assert len(frames) == data["frames"] == sum(len(scene.moments) for scene in scenes)
    assert film.stat().st_size == data["bytes"] <= film_files.MOST_BYTES
    assert (data["width"], data["height"]) == frames[0][0].size
    mdp, played, at = rf.make("grid-v0"), episodes(grid), -1
    assert mdp.layout is not None
    side = frames[0][0].width // mdp.layout.n_cols
    for scene in scenes:
        at += len(scene.moments)
        k, h = scene.moments[-1]
        s = int(played[k - 1].episode.states[h])
        r, c = divmod(int(mdp.layout.cell[s]), mdp.layout.n_cols)
        picture, time = frames[at]
        assert near(picture, (c * side + side // 2, r * side + side // 2), BLUE)
        assert near(picture, (c * side + 8, r * side + 8), PIT) == scene.reset == bool(mdp.reset[s])
        assert (time > film_files.FRAME) == (scene.reset or at == len(frames) - 1)


def drawn(state: np.ndarray) -> np.ndarray:
    """CartPole's own picture of a state."""
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.reset()
    env.unwrapped.state = tuple(state)  # type: ignore[attr-defined]
    picture = Image.fromarray(env.render())  # type: ignore[arg-type]
    env.close()
    picture.thumbnail((SIDE, SIDE))
    return np.asarray(picture)


def test_an_environment_shows_the_states_on_record_also_of_a_resumed_run(cart: Path) -> None:
    made, played = rf.load(cart, "CartPole-v1"), episodes(cart)
    assert {"start", "reset", "resume"} == {one.why for one in made.interventions}
    moments = {moment for scene in scenes_of(made) for moment in scene.moments}
    pictures = dict(pictures_of(made, moments))
    assert pictures.keys() == moments
    some: Sequence[Moment] = [(1, 0), *(scene.moments[-1] for scene in scenes_of(made))]
    for k, h in some:
        assert np.array_equal(np.asarray(pictures[k, h]), drawn(played[k - 1].episode.states[h])), (k, h)


def test_a_file_makes_no_code_run_and_what_did_not_happen_is_not_shown(
    cart: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, film = tmp_path / "copy.rfrun", tmp_path / "film.gif"
    shutil.copy(cart, copy)
    status, _, err = run(capsys, "watch", str(copy), "-o", str(film))
    assert (status, film.exists()) == (2, False)
    assert f"a file never makes code run: name it yourself: resetfree watch {copy} gym:CartPole-v1." in err
    edit(copy, "UPDATE spec SET json = json_set(json, '$.seed', 99)")
    with pytest.raises(rf.RunError, match="Episode 1 of 'gym:CartPole-v1' went another way when it was played again"):
        dict(pictures_of(rf.load(copy, "CartPole-v1"), {(1, 1)}))


def test_a_run_keeps_its_pictures_around_resets_and_is_the_same_run(
    cart: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = run_json(capsys, "watch", str(cart), "-o", str(tmp_path / "film.gif"))
    assert data["pictures"] == "kept"
    frames = kept_frames(cart)
    assert frames is not None
    made = rf.load(cart)
    titles = list(dict.fromkeys(one.left for one in frames))
    shown = [title for title in titles if title.startswith("reset")]
    assert shown[0] == "reset 1"
    assert len(titles) <= EARLY + LATE
    assert sum(one.reset for one in frames) == len(shown)
    for title in titles:
        assert 2 <= sum(one.left == title for one in frames) <= 5
    played = episodes(cart)[int(np.flatnonzero(made.columns["reset"])[0])]  # the first reset
    last = next(one for one in frames if one.reset)
    wide = Image.fromarray(drawn(played.episode.states[-1]))
    assert (
        np.abs(np.asarray(wide.resize(last.picture.size), dtype=int) - np.asarray(last.picture, dtype=int)).mean() < 3
    )
    plain = tmp_path / "plain.rfrun"
    limited = ("run", *CART, "--episodes", "12", "--out", str(plain))
    run(capsys, *limited, "--max-resets", "2")
    run(capsys, "run", "CartPole-v1", "--out", str(plain), "--resume")
    assert rf.load(plain).columns["reward"].tobytes() == made.columns["reward"].tobytes()
    assert not beside(plain).exists()


def test_pictures_are_there_while_the_run_is_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from resetfree.show.cli import main
    from resetfree.show.report import filming

    seen: list[int] = []
    write = filming._write

    def watched(kept: filming.KeptScenes, file: Path) -> None:
        write(kept, file)
        found = filming.kept_scenes(file)  # as another program sees it
        assert found is not None
        assert found.scenes[-1][0]["title"] == "the last life"
        seen.append(found.scenes[-1][0]["steps"][-1])

    monkeypatch.setattr(filming, "_write", watched)
    monkeypatch.setattr(filming, "EVERY", 0.0)
    words = ["run", *CART, "--set", "horizon=8", "--episodes", "2", "--film", "4", "--out", str(tmp_path / "a.rfrun")]
    assert main(words) == 0
    assert len(seen) > 5
    assert seen == sorted(seen)


def test_pictures_of_another_run_or_of_a_hostile_file_are_not_shown(cart: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.rfrun"
    rf.learn("grid-v0", "uniform", episodes=3, path=other)
    shutil.copy(beside(cart), beside(other))
    assert kept_frames(other) is None
    for content in (b"", b"PK\x05\x06" + bytes(18), beside(cart).read_bytes()[:5000]):
        beside(other).write_bytes(content)
        with pytest.raises(rf.RunError, match="cannot be read"):
            kept_frames(other)


def noise(n: int, side: int = 64) -> list[Frame]:
    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)) for _ in range(n)]
    return [Frame(one, "noise", str(i), i == 7) for i, one in enumerate(pictures)]


def test_a_film_is_bounded_in_frames_and_bytes_and_keeps_falls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = write_film(noise(60), tmp_path / "a.gif")
    assert whole.frames == len(frames_of(tmp_path / "a.gif")) == 60
    monkeypatch.setattr(film_files, "MOST_BYTES", whole.bytes // 2)
    half = write_film(noise(60), tmp_path / "b.gif")
    assert half.bytes == (tmp_path / "b.gif").stat().st_size <= whole.bytes // 2
    assert len(frames_of(tmp_path / "b.gif")) == half.frames < 40
    assert film_files.HELD in [time for _, time in frames_of(tmp_path / "b.gif")]
    monkeypatch.setattr(film_files, "MOST_BYTES", 100)
    with pytest.raises(rf.InvalidInput, match="larger than"):
        write_film(noise(20), tmp_path / "c.gif")
    for n in (0, MOST_FRAMES + 1):
        with pytest.raises(rf.InvalidInput, match="from 1 to 600 frames"):
            write_film(noise(n, 2), tmp_path / "c.gif")
    assert not (tmp_path / "c.gif").exists()


def test_an_mp4_comes_from_the_real_encoder_with_every_frame_in_its_time(
    grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="no encoder of .mp4: the extra `film`")
    film, moving = tmp_path / "film.mp4", tmp_path / "film.gif"
    data = run_json(capsys, "watch", str(grid), "-o", str(film))
    run_json(capsys, "watch", str(grid), "-o", str(moving))
    decoder = [ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(film), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(decoder, capture_output=True, check=True, timeout=60).stdout
    shown = np.frombuffer(raw, np.uint8).reshape(-1, data["height"], data["width"], 3).astype(int)
    pictures = frames_of(moving)
    assert len(shown) == sum(time // film_files.FRAME for _, time in pictures)  # a reset is held: one frame, many times
    at = 0
    for picture, time in pictures:
        assert np.abs(shown[at] - np.asarray(picture, dtype=int)).mean() < 6  # both lose a little
        at += time // film_files.FRAME

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("No ffmpeg exe could be found.")

    monkeypatch.setattr(ffmpeg, "get_ffmpeg_exe", broken)
    status, out, err = run(capsys, "watch", str(grid), "-o", str(tmp_path / "other.mp4"))
    assert (status, out, (tmp_path / "other.mp4").exists()) == (2, "", False)
    assert "does not run here (RuntimeError: No ffmpeg exe could be found): name a .gif." in err


def test_bad_names_and_problems_without_pictures_are_one_sentence(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.gif").write_text("mine")
    line = tmp_path / "line.rfrun"
    rf.learn("thresholds-v0", "uniform", episodes=3, path=line)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    for words, sentence in {
        (str(grid), "-o", "film.avi"): "A film must be a .gif or an .mp4. Got 'film.avi' instead.",
        (str(grid), "-o", "notes.gif"): "exists and is not such a film",
        (str(grid), "-o", "nowhere/film.gif"): "in a folder that exists",
        (str(grid), "-o", "film.mp4"): "An .mp4 needs an encoder: pip install imageio-ffmpeg, or name a .gif.",
        (str(line),): "neither a map nor an environment that draws it",
        ("none.rfrun",): "There is no run file",
    }.items():
        status, out, err = run(capsys, "watch", *words)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert sentence in err
    assert Path("notes.gif").read_text() == "mine"


def test_what_cannot_be_filmed_is_said_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.rfrun"
    words = ("run", *CART, "--episodes", "2", "--out", str(file), "--film", "5")

    def broken(self: object) -> None:
        raise RuntimeError("no GL here")

    with monkeypatch.context() as without:
        without.setattr("gymnasium.envs.classic_control.cartpole.CartPoleEnv.render", broken)
        status, _, err = run(capsys, *words)
        assert (status, file.exists()) == (2, False)
        assert "cannot be drawn here: RuntimeError: no GL here. Without a screen, MuJoCo draws with EGL" in err
    with monkeypatch.context() as without:
        without.setattr("gymnasium.envs.classic_control.cartpole.CartPoleEnv.metadata", {"render_modes": []})
        assert "with the render mode 'rgb_array'. 'gym:CartPole-v1' has none." in run(capsys, *words)[2]
    assert "leave out --film or --rate" in run(capsys, *words, "--rate", "50")[2]
    assert "leave out --film" in run(capsys, "run", "thresholds-v0", "--out", str(file), "--film", "5")[2]
    assert not file.exists()


def test_the_index_of_kept_pictures_is_plain_data(cart: Path) -> None:
    import zipfile

    with zipfile.ZipFile(beside(cart)) as archive:
        index = json.loads(archive.read("film.json"))
        assert len(archive.namelist()) == 1 + sum(len(one["steps"]) for one in index["scenes"])
    assert index["lives"] == len(rf.load(cart).interventions)
