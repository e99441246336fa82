"""Small pieces of HTML: everything that comes from a run file goes through `text`, and nothing else makes tags."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from resetfree.show.report.comparison import span
from resetfree.studies.statistics import interval


class Markup(str):
    """HTML that is already made of escaped parts."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Text escaped for HTML; markup stays as it is.

    >>> text("<b> & 'c'")
    '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    return value if isinstance(value, Markup) else Markup(html.escape(str(value), quote=True))


def tag(name: str, *inside: object, **attributes: object) -> Markup:
    """An element; `class_` and the like lose their underscore, others turn it into a hyphen, None leaves one out.

    >>> tag("a", "x < y", href="#z", class_="link")
    '<a href="#z" class="link">x &lt; y</a>'
    """
    words = [
        key.rstrip("_").replace("_", "-") + (f'="{text(value)}"' if value is not True else "")
        for key, value in attributes.items()
        if value is not None and value is not False
    ]
    end = "" if name == "img" else f"</{name}>"  # the one element here that has no content
    return Markup(f"<{' '.join([name, *words])}>{join(inside)}{end}")


def join(parts: Iterable[object]) -> Markup:
    """The parts concatenated."""
    return Markup("".join(map(text, parts)))


def table(
    head: Sequence[object], rows: Iterable[Sequence[object]], numbers: Sequence[int] = (), caption: str = ""
) -> Markup:
    """A table that scrolls in its own box if it is too wide; `numbers` are the right-aligned columns."""

    def cell(i: int, value: object) -> Markup:
        if i == 0:
            return tag("th", value, scope="row")
        return tag("td", value, class_="number" if i in numbers else None)

    top = tag("tr", *(tag("th", h, scope="col", class_="number" if i in numbers else None) for i, h in enumerate(head)))
    body = join(tag("tr", *(cell(i, value) for i, value in enumerate(row))) for row in rows)
    inner = join([tag("caption", caption) if caption else "", tag("thead", top), tag("tbody", body)])
    return tag("div", tag("table", inner), class_="wide", tabindex="0", role="region", aria_label=caption or "table")


def spread(values: Sequence[float]) -> str:
    """Mean with its 95 % interval over seeds below it; a dash without values."""
    return span(interval(values)).replace(" [", "\n[") if values else "–"


def badge(word: str, kind: str) -> Markup:
    """A word in a coloured box; the colour adds no meaning."""
    return tag("span", word, class_=f"badge {kind}")
