"""The live figure of docs/idea.md computes what the library computes, and works by keyboard and without motion."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.theory.oracle.dynamic_programming import best_response

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DOCS = Path(__file__).parents[2] / "docs"
SCRIPTS = [DOCS / "_static" / name for name in ("ledge.js", "ledge_figure.js")]
PRICES = (0.0, 0.1, 0.5, 3.0, 5.0, 7.0, 8.5, 10.0, 16.9, 17.5, 17.89, 17.9, 18.0, 24.0, 1000.0)
LIVES = [(seed, step) for seed in range(20) for step in (0.5, 1.0, 3.0)]
ASKED = """(() => {
  const life = (seed, step) => {
    const one = Ledge.life(seed, step);
    const played = Array.from({ length: 300 }, () => ({ from: one.at, price: one.price, ...one.play() }));
    return { played, resets: one.resets, price: one.price };
  };
  return JSON.stringify({
    rows: Ledge.ROWS.join("/"), horizon: Ledge.HORIZON, start: Ledge.start,
    safe: Ledge.safe.reward, threshold: Ledge.reset.map((pit, s) => (pit ? null : Ledge.tooExpensive(s))),
    answers: PRICES.map((price) => Ledge.answer(price)), frontier: Ledge.frontier(),
    visits: PRICES.map((price) => Ledge.visits(Ledge.answer(price).policy)),
    lives: LIVES.map(([seed, step]) => life(seed, step)),
  });
})()"""


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the page's script computes: run by Node where there is one, else by the browser."""
    asked = ASKED.replace("PRICES", json.dumps(PRICES)).replace("LIVES", json.dumps(LIVES))
    if shutil.which("node"):
        program = f"const Ledge = require({json.dumps(str(SCRIPTS[0]))}); console.log({asked})"
        said = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True).stdout
    else:
        page = request.getfixturevalue("browser").new_page()
        page.add_script_tag(path=SCRIPTS[0])
        said = page.evaluate(asked)
        page.close()
    found: dict[str, Any] = json.loads(said)
    return found


@pytest.fixture(scope="module")
def mdp(told: dict[str, Any]) -> rf.FiniteMDP:
    return rf.make("drawn-v0", rows=told["rows"], slip=0.1, horizon=told["horizon"])  # type: ignore[no-any-return]


def test_the_problem_is_one_of_the_paper(mdp: rf.FiniteMDP, told: dict[str, Any]) -> None:
    assert rf.check(mdp)
    assert mdp.start[told["start"]] == 1


def test_the_price_that_is_too_dear_is_the_oracles(mdp: rf.FiniteMDP, told: dict[str, Any]) -> None:
    solution, live = rf.solve(mdp), ~mdp.reset
    np.testing.assert_allclose(np.array(told["safe"])[live], solution.value[live], rtol=1e-12)
    threshold = np.array([np.nan if price is None else price for price in told["threshold"]])
    np.testing.assert_allclose(threshold, solution.lambda_hat, rtol=1e-9)
    np.testing.assert_allclose(threshold[live], 17.892, rtol=1e-9)  # the page says so in words


@pytest.mark.parametrize("i", range(len(PRICES)))
def test_policies_and_values_are_best_responses(mdp: rf.FiniteMDP, told: dict[str, Any], i: int) -> None:
    """The library values the page's policy as the page does, and no policy is worth more at that price."""
    price, said, live = PRICES[i], told["answers"][i], ~mdp.reset
    worth, best = rf.evaluate(mdp, np.array(said["policy"])), best_response(mdp, price, rf.solve(mdp).policy)
    np.testing.assert_allclose(np.array(said["reward"])[live], worth.v_r[live], rtol=1e-12)
    np.testing.assert_allclose(np.array(said["resets"])[live], worth.v_c[live], rtol=1e-12)
    np.testing.assert_allclose((worth.v_r - price * worth.v_c)[live], (best.v_r - price * best.v_c)[live], rtol=1e-10)
    np.testing.assert_allclose(worth.v_c[live], best.v_c[live], rtol=1e-9, atol=1e-15)
    assert (worth.v_c[live] == 0).all() == (price >= 17.892)
    falls = np.array(told["visits"][i])[mdp.reset].sum()
    assert falls == pytest.approx(worth.v_c[told["start"]], rel=1e-12, abs=0)


def test_the_curve_is_what_all_prices_give(mdp: rf.FiniteMDP, told: dict[str, Any]) -> None:
    """Its corners in order, each a best response on both sides of its own price, down to no reset at all."""
    corners, s, safest = told["frontier"], told["start"], rf.solve(mdp).policy
    prices = [corner["price"] for corner in corners]
    assert prices == sorted(prices)
    assert len(corners) > 10
    for corner, until in zip(corners, [*prices[1:], prices[-1] + 1], strict=True):
        if until - corner["price"] > 1e-6:
            best = best_response(mdp, (corner["price"] + until) / 2, safest)
            assert (corner["resets"], corner["reward"]) == pytest.approx((best.v_c[s], best.v_r[s]), rel=1e-9)
    assert corners[-1]["resets"] == 0


