"""One style for every figure: colours that colour-blind readers distinguish, plain axes, and how a figure is written.

The colours are those of Okabe and Ito; what a colour shows, a shape, a dash or a word shows too.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from resetfree.core.arguments import is_special
from resetfree.core.errors import InvalidInput
from resetfree.core.files import drafted

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#7f7f7f"
PINK, YELLOW, SKY = "#cc79a7", "#e69f00", "#56b4e9"
INK = "#1b1f24"  # text and axes
CYCLE = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, INK)
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
PIT, UNSAFE, WALL, EDGE = "#b2182b", "#f4a582", "#4d4d4d", "#e6e6e6"  # cells of a map, and lines between them
DPI = 150
# What pictures begin with: PNG, SVG, PDF, PostScript, JPEG, GIF, TIFF and WebP.
PICTURES = (b"\x89PNG", b"<?xml", b"<svg", b"%PDF", b"%!PS", b"\xff\xd8\xff", b"GIF8", b"II*", b"MM", b"RIFF")

SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "axes.titlesize": 9.5,
    **dict.fromkeys(("font.size", "axes.labelsize"), 9.0),
    **dict.fromkeys(("legend.fontsize", "xtick.labelsize", "ytick.labelsize"), 8.0),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon", "path.simplify"), False),
    **dict.fromkeys(("text.parse_math", "axes.formatter.use_mathtext"), False),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor", "svg.fonttype"), "none"),
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "axes.titlelocation": "left",
    "axes.titley": 1.0,
    "svg.hashsalt": "resetfree",
}


@contextmanager
def look(settings: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """A context in which figures have this style; text is taken literally, never as mathematics.

    settings: of Matplotlib, in addition to `SETTINGS`.
    """
    from matplotlib import rc_context

    wanted: dict[Any, Any] = {**SETTINGS, **settings}
    with rc_context(wanted):
        yield


def line(i: int) -> dict[str, Any]:
    """Colour and dash of the i-th of several lines: 7 colours and 4 dashes, 28 combinations in all."""
    return {"color": CYCLE[i % len(CYCLE)], "ls": DASHES[i % len(DASHES)]}


def round_number(x: float, _: object = None) -> str:
    """A tick of an axis in few characters.

    >>> round_number(20000), round_number(2.5e6), round_number(0.25), round_number(1e-12), round_number(0)
    ('20k', '2.5M', '0.25', '1e-12', '0')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size <= abs(x) < 1e12:
            return f"{x / size:.3g}{letter}"
    return f"{x:.3g}"


@contextmanager
def written(path: Path, what: str, *, make_folder: bool = False) -> Iterator[Path]:
    """A draft that becomes the file, whole or not at all; raises InvalidInput about `what` if it cannot be written."""
    try:
        if is_special(path):
            raise ValueError("it is a pipe or a device")
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        with drafted(path) as draft:
            yield draft
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidInput(f"The {what} must go to a file that can be written. Got '{path}': {why}.") from error


def save(figure: Any, path: Path, *, make_folder: bool = False, own: bool = False) -> Path:
    """Write a figure (PNG, SVG or PDF by the name's ending) and return its path; `make_folder`: its folder too.

    A file that is no picture is not replaced, unless the place is our `own`.
    """
    if not own and path.is_file():
        with path.open("rb") as file:
            begins = file.read(8)
        if begins and not begins.startswith(PICTURES):
            raise InvalidInput(f"The file '{path}' exists and is no picture: it is not replaced. Name another file.")
    with written(path, "picture", make_folder=make_folder) as draft:
        figure.savefig(draft, dpi=DPI, format=path.suffix.removeprefix(".") or "png")
    return path
