"""A problem as plain data: its fingerprint, its spec for another process (a blueprint), and its model.

With a blueprint a run file alone restores the player and its policy; with the model of a user's own small table it also
answers what needs the oracle, as its regret. Arrays of features (phi, xi) and users' functions are not saved: they need
the problem itself.

Legend: D numbers in a state, A actions; of a model L layers (1 or H), S states.
"""

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import numpy as np

from resetfree.core import Floats, InvalidInput, NonNegative, Range, ResetFreeError, shown
from resetfree.core.settings import accepts, is_float
from resetfree.core.state import plain_dtype
from resetfree.problems.action_spaces import ActionSpace, Box, Choices, box_between
from resetfree.problems.contract import Episode, Problem, State, is_frozen
from resetfree.problems.features import FeatureMap, make_features
from resetfree.problems.features import discover as feature_maps
from resetfree.problems.finite.mdp import FiniteMDP, FiniteProblem
from resetfree.problems.finite.transitions import Transitions

LISTED = 64  # entries of an array that are written out; larger ones are hashed


def fingerprint(problem: Problem) -> str:
    """SHA-256 of everything that affects episodes or what a learner sees; names of states do not count.

    >>> import resetfree as rf
    >>> ours, same, other = (rf.make("grid-v0", slip=slip).problem() for slip in (0.1, 0.1, 0.2))
    >>> fingerprint(ours) == fingerprint(same), fingerprint(ours) == fingerprint(other)
    (True, False)
    """
    digest = hashlib.sha256()
    parts = problem.description().identity
    for name in sorted(parts):
        _feed(digest, name, parts[name])
    return digest.hexdigest()


def describe(value: Any) -> Any:
    """A setting as data for JSON; equal settings give equal data.

    >>> describe({"a": np.float64(0.5), "b": (1, None), "c": float("inf"), "d": np.arange(2)})
    {'a': 0.5, 'b': [1, None], 'c': 'inf', 'd': [0, 1]}
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return describe(value.item())
    if isinstance(value, int | float):
        return value if math.isfinite(value) else str(float(value))
    if isinstance(value, np.ndarray):
        if value.size <= LISTED or value.dtype.hasobject:
            return describe(value.tolist())
        return {"shape": list(value.shape), "dtype": str(value.dtype), "sha256": _hash(value)}
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: describe(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"class": type(value).__qualname__, **fields}
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _hash(array: np.ndarray[Any, Any]) -> str:
    digest = hashlib.sha256()
    _feed(digest, "", array)
    return digest.hexdigest()


def _feed(digest: Any, name: str, value: Any) -> None:
    """Hash names, types and shapes with the bytes, so that different problems give different input."""
    if is_frozen(value):
        for field in dataclasses.fields(value):
            _feed(digest, f"{name}.{field.name}", getattr(value, field.name))
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest.update(f"{name}:{value.dtype.str}{value.shape};".encode())
        digest.update(np.ascontiguousarray(value).data)
    else:
        digest.update(f"{name}:{describe(value)!r};".encode())


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


NEEDED = ("reward", "reset", "start", "restart", "end_reset")
OPTIONAL = ("contexts", "phi", "xi")
ROWS = ("indptr", "indices", "prob")


def plain_model(problem: Problem) -> dict[str, Any] | None:
    """The model of a finite problem as data for JSON; None if it has none, or one that is too large for a spec."""
    if type(problem) is not FiniteProblem:
        return None
    mdp = problem._model
    arrays = {name: getattr(mdp, name) for name in (*NEEDED, *OPTIONAL)}
    arrays |= {name: getattr(mdp.transition, name) for name in ROWS}
    if sum(array.size for array in arrays.values() if array is not None) > MOST:
        return None
    plain = {name: plain_array(array) for name, array in arrays.items() if array is not None}
    sizes = {"horizon": mdp.horizon, "n_actions": mdp.n_actions, "boundary": mdp.boundary, "noise": mdp.noise}
    return None if None in plain.values() else {**sizes, **plain}


def model_from(plain: Any, name: str, identity: str) -> FiniteMDP | None:
    """The model of `plain_model`, of an untrusted file; None unless it is whole and its fingerprint is `identity`."""
    try:
        mdp = _model(plain, name)
        return mdp if fingerprint(mdp.problem()) == identity else None
    except (ResetFreeError, KeyError, TypeError, ValueError, OverflowError, MemoryError):
        return None


def _model(plain: Any, name: str) -> FiniteMDP:
    """The model; everything that compiled code indexes by is checked here, the rest by `FiniteMDP`."""
    arrays: dict[str, Any] = {key: array_from(plain[key], key) for key in (*NEEDED, *ROWS)}
    arrays |= {key: array_from(plain[key], key) for key in OPTIONAL if key in plain}
    horizon, n_actions, n = plain["horizon"], plain["n_actions"], len(arrays["reset"])
    indptr, indices, prob = (arrays.pop(key) for key in ROWS)
    counts = type(horizon) is int and type(n_actions) is int and horizon > 0 and n_actions > 0
    if not counts or math.prod((horizon, n, n_actions)) > LARGEST:
        raise InvalidInput("the sizes of the model in it cannot be read")
    layers, rest = divmod(len(indptr) - 1, n * n_actions)
    kinds = (indptr.dtype, indices.dtype, prob.dtype) == (np.int64, np.int32, np.float64)
    flat = kinds and indptr.ndim == indices.ndim == prob.ndim == 1 and len(indices) == len(prob)
    if not flat or rest or layers not in (1, horizon) or indptr[0] != 0 or indptr[-1] != len(indices):
        raise InvalidInput("the rows of the model in it cannot be read")
    if (
        (np.diff(indptr) < 0).any()
        or not ((indices >= 0) & (indices < n)).all()
        or not ((prob >= 0) & (prob <= 1)).all()
    ):
        raise InvalidInput("the transitions of the model in it are impossible")
    arrays["transition"] = Transitions(n, n_actions, layers, indptr=indptr, indices=indices, prob=prob)
    if len(arrays["reward"]) == 1:
        arrays["reward"] = arrays["reward"][0]
    if "contexts" not in arrays:
        arrays["restart"] = arrays["restart"][0]
    return FiniteMDP(horizon=horizon, boundary=plain["boundary"], noise=plain["noise"], name=name, **arrays)
