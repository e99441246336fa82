"""Every page as it looks: light and dark, on a desk and on a phone; nothing sticks out, is cut off or does not load.

With RESETFREE_LOOKS=DIR the pictures are kept, to be looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.show.studio.serving import Served, served

import resetfree as rf
from resetfree.show.cli import main
from resetfree.show.report import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROWS = "S......./.XX...../..X..#G./...X..../........"
SIZES = {"desk": (1320, 1000), "phone": (390, 800)}
UNIFORM = ["--primal", "uniform", "--dual", "counting", "--feedback", "realised", "--set", "horizon=40"]
# Elements that cut their text off although nobody can scroll them, and pictures that did not load.
WRONG = """() => {
  const seen = [...document.querySelectorAll("body *")].filter((x) => x.checkVisibility());
  const cut = seen.filter((x) => getComputedStyle(x).overflowX === "hidden" && x.scrollWidth > x.clientWidth + 1);
  const missing = seen.filter((x) => x.tagName === "IMG" && !x.naturalWidth);
  return [
    ...(document.documentElement.scrollWidth > innerWidth ? ["the page is wider than the window"] : []),
    ...cut.map((x) => "cut off: " + x.outerHTML.slice(0, 120)),
    ...missing.map((x) => "not loaded: " + x.alt),
  ];
}"""


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A studio with a game of two players and a run of an environment that kept its pictures."""
    folder = tmp_path_factory.mktemp("looks")
    options = {"problem": {"rows": ROWS, "slip": 0.1, "horizon": 12}}
    for side, player in (("left", "support-elimination"), ("right", "linear-ucb")):
        rf.learn("drawn-v0", player, episodes=150, settings=options, path=folder / f"game-{side}.rfrun")
    assert (
        main(["run", "CartPole-v1", *UNIFORM, "--episodes", "40", "--film", "25", "--out", f"{folder}/pole.rfrun"]) == 0
    )
    with served(folder) as one:
        yield one


@pytest.fixture(scope="module")
def pages(studio: Served, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of a finite run, of an environment and of several groups."""
    folder = tmp_path_factory.mktemp("reports")
    rf.learn("grid-v0", episodes=600, path=folder / "finite.rfrun")
    many = [
        folder / f"{player}-{seed}.rfrun" for player in ("uniform", "ucbvi", "support-elimination") for seed in range(3)
    ]
    for path in many:
        player, _, seed = path.stem.rpartition("-")
        rf.learn("grid-v0", player, episodes=120, seed=int(seed), path=path)
    runs = {"finite": [folder / "finite.rfrun"], "environment": [studio.folder / "pole.rfrun"], "sweep": many}
    for name, files in runs.items():
        write_report(files, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in runs}


def look(page: Page, name: str) -> None:
    """Nothing may be wrong, and the picture is kept if somebody wants it."""
    page.wait_for_timeout(300)
    if "RESETFREE_LOOKS" in os.environ:
        page.screenshot(path=Path(os.environ["RESETFREE_LOOKS"]) / f"{name}.png", full_page=True)
    assert page.evaluate(WRONG) == [], name


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_pages_fit_and_load(browser: Browser, studio: Served, pages: dict[str, Path], size: str, scheme: str) -> None:
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(120_000)
    for name, file in pages.items():
        page.goto(file.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        look(page, f"report-{name}-{size}-{scheme}")
    page.goto(studio.url)
    page.wait_for_selector("#verdict.good")
    look(page, f"studio-new-{size}-{scheme}")
    for run in ("game", "pole"):
        page.goto(f"{studio.url}#run={run}")
        page.reload()
        page.wait_for_selector("#charts figure:not([hidden]) path")
        page.wait_for_selector("#certificates .card")
        page.click("#earlier-reset")
        page.wait_for_selector("#now:not([hidden])")
        look(page, f"studio-{run}-{size}-{scheme}")
    context.close()
