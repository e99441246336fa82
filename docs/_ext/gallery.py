"""The examples as a gallery: a picture, what the script says of itself, the line to type, and the file to take along.

`example-gallery` shows the scripts of a folder. One without a picture is a warning, and so an error of the build.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from .plain_docstrings import escape

EXAMPLES = Path(__file__).parents[2] / "examples"
# Scripts whose picture is one of other pages; the rest have theirs in pictures/gallery.
PICTURES = {
    "adding_a_method": "pictures/resets.svg",
    "adding_a_player": "pictures/game.svg",
    "first_problem": "pictures/safe.svg",
    "controller": "images/machines_two_tanks.png",
    "fleet": "pictures/resets.svg",
    "learn": "pictures/resets.svg",
    "logs": "images/machines_two_tanks.png",
    "reduction": "pictures/saddle.svg",
    "set_points": "images/machines_two_tanks.png",
}


def card(script: Path) -> list[str]:
    """One example as reStructuredText, indented for its container."""
    said, where = ast.get_docstring(ast.parse(script.read_text())) or "", script.relative_to(EXAMPLES.parent).as_posix()
    command = re.search(rf"python {re.escape(where)}[^\n]*", said)
    picture = PICTURES.get(script.stem, f"pictures/gallery/{script.stem}.png")
    lines = [f".. image:: /{picture}", "   :alt:", "", escape(said.split("\n")[0]), ""]
    lines += [".. code-block:: sh", "", f"   {command[0] if command else f'python {where}'}", ""]
    lines += [f":download:`{script.name} </../{where}>`", ""]
    return [f"      {line}".rstrip() for line in lines]


class ExampleGallery(SphinxDirective):
    """`.. example-gallery:: gym`, or `.` for those that lie in no folder."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A container of cards; every script is a dependency of the page."""
        lines = [".. container:: gallery", ""]
        for script in sorted((EXAMPLES / self.arguments[0]).glob("*.py")):
            self.env.note_dependency(str(script))
            lines += ["   .. container:: example", "", *card(script)]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Any) -> dict[str, Any]:
    """Make the directive known."""
    app.add_directive("example-gallery", ExampleGallery)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
