"""A stored run of Algorithm 1: a change of these numbers is a change of the algorithm and needs a reason.

The numbers come from `python -m tests.golden.test_algorithm1`, which writes the file anew.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players.linear.algorithm1 import algorithm1
from resetfree.theory.oracle import Evaluator

FILE = Path(__file__).parent / "algorithm1.json"
RUNS: dict[str, dict[str, Any]] = {
    "grid-v0": {"B": 38.8664632},
    "random-linear-v0": {"B": 2.7},
    "politex-trap-v0": {"B": 5**0.5},
}
EPISODES = 300


def played(id: str) -> dict[str, list[float]]:
    mdp = rf.make(id)
    primal, dual = algorithm1(**RUNS[id])
    problem = mdp.problem()
    game = begin(problem, primal, dual, episodes=EPISODES, seed=0)
    rounds = list(play(problem, primal, dual, game, episodes=EPISODES, oracle=Evaluator(mdp)))
    columns: dict[str, list[float]] = {
        "s1": [int(r.s1) for r in rounds],
        "reset": [int(r.episode.reset) for r in rounds],
        "lam": [r.lam for r in rounds],
        "v_r_hat": [r.plan.v_r for r in rounds],
        "v_c_hat": [r.plan.v_c for r in rounds],
        "v_r": [r.exact[0] for r in rounds if r.exact],
        "v_c": [r.exact[1] for r in rounds if r.exact],
    }
    return columns


@pytest.mark.parametrize("id", RUNS)
def test_the_stored_run_is_played_again(id: str) -> None:
    stored = json.loads(FILE.read_text())[id]
    now = played(id)
    for name in ("s1", "reset"):
        assert now[name] == stored[name]
    for name in ("lam", "v_r_hat", "v_c_hat", "v_r", "v_c"):
        np.testing.assert_allclose(now[name], stored[name], atol=1e-9)


if __name__ == "__main__":
    FILE.write_text(json.dumps({id: played(id) for id in RUNS}) + "\n")
