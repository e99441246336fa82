"""How long does a report take, how large is it, and how fast does it open? By default, 20 runs of 20,000 episodes.

Run: python benchmarks/report.py [--runs 20] [--episodes 20000] [--groups 1]. The limits are 20 s, 10 MB and 2 s. With
several groups the runs are spread over settings of the same players. Opening is measured if Chromium is installed: from
the start of the navigation to the page's load event, as reported by the browser.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

import resetfree as rf
from resetfree.show.report import write_report

SECONDS, MEGABYTES, OPENING = 20.0, 10.0, 2.0
PROBE = """<script>addEventListener("load", () => setTimeout(() => { document.title = "opened in "
+ performance.getEntriesByType("navigation")[0].loadEventEnd + " ms"; }, 0));</script>"""


def play(folder: Path, runs: int, episodes: int, groups: int) -> list[Path]:
    """Run files of a fast player, spread over groups that differ by a setting."""
    files = [folder / f"{i}.rfrun" for i in range(runs)]
    for i, file in enumerate(files):
        scale = {"primal": {"scale": 0.05 * (1 + i % groups)}}
        rf.learn("grid-v0", "support-elimination", episodes=episodes, seed=i // groups, path=file, settings=scale)
    return files


def opening(page: Path) -> float | None:
    """Seconds until the page has loaded; None without a browser."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return None
    probe = page.with_name("probe.html")  # the same page with a script that its own policy would forbid
    text = re.sub(r"script-src '[^']+'", "script-src 'unsafe-inline'", page.read_text(encoding="utf-8"))
    probe.write_text(text.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'browser'}"]
    words += ["--timeout=10000", "--virtual-time-budget=10000", "--dump-dom", f"file://{probe}"]
    found = re.search(
        r"opened in ([\d.]+) ms", subprocess.run(words, capture_output=True, text=True, timeout=120).stdout
    )
    return float(found[1]) / 1000 if found else None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--groups", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = play(folder, arguments.runs, arguments.episodes, arguments.groups)
        began = time.process_time()
        made = write_report(files, folder / "report.html")
        busy, size = time.process_time() - began, made.bytes / 1e6
        opened = opening(made.path)
    console = Console(highlight=False)
    console.print(
        f"{made.runs} runs of {arguments.episodes:,} episodes in {arguments.groups} groups, {len(made.figures)} figures"
    )
    console.print(f"built in {made.seconds:.1f} s, {busy:.1f} s of them busy (limit {SECONDS:g} s)")
    console.print(f"{size:.2f} MB (limit {MEGABYTES:g} MB)")
    console.print("opening: no browser" if opened is None else f"open after {opened:.2f} s (limit {OPENING:g} s)")
    return int(made.seconds > SECONDS or size > MEGABYTES or (opened or 0.0) > OPENING)


if __name__ == "__main__":
    sys.exit(main())
