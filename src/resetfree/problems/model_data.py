"""A user's own small table as plain data: with it a run file alone answers what needs the oracle, as its regret.

Legend: L layers (1 or H), S states, A actions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from resetfree.core.errors import InvalidInput, ResetFreeError
from resetfree.problems.blueprint import LARGEST, MOST, array_from, plain_array
from resetfree.problems.contract import Problem
from resetfree.problems.fingerprint import fingerprint
from resetfree.problems.finite.mdp import FiniteMDP, FiniteProblem
from resetfree.problems.finite.transitions import Transitions

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
