"""What is left of a game: its episodes drawn again, a film of it, and the report in a tab."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.show.studio.serving import Served
from tests.show.studio.test_browser import begin, episode, open_page, page

import resetfree as rf
from resetfree.runs.file import runfile
from resetfree.show.report import film_files
from resetfree.show.studio.frames import History, read_past, scene_of, sought
from resetfree.show.studio.lanes import HISTORY
from resetfree.show.studio.report_jobs import MOST_STEPS, film_game, shown_episodes

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["page"]  # the fixture
ROWS = "S...../.XX.../..X..G/......"
SIDES = ("left", "right")
LONGER = 240_000  # milliseconds: another process has to start, and to make something


@pytest.fixture(scope="module")
def race(studio: Served) -> list[rf.Run]:
    """A game of two lanes, as the studio writes it."""
    options = {"rows": ROWS, "slip": 0.1, "horizon": 12}
    players = zip(SIDES, ("support-elimination", "uniform"), strict=True)
    files = {side: studio.folder / f"race-{side}.rfrun" for side in SIDES}
    for side, player in players:
        rf.learn("drawn-v0", player, episodes=80, settings={"problem": options}, path=files[side])
    return [rf.load(path) for path in files.values()]


def states(run: rf.Run, k: int) -> list[int]:
    assert run.path is not None
    with runfile.reading(run.path) as connection:
        (found,) = runfile.read_played(connection, run.path, k, k)
    return [int(s) for s in found.episode.states]


def path_on_page(page: Page, lane: str) -> list[tuple[float, float]]:
    text = page.locator(f".lane.{lane} .trail").get_attribute("points") or ""
    points = [(float(x), float(y)) for x, y in (point.split(",") for point in text.split())]
    return [a for a, b in pairwise([*points, (-1.0, -1.0)]) if a != b]


def path_on_record(run: rf.Run, k: int) -> list[tuple[float, float]]:
    assert run.mdp is not None
    assert run.mdp.layout is not None
    columns = run.mdp.layout.n_cols
    cells = [divmod(int(run.mdp.layout.cell[s]), columns) for s in states(run, k)]
    points = [(c + 0.5, r + 0.5) for r, c in cells]
    return [a for a, b in pairwise([*points, (-1.0, -1.0)]) if a != b]


def falls(run: rf.Run) -> list[int]:
    return [int(k) for k in run.columns["k"][run.columns["reset"]]]


def slide(page: Page, k: int) -> None:
    page.evaluate(
        "(k) => { const s = document.getElementById('scrub'); s.value = k; s.dispatchEvent(new Event('input')); }", k
    )
    page.wait_for_function(
        "(k) => document.getElementById('scrub-shown').textContent.startsWith(k + ' of')", arg=str(k)
    )


def test_any_episode_is_drawn_again_from_the_record(page: Page, studio: Served, race: list[rf.Run]) -> None:
    open_page(page, studio, "#run=race")
    page.wait_for_selector("#past:not([hidden])")
    assert page.inner_text("#scrub-shown") == "newest"
    for k in (1, 37, 80):
        slide(page, k)
        for lane, run in zip("ab", race, strict=True):
            assert path_on_page(page, lane) == path_on_record(run, k)
            assert f"Episode {k} again: {int(run.columns['steps'][k - 1])} steps" in page.inner_text(f".lane.{lane}")
    marks = page.locator("#falls path")
    assert [(marks.nth(i).get_attribute("d") or "").count("M") for i in (0, 1)] == [len(falls(run)) for run in race]
    together = sorted({k for run in race for k in falls(run)})
    page.click("#earlier-reset")
    before = max(k for k in together if k < 80)
    page.wait_for_function("(k) => document.getElementById('scrub').value === k", arg=str(before))
    fallen = next(lane for lane, run in zip("ab", race, strict=True) if before in falls(run))
    page.wait_for_selector(f".lane.{fallen} .agent.fell")  # walked to its end
    slide(page, 1)
    page.click("#later-reset")
    after = min(k for k in together if k > 1)
    page.wait_for_function("(k) => document.getElementById('scrub').value === k", arg=str(after))
    page.click("#now")
    assert page.inner_text("#scrub-shown") == "newest"
    assert page.locator("#now").is_hidden()


def test_episodes_of_a_game_that_is_played_are_there_before_they_are_saved(page: Page, studio: Served) -> None:
    open_page(page, studio)
    page.uncheck("#versus")
    page.fill("#episodes", "100000")
    begin(page)
    page.click("#pause")
    page.wait_for_selector(".lane.a .badge.paused")
    for _ in range(3):
        k = episode(page)
        page.click("#step")
        page.wait_for_function("(k) => Number(document.querySelector('.lane .tile b').textContent) === k + 1", arg=k)
    walked = path_on_page(page, "a")
    slide(page, k)
    assert "again" in page.inner_text(".lane.a")
    slide(page, k + 1)
    assert path_on_page(page, "a")[0] == walked[0]
    page.click("#step")  # the game goes on, and the page stays where it was put
    page.wait_for_function("(k) => Number(document.querySelector('.lane .tile b').textContent) === k + 2", arg=k)
    assert page.inner_text("#scrub-shown") == f"{k + 1} of {k + 2}"
    page.click("#stop")
    page.wait_for_selector(".lane.a .badge.stopped")


def test_the_game_is_saved_as_a_film_of_both_lanes(
    page: Page, studio: Served, race: list[rf.Run], tmp_path: Path
) -> None:
    open_page(page, studio, "#run=race")
    with page.expect_download(timeout=LONGER) as got:
        page.click("#get-film")
    assert got.value.suggested_filename == "race.gif"
    film = Path(got.value.path())
    assert film.stat().st_size < film_files.MOST_BYTES
    made = film_game(race, tmp_path / "here.gif").written
    assert film.read_bytes() == (tmp_path / "here.gif").read_bytes()
    shown = shown_episodes(race)
    assert made.frames == sum(min(max(len(states(run, k)) for run in race), MOST_STEPS) for k in shown)
    held = sum(any(k in falls(run) for run in race) for k in shown)
    assert made.seconds >= 0.9 * held + 0.05 * (made.frames - 2 * held)  # both may fall in an episode
    assert {1, 80} < set(shown)
    with pytest.raises(rf.InvalidInput, match="has none"):
        film_game([rf.learn("thresholds-v0", "uniform", episodes=3)] * 2, tmp_path / "none.gif")


def test_the_report_opens_in_a_tab_that_cannot_reach_the_studio(page: Page, studio: Served, race: list[rf.Run]) -> None:
    open_page(page, studio, "#run=race")
    with page.context.expect_page(timeout=LONGER) as got:
        page.click("#get-report")
    tab, wrong = got.value, list[str]()
    tab.set_default_timeout(LONGER)
    tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    tab.wait_for_selector(".headline")
    assert tab.url.startswith(f"{studio.url}report/")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(paper)
    tab.click("#theme")  # its own script runs
    assert tab.evaluate(paper) != light
    assert tab.evaluate("self.origin") == "null"
    assert tab.evaluate("window.opener") is None
    assert tab.evaluate("fetch('/api/runs').then(() => 'reached', () => 'refused')") == "refused"
    assert any("connect-src" in text or "default-src" in text for text in wrong)
    wrong.clear()
    tab.locator("details.group summary").first.click()
    with tab.expect_download() as saved:
        tab.locator("button[data-save=png]").first.click()
    assert saved.value.suggested_filename.endswith(".png")
    tab.reload()
    tab.wait_for_selector(".headline")
    assert wrong == []
    tab.close()


def test_an_episode_is_asked_for_in_words_that_are_checked(studio: Served, race: list[rf.Run]) -> None:
    for words, sentence in {
        "k=0": "'k' of the request must be an integer from 1 to 80. Got 0 instead.",
        "k=81": "from 1 to 80",
        "k=one": "must be a whole number. Got 'one' instead.",
        "k=3&seek=sideways": "must be 'earlier' or 'later'. Got 'sideways' instead.",
    }.items():
        assert sentence in studio.refusal("GET", f"/api/episode?name=race&{words}")
    assert "There is no run" in studio.refusal("GET", "/api/episode?name=none&k=1")
    assert "There is no run" in studio.refusal("POST", "/api/report", {"name": "none"})
    assert "must be letters" in studio.refusal("POST", "/api/report", {"name": "../x"})
    assert studio.ask("GET", "/report/guessed")[:2] == (404, b"This report is gone: press Report in the studio again.")


def test_falls_reward_and_steps_are_those_of_the_run(race: list[rf.Run]) -> None:
    run = race[1]
    history, c = History(scene_of(run.spec)), run.columns
    for row in zip(*(c[name] for name in HISTORY), strict=True):
        history.add(*row)
    assert history.reset_rounds().tolist() == falls(run)
    json.dumps({**history.now, **history.curves()}, allow_nan=False)  # as it is sent, also of columns of a file
    assert history.now["lived"] == c["steps"][falls(run)[-1] :].sum()
    assert history.now["reward"] == pytest.approx(c["reward"].mean(), rel=1e-5)  # of the last 100 episodes
    curves = history.curves(20)
    spans = np.diff([0, *curves["k"]])
    assert np.dot(curves["reward"], spans) == pytest.approx(c["reward"].sum(), rel=1e-4)
    assert len(curves["falls"]) <= 20
    assert set(curves["falls"]) < set(falls(run))
    assert sought([history], falls(run)[1], "earlier") == falls(run)[0]
    assert sought([history], falls(run)[0], "earlier") == falls(run)[0]  # there is none before it
    assert run.path is not None
    again = read_past(run.path, scene_of(run.spec), 5)
    assert again is not None
    assert again.to_dict()["path"] == states(run, 5)
    assert read_past(run.path, scene_of(run.spec), 999) is None
