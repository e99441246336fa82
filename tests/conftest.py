"""What all tests share: Ctrl-C as in the foreground, and tables shown at the end, also of tests in another process."""

from __future__ import annotations

import signal
from typing import Any

# A shell that starts us in the background has Ctrl-C ignored, and every process that a test starts would inherit that.
# The tests send the signal on purpose: they need what it does in the foreground, here and in their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what tests recorded with `record_property("table", text)`."""
    tables = [
        text
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, text in getattr(report, "user_properties", [])
        if name == "table" and report.when == "call"
    ]
    for text in tables:
        terminalreporter.section("table", sep="-")
        terminalreporter.write_line(text)
