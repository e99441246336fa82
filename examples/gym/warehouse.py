"""A cart in a warehouse with a battery: it carries parcels from the shelf to the ramp, and must recharge in time.

    python examples/gym/warehouse.py [seed]

Where the battery runs out a person has to fetch it: that is the reset. Each parcel at the ramp is a goal.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem

ROWS, COLUMNS, FULL = 3, 3, 10
CHARGER, SHELF, RAMP = (0, 0), (0, 2), (2, 2)
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
EPISODES, HORIZON = 400, 40


class Warehouse(gym.Env[Any, Any]):
    """A dictionary is observed: where the cart is, its battery, and whether it has a parcel."""

    observation_space = gym.spaces.Dict(
        {
            "row": gym.spaces.Discrete(ROWS),
            "column": gym.spaces.Discrete(COLUMNS),
            "battery": gym.spaces.Discrete(FULL + 1),
            "loaded": gym.spaces.Discrete(2),
        }
    )
    action_space = gym.spaces.Discrete(len(MOVES))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Carried to the charger by hand."""
        super().reset(seed=seed)
        self.at, self.battery, self.loaded = CHARGER, FULL, False
        return self._seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A move costs one unit of the battery; the charger fills it, and a parcel at the ramp pays 1."""
        row, column = self.at[0] + MOVES[action][0], self.at[1] + MOVES[action][1]
        self.at = min(max(row, 0), ROWS - 1), min(max(column, 0), COLUMNS - 1)
        self.battery = FULL if self.at == CHARGER else self.battery - 1
        delivered = self.loaded and self.at == RAMP and self.battery > 0
        self.loaded = (self.loaded and not delivered) or self.at == SHELF
        return self._seen(), float(delivered), self.battery == 0, False, {"delivered": delivered}

    def _seen(self) -> dict[str, int]:
        row, column = self.at
        return {"row": row, "column": column, "battery": self.battery, "loaded": int(self.loaded)}


def problem() -> GymProblem:
    """An empty battery is a reset, a delivery a goal; the observations that come up are numbered."""
    return rf.from_gym(
        Warehouse(), horizon=HORIZON, states=200, reset_when="terminated", goal_when="info.delivered", name="warehouse"
    )


def main(seed: int = 0, episodes: int = EPISODES) -> None:
    """Learn, and print what it took."""
    run = rf.learn(problem(), episodes=episodes, seed=seed)
    late = slice(-(episodes // 10), None)
    fetched, parcels, steps = (int(run.columns[name][late].sum()) for name in ("reset", "goals", "steps"))
    print(f"{run.spec['primal']['name']}: fetched {run.realised_resets[-1]} times, {run.goals[-1]} parcels delivered")
    print(f"In the last tenth: fetched {fetched} times, {parcels / steps:.3f} parcels a step")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
