"""Mutants of runs on a continuum of states: imported wherever the battery is run."""

from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.mutants.battery import forgeries, mutant, of
from tests.mutants.honest import learn, plane, run

import resetfree as rf
from resetfree.players.linear.greedy_composite import GreedyComposite
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.theory.certificates import OPTIMISM, certify
from resetfree.theory.oracle import nodes

SOFT, GREEDY = "algorithm 1 on a continuum", "greedy on a continuum"
SEEN, FALLS = "algorithm 1 on a continuum, realised costs", "falling on a continuum"


@dataclass(frozen=True)
class NarrowCover(LinearUCB):
    """A part of the width that is proved by a cover."""

    part: float = 1.0

    def init(self, *given: Any) -> Any:
        """With less than the proved width."""
        state: Any = super().init(*given)
        state.width = state.width._replace(part=self.part)
        return state


@dataclass(frozen=True)
class NarrowGreedy(GreedyComposite):
    """The same of the greedy composite."""

    part: float = 1.0

    def init(self, *given: Any) -> Any:
        """With less than the proved width."""
        state: Any = super().init(*given)
        state.width = state.width._replace(part=self.part)
        return state


def narrowed(player: Any, feedback: str) -> list[rf.Certificate]:
    """Certificates of the first part of the widths, 1, 1/64, 1/4096, with which the player is not optimistic."""
    found: list[rf.Certificate] = []
    for part in (1.0, 4.0**-3, 4.0**-6):
        broken = learn(player(width="proved", part=part), problem=plane(), episodes=120, feedback=feedback)
        del broken.spec["primal"]["settings"]["part"]  # the record is one of the player that it says it is
        found = certify(broken)
        if any(c.refuted and c.claim in OPTIMISM for c in found):
            break
    return found


@mutant("widths by a cover made narrower until they are wrong")
def _() -> list[rf.Certificate]:
    return narrowed(NarrowCover, "optimistic")


@mutant("widths of the greedy composite on a continuum made narrower until they are wrong")
def _() -> list[rf.Certificate]:
    return narrowed(NarrowGreedy, "realised")


def outside(column: Any) -> Any:
    """A start outside of the continuum."""
    column[6] = np.array([0.5, 1.5])
    return column


forgeries(
    {
        "a start outside of the continuum": [of(SOFT, s1=outside)],
        "starts on a continuum shuffled": [of(SOFT, s1=lambda column: np.roll(column, 1))],
        "costs on a continuum made up": [of(SOFT, cost_signal=0.5), of(SEEN, cost_signal=0.5)],
        "V_r on a continuum at its cap, and below zero": [of(SOFT, v_r=2.0, v_c=0.01), of(SOFT, v_r=-1.0)],
        "V_c on a continuum negative, and far too large": [of(SOFT, v_c=-0.5), of(SOFT, v_c=1e6), of(SOFT, v_r=-1e6)],
        "own values on a continuum on the wrong side": [
            of(SOFT, v_r_hat=0.0, v_c_hat=1.0, upper=0.0),
            of(GREEDY, upper=0.0),
        ],
        "multipliers on a continuum made up": [
            of(SOFT, lam=-1e4),
            of(SEEN, lam=lambda column: column + 1),
            of(SEEN, lam=-1e4),
        ],
        "resets and rewards on a continuum made up": [
            of(SOFT, reset=True),
            of(SOFT, reset=False, v_c=1.0),
            of(SOFT, reward=2.0, upper=-5.0),
            of(SOFT, reset=False, v_r=2.0),
        ],
    },
    __name__,
)


@mutant("statements of a run on a continuum forged")
def _() -> list[rf.Certificate]:
    honest = run(SOFT)
    said = honest.spec["statements"]
    spec = {**honest.spec, "statements": {**said, "primal": {**said["primal"], "covered": False}}}
    return certify(replace(honest, spec=spec))


def misled(change: Any) -> list[rf.Certificate]:
    """Certificates of an honest run with an oracle that errs."""
    solve, honest = nodes.solve, run(SOFT)
    with patch.object(nodes, "solve", lambda *given: change(solve(*given))):
        return certify(replace(honest))  # a copy, whose solution is not yet known


@mutant("V* on a continuum half of what it is")
def _() -> list[rf.Certificate]:
    return misled(lambda found: replace(found, weights=0.5 * found.weights))


@mutant("V* on a continuum larger than it is")
def _() -> list[rf.Certificate]:
    return misled(lambda found: replace(found, weights=found.weights + 2.0))


@mutant("the multipliers of a continuum zero")
def _() -> list[rf.Certificate]:
    with patch.object(nodes.NodeSolution, "lambda_hat", lambda self, states: np.zeros(len(states))):
        return certify(replace(run(FALLS)))
