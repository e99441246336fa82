"""What is shown of a run: sampled pictures of complete data.

Legend: k rounds so far; regret and expected resets are exact (oracle), realised resets are what happened, predicted
ones what the primal player foresaw; `upper` is above the expected resets after every round at once, from the realised
ones alone, as in certificates and reports; `lived` are steps since the newest reset, `falls` episodes that
ended with one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools
from resetfree.game.contract import Round
from resetfree.runs.foresight import meant
from resetfree.show.studio import limits
from resetfree.show.studio.scenes import RunScene, bits
from resetfree.theory.certificates.anytime import resets_interval

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
        return {**exact, **counts, "upper": float(resets_interval(realised, self.k)[1])}

    def curves(self, most: int = limits.CURVE) -> dict[str, list[Any]]:
        """At most so many points of each curve, the first and the last round always among them."""
        at = np.unique(np.linspace(0, self.k - 1, min(most, self.k)).round().astype(np.int64))
        result: dict[str, list[Any]] = {"k": (at + 1).tolist()}
        for name, row in zip(SERIES, self._data, strict=False):
            result[name] = [finite(x) for x in row[at].tolist()]
        result["upper"] = np.round(resets_interval(self._data[2, at], at + 1)[1], 3).tolist()
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
