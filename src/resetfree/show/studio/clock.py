"""The clock of a run that is followed: missed deadlines, lateness and the age of its plans, beside its other curves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from resetfree.show.studio.frames import History, finite
from resetfree.show.studio.scenes import RunScene

FASTEST = 1e6  # steps per second: a file may say anything
TIMED = ("based_on", "missed", "lateness", "steps")  # columns that are read of a run that has them


class TimedHistory(History):
    """A history with the age of each plan, deadlines missed so far, and the lateness of each episode in ms."""

    def __init__(self, scene: RunScene) -> None:
        self._clock = np.zeros((3, 1024))
        self._steps = 0
        super().__init__(scene)
        timing = scene.spec.get("timing")
        rate = timing.get("rate") if isinstance(timing, dict) else None
        self._rate = float(rate) if isinstance(rate, int | float) and 0 < rate < FASTEST else math.nan

    def tick(self, based_on: int, missed: int, lateness: float, steps: int) -> None:
        """Add what the clock says of the round that was added last."""
        i = self.k - 1
        if i == self._clock.shape[1]:
            self._clock = np.concatenate([self._clock, np.zeros_like(self._clock)], axis=1)
        before = self._clock[1, i - 1] if i else 0.0
        self._clock[:, i] = (self.k - 1 - based_on, before + missed, 1000 * lateness)
        self._steps += steps

    def clear(self) -> None:
        """Forget all rounds."""
        super().clear()
        self._steps = 0

    @property
    def now(self) -> dict[str, float | None]:
        """The newest values: also the rate, the share of commands in time, and the latest command so far."""
        if not self.k:
            return super().now
        age, missed, _ = self._clock[:, self.k - 1].tolist()
        late = self._clock[2, : self.k]
        latest = float(np.nanmax(late)) if np.isfinite(late).any() else math.nan
        in_time = self._steps / (self._steps + missed) if self._steps and math.isfinite(latest) else math.nan
        clock = {"age": age, "missed": missed, "latest": latest, "in_time": 100 * in_time, "rate": self._rate}
        return {**super().now, **{name: finite(x) for name, x in clock.items()}}

    def curves(self, *most: int) -> dict[str, list[Any]]:
        """The curves of a history, and those of the clock at the same rounds."""
        result = super().curves(*most)
        at = np.array(result["k"], dtype=np.int64) - 1
        for name, row in zip(("age", "missed", "late"), self._clock, strict=True):
            result[name] = [finite(x) for x in row[at].tolist()]
        return result
