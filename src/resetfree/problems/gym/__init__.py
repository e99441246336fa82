"""Gymnasium environments as reset-free problems. Nothing here imports Gymnasium before it is needed."""

from __future__ import annotations

from typing import Any

from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.gym.builder import build
from resetfree.problems.operators import Operator

__all__ = ["from_gym", "table_of"]


def from_gym(
    env: Any,
    *,
    horizon: int = 100,
    features: Any = None,
    xi: Any = None,
    reset_when: Any = None,
    reward: Any = None,
    reward_range: tuple[float, float] | None = None,
    actions: Any = None,
    states: int | None = None,
    bounds: Any = None,
    table: bool = True,
    operator: Operator | None = None,
    name: str | None = None,
    **make_options: Any,
) -> GymProblem:
    """A Gymnasium environment as a problem that is never reset but at its start and after a reset event.

    env: a gymnasium.Env, an id ("gym:CartPole-v1", "gym:package:id"), or module:factory. A `TimeLimit` around it is
      lifted (in the object itself); `truncated` is ignored. The environment must allow steps after `terminated` if
      `reset_when` calls for no reset there.
    horizon: H, steps per episode of the learner. The environment does not notice where one ends.
    features: how a linear player sees vectors: the name of a feature map, a `FeatureMap`, or a function of the raw
      observation that returns a vector (then that is the state). Default: random Fourier features.
    xi: features of starts for the dual player: the name of a feature map, a `FeatureMap`, a function of the state; rows
      [n, d] where states are counted. Default: the constant 1.
    reset_when: function of (observation, reward, terminated, info), or words (see `events`). Default: `terminated`.
    reward: a reward of your own, a function of the same four.
    reward_range: (low, high) of the rewards where they leave [0, 1]; they are scaled, and the original return is kept.
    actions: a list of the actions to choose from; for continuous ones also grid points per dimension (5, or a tuple),
      or "box" for a player that takes them as they are.
    states: N: number the distinct observations as they come, up to N of them, and count them as states.
    bounds: (low, high) of vector states where the space does not tell them: a scale for `xi`.
    table: whether to read the exact model of an environment that has one (`env.P`).
    operator: who performs resets (see `operators`). Default: the environment itself.
    make_options: options of the environment, for an id or a factory.

    States are numbers for discrete observations, else vectors of float64. Where they are numbers, one more than the
    observations stands for the reset. The environment's own chance comes from seeds that the run's seed decides.

    >>> lake = from_gym("gym:FrozenLake-v1", reset_when="terminated and observation!=15", is_slippery=False)
    >>> lake.n_states, lake.n_actions, lake.mdp
    (17, 4, FiniteMDP(17 states, 4 actions, horizon 100, 1 reset state))
    >>> from_gym("gym:Pendulum-v1")
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The actions of 'gym:Pendulum-v1' are continuous (Box(-2.0, 2.0, (1,),
    float32)) and must be discretised: give actions=5 for a grid of 5 points per dimension, the list of
    actions to choose from, or actions="box" for a player that takes them as they are.
    """
    return build(
        env, horizon=horizon, features=features, xi=xi, reset_when=reset_when, reward=reward, reward_range=reward_range,
        actions=actions, states=states, bounds=bounds, table=table, operator=operator, name=name,
        make_options=make_options,
    )  # fmt: skip


def table_of(env: Any, **options: Any) -> FiniteMDP:
    """The exact model of an environment that has a table (`env.P`); the options are those of `from_gym`.

    >>> table_of("gym:CliffWalking-v1", reset_when="reward<=-100", reward_range=(-100, 0), horizon=30)
    FiniteMDP(49 states, 4 actions, horizon 30, 1 reset state)
    """
    problem = from_gym(env, **options)
    if isinstance(env, str):
        problem.close()
    return problem.mdp
