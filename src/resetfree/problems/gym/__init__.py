"""Gymnasium environments as reset-free problems: in Python, and from options of the command line."""

from collections.abc import Callable, Mapping
from typing import Any

from resetfree.core import expect
from resetfree.problems.features import make_features
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.gym.builder import from_gym

__all__ = ["DOTTED", "NAMES", "from_gym", "from_options", "of_adapter", "table_of"]

# Options of the adapter; any other goes to gymnasium.make, and so does make.KEY.
ENDS = {"reward_range": ("reward_low", "reward_high"), "bounds": ("state_low", "state_high")}
OWN = (
    *("horizon", "observe", "features", "xi", "reset_when", "goal_when", "after_goal", "new_task", "reward"),
    *("actions", "states", "table", "decode", "history", "limits", "margin"),
    *("rate_limits", "action_limits", "action_rates"),
)
NAMES = (*OWN, *ENDS["reward_range"], *ENDS["bounds"])
DOTTED = ("features", "xi")  # features.d=300: a setting of the feature map


def of_adapter(key: str) -> bool:
    """Whether an option is for the adapter."""
    group, dot, _ = key.partition(".")
    return key in NAMES or (bool(dot) and group in DOTTED)


def from_options(
    env: Any, options: Mapping[str, Any], name: str | None = None, build: Callable[..., GymProblem] = from_gym
) -> GymProblem:
    """`from_gym`, or another function that takes its arguments, with options that are numbers and text.

    >>> from_options("gym:FrozenLake-v1", {"horizon": 20, "is_slippery": False, "reset_when": "terminated"}).n_states
    17
    """
    given = {key: value for key, value in options.items() if key in NAMES}
    for group in DOTTED:
        settings = {key.partition(".")[2]: value for key, value in options.items() if key.startswith(f"{group}.")}
        if settings:
            given[group] = make_features(given.get(group, "random-fourier"), settings)
    for whole, (low, high) in ENDS.items():
        ends = [given.pop(end, None) for end in (low, high)]
        if ends != [None, None]:
            expect(None not in ends, f"options '{low}' and '{high}'", "be given together", got="one of them")
            given[whole] = tuple(ends)
    rest = {key.removeprefix("make."): value for key, value in options.items() if not of_adapter(key)}
    return build(env, name=name, **given, **rest)


def table_of(env: Any, **options: Any) -> FiniteMDP:
    """The exact model of an environment that has a table (`env.P`); the options are those of `from_gym`.

    >>> table_of("gym:CliffWalking-v1", reset_when="reward<=-100", reward_range=(-100, 0), horizon=30)
    FiniteMDP(49 states, 4 actions, horizon 30, 1 reset state)
    """
    problem = from_gym(env, **options)
    if isinstance(env, str):
        problem.close()
    return problem.mdp
