"""A page as a browser takes it apart: elements, figures with their links, and the data behind a figure."""

import base64
import csv
import io
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "img"}


@dataclass
class Figure:
    name: str
    links: dict[str, bytes] = field(default_factory=dict)  # by ending: what is saved without a script
    buttons: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)  # of the drawing
    caption: str = ""


class Page(HTMLParser):
    """Everything the tests ask about."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.figures: dict[str, Figure] = {}
        self.texts: dict[str, list[str]] = {}  # by the element they stand in
        self._open: list[str] = []
        self._figure: Figure | None = None
        self.feed(text)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert len(given) == len(attrs), "an attribute stands twice"
        self.tags.append((tag, given))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "figure":
            self._figure = self.figures[given["id"] or ""] = Figure(given["id"] or "")
        if self._figure is None:
            return
        if tag == "svg":
            self._figure.labels.append(given.get("aria-label") or "")
        elif tag == "a":
            kind, _, content = (given["href"] or "").partition(";base64,")
            assert kind.startswith("data:")
            self._figure.links[(given["download"] or "").rpartition(".")[2]] = base64.b64decode(content)
        elif tag == "button":
            self._figure.buttons.append(given["data-save"] or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "figure":
            self._figure = None

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        self.texts.setdefault(inside, []).append(data)
        if self._figure is not None and "figcaption" in self._open:
            self._figure.caption += data

    def attributes(self, name: str) -> list[str]:
        """All values of an attribute."""
        return [value or "" for _, given in self.tags for key, value in given.items() if key == name]

    @property
    def text(self) -> str:
        """What is read."""
        shown = [part for tag, parts in self.texts.items() if tag not in ("style", "script") for part in parts]
        return " ".join(shown)

    def data(self, figure: str) -> dict[str, list[str]]:
        """The columns of the CSV of a figure."""
        rows = list(csv.reader(io.StringIO(self.figures[figure].links["csv"].decode())))
        return {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}

    def numbers(self, figure: str, column: str) -> list[float]:
        """A column of numbers."""
        return [float(value) if value else float("nan") for value in self.data(figure)[column]]


def read(path: Path) -> Page:
    """The page in a file."""
    return Page(path.read_text(encoding="utf-8"))
