"""The learner's actions in an environment: the box of its continuous actions, or a list to choose from.

Legend: A actions, D numbers in a continuous action.
"""

import itertools
import math
from typing import Any

import numpy as np
from gymnasium import spaces

from resetfree.core.arguments import is_sequence
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import expect
from resetfree.problems.action_spaces import Box, Levels

MOST = 10_000  # actions that a grid or a product may have
WIDEST = 2**31  # levels of a number that a box of floats is rounded to
BOX = "box"  # the option for continuous actions


def learner_actions(space: spaces.Space[Any], given: Any, problem: str) -> list[Any] | Box:
    """The environment's own box if its actions are continuous and no list or grid is requested; otherwise a list.

    Several whole numbers are a box that is rounded on request, or where they have too many combinations for a list.
    """
    continuous = isinstance(space, spaces.Box) and space.dtype.kind == "f"
    named = isinstance(given, str) and given == BOX
    ordered = _levels(space)
    sizes = [] if ordered is None else _sizes(*ordered)
    relaxed = named or (given is None and math.prod(sizes) > MOST)
    if ordered is not None and relaxed and max(sizes) <= WIDEST:
        return Levels(*ordered)
    if not named and not (given is None and continuous):
        return list_actions(space, given, problem)
    if not isinstance(space, spaces.Box) or not continuous:
        raise InvalidInput(
            f"The 'actions' of '{problem}' are a box only if the environment's own are numbers with bounds. "
            f'Got actions="{BOX}" for {space} instead: leave it out.'
        )
    if not (np.isfinite(space.low) & np.isfinite(space.high)).all():
        raise InvalidInput(
            f"Continuous actions must have finite bounds. Got {space} in '{problem}': give the list of actions to "
            "choose from, or wrap it, gymnasium.wrappers.TransformAction(env, your_function, gymnasium.spaces.Box(-1, "
            "1, shape))."
        )
    return Box(space.low, space.high)


def list_actions(space: spaces.Space[Any], given: Any, problem: str) -> list[Any]:
    """The list of the learner's actions.

    given: None (all of a discrete space, or of a box of integers), a list of actions, or for a box the grid points per
    dimension (one number for all, or a tuple).
    """
    if isinstance(given, str):  # from the command line: 3,5
        given = _numbers(given, problem)
    if given is None:
        return _all(space, problem)
    is_grid = isinstance(given, int | np.integer | tuple) and not isinstance(given, bool)
    if is_grid and isinstance(space, spaces.Box):
        return _grid(space, given, problem)
    if is_grid and not isinstance(given, tuple):
        raise InvalidInput(f"A grid of actions needs a continuous space. Got actions={given} for {space} instead.")
    good = is_sequence(given) and len(given) > 0
    expect(good, f"'actions' of '{problem}'", "be a list of actions, or grid points per dimension", given)
    _check_number(len(given), problem)
    return [_member(space, action, problem) for action in given]


def _all(space: spaces.Space[Any], problem: str) -> list[Any]:
    if isinstance(space, spaces.Discrete):
        return [int(space.start) + i for i in range(int(space.n))]
    ordered = _levels(space)
    if ordered is not None:
        return _points(space, *ordered, problem)
    raise InvalidInput(
        f"The actions of '{problem}' ({type(space).__name__}) must be listed, actions=[...], or become one Box by a "
        f"wrapper, gymnasium.wrappers.TransformAction(env, your_function, gymnasium.spaces.Box(-1, 1, shape))."
    )


def _levels(space: spaces.Space[Any]) -> tuple[Any, Any] | None:
    """The least and the largest of several whole numbers in the type of the space; None for other actions."""
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, (space.start + space.nvec - 1).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, space.dtype), np.ones(space.shape, space.dtype)
    if isinstance(space, spaces.Box) and space.dtype.kind in "iub":
        return space.low, space.high
    return None


def _sizes(first: Any, last: Any) -> list[int]:
    """The number of levels of each entry; differences may exceed 64 bits."""
    return [int(b) - int(a) + 1 for a, b in zip(np.ravel(first).tolist(), np.ravel(last).tolist(), strict=True)]


def _points(space: spaces.Space[Any], first: Any, last: Any, problem: str) -> list[Any]:
    """All arrays of integers between two, in the type of the space."""
    sizes = _sizes(first, last)
    _check_number(math.prod(sizes), problem)
    ways = itertools.product(*map(range, sizes))
    return [(np.array(way, dtype=object).reshape(np.shape(first)) + first).astype(space.dtype) for way in ways]


def _grid(space: spaces.Box, given: Any, problem: str) -> list[Any]:
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    points = list(given) if isinstance(given, tuple) else [given] * len(low)
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 2 for n in points)
    must = f"be a number of grid points from 2, or {len(low)} of them"
    expect(whole and len(points) == len(low), f"'actions' of '{problem}'", must, given)
    if not (np.isfinite(low) & np.isfinite(high)).all():
        raise InvalidInput(
            f"A grid of actions needs finite bounds. Got {space} in '{problem}': list the actions instead."
        )
    _check_number(math.prod(points), problem)
    axes = [np.linspace(a, b, n) for a, b, n in zip(low, high, points, strict=True)]
    return [np.array(point).reshape(space.shape).astype(space.dtype) for point in itertools.product(*axes)]


def _check_number(n: int, problem: str) -> None:
    if n > MOST:
        raise InvalidInput(f"'{problem}' must have at most {MOST} actions. Got {n} instead: list those to choose from.")


def _member(space: spaces.Space[Any], action: Any, problem: str) -> Any:
    """One action of the user's list, in the type of the space; raises InvalidInput."""
    same: Any = action
    try:
        if isinstance(space, spaces.Discrete):
            same = int(action)
        elif space.shape is not None:
            same = np.asarray(action, dtype=space.dtype).reshape(space.shape)
        fits = space.contains(same) and (not isinstance(space, spaces.Discrete) or same == action)
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise InvalidInput(f"Each of the 'actions' of '{problem}' must lie in {space}. Got {action!r} instead.")
    return same


def _numbers(text: str, problem: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise InvalidInput(
            f"The 'actions' of '{problem}' must be box, or grid points per dimension, as in 5 or 3,5. "
            f"Got '{text}' instead."
        ) from None
