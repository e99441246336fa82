"""Driving in traffic that never ends (highway-env): a crash is the reset.

Run: python examples/gym/highway.py [seed]
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import highway_env  # noqa: F401 - registers its environments
import numpy as np

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem

EPISODES, HORIZON = 25, 40
CONFIG = {
    "vehicles_count": 15,
    # The agent and the three nearest cars: position, lane and speed, relative to the agent's own.
    "observation": {"type": "Kinematics", "vehicles_count": 4, "features": ["x", "y", "vx"], "see_behind": True},
}
BEHIND, AHEAD, CLEAR = 150.0, 300.0, 25.0  # metres: where cars leave, where they enter, and the least gap


class Endless(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Endless traffic: a car that is far behind enters again far ahead, and vice versa.

    The environment itself ends after 30 steps, and later the agent would have left all other cars behind.
    """

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step; then cars are moved, and all positions are shifted back before the road ends."""
        seen = self.env.step(action)
        road, ego = self.env.unwrapped.road, self.env.unwrapped.vehicle  # type: ignore[attr-defined]
        for car in road.vehicles:
            gap = car.position[0] - ego.position[0]
            if -BEHIND <= gap <= AHEAD or car is ego:
                continue
            to = car.position[0] + (BEHIND + AHEAD) * (1 if gap < 0 else -1)
            if all(abs(other.position[0] - to) > CLEAR for other in road.vehicles if other is not car):
                car.position[0] = to
        if ego.position[0] > 2_000:
            for car in road.vehicles:
                car.position[0] -= 1_500
        observation = self.env.unwrapped.observation_type.observe()  # type: ignore[attr-defined]
        return (observation, *seen[1:])


def traffic(observation: Any) -> Any:
    """Eleven numbers: the agent's own position along the road is irrelevant, so it is dropped."""
    return np.delete(observation.ravel(), 0)


def problem() -> GymProblem:
    """Five actions: change lane to the left, idle, to the right, faster, slower."""
    # The reward is the environment's own, already in [0, 1]: for speed, and a little for the right lane.
    road, name = Endless(gymnasium.make("highway-fast-v0", config=CONFIG)), "endless highway"
    return rf.from_gym(road, horizon=HORIZON, reset_when="info.crashed", features=traffic, name=name)


def main(seed: int = 0, episodes: int = EPISODES) -> None:
    """Learn, and compare with a uniformly random policy and with one that is always idle."""
    idle = np.eye(5)[1]
    fixed = {"at random": lambda h, s: np.full(5, 0.2), "keep on": lambda h, s: idle}
    for name, policy in fixed.items():
        played = list(rf.simulate(problem(), policy, episodes, seed=seed))
        _print(name, [len(e.actions) for e in played], [e.reset for e in played], [e.total_reward for e in played])
    run = rf.learn(problem(), episodes=episodes, seed=seed)
    _print(run.spec["primal"]["name"], run.columns["steps"], run.columns["reset"], run.columns["reward"])


def _print(name: str, steps: Any, resets: Any, rewards: Any) -> None:
    half = len(steps) // 2
    shares = [f"{1000 * sum(resets[part]) / sum(steps[part]):.0f}" for part in (slice(half), slice(half, None))]
    print(
        f"{name}: crashes per 1,000 steps {shares[0]}, then {shares[1]}; reward {sum(rewards) / sum(steps):.2f} a step"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
