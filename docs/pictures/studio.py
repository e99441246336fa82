"""The pictures of the studio, of a real game in a real browser: `python docs/pictures/studio.py [FOLDER]`. A minute.

studio.png is the page as it is; studio.gif is a game of two players, ten seconds of it, with the parts of the page that
would be too small to read left out. Needs chromium and playwright.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

WIDTH = 720  # pixels of the film
MOST_BYTES = 1_500_000
COLOURS = 96
WALKED = 8  # episodes that are walked step by step at the beginning
PACES = (("4", 8), ("6", 12), ("8", 12), ("10", 12), ("12", 10))  # positions of the slider, and frames taken at each
FRAME, LAST = 110, 2500  # milliseconds of a frame, and of the last one
FILMED = """
.lane .badges, .lane > details, .lane > .soft, .lane .badge, .lane .bar, .lane h3 em, .help,
.tile:nth-child(3), .tile:nth-child(4) { display: none !important; }
.tiles { grid-template-columns: repeat(3, 1fr) !important; }
.tile b { font-size: 2rem !important; } .tile span { font-size: 1.05rem !important; }
.tile.hit { animation: none !important; } .lane h3 { font-size: 1.6rem !important; }
"""


@contextmanager
def studio() -> Iterator[str]:
    """The address of a studio in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "resetfree.show.cli", "studio", "--no-browser", "--port", "0"]
        process = subprocess.Popen([*words, "--folder", folder], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            process.terminate()
            process.wait()


def start(page: Page, address: str, episodes: int) -> None:
    """Begin the first game that a visitor would."""
    page.goto(address)
    page.wait_for_selector("#verdict.good")
    page.fill("#episodes", str(episodes))
    page.click("#start")
    page.wait_for_selector(".lane .tile b")


def still(page: Page, address: str, path: Path) -> None:
    """The page in the middle of a game: something is learned, something is not."""
    start(page, address, 2000)
    page.fill("#speed", "9")
    played = "() => Number(document.querySelector('.lane .tile b').textContent.replace(',', '')) >= 420"
    page.wait_for_function(played, timeout=120_000)
    page.click("#pause")
    page.wait_for_timeout(2500)
    page.evaluate("document.activeElement.blur()")
    page.screenshot(path=path)


def film(page: Page, address: str, path: Path) -> None:
    """A game from its first steps to its end."""
    start(page, address, 3000)
    page.add_style_tag(content=FILMED)
    page.click("#pause")
    frames: list[Image.Image] = []

    def take() -> None:
        picture = Image.open(io.BytesIO(page.locator("#lanes").screenshot())).convert("RGB")
        frames.append(picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS))

    for _ in range(WALKED):
        page.click("#step")
        for _ in range(4):
            take()
            page.wait_for_timeout(60)
    page.click("#pause")
    for slider, count in PACES:
        page.fill("#speed", slider)
        for _ in range(count):
            take()
            page.wait_for_timeout(60)
    page.wait_for_selector("#result:not([hidden])", timeout=300_000)
    page.wait_for_timeout(500)
    take()
    write(frames, path)


def write(frames: list[Image.Image], path: Path) -> None:
    """One palette for all frames, so that what does not change costs nothing."""
    sample = Image.new("RGB", (WIDTH, frames[0].height * 3))
    for i, one in enumerate((frames[0], frames[len(frames) // 2], frames[-1])):
        sample.paste(one, (0, i * one.height))
    palette = sample.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    drawn = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in frames]
    durations = [*[FRAME] * (len(drawn) - 1), LAST]
    drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=durations, loop=0, optimize=True)
    size = path.stat().st_size
    print(f"{path}: {len(drawn)} frames, {sum(durations) / 1000:.1f} s, {drawn[0].size}, {size / 1e6:.2f} MB")
    assert size < MOST_BYTES, size


def main(folder: Path) -> None:
    """Make both."""
    made: tuple[tuple[Callable[..., None], str, dict[str, Any]], ...] = (
        (still, "studio.png", {"viewport": {"width": 1320, "height": 1180}}),
        (film, "studio.gif", {"viewport": {"width": 1000, "height": 1000}, "bypass_csp": True}),
    )
    browser_path = os.environ.get("RESETFREE_CHROMIUM") or shutil.which("chromium")
    with studio() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for make, name, options in made:
            make(browser.new_context(**options).new_page(), address, folder / name)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
