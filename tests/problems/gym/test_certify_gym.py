"""The record of a run on an environment: starts follow ends but where somebody put the agent."""

import dataclasses

import numpy as np
import pytest

import resetfree as rf
from resetfree.theory.certificates.record import record_claims

FOLLOWS = "every episode starts where the one before left the agent (rounds in which it does not)"


@pytest.mark.parametrize("name", ["gym:FrozenLake-v1", "gym:CartPole-v1"])
def test_starts_follow_ends_but_after_an_intervention(name: str) -> None:
    problem = rf.from_gym(name, horizon=4)
    run = rf.learn(problem, "uniform", "constant-penalty", episodes=40, settings={"dual": {"C": 1.0}}, seed=3)

    def claim(run: rf.Run) -> rf.Certificate:
        return next(one for one in record_claims(run) if one.claim == FOLLOWS)

    assert run.realised_resets[-1] > 0
    assert claim(run).holds
    assert claim(dataclasses.replace(run, interventions=())).lhs == run.columns["reset"][:-1].sum()
    k = int(np.flatnonzero(~run.columns["reset"][:-1])[0]) + 1  # starts where the one before ended
    starts = run.columns["s1"].copy()
    starts[k] = starts[k] + 1
    found = claim(dataclasses.replace(run, columns={**run.columns, "s1": starts}))
    assert (found.holds, found.lhs, found.witness) == (False, 1, f"round {k + 1}")
