"""Kills a run at random moments and resumes it each time; a process of its own, so that forking is safe.

Usage: kill_driver.py FILE EPISODES KILLS SEED [CASE]. Prints how many kills there were when the run had finished.
"""

import sys
from pathlib import Path
from typing import Any

from tests.killing import Progress, kill_often, rounds_of

import resetfree as rf

GYM: dict[str, Any] = {"dual": "constant-penalty", "feedback": "realised"}
CASES: dict[str, dict[str, Any]] = {
    "grid": {"problem": "grid-v0", "primal": "linear-ucb"},
    "a delay": {"problem": "grid-v0", "primal": "linear-ucb", "delay": 3},
    "a search with delay": {
        **GYM, "problem": "gym:CartPole-v1", "primal": "model-search", "delay": 2,
        "settings": {
            "problem": {"horizon": 10}, "primal": {"population": 6, "rounds": 1, "planning": 10}, "dual": {"C": 3.0},
        },
    },
    "stored rows": {
        **GYM, "problem": "gym:CartPole-v1", "primal": "stored-linear",
        "settings": {
            "problem": {"horizon": 10, "features": "radial-basis", "features.d": 9},
            "primal": {"refit": 32}, "dual": {"C": 3.0},
        },
    },
    "a search": {
        **GYM, "problem": "gym:CartPole-v1", "primal": "model-search",
        "settings": {
            "problem": {"horizon": 10}, "primal": {"population": 6, "rounds": 1, "planning": 10}, "dual": {"C": 3.0},
        },
    },
    "a search in a box": {
        **GYM, "problem": "gym:Pendulum-v1", "primal": "model-search",
        "settings": {
            "problem": {"horizon": 10, "reward_low": -17, "reward_high": 0, "reset_when": "reward<=-9.5"},
            "primal": {"population": 6, "rounds": 1, "planning": 10}, "dual": {"C": 3.0},
        },
    },
    "rewards outside": {  # the range that is stated
        **GYM, "problem": "gym:Pendulum-v1", "primal": "stored-linear",
        "settings": {
            "problem": {
                "horizon": 10, "actions": 3, "features": "radial-basis", "features.d": 9, "reward_low": -5,
                "reward_high": 0, "reset_when": "reward<=-15",
            },
            "primal": {"refit": 32}, "dual": {"C": 3.0},
        },
    },
    "rewards learned": {
        **GYM, "problem": "gym:Pendulum-v1", "primal": "model-search",
        "settings": {
            "problem": {"horizon": 10, "reset_when": "reward<=-15"},
            "primal": {"population": 6, "rounds": 1, "planning": 10}, "dual": {"C": 3.0},
        },
    },
    "numbered observations": {
        **GYM, "problem": "gym:FrozenLake-v1", "primal": "ucbvi",
        "settings": {
            "problem": {"horizon": 6, "states": 64, "table": False, "make.map_name": "8x8", "make.is_slippery": True},
            "dual": {"C": 1.0},
        },
    },
}  # fmt: skip


def play(case: str, path: Path | None, episodes: int, pause: Progress | None = None) -> None:
    asked: dict[str, Any] = {"episodes": episodes, "seed": 5, "checkpoint_every": 0.003, **CASES[case]}
    asked["progress"] = pause
    if path is not None:
        asked |= {"path": path, "resume": path.exists()}
    rf.learn(**asked)


def main() -> None:
    path, episodes, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    case = sys.argv[5] if len(sys.argv) > 5 else "grid"
    play(case, None, 12)  # compile once, before the forks
    print(
        kill_often(
            lambda _, pause: play(case, path, episodes, pause),
            lambda: rounds_of(path),
            episodes=episodes,
            kills=kills,
            seed=seed,
            longest=0.04,
        )
    )


if __name__ == "__main__":
    main()
