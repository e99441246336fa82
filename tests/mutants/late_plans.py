"""Mutants of runs whose plans were old, and of fleets: imported wherever the battery is run."""

from unittest.mock import patch

import numpy as np
from tests.mutants.battery import LearnsNothing, forgeries, mutant, of, one_of_two
from tests.mutants.honest import run

import resetfree as rf
from resetfree.theory.certificates import certify, claims_dual

forgeries(
    {
        "plans that rest on rounds to come": [of("old plans", based_on=lambda column: column + 7)],
        "plans from before a reset": [of("old plans, support elimination", based_on=0)],
        "old plans taken for new": [of("old plans", based_on=lambda column: np.arange(len(column)))],
        "lambda of old plans negative": [of("old plans", lam=-1e4), of("old plans, one multiplier", lam=-1e4)],
        "resets of a fleet made up": [of("a fleet", reset=True, based_on=lambda column: np.arange(len(column)))],
        "plans of a fleet that rest on rounds to come": [of("a fleet", based_on=lambda column: column + 7)],
        "a machine that plays two episodes at a time": [of("a fleet", machine=1)],
    },
    __name__,
)


@mutant("missed steps computed as if plans were new")
def _() -> list[rf.Certificate]:
    with patch.object(claims_dual, "missed_steps", lambda sizes, steps, based_on: np.zeros(len(based_on))):
        return certify(run("old plans"))


@mutant("a fleet that learns nothing")
def _() -> list[rf.Certificate]:
    fleets = (rf.learn_fleet(mdp, LearnsNothing(), n=3, episodes=200, feedback="realised") for mdp in one_of_two())
    return [c for fleet in fleets for c in certify(fleet)]
