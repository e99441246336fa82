"""Small pieces of HTML: everything that comes from a run file goes through `text`, and nothing else makes tags."""

import base64
import hashlib
import html
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from resetfree.core.readable import low_to_high, number
from resetfree.show.report import style
from resetfree.show.report.figures import Drawing, themed
from resetfree.studies.statistics import Interval, interval
from resetfree.theory.certificates import anytime

MOST_BESIDE = 3  # columns that are beside each other on any screen


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
    """A table that scrolls in its own box if it is too wide; `numbers` are the right-aligned columns.

    On a narrow screen the cells of a row are one below the other, or beside each other, where there are many.
    """
    many = len(head) > MOST_BESIDE

    def cell(i: int, value: object) -> Markup:
        kind, scope = ("td", None) if i else ("th", "row")
        named = head[i] if many and i and head[i] else None
        return tag(kind, value, scope=scope, class_="number" if i in numbers else None, data_head=named)

    top = tag("tr", *(tag("th", h, scope="col", class_="number" if i in numbers else None) for i, h in enumerate(head)))
    body = join(tag("tr", *(cell(i, value) for i, value in enumerate(row))) for row in rows)
    inner = join([tag("caption", caption) if caption else "", tag("thead", top), tag("tbody", body)])
    kind = "wide many" if many else "wide"
    return tag("div", tag("table", inner), class_=kind, tabindex="0", role="region", aria_label=caption or "table")


def spread(values: Sequence[float]) -> str:
    """Mean with its 95 % interval over seeds below it; a dash without values."""
    return below(interval(values)) if values else "–"


def below(x: Interval) -> str:
    r"""A mean, and its interval on the next line, as people write numbers.

    >>> below(Interval(1995.0, 1995.0, 1995.0)), below(Interval(1234.4, 900.0, 1300.0))
    ('1,995', '1,234\n[900 to 1,300]')
    """
    return number(x.mean) if x.low == x.high else f"{number(x.mean)}\n{low_to_high(x.low, x.high)}"


def badge(word: str, kind: str) -> Markup:
    """A word in a coloured box; the colour adds no meaning."""
    return tag("span", word, class_=f"badge {kind}")


# Colours by name, on a light and on a dark page; those of figures are the style's.
PALETTE = {
    "paper": ("#ffffff", "#111418"),
    "raised": ("#f6f7f9", "#1a1f25"),
    "ink": (style.INK, "#e8ebee"),
    "soft": ("#57606a", "#a3adb8"),
    "rule": ("#d0d7de", "#343b44"),
    "link": ("#0059a3", "#7cc0ff"),
    "blue": (style.BLUE, "#4fa8e0"),
    "orange": (style.ORANGE, "#ff8a3d"),
    "green": (style.GREEN, "#2ecc9b"),
    "grey": (style.GREY, "#9aa4ae"),
    "pink": (style.PINK, "#e59cc4"),
    "yellow": (style.YELLOW, "#f2b63c"),
    "sky": (style.SKY, "#8fd0f5"),
    "good": ("#0b6b4c", "#7fe3ba"),
    "good-back": ("#dff3ea", "#123a2b"),
    "bad": ("#a40e26", "#ffb3bb"),
    "bad-back": ("#ffe3e6", "#4a1219"),
    "amber": ("#7a4d00", "#ffd27a"),
    "amber-back": ("#fff0d1", "#43310c"),
    "plain": ("#4b545e", "#c3cbd4"),
    "plain-back": ("#eaeef2", "#2b323a"),
}
WORDS = {
    "Regret": "what the best policy that is never reset would have earned more, summed over the episodes; exact, never "
    "clipped, and never read without Resets: below zero it was bought with resets.",
    "Resets, expected": "the probability of a reset under the policy of each episode, summed; exact.",
    "Resets, realised": "resets that happened.",
    "predicted": "the primal player's own probability of a reset in each episode, before it was played, summed.",
    "certified": "a bound on the expected resets from the realised ones alone, without any model, that holds after "
    f"every episode at once with {100 * (1 - anytime.SHOWN):g} % confidence.",
    "proved / tuned": "whether a theorem covers the claim with the constants that were used. A tuned result has "
    "none, and is never shown under a theorem's name.",
    "n": "how many runs; those of a group differ by their seed only. Intervals are 95 % bootstrap intervals of means.",
}


