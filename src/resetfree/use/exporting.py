"""`DeployedPolicy`: a learned policy, and its file: plain .npz (arrays, and one JSON text about them), ONNX or C.

Nothing is pickled. A file is untrusted input: what does not fit is refused with one sentence.
"""

import dataclasses
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import InvalidInput, ResetFreeError, RunError, arguments
from resetfree.core import state as states
from resetfree.core.files import drafted
from resetfree.core.state import pack, unpack
from resetfree.players import discover
from resetfree.problems import ActionSpace, Box, ChoicePolicy, Choices, Policy
from resetfree.problems.action_spaces import box_between
from resetfree.problems.blueprint import LARGEST, action_array, bounds_from, features_from, plain_bounds, plain_features
from resetfree.problems.features import Features
from resetfree.use.evaluating import Evaluation, evaluate
from resetfree.use.portable import MARK, PRODUCER, PortablePolicy, c_text, onnx_bytes
from resetfree.use.predictor import FeatureSource, Predictor, Sensor, sensor_from

FORMAT = 1
TEXT, ACTIONS, SEEN = "resetfree", "actions", "seen"  # reserved names of arrays in the file
LONGEST_HEAD = 64  # bytes that say what a file is
COUNTED = ("number", "numbered")  # kinds of observations
DEEPEST = 20  # levels of nesting in what a file says about its policy: commands print it
KEYS = {"format", "kind", "horizon", "stationary", "observation", "features", "about"}
Arrays = dict[str, NDArray[Any]]


def policy_kinds() -> dict[str, type[Policy]]:
    """The policy classes that a file may hold, by kind: those of the players, and those imported in this process.

    >>> {"LinearScores", "LinearValues", "table"} <= set(policy_kinds())
    True
    """
    _ = discover("primal").own  # imports the players, whose modules declare their policies
    found: list[Any] = [Policy]
    for cls in found:
        found += cls.__subclasses__()
    own = [cls for cls in found if cls.__module__.startswith(states.OWN)]  # last: our kinds cannot be overridden
    return {cls.kind: cls for cls in found + own if vars(cls).get("kind")}


def write_policy(policy: Predictor, path: str | Path) -> Path:
    """Write a policy file, whose ending is its form; an older policy is replaced, a file of another kind never is."""
    path = arguments.path(path, "'path' of a policy")
    if path.is_dir():
        raise RunError(f"A policy file must be a file. Got the folder '{path}' instead.")
    if path.suffix.lower() not in WRITERS:
        raise InvalidInput(
            "A policy is written as .npz (for Python), .onnx or .c. "
            f"Got '{path.name}' instead: name it policy.npz, policy.onnx or policy.c."
        )
    _replace(path, WRITERS[path.suffix.lower()](policy))
    return path


def _npz_bytes(policy: Predictor) -> bytes:
    actions = _action_array(policy)
    kind, arrays = _parts(policy)
    about = {
        "format": FORMAT,
        "kind": kind,
        "horizon": policy.horizon,
        "stationary": policy.stationary,
        "observation": policy.sensor.to_plain(),
        "features": _plain_source(policy),
        "about": policy.about,
    }
    arrays |= {ACTIONS: actions, TEXT: np.array(json.dumps(about, allow_nan=False))}
    if policy.sensor.seen is not None:
        arrays[SEEN] = policy.sensor.seen
    _policy_from(arrays)  # refuse to write what could not be read again
    return pack(arrays)


WRITERS: dict[str, Callable[[Predictor], bytes]] = {
    ".npz": _npz_bytes,
    ".onnx": lambda policy: onnx_bytes(PortablePolicy.of(policy)),
    ".c": lambda policy: c_text(PortablePolicy.of(policy)).encode(),
}


def describe_file(policy: Predictor) -> tuple[str, dict[str, list[int]]]:
    """The kind of a policy, and the arrays that its file holds with their shapes."""
    kind, arrays = _parts(policy)
    return kind, {name: list(array.shape) for name, array in {**arrays, ACTIONS: _action_array(policy)}.items()}


