"""A car in its lane with what an engineer already knows: nothing, limits, a controller, or a few good episodes.

python examples/machines/controller.py [EPISODES [KNOWN ...]]    20 to try it, 300 as in docs/results/known.md
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np

import resetfree as rf
from resetfree.problems.machines.lane import EDGE, TURNED, Lane, controller

HORIZON = 25
LIMITS = {0: (-EDGE, EDGE), 1: (-TURNED, TURNED)}  # m from the middle of the lane, rad across it


def good_episodes(n: int, steps: int = 50) -> list[dict[str, Any]]:
    """What was recorded while the controller drove; its commands were varied a little."""
    env: gymnasium.Env[Any, Any] = Lane()
    rng, found = np.random.default_rng(0), []
    for seed in range(n):
        seen, actions, rewards = [env.reset(seed=seed)[0]], [], []
        for _ in range(steps):
            actions.append(np.clip(controller(seen[-1]) + 0.1 * rng.normal(size=1), -1.0, 1.0))
            after, reward, *_ = env.step(actions[-1])
            seen.append(after)
            rewards.append(float(reward))
        arrays = {"observations": np.array(seen), "actions": np.array(actions), "rewards": np.array(rewards)}
        found.append({**arrays, "terminated": np.zeros(steps, dtype=np.bool_)})
    return found


KNOWN: dict[str, dict[str, Any]] = {
    "controller-alone": {"controller": controller, "explore": 0},
    "controller": {"controller": controller},
    "demonstrations": {"demonstrations": good_episodes(5)},
    "limits": {},
    "nothing": {},
}


def main(episodes: int, names: list[str]) -> None:
    """Print reward per step, of all episodes and of the last fifth, resets, and what was decided."""
    for name in names:
        limits: dict[str, Any] = {"limits": LIMITS} if name == "limits" else {}
        road = rf.from_gym(Lane(), horizon=HORIZON, reward_range=(0.0, 1.0), reset_when="terminated", **limits)
        run = rf.learn(road, episodes=episodes, **KNOWN[name])
        reward, last = run.columns["reward"] / HORIZON, max(episodes // 5, 1)
        earned = f"all {reward.mean():.3f}  last fifth {reward[-last:].mean():.3f}"
        print(f"{name:17} {earned}  resets {run.realised_resets[-1]}", flush=True)
        for one in run.decisions:
            print(f"    episode {one.k}: {one.what}", flush=True)


if __name__ == "__main__":
    given = sys.argv[1:] or ["20"]
    main(int(given[0]), given[1:] or list(KNOWN))
