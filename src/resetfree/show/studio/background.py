"""Work outside the event loop, in threads that do not delay the end of the server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from anyio.to_thread import current_default_thread_limiter

T = TypeVar("T")


async def background(make: Callable[..., T], *given: Any) -> T:
    """`make(*given)` in a daemon thread, without blocking the loop; as many at once as Starlette's own threads.

    Starlette's own threads would delay the end of the program until their requests are done.
    """
    async with current_default_thread_limiter():
        done: Future[T] = Future()

        def work() -> None:
            done.set_running_or_notify_cancel()  # from here on, cancelling only drops the result
            try:
                done.set_result(make(*given))
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=work, name="studio request", daemon=True).start()
        return await asyncio.wrap_future(done)