def read_predictor(path: str | Path) -> Predictor:
    """The policy of a file that `write_policy` wrote; raises RunError for anything else."""
    path = arguments.path(path, "'path' of a policy")
    try:
        if arguments.is_special(path):
            raise RunError(f"A policy file must be a regular file. Got '{path}', a pipe or a device, instead.")
        packed = path.read_bytes()
    except FileNotFoundError as error:
        raise RunError(f"There is no policy file '{path}'.") from error
    except OSError as error:
        raise RunError(f"The policy file '{path}' cannot be read: {error.strerror}.") from error
    try:
        return _policy_from(unpack(packed))
    except (ResetFreeError, ValueError, TypeError, KeyError, MemoryError, RecursionError) as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise RunError(f"The file '{path}' is not a policy file of resetfree, or is damaged: {why}.") from error


def _action_array(policy: Predictor) -> NDArray[Any]:
    """[n, ...] the environment's own actions, or [2, ...] the bounds of its box of them."""
    actions = action_array(policy.space)
    if actions is None:
        raise InvalidInput("The actions of this policy are not numbers of one shape, and a plain file holds no others.")
    return actions


def _parts(policy: Predictor) -> tuple[str, Arrays]:
    """The kind of a policy, and its arrays."""
    rule = policy.rule
    if policy_kinds().get(rule.kind) is not type(rule):
        raise InvalidInput(f"A policy that is a {type(rule).__name__} holds code, and a plain file holds arrays only.")
    arrays = states.dump(rule)
    if {TEXT, ACTIONS, SEEN} & set(arrays):
        raise InvalidInput(f"A policy of kind '{rule.kind}' has an array whose name a policy file needs itself.")
    return rule.kind, arrays


def _plain_source(policy: Predictor) -> dict[str, Any] | None:
    """The feature map of a policy with its bounds, as plain data; None if the policy uses no features."""
    if policy.features is None or not _features_of(policy.rule):
        return None
    made, low, high = policy.features
    plain = plain_features(made)
    if plain is None or plain["settings"] is None:
        raise InvalidInput(f"The features '{made.name}' of this policy are code, and a plain file holds arrays only.")
    return {**plain, "low": plain_bounds(low), "high": plain_bounds(high)}


def _features_of(rule: Any) -> list[str]:
    """The fields of a rule that are features."""
    return [f.name for f in dataclasses.fields(rule) if isinstance(getattr(rule, f.name), Features)]


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether plain data are nested deeper than so many levels."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_is_deeper(part, levels - 1) for part in parts)


def _policy_from(arrays: Arrays) -> Predictor:
    """The policy of the arrays of a file; raises InvalidInput, ValueError or TypeError if they do not fit."""
    arrays = dict(arrays)
    text, actions, seen = arrays.pop(TEXT, None), arrays.pop(ACTIONS, None), arrays.pop(SEEN, None)
    if text is None or actions is None or text.dtype.kind != "U" or text.ndim:
        raise InvalidInput(f"it must hold '{TEXT}' and '{ACTIONS}'")
    about = json.loads(str(text))
    if not isinstance(about, dict) or set(about) != KEYS or not isinstance(about["about"], dict):
        raise InvalidInput(f"its text must have the keys {', '.join(sorted(KEYS))}")
    if _is_deeper(about, DEEPEST):
        raise InvalidInput(f"its text is nested deeper than {DEEPEST}")
    json.dumps(about, allow_nan=False)  # raises ValueError for NaN and for numbers beyond all floats, such as 1e999
    if about["format"] != FORMAT:
        raise InvalidInput(f"its format is {about['format']!r}, and this version reads format {FORMAT}")
    horizon = about["horizon"]
    if type(horizon) is not int or not 1 <= horizon <= LARGEST or type(about["stationary"]) is not bool:
        raise InvalidInput(f"its horizon cannot be {horizon!r}")
    if actions.ndim < 1 or not len(actions) or actions.dtype.kind not in "biuf":
        raise InvalidInput("its actions must be numbers")
    for name, array in {ACTIONS: actions, **arrays}.items():
        if array.dtype.kind not in "biufU" or (array.dtype.kind == "f" and np.isnan(array).any()):
            raise InvalidInput(f"its array '{name}' must hold numbers")
        if array.ndim and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InvalidInput(f"its array '{name}' must hold finite numbers")
    sensor = sensor_from(about["observation"], seen)
    source = _source_from(about["features"])
    rule = _rule(about["kind"], arrays, source)
    if isinstance(rule, ChoicePolicy):
        space: ActionSpace = Choices(len(actions), actions)
    elif len(actions) == 2 and actions.dtype.kind == "f":
        space = box_between(actions[0, ...], actions[1, ...])
    else:
        raise InvalidInput("its actions must be the two bounds of a box")
    _check_sizes(rule, sensor, horizon, space)
    _try(rule, sensor, horizon, space)
    own = space if isinstance(space, Box) else actions
    policy = Predictor(rule, sensor, own, horizon, about=about["about"], features=source)
    if policy.stationary != about["stationary"]:
        raise InvalidInput("its text and its arrays disagree on whether the policy depends on the step")
    return policy


