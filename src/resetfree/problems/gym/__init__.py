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
    """A Gymnasium environment as a problem that is reset only at its start and after a reset event.

    env: a gymnasium.Env, an id ("gym:CartPole-v1", "gym:package:id"), or module:factory. A `TimeLimit` around it is
      disabled (in the object itself); `truncated` is ignored. The environment must allow steps after `terminated` if
      `reset_when` is false there.
    horizon: H, steps per episode of the learner. The environment is not reset between episodes.
    features: features of vectors for linear players: the name of a feature map, a `FeatureMap`, or a function of the
      raw observation that returns a vector (which is then the state). Default: random Fourier features.
    xi: features of starts for the dual player: the name of a feature map, a `FeatureMap`, a function of the state; rows
      [n, d] if states are numbers. Default: the constant 1.
    reset_when: function of (observation, reward, terminated, info), or text (see `events`). Default: `terminated`.
    reward: your own reward, a function of the same four arguments.
    reward_range: (low, high) of rewards outside [0, 1]; they are scaled, and the original return is recorded too.
    actions: a list of the actions to choose from; for continuous ones also grid points per dimension (5, or a tuple),
      or "box" for a player with continuous actions.
    states: N: use numbers as states, one for each distinct observation in the order of first appearance, at most N.
    bounds: (low, high) of vector states if the space has none: a scale for `xi`.
    table: whether to read the exact model of an environment that has one (`env.P`).
    operator: performs resets (see `operators`). Default: the environment itself.
    make_options: options of the environment, for an id or a factory.

    States are numbers for discrete observations, else vectors of float64. If they are numbers, one more than the
    observations is the reset state. The environment's randomness is seeded from the run's seed.

    >>> lake = from_gym("gym:FrozenLake-v1", reset_when="terminated and observation!=15", is_slippery=False)
    >>> lake.n_states, lake.n_actions, lake.mdp
    (17, 4, FiniteMDP(17 states, 4 actions, horizon 100, 1 reset state))
    >>> from_gym("gym:Pendulum-v1")
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The actions of 'gym:Pendulum-v1' are continuous (Box(-2.0, 2.0, (1,),
    float32)) and must be discretised: give actions=5 for a grid of 5 points per dimension, the list of
    actions to choose from, or actions="box" for a player that takes them as they are.
    """
    return build(**locals())  # every argument, by its name


def table_of(env: Any, **options: Any) -> FiniteMDP:
    """The exact model of an environment that has a table (`env.P`); the options are those of `from_gym`.

    >>> table_of("gym:CliffWalking-v1", reset_when="reward<=-100", reward_range=(-100, 0), horizon=30)
    FiniteMDP(49 states, 4 actions, horizon 30, 1 reset state)
    """
    problem = from_gym(env, **options)
    if isinstance(env, str):
        problem.close()
    return problem.mdp
