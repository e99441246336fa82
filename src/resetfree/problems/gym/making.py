"""Gymnasium environments by their id, with their time limits disabled."""

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

import gymnasium
from gymnasium import wrappers
from gymnasium.envs.registration import registry

from resetfree.core.errors import InvalidInput, UnknownName, one_line

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
        raise InvalidInput(
            f"The environment '{name}' needs a package that is not installed ({one_line(error)}); "
            'most come with: pip install "resetfree[envs]".'
        ) from error
    except BaseException as error:  # foreign code may raise anything, and call exit
        given = f" with {', '.join(f'{key}={value!r}' for key, value in options.items())}" if options else ""
        raise InvalidInput(f"The environment '{name}' cannot be made{given}: {one_line(error)}.") from error


def is_registered(name: str) -> bool:
    """Whether Gymnasium knows the id, by itself or by a package that is installed; other text imports nothing."""
    if name not in registry and VERSIONED.fullmatch(name):
        _import_packages(name)
    return name in registry


def near_id(name: str) -> list[str]:
    """The known id that is most like the name, if one is near."""
    return get_close_matches(name[:100], registry, n=1)


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
        near = near_id(name)
        others = ["see gymnasium.pprint_registry(), or type gym:package:id for an id that a package registers"]
        raise UnknownName("Gymnasium environment", name, near or others)


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
