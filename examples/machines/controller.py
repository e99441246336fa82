"""Two tanks with what an engineer already knows: nothing, limits of the levels, or a controller; three seeds of each.

python examples/machines/controller.py [EPISODES]    20 to try it, 150 for the table of docs/controller.md
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import resetfree as rf
from resetfree.problems.machines.two_tanks import TwoTanks, controller

LEVELS = {"observation[0]": (0.05, 0.6), "observation[1]": (0.05, 0.6)}  # m: dry below, over the brim above
KNOWN = {
    "nothing": {},
    "limits": {"settings": {"problem": {"limits": LEVELS}}},
    "controller": {"controller": controller},
    "both": {"controller": controller, "settings": {"problem": {"limits": LEVELS}}},
    "controller alone": {"controller": controller, "explore": 0},
}


def main(episodes: int) -> None:
    """Print reward per step, of all episodes and of the last fifth, and resets."""
    warnings.simplefilter("ignore")  # notes on rewards, which are in [0, 1] here
    print(f"{episodes} episodes of 100 steps, mean of 3 seeds (each)")
    for name, known in KNOWN.items():
        runs = [rf.learn(TwoTanks(), episodes=episodes, seed=seed, **known) for seed in range(3)]
        rewards = np.array([run.columns["reward"] for run in runs]) / 100.0
        last = rewards[:, -max(episodes // 5, 1) :].mean(axis=1)
        resets = [int(run.realised_resets[-1]) for run in runs]
        each = ", ".join(f"{x:.3f}" for x in last)
        print(f"{name:17} all {rewards.mean():.3f}  last fifth {last.mean():.3f} ({each})  resets {resets}", flush=True)
        for run in runs:
            print("   ", "; ".join(f"{one.k}: {one.what}" for one in run.decisions), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
