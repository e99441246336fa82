"""Transitions and rewards of small problems from tables of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from resetfree.problems.finite.transitions import Floats

ANY = "*"  # in place of an action: every action


def transitions(
    states: Sequence[str], actions: Sequence[str], moves: Mapping[tuple[str, str], Mapping[str, float]]
) -> Any:
    """Sparse [S*A, S] from {(state, action): {next state: probability}}; states that are left out get empty rows.

    >>> transitions(["home", "pit"], ["safe", "risky"], {("home", "safe"): {"home": 1}, ("home", "risky"): {"pit": 1}})
    <Compressed Sparse Row sparse array of dtype 'float64'
        with 2 stored elements and shape (4, 2)>
    """
    number = {name: i for i, name in enumerate(states)}
    rows, cols, prob = [], [], []
    for (state, action), successors in moves.items():
        for a, name in enumerate(actions):
            if action in (ANY, name):
                rows += [number[state] * len(actions) + a] * len(successors)
                cols += [number[after] for after in successors]
                prob += [float(p) for p in successors.values()]
    return sparse.csr_array((prob, (rows, cols)), shape=(len(states) * len(actions), len(states)))


def rewards(states: Sequence[str], actions: Sequence[str], pay: Mapping[tuple[str, str], float]) -> Floats:
    """[S, A] from {(state, action): reward}; pairs that are left out pay 0."""
    reward = np.zeros((len(states), len(actions)))
    for (state, action), amount in pay.items():
        reward[states.index(state), slice(None) if action == ANY else actions.index(action)] = amount
    return reward
