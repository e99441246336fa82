"""A real browser for the tests of pages, one in a process: `conftest` brings the fixture to all of them."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """The browser: RESETFREE_CHROMIUM, or one of the usual names."""
    named = os.environ.get("RESETFREE_CHROMIUM")
    return named or next((found for name in BROWSERS if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = chromium()
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        path = None
    if path is None:
        loud = "NO BROWSER: the pages were NOT tested. Install chromium and playwright, or set RESETFREE_CHROMIUM."
        print(f"\n{'!' * len(loud)}\n{loud}\n{'!' * len(loud)}", file=sys.__stderr__, flush=True)
        pytest.skip(loud)
    with warnings.catch_warnings(), sync_playwright() as playwright:
        warnings.simplefilter("ignore")  # those of the driver, which are not ours
        try:
            found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except Error as error:
            pytest.skip(f"NO BROWSER: '{path}' does not start, so the pages were NOT tested: {error}")
        yield found
        found.close()
