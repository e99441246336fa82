"""What all tests share: Ctrl-C as in the foreground, no time limits on examples, networks compiled once, tables."""

import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.browsing import browser  # noqa: F401 (a fixture)

# A busy machine is no failure: how long something takes is measured in benchmarks/, not in tests.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A shell that starts us in the background has Ctrl-C ignored, and every process that a test starts would inherit that.
# The tests send the signal on purpose: they need what it does in the foreground, here and in their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Let all processes share the networks that JAX has compiled: half of what tests of networks take is compiling."""
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if cache is None:  # it can be switched off
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache.mkdir("networks")))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


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
