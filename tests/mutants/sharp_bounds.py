"""Mutants of the bounds by the price of a reset and of Algorithm 1 with elimination inside."""

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.mutants.battery import mutant

import resetfree as rf
from resetfree.players.linear import guarded, intervals
from resetfree.players.linear.guarded import Algorithm1Safe
from resetfree.theory.certificates import certify
from resetfree.theory.visit_sums import UnsafeEdges


def dear(mdp: rf.FiniteMDP, factor: float, episodes: int) -> rf.Run:
    """Algorithm 1 against a penalty of so many times the least B."""
    B = factor * (float(np.nanmax(rf.solve(mdp).lambda_hat)) + 1.0)
    settings: dict[str, dict[str, Any]] = {
        "primal": {"B": B, "width": "proved", "pooled": True, "alpha": 1e9},
        "dual": {"B": B},
    }
    return rf.learn(mdp, "linear-ucb", "constant-penalty", episodes=episodes, seed=0, settings=settings)


@mutant("unsafe edges of which a bound forgets all but one")
def _() -> list[rf.Certificate]:
    run = dear(rf.make("pits-v0"), 1e6, 300)

    def one(mdp: rf.FiniteMDP, pooled: bool) -> UnsafeEdges:
        return UnsafeEdges(np.array([1.0]), 1)

    with patch.object(intervals, "unsafe_edges", one):
        return certify(run)


@dataclass(frozen=True)
class Forgetful(Algorithm1Safe):
    """Excludes nothing that it was reset by."""

    def update(self, state: Any, round: Any) -> Any:
        """All actions are allowed again."""
        state = super().update(state, round)
        state.allowed[:] = True
        return state


@mutant("elimination inside Algorithm 1 that forgets what it excluded")
def _() -> list[rf.Certificate]:
    run = rf.learn(rf.make("grid-v0"), Forgetful(), episodes=400, seed=0)
    run.spec["primal"]["name"] = Algorithm1Safe.name
    return certify(run)


@mutant("elimination inside Algorithm 1 that excludes every action but the first")
def _() -> list[rf.Certificate]:
    def only_first(counts: Any, allowed: Any) -> None:
        allowed[:] = False
        allowed[:, :, 0] = True

    with patch.object(guarded, "endless_sets", only_first):
        run = rf.learn(rf.make("grid-v0"), Algorithm1Safe(), episodes=300, seed=0)
    return certify(run)
