"""The spec of a run, its request as plain data: validated when read from a file, compared when a run is resumed."""

import sys
from typing import Any

_Kinds = tuple[type, ...]
_NONE = type(None)
# Every key of a spec with the types it may have: a file is untrusted input.
KEYS: dict[str, _Kinds] = {
    **dict.fromkeys(("problem", "feedback", "fingerprint"), (str,)),
    **dict.fromkeys(("problem_options", "primal", "dual", "statements"), (dict,)),
    **dict.fromkeys(("episodes", "seed", "horizon"), (int,)),
    **dict.fromkeys(("n_states", "n_actions"), (int, _NONE)),
    **dict.fromkeys(("B_source", "chosen"), (str, _NONE)),
    "B": (int, float, _NONE),
    "persistent": (bool,),
}
PLAYER: dict[str, _Kinds] = {"name": (str,), "settings": (dict,)}
STATEMENT: dict[str, _Kinds] = {"constants": (dict,), "covered": (bool,), "why": (str,)}
DATA: dict[str, _Kinds] = {  # of the data from before the first round, where there are some
    **dict.fromkeys(("episodes", "steps", "resets"), (int,)),
    "from": (list,),
    "units": (list, _NONE),
    "policy": (bool,),
    "digest": (str,),
}
CONTROLLER: dict[str, _Kinds] = {"function": (str, _NONE), "explore": (int,)}
LARGEST, DEEPEST = 2**53, 32  # of sizes; of lists in lists
MOST_RATE = 1e6  # steps per second
MOST_MACHINES = 10_000
FLEET: dict[str, _Kinds] = {
    **dict.fromkeys(("machines", "operators"), (int,)),
    **dict.fromkeys(("reset_time", "risk"), (float, int)),
    "in_steps": (bool,),
}
POSITIVE = ("episodes", "horizon", "n_states", "n_actions")
# Keys that must be equal for a run to be resumed, and their names in messages.
SAME = {
    "fingerprint": "problem",
    "primal": "primal player",
    "dual": "dual player",
    "feedback": "feedback",
    "seed": "seed",
}


def validate(spec: Any) -> dict[str, Any]:
    """The spec itself if it is valid; otherwise raises ValueError with the reason."""
    found = _typed(spec, KEYS, "spec")
    for role in ("primal", "dual"):
        _typed(found[role], PLAYER, role)
        _typed(found["statements"].get(role), STATEMENT, f"statement of the {role} player")
    if "data" in found:
        _typed(found["data"], DATA, "data")
    if "controller" in found:
        _typed(found["controller"], CONTROLLER, "controller")
    for key in POSITIVE:
        if found[key] is not None and not 1 <= found[key] <= LARGEST:
            raise ValueError(f"its '{key}' must be positive, and is {str(found[key])[:20]}")
    if not 0 <= found["seed"] < 2**128:
        raise ValueError(f"its 'seed' must be from 0 to 2^128 - 1, and is {str(found['seed'])[:20]}")
    if found["B"] is not None and not 0 <= found["B"] <= sys.float_info.max:
        raise ValueError(f"its 'B' must be finite, and is {str(found['B'])[:20]}")
    if "timing" in found:
        _check_timing(found["timing"])
    _bounded(found, DEEPEST)
    return found


def _check_timing(timing: Any) -> None:
    """A timed run has either a delay or a rate, or is of a fleet."""
    if not isinstance(timing, dict) or sum(name in timing for name in ("delay", "rate", "machines")) != 1:
        raise ValueError("its 'timing' must have a delay or a rate, or machines")
    if "machines" in timing:
        _typed(timing, FLEET, "timing")
        if not (1 <= timing["machines"] <= MOST_MACHINES and 1 <= timing["operators"] <= MOST_MACHINES):
            raise ValueError(f"its 'timing' must have 1 to {MOST_MACHINES} machines, and as many operators")
        if not (0 <= timing["reset_time"] <= LARGEST and 0 <= timing["risk"] <= LARGEST):
            raise ValueError("the 'reset_time' and the 'risk' of its timing must be numbers from 0")
    delay, rate = timing.get("delay", 0), timing.get("rate", 1.0)
    if type(delay) is not int or not 0 <= delay <= LARGEST:
        raise ValueError(f"the 'delay' of its timing must be a number of rounds, and is {str(delay)[:20]}")
    if type(rate) not in (int, float) or not 0 < rate <= MOST_RATE:
        raise ValueError(f"the 'rate' of its timing must be steps per second, and is {str(rate)[:20]}")


def _bounded(value: Any, deep: int) -> None:
    """Refuse integers that no float can hold, and deep nesting, so that readers of a spec need not check."""
    if deep == 0:
        raise ValueError("its spec is nested too deep")
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError("its spec has a number that is too large")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _bounded(part, deep - 1)


def difference(stored: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    """Why a run of the spec `stored` cannot be resumed as `wanted`, as the end of a sentence; None if it can."""
    for key, what in SAME.items():
        if stored[key] == wanted[key]:
            continue
        if key == "fingerprint":
            return f"holds a run of another problem ('{stored['problem']}', with other options or another model)"
        return f"was made with another {what}: {_first_difference(stored[key], wanted[key])}"
    if (found := _other_controller(stored.get("controller"), wanted.get("controller"))) is not None:
        return found
    old, new = (", ".join(f"{k}={v}" for k, v in one.get("timing", {}).items()) for one in (stored, wanted))
    return None if old == new else f"was made with another timing: {old or 'none'}, not {new or 'none'}"


def _other_controller(old: dict[str, Any] | None, new: dict[str, Any] | None) -> str | None:
    """As `difference`, of the controllers; a function without a name may be any."""
    if old == new:
        return None
    before, after = (f"'{one['function']}'" if one and one["function"] else "no name" for one in (old, new))
    if new is None:
        how = "controller=..., or --controller module:function"
        return f"was made with a controller (of {before}): a file never makes code run, so give it again ({how})"
    if old is None:
        return "was made without a controller: leave it out"
    if old["explore"] != new["explore"]:
        return f"was made with explore={old['explore']}, not {new['explore']}"
    return f"was made with another controller: of {before}, not of {after}"


def _first_difference(stored: Any, wanted: Any) -> str:
    """The first entry in which two values differ."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        if stored.get("name") != wanted.get("name"):
            return f"{stored.get('name')}, not {wanted.get('name')}"
        old, new = stored.get("settings", {}), wanted.get("settings", {})
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                return f"{stored.get('name')} with {key}={old.get(key)}, not {key}={new.get(key)}"
    return f"{stored}, not {wanted}"


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
