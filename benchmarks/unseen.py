"""Public environments by their default call: reward and resets of the same steps, beside SAC and PPO.

Run: python benchmarks/unseen.py [--tasks Pendulum-v1,Hopper-v5] [--learners ours,idle] [--seeds 3001:3004]
         [--steps 20000] [--limit SECONDS] [--out unseen.jsonl]
     .venv-sb3/bin/python benchmarks/unseen.py --learners sac,ppo --out unseen.jsonl   (see the Makefile)
     python benchmarks/unseen.py --table unseen.jsonl [--page docs/results/unseen.md]
One JSON line per task, learner and seed; what is in the file is not played again, so it goes on where it was stopped.
Every learner plays one environment that is started once, never cut off by a time limit, and reset only where an episode
would terminate; what ends are goals and no falls is the same for all (docs/goals.md). Ours is `rf.learn(id, steps=...,
seed=...)` with nothing else. `reward` is the mean of a step over the last quarter of the steps while learning, `first`
over the first quarter, `idle` that of doing nothing (the middle of a box, the first action), for 5,000 steps at most.
A trial that a time limit cut has fewer steps (`played`). Tasks whose package is missing are left out by name, and a
learner that fails leaves its error in place of a reward.
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

from resetfree.problems.gym.events import Condition
from resetfree.problems.gym.goals import RESTART
from resetfree.problems.gym.known import meaning_of
from resetfree.runs.playing import Stopped

BEGIN, END = "<!-- made by benchmarks/unseen.py -->", "<!-- end -->"
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
    """One environment that goes on until it terminates: rewards, falls and goals of all steps are kept."""

    def __init__(self, env: Any) -> None:
        super().__init__(_without_limit(env))
        self.rewards: list[float] = []
        self.resets, self.goals = 0, 0
        self._meaning = meaning_of(env)
        said = () if self._meaning is None else (self._meaning.goal_when, self._meaning.reset_when)
        self._events = [Condition.read(one, "this task") for one in said]
        self._at_goal = False

    def step(self, action: Any) -> Any:
        """One step, kept; where a goal sets a new task, that is set."""
        observation, reward, terminated, _, info = self.env.step(action)
        self.rewards.append(float(reward))
        fell, won, ends = bool(terminated), False, bool(terminated)
        if self._meaning is not None:
            won, lost = (bool(one(observation, float(reward), fell, info)) for one in self._events)
            fell = lost and not won
            ends = fell or (won and self._meaning.after_goal == RESTART)
            if won and self._meaning.new_task is not None:
                observation = self._meaning.new_task(self.env)
        self.resets, self.goals = self.resets + fell, self.goals + (won and not self._at_goal)
        self._at_goal = won and not ends and (self._meaning is None or self._meaning.new_task is None)
        return observation, reward, ends, False, info


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


def ours(task: str, seed: int, steps: int, limit: float) -> dict[str, Any]:
    """The default call of a newcomer."""
    import resetfree as rf

    run = rf.learn(f"gym:{task}", steps=steps, episodes=steps, seed=seed, seconds=limit)
    returns, lengths = np.asarray(run.columns["original_return"]), np.asarray(run.columns["steps"])
    rewards = list(np.repeat(returns / lengths, lengths))  # each step has the mean of its episode
    return {
        **parts(rewards), "played": len(rewards), "resets": int(run.realised_resets[-1]), "goals": int(run.goals[-1]),
        "primal": run.player_again("primal").name, "notes": [str(one) for one in run.notes],
    }  # fmt: skip


def idle(task: str, seed: int, steps: int, limit: float) -> dict[str, Any]:
    """Doing nothing: the middle of a box, the first action."""
    life = Life(made(task))
    space = life.action_space
    box = isinstance(space, gymnasium.spaces.Box)
    action: Any = np.zeros(space.sample().shape, np.float32) if box else 0
    life.reset(seed=seed)
    end = time.monotonic() + limit
    while len(life.rewards) < min(steps, 5000) and time.monotonic() < end:
        if life.step(action)[2]:
            life.reset()
    return _of(life)


def _of(life: Life) -> dict[str, Any]:
    return {**parts(life.rewards), "played": len(life.rewards), "resets": life.resets, "goals": life.goals}


def theirs(learner: str, task: str, seed: int, steps: int, limit: float) -> dict[str, Any]:
    """An algorithm of Stable-Baselines3 with its own defaults; SAC needs a box of actions."""
    import stable_baselines3  # type: ignore[import-not-found,unused-ignore]

    life = Life(made(task))
    if learner == "sac" and not isinstance(life.action_space, gymnasium.spaces.Box):
        return {"refused": "discrete actions"}
    flat, end = gymnasium.wrappers.FlattenObservation(life), time.monotonic() + limit
    kind = getattr(stable_baselines3, learner.upper())
    going = lambda *_: len(life.rewards) < steps and time.monotonic() < end  # noqa: E731
    kind("MlpPolicy", flat, seed=seed, device="cpu").learn(steps, callback=going)
    return _of(life)


def play(learner: str, task: str, seed: int, steps: int, limit: float) -> dict[str, Any]:
    """One line."""
    began, cpu = time.perf_counter(), time.process_time()
    plays = {"ours": ours, "idle": idle}
    try:
        if learner in plays:
            found = plays[learner](task, seed, steps, limit)
        else:
            found = theirs(learner, task, seed, steps, limit)
    except Stopped:  # by Ctrl-C: so is the benchmark
        raise
    except Exception as error:  # one that fails must not end the others
        found = {"failed": f"{type(error).__name__}: {error}"}
    took = {"seconds": round(time.perf_counter() - began, 1), "cpu": round(time.process_time() - cpu, 1)}
    return {"task": task, "learner": learner, "seed": seed, "steps": steps, **found, **took}


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """What was played before."""
    if path.exists():
        yield from (json.loads(line) for line in path.read_text().splitlines())


def table(path: Path) -> str:
    """Reward of a step and resets of every seed, the median of several before them; one row for each task."""
    found: dict[tuple[str, int], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines(path):
        found[line["task"], line["steps"]][line["learner"]].append(line)
    columns = [one for one in LEARNERS if any(one in of for of in found.values())]
    shown = [f"| task | steps | {' | '.join(columns)} | our player, seconds of a core |"]
    shown.append("|---|---|" + "---|" * (len(columns) + 1))
    for task, steps in sorted(found, key=lambda key: (TASKS.index(key[0]) if key[0] in TASKS else 99, key[1])):
        of = found[task, steps]
        cells = [_cell(sorted(of[one], key=lambda line: int(line["seed"])), steps) for one in columns]
        mine = [one for one in of["ours"] if "reward" in one]
        took = f"`{mine[0]['primal']}`, {median(one['cpu'] for one in mine):,.0f}" if mine else ""
        shown.append(f"| {task} | {steps:,} | {' | '.join(cells)} | {took} |")
    return "\n".join(shown)


def _cell(of: list[dict[str, Any]], steps: int) -> str:
    """As in "**0.52** 1.5: 0.52 (1) 0.6 (2) 0.4 (2)"."""
    each = [_seed(one, steps) for one in of]
    whole = [one for one in of if "reward" in one]
    if len(whole) < 2:
        return " ".join(each)
    both = median(one["reward"] for one in whole), median(one["resets"] for one in whole)
    return f"**{both[0]:.3g}** {both[1]:g}: {' '.join(each)}"


def _seed(one: dict[str, Any], steps: int) -> str:
    """Reward and resets, the goals if there are any, and the steps that were played where a limit cut them."""
    if "reward" not in one:
        return "refused" if "refused" in one else "failed"
    goals = f", {one['goals']:,} goals" if one.get("goals") else ""
    played = int(one.get("played", steps))
    cut = f", cut at {played:,}" if one["learner"] != "idle" and played < steps else ""
    return f"{one['reward']:.3g} ({one['resets']:,}{goals}{cut})"


def write_page(path: Path, page: Path) -> None:
    """Replace what stands between the two marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{table(path)}\n\n{END}{after}")


def main() -> None:
    """Play what is missing, or print the table."""
    made_of = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made_of.add_argument("--tasks", default=",".join(TASKS))
    made_of.add_argument("--learners", default="ours,idle")
    made_of.add_argument("--seeds", default="3001:3004", help="first:end")
    made_of.add_argument("--steps", type=int, default=20_000)
    made_of.add_argument("--out", type=Path, default=Path("unseen.jsonl"))
    made_of.add_argument("--limit", type=float, default=86_400.0, help="seconds of a trial")
    made_of.add_argument("--table", type=Path)
    made_of.add_argument("--page", type=Path)
    options = made_of.parse_args()
    if options.table:
        if options.page:
            write_page(options.table, options.page)
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
                line = json.dumps(play(learner, task, seed, options.steps, options.limit))
                with options.out.open("a") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
