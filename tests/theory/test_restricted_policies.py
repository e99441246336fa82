"""The lemma on restricted policies: tried on many policies, shown for all of them, and false where Abar is wrong."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.random_mdps import closed_mdp, rough_mdp
from tests.property.strategies import exact

import resetfree as rf
from resetfree.problems.finite.safety import SafeSets
from resetfree.theory import theorems
from resetfree.theory.oracle.dynamic_programming import Solution, can_leave, can_reset
from resetfree.theory.theorems import certify_problem, every_restricted_policy, restricted_policies

seeds = st.integers(0, 2**32 - 1)


def with_abar(known: Solution, change: Any) -> Solution:
    """The solution with another Abar, [H, S, A]."""
    safe = np.array(known.safe_actions)
    change(safe)
    return replace(known, safe=SafeSets(safe, np.arange(len(safe)), known.safe.last))


def test_the_policies_tried_are_many_and_no_two_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []

    def remember(mdp: rf.FiniteMDP, policy: Any, solution: Any = None) -> Any:
        tried.append(np.asarray(policy, dtype=np.float64).tobytes())
        return restricted_policies(mdp, policy, solution)

    monkeypatch.setattr(theorems, "restricted_policies", remember)
    mdp = rf.make("grid-v0")
    found = [c for c in certify_problem(mdp) if "Abar from a feasible start iff" in c.claim]
    assert len(tried) == len(set(tried)) == found[0].detail["policies"] >= 30
    assert 0 < found[0].detail["all_restricted"] < 30 * found[0].detail["starts"]  # of both kinds


@exact(100)
@given(seed=seeds)
def test_the_lemma_for_all_policies_at_once(seed: int) -> None:
    for mdp in (rough_mdp(seed), closed_mdp(seed)):
        for certificate in every_restricted_policy(mdp):
            assert certificate.holds, certificate


@exact(40)
@given(seed=seeds)
def test_all_policies_at_once_is_every_policy_one_by_one(seed: int) -> None:
    """On problems so small that every deterministic policy can be listed; supports of others are unions of theirs."""
    mdp = rough_mdp(seed)
    rng = np.random.default_rng(seed)
    known = rf.solve(mdp, starts=[])
    cells = mdp.horizon * mdp.n_states
    if mdp.n_actions**cells <= 64:
        policies = [np.reshape(actions, known.policy.shape) for actions in product(range(mdp.n_actions), repeat=cells)]
    else:
        policies = [rng.integers(mdp.n_actions, size=known.policy.shape) for _ in range(64)]
    assert all(c.holds for c in every_restricted_policy(mdp, known))
    for policy in policies:
        feasible = known.feasible
        assert np.array_equal(can_leave(mdp, policy, known.safe)[feasible], can_reset(mdp, policy)[feasible])


def test_an_abar_with_one_action_too_many_or_too_few_is_found() -> None:
    mdp = rf.make("grid-v0")
    known = rf.solve(mdp)
    h, s, a = np.argwhere(~known.safe_actions & known.safe_actions.any(axis=2, keepdims=True))[0]

    def allow(safe: Any) -> None:
        safe[h, s, a] = True

    def forbid(safe: Any) -> None:
        safe[h, s] = False
        safe[h, s, known.policy[h, s]] = True

    more, fewer = with_abar(known, allow), with_abar(known, forbid)
    inside, outside = every_restricted_policy(mdp, more)
    assert (inside.holds, outside.holds) == (False, True)
    assert inside.witness == f"step {h + 1}, {mdp.state_names[s]} (index {s}), action {mdp.action_names[a]}"
    assert known.safe_actions[h, s].sum() > 1
    inside, outside = every_restricted_policy(mdp, fewer)
    assert (inside.holds, outside.holds) == (True, False)
    best = np.eye(mdp.n_actions)[known.policy]
    best[h, s] = np.eye(mdp.n_actions)[a]
    assert [c.holds for c in restricted_policies(mdp, best, more)] == [False, False]  # keeps to it, and is reset


@pytest.mark.parametrize("seed", range(20))
def test_any_wrong_abar_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = closed_mdp(seed)
    known = rf.solve(mdp, starts=[])
    wrong = known.safe_actions.copy()
    states = np.stack([known.safe.states(h) for h in range(1, mdp.horizon + 1)])
    h, s = rng.choice(np.argwhere(states))
    wrong[h, s, rng.integers(mdp.n_actions)] ^= True

    def swap(safe: Any) -> None:
        safe[:] = wrong

    assert not all(c.holds for c in every_restricted_policy(mdp, with_abar(known, swap)))
