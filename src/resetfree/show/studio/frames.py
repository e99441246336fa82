"""What the page shows of a run: its map and spec, which stay, its newest frame and curves, and past episodes.

Legend: k rounds so far; regret and expected resets are exact (oracle), realised resets are what happened, predicted
ones what the primal player foresaw; `upper` is above the expected resets after every round at once, from the realised
ones alone, as in certificates and reports; `lived` are steps since the newest reset, `falls` episodes that ended with
one. What is shown is a sample; the data is complete.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arguments import whole
from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import InvalidInput, ResetFreeError
from resetfree.game.contract import Round
from resetfree.problems.blueprint import fingerprint
from resetfree.problems.contract import Problem
from resetfree.problems.finite.mdp import FiniteMDP, model_behind
from resetfree.problems.registry import make, problems
from resetfree.runs.display import meant
from resetfree.runs.file import runfile
from resetfree.runs.recall import unknown
from resetfree.runs.result import Run
from resetfree.show.studio import limits
from resetfree.show.studio.catalogue import MACHINES, problem_options
from resetfree.theory.assumptions import feasibility
from resetfree.theory.certificates.anytime import resets_bound
from resetfree.theory.certificates.record import ROLES, as_played
from resetfree.theory.oracle.dynamic_programming import solve

RUN_KEYS = ("primal", "dual", "feedback", "episodes", "seed", "B", "B_source", "chosen")
SPEC = (
    *(*RUN_KEYS, "problem", "problem_options", "horizon", "n_states", "n_actions"),
    *("persistent", "timing", "after_goal", "ask"),
)  # sent to the page


@dataclass(frozen=True, eq=False)
class RunScene:
    """The constant part of one run; `value` and `safe` come from the oracle, None without one."""

    spec: dict[str, Any]
    mdp: FiniteMDP | None
    why: str  # why there is no oracle
    value: Floats | None  # [S] V*, nan where no policy avoids resets
    safe: Bools | None  # [S, A] first actions after which a reset can be avoided for certain
    bounded: bool = True  # whether the problem can be made again within `limits`
    episodes: int | None = None  # that the run was extended to, None for those that were planned

    def to_dict(self) -> dict[str, Any]:
        """As plain data for the page."""
        spec = {key: self.spec.get(key) for key in SPEC} | {"statements": self._statements()}
        spec |= {} if self.episodes is None else {"episodes": self.episodes}
        name, timed = (
            self.spec["problem"],
            spec["timing"] is not None,
        )  # the command line plays with delay, and at a rate
        again = not timed and self.bounded and (name in problems() or name in MACHINES)
        kinds = {"resumes": not timed, "again": again}
        return {"spec": spec, "oracle": self.mdp is not None, "why": self.why, "map": self._map(), **kinds}

    def _statements(self) -> dict[str, dict[str, Any]]:
        """The statements of the players themselves, never those stored in a file, as far as they hold for this run."""
        if self.mdp is None:
            return unknown(self.why)
        rounds = min(self.spec["episodes"] if self.episodes is None else self.episodes, limits.EPISODES)
        run = Run(self.spec, {"k": np.arange(rounds)}, self.mdp, None, 0.0)
        said = dict(run.statements)
        for role in ROLES:
            covered, why = as_played(run, role)
            said[role] = {**said[role], "covered": covered, "why": why}
        if not feasibility(self.mdp).holds:  # no path is bounded where resets cannot be avoided
            said["primal"]["most_resets"] = None
        return said

    def _map(self) -> dict[str, Any] | None:
        mdp = self.mdp
        if mdp is None or self.safe is None or mdp.n_states > limits.SHOWN:
            return None
        if mdp.layout is not None:
            rows, cols, cell = mdp.layout.n_rows, mdp.layout.n_cols, mdp.layout.cell
        else:  # no map: the states in rows
            cols = math.ceil(math.sqrt(mdp.n_states * 1.6))
            rows, cell = math.ceil(mdp.n_states / cols), np.arange(mdp.n_states)
        marks = {"reset": mdp.reset, "start": mdp.start > 0, "restart": mdp.restart > 0, "safe": self.safe}
        marks |= {"ends": mdp.end_reset & ~mdp.reset, "feasible": self.safe.any(axis=1)}
        return {
            "rows": rows,
            "cols": cols,
            "cells": cell.tolist(),
            "real": mdp.layout is not None,
            "names": list(mdp.state_names),
            "actions": list(mdp.action_names),
            **{name: bits(cells) for name, cells in marks.items()},
            "pay": mdp.reward.max(axis=(0, 2)).round(4).tolist(),
            "safe_pairs": int(self.safe[~mdp.reset].sum()),
            "pairs": int((~mdp.reset).sum()) * mdp.n_actions,
        }


def scene_of(spec: dict[str, Any], episodes: int | None = None) -> RunScene:
    """The scene of a run from its spec and the episodes that it has in the end (default: those that were planned).

    Only a registered problem of bounded size is made again.
    """
    return replace(_scene_of(spec), episodes=episodes if episodes != spec["episodes"] else None)


def _scene_of(spec: dict[str, Any]) -> RunScene:
    name = spec["problem"]
    if name not in problems():
        why = f"'{name[:80]}' is not a registered problem, and a file never makes code run"
        return RunScene(spec, None, why, None, None)
    try:
        mdp = _model(name, spec["problem_options"], spec["fingerprint"])
    except ResetFreeError as error:
        return RunScene(spec, None, str(error), None, None, bounded=False)
    if mdp is None:
        return RunScene(spec, None, "the problem has changed since the run was made", None, None)
    if mdp.n_states * mdp.n_actions * mdp.horizon > limits.TABLE:
        return RunScene(spec, None, "the problem is too large to be solved here", None, None, bounded=False)
    solution = solve(mdp, starts=[])
    return RunScene(spec, mdp, "", solution.value, np.asarray(solution.safe.actions(1)))


def _model(name: str, options: Any, expected: str) -> FiniteMDP | None:
    """The model of a registered problem with bounded options; None if its fingerprint has changed."""
    made = make(name, **problem_options(name, options))
    problem = made if isinstance(made, Problem) else made.problem()
    return model_behind(problem) if fingerprint(problem) == expected else None


def bits(array: Any) -> str:
    """Booleans as text of 0 and 1, row by row.

    >>> bits(np.array([[True, False], [True, True]]))
    '1011'
    """
    flat: bytes = (np.asarray(array, dtype=np.bool_).ravel().astype(np.uint8) + ord("0")).tobytes()
    return flat.decode()


PLAYED = 0.01  # probability from which an action counts as played by a policy
SERIES = ("regret", "expected", "realised", "predicted", "lam", "pairs", "lived")
EARNED = len(SERIES)  # the row of the reward so far, which is shown per episode
LATELY = 100  # episodes over which the newest reward is averaged


class History:
    """Every round of a run as cumulative curves; nothing is dropped, and what is sent is a sample of it."""

    _now: list[float]  # the first four of SERIES
    _newest: int  # the episode of the newest reset, 0 without one
    _lived: int  # steps since then
    _earned: float  # in all episodes

    def __init__(self, scene: RunScene) -> None:
        self._value = scene.value
        self._data = np.zeros((EARNED + 1, 1024))
        self._predicts = meant(scene.spec) != "none"
        self.clear()
        self.pairs = float("nan")  # pairs (s, a) that the player has not ruled out, newest

    def add(
        self,
        s1: Any,
        lam: float,
        reset: bool,
        v_r: float,
        v_c: float,
        v_c_hat: float,
        reward: float = math.nan,
        steps: int = 0,
    ) -> None:
        """Add a round; v_r and v_c are nan without an oracle, v_c_hat is what the player predicted."""
        if self.k == self._data.shape[1]:
            self._data = np.concatenate([self._data, np.zeros_like(self._data)], axis=1)
        best = math.nan if self._value is None else float(self._value[s1])
        now, column = self._now, self._data[:, self.k]
        now[0] += best - v_r
        now[1] += v_c
        now[2] += reset
        if reset:
            self._newest = self.k + 1
        now[3] += v_c_hat if self._predicts else math.nan
        self._lived += int(steps)  # a column of a file gives NumPy's numbers, which are no JSON
        self._earned += float(reward)
        column[0], column[1], column[2], column[3], column[4], column[5] = *now, lam, self.pairs
        column[6], column[EARNED] = self._lived, self._earned
        if reset:
            self._lived = 0
        self.k += 1

    def clear(self) -> None:
        """Forget all rounds."""
        self.k, self._newest, self._now = 0, 0, [0.0] * 4
        self._lived, self._earned = 0, 0.0

    @property
    def now(self) -> dict[str, float | None]:
        """The newest values and the episode of the newest reset, None for those that are not finite."""
        regret, expected, realised, predicted = self._now
        lam = float(self._data[4, self.k - 1]) if self.k else math.nan
        numbers = {"regret": regret, "expected": expected, "predicted": predicted, "lam": lam, "pairs": self.pairs}
        exact = {name: finite(x) for name, x in numbers.items()}
        n = min(self.k, LATELY)
        earned = self._earned - (float(self._data[EARNED, self.k - n - 1]) if self.k > n else 0.0)
        exact["reward"] = finite(earned / n) if n else None
        counts = {"realised": int(realised), "newest_reset": self._newest, "lived": self._lived}
        return {**exact, **counts, "upper": float(resets_bound(realised, self.k))}

    def curves(self, most: int = limits.CURVE) -> dict[str, list[Any]]:
        """At most so many points of each curve, the first and the last round always among them."""
        at = np.unique(np.linspace(0, self.k - 1, min(most, self.k)).round().astype(np.int64))
        result: dict[str, list[Any]] = {"k": (at + 1).tolist()}
        for name, row in zip(SERIES, self._data, strict=False):
            result[name] = [finite(x) for x in row[at].tolist()]
        result["upper"] = np.round(resets_bound(self._data[2, at], at + 1), 3).tolist()
        earned = np.diff(self._data[EARNED, at], prepend=0.0) / np.diff(at, prepend=-1)
        result["reward"] = [finite(x) for x in earned.tolist()]
        result["falls"] = self._some_reset_rounds(most)
        return result

    def reset_rounds(self) -> NDArray[np.int64]:
        """The episodes that ended with a reset."""
        return np.flatnonzero(np.diff(self._data[2, : self.k], prepend=0.0)) + 1

    def _some_reset_rounds(self, most: int) -> list[int]:
        """The episodes with a reset; of very many, one from each of `most` parts of the run."""
        reset_rounds = self.reset_rounds()
        if len(reset_rounds) > most:
            reset_rounds = reset_rounds[np.unique(reset_rounds * most // (self.k + 1), return_index=True)[1]]
        return [int(k) for k in reset_rounds]


def finite(x: float) -> float | None:
    """A number rounded to six digits; None if it is not finite."""
    return float(f"{x:.6g}") if math.isfinite(x) else None


def knowledge(arrays: Mapping[str, NDArray[Any]], shape: tuple[int, int]) -> dict[str, Bools | NDArray[Any]]:
    """The arrays of a primal player's state that can be drawn, by name: `allowed`, `known`, `tried`.

    shape: (S, A); arrays of other shapes are ignored.
    """
    found: dict[str, Any] = {}
    for key, array in arrays.items():
        name = key.rpartition(".")[2]
        if name == "allowed" and array.dtype == bool and array.ndim == 3 and array.shape[1:] == shape and len(array):
            found[name] = array[0]
        elif name == "known" and array.dtype == bool and array.shape == shape[:1]:
            found[name] = array
        elif name == "tried" and array.ndim == 3 and array.shape[1:] == shape and array.dtype.kind in "iu":
            found[name] = array.sum(axis=(0, 2))
    return found


class Picture:
    """The map at one moment: actions not ruled out, the policy, and visits."""

    def __init__(self, scene: RunScene) -> None:
        mdp = scene.mdp
        self.drawn = mdp is not None and mdp.n_states <= limits.SHOWN
        self._shape = (0, 0) if mdp is None else (mdp.n_states, mdp.n_actions)
        self._reset = np.zeros(0, dtype=np.bool_) if mdp is None else mdp.reset
        self.visits = np.zeros(self._shape[0], dtype=np.int64)
        self.entered = np.zeros(self._shape[0], dtype=np.bool_)  # reset states that were entered
        self.shown: dict[str, Any] = {}  # the newest picture

    def note(self, states: NDArray[Any], reset: bool) -> None:
        """Count the states of an episode."""
        np.add.at(self.visits, states, 1)
        if reset:
            self.entered[states[-1]] = True

    def learn(self, arrays: Mapping[str, NDArray[Any]], this: Round | None) -> float:
        """Update the picture; returns how many pairs (s, a) the player has not ruled out (or plays)."""
        if not self._shape[0]:
            return math.nan
        found = knowledge(arrays, self._shape)
        policy = None if this is None else _table(this.plan.policy, self._shape)
        if "allowed" in found:
            possible, kind = np.array(found["allowed"], dtype=np.bool_), "not ruled out"
        elif policy is not None:
            possible, kind = np.asarray((policy >= PLAYED).any(axis=0)), "played"
        else:
            possible, kind = np.zeros(0, dtype=np.bool_), ""
        if this is None and "tried" in found:  # a file: the player's counts are more complete than the starts
            self.visits = np.array(found["tried"], dtype=np.int64)
        known = self.entered | found["known"] if "known" in found else self.entered
        if self.drawn:
            self.shown = {
                "possible": bits(possible),
                "kind": kind,
                "known": bits(known),
                "policy": None if policy is None else policy[0].argmax(axis=1).tolist(),
                "visits": self.visits.tolist(),
            }
        return float(possible[~self._reset].sum()) if len(possible) else math.nan


def _table(policy: Any, shape: tuple[int, int]) -> NDArray[np.float64] | None:
    """A policy as probabilities [n, S, A], None if it has another form."""
    if not isinstance(policy, np.ndarray):
        return None
    if policy.ndim == 3 and policy.shape[1:] == shape:
        return np.asarray(policy, dtype=np.float64)
    if policy.ndim == 2 and policy.shape == shape and policy.dtype.kind == "f":
        return np.asarray(policy[None], dtype=np.float64)
    if policy.ndim in (1, 2) and policy.shape[-1] == shape[0] and policy.dtype.kind in "iu":
        return np.asarray(np.eye(shape[1])[np.atleast_2d(policy)])
    return None


class PastEpisode(NamedTuple):
    """An episode of a run: the states that it went through, where there is a map for them."""

    k: int
    states: NDArray[Any]
    reset: bool
    reward: float
    steps: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data for the page, as the newest episode of a frame."""
        path = self.states[: limits.HORIZON + 1].tolist()
        return {"k": self.k, "path": path, "reset": self.reset, "reward": finite(self.reward), "steps": self.steps}


