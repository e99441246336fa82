"""A figure of the report with its caption and its data, in every format."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from resetfree.core.errors import InvalidInput
from resetfree.core.files import drafted
from resetfree.show.report import style
from resetfree.show.report.html import svg
from resetfree.show.report.html.series import Curve

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
        return svg.clean(self._drawn("svg", metadata={"Date": None}).decode(), self.name)

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
            "svg": svg.standalone(self.svg).encode(),
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
    return [
        None if not np.isfinite(v) else int(v) if v == round(v) and abs(v) < 1e15 else float(f"{v:.4g}") for v in exact
    ]


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
