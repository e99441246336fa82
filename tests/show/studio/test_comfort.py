"""What makes the page a joy: changes taken back, words explained, a result at the end, the same game again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.show.studio.serving import Served
from tests.show.studio.test_browser import begin, episode, open_page, page, paint
from tests.waiting import until

import resetfree as rf
from resetfree.core.readable import since
from resetfree.show.cli import main
from resetfree.show.report.filming import kept_scenes
from resetfree.show.studio.catalogue import TEMPLATES, catalogue, check_grid

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["page"]  # the fixture


def rows(page: Page) -> str:
    return str(page.evaluate("JSON.parse(localStorage.getItem('grid')).rows.join('/')"))


def test_changes_of_the_grid_are_taken_back_and_made_again(page: Page, studio: Served) -> None:
    open_page(page, studio)
    page.select_option("#template", "empty")
    page.wait_for_selector("#verdict.good")
    first = rows(page)
    paint(page, "X", (2, 2))
    second = rows(page)
    paint(page, "#", (3, 3))
    page.click("#undo")
    assert rows(page) == second
    page.keyboard.press("Control+z")
    assert rows(page) == first
    page.click("#redo")
    assert rows(page) == second
    paint(page, "X", (0, 4))
    assert page.is_disabled("#redo")  # another future
    page.click("#clear")
    assert set(rows(page)) == {"S", ".", "/"}
    page.click("#undo")
    assert rows(page).count("X") == 2


def test_a_link_holds_the_drawing(page: Page, studio: Served) -> None:
    open_page(page, studio)
    page.select_option("#template", "bridge")
    page.click("#close-grid")
    page.wait_for_selector("#verdict.good")
    paint(page, "#", (0, 3))
    page.fill("#horizon", "15")
    page.dispatch_event("#horizon", "change")
    page.click("#share")
    link, drawn, kept = page.url, rows(page), "JSON.parse(localStorage.getItem('grid'))"
    assert "#grid=S..%23" in link
    grid = page.evaluate(kept)
    page.select_option("#template", "empty")
    assert page.url.endswith("#new")  # the address holds no other drawing than the one that is seen
    mine = rows(page)
    page.goto(link)
    page.wait_for_function("(drawn) => JSON.parse(localStorage.getItem('grid')).rows.join('/') === drawn", arg=drawn)
    assert page.evaluate(kept) == grid
    assert grid["horizon"] == 15
    page.click("#undo")
    assert rows(page) == mine
    for wrong in ("S..%2F.", "S%3Cb%3E", "S" * 31):
        page.goto(f"{studio.url}#grid={wrong}")
        page.wait_for_selector("#trouble:not([hidden])")
        assert "the grid stays as it was" in page.inner_text("#trouble")
        assert rows(page) == mine


def test_fields_that_break_the_assumption_say_so() -> None:
    said = catalogue()["breaking"]
    assert said == [name for name, grid in TEMPLATES.items() if not check_grid(grid)["holds"]]
    assert 0 < len(said) < len(TEMPLATES)


def test_a_game_speeds_up_ends_with_a_sentence_and_is_played_again(page: Page, studio: Served) -> None:
    open_page(page, studio)
    strip = page.locator("#first")
    assert strip.is_visible()
    page.click("#first-done")
    page.reload()
    page.wait_for_selector("#brushes input", state="attached")
    assert strip.is_hidden()
    page.select_option("#template", "garden")
    page.fill("#episodes", "150")
    page.fill("#seed", "3")
    page.locator(".lane-form.b details").first.locator("summary").click()
    page.locator(".lane-form.b [data-name=scale]").first.fill("0.2")
    name = begin(page)
    assert page.inner_text("#speed-shown") == "2 per second"
    page.wait_for_function("() => Number(document.getElementById('speed').value) >= 4")  # by itself, twice
    proved, tuned = (page.locator(".lane.a .badges .badge").nth(i).inner_text() for i in (0, 1))
    assert (proved, tuned) == ("resets: bounded on every path, proved", "regret: tuned, no theorem")
    assert page.locator(".lane.b .badges .badge").first.inner_text() == "resets: no bound proved"
    page.locator(".lane.a button[aria-label='What is dual?']").click()
    assert page.locator("#meaning-dual").is_visible()
    near = "(of) => { const at = document.querySelector(of).getBoundingClientRect(); return [at.left, at.bottom]; }"
    mark, meaning = (page.evaluate(near, of) for of in (".lane.a button[aria-label='What is dual?']", "#meaning-dual"))
    assert abs(mark[0] - meaning[0]) < 330  # beside its question mark
    assert 0 < meaning[1] - mark[1] < 200
    page.keyboard.press("Escape")
    assert page.locator("#meaning-dual").is_hidden()
    page.fill("#speed", "12")
    page.wait_for_selector(".lane.a .badge.done")
    page.wait_for_selector(".lane.b .badge.done")
    page.wait_for_selector("#result:not([hidden])")
    assert page.locator("#result span").count() == 2  # a line for each player
    words = page.inner_text("#result")
    for side in ("left", "right"):
        run = rf.load(studio.folder / f"{name}-{side}.rfrun")
        resets, last = int(run.realised_resets[-1]), int(run.columns["k"][run.columns["reset"]].max())
        assert f"{run.spec['primal']['name']}: {resets} resets in 150 episodes{since(last, 150)}." in words

    page.click("#again")
    page.wait_for_function("(old) => !location.hash.endsWith(old)", arg=name)
    page.wait_for_selector(".lane .badge.running, .lane .badge.done")
    until(lambda: episode(page) > 0)
    again = page.url.partition("#run=")[2]
    specs = [rf.load(studio.folder / f"{game}-right.rfrun").spec for game in (name, again)]
    assert specs[1]["seed"] == specs[0]["seed"] + 1 == 4
    assert specs[1]["fingerprint"] == specs[0]["fingerprint"]
    assert specs[1]["primal"] == specs[0]["primal"]
    assert specs[1]["primal"]["settings"]["scale"] == 0.2
    page.click("#stop")
    page.wait_for_selector(".lane.a .badge.stopped, .lane.a .badge.done")
    page.wait_for_selector("#edit:not([hidden])")
    page.click("#edit")
    page.wait_for_selector("#setup:not([hidden])")
    assert rows(page) == TEMPLATES["garden"]["rows"]


def test_settings_that_few_need_are_folded_until_one_is_set(page: Page, studio: Served) -> None:
    open_page(page, studio)
    assert page.locator("#stay").is_hidden()
    page.select_option("#template", "bridge")
    page.click("#close-grid")
    page.wait_for_selector("#verdict.good")
    page.reload()  # the grid is kept, with what was set
    page.wait_for_selector("#verdict.good")
    assert page.locator("#closed").is_visible()
    assert page.is_checked("#closed")


def test_panels_without_data_are_not_shown(page: Page, studio: Served) -> None:
    path = studio.folder / "pole.rfrun"
    player = ["--primal", "uniform", "--dual", "constant-penalty", "--set", "C=5", "--set", "horizon=30"]
    assert main(["run", "CartPole-v1", *player, "--episodes", "8", "--film", "6", "--out", str(path)]) == 0
    open_page(page, studio, "#run=pole")
    page.wait_for_selector("#charts figure:not([hidden])")
    page.wait_for_function("() => document.querySelectorAll('#charts figure[hidden]').length > 0")
    shown = page.locator("#charts figure:not([hidden]) strong").all_inner_texts()
    assert {"Resets", "Reward per episode", "Steps since the last reset"} <= {title.strip() for title in shown}
    assert not {"Regret", "Multiplier λ"} & {title.strip() for title in shown}  # its price never changed
    page.wait_for_selector("#certificates .badge")
    assert "identities" not in page.inner_text("#certificates h3")  # none can be checked here
    run = rf.load(path)
    c, last = run.columns, int(run.columns["k"][run.columns["reset"]].max(initial=0))
    tiles = page.locator(".lane .tile").all_inner_texts()
    assert f"{int(c['steps'][last:].sum())}\nsteps since the last reset" in [text.strip() for text in tiles]
    returns = np.where(np.isnan(c["original_return"]), c["reward"], c["original_return"])
    assert not [text for text in tiles if "the last 100" in text]  # there were eight
    (shown_reward,) = [float(text.split()[0]) for text in tiles if "reward per episode" in text]
    assert shown_reward == pytest.approx(returns.mean(), rel=0.005)  # three digits
    kept = kept_scenes(path)
    assert kept is not None
    page.wait_for_function("() => document.querySelector('.camera').naturalWidth > 100")
    assert page.locator(".kept option").all_inner_texts() == [about["title"] for about, _ in kept.scenes]
    page.select_option(".kept select", "reset 1")
    page.wait_for_selector(".kept.fell")
    assert page.locator(".kept figcaption").inner_text().endswith("of this life: a reset")
    assert page.locator(".lane .none").is_hidden()
    with page.expect_download() as got:
        page.click("#get-film")
    assert got.value.suggested_filename == "pole.gif"


def test_buttons_that_would_be_refused_are_not_offered(page: Page, studio: Served) -> None:
    """Only the command line goes on with a run with delay, and plays a problem again that is registered nowhere."""
    rf.learn("grid-v0", episodes=20, steps=40, path=studio.folder / "plain.rfrun")
    rf.learn("grid-v0", episodes=20, steps=40, path=studio.folder / "late.rfrun", delay=2)
    own = rf.FiniteMDP(np.ones((1, 1, 1)), reward=[[0.5]], reset=[False], horizon=3)
    rf.learn(own, episodes=20, path=studio.folder / "own.rfrun")
    offered = {}
    for name in ("plain", "late", "own"):
        page.goto(f"{studio.url}#run={name}")
        page.wait_for_selector(f"#stage-title:has-text('{name}')")
        page.wait_for_selector("#get-report:visible")
        offered[name] = [page.is_visible(which) for which in ("#resume", "#again")]
    assert offered == {"plain": [True, True], "late": [False, False], "own": [False, False]}


def test_why_a_button_did_nothing_stays_on_the_page(page: Page, studio: Served) -> None:
    open_page(page, studio)
    begin(page)
    refused = {"error": "It cannot be paused."}
    page.route("**/api/control", lambda route: route.fulfill(status=400, json=refused))
    page.click("#pause")
    page.wait_for_selector("#trouble:not([hidden])")
    played = episode(page)
    until(lambda: episode(page) > played)  # frames come meanwhile
    assert page.inner_text("#trouble") == refused["error"]
    page.unroute("**/api/control")
    page.click("#stop")
    page.wait_for_selector("#trouble", state="hidden")


def test_a_run_that_is_not_there_shows_nothing_of_the_last_one(page: Page, studio: Served) -> None:
    rf.learn("grid-v0", episodes=20, path=studio.folder / "a.rfrun")
    page.goto(f"{studio.url}#run=a")
    page.wait_for_selector(".lane")
    page.goto(f"{studio.url}#run=b")
    page.wait_for_selector("#trouble:has-text(\"There is no run 'b'.\")")
    assert not page.is_visible(".lane")
    page.go_back()
    page.wait_for_selector(".lane:visible")
