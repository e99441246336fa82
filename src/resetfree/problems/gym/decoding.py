"""Named coordinates (factors) of the states of an environment: its own, those of a known one, or a user's `decode`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput, imported, one_line
from resetfree.core.settings import expect
from resetfree.problems.gym.events import Unusable
from resetfree.problems.gym.flattening import ends_of, flatten, is_whole, names_of, parts
from resetfree.problems.gym.known import known_name
from resetfree.problems.gym.making import Env, layers
from resetfree.problems.gym.observations import CountedObservations, Numbered, Observer
from resetfree.problems.knowledge import NONE, Factor, Factors

TAXI_MOVES = ("south", "north", "east", "west", "pick-up", "drop-off")
PLACES = ("red", "green", "yellow", "blue", "in taxi", "none")  # the places of Taxi, and what is none of them
NOWHERE = 5
CLIFF_MOVES, LAKE_MOVES = ("up", "right", "down", "left"), ("left", "down", "right", "up")
GRIDS = ("MiniGrid-", "BabyAI-")
DOOR, AGENT = 4, 10  # their codes
AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))  # by direction
OBJECTS = (
    *("unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent"),
    *("open door", "closed door", "locked door"),
)
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
# Wrappers of theirs whose pictures are of pixels or in another code.
UNREADABLE = {"RGBImgObsWrapper", "RGBImgPartialObsWrapper", "OneHotPartialObsWrapper", "SymbolicObsWrapper"}
Decode = Callable[[Any], Any]


class Decoder:
    """The factors of a problem's states, filled in as observations come up unless all are known at once."""

    def __init__(self, decode: Decode, n_states: int, like: tuple[Factor, ...], actions: tuple[str, ...]):
        self._decode, self._like = decode, like
        self.factors = Factors((), np.full((n_states, 0), NONE, dtype=np.int64), actions)

    def __call__(self, state: int, observation: Any) -> None:
        """Remember the factors of an observation that is seen for the first time."""
        known = self.factors
        if known.parts and known.values[state, 0] != NONE:
            return
        try:
            found = self._decode(observation)
            names = list(found) if isinstance(found, Mapping) else [f"factor {i}" for i in range(len(found))]
            row = np.array(list(found.values()) if isinstance(found, Mapping) else list(found))
            if row.ndim != 1 or not len(row) or row.dtype.kind not in "biu" or row.min() < 0:
                raise ValueError(f"must return whole numbers from 0, and returned {found!r}")
            if known.parts and len(row) != len(known.parts):
                raise ValueError(f"must return {len(known.parts)} numbers as before, and returned {len(row)}")
        except Exception as error:
            raise Unusable(f"could not be decoded: its 'decode' raised {one_line(error)}") from error
        if not known.parts:
            known.parts = self._like or tuple(n if isinstance(n, Factor) else Factor(str(n)) for n in names)
            known.values = np.full((len(known.values), len(row)), NONE, dtype=np.int64)
        known.values[state] = row

    def restore(self, values: NDArray[np.int64]) -> None:
        """Put back the factors of numbered observations; the environment names them again."""
        rows, known = len(self.factors.values), self.factors
        good = values.ndim == 2 and len(values) == rows and values.dtype == np.int64 and values.shape[1] > 0
        expect(
            good and values.min(initial=0) >= NONE, "factors of observations", f"be [{rows}, F] numbers", got="others"
        )
        like = self._like or tuple(Factor(f"factor {i}") for i in range(values.shape[1]))
        expect(len(like) == values.shape[1], "factors of observations", f"be {len(like)}", values.shape[1])
        known.parts, known.values = like, values.copy()


def decoder_for(env: Env, decode: Any, observer: Observer, problem: str) -> Decoder | None:
    """What is known about the states of an environment; None if that is nothing.

    decode: a function of the observation, or module:function; it returns whole numbers from 0, or a dictionary of them,
      whose keys are names, or `Factor`s that say more.
    """
    if decode is not None and observer.n_states is None:
        raise InvalidInput(
            f"The 'decode' of '{problem}' needs states that are counted: discrete observations, or states=N. "
            "Got states that are vectors instead."
        )
    if not isinstance(observer, CountedObservations | Numbered):
        return None
    like: tuple[Factor, ...] = ()
    actions: tuple[str, ...] = ()
    if decode is not None:
        must = f"The 'decode' of '{problem}' must be a function of the observation, or module:function."
        function = imported(decode, must) if isinstance(decode, str) and ":" in decode else decode
        if not callable(function):
            raise InvalidInput(f"{must} Got {decode!r} instead.")
    else:
        found = _known(env) or _own(env.observation_space, observer)
        if found is None:
            return None
        function, like, actions = found
    made = Decoder(function, int(observer.n_states or 0), like, actions)
    if isinstance(observer, CountedObservations):
        space = env.observation_space
        assert isinstance(space, spaces.Discrete)
        for state in range(int(space.n)):
            try:
                made(state, int(space.start) + state)
            except Unusable as error:
                raise InvalidInput(f"Observation {int(space.start) + state} of '{problem}' {error}.") from error
    return made


