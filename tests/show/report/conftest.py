"""Run files that the tests of the report share: made once, small, by players that are quick."""

from pathlib import Path

import numpy as np
import pytest

import resetfree as rf
from resetfree.runs import setup

EPISODES = 400
EVIL = "<script>alert('x')</script> & \"$y_{$\" </style>"


def pump(name: str = "pump", state_names: list[str] | None = None) -> rf.FiniteMDP:
    """Three states that no registry knows: without it given, its runs have no oracle."""
    p = np.zeros((3, 2, 3))
    p[0, 0, 0] = 1.0
    p[0, 1] = [0.5, 0.5, 0.0]
    p[1, 0] = [0.8, 0.2, 0.0]
    p[1, 1] = [0.0, 0.7, 0.3]
    reward = [[0.2, 0.6], [0.1, 1.0], [0.0, 0.0]]
    return rf.FiniteMDP(p, reward, [False, False, True], horizon=10, name=name, state_names=state_names)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """By name: auto (3 seeds on a grid), ucb (2 seeds, tuned), theory (1), no_oracle (1), one (1 episode)."""
    folder = tmp_path_factory.mktemp("runs")
    theory = {"primal": {"width": "theory"}}
    made: dict[str, list[Path]] = {
        name: [folder / f"{name}-{seed}.rfrun" for seed in range(n)]
        for name, n in (("auto", 3), ("ucb", 2), ("theory", 1), ("no_oracle", 1), ("one", 1), ("evil", 1))
    }
    for seed, path in enumerate(made["auto"]):
        rf.learn("grid-v0", episodes=EPISODES, seed=seed, path=path)
    for seed, path in enumerate(made["ucb"]):
        rf.learn("grid-v0", "linear-ucb", "projected-gradient", episodes=EPISODES, seed=seed, path=path)
    rf.learn(
        "random-linear-v0", "linear-ucb", "projected-gradient", episodes=100, path=made["theory"][0], settings=theory
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "plain_model", lambda problem: None)  # as of a table that is too large for a file
        rf.learn(pump(), episodes=200, path=made["no_oracle"][0])
    rf.learn("grid-v0", episodes=1, path=made["one"][0])
    rf.learn(pump(EVIL, [EVIL, "=1+1", "c"]), episodes=50, path=made["evil"][0])
    return made