def _source_from(plain: Any) -> FeatureSource | None:
    """The inverse of `_plain_source`, with every entry checked."""
    if plain is None:
        return None
    if not isinstance(plain, dict) or set(plain) != {"name", "settings", "low", "high"}:
        raise InvalidInput("its features cannot be read")
    low, high = bounds_from(plain["low"], "low"), bounds_from(plain["high"], "high")
    if low is None or high is None:
        raise InvalidInput("its features have no bounds")
    return FeatureSource(features_from({key: plain[key] for key in ("name", "settings")}), low, high)


def _rule(kind: Any, arrays: Arrays, source: FeatureSource | None) -> Policy:
    """A policy of a known class, its fields from arrays; features are made by their map, then filled."""
    cls: Any = policy_kinds().get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise InvalidInput(f"policies of kind {kind!r} are unknown: import the module that declares them")
    values: dict[str, Any] = {}
    used: set[str] = set()
    for one in dataclasses.fields(cls):
        stored = states.saved_name(one)
        nested = {name for name in arrays if name.startswith(f"{stored}.")}
        if stored in arrays:
            array = arrays[stored]
            values[one.name] = array if array.ndim else array.item()
            used.add(stored)
        elif nested and source is not None:
            values[one.name] = _features(source, {name: arrays[name] for name in nested}, f"{stored}.")
            used |= nested
    if used != set(arrays):
        raise InvalidInput(f"it holds '{min(set(arrays) - used)}', which is no field of a {kind}")
    try:
        made: Policy = cls(**values)
    except TypeError as error:
        raise InvalidInput(f"a {kind} cannot be made of {', '.join(sorted(values))} ({error})") from error
    return made


def _check_sizes(rule: Any, sensor: Sensor, horizon: int, space: ActionSpace) -> None:
    """Refuse arrays whose type or axes are not those of the class: compiled code trusts them."""
    held = [f.name for f in dataclasses.fields(rule) if isinstance(getattr(rule, f.name), np.ndarray)]
    if set(held) != set(rule.axes):
        raise InvalidInput(f"the arrays of a {rule.kind} are {', '.join(rule.axes)}, and not {', '.join(held)}")
    known: dict[str, Any] = {"A": space.size if isinstance(space, Box) else space.n, "D": sensor.dimension}
    for name in _features_of(rule):
        known["d"] = getattr(rule, name).dimension
    for name, axes in rule.axes.items():
        array = getattr(rule, name)
        if array.dtype != np.float64 or array.ndim != len(axes):
            raise InvalidInput(f"its array '{name}' must be numbers [{', '.join(axes)}]")
        for axis, n in zip(axes, array.shape, strict=True):
            if n != known.setdefault(axis, n):
                raise InvalidInput(f"its array '{name}' has {n} for {axis} = {known[axis]}")
    if known.get("L", 1) not in (1, horizon):
        raise InvalidInput(f"it has {known['L']} layers for {horizon} steps")
    if ("S" in known) != (sensor.kind in COUNTED) or known.get("S", 0) < sensor.count:
        raise InvalidInput(f"its observations do not fit a {rule.kind} of {known.get('S', 'uncounted')} states")
    if hasattr(rule, "check_loaded"):
        rule.check_loaded()


