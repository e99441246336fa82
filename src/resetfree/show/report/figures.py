"""Figures of a page: the points of a curve, a Matplotlib figure with its data and caption, and its SVG made small.

Legend: K rounds; a curve is [n, P], the exact values of n runs after the P episodes that are shown: nothing in between
is averaged or smoothed.
"""

import csv
import io
import json
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput
from resetfree.core.files import drafted
from resetfree.show.report import style
from resetfree.studies.statistics import Interval, interval, mean_intervals

POINTS = 160  # of a curve: more cannot be seen, and would only make the file large
FIRST = 4  # exponents are fitted on the last three quarters, K/4 .. K
EARLIEST = 100  # rounds below which an axis is always linear
FEWEST = 16  # rounds below which nothing is fitted


def shown(n_rounds: int, log: bool) -> NDArray[np.int64]:
    """Episodes that are shown: all of a short run, else evenly spread on a linear or logarithmic axis, ends included.

    >>> shown(5, log=True).tolist(), len(shown(100_000, log=False))
    ([1, 2, 3, 4, 5], 160)
    """
    if n_rounds <= POINTS:
        return np.arange(1, n_rounds + 1)
    spread = np.geomspace if log else np.linspace
    return np.unique(np.rint(spread(1, n_rounds, POINTS)).astype(np.int64))


