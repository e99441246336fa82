"""What all tests share: Ctrl-C as in the foreground, no time limits on examples, tables shown at the end."""

from __future__ import annotations

import signal
from typing import Any

from hypothesis import HealthCheck, settings

# A busy machine is no failure: how long something takes is measured in benchmarks/, not in tests.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

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
