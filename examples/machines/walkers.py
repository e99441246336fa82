"""Hopper, Walker2d or Ant learns to stay up and to earn: started once, and reset only after a fall.

Run: python examples/machines/walkers.py Hopper-v5|Walker2d-v5|Ant-v5 [--seed 0] [--episodes 30] [--picture FILE.png]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem
from resetfree.show.report.style import BLUE, GREY, ORANGE, look, save

EPISODES, HORIZON = 30, 100
PLAYERS: dict[str, Any] = {}  # those that `auto` chooses


class Walker(NamedTuple):
    """The rewards that a learner sees, cut at both ends, and what the environment is made with."""

    low: float
    high: float
    options: dict[str, Any]

    def __call__(self, observation: Any, reward: float, terminated: bool, info: Mapping[str, Any]) -> float:
        """A reward within the range: one outside would end the run."""
        return min(max(reward, self.low), self.high)


WALKERS = {
    "Hopper-v5": Walker(-3.0, 7.0, {}),
    "Walker2d-v5": Walker(-3.0, 7.0, {}),
    "Ant-v5": Walker(-5.0, 5.0, {"include_cfrc_ext_in_observation": False}),  # 27 sensors, without 78 contact forces
}


def problem(name: str) -> GymProblem:
    """The environment as it is: continuous actions, no time limit, and a fall where it says `terminated`."""
    walker = WALKERS[name]
    between: dict[str, Any] = {"reward": walker, "reward_range": (walker.low, walker.high)}
    return rf.from_gym(f"gym:{name}", horizon=HORIZON, **between, **walker.options)


class Record(NamedTuple):
    """What is shown of a run, an entry for each episode; rewards are in the environment's own units."""

    ends: Any  # the step at which it ended
    fell: Any  # whether that was a fall
    earned: Any  # mean reward of its steps
    predicted: Any  # how likely the player held a fall in it, before it was played

    @classmethod
    def of(cls, run: rf.Run) -> Record:
        """That of a run."""
        columns = run.columns
        earned = columns["original_return"] / columns["steps"]
        return cls(np.cumsum(columns["steps"]), columns["reset"] == 1, earned, np.nan_to_num(columns["v_c_hat"]))

    def mean(self, episodes: int) -> float:
        """Reward a step in the last so many episodes."""
        lengths = np.diff(self.ends, prepend=0)
        return float(np.average(self.earned[-episodes:], weights=lengths[-episodes:]))

    @property
    def longest(self) -> int:
        """The most steps in a row without a fall."""
        return int(np.diff([0, *self.ends[self.fell], self.ends[-1]]).max())


def nothing(name: str, seed: int, steps: int) -> tuple[int, float]:
    """Falls and reward per step without torque."""
    machine = gymnasium.make(name, **WALKERS[name].options).unwrapped  # without a time limit
    machine.reset(seed=seed)
    falls, earned, still = 0, 0.0, np.zeros(machine.action_space.shape or ())
    for _ in range(steps):
        _, reward, fell, _, _ = machine.step(still)
        earned += float(reward)
        if fell:
            falls += 1
            machine.reset()
    machine.close()
    return falls, earned / steps


def draw(name: str, seed: int, record: Record, file: Path) -> None:
    """Above: falls so far, and those that the player predicted. Below: reward a step of every episode."""
    steps = [0, *record.ends]
    with look():
        figure = Figure(figsize=(7.0, 4.6), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        for falls, label, colour, dashes in (
            (record.fell, "falls", ORANGE, "-"),
            (record.predicted, "predicted before each episode", BLUE, (0, (5, 1.5))),
        ):
            above.step(steps, [0, *np.cumsum(falls)], where="post", color=colour, ls=dashes, lw=1.6, label=label)
        above.set(ylabel="falls so far", title=f"{name}, seed {seed}", ylim=(0, None))
        above.yaxis.set_major_locator(MaxNLocator(integer=True))
        below.stairs(record.earned, steps, baseline=None, color=BLUE, lw=1.6, label="reward per step")
        below.axhline(0.0, color=GREY, lw=0.8)
        below.plot(record.ends[record.fell], record.earned[record.fell], "x", color=ORANGE, label="episode with a fall")
        below.set(ylabel="reward per step", xlabel="steps", xlim=(0, None))
        above.legend(loc="best")
        below.legend(loc="best")
        save(figure, file)


def learn(name: str, seed: int = 0, episodes: int = EPISODES, picture: Path | None = None) -> None:
    """Learn, say how often it fell and what it earned, and draw it."""
    run = rf.learn(problem(name), **PLAYERS, episodes=episodes, seed=seed)
    record, last = Record.of(run), max(1, episodes // 10)
    fell = record.ends[record.fell].tolist()
    player = run.spec["primal"]["name"]
    print(f"{name}, seed {seed}, {player}: {len(fell)} falls in {record.ends[-1]} steps, at steps {fell}")
    print(f"longest stretch without a fall: {record.longest} steps")
    print(f"reward per step: {record.mean(episodes):.2f}, last tenth {record.mean(last):.2f}")
    print(f"falls predicted: {record.predicted.sum():.1f}, real: {len(fell)}")
    falls, reward = nothing(name, seed, int(record.ends[-1]))
    print(f"doing nothing for as many steps: {falls} falls, {reward:.2f} reward per step")
    if picture is not None:
        draw(name, seed, record, picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*WALKERS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--picture", type=Path)
    learn(**vars(parser.parse_args()))
