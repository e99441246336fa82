"""The texts of all pages as one script, from which the search takes its excerpts when the site is read from a disk.

Browsers let no page that was opened as a file read another one, so the search cannot fetch what it found.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

MAIN = re.compile(r'<article role="main".*?</article>', flags=re.S)
UNREAD = re.compile(r'<(script|style)\b.*?</\1>|<a class="headerlink".*?</a>', flags=re.S)
TAG = re.compile(r"<(?!/?section\b)[^>]*>")  # sections stay: the search looks for their ids


def text_of(page: str) -> str:
    """The words of a page, with the marks of its sections.

    >>> text_of('<article role="main"><section id="a"><h1>One</h1></section></article>')
    '<section id="a"> One </section>'
    """
    found = MAIN.search(page)
    return " ".join(TAG.sub(" ", UNREAD.sub("", found[0])).split()) if found else ""


def write(app: Any, exception: Exception | None) -> None:
    """One script with all texts, after the pages were written."""
    if exception is None and app.builder.name == "html":
        root = Path(app.outdir)
        texts = {page.relative_to(root).as_posix(): text_of(page.read_text()) for page in sorted(root.rglob("*.html"))}
        texts = {name: text for name, text in texts.items() if text}
        (root / "_static" / "page_texts.js").write_text(
            f"const PAGE_TEXTS = {json.dumps(texts, ensure_ascii=False)};\n"
        )


def setup(app: Any) -> dict[str, Any]:
    """Hook into the end of a build."""
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
