"""What a run was asked to do, as plain data: checked when it comes from a file, compared when a run is continued."""

from __future__ import annotations

import sys
from typing import Any

_Kinds = tuple[type, ...]
_NONE = type(None)
# Every key of a spec with the types it may have; a file is data that somebody else may have written.
KEYS: dict[str, _Kinds] = {
    "problem": (str,), "problem_options": (dict,), "primal": (dict,), "dual": (dict,), "feedback": (str,),
    "episodes": (int,), "seed": (int,), "B": (int, float, _NONE), "B_source": (str, _NONE), "statements": (dict,),
    "fingerprint": (str,), "horizon": (int,), "n_states": (int, _NONE), "n_actions": (int, _NONE),
    "chosen": (str, _NONE), "persistent": (bool,),
}  # fmt: skip
PLAYER: dict[str, _Kinds] = {"name": (str,), "settings": (dict,)}
STATEMENT: dict[str, _Kinds] = {"constants": (dict,), "covered": (bool,), "why": (str,)}
LARGEST, DEEPEST = 2**53, 32  # of sizes; of lists in lists
POSITIVE = ("episodes", "horizon", "n_states", "n_actions")
# What must be the same for a run to go on as if it had never stopped, and how a sentence names it.
SAME = {
    "fingerprint": "problem", "primal": "primal player", "dual": "dual player", "feedback": "feedback",
    "episodes": "number of episodes", "seed": "seed",
}  # fmt: skip


def validate(spec: Any) -> dict[str, Any]:
    """The spec itself if it is one; raises ValueError with what is wrong with it."""
    found = _typed(spec, KEYS, "spec")
    for role in ("primal", "dual"):
        _typed(found[role], PLAYER, role)
        _typed(found["statements"].get(role), STATEMENT, f"statement of the {role} player")
    for key in POSITIVE:
        if found[key] is not None and not 1 <= found[key] <= LARGEST:
            raise ValueError(f"its '{key}' must be positive, and is {str(found[key])[:20]}")
    if not 0 <= found["seed"] < 2**128:
        raise ValueError("its 'seed' cannot be")
    if found["B"] is not None and not 0 <= found["B"] <= sys.float_info.max:
        raise ValueError(f"its 'B' must be finite, and is {str(found['B'])[:20]}")
    _bounded(found, DEEPEST)
    return found


def _bounded(value: Any, deep: int) -> None:
    """Whole numbers that a float can hold, and nothing nested without end: whoever reads a spec need not ask."""
    if deep == 0:
        raise ValueError("its spec is nested too deep")
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError("its spec has a number that is too large")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _bounded(part, deep - 1)


def difference(stored: dict[str, Any], asked: dict[str, Any]) -> str | None:
    """A sentence that says why a run of `stored` cannot go on as `asked`; None if it can."""
    for key, what in SAME.items():
        if stored[key] == asked[key]:
            continue
        if key == "fingerprint":
            return f"holds a run of another problem ('{stored['problem']}', with other options or another model)"
        if key == "episodes":
            return (
                f"was planned for {stored[key]} episodes, which its players' constants depend on; "
                f"it cannot go on for {asked[key]}"
            )
        return f"was made with another {what}: {_short(stored[key], asked[key])}"
    return None


def _short(stored: Any, asked: Any) -> str:
    """The first thing in which two values differ."""
    if isinstance(stored, dict) and isinstance(asked, dict):
        if stored.get("name") != asked.get("name"):
            return f"{stored.get('name')}, not {asked.get('name')}"
        old, new = stored.get("settings", {}), asked.get("settings", {})
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                return f"{stored.get('name')} with {key}={old.get(key)}, not {key}={new.get(key)}"
    return f"{stored}, not {asked}"


def _typed(value: Any, keys: dict[str, _Kinds], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"its {what} must be an object, and is {type(value).__name__}")
    for key, kinds in keys.items():
        if key not in value:
            raise ValueError(f"its {what} has no '{key}'")
        got = value[key]
        if not isinstance(got, kinds) or (isinstance(got, bool) and bool not in kinds):
            raise ValueError(f"the '{key}' of its {what} must be {kinds[0].__name__}, and is {type(got).__name__}")
    return value
