"""An environment's table as an exact model: P[s][a] is a list of (probability, next state, reward, terminated).

Legend: n states of the table, A actions; state n of the model is the reset state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput, one_line
from resetfree.problems.action_spaces import Box
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.transitions import Transitions
from resetfree.problems.gym.events import Decide
from resetfree.problems.gym.goals import Goals
from resetfree.problems.gym.rewards import Rewards, Units, Unusable, learned


@dataclass(frozen=True, eq=False)
class Terms:
    """What affects episodes, as far as it is known; part of the problem's fingerprint."""

    environment: str  # id or class
    made_with: tuple[tuple[str, Any], ...]  # options of the environment
    wrappers: tuple[str, ...]
    reset_when: Decide
    rewards: Rewards
    actions: list[Any] | Box  # the environment's actions for the learner's 0, 1, ..
    function: Callable[[Any], Any] | None  # of the raw observation
    table: Transitions | None = None
    table_reward: Floats | None = None


class NoTable(Exception):
    """The environment has no model; the message continues a sentence after its name."""


def read_table(
    env: Any, n: int, terms: Terms, *, goals: Goals | None = None, horizon: int, name: str, xi: Floats | None
) -> tuple[FiniteMDP, Units]:
    """The model of an environment that has `P` and `initial_state_distrib`, and the units of rewards; raises NoTable.

    P'(s'|s,a) sums the table's entries for s' without a reset, P'(n|s,a) those with one, and r(s,a) is the expected
    scaled reward. Entries that reach a goal lead to what follows it. Conditions and the user's own reward get
    {"prob": p} as their info.
    """
    table, first = getattr(env, "P", None), getattr(env, "initial_state_distrib", None)
    actions, rewards = terms.actions, terms.rewards
    assert isinstance(actions, list)
    if table is None or first is None:
        raise NoTable("has no table (P and initial_state_distrib)")
    if getattr(env, "fickle_passenger", False):
        raise NoTable("has a table without its fickle passenger")
    rows, columns, probabilities, paid = [], [], [], []
    reward = np.zeros((n + 1, len(actions)))
    try:
        for s in range(n):
            for i, a in enumerate(actions):
                for p, arrival, r, terminated in table[s][a]:
                    if p == 0:
                        continue
                    seen = int(arrival), float(r), bool(terminated), {"prob": p}
                    at_goal = goals is not None and bool(goals.when(*seen))
                    arrivals = {n if not at_goal and terms.reset_when(*seen) else seen[0]: 1.0}
                    if goals is not None and at_goal:
                        law = goals.law(env, seen[0], np.asarray(first, dtype=np.float64))
                        if law is None:
                            raise NoTable("sets new tasks by code, whose distribution is not known")
                        arrivals = {int(j): float(law[j]) for j in np.flatnonzero(law)}
                    rows += [s * len(actions) + i] * len(arrivals)
                    columns += list(arrivals)
                    probabilities += [float(p) * share for share in arrivals.values()]
                    paid.append((s, i, float(p), rewards(*seen)))
    except NoTable:
        raise
    except Unusable as error:
        raise NoTable(f"{error} in its table") from error
    except Exception as error:
        raise NoTable(
            f"has a table that cannot be read with this 'reset_when' and 'reward' ({one_line(error)})"
        ) from error
    values = [value for *_, value in paid] or [0.0]
    low, high = units = rewards.units or learned(min(values), max(values), final=True)
    if min(values) < low or max(values) > high:
        raise InvalidInput(
            f"'{name}' gives rewards in [{min(values):g}, {max(values):g}], which is outside the stated range "
            f"[{low:g}, {high:g}]: state a wider 'reward_range'."
        )
    for s, i, p, value in paid:
        reward[s, i] += p * (value - low) / (high - low)
    shape = ((n + 1) * len(actions), n + 1)
    try:
        model = FiniteMDP(
            sparse.csr_array((probabilities, (rows, columns)), shape=shape),
            np.clip(reward, 0.0, 1.0),
            np.arange(n + 1) == n,
            horizon,
            start=np.append(np.asarray(first, dtype=np.float64), 0.0),
            xi=xi,
            name=name,
            state_names=[*map(str, range(n)), "reset"],
            action_names=[str(a) for a in actions],
        )
    except (InvalidInput, ValueError) as error:
        raise NoTable(f"has a table that is not a model: {one_line(error)}") from error
    return model, units


def pattern(model: FiniteMDP) -> frozenset[tuple[int, int, int]]:
    """The possible (state, action, next state)."""
    t = model.transition
    pairs = np.repeat(np.arange(len(t.indptr) - 1), np.diff(t.indptr))
    return frozenset(
        zip((pairs // t.n_actions).tolist(), (pairs % t.n_actions).tolist(), t.indices.tolist(), strict=True)
    )
