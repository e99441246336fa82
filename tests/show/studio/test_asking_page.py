"""The page in a real browser: a game that calls for help, and goals of a run that another program plays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.show.studio.serving import Served
from tests.show.studio.test_browser import begin, open_page, page

import resetfree as rf

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["page"]  # the fixture


@pytest.mark.filterwarnings("ignore::resetfree.core.errors.Notice")
def test_a_game_that_is_stuck_calls_from_the_page(page: Page, studio: Served) -> None:
    """One cell: nothing to win and nowhere to go, so it calls after 20 episodes."""
    open_page(page, studio)
    page.select_option("#template", "empty")
    for name in ("rows", "cols"):
        page.fill(f"#{name}", "1")
        page.dispatch_event(f"#{name}", "change")
    page.fill("#horizon", "50")
    page.click("#more summary")
    page.check("#by-hand")
    page.check("#ask")
    page.uncheck("#versus")
    page.locator(".lane-form.a select").first.select_option("uniform")
    page.fill("#episodes", "30")
    page.click("#start")
    page.wait_for_selector(".request")
    page.click(".request .main")
    page.fill("#speed", "12")
    page.wait_for_function("() => document.querySelector('.request p')?.textContent.includes('is stuck')")
    page.click(".request .main")
    page.wait_for_selector(".lane .badge.done")
    assert "1\nresets requested when stuck" in page.inner_text(".lane .tiles")


def test_a_price_of_asking_is_an_action_and_goals_are_counted(page: Page, studio: Served) -> None:
    open_page(page, studio)
    page.click("#more summary")
    page.fill("#help", "0.5")
    page.dispatch_event("#help", "change")
    page.uncheck("#versus")
    page.fill("#episodes", "3")
    begin(page)
    page.wait_for_selector(".lane .badge.done")
    assert page.locator("#lanes .w").count() == 35 * 5  # a dot for each move, and one for asking
    given = {"problem": {"horizon": 20, "is_slippery": False}}
    run = rf.learn("gym:FrozenLake-v1", episodes=30, seed=1, path=studio.folder / "lake.rfrun", settings=given)
    open_page(page, studio, "#run=lake")
    page.wait_for_selector(".lane .badge.file")
    assert f"{run.goals[-1]}\ngoals reached; none is a reset" in page.inner_text(".lane .tiles")
    assert run.goals[-1] > 0
