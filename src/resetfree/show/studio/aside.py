"""Work beside the event loop, in threads that nobody waits for when the server ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from anyio.to_thread import current_default_thread_limiter

T = TypeVar("T")


async def aside(make: Callable[..., T], *given: Any) -> T:
    """What `make` makes of this, without holding up the loop; so many at once as Starlette's own threads.

    Starlette's own ones would be waited for at the end of the program, however long a request takes them.
    """
    async with current_default_thread_limiter():
        done: Future[T] = Future()

        def work() -> None:
            done.set_running_or_notify_cancel()  # from here on, giving up means only that nobody looks
            try:
                done.set_result(make(*given))
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=work, name="studio request", daemon=True).start()
        return await asyncio.wrap_future(done)
