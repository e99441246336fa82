"""Public environments by their default call: reward and resets of the same steps, beside SAC and PPO.

Run: python benchmarks/unseen.py [--tasks Pendulum-v1,Hopper-v5] [--learners ours] [--seeds 3001:3004] [--steps 20000]
         [--out unseen.jsonl]
     .venv-sb3/bin/python benchmarks/unseen.py --learners sac,ppo --out unseen.jsonl   (see the Makefile)
     python benchmarks/unseen.py --table unseen.jsonl
One JSON line per task, learner and seed; what is in the file is not played again. Every learner plays one environment
that is started once, never cut off by a time limit, and reset only where an episode would terminate. Ours is
`rf.learn(id, steps=..., seed=...)` with nothing else. `reward` is the mean of a step over the last quarter of the steps
while learning, `first` over the first quarter, `idle` that of doing nothing (the middle of a box, the first action).
Tasks whose package is missing are left out by name.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any

import gymnasium
import numpy as np

CLASSIC = ["Pendulum-v1", "CartPole-v1", "Acrobot-v1", "MountainCarContinuous-v0"]
MUJOCO = [
    *("InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Reacher-v5", "Pusher-v5", "Swimmer-v5", "HalfCheetah-v5"),
    *("Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5"),
]
TABLES = ["FrozenLake-v1", "Taxi-v4", "MiniGrid-LavaGapS5-v0", "MiniGrid-LavaCrossingS9N1-v0", "MiniGrid-Empty-8x8-v0"]
OTHERS = [
    "highway-fast-v0",
    "dm_control/cartpole-balance-v0",
    "dm_control/walker-stand-v0",
    "FetchReach-v4",
    "PointMaze_UMaze-v3",
]
SMALL = [f"small/{name}-v0" for name in ("puck", "maze", "heating", "delayed", "twolink", "switch", "press", "lane")]
TASKS = [*CLASSIC, *MUJOCO, *TABLES, *OTHERS, *SMALL]
LEARNERS = ("ours", "idle", "sac", "ppo")
PART = 4  # the first and the last of so many parts are compared
# Importing them registers their environments.
REGISTER = ("small_tasks", "minigrid", "highway_env", "shimmy", "gymnasium_robotics")


class Life(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One environment that goes on until it terminates: rewards and terminations of all steps are kept."""

    def __init__(self, env: Any) -> None:
        super().__init__(_without_limit(env))
        self.rewards: list[float] = []
        self.resets = 0

    def step(self, action: Any) -> Any:
        """One step, kept."""
        observation, reward, terminated, _, info = self.env.step(action)
        self.rewards.append(float(reward))
        self.resets += bool(terminated)
        return observation, reward, terminated, False, info


def _without_limit(env: Any) -> Any:
    """The environment without the wrapper that cuts episodes off."""
    inner = env
    while isinstance(inner, gymnasium.Wrapper):
        if isinstance(inner, gymnasium.wrappers.TimeLimit):
            return inner.env
        inner = inner.env
    return env


def made(task: str) -> Any:
    """The environment, or None if its package is missing."""
    for name in REGISTER:
        try:
            __import__(name)
        except ImportError:
            continue
    if hasattr(gymnasium, "register_envs") and "gymnasium_robotics" in sys.modules:
        gymnasium.register_envs(sys.modules["gymnasium_robotics"])
    try:
        return gymnasium.make(task)
    except (gymnasium.error.Error, ImportError):
        return None


