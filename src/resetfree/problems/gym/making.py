"""Gymnasium environments: made by their id with their time limits disabled, and one life of each from reset to reset.

A `TimeLimit` around an environment is lifted, and `truncated` is ignored. Some environments refuse to go on after their
own limit all the same: they raise, or observe what cannot be read. Then they restart for free, which is no reset and is
counted apart: the first time in the middle of an episode, later between two episodes, so that no transition shows it.
"""

import importlib
import io
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import wrappers
from gymnasium.envs.registration import registry
from numpy.typing import NDArray
from PIL import Image

from resetfree.core import InvalidInput, UnknownName, expect, one_line
from resetfree.core.errors import near_name
from resetfree.problems.gym.events import Unusable

# Packages that register their environments when imported.
PACKAGES = (
    *("resetfree.problems.machines", "resetfree.problems.autonomy"),
    *("minigrid", "highway_env", "gymnasium_robotics", "metaworld"),
)
# Wrappers that change neither observations nor rewards nor actions.
PASSIVE = (
    wrappers.TimeLimit,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics,
    wrappers.RecordVideo,
    wrappers.RenderCollection,
    wrappers.HumanRendering,
)
Env = gymnasium.Env[Any, Any]
VERSIONED = re.compile(r"[\w/.-]{1,200}-v\d+")

OF_EARL = (
    'make a virtual environment for it, without constraints.txt, and there: pip install "resetfree[earl]", as '
    "Meta-World 3.1.1 needs MuJoCo 3.3.0 and no other"
)


def make_environment(name: str, options: Mapping[str, Any]) -> Env:
    """The environment with this id (or module:id, if importing the module registers it), without a time limit."""
    module, _, name_alone = name.rpartition(":")
    if "max_episode_steps" in options:
        raise InvalidInput(
            f"'{name}' must have no time limit, which is not a reset. Got 'max_episode_steps': leave it out."
        )
    try:
        if module:
            importlib.import_module(module)
        _register(name_alone)
        return gymnasium.make(name_alone, max_episode_steps=-1, disable_env_checker=True, **options)
    except (UnknownName, KeyboardInterrupt):
        raise
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        earl = str(getattr(error, "name", "")).partition(".")[0] in {"metaworld", "gymnasium_robotics"}
        come = f"{OF_EARL}." if earl else 'most come with: pip install "resetfree[envs]".'
        raise InvalidInput(
            f"The environment '{name}' needs a package that is not installed ({one_line(error)}); {come}"
        ) from error
    except BaseException as error:  # foreign code may raise anything, and call exit
        given = f" with {', '.join(f'{key}={value!r}' for key, value in options.items())}" if options else ""
        raise InvalidInput(f"The environment '{name}' cannot be made{given}: {one_line(error)}.") from error


def is_registered(name: str) -> bool:
    """Whether Gymnasium knows the id, by itself or by a package that is installed; other text imports nothing."""
    if name not in registry and VERSIONED.fullmatch(name):
        _import_packages(name)
    return name in registry


def near_id(name: str) -> str | None:
    """The known id that is written nearly like the name, if one is."""
    return near_name(name, registry)


def _import_packages(name: str) -> None:
    """Import packages that register environments until one registers this one."""
    for package in PACKAGES:
        if name in registry:
            return
        with suppress(ImportError):  # not installed, or broken
            importlib.import_module(package)


def _register(name: str) -> None:
    """Import packages until one registers the environment; raises UnknownName if none does."""
    _import_packages(name)
    if name not in registry:
        others = "see gymnasium.pprint_registry(), or type gym:package:id for an id that a package registers"
        raise UnknownName("Gymnasium environment", name, [near_id(name) or others])


def layers(env: Env) -> Iterator[Env]:
    """The environment and those that it wraps, from the outermost."""
    yield env
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
        yield env


def check_environment(env: Any, name: str) -> Env:
    """The environment; raises InvalidInput if it resets itself or is not a gymnasium.Env."""
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise InvalidInput(
            f"Vector environments reset themselves, which hides resets: give one single environment for '{name}'."
        )
    if hasattr(env, "possible_agents") or hasattr(env, "agents"):
        agents = list(getattr(env, "possible_agents", None) or getattr(env, "agents", None) or ())
        named = f" ({', '.join(map(str, agents[:4]))}{', ...' if len(agents) > 4 else ''})" if agents else ""
        raise InvalidInput(
            f"'{name}' must be a gymnasium.Env with one agent. Got a PettingZoo environment{named} instead: choose the "
            "agent that learns and write a gymnasium.Env whose 'step' takes its action alone, plays the others by "
            "policies of yours, and returns what this agent observes."
        )
    if not isinstance(env, gymnasium.Env):
        raise InvalidInput(f"'{name}' must be a gymnasium.Env. Got {type(env).__name__} instead.")
    if any(isinstance(layer, wrappers.Autoreset) for layer in layers(env)):
        raise InvalidInput(f"The wrapper Autoreset resets '{name}' by itself, which hides resets: remove it.")
    return env


def lift_time_limits(env: Env) -> None:
    """Set every `TimeLimit` around the environment so high that it is never reached.

    A limit inside the environment itself cannot be changed; its `truncated` is ignored.
    """
    for layer in layers(env):
        if isinstance(layer, wrappers.TimeLimit):
            layer._max_episode_steps = sys.maxsize


def changed_by(env: Env) -> list[str]:
    """The names of wrappers that may change observations, rewards or actions."""
    return [
        type(layer).__name__ for layer in layers(env) if layer is not env.unwrapped and not isinstance(layer, PASSIVE)
    ]


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
