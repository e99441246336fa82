"""The badges of the README, from pyproject.toml: `python docs/pictures/badges.py [FOLDER]`. None comes from afar."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).parent
CHARACTER, PAD, HEIGHT = 6.4, 8, 20  # pixels
BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" role="img">
<title>{left}: {right}</title>
<clipPath id="r"><rect width="{width:.0f}" height="{height}" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="{width:.0f}" height="{height}" fill="#0072b2"/>
<rect width="{split:.0f}" height="{height}" fill="#444c56"/></g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{middle_left:.1f}" y="14">{left}</text><text x="{middle_right:.1f}" y="14">{right}</text></g>
</svg>
"""


def badges() -> dict[str, tuple[str, str]]:
    """The name of each badge, and its two words."""
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["project"]
    return {
        "version": ("version", project["version"]),
        "python": ("python", project["requires-python"].replace(">=", "≥ ")),
        "licence": ("licence", project["license"]),
        "types": ("types", "mypy --strict"),
    }


def drawn(left: str, right: str) -> str:
    """A badge as SVG."""
    split = len(left) * CHARACTER + 2 * PAD
    width = split + len(right) * CHARACTER + 2 * PAD
    return BADGE.format(
        left=escape(left),
        right=escape(right),
        split=split,
        width=width,
        height=HEIGHT,
        middle_left=split / 2,
        middle_right=(split + width) / 2,
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "badges"
    for name, words in badges().items():
        (folder / f"{name}.svg").write_text(drawn(*words), encoding="utf-8")
