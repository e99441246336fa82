"""From observations to states: numbers or vectors.

Legend: D numbers in a vector. If states are numbers, the last one is the reset state: the observation at a reset event
may be that of any other state.
"""

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resetfree.core import Floats, InvalidInput, expect, one_line, whole
from resetfree.problems.gym.events import Unusable
from resetfree.problems.gym.flattening import WHOLE, bounds_of, ends_of, flatten, is_whole, names_of, parts

SHOWN = 8  # entries of an observation in a message
DIGEST = 16  # bytes of an observation's hash
UNBOUNDED = 1e30  # bounds farther apart than this count as none
MOST = 10_000_000  # numbered states: players keep a few numbers for each
FACTORED = 10_000  # combinations of whole numbers that are numbered unless vectors are requested
LEVELS = 20  # of each of them: more are rather an amount, about which vectors know more
VECTORS = "vectors"  # the request


class Observer(ABC):
    """Maps observations to states."""

    n_states: int | None = None
    low: Floats | None = None
    high: Floats | None = None

    @property
    def names(self) -> list[str]:
        """[D] what to call each number of a vector."""
        return [f"state[{i}]" for i in range(0 if self.low is None else len(self.low))]

    @abstractmethod
    def __call__(self, observation: Any) -> Any:
        """The state of an observation; raises `Unusable`."""

    def check(self, observation: Any) -> None:
        """Raise `Unusable` for an observation that cannot be read."""
        self(observation)

    def begin(self) -> None:  # noqa: B027 (only some remember)
        """Forget what was before a reset."""

    def acted(self, action: Any) -> None:  # noqa: B027
        """Take in an action that is about to be taken."""

    def observation(self, state: Any, latest: Any) -> Any:
        """The observation that a state was made of; the latest one where the state does not have all of it."""
        return latest


class CountedObservations(Observer):
    """Observations that are numbers already: state = observation - start."""

    def __init__(self, start: int, n: int) -> None:
        self._start, self._n = start, n
        self.n_states = n + 1

    def __call__(self, observation: Any) -> int:
        """The number from 0."""
        try:
            state = int(observation) - self._start
            exact = bool(state == observation - self._start)
        except (TypeError, ValueError, OverflowError) as error:
            raise Unusable(f"observed {observation!r}, which is not a whole number") from error
        if not 0 <= state < self._n or not exact:
            raise Unusable(f"observed {observation!r}, which is not in its observation space of {self._n} numbers")
        return state

    def observation(self, state: Any, latest: Any) -> int | None:
        """The number as the environment counts it; None for the reset state."""
        return None if state == self._n else int(state + self._start)


class Vector(Observer):
    """Arrays, whole numbers, and tuples and dictionaries of those, concatenated to one vector."""

    def __init__(self, space: spaces.Space[Any], problem: str) -> None:
        self._space = space
        self.low, self.high = bounds_of(space, problem)

    @cached_property
    def names(self) -> list[str]:
        """[D] the name of each number, see `flattening`."""
        return names_of(self._space)

    def __call__(self, observation: Any) -> Floats:
        """The vector, as a copy, since environments may reuse their array."""
        assert self.low is not None
        return finite(numbers_of(self._space, observation), len(self.low), self)

    def observation(self, state: Any, latest: Any) -> Any:
        """The array in its own shape and type."""
        if not isinstance(self._space, spaces.Box):
            return latest
        return np.asarray(state, dtype=self._space.dtype).reshape(self._space.shape)


class Mapped(Observer):
    """The user's function maps any observation to a vector."""

    def __init__(self, space: spaces.Space[Any], function: Callable[[Any], Any], problem: str, called: str) -> None:
        self._function, self._called = function, called
        # The length must be known before the first observation, which would take a reset.
        sampled = copy.deepcopy(space)
        sampled.seed(0)
        try:
            d = np.size(np.asarray(function(sampled.sample()), dtype=np.float64))
        except Exception as error:
            raise InvalidInput(
                f"The '{self._called}' of '{problem}' must turn any observation of its space into a vector. "
                f"For a sample of the space it raised {one_line(error)} instead."
            ) from error
        self.low, self.high = np.full(d, -np.inf), np.full(d, np.inf)

    def __call__(self, observation: Any) -> Floats:
        """The function's vector."""
        try:
            state = np.array(self._function(observation), dtype=np.float64).ravel()
        except Exception as error:
            raise Unusable(f"could not be described: its '{self._called}' raised {one_line(error)}") from error
        assert self.low is not None
        return finite(state, len(self.low))


