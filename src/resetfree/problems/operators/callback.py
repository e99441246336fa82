"""A reset asked for by a function of the user's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from resetfree.core.interrupts import wait
from resetfree.problems.operators.channel import Channel
from resetfree.problems.operators.messages import too_late
from resetfree.problems.operators.request import Request


class Callback(Channel):
    """Calls the function; with a deadline in a thread of its own, which is left behind when that has passed."""

    def __init__(self, function: Callable[[Request], Any]) -> None:
        self._function = function

    def ask(self, request: Request, deadline: float | None) -> Any:
        """What the function returns, or raises."""
        if deadline is None:
            return self._function(request)
        said: list[Any] = []
        raised: list[BaseException] = []
        done = threading.Event()

        def call() -> None:
            try:
                said.append(self._function(request))
            except BaseException as error:  # it belongs to whoever asked
                raised.append(error)
            finally:
                done.set()

        threading.Thread(target=call, name="resetfree-operator", daemon=True).start()
        if not wait(done.wait, deadline):
            raise too_late(request, deadline)
        if raised:
            raise raised[0]
        return said[0]
