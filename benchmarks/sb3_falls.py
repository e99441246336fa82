"""Stable-Baselines3 under the conditions of benchmarks/gym_falls.py: falls in training before its policy holds.

Run (in an environment of its own, see docs/results/gym.md): python benchmarks/sb3_falls.py >> sb3.jsonl

The environment, its actions, rewards and reset event are those of the same example's `problem()`: one environment, no
time limit, reset only after a fall. Every EVERY steps the deterministic policy is evaluated on a separate copy: it must
stay upright for LONG steps from each of three starts. Only falls of training count, not those of the evaluation. That
is an easier goal than LONG upright steps while learning, which is the goal of our players.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import gymnasium
import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from gym_falls import ENVIRONMENTS, LONG, load_example  # type: ignore[import-not-found,unused-ignore]
from resetfree.problems.action_spaces import Choices
from resetfree.problems.gym.adapter import GymProblem

EVERY, MOST, SECONDS, STARTS = 1_000, 300_000, 600.0, 3
# RL Baselines3 Zoo, CartPole-v1: PPO collects 8 x 32 steps in 8 environments. With one environment, that can mean 256
# steps for each update (sb3-ppo) or 32 (sb3-ppo-32): both are tried.
PPO_SETTINGS: dict[str, Any] = {
    "n_steps": 256,
    "batch_size": 256,
    "gae_lambda": 0.8,
    "gamma": 0.98,
    "n_epochs": 20,
    "ent_coef": 0.0,
    "learning_rate": lambda left: 0.001 * left,
    "clip_range": lambda left: 0.2 * left,
}
PPO_32 = PPO_SETTINGS | {"n_steps": 32, "batch_size": 32}
DQN_SETTINGS: dict[str, Any] = {
    "learning_rate": 2.3e-3,
    "batch_size": 64,
    "buffer_size": 100_000,
    "learning_starts": 1_000,
    "gamma": 0.99,
    "target_update_interval": 10,
    "train_freq": 256,
    "gradient_steps": 128,
    "exploration_final_eps": 0.04,
    "policy_kwargs": {"net_arch": [256, 256]},
}
# Steps over which the Zoo decays learning rate and exploration: 1e5 for PPO, 16% of 5e4 for DQN.
PPO_STEPS, DQN_EXPLORES = 100_000, 0.16 * 50_000


class Played(gymnasium.Env[Any, Any]):
    """A problem as an environment: discrete actions, the problem's rewards, and `terminated` at its reset event."""

    def __init__(self, problem: GymProblem) -> None:
        self._problem, self._env = problem, problem.env
        assert isinstance(problem.actions, Choices)
        self._actions = problem.actions
        self.action_space = gymnasium.spaces.Discrete(problem.n_actions)
        self.observation_space = problem.env.observation_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A reset of the environment itself."""
        super().reset(seed=seed)
        return self._env.reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step; never truncated by a time limit."""
        observation, own, terminated, _, info = self._env.step(self._actions[int(action)])
        seen = observation, float(own), bool(terminated), info
        terms = self._problem.terms
        return observation, terms.rewards(*seen), bool(terms.reset_when(*seen)), False, info


class Watch(BaseCallback):  # type: ignore[misc,unused-ignore]
    """Counts falls of training, and stops it when the policy stays upright or after SECONDS."""

    def __init__(self, trial: Played, seed: int) -> None:
        super().__init__()
        self.trial, self.seed = trial, seed
        self.falls, self.reached, self.began = 0, False, time.perf_counter()

    def _on_step(self) -> bool:
        self.falls += int(self.locals["dones"][0])
        if self.n_calls % EVERY == 0:
            self.reached = all(self._holds(10_000 * (1 + self.seed) + i) for i in range(STARTS))
        return not self.reached and time.perf_counter() - self.began < SECONDS

    def _holds(self, seed: int) -> bool:
        observation, _ = self.trial.reset(seed=seed)
        for _ in range(LONG):
            action, _ = self.model.predict(observation, deterministic=True)
            observation, _, fell, _, _ = self.trial.step(action)
            if fell:
                return False
        return True


def learner(name: str, env: Played, seed: int) -> tuple[BaseAlgorithm, int]:
    """The algorithm, and the most steps of its training."""
    if name.startswith("sb3-ppo"):
        settings = PPO_32 if name == "sb3-ppo-32" else PPO_SETTINGS
        return PPO("MlpPolicy", env, seed=seed, device="cpu", **settings), PPO_STEPS
    fraction = DQN_EXPLORES / MOST
    return DQN("MlpPolicy", env, seed=seed, device="cpu", exploration_fraction=fraction, **DQN_SETTINGS), MOST


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", default=",".join(ENVIRONMENTS))
    parser.add_argument("--learners", default="sb3-ppo,sb3-ppo-32,sb3-dqn")
    parser.add_argument("--seeds", default="0:3", help="first:end")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    first, end = map(int, arguments.seeds.split(":"))
    for env in arguments.envs.split(","):
        for name in arguments.learners.split(","):
            for seed in range(first, end):
                np.random.seed(seed)  # noqa: NPY002 - the library uses it
                example = load_example(env)
                model, steps = learner(name, Played(example.problem()), seed)
                watch = Watch(Played(example.problem()), seed)
                model.learn(total_timesteps=steps, callback=watch)
                result = {"env": env, "player": name, "seed": seed, "falls": watch.falls, "steps": watch.n_calls}
                result |= {"reached": watch.reached, "seconds": time.perf_counter() - watch.began}
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