class Numbered(Observer):
    """Observations of any kind, numbered in the order of first appearance.

    shares: whether all that come after the last number but one share the last one; if not, they end the run.
    """

    def __init__(self, most: int, inner: Observer | None = None, *, shares: bool = False) -> None:
        self._most, self._inner = most, inner
        self._number: dict[bytes, int] = {}
        self.n_states = most + 1
        self.shared = most - 1 if shares else None  # the number of many observations

    def __call__(self, observation: Any) -> int:
        """The number of this observation, the next one if it is new."""
        digest = hashlib.blake2b(digest_size=DIGEST)
        _feed(digest, observation if self._inner is None else self._inner(observation))
        return self._numbered(digest.digest())

    def numbers(self, digests: NDArray[Any]) -> NDArray[np.int64]:
        """[n] the numbers of observations with these hashes, the next ones for those that are new."""
        if not _are_digests(digests):
            raise Unusable("is numbered by hashes that cannot be read")
        return np.array([self._numbered(row.tobytes()) for row in digests], dtype=np.int64)

    def _numbered(self, digest: bytes) -> int:
        state = self._number.setdefault(digest, len(self._number))
        if state == self.shared:
            del self._number[digest]
        elif state == self._most:
            del self._number[digest]
            raise Unusable(
                f"showed more than {self._most} distinct observations: allow more (states={2 * self._most}), or learn "
                "from features of them"
            )
        return state

    @property
    def seen(self) -> NDArray[np.uint8]:
        """[n, DIGEST] the hashes of all observations, by number."""
        return np.frombuffer(b"".join(self._number), dtype=np.uint8).reshape(-1, DIGEST).copy()

    @seen.setter
    def seen(self, digests: NDArray[np.uint8]) -> None:
        good = _are_digests(digests)
        must = f"be at most {self._most} hashes of {DIGEST} bytes"
        expect(good and len(digests) <= self._most, "seen observations", must, got="others")
        self._number = {row.tobytes(): i for i, row in enumerate(digests)}


def _are_digests(array: NDArray[Any]) -> bool:
    return array.ndim == 2 and array.shape[1] == DIGEST and array.dtype == np.uint8


def combinations(space: spaces.Space[Any]) -> int | None:
    """How many observations there are, if they are a few whole numbers of a few levels each; None for all others.

    >>> combinations(spaces.MultiDiscrete([5, 4, 3])), combinations(spaces.MultiBinary(8))
    (60, 256)
    >>> combinations(spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1)])), combinations(spaces.MultiDiscrete([99, 2]))
    (None, None)
    """
    number = 1
    for one in parts(space):
        ends = ends_of(one.space)
        if ends is None or not is_whole(one.space):
            return None
        for low, high in zip(*(np.ravel(end).tolist() for end in ends), strict=True):
            if high - low >= LEVELS:
                return None
            number *= int(high) - int(low) + 1
            if number > FACTORED:
                return None
    return number


def observer_for(
    space: spaces.Space[Any],
    function: Callable[[Any], Any] | None,
    states: int | str | None,
    problem: str,
    called: str = "observe",
) -> Observer:
    """The observer for a space; raises InvalidInput if there is none.

    function: the user's own, of the raw observation; `called` is the argument that it was given by.
    """
    inner = None if function is None else Mapped(space, function, problem, called)
    if isinstance(states, str) and states == VECTORS:
        return Vector(space, problem) if inner is None else inner
    if states is not None:
        return Numbered(whole(states, f"'states' of '{problem}'", 1, MOST), inner)
    if inner is not None:
        return inner
    if isinstance(space, spaces.Discrete):
        if space.n > MOST:
            raise InvalidInput(
                f"'{problem}' must have at most {MOST} states. Got {space.n} instead: give observe=f with "
                "f(observation) a vector, or states=N if at most N distinct ones come up."
            )
        return CountedObservations(int(space.start), int(space.n))
    return Vector(space, problem)


