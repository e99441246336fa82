"""Our actor-critics beside those of Stable-Baselines3 and sbx: one task, one adapter, the same settings.

Run (theirs in an environment of its own: python -m venv .venv-sb3 && .venv-sb3/bin/pip install torch==2.13.0 \
     stable-baselines3==2.9.2 sbx-rl "gymnasium[mujoco]==1.4.0" mujoco==3.11.0 -e ".[neural]"):
     python benchmarks/machines_peers.py [--task pendulum] [--player sac] [--seeds 0:3] [--steps 10000] >> peers.jsonl
     .venv-sb3/bin/python benchmarks/machines_peers.py --library sb3 [the same options] >> peers.jsonl
     python benchmarks/machines_peers.py --table peers.jsonl
One JSON line per seed. The environment is started once, never cut off by a time limit and reset only after a fall; both
sides see the same states, rewards and actions (on [-1, 1]), and take their gradient steps after every H steps (PPO:
after `steps`). What differs: at a fall ours learns at once, theirs goes on to the H-th step; ours squashes the actions
of PPO by tanh, theirs cuts them; ours keeps all transitions, theirs the latest million.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np

import resetfree as rf
from resetfree.players import make_player
from resetfree.problems.action_spaces import Box
from resetfree.problems.gym.adapter import GymProblem

HORIZON = 64  # H: PPO's 2,048 steps are 32 episodes
LIBRARIES = {"sb3": "stable_baselines3", "sbx": "sbx"}


class Enough(Exception):
    """The trial is over."""


def pendulum() -> GymProblem:
    """Swing up and stay up; nothing is a fall."""
    never: Callable[..., bool] = lambda *seen: False  # noqa: E731
    return rf.from_gym("gym:Pendulum-v1", horizon=HORIZON, reward_range=(-17, 0), reset_when=never)


def inverted_pendulum() -> GymProblem:
    """Keep the pole up: 1 a step."""
    return rf.from_gym("gym:InvertedPendulum-v5", horizon=HORIZON, reward_range=(0, 1))


def hopper() -> GymProblem:
    """Hop forward without a fall; rewards beyond -3 and 8, which are rare, are cut."""
    cut: Callable[..., float] = lambda observation, reward, *rest: float(np.clip(reward, -3.0, 8.0))  # noqa: E731
    return rf.from_gym("gym:Hopper-v5", horizon=HORIZON, reward=cut, reward_range=(-3, 8))


# The task, and what rewards on [0, 1] are multiplied with: their own range, so that temperatures mean what they do.
TASKS: dict[str, tuple[Callable[[], GymProblem], float]] = {
    "pendulum": (pendulum, 17.0),
    "inverted_pendulum": (inverted_pendulum, 1.0),
    "hopper": (hopper, 11.0),
}


def ours(problem: GymProblem, player: Any, seed: int, steps: int) -> list[tuple[float, bool]]:
    """Rewards in the environment's own units and falls, step by step; rewards are the means of their episodes."""
    seen: list[tuple[float, bool]] = []

    def look(game: Any, this: rf.Round) -> None:
        n = len(this.episode.actions)
        seen.extend((this.episode.original_return / n, this.episode.reset and i == n - 1) for i in range(n))
        if len(seen) >= steps:
            raise Enough

    with contextlib.suppress(Enough):
        rf.learn(problem, player, episodes=steps, seed=seed, progress=look)
    return seen[:steps]


