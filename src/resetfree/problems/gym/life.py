"""One life of an environment, from a reset of any kind to the next, and what happens at a time limit of its own.

A `TimeLimit` around an environment is lifted, and `truncated` is ignored. Some environments refuse to go on after their
own limit all the same: they raise, or observe what cannot be read. Then they restart for free, which is no reset and is
counted apart: the first time in the middle of an episode, later between two episodes, so that no transition shows it.
"""

import io
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from resetfree.core.errors import one_line
from resetfree.core.settings import expect
from resetfree.problems.gym.events import Unusable
from resetfree.problems.gym.making import Env


def picture(env: Env) -> bytes | None:
    """What an environment draws, as PNG; None if it draws nothing."""
    if getattr(env, "render_mode", None) != "rgb_array":
        return None
    file = io.BytesIO()
    Image.fromarray(np.asarray(env.render(), dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


class Transition(NamedTuple):
    """What an environment returned."""

    observation: Any
    reward: Any
    terminated: bool
    info: dict[str, Any]


class Life:
    """How far the environment has come since it was last reset, and the limit at which it refuses to go on, if any."""

    def __init__(self) -> None:
        self.steps = 0
        self.limit: int | None = None  # steps after which it refuses
        self.limits = 0  # free restarts at the limit
        self.refused = ""  # what it said then
        self._ended = False
        self._truncated: int | None = None  # the steps after which it reported so

    def begin(self) -> None:
        """It was reset."""
        self.steps, self._ended, self._truncated = 0, False, None

    def step(self, env: Env, action: Any, read: Callable[[Any], Any] | None) -> Transition:
        """The environment's own step; raises Unusable.

        read: of an observation, raises Unusable; None if the environment must not restart for free.
        """
        late, before = self._truncated, self.steps
        try:
            found = self._step(env, action)
            if late and read is not None:
                read(found.observation)
        except Unusable as error:
            if late is None:
                raise
            if read is None:
                limit = "after its own time limit, which only an option of the environment can change"
                raise Unusable(f"{error}, {limit}") from error.__cause__
            self.limit, self.refused = before, str(error)
            self.restart(env)
            found = self._step(env, action)
        return found

    def _step(self, env: Env, action: Any) -> Transition:
        """Its warnings after `terminated` without a reset are suppressed."""
        try:
            with warnings.catch_warnings():
                if self._ended:
                    warnings.simplefilter("ignore")
                observation, reward, terminated, truncated, info = env.step(action)
        except Exception as error:
            hint = ", after it had terminated and 'reset_when' was false" if self._ended else ""
            raise Unusable(f"raised {one_line(error)}{hint}") from error
        self.steps += 1
        self._ended |= bool(terminated)
        if truncated and self._truncated is None:
            self._truncated = self.steps
        return Transition(observation, reward, bool(terminated), info)

    def due(self, steps: int = 1) -> bool:
        """Whether the limit comes within so many steps, which fit into a life; or at once, if they do not."""
        return self.limit is not None and self.steps + (steps if steps <= self.limit else 1) > self.limit

    def restart(self, env: Env) -> Any:
        """Reset the environment for free at its limit; what it observes then. Raises Unusable."""
        try:
            observation, _ = env.reset()
        except Exception as error:
            raise Unusable(f"could not restart at its own time limit: it raised {one_line(error)}") from error
        self.begin()
        self.limits += 1
        return observation

    @property
    def words(self) -> str:
        """What to say about it, the first time and whenever the number has doubled; "" otherwise."""
        if self.limits & (self.limits - 1):
            return ""
        if self.limits == 1:
            return (
                f"does not go on after its own time limit of {self.limit} steps (it {self.refused}): it restarts for "
                "free then, which is no reset and is counted apart. If it has an option for a longer limit, set it"
            )
        return f"has restarted for free {self.limits} times at its own time limit of {self.limit} steps"

    def saved(self) -> dict[str, NDArray[np.int64]]:
        """The limit and how often it was reached, for a checkpoint; nothing without one."""
        return {} if self.limit is None else {"limit": np.array([self.limit, self.limits])}

    def restore(self, saved: dict[str, NDArray[Any]]) -> None:
        """Put back the result of `saved`."""
        if "limit" in saved:
            found = saved["limit"]
            good = found.shape == (2,) and found.dtype.kind == "i" and (found > 0).all()
            expect(good, "own time limit of an environment", "be two whole numbers from 1", got="others")
            self.limit, self.limits = map(int, found)
