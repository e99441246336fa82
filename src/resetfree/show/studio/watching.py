"""All watchers of a game share its frames: each is made and encoded once, and a slow watcher gets fewer of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, TypeAlias

from resetfree.show.studio import limits
from resetfree.show.studio.background import background
from resetfree.show.studio.following import Following
from resetfree.show.studio.frames import RunScene
from resetfree.show.studio.sessions import Session

View: TypeAlias = Session | Following
CURVES = 0.4  # seconds between two frames that carry curves
HEARTBEAT = 5.0  # seconds after which an idle stream sends a sign of life


class Sent(NamedTuple):
    """A message to all watchers, and its sequence number."""

    number: int
    data: bytes


class FrameChannel:
    """One game and its watchers. Used in the event loop only; views are read in a thread.

    Nothing is queued: a watcher takes the newest frame, and before that the newest one with curves, if it is another.
    """

    def __init__(self, view: View, over: Callable[[], bool]) -> None:
        self.view, self._over = view, over
        self._watchers, self._number = 0, 0
        self._newest: dict[str, Sent] = {}  # the newest frame with curves, the newest one, the newest sign of life
        self._changed = asyncio.Event()
        self.ended = False
        self._task: asyncio.Task[None] | None = None
        self._stage: list[RunScene | None] = []
        self._scene = b""

    def join(self) -> None:
        """Add a watcher; frames are made while there is one."""
        self._watchers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._make())

    def leave(self) -> bool:
        """Remove a watcher; returns whether it was the last."""
        self._watchers -= 1
        if self._watchers == 0:
            self.end()
        return self._watchers == 0

    def end(self) -> None:
        """End every stream."""
        self.ended = True
        self._changed.set()
        if self._task is not None:
            self._task.cancel()

    async def stream(self) -> AsyncIterator[bytes]:
        """The messages to one watcher, as fast as it reads them."""
        yield await background(self.scene)
        seen = 0
        while not self.ended:
            for one in self.since(seen):
                seen = one.number
                yield one.data
            if not self.since(seen) and not self.ended:
                await self._changed.wait()

    def since(self, seen: int) -> list[Sent]:
        """Messages after number `seen`: at most the newest of each kind."""
        fresh = {one.number: one for one in self._newest.values() if one.number > seen}
        return [fresh[number] for number in sorted(fresh)]

    def scene(self) -> bytes:
        """The constant part of the view, encoded; made again only if it has changed."""
        stage = [lane.scene for lane in self.view.lanes]
        if stage != self._stage or not self._scene:
            self._scene, self._stage = _event("scene", self.view.scene()), stage
        return self._scene

    async def _make(self) -> None:
        """Publish a frame whenever there is something new."""
        view, seen, drawn, sent, owed = self.view, -1, 0.0, time.monotonic(), True
        try:
            while not self._over():
                if isinstance(view, Following):
                    await background(view.poll)
                now = time.monotonic()
                due = now - drawn >= CURVES
                if view.version != seen or (owed and due):
                    seen, frame = await background(self._frame, due)
                    sent, owed, drawn = now, not due, now if due else drawn
                    self._publish(frame, "newest", *(("curves",) if due else ()))
                elif now - sent >= HEARTBEAT:
                    sent = now
                    self._publish(b": still here\n\n", "life")
                await asyncio.sleep(1.0 / limits.FRAMES)
        finally:
            self.ended = True
            self._changed.set()

    def _frame(self, curves: bool) -> tuple[int, bytes]:
        made = self.view.frame(curves)
        return made["version"], _event("frame", made)

    def _publish(self, data: bytes, *kinds: str) -> None:
        self._number += 1
        self._newest.update(dict.fromkeys(kinds, Sent(self._number, data)))
        self._changed.set()
        self._changed = asyncio.Event()


def _event(kind: str, data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data, allow_nan=False, separators=(',', ':'))}\n\n".encode()
