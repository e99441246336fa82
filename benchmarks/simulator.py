"""A simulator first: resets on a grid that slips more than its simulator, with it and from nothing.

python benchmarks/simulator.py --seeds 8
"""

import argparse

import numpy as np

import resetfree as rf


def main() -> None:
    """Print resets from nothing, on the simulator, and on the machine after it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--episodes", type=int, default=300)
    given = parser.parse_args()
    machine, simulator = (rf.make("grid-v0", slip=slip) for slip in (0.12, 0.1))
    rows = []
    for seed in range(given.seeds):
        alone = rf.learn(machine, "support-elimination", episodes=given.episodes, seed=seed)
        helped = rf.learn(machine, "support-elimination", simulator=simulator, episodes=given.episodes, seed=seed)
        counts = alone.realised_resets[-1], helped.spec["data"]["resets"], helped.realised_resets[-1]
        rows.append([int(count) for count in counts])
        print(rows[-1], flush=True)
    print("from nothing, on the simulator, then on the machine:", np.mean(rows, axis=0).tolist())


if __name__ == "__main__":
    main()
