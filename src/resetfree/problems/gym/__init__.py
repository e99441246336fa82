"""Gymnasium environments as reset-free problems. Nothing here imports Gymnasium before it is needed."""

from typing import Any

from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.gym.builder import from_gym

__all__ = ["from_gym", "table_of"]


def table_of(env: Any, **options: Any) -> FiniteMDP:
    """The exact model of an environment that has a table (`env.P`); the options are those of `from_gym`.

    >>> table_of("gym:CliffWalking-v1", reset_when="reward<=-100", reward_range=(-100, 0), horizon=30)
    FiniteMDP(49 states, 4 actions, horizon 30, 1 reset state)
    """
    problem = from_gym(env, **options)
    if isinstance(env, str):
        problem.close()
    return problem.mdp
