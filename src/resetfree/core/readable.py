"""Numbers, counts and durations as people write them: the one formatter of terminal, report and studio."""

import math

SMALLEST, LARGEST = 1e-4, 1e15  # between them, numbers are written out
DIGITS, PLACES = 3, 6  # significant digits; most behind the point
SOME = 0.9  # of a run: what happened later is recent


def number(value: float, digits: int = DIGITS) -> str:
    """A number with so many significant digits, written out and never less than whole; no powers of ten below 10^15.

    >>> number(19956.3), number(0.0051234), number(8.0), number(4.16e-05), number(-1234567)
    ('19,956', '0.00512', '8', 'under 0.0001', '-1,234,567')
    >>> number(0.0), number(99.996), number(2.35e21), number(float("inf")), number(1234.5678, digits=6)
    ('0', '100', '2.35 × 10^21', 'inf', '1,234.57')
    """
    value = float(value)
    size = abs(value)
    if not math.isfinite(value) or size == 0:
        return f"{abs(value) if size == 0 else value:g}"
    if size >= LARGEST:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{_trimmed(mantissa)} × 10^{int(power)}"
    if size < SMALLEST:
        return f"under {SMALLEST:g}" if value > 0 else f"above -{SMALLEST:g}"
    decimals = min(max(0, digits - 1 - math.floor(math.log10(size))), PLACES)
    return _trimmed(f"{value:,.{decimals}f}")


def low_to_high(low: float, high: float, digits: int = DIGITS) -> str:
    """The two ends of an interval; a lower end that is next to nothing is 0, which is only wider.

    >>> low_to_high(1.68e-91, 0.206), low_to_high(1200.0, 1350.0)
    ('[0, 0.206]', '[1,200 to 1,350]')
    """
    ends = [number(0.0 if 0 < end < SMALLEST and end == low else end, digits) for end in (low, high)]
    return f"[{(' to ' if ',' in ''.join(ends) else ', ').join(ends)}]"


def percent(share: float, digits: int = DIGITS) -> str:
    """A share in percent; no certainty that is none.

    >>> percent(0.255), percent(1.0), percent(0.99999), percent(0.0)
    ('25.5 %', '100 %', 'over 99.9 %', '0 %')
    """
    return "over 99.9 %" if 0.999 < share < 1 else f"{number(100 * share, digits)} %"


def counted(count: int, what: str) -> str:
    """So many of something.

    >>> counted(1, "reset"), counted(0, "reset"), counted(12000, "episode")
    ('1 reset', 'no resets', '12,000 episodes')
    """
    return f"1 {what}" if count == 1 else f"{count:,} {what}s" if count else f"no {what}s"


def since(last: int, episodes: int) -> str:
    """When the last reset was, for the end of a sentence; what has just ended is no "none since".

    >>> since(7, 100), since(98, 100), since(0, 100)
    ('; none since episode 7', '; the last in episode 98', '')
    """
    words = "none since" if last <= SOME * episodes else "the last in"
    return f"; {words} episode {last:,}" if last else ""


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


def _trimmed(written: str) -> str:
    """Without zeros behind the point."""
    return written.rstrip("0").rstrip(".") if "." in written else written