def figure(drawing: Drawing) -> Markup:
    """A figure with its caption and its downloads."""
    picture = Markup(themed(drawing.svg).replace("<svg", f'<svg role="img" aria-label="{text(drawing.alt)}"', 1))
    name, pdf = drawing.name, _address("application/pdf", drawing.pdf)
    data = _address("text/csv;charset=utf-8", drawing.csv.encode())
    links = [
        tag("button", "SVG", type="button", data_save="svg", hidden=True, aria_label=f"Save {drawing.title} as SVG"),
        tag("a", "PDF", href=pdf, download=f"{name}.pdf", aria_label=f"Save {drawing.title} as PDF"),
        tag("button", "PNG", type="button", data_save="png", hidden=True, aria_label=f"Save {drawing.title} as PNG"),
        tag("a", "CSV", href=data, download=f"{name}.csv", aria_label=f"Save the data of {drawing.title} as CSV"),
    ]
    caption = tag("figcaption", tag("strong", f"{drawing.title}. "), drawing.caption.strip())
    return tag(
        "figure", picture, caption, tag("div", *links, class_="save"), id=name, data_points=drawing.points or None
    )


def figures(drawings: Sequence[Drawing]) -> Markup:
    """Figures side by side, if there is room."""
    return tag("div", *map(figure, drawings), class_="figures") if drawings else Markup("")


def section(name: str, title: object, *inside: object) -> Markup:
    """A part of the page that the list of contents links to."""
    return tag("section", tag("h2", title, id=name), *inside, aria_labelledby=name)


def glossary() -> Markup:
    """The glossary."""
    pairs = [join([tag("dt", word), tag("dd", meaning)]) for word, meaning in WORDS.items()]
    return tag("dl", *pairs, class_="words")


def folded(name: str, title: object, *inside: object) -> Markup:
    """A section whose content is shown on demand; a link to anything in it opens it."""
    summary = tag("summary", tag("h2", title, id=name))
    return tag("section", tag("details", summary, *inside, class_="group"), aria_labelledby=name)


def page(
    title: str, summary: str, lead: Markup, contents: Mapping[str, str], *, body: Sequence[Markup], footer: str
) -> str:
    """The whole file; `lead` comes before the list of contents.

    Scripts and styles are named by their hashes, and nothing else may run or load.
    """
    sheet, script = _parts()
    items = [tag("li", tag("a", words, href=f"#{name}")) for name, words in contents.items()]
    head = [
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{text(policy()).replace("&#x27;", chr(39))}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="referrer" content="no-referrer">'),
        tag("title", title),
        Markup(f"<style>{sheet}</style>"),
    ]
    switch = tag("button", "light / dark", type="button", id="theme", hidden=True)
    inner = [
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", tag("h1", title), switch, tag("p", summary)),
        lead,
        tag("nav", tag("ol", *items), aria_label="Contents"),
        tag("main", *body, id="content"),
        tag("footer", tag("p", footer)),
        Markup(f"<script>{script}</script>"),
    ]
    return f'<!doctype html>\n<html lang="en">\n<head>{join(head)}</head>\n<body>{join(inner)}</body>\n</html>\n'


def policy() -> str:
    """The content policy of every page: its own style and script, and pictures in the page itself."""
    sheet, script = _parts()
    return (
        f"default-src 'none'; style-src '{_hash(sheet)}'; script-src '{_hash(script)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _parts() -> tuple[str, str]:
    return palette(PALETTE, "screen and ") + _file("page.css"), _file("page.js")


def palette(colours: Mapping[str, tuple[str, str]], medium: str = "") -> str:
    """A style sheet with these colours by name, on a light and on a dark page; `medium` restricts what is dark."""
    light, dark = (";".join(f"--{name}:{pair[i]}" for name, pair in colours.items()) for i in (0, 1))
    return (
        f':root{{{light}}}\n[data-theme="dark"]{{{dark}}}\n'
        f'@media {medium}(prefers-color-scheme:dark){{:root:not([data-theme="light"]){{{dark}}}}}\n'
    )


def _file(name: str) -> str:
    return (files("resetfree.show.report") / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
