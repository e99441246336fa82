"""A simulator first: resets of a machine that is not as its simulator, with the simulator and from nothing.

    python benchmarks/simulator.py grid --seeds 8
    python benchmarks/simulator.py crane --seeds 2 --first 201 --episodes 40
    python benchmarks/simulator.py quadrotor --seeds 2 --first 201 --episodes 40

grid: `grid-v0` that slips with 0.12, where its simulator slips with 0.1. crane, quadrotor: the simulator has 20 % more
mass than the machine; with a search that plans little, so that it takes minutes.
"""

import argparse
from typing import Any
from unittest.mock import patch

import numpy as np

import resetfree as rf
from resetfree.core.arrays import Floats
from resetfree.problems.machines import cart_load
from resetfree.problems.machines.cart_load import CartLoad
from resetfree.problems.machines.quadrotor import Quadrotor

LITTLE = {"population": 16, "rounds": 2, "planning": 20}


class Heavier(CartLoad):
    """The crane with 20 % more mass of cart and load."""

    def rates(self, x: Floats, u: Floats) -> Floats:
        """As of the crane."""
        heavier = {name: 1.2 * getattr(cart_load, name) for name in ("CART", "LOAD")}
        with patch.multiple(cart_load, **heavier):
            return super().rates(x, u)


def pair(name: str) -> tuple[Any, Any, dict[str, Any]]:
    """A machine, its simulator, and how they are played."""
    if name == "grid":
        return rf.make("grid-v0", slip=0.12), rf.make("grid-v0", slip=0.1), {"primal": "support-elimination"}
    how = {"primal": "model-search", "settings": {"primal": LITTLE}}
    return (Quadrotor(), Quadrotor(mass=1.2), how) if name == "quadrotor" else (CartLoad(), Heavier(), how)


def main() -> None:
    """Print resets from nothing, on the simulator, and on the machine after it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("machine", choices=["grid", "crane", "quadrotor"])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--episodes", type=int, default=300)
    given = parser.parse_args()
    rows = []
    for seed in range(given.first, given.first + given.seeds):
        machine, simulator, how = pair(given.machine)
        alone = rf.learn(machine, episodes=given.episodes, seed=seed, **how)
        helped = rf.learn(pair(given.machine)[0], simulator=simulator, episodes=given.episodes, seed=seed, **how)
        counts = alone.realised_resets[-1], helped.spec["data"]["resets"], helped.realised_resets[-1]
        rows.append([int(count) for count in counts])
        print(rows[-1], flush=True)
    print("from nothing, on the simulator, then on the machine:", np.mean(rows, axis=0).tolist())


if __name__ == "__main__":
    main()
