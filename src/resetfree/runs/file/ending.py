"""Why a run ended before its planned episodes: a budget is spent, a callback says so, or the user stopped it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from resetfree.core.arguments import real, whole
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import expect

Kind: TypeAlias = Literal["max_resets", "steps", "seconds", "callback", "stopped"]
STOPPED = "the user stopped it"  # by Ctrl-C or SIGTERM
LONGEST = 500  # characters of a reason that are kept


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a run after round k, which may go on later: what ended it, and why in words."""

    k: int
    kind: Kind
    why: str


class Budget(NamedTuple):
    """What a run may spend over all its sessions; None is no limit."""

    max_resets: int | None
    steps: int | None
    seconds: float | None

    @classmethod
    def checked(cls, max_resets: Any, steps: Any, seconds: Any) -> Budget:
        """The budget of arguments of `learn`; raises InvalidInput."""
        for name, value in (("max_resets", max_resets), ("steps", steps)):
            if value is not None:
                whole(value, f"'{name}' of a run", 1)
        if seconds is not None:
            expect(real(seconds, "'seconds' of a run") > 0, "'seconds' of a run", "be positive", seconds)
        return cls(max_resets, steps, seconds)

    def check_reach(self, episodes: int, horizon: int) -> None:
        """Raise InvalidInput if the planned episodes are too few for the steps, which would never be reached."""
        if self.steps is not None and self.steps > episodes * horizon:
            enough = -(-self.steps // horizon)
            raise InvalidInput(
                f"The 'steps' of a run must be at most episodes x horizon = {episodes * horizon}. Got {self.steps} "
                f"instead: plan more episodes, at least episodes={enough} (--episodes {enough})."
            )

    def spent(self, k: int, resets: int, steps: int, seconds: float) -> Ending | None:
        """The end of a run that has spent so much by round k, None if it may go on."""
        if self.max_resets is not None and resets >= self.max_resets:
            return Ending(k, "max_resets", f"{resets} of {self.max_resets} allowed resets")
        if self.steps is not None and steps >= self.steps:
            return Ending(k, "steps", f"{steps} of {self.steps} allowed steps")
        if self.seconds is not None and seconds >= self.seconds:
            return Ending(k, "seconds", f"{seconds:.1f} of {self.seconds:g} allowed seconds")
        return None