def read_past(path: Path, scene: RunScene, k: int) -> PastEpisode | None:
    """An episode of a run file, None if it is not there; raises RunError if the file is damaged."""
    with runfile.reading(path) as connection:
        found = next(iter(runfile.read_played(connection, path, k, k)), None)
    if found is None:
        return None
    episode, n = found.episode, None if scene.mdp is None else scene.mdp.n_states
    states = episode.states if n is not None else np.zeros(0, dtype=np.int64)
    good = states.ndim == 1 and states.dtype == np.int64 and (n is None or bool(((states >= 0) & (states < n)).all()))
    if not good or episode.rewards.dtype != np.float64:
        raise runfile.damaged(path, ValueError(f"its round {k} cannot be"))
    reward = float(episode.rewards.sum()) if math.isnan(episode.original_return) else episode.original_return
    return PastEpisode(k, states, episode.reset, reward, len(episode.actions))


def sought(histories: list[History | None], k: Any, seek: str) -> int:
    """The episode that is meant: `k`, or the nearest one before or after it in which some lane was reset.

    seek: "" for `k` itself, "earlier" or "later".
    """
    last = max((one.k for one in histories if one is not None), default=0)
    if not last:
        raise InvalidInput("No episode has been played yet.")
    try:
        number = int(str(k)[:20])
    except ValueError as error:
        raise InvalidInput(f"The 'k' of the request must be a whole number. Got '{str(k)[:20]}' instead.") from error
    whole(number, "'k' of the request", 1, last)
    if seek not in ("", "earlier", "later"):
        raise InvalidInput(f"The 'seek' of the request must be 'earlier' or 'later'. Got '{seek[:20]}' instead.")
    if not seek:
        return number
    reset_rounds = np.unique(np.concatenate([one.reset_rounds() for one in histories if one is not None]))
    beyond = reset_rounds[reset_rounds < number][-1:] if seek == "earlier" else reset_rounds[reset_rounds > number][:1]
    return int(beyond[0]) if len(beyond) else number