def _features(source: FeatureSource, arrays: Arrays, prefix: str) -> Features:
    """Features as their map makes them without states, filled with the saved arrays.

    Compiled code trusts shapes and indices: integers and Booleans must equal those of the map, and other arrays must
    have the same shape. Only the list of states of "one-hot" may have any length.
    """
    made = source.map.fit(np.zeros((0, len(source.low))), source.low, source.high, 0)
    fresh = states.dump(made, prefix)
    if set(fresh) != set(arrays):
        raise InvalidInput(f"its features are not those of '{source.map.name}'")
    listed = source.map.name == "one-hot"
    for name, array in fresh.items():
        saved = arrays[name]
        if saved.dtype != array.dtype or saved.ndim != array.ndim:
            raise InvalidInput(f"its array '{name}' has type {saved.dtype} in place of {array.dtype}")
        same_shape = saved.shape[1:] == array.shape[1:] if listed else saved.shape == array.shape
        if not same_shape or (array.dtype.kind in "biu" and not listed and not np.array_equal(saved, array)):
            raise InvalidInput(f"its array '{name}' does not fit the features '{source.map.name}'")
    states.load(made, arrays, prefix)
    return made


def _try(rule: Policy, sensor: Sensor, horizon: int, space: ActionSpace) -> None:
    """Refuse a policy that gives no valid action at the first or the last step."""
    if sensor.kind not in COUNTED and sensor.dimension is None:
        raise InvalidInput("its observations are not vectors")
    state: Any = {"scalar": np.float64(0.0), "vector": np.zeros(sensor.dimension or 0)}.get(sensor.kind, 0)
    for h in (1, horizon):
        try:
            row = np.asarray(rule(h, state)) if isinstance(rule, ChoicePolicy) else np.zeros(0)
            action = rule.mode(h, state)
        except Exception as error:
            raise InvalidInput(f"its arrays do not fit each other ({error})") from error
        if not space.holds(action):
            raise InvalidInput("its arrays give an action outside its action space")
        if row.size and (row.shape != (space.n,) or not (row >= 0).all() or abs(row.sum() - 1.0) > 1e-9):
            raise InvalidInput(f"its arrays give no distribution over its {space.n} actions")


def _replace(path: Path, packed: bytes) -> None:
    """Write a file atomically, in place of a policy file only."""
    if path.exists() and (arguments.is_special(path) or not _is_ours(path)):
        raise RunError(f"The file '{path}' is not a policy file of resetfree, and is not replaced.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with drafted(path) as draft, draft.open("wb") as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RunError(f"The policy file '{path}' cannot be written: {error.strerror}.") from error


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(LONGEST_HEAD)
        if path.suffix.lower() == ".c":
            return head.startswith(MARK.encode())
        if path.suffix.lower() == ".onnx":
            return PRODUCER.encode() in head
        with zipfile.ZipFile(path) as archive:
            return f"{TEXT}.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


@dataclass(frozen=True, eq=False)
class DeployedPolicy(Predictor):
    """A learned policy: `predict` with the interface of Stable-Baselines3, `evaluate`, `export`."""

    def evaluate(self, problem: Any = None, **options: Any) -> Evaluation:
        """Play it; see `resetfree.use.evaluate`.  problem: default, the one that it was learned on."""
        if problem is None:
            problem = self.problem
        if problem is None:
            raise InvalidInput("A policy from a file is evaluated in a problem. Got none: pass evaluate(problem).")
        return evaluate(self, problem, **options)

    def export(self, path: str | Path) -> Path:
        """Write it to one file: .npz for `read_policy` or NumPy alone, .onnx, or .c without dependencies."""
        return write_policy(self, path)


def read_policy(path: str | Path) -> DeployedPolicy:
    """A policy from the file that `DeployedPolicy.export` wrote: the same predictions, bit for bit.

    >>> import tempfile, resetfree as rf
    >>> run = rf.learn("grid-v0", episodes=50, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = read_policy(run.policy.export(f"{folder}/policy.npz"))
    >>> bool((again.rule.probabilities == run.policy.rule.probabilities).all())
    True
    """
    found = read_predictor(path)
    return DeployedPolicy(**{one.name: getattr(found, one.name) for one in fields(found)})
