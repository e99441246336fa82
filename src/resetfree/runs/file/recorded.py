"""The spec and the columns of a run file (docs/columns.md), episodes as rows and back, and a problem that replays them.

The spec is the request of a run as plain data: validated when read from a file, compared when a run is resumed.

A row holds the bytes of states, actions and rewards, concatenated, and their form: for each the type, with the narrower
type in which integers are stored, and the shape, as in "i8:u1 9;i8:u1 8;f8 8".
"""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Floats, InvalidInput, within
from resetfree.core.state import DTYPE, MOST_AXES, plain_dtype
from resetfree.game.contract import Round
from resetfree.problems import Box, Episode, Problem, State
from resetfree.problems.blueprint import check_start
from resetfree.problems.operators.channel import Operator

# v_r and v_c are exact (nan without an oracle); v_r_hat, v_c_hat and upper are the player's own estimates.
COLUMNS = (
    *("k", "s1", "lam", "v_r_hat", "v_c_hat", "upper", "cost_signal"),
    *("reward", "reset", "steps", "next_start", "v_r", "v_c", "original_return"),
)
GOALS = "goals"  # one more column, of runs on problems with goals
# Four more columns, of timed runs: the round that the plan rests on, the first 48 bits of its digest, deadlines missed,
# and how late the latest command was (seconds; nan without a rate).
TIMING = ("based_on", "plan", "missed", "lateness")
MOST_PLAN = 2**48
# Six more, of fleets (`game.fleet`): which machine it was, its episode's number in the order in which they began, when
# it began and was over, how long the machine had waited for an operator before it, and who reset it (0: no reset).
FLEET = ("machine", "number", "began", "ended", "waited", "operator")
STARTS = [COLUMNS.index(name) for name in ("s1", "next_start")]
_UNKNOWN = (float("nan"), float("nan"))


def columns_of(this: Round) -> tuple[Any, ...]:
    """A round as one value per column of COLUMNS: starts as states of the problem, everything else plain numbers."""
    plan, episode = this.plan, this.episode
    v_r, v_c = this.exact or _UNKNOWN
    planned = (float(this.lam), float(plan.v_r), float(plan.v_c), float(plan.upper), float(this.cost_signal))
    reward, own = float(np.add.reduce(episode.rewards)), float(episode.original_return)
    played = (reward, int(episode.reset), len(episode.actions), episode.next_start)
    return (this.k, this.s1, *planned, *played, v_r, v_c, reward if math.isnan(own) else own)


