"""Two tanks with what an engineer already knows: nothing, limits of the levels, or a controller; three seeds of each.

python examples/machines/controller.py [EPISODES [KNOWN ...]]    20 to try it, 150 for the table of docs/controller.md
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import resetfree as rf
from resetfree.problems.machines.two_tanks import TwoTanks, controller

LEVELS = {"observation[0]": (0.05, 0.6), "observation[1]": (0.05, 0.6)}  # m: dry below, over the brim above
KNOWN: dict[str, dict[str, Any]] = {
    "nothing": {},
    "limits": {"limits": {"limits": LEVELS}},
    "controller": {"controller": controller},
    "controller-alone": {"controller": controller, "explore": 0},
}
HORIZON = 40


def main(episodes: int, names: list[str]) -> None:
    """Print reward per step, of all episodes and of the last fifth, and resets."""
    for name in names:
        runs = []
        for seed in range(3):
            known = dict(KNOWN[name])
            tanks = rf.from_gym(
                TwoTanks(), horizon=HORIZON, reward_range=(0.0, 1.0), reset_when="terminated", **known.pop("limits", {})
            )
            runs.append(rf.learn(tanks, episodes=episodes, seed=seed, **known))
        rewards = np.array([run.columns["reward"] for run in runs]) / HORIZON
        last = rewards[:, -max(episodes // 5, 1) :].mean(axis=1)
        resets, each = [int(run.realised_resets[-1]) for run in runs], ", ".join(f"{x:.3f}" for x in last)
        print(f"{name:17} all {rewards.mean():.3f}  last fifth {last.mean():.3f} ({each})  resets {resets}", flush=True)
        for seed, run in enumerate(runs):
            for one in run.decisions:
                print(f"    seed {seed}, episode {one.k}: {one.what}", flush=True)


if __name__ == "__main__":
    given = sys.argv[1:] or ["20"]
    main(int(given[0]), given[1:] or list(KNOWN))
