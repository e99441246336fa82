"""Small problems from tables of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from resetfree.core.arrays import Floats
from resetfree.problems.finite.mdp import FiniteMDP

LAYERS = 10_000  # steps of a problem with a table for each
ANY = "*"  # in place of an action: every action
Moves: TypeAlias = Mapping[tuple[str, str], Mapping[str, float]]
Pay: TypeAlias = Mapping[tuple[str, str], float]


def table_mdp(
    name: str, states: Sequence[str], actions: Sequence[str], moves: Moves | list[Any], pay: Pay | Floats, **rest: Any
) -> FiniteMDP:
    """The problem of these tables, or of transitions for each step, or rewards; "pit" is reset, `rest` is as usual."""
    return FiniteMDP(
        transitions(states, actions, moves) if isinstance(moves, Mapping) else moves,
        rewards(states, actions, pay) if isinstance(pay, Mapping) else pay,
        reset=[state == "pit" for state in states],
        name=name,
        state_names=states,
        action_names=actions,
        **rest,
    )


def transitions(states: Sequence[str], actions: Sequence[str], moves: Moves) -> Any:
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


def rewards(states: Sequence[str], actions: Sequence[str], pay: Pay) -> Floats:
    """[S, A] from {(state, action): reward}; pairs that are left out pay 0."""
    reward = np.zeros((len(states), len(actions)))
    for (state, action), amount in pay.items():
        reward[states.index(state), slice(None) if action == ANY else actions.index(action)] = amount
    return reward