def own_returns(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """[K] the column `original_return`, with the reward where it was not kept apart, as in files from before."""
    paid, own = columns["reward"], columns["original_return"]
    return np.asarray(np.where(np.isnan(own), paid, own), dtype=np.float64)


def check_timing(columns: Mapping[str, NDArray[Any]]) -> None:
    """Refuse what no timed run has: plans that rest on later rounds, or on rounds before a reset; raises ValueError."""
    k, based_on = np.arange(1, len(columns["k"]) + 1), columns["based_on"]
    if FLEET[0] in columns:
        return _check_fleet(columns, k)
    newest = np.maximum.accumulate(np.where(columns["reset"], k, 0))
    older = np.concatenate([[0], np.maximum(newest, np.maximum.accumulate(based_on))])[:-1]  # what it must rest on
    wrong = np.flatnonzero((based_on < older) | (based_on >= k))
    if len(wrong):
        raise ValueError(f"the plan of round {wrong[0] + 1} rests on round {based_on[wrong[0]]}")
    if not ((columns["plan"] >= 0) & (columns["plan"] < MOST_PLAN) & (columns["missed"] >= 0)).all():
        raise ValueError("a plan has no digest, or deadlines were missed less than zero times")
    return None


def _check_fleet(columns: Mapping[str, NDArray[Any]], k: NDArray[np.int64]) -> None:
    """Refuse what no fleet has; raises ValueError."""
    based_on, number = columns["based_on"], columns["number"]
    wrong = (based_on < 0) | (based_on >= k) | (columns["machine"] < 1) | (columns["operator"] < 0)
    wrong |= ~((columns["began"] <= columns["ended"]) & (columns["waited"] >= 0))
    if wrong.any() or (np.diff(columns["ended"]) < 0).any() or len(np.unique(number)) < len(number):
        raise ValueError("its rounds are not those of a fleet")


def columns_of_row(batch: Mapping[str, NDArray[Any]], row: int) -> dict[str, NDArray[Any]]:
    """The columns [K] of one run of a batch, from arrays [n, K]; missing columns are nan."""
    n = batch["s1"].shape[1]
    columns: dict[str, NDArray[Any]] = {"k": np.arange(1, n + 1)}
    for name in COLUMNS[1:]:
        column = batch[name][row] if name in batch else np.full(n, np.nan)
        columns[name] = column.astype(np.int64) if column.dtype.kind == "i" else column
    return {**columns, "original_return": own_returns(columns)}


NARROW = ("u1", "u2", "u4", "i1", "i2", "i4")
FORM = re.compile(r"([a-zA-Z]\d{1,9})(?::([a-z]\d))?((?: \d{1,18})*)")
NEGATIVE_ZERO = ";-0"  # appended to the form: the next start is -0.0, which SQLite does not keep


class RecordedRound(NamedTuple):
    """One round of a run file: its start and its episode."""

    k: int
    s1: State
    episode: Episode
    based_on: int = -1  # the round that its plan rests on, in a timed run


class EpisodeBuffer:
    """A buffer of episodes to be written: copies, since their arrays may be reused.

    It keeps only bytes and shared texts, which the garbage collector need not traverse.
    """

    def __init__(self) -> None:
        self._forms: list[str] = []
        self._bytes: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
        self._known: dict[tuple[Any, ...], str] = {}
        self.weight = 0  # bytes

    def add(self, episode: Episode) -> None:
        """Append a copy of an episode."""
        states, actions, rewards = episode.states, episode.actions, episode.rewards
        key = (states.dtype, states.shape, actions.dtype, actions.shape, rewards.dtype, rewards.shape)
        form = self._known.get(key)
        if form is None:
            states, actions, rewards = map(_plain, (states, actions, rewards))
            form = ";".join(_form(array) for array in (states, actions, rewards))
            if states.dtype is key[0]:  # otherwise it must be converted every time
                self._known[key] = form
        first, second, third = self._bytes
        first.append(states.tobytes())
        second.append(actions.tobytes())
        third.append(rewards.tobytes())
        self._forms.append(form)
        self.weight += states.nbytes + actions.nbytes

    def take(self) -> tuple[list[str], list[bytes]]:
        """Form and bytes of every episode, integers in the narrowest type that holds all; empties the buffer."""
        forms = {form: form.split(";") for form in set(self._forms)}
        parts = []
        for i, kept in enumerate(self._bytes):
            narrow = all(form[i].startswith("i8") for form in forms.values())
            suffix, made = _narrowed(kept) if narrow else ("", kept)
            parts.append(made)
            for form in forms.values():
                form[i] = form[i].replace("i8", f"i8{suffix}", 1)
        texts = {old: ";".join(new) for old, new in forms.items()}
        found = [texts[form] for form in self._forms], [a + b + c for a, b, c in zip(*parts, strict=True)]
        self.__init__()  # type: ignore[misc]
        return found


def _narrowed(kept: list[bytes]) -> tuple[str, list[bytes]]:
    numbers = np.frombuffer(b"".join(kept), dtype=np.int64)
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    fits = (name for name in NARROW if np.iinfo(name).min <= low and high <= np.iinfo(name).max)
    narrow = np.dtype(next(fits, "i8"))
    if narrow == numbers.dtype:
        return "", kept
    data, ends = numbers.astype(narrow).tobytes(), list(accumulate(len(one) // 8 * narrow.itemsize for one in kept))
    return f":{narrow.str[1:]}", [data[at:end] for at, end in pairwise([0, *ends])]


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """The array in little-endian order; raises InvalidInput if it does not hold numbers."""
    plain = array if array.dtype.hasobject else array.astype(array.dtype.newbyteorder("<"), copy=False)
    if DTYPE.fullmatch(plain.dtype.str) is None or not plain.dtype.itemsize:
        raise InvalidInput(f"A run file holds episodes of numbers. Got an array of {array.dtype} instead.")
    return plain


def _form(array: NDArray[Any]) -> str:
    return f"{array.dtype.str[1:]}{''.join(f' {n}' for n in array.shape)}"


def unpacked(form: Any, data: Any) -> list[NDArray[Any]]:
    """States, actions and rewards of a row; raises ValueError, before anything is allocated, if it is invalid."""
    if not isinstance(form, str) or not isinstance(data, bytes):
        raise ValueError("its transitions cannot be read")
    arrays, at = [], 0
    parts = form.removesuffix(NEGATIVE_ZERO).split(";", 3)
    for text in parts:
        found = FORM.fullmatch(text)
        if found is None or len(parts) != 3:
            raise ValueError(f"its transitions have the form {form[:40]!r}")
        dtype = plain_dtype(f"<{found[1]}", len(data))
        kept = dtype if found[2] is None else plain_dtype(f"<{found[2]}", len(data))
        shape = tuple(map(int, found[3].split()))
        size = math.prod(shape) * kept.itemsize
        narrow = kept == dtype or (kept.kind in "iu" and dtype == np.int64)
        if not narrow or len(shape) > MOST_AXES or not kept.itemsize or at + size > len(data):
            raise ValueError("the bytes of its transitions do not match their form")
        flat = np.frombuffer(data, dtype=kept, count=math.prod(shape), offset=at)
        arrays.append(flat.astype(dtype).reshape(shape))
        at += size
    if at != len(data):
        raise ValueError("the bytes of its transitions do not match their form")
    return arrays


def check_episode(problem: Problem, played: RecordedRound) -> None:
    """Refuse an episode of a file that does not fit the problem: compiled code uses its entries as indices."""
    states, actions, rewards = played.episode.states, played.episode.actions, played.episode.rewards
    n, end = len(actions) if actions.ndim else -1, played.episode.next_start
    check_start(problem, played.s1)
    if end is not None:
        check_start(problem, end)
    space = getattr(problem, "actions", None)
    if isinstance(space, Box):
        acts = actions.dtype == np.float64 and actions.shape == (n, space.size)
        acts = acts and bool(((space.low.ravel() <= actions) & (actions <= space.high.ravel())).all())
    else:
        acts = actions.dtype == np.int64 and actions.ndim == 1 and within(actions, 0, problem.n_actions)
    if problem.n_states is not None:
        visits = states.dtype == np.int64 and states.ndim == 1 and within(states, 0, problem.n_states)
    elif problem.low is None:  # a user's own problem, whose states may be anything
        visits = states.ndim > 0
    else:
        shapes = [(len(problem.low),)] if len(problem.low) > 1 else [(), (1,)]
        visits = states.dtype == np.float64 and states.shape[1:] in shapes and bool(np.isfinite(states).all())
    earns = rewards.dtype == np.float64 and rewards.shape == (n,) and np.isfinite(rewards).all()
    if not (acts and visits and earns and 0 <= n <= problem.horizon and 0 <= len(states) - n <= 1 and len(states)):
        raise InvalidInput(f"round {played.k} holds an episode that '{problem.name}' cannot have")


def checked(problem: Problem, played: Iterable[RecordedRound]) -> Iterator[RecordedRound]:
    """Rounds of a file, each checked before it is used; raises InvalidInput."""
    for one in played:
        check_episode(problem, one)
        yield one


class ReplayedProblem(Problem):
    """A problem that replays recorded rounds to the game; the problem itself is not changed."""

    persistent = True  # resets are those of the record

    def __init__(self, problem: Problem, played: Iterable[RecordedRound]) -> None:
        self.name, self.horizon, self._problem = problem.name, problem.horizon, problem
        self._rounds = iter(checked(problem, played))
        self._next: RecordedRound | None = None

    @property
    def n_uniforms(self) -> int:
        """The number that an episode of the problem takes."""
        return self._problem.n_uniforms

    def first_start(self, u: float) -> State:
        """The start of the next recorded round."""
        return self._look().s1

    def perform_reset(self, u: float, why: str, operator: Operator | None = None) -> State:
        """The start of the next recorded round."""
        return self._look().s1

    def rollout(self, policy: Any, start: State, u: Floats) -> Episode:
        """The episode of the next recorded round."""
        played, self._next = self._look(), None
        if not np.array_equal(played.s1, start):
            raise InvalidInput(f"round {played.k} must start where the one before it ended")
        if played.episode.next_start is None and not self._problem.persistent:
            raise InvalidInput(f"round {played.k} must say where the next one starts")
        return played.episode

    def _look(self) -> RecordedRound:
        self._next = next(self._rounds, None) if self._next is None else self._next
        if self._next is None:
            raise InvalidInput("its rounds must all have their transitions")
        return self._next


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
FLEET_KEYS: dict[str, _Kinds] = {
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
        _typed(timing, FLEET_KEYS, "timing")
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
    if "machines" in stored.get("timing", {}) and "machines" not in wanted.get("timing", {}):
        return "holds a fleet: continue it with `resetfree fleet`, or rf.learn_fleet"
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
