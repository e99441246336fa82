"""Beliefs about danger as they are defined: every hypothesis, cell by cell, in a dictionary."""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import resetfree as rf
from resetfree.players.elimination.rule_class import MIX, P0, RHO
from resetfree.players.elimination.rule_elimination import RuleElimination


def naive_beliefs(
    cells: NDArray[np.int64], prior: NDArray[np.float64], falls: NDArray[np.int64], stays: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[R] that a row can fall, and that it falls at the next try, by going through every labelling of every rule.

    cells: [J, R]; prior: [J] weights; falls, stays: [R] of one action.
    """
    n_rows = cells.shape[1]
    total, fatal, falling = 0.0, np.zeros(n_rows), np.zeros(n_rows)
    for cell, weight in zip(cells, prior, strict=True):
        names = sorted(set(cell.tolist()))
        for rho, p0, mix in zip(RHO, P0, MIX, strict=True):
            for labels in product((False, True), repeat=len(names)):
                label = dict(zip(names, labels, strict=True))
                mass = float(weight * mix) * math.prod(p0 if one else 1.0 - p0 for one in labels)
                for r in range(n_rows):
                    if label[cell[r]]:
                        mass *= rho ** int(falls[r]) * (1.0 - rho) ** int(stays[r])
                    elif falls[r]:
                        mass = 0.0
                total += mass
                hit = np.array([label[c] for c in cell.tolist()])
                fatal += mass * hit
                falling += mass * hit * rho
    return fatal / total, falling / total


@dataclass(frozen=True)
class Forgetful(RuleElimination):
    """A mutant that forgets every reset, and believes in its rules all the more."""

    name: ClassVar[str] = "forgetful"

    def update(self, state: Any, round: rf.Round) -> Any:
        """Learn nothing from a fall."""
        return state if round.episode.reset else super().update(state, round)
