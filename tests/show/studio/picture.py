"""Make the picture of the studio that the docs show: python -m tests.show.studio.picture docs/pictures/studio.png"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.browsing import chromium
from tests.show.studio.serving import served

EPISODE = 420  # of the left player, when the picture is taken: something is learned, something is not


def main(target: str) -> None:
    """Two players on a drawn garden, a few hundred episodes in."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as studio, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1320, "height": 1180}, device_scale_factor=1.25)
        page.goto(studio.url)
        page.wait_for_selector("#verdict.good")
        page.fill("#episodes", "2000")
        page.click("#start")
        page.wait_for_selector(".lane .badge.running")
        page.fill("#speed", "9")
        page.wait_for_function(
            f"() => document.querySelector('.lane .tile b').textContent.replace(',', '') >= {EPISODE}", timeout=120_000
        )
        page.fill("#speed", "1")
        page.wait_for_timeout(2600)
        page.evaluate("document.activeElement.blur()")
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=target)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
