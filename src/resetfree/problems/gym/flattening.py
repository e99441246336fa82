"""Observations of several parts as one vector, each number of which has a name.

A dictionary is read in the order of its space and a tuple in its own; parts may have parts. Whole numbers (`Discrete`
and the like) stay numbers. The numbers of a part are called NAME[0], NAME[1], ...; one that has no axes, NAME. A part
of a dictionary is called by its key, after that of the dictionary that it is in (`arm.angle[0]`). The numbers of a
tuple are counted together, unless it holds a dictionary, which is then called by its place (`arm[1].angle[0]`). An
observation that is no dictionary is called `observation`.

Legend: D numbers in a vector.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput

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
    if not sum(map(len, low)):
        raise InvalidInput(f"The observations of '{problem}' must hold at least one number. Got {space} instead.")
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
