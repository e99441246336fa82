"""The page offers what can be done: players that can play, sizes that a grid may have; and words that can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.show.studio.serving import Served

from resetfree.show.studio.catalogue import playable

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_players_that_can_play_are_offered_the_best_first() -> None:
    found = playable()
    assert found["finite"][0] == "rule-elimination"
    assert found["vectors"][0] == "model-search"
    assert found["continua"] == ["continuous-linear-v0"]
    assert {"algorithm1", "linear-ucb", "uniform"} <= set(found["finite"])
    assert not {"ppo", "sac", "mbpo", "model-search", "neural-search", "staged-search"} & set(found["finite"])
    assert not {"ppo", "rule-elimination", "algorithm1", "ucbvi"} & set(found["vectors"])


@pytest.fixture
def known() -> None:
    """Players are tried in advance, so that the page need not wait."""
    playable()


def test_the_page_offers_these_refuses_a_size_and_keeps_the_counter_readable(
    browser: Browser, studio: Served, known: None
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(studio.url)
    page.wait_for_selector("#lanes-form option[value='ppo'][disabled]", state="attached")
    names = page.eval_on_selector_all(
        ".lane-form.a select >> nth=0 >> option", "all => all.filter((one) => !one.disabled).map((one) => one.value)"
    )
    assert names == ["auto", *playable()["finite"]]
    page.click("#tab-problem")
    page.select_option("#problem", "continuous-linear-v0")
    page.wait_for_selector("#lanes-form option[value='ucbvi'][disabled]", state="attached")
    page.click("#tab-draw")
    for side, size, got in (("rows", 40, "40 x 8"), ("cols", 60, "5 x 60")):
        page.fill(f"#{side}", str(size))
        page.dispatch_event(f"#{side}", "change")
        said = page.locator("#size-trouble").inner_text()
        assert said == f"A grid has 1 to 30 rows and columns. Got {got}: it stays 5 x 8."
    assert page.locator("#editor rect[data-r='29']").count() == 0
    page.fill("#cols", "6")
    page.dispatch_event("#cols", "change")
    assert page.locator("#size-trouble").is_hidden()
    flash = page.evaluate(
        "() => [...document.styleSheets].flatMap((s) => [...s.cssRules]).find((r) => r.name === 'hit').cssText"
    )
    assert "background" not in flash
    page.goto(f"{studio.url}#run=nothing-here")
    page.wait_for_selector("#trouble:not([hidden])")
    page.wait_for_selector(".transport", state="hidden")  # no buttons that do nothing
    context.close()
