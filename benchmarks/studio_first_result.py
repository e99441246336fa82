"""How long a newcomer waits: from pressing Start in the studio to the first episode of both players on the page.

Run: python -m benchmarks.studio_first_result [GAMES]. It needs Chromium and Playwright, as the tests of the page do.
The processor time is that of the studio alone, which does not depend on what else the machine does.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.browsing import chromium
from tests.show.studio.serving import served

WANTED = 3.0  # seconds
FIRST = ".lane .tile:first-child b"  # the number of episodes, of each player
SHOWN = f"() => [...document.querySelectorAll('{FIRST}')].filter((b) => Number(b.textContent) > 0).length === 2"


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(games: int) -> None:
    """Measure and print; the first game of a studio is the one that counts."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as studio, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(120_000)
        print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        for game in range(1, games + 1):
            page.goto(f"{studio.url}#new")
            page.reload()
            page.wait_for_selector("#verdict.good")
            before, began = processor_seconds(studio.process.pid), time.perf_counter()
            page.click("#start")
            page.wait_for_function(SHOWN)
            waited, used = time.perf_counter() - began, processor_seconds(studio.process.pid) - before
            verdict = "within" if waited <= WANTED else "NOT within"
            print(
                f"game {game}: {waited:.2f} s, {verdict} {WANTED:g} s; the studio used {used:.2f} s of processor time"
            )
            page.click("#stop")
            page.wait_for_selector(".lane.a .badge.stopped")
        browser.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