def typed(space: spaces.Space[Any], observation: Any) -> Any:
    """A recorded observation in the types of its space: what is numbered is identified by its bytes."""
    if isinstance(space, spaces.Dict) and isinstance(observation, Mapping):
        return {key: typed(space[key], part) if key in space.spaces else part for key, part in observation.items()}
    if isinstance(space, spaces.Tuple) and isinstance(observation, tuple) and len(observation) == len(space.spaces):
        return tuple(typed(own, part) for own, part in zip(space.spaces, observation, strict=True))
    if space.dtype is None or space.dtype.kind not in "biuf":
        return observation
    try:
        return np.asarray(observation, dtype=space.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise Unusable(f"observed what does not fit its observation space: {one_line(error)}") from error


def numbers_of(space: spaces.Space[Any], observation: Any) -> Floats:
    """All numbers of an observation in a new vector; raises `Unusable` if it does not fit its space."""
    try:
        return flatten(space, observation)
    except (TypeError, ValueError) as error:
        raise Unusable(f"observed what does not fit its observation space: {one_line(error)}") from error


def finite(state: Floats, d: int, named: Observer | None = None) -> Floats:
    """The vector, if it has d numbers and all are finite; raises `Unusable`, with the name of the number if known."""
    if state.shape != (d,):
        raise Unusable(f"observed {state.size} numbers, and its observation space has {d}")
    if not np.isfinite(state).all():
        entry = int(np.flatnonzero(~np.isfinite(state))[0])
        name = "" if named is None or named.names[entry] == f"{WHOLE}[{entry}]" else f" ({named.names[entry]})"
        raise Unusable(f"observed {state[entry]} in entry {entry} of its observation{name}")
    return state


def brief(state: Any) -> str:
    """A state or an observation as a message quotes it."""
    if isinstance(state, np.ndarray) and state.dtype.kind in "biuf":
        entries = [f"{x:.4g}" for x in state.ravel()[:SHOWN]]
        return f"[{', '.join(entries)}{', ...' if state.size > SHOWN else ''}]"
    return str(int(state)) if isinstance(state, int | np.integer) else type(state).__name__


def far_outside(observer: Observer, states: Floats) -> str | None:
    """What to note of states [n, D] farther outside of their declared space than its width; None if there are none.

    The text continues a sentence after the name of the problem.
    """
    low, high = observer.low, observer.high
    if low is None or high is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # infinite bounds
        width = high - low
        far = (np.maximum(states - high, low - states) > width) & (width < UNBOUNDED)
    if not far.any():
        return None
    row, i = np.argwhere(far)[0]
    return (
        f"observed {states[row, i]:.4g} for '{observer.names[i]}', far outside of its declared space from {low[i]:g} "
        f"to {high[i]:g}: declare the space as it is, or state bounds=(low, high) to from_gym."
    )


def _feed(digest: Any, part: Any) -> None:
    """Hash types and shapes with the bytes, so that different observations give different input."""
    if isinstance(part, Mapping):
        digest.update(f"{{{len(part)}".encode())
        for key in sorted(part, key=str):
            digest.update(f"{key!r}:".encode())
            _feed(digest, part[key])
    elif isinstance(part, tuple | list):
        digest.update(f"({len(part)}".encode())
        for item in part:
            _feed(digest, item)
    elif isinstance(part, str):
        digest.update(f"s{len(part)}:{part}".encode())
    else:
        array = np.asarray(part)
        if array.dtype.kind not in "biufc":
            raise Unusable(f"observed {type(part).__name__}, which cannot be hashed")
        if not np.isfinite(array).all():
            raise Unusable("observed a number that is not finite")
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
