"""Tables that tests have made are shown at the end, also of tests that ran in another process."""

from __future__ import annotations

from typing import Any


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
