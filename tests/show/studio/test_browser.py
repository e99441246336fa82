"""The page in a real browser: what a newcomer does with it, from the first look to the report."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.show.studio.serving import Served, served
from tests.waiting import until

import resetfree as rf

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Route

PATIENCE = 240_000  # milliseconds: a machine that does other things as well is slow


@pytest.fixture
def page(browser: Browser, studio: Served) -> Iterator[Page]:
    """A fresh page, on which nothing may go wrong unnoticed: no error in a script, nothing that the policy blocks."""
    context = browser.new_context(accept_downloads=True, viewport={"width": 1320, "height": 1000})
    one, wrong = context.new_page(), list[str]()
    one.set_default_timeout(PATIENCE)
    one.on("pageerror", lambda error: wrong.append(str(error)))
    one.on("console", lambda message: wrong.append(message.text) if _bad(message) else None)
    one.on("request", lambda request: wrong.append(request.url) if not _ours(request.url, studio) else None)
    yield one
    context.close()
    assert wrong == []


def _bad(message: ConsoleMessage) -> bool:
    """Any complaint but that a request was refused, which the page itself shows."""
    return message.type == "error" and "the server responded with a status of 4" not in message.text


def _ours(url: str, studio: Served) -> bool:
    return url.startswith((studio.url, "blob:", "data:"))


def open_page(page: Page, studio: Served, place: str = "") -> None:
    page.goto(f"{studio.url}{place}")
    page.wait_for_selector("#brushes input", state="attached")


def paint(page: Page, brush: str, *cells: tuple[int, int]) -> None:
    page.check(f"#brushes input[value='{brush}']", force=True)
    for row, column in cells:
        page.click(f"#editor rect[data-r='{row}'][data-c='{column}']", force=True)


def episode(page: Page, lane: int = 0) -> int:
    return int(page.locator(".lane").nth(lane).locator(".tile b").first.inner_text().replace(",", ""))


def begin(page: Page) -> str:
    page.click("#start")
    page.wait_for_selector(".lane")
    page.wait_for_function("() => document.querySelector('.lane .tile b').textContent !== '–'")
    return re.sub(r".*#run=", "", page.url)


def test_draw_a_grid_break_the_assumption_repair_it_and_run_two_players(page: Page, studio: Served) -> None:
    open_page(page, studio)
    page.select_option("#template", "empty")
    page.fill("#rows", "5")
    page.fill("#cols", "6")
    page.dispatch_event("#cols", "change")
    paint(page, "G", (4, 5))
    page.wait_for_selector("#verdict.good")
    assert "Assumption 1 holds" in page.inner_text("#verdict")
    paint(page, "X", (1, 2), (3, 2))
    page.wait_for_selector("#verdict.bad")  # between two pits every way out may slip into one
    assert "Assumption 1 is broken at 1 cell" in page.inner_text("#verdict")
    assert page.locator("#editor .breaking").get_attribute("data-cell") == str(2 * 6 + 2)
    page.click("#close-grid")
    page.wait_for_selector("#verdict.good")
    assert page.is_checked("#closed")
    assert page.locator("#editor .stuck").get_attribute("data-cell") == str(2 * 6 + 2)
    assert page.locator("#editor .breaking").count() == 0

    name = begin(page)
    assert page.locator(".lane").count() == 2
    assert page.locator(".lane h3").all_inner_texts()[0].startswith("rule-elimination")
    page.fill("#speed", "12")
    page.wait_for_function("() => document.querySelector('.lane .tile b').textContent.replace(',', '') > 100")
    page.keyboard.press("Space") if page.evaluate("document.activeElement === document.body") else page.click("#pause")
    page.wait_for_selector(".lane.a .badge.paused")
    page.wait_for_selector(".lane.b .badge.paused")
    k = episode(page)
    page.wait_for_timeout(400)
    assert episode(page) == k  # it really stands

    page.click("#step")
    until(lambda: episode(page) == k + 1)

    page.reload()  # in the middle
    page.wait_for_selector(".lane.a .badge.paused")
    assert (episode(page), re.sub(r".*#run=", "", page.url)) == (k + 1, name)
    assert page.inner_text("#pause") == "Play"
    assert page.locator(".lane.a .field .agent").get_attribute("visibility") == "visible"
    assert page.locator(".chart path").count() >= 8

    page.click("#pause")
    page.wait_for_selector(".lane.a .badge.running, .lane.a .badge.done")
    page.click("#stop")
    page.wait_for_selector(".lane.a .badge.stopped, .lane.a .badge.done")
    runs = [rf.load(studio.folder / f"{name}-{side}.rfrun") for side in ("left", "right")]
    assert [len(run) for run in runs] == [episode(page, 0), episode(page, 1)]
    assert runs[0].spec["fingerprint"] == runs[1].spec["fingerprint"]
    assert all(run.spec["problem_options"]["closed"] for run in runs)
    shown = page.locator(".lane.b .tile").nth(1).locator("b").inner_text().replace(",", "")
    assert int(shown) == runs[1].realised_resets[-1]
    page.wait_for_selector("#certificates .badge.good")
    assert "proved claims hold" in page.inner_text("#certificates")

    if page.locator("#resume").is_visible():  # it was not over yet: it goes on, and the page goes along
        page.click("#resume")
        page.wait_for_selector(".lane.a .badge.running, .lane.a .badge.done")
        page.wait_for_selector(".lane.a .badge.done")
        page.wait_for_selector(".lane.b .badge.done")
        runs = [rf.load(studio.folder / f"{name}-{side}.rfrun") for side in ("left", "right")]
        assert [len(run) for run in runs] == [episode(page, 0), episode(page, 1)] == [5000, 5000]

    with page.context.expect_page(timeout=PATIENCE) as got_page:
        page.click("#get-report")
    report = got_page.value
    report.wait_for_selector(".headline", timeout=2 * PATIENCE)  # another process has to start, and to make it
    assert "rule-elimination" in report.inner_text("main")
    assert "linear-ucb" in report.inner_text("main")
    with page.expect_download() as got:
        page.locator(".get-file").first.click()
    copy = studio.folder.parent / "copy.rfrun"
    copy.write_bytes(Path(got.value.path()).read_bytes())
    assert len(rf.load(copy)) == len(runs[0])


def test_answer_a_reset_request_from_the_page(page: Page, studio: Served) -> None:
    open_page(page, studio)
    page.select_option("#template", "garden")
    page.click("#more summary")
    page.check("#by-hand")
    page.uncheck("#versus")
    page.fill("#episodes", "300")
    page.locator(".lane-form.a select").first.select_option("uniform")
    name = begin(page)
    page.wait_for_selector(".request")
    assert "needs a reset" in page.inner_text(".request")
    assert page.locator("#lanes .w").count() == 35 * 4  # a triangle for each move, on each cell where one can be
    page.fill(".request input[name=who]", "ada")
    page.fill(".request input[name=note]", "put it back")
    first = page.inner_text(".request p")
    page.click(".request .main")
    page.fill("#speed", "12")
    page.wait_for_function("(old) => document.querySelector('.request p')?.textContent !== old", arg=first)
    page.wait_for_selector(".request")  # it was played until the next reset request
    assert "entered" in page.inner_text(".request")
    assert page.input_value(".request input[name=who]") == "ada"  # a name is said once
    page.click(".request button[type=button]")  # enough
    page.wait_for_selector(".lane .badge.stopped")
    run = rf.load(studio.folder / f"{name}.rfrun")
    assert run.interventions[0].who == "ada"
    assert run.interventions[0].detail.endswith("put it back")
    assert 0 < len(run) < 300


def test_answer_a_run_of_a_terminal(page: Page, studio: Served) -> None:
    path = studio.folder / "terminal.rfrun"
    command = [sys.executable, "-m", "resetfree.show.cli", "run", "drawn-by-hand-v0", "--operator", "http", "--primal"]
    process = subprocess.Popen(
        [*command, "uniform", "--episodes", "2", "--out", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        until(path.exists)
        open_page(page, studio, "#runs")
        page.click("#run-list a:text('terminal')")
        while process.poll() is None:
            page.wait_for_selector(".request, .badge.file")
            if page.locator(".request").count():
                asked = page.inner_text(".request p")
                page.click(".request .main")
                page.wait_for_function("(old) => document.querySelector('.request p')?.textContent !== old", arg=asked)
            page.wait_for_timeout(200)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
    run = rf.load(path)
    assert {one.who for one in run.interventions} == {"operator at the studio"}
    page.wait_for_selector(".lane .badge.file")
    assert episode(page) == len(run) == 2


def test_bad_input_is_a_sentence_on_the_page(page: Page, studio: Served) -> None:
    open_page(page, studio)
    page.select_option("#template", "empty")
    paint(page, ".", (0, 0))
    page.wait_for_selector("#verdict.bad")
    assert "start S or a restart R" in page.inner_text("#verdict")
    page.fill("#rows", "5000")
    page.dispatch_event("#rows", "change")
    assert "Got 5000 x " in page.inner_text("#size-trouble")  # refused at once
    assert page.input_value("#rows") == "5"


def test_a_registered_problem_with_settings_of_its_player(page: Page, studio: Served) -> None:
    open_page(page, studio)
    page.click("#tab-problem")
    page.select_option("#problem", "pits-v0")
    page.fill("#options [data-name=n]", "6")
    page.uncheck("#versus")
    page.fill("#episodes", "200")
    form = page.locator(".lane-form.a")
    form.locator("select").first.select_option("ucbvi")
    form.locator("details").first.locator("summary").click()
    form.locator("[data-name=scale]").first.fill("0.2")
    name = begin(page)
    page.fill("#speed", "12")
    page.wait_for_selector(".lane .badge.done")
    spec = rf.load(studio.folder / f"{name}.rfrun").spec
    assert spec["problem_options"] == {"n": 6}
    assert spec["primal"]["settings"]["scale"] == 0.2
    assert page.locator("#lanes .cell").count() == 36 + 1


def test_a_machine_is_seen_while_it_learns_and_pushed_by_hand(page: Page, studio: Served) -> None:
    open_page(page, studio)
    page.click("#tab-machine")
    page.select_option("#machine", "gym:resetfree/CartLoad-v0")
    page.wait_for_selector("#lanes-form option[value='linear-ucb'][disabled]", state="attached")
    assert page.input_value("#episodes") == "200"
    name = begin(page)
    shown = page.locator(".view .live")
    shown.wait_for()
    first = shown.get_attribute("src")
    until(lambda: shown.get_attribute("src") != first)
    assert page.inner_text("#speed-shown") == "real time"
    slider = page.locator(".push input")
    with page.expect_request("**/api/control") as sent:
        slider.press("ArrowRight")
    assert sent.value.post_data_json == {"name": name, "action": "push", "push": 0.05}
    until(lambda: slider.input_value() == "0")  # a hand that lets go pushes no more
    page.click("#pause")
    page.wait_for_selector(".lane .badge.paused")
    still = shown.get_attribute("src")
    page.wait_for_timeout(400)
    assert shown.get_attribute("src") == still
    page.click("#stop")
    page.wait_for_selector(".lane .badge.stopped")
    page.wait_for_selector(".kept .camera")  # what it kept of itself
    page.click("#again")
    page.wait_for_selector(".view .live")
    assert page.url.endswith("-2")
    page.click("#stop")
    page.wait_for_selector(".lane .badge.stopped")
    assert rf.load(studio.folder / f"{name}.rfrun").spec["problem_options"] == {}


def test_a_claim_of_a_kind_that_the_page_does_not_know_is_shown_as_it_is(page: Page, studio: Served) -> None:
    """Neither hidden nor counted as proved, in no colour that says more than its word."""

    def renamed(route: Route) -> None:
        answer = route.fetch()
        told = answer.json()
        claims = told["lanes"][0]["claims"]
        held = [claim for claim in claims if claim["status"] == "proved" and claim["holds"]]
        if held:
            held[-1].update(status="identity", claim="renamed by this test")
        route.fulfill(response=answer, json=told)

    page.route("**/api/certificates*", renamed)
    rf.learn("grid-v0", episodes=50, path=studio.folder / "claims.rfrun")
    count = sum(c.status == "proved" for c in rf.load(studio.folder / "claims.rfrun").certificates())
    open_page(page, studio, "#run=claims")
    page.wait_for_selector("#certificates .claims li", state="attached")
    row = page.locator("#certificates li", has_text="renamed by this test")
    badge = row.locator(".badge")
    assert badge.text_content() == "identity, holds"
    assert badge.get_attribute("class") == "badge "
    assert f"{count - 1} of {count - 1} proved claims hold" in page.inner_text("#certificates h3")


def test_a_phone_a_dark_room_and_a_keyboard(browser: Browser, studio: Served) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    open_page(page, studio)
    page.wait_for_selector("#verdict.good")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing sticks out
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.click("#theme")
    assert page.evaluate(paper) != dark
    page.focus("#editor")
    page.check("#brushes input[value='#']", force=True)
    page.focus("#editor")
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert page.locator("#editor .cell.wall").count() == 2  # the garden's own, and ours
    unnamed = """[...document.querySelectorAll('button, input, select')].filter((x) => x.checkVisibility()
      && !x.labels?.length && !x.getAttribute('aria-label') && !x.textContent.trim()).map((x) => x.outerHTML)"""
    assert page.evaluate(unnamed) == []
    begin(page)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Space")
    page.wait_for_selector(".lane .badge.paused")
    k = episode(page)
    page.keyboard.press("s")
    until(lambda: episode(page) == k + 1)
    page.click("#stop")
    page.wait_for_selector(".lane .badge.stopped")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


def test_the_token_comes_in_the_address_and_goes_in_a_header(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path, token="open-sesame") as locked:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(locked.url)
        page.wait_for_selector("#trouble:not([hidden])")
        assert "token" in page.inner_text("#trouble")
        page.goto(f"{locked.url}#token=open-sesame")
        page.reload()
        page.wait_for_selector("#verdict.good")
        assert "sesame" not in page.url  # it does not stay where it can be read over a shoulder
        begin(page)
        page.reload()
        page.wait_for_selector(".lane")
        with context.expect_page(timeout=PATIENCE) as opened:  # a tab cannot send the token: its address is a secret
            page.click("#get-report")
        opened.value.wait_for_selector(".headline", timeout=2 * PATIENCE)
        assert locked.ask("GET", "/report/guessed", headers={"X-Resetfree-Token": ""})[0] == 404
        assert locked.ask("POST", "/api/report", {"name": "any"}, {"X-Resetfree-Token": ""})[0] == 401
        assert context.cookies() == []
        context.close()


def test_the_age_of_plans_is_shown_where_they_may_be_old(page: Page, studio: Served) -> None:
    late = rf.learn("grid-v0", episodes=60, path=studio.folder / "late.rfrun", delay=3)
    rf.learn("grid-v0", episodes=60, path=studio.folder / "punctual.rfrun")
    open_page(page, studio, "#run=late")
    tile = page.locator(".lane .tile", has_text="age of the plan, rounds")
    tile.wait_for()
    page.wait_for_function("() => document.querySelector('.lane .tile b').textContent === '60'")
    assert tile.locator("b").inner_text() == str(late.plan_ages[-1])
    assert page.locator("#charts figure", has_text="Age of plans").count() == 1
    assert page.locator("#charts figure", has_text="Lateness").count() == 0  # it had no rate
    open_page(page, studio, "#run=punctual")
    page.reload()
    page.wait_for_selector(".lane .tile")
    assert page.locator(".lane .tile", has_text="age of the plan").count() == 0
    assert page.locator("#charts figure", has_text="Age of plans").count() == 0
