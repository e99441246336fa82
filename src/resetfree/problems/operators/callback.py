"""Requests for resets by a call of the user's function."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from resetfree.core.interrupts import wait
from resetfree.problems.operators.channel import Channel
from resetfree.problems.operators.messages import too_late
from resetfree.problems.operators.request import Request


class Callback(Channel):
    """Calls the function; with a deadline in a thread of its own, which is abandoned after it."""

    def __init__(self, function: Callable[[Request], Any]) -> None:
        self._function = function

    def ask(self, request: Request, deadline: float | None) -> Any:
        """Call the function; returns what it returns, and raises what it raises."""
        if deadline is None:
            return self._function(request)
        returned: list[Any] = []
        raised: list[BaseException] = []
        done = threading.Event()

        def call() -> None:
            try:
                returned.append(self._function(request))
            except BaseException as error:  # raised again by the caller's thread
                raised.append(error)
            finally:
                done.set()

        threading.Thread(target=call, name="resetfree-operator", daemon=True).start()
        if not wait(done.wait, deadline):
            raise too_late(request, deadline)
        if raised:
            raise raised[0]
        return returned[0]
