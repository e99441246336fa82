"""What a learner may know of a problem, as plain data: with it a run file alone restores the player and its policy.

Arrays of features (phi, xi) and users' functions are not saved: they need the problem itself.

Legend: D numbers in a state, A actions.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, TypeAlias

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput
from resetfree.core.npz import plain_dtype
from resetfree.core.settings import NonNegative, Range, accepts
from resetfree.core.values import is_float, shown
from resetfree.problems.action_spaces import ActionSpace, Box, Choices, box_between
from resetfree.problems.contract import Episode, Problem, State
from resetfree.problems.features import FeatureMap, make_features
from resetfree.problems.features import discover as feature_maps
from resetfree.problems.fingerprint import describe

MOST = 2**16  # numbers that an array in a spec may have; larger ones belong to the problem
LARGEST = 2**24  # H S A of a table whose size is read from a file
Number: TypeAlias = Annotated[int, Range(0, LARGEST)]
Positive: TypeAlias = Annotated[int, Range(1, LARGEST)]
SIZES = {"horizon": int, "n_transitions": int, "n_contexts": int, "stationary": bool, "end_resets": bool}
DECLARED = {  # what an untrusted file may hold
    **{name: Number if kind is int else kind for name, kind in SIZES.items()},
    "horizon": Positive,
    "n_states": Positive | None,
    "n_actions": Positive | None,
    "reward_noise": NonNegative,
    "phi": bool,
}
PLAIN = (bool, int, float, str, type(None))


def blueprint(problem: Problem, s1: State) -> dict[str, Any]:
    """The data that `Blueprint` is made from; `s1`, if known, is an example of a state.

    >>> import resetfree as rf
    >>> found = blueprint(rf.make("grid-v0").problem(), 0)
    >>> found["n_states"], found["observation"], found["actions"]["values"]
    (12, {'kind': 'number', 'first': 0, 'count': 12}, [0, 1, 2, 3, 4])
    """
    return {
        **{name: kind(getattr(problem, name)) for name, kind in SIZES.items()},
        "n_states": None if problem.n_states is None else int(problem.n_states),
        "n_actions": problem.actions.n,
        "reward_noise": float(problem.reward_noise),
        "low": plain_bounds(problem.low),
        "high": plain_bounds(problem.high),
        "phi": problem.phi is not None,
        "features": plain_features(problem.features),
        "actions": plain_array(action_array(problem.actions)),
        "observation": problem.description(s1).observation,
    }


class Blueprint(Problem):
    """A problem that cannot be played: enough to restore a player's state."""

    xi = None
    room = 2**29  # a small file must not allocate more

    def __init__(self, name: str, plain: Any) -> None:
        """plain: the result of `blueprint`, from an untrusted file."""
        plain = _checked(plain)
        self.name = name
        for key in (*SIZES, "n_states", "reward_noise"):
            setattr(self, key, plain[key])
        self.actions = actions_from(plain)
        self._has_phi = plain["phi"]
        self.low, self.high = bounds_from(plain.get("low"), "low"), bounds_from(plain.get("high"), "high")
        if (self.low is None) != (self.high is None) or len(plain["low"] or ()) != len(plain["high"] or ()):
            raise InvalidInput("its bounds are not of one length")
        if plain.get("features") is not None:
            self.features = features_from(plain["features"])

    @property
    def phi(self) -> Floats | None:  # type: ignore[override]
        """None; raises InvalidInput if the problem has such features."""
        if self._has_phi:
            raise InvalidInput("its player learns with features of pairs (phi), which only the problem has")
        return None

    @property
    def n_uniforms(self) -> int:
        """Zero: it is never played."""
        return 0

    def first_start(self, u: float) -> State:
        """Raises InvalidInput."""
        raise InvalidInput(f"'{self.name}' is known from a run file alone and cannot be played: give the problem.")

    def rollout(self, policy: Any, start: State, u: Floats) -> Episode:
        """Raises InvalidInput."""
        raise InvalidInput(f"'{self.name}' is known from a run file alone and cannot be played: give the problem.")


def check_start(problem: Problem, s1: Any) -> None:
    """Raise InvalidInput for a start from a file that is not a state of the problem: compiled code indexes by it."""
    if problem.n_states is not None:
        whole = isinstance(s1, int | np.integer) and not isinstance(s1, bool)
        good, what = whole and 0 <= s1 < problem.n_states, f"a number from 0 to {problem.n_states - 1}"
    elif problem.low is None:  # a user's own problem may have any state
        return
    else:
        numbers = isinstance(s1, int | float | np.number | np.ndarray) and np.asarray(s1).dtype.kind in "iuf"
        good = numbers and np.size(s1) == len(problem.low) and np.isfinite(s1).all()
        what = f"{len(problem.low)} finite numbers"
    if not good:
        raise InvalidInput(f"its start must be {what}, and is {str(s1)[:40]}")