def early(values: Sequence[Floats], n_rounds: int) -> bool:
    """Whether nearly all change lies in the first tenth of the episodes: a linear axis would show a cliff and a line.

    >>> early([np.minimum(np.arange(1000.0), 20.0)], 1000), early([np.arange(1000.0)], 1000)
    (True, False)
    """
    if n_rounds < EARLIEST:
        return False
    mean = np.mean([v[:n_rounds] for v in values], axis=0)
    change = float(np.ptp(mean))
    return change > 0 and float(np.abs(mean[n_rounds // 10 :] - mean[-1]).max()) <= 0.1 * change


@dataclass(frozen=True, eq=False)
class Curve:
    """A measure over seeds at some episodes."""

    k: NDArray[np.int64]  # [P]
    mean: Floats  # [P]
    low: Floats  # [P] 95 % bootstrap interval of the mean; the mean itself where there is one run only
    high: Floats  # [P]


def curve(values: Sequence[Floats], k: NDArray[np.int64]) -> Curve:
    """Mean and interval after the episodes k, of one array [K] per run; the same numbers as `statistics.interval`."""
    at = np.stack([np.asarray(v, dtype=np.float64)[k - 1] for v in values])
    if len(at) == 1:
        return Curve(k, at[0], at[0], at[0])
    mean, low, high = mean_intervals(at)
    return Curve(k, mean, np.minimum(low, mean), np.maximum(high, mean))


@dataclass(frozen=True)
class Growth:
    """How fast a measure grows late in the runs: f(k) ~ k^exponent, by least squares of log f on log k."""

    exponent: Interval  # mean over the runs that have one, with its 95 % bootstrap interval
    first: int
    last: int  # range of k that was used
    n: int  # runs that have one
    without: int  # runs that have none: the measure is not positive there


def growth(values: Sequence[Floats], n_rounds: int) -> Growth | None:
    """The late growth exponent over K/4 .. K (1 linear, 1/2 as sqrt(K), 0 flat); None where no run has one.

    >>> k = np.arange(1.0, 1001)
    >>> growth([3 * np.sqrt(k), 5 * np.sqrt(k)], 1000).exponent.mean.__round__(6)
    0.5
    """
    if n_rounds < FEWEST:
        return None
    first = n_rounds // FIRST
    k = np.unique(np.rint(np.geomspace(first, n_rounds, POINTS)).astype(np.int64))
    late = [v[k - 1] for v in values]
    slopes = [float(np.polyfit(np.log(k), np.log(f), 1)[0]) for f in late if (f > 0).all()]
    if not slopes:
        return None
    return Growth(interval(slopes), int(first), int(n_rounds), len(slopes), len(late) - len(slopes))


# Colours that change on a dark page; the others (cells of maps and their text) stay.
THEMED = {
    getattr(style, name.upper()): name for name in ("ink", "blue", "orange", "green", "grey", "pink", "yellow", "sky")
}
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_HREF = "{http://www.w3.org/1999/xlink}href"
_REMOVED = ("metadata", "style")
_OMITTED = ("style", "id", "version")
_DROPPED = ("mix-blend-mode",)


def clean(text: str, prefix: str) -> str:
    """The drawing alone: no prologue, no metadata, no namespaces, two decimals, its identifiers under `prefix`."""
    root = ET.fromstring(text)
    used = _references(root)
    _tidy(root, used, prefix)
    for attribute in ("width", "height"):
        root.attrib.pop(attribute, None)
    root.set("stroke-linejoin", "round")
    root.set("stroke-linecap", "butt")
    return ET.tostring(root, encoding="unicode")


def standalone(drawing: str) -> str:
    """A cleaned drawing as a complete SVG file."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing)
    assert found is not None  # Matplotlib always writes one
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{float(found[1]):g}pt" height="{float(found[2]):g}pt"'
    return '<?xml version="1.0" encoding="utf-8"?>\n' + drawing.replace("<svg", head, 1) + "\n"


def themed(drawing: str) -> str:
    """A cleaned drawing in the colours of the page, with the original colours as fallback."""
    for colour, name in THEMED.items():
        drawing = drawing.replace(f'"{colour}"', f'"var(--{name}, {colour})"')
    return drawing


def _references(root: ET.Element) -> set[str]:
    used = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            used |= set(_REFERENCE.findall(value))
            if name == _HREF:
                used.add(value.removeprefix("#"))
    return used


def _tidy(element: ET.Element, used: set[str], prefix: str) -> None:
    element.tag = element.tag.rpartition("}")[2]
    attributes = {}
    for name, value in element.attrib.items():
        if name == "id" and value in used:
            attributes["id"] = f"{prefix}-{value}"
        elif name == _HREF:
            attributes["href"] = f"#{prefix}-{value[1:]}" if value.startswith("#") else value
        elif name not in _OMITTED:
            attributes[name] = _round(" ".join(value.split()), 2 if name == "d" else 4) if name != "href" else value
    for part in filter(None, element.attrib.get("style", "").split(";")):
        name, _, value = part.partition(":")
        if name.strip() not in _DROPPED:
            attributes[name.strip()] = value.strip()
    for name, value in attributes.items():
        if "url(#" in value:
            attributes[name] = _REFERENCE.sub(lambda found: f"url(#{prefix}-{found[1]})", value)
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    element.attrib.clear()
    element.attrib.update(attributes)
    for child in list(element):
        if child.tag.rpartition("}")[2] in _REMOVED:
            element.remove(child)
        else:
            _tidy(child, used, prefix)
    if element.tag != "text":
        element.text = None
    element.tail = None


def _round(value: str, digits: int) -> str:
    return _NUMBER.sub(lambda found: f"{float(found[0]):.{digits}f}".rstrip("0").rstrip("."), value)


WIDTH, HEIGHT = 4.8, 3.3  # inches: as wide as a telephone at natural size
LEFT, BOTTOM, RIGHT, TOP = 0.62, 0.47, 0.15, 0.32  # margins in inches: fixed, so that figures line up
LONGEST = 60  # characters of text from a run file in a figure
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def plain_text(text: object, longest: int = LONGEST) -> str:
    """Text from a run file as a figure can show it: one line, not too long, no control characters.

    >>> plain_text("abc" * 100)[-1], plain_text(chr(0) + "b" + chr(10))
    ('…', ' b ')
    """
    clean = _CONTROL.sub(" ", str(text))
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


@dataclass(eq=False)
class Drawing:
    """A figure with its caption and its data."""

    name: str  # of its files, and of its place in the page
    title: str
    caption: str  # with units and the number of runs
    alt: str  # text for screen readers
    data: Mapping[str, Any]  # columns of equal length: the drawn numbers
    figure: Any = field(repr=False)

    @cached_property
    def svg(self) -> str:
        """The drawing as an element."""
        return clean(self._drawn("svg", metadata={"Date": None}).decode(), self.name)

    @cached_property
    def pdf(self) -> bytes:
        """The drawing as a PDF of one page, with outlines of the letters: quick, for the page."""
        return self._pdf(3)

    def _pdf(self, fonts: int) -> bytes:
        """No date, so that the same runs give the same bytes."""
        about = {"CreationDate": None, "Producer": None, "Creator": None}
        return self._drawn("pdf", {"pdf.fonttype": fonts}, metadata=about)

    @cached_property
    def csv(self) -> str:
        """The data, one row per entry; numbers so that they read back as the same numbers."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.data)
        for row in zip(*self.data.values(), strict=True):
            writer.writerow([_cell(value) for value in row])
        return buffer.getvalue()

    @property
    def points(self) -> str:
        """What a pointer over the drawing reads: every labelled line of every pair of axes, as JSON; empty if none."""
        found = [read for axes in self.figure.axes if (read := readable(axes))]
        return json.dumps(found, separators=(",", ":"), allow_nan=False) if found else ""

    def write(self, folder: Path) -> None:
        """The figure in every format and its data, as files in a folder."""
        contents = {
            "svg": standalone(self.svg).encode(),
            "pdf": self._pdf(42),  # TrueType fonts, which journals require: twice the time
            "png": self._drawn("png", dpi=300, facecolor="white"),
            "csv": self.csv.encode(),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for ending, content in contents.items():
                with drafted(folder / f"{self.name}.{ending}") as draft:
                    draft.write_bytes(content)
        except OSError as error:
            raise InvalidInput(
                f"The figures must go to a folder that can be written. Got '{folder}': {error.strerror}."
            ) from error

    def _drawn(self, ending: str, settings: Mapping[str, Any] = MappingProxyType({}), **options: Any) -> bytes:
        buffer = io.BytesIO()
        with style.look(settings), warnings.catch_warnings():
            # Letters that the font lacks are a box in PDF and PNG, and themselves in SVG.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            self.figure.savefig(buffer, format=ending, **options)
        return buffer.getvalue()


def _cell(value: Any) -> str:
    if isinstance(value, str):  # text from a file must not become a formula in a spreadsheet
        return "'" + value if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else repr(float(value))
    return str(value)


def readable(axes: Any) -> dict[str, Any] | None:
    """Where axes lie in the drawing (points from the top left), how they scale, and their labelled lines."""
    lines = [one for one in axes.get_lines() if not one.get_label().startswith("_") and len(one.get_xdata()) > 2]
    if not lines or axes.get_xscale() not in ("linear", "log"):
        return None
    width, height = (72.0 * side for side in axes.figure.get_size_inches())
    (left, bottom), (right, top) = axes.get_position().get_points()
    box = [left * width, (1 - top) * height, right * width, (1 - bottom) * height]
    return {
        "box": [round(float(side), 2) for side in box],
        "x": [float(end) for end in axes.get_xlim()],
        "log": axes.get_xscale() == "log",
        "lines": [[one.get_label(), _brief(one.get_xdata()), _brief(one.get_ydata())] for one in lines],
    }


def _brief(values: Any) -> list[float | None]:
    """Four digits, whole numbers whole; None for what is not drawn."""
    exact = np.asarray(values, dtype=np.float64)
    short = [v if not np.isfinite(v) or v == round(v) else float(f"{v:.4g}") for v in exact]
    return [None if not np.isfinite(v) else int(v) if v == round(v) and abs(v) < 1e15 else float(v) for v in short]


def canvas(height: float = HEIGHT, bottom: float = BOTTOM) -> tuple[Any, Any]:
    """A figure with one pair of axes; its height and what is left free below, in inches."""
    from matplotlib.figure import Figure  # half a second to import: only when a picture is wanted

    figure = Figure(figsize=(WIDTH, height))
    box = (LEFT / WIDTH, bottom / height, 1 - (LEFT + RIGHT) / WIDTH, 1 - (bottom + TOP) / height)
    return figure, figure.add_axes(box)


def dress(axes: Any, title: str, y: str, *, x: str = "episode k", log: str = "") -> None:
    """Title, units and scales; `log` names the axes that are logarithmic."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    for name, axis, scale in (("x", axes.xaxis, axes.set_xscale), ("y", axes.yaxis, axes.set_yscale)):
        if name in log:
            scale("log", nonpositive="mask")
            axis.set_major_locator(LogLocator(base=10, numticks=7))
            axis.set_minor_locator(NullLocator())
            axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(style.round_number))


def plot(axes: Any, curve: Curve, label: str, colour: str, **options: Any) -> None:
    """Plot a mean, with its interval as a band if there are several runs."""
    dot = {"marker": "o", "ms": 4} if len(curve.k) == 1 else {}  # a line of one point cannot be seen
    axes.plot(curve.k, curve.mean, color=colour, label=label, **dot, **options)
    if (curve.low < curve.high).any():
        axes.fill_between(curve.k, curve.low, curve.high, color=colour, alpha=0.2, lw=0)


def legend(axes: Any, **options: Any) -> None:
    """The legend, where it covers least."""
    axes.legend(**{"loc": "best", "handlelength": 1.8, "borderaxespad": 0.2, "labelspacing": 0.3, **options})


def legend_above(axes: Any) -> None:
    """The legend in extra room above the curves of a linear axis, so that nothing is covered."""
    rows = -(-len(axes.get_legend_handles_labels()[0]) // 2)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + (high - low) * (0.085 * rows + 0.02))
    legend(axes, loc="upper left", ncols=2, columnspacing=1.2)


def columns(curves: Mapping[str, Curve]) -> dict[str, Any]:
    """Curves over the same episodes as columns: k, and mean and interval of each."""
    first = next(iter(curves.values()))
    data: dict[str, Any] = {"k": first.k}
    for name, curve in curves.items():
        data |= {f"{name}_mean": curve.mean, f"{name}_low": curve.low, f"{name}_high": curve.high}
    return data


def runs(n: int) -> str:
    """The number of runs in a caption.

    >>> runs(1), runs(20)
    ('n = 1 run', 'n = 20 runs')
    """
    return f"n = {n} run" if n == 1 else f"n = {n} runs"


def over_seeds(n: int) -> str:
    """What line and band are, in a caption; nothing about a single run."""
    if n == 1:
        return ""
    return f"Line: mean over n = {n} seeds; band: 95 % bootstrap interval of the mean."
