"""Small networks and a small problem for them, in one place so that tests share compiled programs."""

from typing import Any

import numpy as np

import resetfree as rf
from resetfree.players.testing.trial_problems import PUSH, Plane
from resetfree.problems.stepping import Step

SOFT: dict[str, Any] = {"hidden": 16, "batch": 16, "learning_rate": 3e-3, "learning_starts": 10}
LATEST: dict[str, Any] = {"hidden": 16, "batch": 10, "steps": 20, "learning_rate": 1e-2}
MODEL_BASED = {**SOFT, "members": 2, "model_hidden": 16, "n_rollouts": 256, "rollout_length": 2, "gradient_steps": 1}
SEARCH: dict[str, Any] = {
    **{"members": 2, "hidden": 16, "batch": 16, "model_steps": 0.1, "actor_hidden": 8, "gradient_steps": 0.02},
    **{"n_rollouts": 4, "rollout_length": 4, "samples": 8, "rounds": 1},
}
TURNS: dict[str, Any] = {**SOFT, "turn": 7}  # an even number of turns in 200 steps
AUTONOMY = (*("naive", "fbrl", "medal-sac", "leave-no-trace-sac", "r3l", "vaprl", "mtrf", "ha2020", "risc", "paint"),)
SMALL: dict[str, dict[str, Any]] = {
    **dict.fromkeys(AUTONOMY, TURNS),
    "goal-search": {"hidden": 16, "batch": 16, "begin": 10},
    **{"sac": SOFT, "sac-lagrangian": SOFT, "ppo": LATEST, "mbpo": MODEL_BASED, "neural-search": SEARCH},
}


def small(cls: Any, **options: Any) -> Any:
    """A player with small networks; any other player as it is."""
    return cls(**{**SMALL.get(cls.name, {}), **options})


class Target(Plane):
    """Pushes move x, which is paid for being near 0.4 and falls beyond 1."""

    def __init__(self) -> None:
        super().__init__("target", 10, (0.0, 1.0), 0.0, PUSH)

    def step(self, h: int, state: Any, action: Any, u: Any) -> Step:
        x = state[0] + 0.4 * (float(action[0]) - 0.5) + 0.1 * (u[0] - 0.5)
        return Step(np.array([x, 2.0 * u[1] - 1.0]), float(np.exp(-8.0 * (x - 0.4) ** 2)), bool(abs(x) > 1.0))


def episode(reset: bool, reward: float = 1.0) -> rf.Episode:
    states = np.array([[0.1, 0.0], [0.2, 0.0], [0.3, 0.0]])
    return rf.Episode(states, np.array([[0.25], [1.0]]), np.full(2, reward), reset, states[-1])


def feed(player: Any, state: Any, one: rf.Episode, k: int, lam: float = 0.0) -> Any:
    return player.update(
        state, rf.Round(k, one.start, lam, rf.Plan(None, 0.0, 0.0), episode=one, cost_signal=0.0, exact=None)
    )
