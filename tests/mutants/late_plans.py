"""Mutants of runs whose plans were old, and of fleets: imported wherever the battery is run."""

from unittest.mock import patch

import numpy as np
from tests.mutants.battery import LearnsNothing, forged, mutant
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


@mutant("a fleet that learns nothing")
def _() -> list[rf.Certificate]:
    found = []
    for safe in range(2):  # one of two actions is a reset, each time; the player begins with either
        transition = np.zeros((2, 2, 2))
        transition[0, safe, 0] = transition[0, 1 - safe, 1] = transition[1, :, 1] = 1
        mdp = rf.FiniteMDP(transition, np.zeros((2, 2)), [False, True], 1)
        found += certify(rf.learn_fleet(mdp, LearnsNothing(), n=3, episodes=200, feedback="realised"))
    return found


@mutant("resets of a fleet made up")
def _() -> list[rf.Certificate]:
    return forged("a fleet", reset=True, based_on=lambda column: np.arange(len(column)))


@mutant("plans of a fleet that rest on rounds to come")
def _() -> list[rf.Certificate]:
    return forged("a fleet", based_on=lambda column: column + 7)


@mutant("a machine that plays two episodes at a time")
def _() -> list[rf.Certificate]:
    return forged("a fleet", machine=1)
