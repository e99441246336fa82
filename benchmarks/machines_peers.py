"""Our actor-critics beside those of Stable-Baselines3 and sbx: one task, the same steps, the same settings.

Run (theirs in an environment of its own: python -m venv .venv-sb3 && .venv-sb3/bin/pip install torch==2.13.0 \
     stable-baselines3==2.9.2 sbx-rl "gymnasium[mujoco]==1.4.0" mujoco==3.11.0 -e ".[neural]"):
     python benchmarks/machines_peers.py sac [--seeds 0:5] >> peers.jsonl
     .venv-sb3/bin/python benchmarks/machines_peers.py sac --library sb3 [--seeds 0:5] >> peers.jsonl
     python benchmarks/machines_peers.py --table peers.jsonl
One JSON line per seed; the checks are those of CHECKS. The environment is started once, never cut off by a time limit
and reset only after a fall. Afterwards the last policy, without its noise, plays ten episodes as the environment itself
defines them: their mean return is compared. Both sides see the same rewards, and have the same networks, rates and
numbers of gradient steps; theirs is otherwise as it comes. What differs: theirs takes gradient steps after every step,
ours after every episode of H steps or at a fall; ours squashes the actions of PPO by tanh, theirs cuts them (with
--own-actions on the environment's own range, else on [-1, 1]). The peer of sac-lagrangian with a fixed multiplier is
SAC with that price on falls; mbpo has no peer there, and is beside SAC with as many gradient steps.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import gymnasium
import numpy as np

import resetfree as rf
from resetfree.players import make_player
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.problems.action_spaces import Box, from_unit
from resetfree.problems.gym.adapter import GymProblem

HORIZON = 64  # H: PPO's 2,048 steps are 32 episodes
LIBRARIES = {"sb3": "stable_baselines3", "sbx": "sbx"}
EPISODES, FIRST_EPISODE = 10, 10_000  # of the last policy, and the seed of their first
Act: TypeAlias = Callable[[Any], Any]  # the environment's own action, of an observation
Look: TypeAlias = Callable[[list[tuple[float, bool]]], None]  # (reward, fell) of further steps


class Enough(Exception):
    """The trial is over."""


@dataclass(frozen=True)
class Task:
    """An environment, and what rewards on [0, 1] are multiplied with: their own range, as temperatures need it."""

    id: str
    scale: float
    options: dict[str, Any]

    def problem(self) -> GymProblem:
        """Started once, and reset only after a fall."""
        return rf.from_gym(f"gym:{self.id}", horizon=HORIZON, **self.options)

    def returned(self, act: Act) -> float:
        """The mean return of episodes that begin with a reset, and end with a fall or at the time limit."""
        env, found = gymnasium.make(self.id), []
        for i in range(EPISODES):
            observation, total, over = env.reset(seed=FIRST_EPISODE + i)[0], 0.0, False
            while not over:
                observation, reward, terminated, truncated, _ = env.step(act(observation))
                total, over = total + float(reward), terminated or truncated
            found.append(total)
        return float(np.mean(found))


never: Callable[..., bool] = lambda *seen: False  # noqa: E731
cut: Callable[..., float] = lambda observation, reward, *rest: float(np.clip(reward, -3.0, 8.0))  # noqa: E731
PENDULUM = Task("Pendulum-v1", 17.0, {"reward_range": (-17, 0), "reset_when": never})
INVERTED = Task("InvertedPendulum-v5", 1.0, {"reward_range": (0, 1)})
HOPPER = Task("Hopper-v5", 11.0, {"reward_range": (-3, 8), "reward": cut})  # rewards beyond are rare


@dataclass(frozen=True)
class Check:
    """A player on a task; lam: the multiplier, where a player follows one."""

    task: Task
    player: str
    steps: int
    settings: dict[str, Any] = field(default_factory=dict)
    lam: float = 0.0

    def made(self) -> Any:
        """The player."""
        return make_player("primal", self.player, {"reward_scale": self.task.scale, **self.settings})


SMALL = {"hidden": 128, "batch": 128, "gradient_steps": 10}
IMAGINED = {**SMALL, "model_hidden": 128, "model_steps": 2, "n_rollouts": 1024}
CHECKS = {
    "sac": Check(PENDULUM, "sac", 10_000),
    "sac-many": Check(HOPPER, "sac", 5_000, SMALL),
    "sac-lagrangian": Check(INVERTED, "sac-lagrangian", 5_000, lam=50.0),
    "ppo": Check(INVERTED, "ppo", 50_000),
    "ppo-hopper": Check(HOPPER, "ppo", 30_000, {"reward_scale": 1.0}),
    "mbpo": Check(PENDULUM, "mbpo", 2_500, {**IMAGINED, "price": 0.0}),
    "mbpo-hopper": Check(HOPPER, "mbpo", 12_600, {**IMAGINED, "price": 0.0}),
    "mbpo-hopper-price": Check(HOPPER, "mbpo", 12_600, {**IMAGINED, "price": 100.0 / 11.0}),  # 100 of its own rewards
}


def ours(check: Check, seed: int, look: Look) -> Act:
    """Play until `look` says that it is enough; rewards are the means of their episodes."""
    player, latest = check.made(), None

    def hear(game: Any, this: rf.Round) -> None:
        nonlocal latest
        latest, n = this.plan.policy, len(this.episode.actions)
        look([(this.episode.original_return / n, this.episode.reset and i == n - 1) for i in range(n)])

    problem, dual = check.task.problem(), ConstantPenalty(C=check.lam)
    with contextlib.suppress(Enough):
        rf.learn(problem, player, dual, episodes=check.steps, seed=seed, feedback="realised", progress=hear)
    policy: Any = latest
    return lambda observation: problem.actions.native(policy.mode(1, np.asarray(observation, dtype=np.float64)))


class Played(gymnasium.Env[Any, Any]):
    """A problem as an environment with priced and scaled rewards, and falls as its only end."""

    def __init__(self, problem: GymProblem, check: Check, look: Look, own_actions: bool) -> None:
        assert isinstance(problem.actions, Box)
        player = check.made()
        self._problem, self._env, self._box, self._look = problem, problem.env, problem.actions, look
        self._scale, self._price = player.reward_scale, player.reward_scale * player.price + check.lam
        unit = gymnasium.spaces.Box(-1.0, 1.0, (self._box.size,), np.float32)
        self.own_actions, self.action_space = own_actions, problem.env.action_space if own_actions else unit
        self.observation_space = problem.env.observation_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A reset of the environment itself."""
        super().reset(seed=seed)
        return self._env.reset(seed=seed)

    def native(self, action: Any) -> Any:
        """The environment's own action."""
        if self.own_actions:
            return action
        return self._box.native(from_unit(np.asarray(action, dtype=np.float64).ravel(), *self._box.ends))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step; never truncated by a time limit."""
        observation, own, terminated, _, info = self._env.step(self.native(action))
        known = observation, float(own), bool(terminated), info
        fell = bool(self._problem.terms.reset_when(*known))
        self._look([(float(own), fell)])
        return observation, self._scale * self._problem.terms.rewards(*known) - self._price * fell, fell, False, info


def theirs(library: str, check: Check, seed: int, look: Look, own_actions: bool) -> Act:
    """The same of their algorithm."""
    found, player = importlib.import_module(LIBRARIES[library]), check.made()
    env = Played(check.task.problem(), check, look, own_actions)
    settings: dict[str, Any] = {
        "learning_rate": player.learning_rate,
        "batch_size": player.batch,
        "gamma": player.gamma,
        "policy_kwargs": {"net_arch": [player.hidden, player.hidden]},
        "seed": seed,
        "device": "cpu",
    }
    if check.player == "ppo":
        settings |= {"n_steps": player.steps, "n_epochs": player.epochs, "gae_lambda": player.trace}
        settings |= {"clip_range": player.clip, "ent_coef": player.entropy_weight, "vf_coef": player.value_weight}
        model = found.PPO("MlpPolicy", env, max_grad_norm=player.largest_gradient, **settings)
    else:
        settings |= {"tau": player.tau, "learning_starts": player.warmup, "gradient_steps": player.updates}
        model = found.SAC("MlpPolicy", env, **settings)
    with contextlib.suppress(Enough):
        model.learn(total_timesteps=10 * check.steps)
    return lambda observation: env.native(model.predict(observation, deterministic=True)[0])


def trial(name: str, library: str, seed: int, *, steps: int, seconds: float, own_actions: bool = False) -> Any:
    """One line; it ends after so many steps or seconds."""
    check, began, seen = CHECKS[name], time.perf_counter(), []

    def look(further: list[tuple[float, bool]]) -> None:
        seen.extend(further)
        if len(seen) >= steps or time.perf_counter() - began > seconds:
            raise Enough

    act = ours(check, seed, look) if library == "ours" else theirs(library, check, seed, look, own_actions)
    parts = np.array_split(np.array(seen[:steps]), 10)
    return {
        "check": name,
        "task": check.task.id,
        "library": f"{library}, own actions" if own_actions else library,
        "seed": seed,
        "steps": sum(map(len, parts)),
        "return": check.task.returned(act),
        "rewards": [float(part[:, 0].mean()) for part in parts],
        "falls": [int(part[:, 1].sum()) for part in parts],
        "seconds": time.perf_counter() - began,
    }


def table(lines: Iterable[str]) -> str:
    """All lines as one table in Markdown."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        one = json.loads(line)
        found[one["check"], one["task"], one["steps"], one["library"]].append(one)
    rows = ["| check | task | steps | library | return: median | each seed | falls: median | each seed | seconds |"]
    rows.append("|" + "---|" * 9)
    order = list(CHECKS)
    for (name, task, steps, library), ones in sorted(found.items(), key=lambda it: (order.index(it[0][0]), it[0])):
        returns, falls = sorted(one["return"] for one in ones), sorted(sum(one["falls"]) for one in ones)
        seconds, each = median(one["seconds"] for one in ones), " ".join(f"{x:.0f}" for x in returns)
        rows.append(
            f"| {name} | {task} | {steps:,} | {library} | {median(returns):.0f} | {each} "
            f"| {median(falls):g} | {' '.join(map(str, falls))} | {seconds:.0f} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", nargs="?", choices=CHECKS)
    parser.add_argument("--library", choices=("ours", *LIBRARIES), default="ours")
    parser.add_argument("--own-actions", action="store_true", help="theirs with the environment's own range of actions")
    parser.add_argument("--seeds", default="0:5", help="first:end")
    parser.add_argument("--steps", type=int, help="in place of those of the check")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="at most, for each seed")
    parser.add_argument("--table", nargs="+", type=Path, help="files of lines to make a table of")
    given = parser.parse_args()
    if given.table:
        print(table(line for file in given.table for line in file.read_text().splitlines() if line.startswith("{")))
        return
    if given.check is None:
        parser.error(f"name a check: {', '.join(CHECKS)}")
    limits = {"steps": given.steps or CHECKS[given.check].steps, "seconds": given.seconds}
    first, end = map(int, given.seeds.split(":"))
    for seed in range(first, end):
        line = trial(given.check, given.library, seed, own_actions=given.own_actions, **limits)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
