"""The constant part of a run: the map, the oracle's answer for it, and the spec."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import ResetFreeError
from resetfree.problems.blueprint import fingerprint
from resetfree.problems.contract import Problem
from resetfree.problems.finite.mdp import FiniteMDP, model_behind
from resetfree.problems.registry import make, problems
from resetfree.runs.result import Run
from resetfree.runs.statements import unknown
from resetfree.show.studio import limits
from resetfree.show.studio.catalogue import problem_options
from resetfree.theory.assumptions import feasibility
from resetfree.theory.certificates.statement_checks import ROLES, as_played
from resetfree.theory.oracle.dynamic_programming import solve

RUN_KEYS = ("primal", "dual", "feedback", "episodes", "seed", "B", "B_source", "chosen")
SPEC = (
    *RUN_KEYS,
    "problem",
    "problem_options",
    "horizon",
    "n_states",
    "n_actions",
    "persistent",
    "timing",
    "after_goal",
    "ask",
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
        return {"spec": spec, "oracle": self.mdp is not None, "why": self.why, "map": self._map()}

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