class Played(gymnasium.Env[Any, Any]):
    """A problem as an environment with actions on [-1, 1], priced and scaled rewards, and falls as its only end."""

    def __init__(self, problem: GymProblem, player: Any) -> None:
        assert isinstance(problem.actions, Box)
        self._problem, self._env, self._box, self._player = problem, problem.env, problem.actions, player
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self._box.size,), np.float32)
        self.observation_space = problem.env.observation_space
        self.seen: list[tuple[float, bool]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A reset of the environment itself."""
        super().reset(seed=seed)
        return self._env.reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step; never truncated by a time limit."""
        low, high = self._box.low.ravel(), self._box.high.ravel()
        pushed = self._box.clip((low + high) / 2 + (high - low) / 2 * np.asarray(action, dtype=np.float64).ravel())
        observation, own, terminated, _, info = self._env.step(self._box.native(pushed))
        known = observation, float(own), bool(terminated), info
        fell = bool(self._problem.terms.reset_when(*known))
        self.seen.append((float(own), fell))
        reward = self._player.reward_scale * (self._problem.terms.rewards(*known) - self._player.price * fell)
        return observation, reward, fell, False, info


def theirs(library: str, problem: GymProblem, player: Any, seed: int, steps: int) -> list[tuple[float, bool]]:
    """The same of their algorithm of the same name."""
    found = importlib.import_module(LIBRARIES[library])
    env = Played(problem, player)
    settings: dict[str, Any] = {
        "learning_rate": player.learning_rate,
        "batch_size": player.batch,
        "gamma": player.gamma,
        "policy_kwargs": {"net_arch": [player.hidden, player.hidden]},
        "seed": seed,
    }
    if player.name == "sac":
        settings |= {"tau": player.tau, "learning_starts": player.warmup, "buffer_size": 1_000_000}
        settings |= {"train_freq": problem.horizon, "gradient_steps": player.updates * problem.horizon}
        model = found.SAC("MlpPolicy", env, **settings)
    else:
        settings |= {"n_steps": player.steps, "n_epochs": player.epochs, "gae_lambda": player.trace}
        settings |= {"clip_range": player.clip, "ent_coef": player.entropy_weight, "vf_coef": player.value_weight}
        model = found.PPO("MlpPolicy", env, max_grad_norm=player.largest_gradient, **settings)
    model.learn(total_timesteps=steps)
    return env.seen[:steps]


def trial(library: str, task: str, player: Any, seed: int, steps: int) -> dict[str, Any]:
    """One line."""
    problem, began = TASKS[task][0](), time.perf_counter()
    played = ours if library == "ours" else lambda *given: theirs(library, *given)
    seen = played(problem, player, seed, steps)
    rewards, falls = np.array([one[0] for one in seen]), np.array([one[1] for one in seen])
    tenths = [float(part.mean()) for part in np.array_split(rewards, 10)]
    result: dict[str, Any] = {"task": task, "player": player.name, "updates": getattr(player, "updates", None)}
    result |= {"library": library, "seed": seed, "steps": len(seen), "falls": int(falls.sum())}
    return result | {
        "tenths": tenths,
        "late": int(falls[-len(falls) // 10 :].sum()),
        "seconds": time.perf_counter() - began,
    }


def table(lines: Iterable[str]) -> str:
    """All lines as one table in Markdown."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        one = json.loads(line)
        found[one["task"], one["player"], one["updates"], one["library"], one["steps"]].append(one)
    rows = [
        "| task | player | updates a step | library | steps | seeds | reward a step, last tenth: median | each "
        "| falls: median | falls, last tenth: median | seconds: median |",
        "|" + "---|" * 11,
    ]
    for (task, player, updates, library, steps), ones in sorted(found.items(), key=str):
        last = sorted(one["tenths"][-1] for one in ones)
        falls, late, seconds = (median(one[key] for one in ones) for key in ("falls", "late", "seconds"))
        rows.append(
            f"| {task} | {player} | {updates or '-'} | {library} | {steps} | {len(ones)} | {median(last):.3f} "
            f"| {' '.join(f'{one:.3f}' for one in last)} | {falls:g} | {late:g} | {seconds:.0f} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="pendulum")
    parser.add_argument("--player", choices=("sac", "ppo"), default="sac")
    parser.add_argument("--library", choices=("ours", *LIBRARIES), default="ours")
    parser.add_argument("--seeds", default="0:3", help="first:end")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--set", action="append", default=[], help="a setting of the player: updates=10")
    parser.add_argument("--table", nargs="+", type=Path, help="files of lines to make a table of")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(line for file in arguments.table for line in file.read_text().splitlines() if line.startswith("{")))
        return
    given = {key: json.loads(value) for key, _, value in (one.partition("=") for one in arguments.set)}
    player = make_player("primal", arguments.player, {"reward_scale": TASKS[arguments.task][1], **given})
    first, end = map(int, arguments.seeds.split(":"))
    for seed in range(first, end):
        print(json.dumps(trial(arguments.library, arguments.task, player, seed, arguments.steps)), flush=True)


if __name__ == "__main__":
    main()
