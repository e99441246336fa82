"""A row of a batch beside the run of the reference engine with the same seed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import resetfree as rf
from resetfree.players import make_player
from resetfree.studies.engines.batched import Batch, play_batch

EQUAL = ("s1", "reset", "steps", "next_start")
CLOSE = ("lam", "v_r_hat", "v_c_hat", "upper", "cost_signal", "reward", "v_r", "v_c")
TOLERANCE = 1e-9


def players(primal: str, dual: str, **options: Any) -> tuple[Any, Any]:
    return make_player("primal", primal, options), make_player("dual", dual)


def assert_same_rounds(
    mdp: rf.FiniteMDP, primal: Any, dual: Any, feedback: str, episodes: int, seeds: Sequence[int]
) -> Batch:
    batch = play_batch(
        mdp, primal, dual, episodes=episodes, seeds=seeds, feedback=feedback, evaluate=True, segment=episodes // 2
    )
    for row, seed in enumerate(seeds):
        theirs = rf.learn(mdp, primal, dual, episodes=episodes, seed=seed, feedback=feedback).columns
        for name in EQUAL:
            np.testing.assert_array_equal(batch.columns[name][row], theirs[name], err_msg=f"{name}, seed {seed}")
        for name in CLOSE:
            np.testing.assert_allclose(
                batch.columns[name][row], theirs[name], rtol=0, atol=TOLERANCE, err_msg=f"{name}, seed {seed}"
            )
        assert batch.resets[row] == theirs["reset"].sum()
    return batch
