"""Begin with the log of a controller: two tanks, 2,000 steps of what the plant wrote down, and then a run of our own.

Run: python examples/logs.py [seed] [episodes]
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym
import numpy as np

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.machines.two_tanks import TwoTanks, controller

STEPS, HORIZON = 2_000, 50
NAMES = ("level_1", "level_2", "lacking_1", "lacking_2")
DITHER = 0.1  # of a pump's full flow: a log in which the commands never vary says little of what they do


class Plant(gym.ObservationWrapper[Any, Any, Any]):
    """The two tanks, whose sensors have names: a log is matched to them."""

    def __init__(self) -> None:
        super().__init__(TwoTanks())
        own: Any = self.env.observation_space
        ends = [(np.array(low), np.array(high)) for low, high in zip(own.low, own.high, strict=True)]
        self.observation_space = gym.spaces.Dict(
            {name: gym.spaces.Box(*pair, dtype=np.float64) for name, pair in zip(NAMES, ends, strict=True)}
        )

    def observation(self, observation: object) -> dict[str, object]:
        """The numbers by name."""
        return dict(zip(NAMES, np.asarray(observation), strict=True))


def problem() -> GymProblem:
    """A level outside its limits is a reset; rewards lie between 0 and 1."""
    return rf.from_gym(Plant(), horizon=HORIZON, reset_when="terminated", reward_range=(0.0, 1.0), name="two tanks")


def write_log(file: Path, seed: int) -> float:
    """What a plant's own recorder would have written; returns the mean reward of the controller."""
    env, rng = TwoTanks(), np.random.default_rng(seed)
    seen, paid = env.reset(seed=seed)[0], 0.0
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["time", *NAMES, "action_0", "action_1", "reward", "remark"])
        for i in range(STEPS):
            command = np.clip(controller(seen) + DITHER * rng.normal(size=2), 0.0, 1.0)
            after, reward, fell, _, _ = env.step(command)
            rows.writerow([i * env.dt, *seen, *command, reward, ""])
            assert not fell  # this controller is careful
            seen, paid = after, paid + float(reward)
    return paid / STEPS


def main(seed: int = 0, episodes: int = 10) -> None:
    """Learn from nothing, and from the log; print rewards per step and resets."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        print(f"controller        reward {write_log(log, seed):.3f} a step, 0 resets")
        for name, data in (("from nothing", None), ("from its log", log)):
            run = rf.learn(problem(), "model-search", episodes=episodes, seed=seed, data=data)
            paid = run.columns["reward"].sum() / run.columns["steps"].sum()
            print(f"{name:<17} reward {paid:.3f} a step, {run.realised_resets[-1]} resets in {episodes} episodes")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
