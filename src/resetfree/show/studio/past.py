"""Past episodes of a game, to be drawn again: any of them is in the run file, and the newest are in memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arguments import whole
from resetfree.core.errors import InvalidInput
from resetfree.runs.file import runfile
from resetfree.show.studio import limits
from resetfree.show.studio.frames import History, finite
from resetfree.show.studio.scenes import RunScene


class PastEpisode(NamedTuple):
    """An episode of a run: the states that it went through, where there is a map for them."""

    k: int
    states: NDArray[Any]
    reset: bool
    reward: float
    steps: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data for the page, as the newest episode of a frame."""
        path = self.states[: limits.HORIZON + 1].tolist()
        return {"k": self.k, "path": path, "reset": self.reset, "reward": finite(self.reward), "steps": self.steps}


def read_past(path: Path, scene: RunScene, k: int) -> PastEpisode | None:
    """An episode of a run file, None if it is not there; raises RunError if the file is damaged."""
    with runfile.reading(path) as connection:
        found = next(iter(runfile.read_played(connection, path, k, k)), None)
    if found is None:
        return None
    episode, n = found.episode, None if scene.mdp is None else scene.mdp.n_states
    states = episode.states if n is not None else np.zeros(0, dtype=np.int64)
    good = states.ndim == 1 and states.dtype == np.int64 and (n is None or bool(((states >= 0) & (states < n)).all()))
    if not good or episode.rewards.dtype != np.float64:
        raise runfile.damaged(path, ValueError(f"its round {k} cannot be"))
    reward = float(episode.rewards.sum()) if math.isnan(episode.original_return) else episode.original_return
    return PastEpisode(k, states, episode.reset, reward, len(episode.actions))


def sought(histories: list[History | None], k: Any, seek: str) -> int:
    """The episode that is meant: `k`, or the nearest one before or after it in which some lane was reset.

    seek: "" for `k` itself, "earlier" or "later".
    """
    last = max((one.k for one in histories if one is not None), default=0)
    if not last:
        raise InvalidInput("No episode has been played yet.")
    try:
        number = int(str(k)[:20])
    except ValueError as error:
        raise InvalidInput(f"The 'k' of the request must be a whole number. Got '{str(k)[:20]}' instead.") from error
    whole(number, "'k' of the request", 1, last)
    if seek not in ("", "earlier", "later"):
        raise InvalidInput(f"The 'seek' of the request must be 'earlier' or 'later'. Got '{seek[:20]}' instead.")
    if not seek:
        return number
    reset_rounds = np.unique(np.concatenate([one.reset_rounds() for one in histories if one is not None]))
    beyond = reset_rounds[reset_rounds < number][-1:] if seek == "earlier" else reset_rounds[reset_rounds > number][:1]
    return int(beyond[0]) if len(beyond) else number