def parts(rewards: list[float]) -> dict[str, float]:
    """The mean reward of a step in the first and in the last part."""
    n = max(1, len(rewards) // PART)
    return {"first": mean(rewards[:n]), "reward": mean(rewards[-n:])}


def ours(task: str, seed: int, steps: int) -> dict[str, Any]:
    """The default call of a newcomer."""
    import resetfree as rf

    run = rf.learn(f"gym:{task}", steps=steps, episodes=steps, seed=seed)
    returns, lengths = np.asarray(run.columns["original_return"]), np.asarray(run.columns["steps"])
    rewards = list(np.repeat(returns / lengths, lengths))  # each step has the mean of its episode
    return {
        **parts(rewards), "resets": int(run.realised_resets[-1]), "goals": int(run.goals[-1]),
        "primal": run.player_again("primal").name, "notes": [str(one) for one in run.notes],
    }  # fmt: skip


def idle(task: str, seed: int, steps: int) -> dict[str, Any]:
    """Doing nothing: the middle of a box, the first action."""
    life = Life(made(task))
    space = life.action_space
    box = isinstance(space, gymnasium.spaces.Box)
    action: Any = np.zeros(space.sample().shape, np.float32) if box else 0
    life.reset(seed=seed)
    for _ in range(min(steps, 5000)):
        if life.step(action)[2]:
            life.reset()
    return {**parts(life.rewards), "resets": life.resets}


def theirs(learner: str, task: str, seed: int, steps: int) -> dict[str, Any]:
    """An algorithm of Stable-Baselines3 with its own defaults; SAC needs a box of actions."""
    import stable_baselines3  # type: ignore[import-not-found,unused-ignore]

    life = Life(made(task))
    if learner == "sac" and not isinstance(life.action_space, gymnasium.spaces.Box):
        return {"refused": "discrete actions"}
    flat = gymnasium.wrappers.FlattenObservation(life)
    kind = getattr(stable_baselines3, learner.upper())
    kind("MlpPolicy", flat, seed=seed, device="cpu").learn(steps)
    return {**parts(life.rewards), "resets": life.resets}


def play(learner: str, task: str, seed: int, steps: int) -> dict[str, Any]:
    """One line."""
    began, cpu = time.perf_counter(), time.process_time()
    plays = {"ours": ours, "idle": idle}
    found = plays[learner](task, seed, steps) if learner in plays else theirs(learner, task, seed, steps)
    took = {"seconds": round(time.perf_counter() - began, 1), "cpu": round(time.process_time() - cpu, 1)}
    return {"task": task, "learner": learner, "seed": seed, "steps": steps, **found, **took}


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """What was played before."""
    if path.exists():
        yield from (json.loads(line) for line in path.read_text().splitlines())


def table(path: Path) -> str:
    """Reward of a step and resets, median of the seeds, and every seed of ours."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines(path):
        if "reward" in line:
            found[line["task"], line["learner"]].append(line)
    columns = [one for one in LEARNERS if any(learner == one for _, learner in found)]
    shown = [f"| task | {' | '.join(f'{one}: reward / resets' for one in columns)} | ours, every seed |"]
    shown.append("|---|" + "---|" * (len(columns) + 1))
    for task in TASKS:
        if any((task, one) in found for one in columns):
            cells = [_cell(found[task, one]) for one in columns]
            each = ", ".join(f"{line['reward']:.2f} ({line['resets']})" for line in found[task, "ours"])
            shown.append(f"| {task} | {' | '.join(cells)} | {each} |")
    return "\n".join(shown)


def _cell(of: list[dict[str, Any]]) -> str:
    if not of:
        return ""
    return f"{median(one['reward'] for one in of):.3g} / {median(one['resets'] for one in of):g}"


def main() -> None:
    """Play what is missing, or print the table."""
    made_of = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made_of.add_argument("--tasks", default=",".join(TASKS))
    made_of.add_argument("--learners", default="ours,idle")
    made_of.add_argument("--seeds", default="3001:3004", help="first:end")
    made_of.add_argument("--steps", type=int, default=20_000)
    made_of.add_argument("--out", type=Path, default=Path("unseen.jsonl"))
    made_of.add_argument("--table", type=Path)
    options = made_of.parse_args()
    if options.table:
        print(table(options.table))
        return
    first, end = (int(one) for one in options.seeds.split(":"))
    known = {(one["task"], one["learner"], one["seed"], one["steps"]) for one in lines(options.out)}
    for task in options.tasks.split(","):
        env = made(task)
        if env is None:
            print(f"{task}: left out, its package is not installed", file=sys.stderr)
            continue
        env.close()
        for seed in range(first, end):
            for learner in options.learners.split(","):
                if (task, learner, seed, options.steps) in known:
                    continue
                with options.out.open("a") as file:
                    file.write(json.dumps(play(learner, task, seed, options.steps)) + "\n")


if __name__ == "__main__":
    main()