def _own(space: spaces.Space[Any], observer: Observer) -> tuple[Decode, tuple[Factor, ...], tuple[str, ...]] | None:
    """The parts of numbered observations that are whole numbers throughout."""
    own = list(parts(space))
    if not isinstance(observer, Numbered) or not all(is_whole(part.space) for part in own):
        return None
    ends = [np.stack([np.ravel(end) for end in ends_of(part.space) or ()]) for part in own]
    low, high = np.concatenate(ends, axis=1)
    names = names_of(space)
    if len(names) < 2 and not isinstance(space, spaces.Box):  # the one number of a box is ordered
        return None
    like = tuple(Factor(n, f"of {int(size)} values") for n, size in zip(names, high - low + 1, strict=True))
    return lambda observation: (flatten(space, observation) - low).astype(np.int64), like, ()


def _known(env: Env) -> tuple[Decode, tuple[Factor, ...], tuple[str, ...]] | None:
    """Factors of well-known environments."""
    name, inner = known_name(env), env.unwrapped
    own: Any = inner
    if name == "Taxi":
        index_of = {tuple(place): i for i, place in enumerate(own.locs)}

        def taxi(observation: Any) -> Sequence[int]:
            row, column, passenger, destination = (int(x) for x in own.decode(int(observation)))
            return row, column, index_of.get((row, column), NOWHERE), passenger, destination

        like = tuple(Factor(n, "place", False, PLACES) for n in ("taxi", "passenger", "destination"))
        return taxi, (Factor("row"), Factor("column"), *like), TAXI_MOVES
    if name in ("FrozenLake", "FrozenLake8x8", "CliffWalking", "CliffWalkingSlippery"):
        lake = name.startswith("Frozen")
        columns = int(own.ncol if lake else own.shape[1])
        grid = (Factor("row"), Factor("column"))
        return lambda s: divmod(int(s), columns), grid, LAKE_MOVES if lake else CLIFF_MOVES
    if name.startswith(GRIDS):
        return _minigrid(env)
    return None


def _minigrid(env: Env) -> tuple[Decode, tuple[Factor, ...], tuple[str, ...]] | None:
    """Of MiniGrid and BabyAI: what is ahead and, as far as the observation shows it, direction, place and load."""
    space, own = env.observation_space, cast(Any, env.unwrapped)
    wrapped = {type(layer).__name__ for layer in layers(env)}
    picture = space.spaces.get("image") if isinstance(space, spaces.Dict) else space
    shape = (picture.shape or ()) if picture is not None else ()
    whole, several = "FullyObsWrapper" in wrapped, isinstance(space, spaces.Dict)
    if len(shape) != 3 or shape[2] != 3 or wrapped & UNREADABLE or (whole and shape[:2] != (own.width, own.height)):
        return None
    width, height = shape[:2]

    def cell(observation: Any) -> Sequence[int]:
        image = np.asarray(observation["image"] if several else observation)
        kinds = image[:, :, 0]
        if not whole:  # the agent's own view: it looks up
            front = image[width // 2, height - 2]
            seen = _kind(front), int(front[1]), int(kinds[width // 2, height - 1])
            return (int(observation["direction"]), *seen) if several else seen
        x, y = (int(i[0]) for i in np.nonzero(kinds == AGENT))
        facing = int(image[x, y, 2])
        return x, y, facing, _kind(image[(x + AHEAD[facing][0]) % width, (y + AHEAD[facing][1]) % height])

    direction, front = Factor("direction", ordered=False), Factor("ahead", ordered=False, words=OBJECTS)
    if whole:
        return cell, (Factor("x"), Factor("y"), direction, front), ()
    seen = front, Factor("colour ahead", ordered=False, words=COLOURS), Factor("carried", ordered=False, words=OBJECTS)
    return cell, (direction, *seen) if several else seen, ()


def _kind(cell: Any) -> int:
    """What is in a cell; doors are distinguished by their state."""
    kind = int(cell[0])
    return len(OBJECTS) - 3 + int(cell[2]) if kind == DOOR else kind