def test_a_life_begins_where_it_ended_and_falls_no_more_than_the_price_allows(told: dict[str, Any]) -> None:
    for (_, step), life in zip(LIVES, told["lives"], strict=True):
        at, price = told["start"], 0.0
        for played in life["played"]:
            assert (played["from"], played["price"]) == (at, price)
            at = told["start"] if played["fell"] else played["path"][-1]
            price += step * played["fell"]
            assert played["fell"] <= (played["price"] < 17.892)
            assert len(played["path"]) == told["horizon"] + 1 or played["fell"]
        assert life["resets"] <= np.ceil(17.892 / step)  # on every path
        assert life["price"] == price > 0


def test_one_move_in_ten_of_a_life_slips(told: dict[str, Any]) -> None:
    """Each goes where it may; the share of slips lies within 8 standard deviations of 0.1."""
    policies = {price: np.array(answer["policy"]) for price, answer in zip(PRICES, told["answers"], strict=True)}
    moves, slips, places = [(-1, 0), (1, 0), (0, -1), (0, 1)], 0, 0
    for life in told["lives"]:
        for played in life["played"]:
            policy = policies.get(played["price"])
            if policy is None:
                continue
            for h, (s, to) in enumerate(zip(played["path"], played["path"][1:], strict=False)):
                (r, c), (dr, dc) = divmod(s, 6), moves[policy[h, s]]
                ways = [_walled(r + dr, c + dc), _walled(r + dc, c + dr), _walled(r - dc, c - dr)]
                assert to in ways
                if ways[0] not in ways[1:]:
                    places, slips = places + 1, slips + (to != ways[0])
    assert places > 10_000
    assert slips / places == pytest.approx(0.1, abs=8 * np.sqrt(0.09 / places))


def _walled(r: int, c: int) -> int:
    return min(max(r, 0), 2) * 6 + min(max(c, 0), 5)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The figure as the page has it, with the site's style, opened from the disk as a reader may."""
    raw = re.findall(r"```\{raw\} html\n(.*?)```", (DOCS / "idea.md").read_text(), flags=re.S)
    folder = tmp_path_factory.mktemp("figure")
    shutil.copytree(DOCS / "_static", folder / "_static")
    style, still = '<link rel="stylesheet" href="_static/site.css">', '<div class="ledge-still">still</div>'
    shown = f"<!doctype html><title>figure</title>{style}<body>{raw[0]}{still}{raw[1]}</body>"
    (folder / "figure.html").write_text(shown)
    return folder / "figure.html"


@contextmanager
def opened(browser: Browser, place: Path, **how: Any) -> Iterator[Page]:
    """The figure in a fresh window: no error may pass unnoticed, and nothing may be loaded from elsewhere."""
    context = browser.new_context(**how)
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith("file:") else wrong.append(request.url))
    page.goto(place.as_uri())
    yield page
    context.close()
    assert wrong == []


def test_the_keyboard_moves_the_price(browser: Browser, place: Path) -> None:
    with opened(browser, place) as page:
        assert not page.is_visible(".ledge-still")
        assert (page.inner_text("#ledge-reward"), page.inner_text("#ledge-resets")) == ("5.30", "45 %")
        page.focus(".ledge input")
        page.keyboard.press("End")
        assert page.inner_text("#ledge-price") == "24.0"
        assert (page.inner_text("#ledge-reward"), page.inner_text("#ledge-resets")) == ("3.06", "0 %")
        assert "Too expensive: from a price of 17.9 on" in page.inner_text("#ledge-words")
        assert page.inner_text("#ledge-said") == page.inner_text("#ledge-words")
        page.keyboard.press("ArrowLeft")
        assert page.inner_text("#ledge-price") == "23.9"


def test_the_game_plays_raises_its_price_and_stops(browser: Browser, place: Path) -> None:
    with opened(browser, place) as page:
        page.click("#ledge-play")
        assert page.inner_text("#ledge-play") == "Pause"
        page.wait_for_function("Number(document.querySelector('.ledge input').value) >= 2")
        page.click("#ledge-play")
        assert page.inner_text("#ledge-play") == "Continue the game"
        paused = page.inner_text("#ledge-words")
        page.wait_for_timeout(150)
        assert page.inner_text("#ledge-words") == paused
        page.focus(".ledge input")
        page.keyboard.press("Home")  # by hand again
        assert "Falling is free" in page.inner_text("#ledge-words")


def test_without_motion_each_press_shows_a_result_at_once(browser: Browser, place: Path) -> None:
    with opened(browser, place, reduced_motion="reduce") as page:
        seen = [0.45]
        while page.inner_text("#ledge-resets") != "0 %":
            page.click("#ledge-raise")
            assert page.inner_text("#ledge-raise") == "Raise the price"
            seen.append(float(page.inner_text("#ledge-resets").removesuffix(" %")) / 100)
        assert 3 <= len(seen) <= 20
        assert seen == sorted(seen, reverse=True)
        page.select_option(".ledge select", "3")
        page.click("#ledge-play")
        assert re.match(
            r"6 resets in 600 episodes; the price is 18\. That is above 17\.9", page.inner_text("#ledge-words")
        )
        assert page.get_attribute("#ledge-count", "aria-label") == "6 resets in 600 episodes."


def test_without_scripts_there_is_a_picture(browser: Browser, place: Path) -> None:
    with opened(browser, place, java_script_enabled=False) as page:
        assert page.is_visible(".ledge-still")
        assert not page.is_visible(".ledge")


@pytest.mark.parametrize("width", [320, 390])
def test_it_fits_a_phone(browser: Browser, place: Path, width: int) -> None:
    with opened(browser, place, viewport={"width": width, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
