"""Mutants of runs whose plans were old: imported wherever the battery is run."""

from unittest.mock import patch

import numpy as np
from tests.mutants.battery import forged, mutant
from tests.mutants.honest import run

import resetfree as rf
from resetfree.theory.certificates import certify, claims_dual


@mutant("plans that rest on rounds to come")
def _() -> list[rf.Certificate]:
    return forged("old plans", based_on=lambda column: column + 7)


@mutant("plans from before a reset")
def _() -> list[rf.Certificate]:
    return forged("old plans, support elimination", based_on=0)


@mutant("old plans taken for new")
def _() -> list[rf.Certificate]:
    return forged("old plans", based_on=lambda column: np.arange(len(column)))


@mutant("lambda of old plans negative")
def _() -> list[rf.Certificate]:
    return [*forged("old plans", lam=-1e4), *forged("old plans, one multiplier", lam=-1e4)]


@mutant("missed steps computed as if plans were new")
def _() -> list[rf.Certificate]:
    with patch.object(claims_dual, "missed_steps", lambda sizes, steps, based_on: np.zeros(len(based_on))):
        return certify(run("old plans"))
