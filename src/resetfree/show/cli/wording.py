"""Numbers, durations and next commands as people write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

SMALLEST, LARGEST = 1e-4, 1e15  # between them, numbers are written out


def number(value: float) -> str:
    """A number with three significant digits, written out; from 1000 on, to the last whole one.

    >>> number(19956.3), number(0.0051234), number(8.0), number(4.16e-05), number(-1234567)
    ('19,956', '0.00512', '8', 'under 0.0001', '-1,234,567')
    >>> number(0.0), number(99.996), number(1e300), number(float("inf"))
    ('0', '100', '1e+300', 'inf')
    """
    size = abs(value)
    if not math.isfinite(value) or size >= LARGEST:
        return f"{value:.3g}"
    if 0 < size < SMALLEST:
        return f"under {SMALLEST:g}" if value > 0 else f"-{number(-value)}".replace("-under ", "above -")
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):.8f}".rstrip("0").rstrip(".")


def counted(count: int, what: str) -> str:
    """So many of something.

    >>> counted(1, "reset"), counted(0, "reset"), counted(12000, "episode")
    ('1 reset', 'no resets', '12,000 episodes')
    """
    return f"1 {what}" if count == 1 else f"{count:,} {what}s" if count else f"no {what}s"


def duration(seconds: float) -> str:
    """A duration in a readable unit.

    >>> duration(4.126), duration(75), duration(600), duration(9000), duration(400000)
    ('4.1 s', '75 s', '10 min', '2.5 h', '4.6 days')
    >>> duration(0.8), duration(0.0431), duration(4.16e-05), duration(0)
    ('0.8 s', '43 ms', 'under 1 ms', '0 s')
    """
    for unit, length in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{_brief(seconds / length)} {unit}"
    if 0 < seconds < 0.0995:
        return "under 1 ms" if seconds < 0.001 else f"{1000 * seconds:.2g} ms"
    return f"{_brief(seconds)} s"


def _brief(value: float) -> str:
    """One decimal below ten, none above."""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}".removesuffix(".0")


def show_next(console: Console, commands: Sequence[tuple[str, str]]) -> None:
    """Print commands to type next, a line each so that they can be copied; what they do, where it fits."""
    column = 2 + max(len(command) for command, _ in commands)
    fits = all(2 + column + len(what) <= console.width for _, what in commands)
    console.print(Text("\nNext:", style="bold"))
    for command, what in commands:
        line = Text.assemble(f"  {command:<{column}}" if fits else f"  {command}", (what if fits else "", "dim"))
        console.print(line, soft_wrap=True)
