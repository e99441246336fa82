"""Spaces of environments as the learner sees them: observations of several parts, and lists or boxes of actions.

Observations of several parts are one vector, each number of which has a name.
A dictionary is read in the order of its space and a tuple in its own; parts may have parts. Whole numbers (`Discrete`
and the like) stay numbers. The numbers of a part are called NAME[0], NAME[1], ...; one that has no axes, NAME. A part
of a dictionary is called by its key, after that of the dictionary that it is in (`arm.angle[0]`). The numbers of a
tuple are counted together, unless it holds a dictionary, which is then called by its place (`arm[1].angle[0]`). An
observation that is no dictionary is called `observation`.

The learner's actions are the box of continuous ones, or a list to choose from.

Legend: D numbers in a vector; A actions, each of D numbers if they are continuous.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from resetfree.core import Floats, InvalidInput, expect, is_sequence
from resetfree.problems.action_spaces import Box, Levels

WHOLE = "observation"  # the name of an observation without parts
LARGE = 64 * 64  # numbers with two axes or more from which they are taken for an image


class NamedBox(spaces.Box):
    """A vector each of whose numbers has a name of its own, as the sensors of a machine have."""

    def __init__(self, low: Floats, high: Floats, names: tuple[str, ...]) -> None:
        super().__init__(low, high, dtype=np.float64)
        self.names = names


class Part(NamedTuple):
    """A part of an observation that has no parts itself."""

    name: str
    together: str  # the tuple whose numbers are counted together, "" if the part is in none
    space: spaces.Space[Any]


def parts(space: spaces.Space[Any], name: str = "", together: str = "") -> Iterator[Part]:
    """The parts of a space that have no parts themselves, in order.

    >>> arm = spaces.Dict({"angle": spaces.Box(-3, 3, (2,)), "grip": spaces.Tuple([spaces.Discrete(2)])})
    >>> [part.name for part in parts(spaces.Dict(arm=arm, goal=spaces.Box(-1, 1, (2,))))]
    ['arm.angle', 'arm.grip[0]', 'goal']
    """
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from parts(part, f"{name}.{key}" if name else str(key))
    elif isinstance(space, spaces.Tuple):
        own = together or ("" if _holds_dictionary(space) else name or WHOLE)
        for i, part in enumerate(space.spaces):
            yield from parts(part, f"{name or WHOLE}[{i}]", own)
    else:
        yield Part(name or WHOLE, together, space)


def ends_of(space: spaces.Space[Any]) -> tuple[Any, Any] | None:
    """Lower and upper bounds of a part in its shape; None if it is not made of numbers."""
    if isinstance(space, spaces.Box):
        return space.low, space.high
    if isinstance(space, spaces.Discrete):
        return space.start, space.start + space.n - 1
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape), np.ones(space.shape)
    return None


def names_of(space: spaces.Space[Any]) -> list[str]:
    """[D] the names of all numbers of an observation; parts that are not made of numbers are left out.

    >>> names_of(spaces.Dict(achieved_goal=spaces.Box(-1, 1, (2,)), lamp=spaces.Discrete(2), said=spaces.Text(9)))
    ['achieved_goal[0]', 'achieved_goal[1]', 'lamp']
    >>> names_of(spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Discrete(2)]))
    ['observation[0]', 'observation[1]', 'observation[2]']
    """
    if isinstance(space, NamedBox):
        return list(space.names)
    names: list[str] = []
    for together, group in groupby(parts(space), lambda part: part.together or part.name):
        numbers = [part for part in group if ends_of(part.space) is not None]
        if len(numbers) == 1 and not numbers[0].together and numbers[0].space.shape == ():
            names.append(together)
        else:
            names += [f"{together}[{i}]" for i in range(sum(math.prod(part.space.shape or ()) for part in numbers))]
    return names


def _holds_dictionary(space: spaces.Space[Any]) -> bool:
    if isinstance(space, spaces.Tuple):
        return any(map(_holds_dictionary, space.spaces))
    return isinstance(space, spaces.Dict)


def bounds_of(space: spaces.Space[Any], problem: str) -> tuple[Floats, Floats]:
    """[D] lower and upper bounds of the vector; raises InvalidInput if a part is an image or not made of numbers."""
    low: list[Floats] = []
    high: list[Floats] = []
    for name, _, part in parts(space):
        ends = ends_of(part)
        if ends is None or is_image(part):
            what = f"{type(part).__name__}, not numbers" if ends is None else f"an image, {part}"
            raise InvalidInput(
                f"The observations of '{problem}' ('{name}' is {what}) must be made into vectors: give observe=f with "
                "f(observation) a vector, or states=N if at most N distinct ones come up."
            )
        low.append(np.ravel(np.asarray(ends[0], dtype=np.float64)))
        high.append(np.ravel(np.asarray(ends[1], dtype=np.float64)))
    expect(sum(map(len, low)), f"observations of '{problem}'", "hold at least one number", got=f"{space}")
    return np.concatenate(low), np.concatenate(high)


def is_image(space: spaces.Space[Any]) -> bool:
    """Whether an array is an image: bytes, or very many numbers, with two axes or more."""
    shape = space.shape or ()
    return isinstance(space, spaces.Box) and len(shape) > 1 and (space.dtype == np.uint8 or math.prod(shape) >= LARGE)


def is_whole(space: spaces.Space[Any]) -> bool:
    """Whether a part is made of whole numbers."""
    own = isinstance(space, spaces.Box) and space.dtype.kind in "iub" and not is_image(space)
    return own or isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)


def flatten(space: spaces.Space[Any], observation: Any) -> Floats:
    """[D] all numbers of an observation in a new vector, without what is not made of numbers.

    Raises ValueError or TypeError if the observation does not fit the space.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        found = [flatten(part, one) for part, one in _pairs(space, observation)]
        return np.concatenate([np.zeros(0), *found])
    if ends_of(space) is None:
        return np.zeros(0)
    return np.array(observation, dtype=np.float64).ravel()


def _pairs(space: spaces.Dict | spaces.Tuple[Any], observation: Any) -> Iterator[tuple[spaces.Space[Any], Any]]:
    """The parts of a space beside those of an observation; raises ValueError if one is missing or has another size."""
    if isinstance(space, spaces.Dict):
        if not isinstance(observation, Mapping):
            raise ValueError(f"{type(observation).__name__} in place of a dictionary")
        if missing := [key for key in space.spaces if key not in observation]:
            raise ValueError(f"no part '{missing[0]}'")
        named = [(str(key), part, observation[key]) for key, part in space.spaces.items()]
    else:
        if len(observation) != len(space.spaces):
            raise ValueError(f"{len(observation)} parts in place of {len(space.spaces)}")
        named = [(str(i), part, one) for i, (part, one) in enumerate(zip(space.spaces, observation, strict=True))]
    for name, part, one in named:
        if ends_of(part) is not None and np.size(one) != math.prod(part.shape or ()):
            raise ValueError(f"{np.size(one)} numbers in place of {math.prod(part.shape or ())} in part '{name}'")
        yield part, one


def space_form(space: Any) -> dict[str, Any] | None:
    """The shape of an observation, or the forms of its parts with their keys; None if it is not made of numbers."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        own = list(space.spaces.values()) if isinstance(space, spaces.Dict) else list(space.spaces)
        forms = [space_form(part) for part in own]
        if any(form is None for form in forms):
            return None
        keys = {"names": [str(key) for key in space.spaces]} if isinstance(space, spaces.Dict) else {}
        return {**keys, "parts": forms}
    return None if getattr(space, "shape", None) is None else {"shape": [int(n) for n in space.shape]}


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