def action_array(actions: ActionSpace) -> np.ndarray[Any, Any] | None:
    """[n, ...] the values of choices, None if they are not numbers of one shape; [2, ...] the bounds of a box."""
    if isinstance(actions, Box):
        return np.stack([actions.low, actions.high])
    if actions.values is None or isinstance(actions.values, np.ndarray):
        return np.arange(actions.n) if actions.values is None else actions.values
    if all(isinstance(one, int) for one in actions):
        return np.array(actions, dtype=np.int64)
    arrays = [one for one in actions if isinstance(one, np.ndarray) and one.dtype.kind in "biuf"]
    if len(arrays) < len(actions) or len({(one.dtype, one.shape) for one in arrays}) > 1:
        return None
    return np.stack(arrays)


def actions_from(plain: dict[str, Any]) -> ActionSpace:
    """The actions of a checked blueprint; choices whose values are not saved become 0 .. n - 1."""
    n, listed = plain["n_actions"], plain.get("actions")
    values = None if listed is None else array_from(listed, "list of actions")
    if n is not None:
        if values is not None and len(values) != n:
            raise InvalidInput(f"it lists {len(values)} actions for {n}")
        return Choices(n, values)
    if values is None or values.ndim < 1 or len(values) != 2:
        raise InvalidInput("its box of actions must have two bounds")
    return box_between(values[0, ...], values[1, ...])


def plain_array(array: np.ndarray[Any, Any] | None) -> dict[str, Any] | None:
    """An array as data for JSON, bit for bit; None if it is too large or not finite."""
    if array is None or array.size > MOST or (array.dtype.kind == "f" and not np.isfinite(array).all()):
        return None
    return {"dtype": array.dtype.str, "shape": list(array.shape), "values": array.ravel().tolist()}


def array_from(plain: Any, what: str) -> np.ndarray[Any, Any]:
    """The array of `plain_array`; raises InvalidInput."""
    try:
        dtype, values, shape = plain_dtype(plain["dtype"], 0), plain["values"], plain["shape"]
        if dtype.kind not in "biuf" or not isinstance(values, list) or len(values) > MOST:
            raise ValueError(f"it must hold at most {MOST} numbers")
        if not isinstance(shape, list) or any(type(n) is not int for n in shape) or math.prod(shape) != len(values):
            raise ValueError("it must hold as many numbers as its shape")
        array = np.array(values, dtype=dtype).reshape(shape)
        if not np.isfinite(array).all():
            raise ValueError("it must hold finite numbers")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"the {what} in it cannot be read ({error})") from error
    return array


def features_from(plain: Any) -> FeatureMap:
    """A feature map by its name and settings; code that a file names is never imported."""
    if not isinstance(plain, dict) or set(plain) != {"name", "settings"} or not isinstance(plain["name"], str):
        raise InvalidInput("its features cannot be read")
    if not isinstance(plain["settings"], dict):
        raise InvalidInput(f"its features '{plain['name']}' are a user's own, which only the problem has")
    if isinstance(plain["settings"].get("function"), str):
        raise InvalidInput("its features name a function, and no code is run because a file names it")
    return make_features(plain["name"], {key: number(value) for key, value in plain["settings"].items()})


def number(value: Any) -> Any:
    """A setting of `describe`, which writes infinities as text; raises InvalidInput for other than plain data."""
    if not isinstance(value, PLAIN):
        raise InvalidInput(f"a setting in it must be a number or a word, and is {type(value).__name__}")
    return float(value) if value in ("inf", "-inf", "nan") else value


def plain_features(features: FeatureMap | None) -> dict[str, Any] | None:
    """A feature map as data; without settings if a file cannot hold them."""
    if features is None:
        return None
    known = feature_maps().get(features.name) is type(features)
    settings = {f.name: getattr(features, f.name) for f in dataclasses.fields(features)} if known else {}  # type: ignore[arg-type]
    plain = known and all(isinstance(value, PLAIN) for value in settings.values()) and not settings.get("function")
    return {"name": features.name, "settings": describe(settings) if plain else None}


def plain_bounds(array: Floats | None) -> list[Any] | None:
    """[D] bounds as data, infinite ones as text; None for too many."""
    return None if array is None or array.size > MOST else [describe(float(x)) for x in array]


def bounds_from(plain: Any, what: str) -> Floats | None:
    """The bounds of `plain_bounds`; raises InvalidInput."""
    if plain is None:
        return None
    good = isinstance(plain, list) and len(plain) <= MOST
    if not good or not all(is_float(x) or x in ("inf", "-inf") for x in plain):
        raise InvalidInput(f"its '{what}' cannot be read")
    return np.array([float(x) for x in plain], dtype=np.float64)


def _checked(plain: Any) -> dict[str, Any]:
    """Check every size before anything is allocated by it; raises InvalidInput."""
    if not isinstance(plain, dict):
        raise InvalidInput("it was written without a description of its problem")
    for key, declared in DECLARED.items():
        if key not in plain or not accepts(plain[key], declared):
            raise InvalidInput(f"its '{key}' cannot be {shown(plain.get(key))}")
    if plain["n_transitions"] > plain["horizon"]:
        raise InvalidInput("its 'horizon' must be at least its 'n_transitions'")
    if math.prod((plain["horizon"], plain["n_states"] or 1, plain["n_actions"] or 1)) > LARGEST:
        raise InvalidInput(f"its tables would have more than {LARGEST} entries")
    return plain
