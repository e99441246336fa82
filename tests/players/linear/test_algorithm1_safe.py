"""Algorithm 1 with elimination inside: both theorems, on problems of every family."""

import numpy as np
import pytest

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players import make_player
from resetfree.problems.finite.safety import feasibility, unsafe_pairs
from resetfree.theory.certificates import RATES, certify


def taken_by_the_best(mdp: rf.FiniteMDP, policy: np.ndarray, s1: int) -> list[tuple[int, int, int]]:
    """The triples (h, s, a) that pi* can take from a start, h from 0, where an action moves."""
    found, here, t = [], {s1}, mdp.transition
    for h in range(mdp.n_transitions):
        after: set[int] = set()
        for s in here:
            a = int(policy[h, s])
            found.append((h, s, a))
            pair = ((0 if t.stationary else h) * mdp.n_states + s) * mdp.n_actions + a
            after |= set(t.indices[t.indptr[pair] : t.indptr[pair + 1]].tolist())
        here = after
    return found


@pytest.mark.parametrize("boundary", ["physical", "literal"])
@pytest.mark.parametrize("draw", range(7))
def test_resets_are_at_most_unsafe_pairs_and_the_best_policy_is_never_excluded(draw: int, boundary: str) -> None:
    """With a multiplier that changes all the time; V_c is 0 at every start, whatever was seen."""
    mdp = rf.make("generated-v0", draw=draw).replace(boundary=boundary, phi=None)
    if not feasibility(mdp).holds:
        pytest.skip("some start has no reset-free policy")
    problem, best = mdp.problem(), rf.solve(mdp)
    primal, dual = make_player("primal", "algorithm1-safe"), make_player("dual", "constant-penalty", {"C": 3.0})
    game, falls = begin(problem, primal, dual, episodes=150, seed=draw), 0
    for this in play(problem, primal, dual, game, episodes=150):
        falls += this.episode.reset
        assert this.plan.v_c == 0.0
        assert this.plan.upper >= best.value[this.s1] - 1e-9  # fails with probability 0.05 a problem
        allowed = game.primal.allowed
        for h, s, a in taken_by_the_best(mdp, best.policy, int(game.s1)):
            assert allowed[min(h, len(allowed) - 1), s, a]
    assert falls <= unsafe_pairs(mdp, per_step=primal.keeps_steps_apart(problem))


def test_the_last_action_of_a_literal_episode_is_not_excluded() -> None:
    """It moves nothing, and pi* takes the pair that would fall: the reward is there."""
    P = np.zeros((2, 2, 2))
    P[0] = [[1, 0], [0, 1]]
    reward, reset, first = np.array([[0.0, 1.0], [0, 0]]), np.array([False, True]), np.array([1.0, 0])
    mdp = rf.FiniteMDP(P, reward, reset, 3, start=first, restart=first, boundary="literal")
    run = rf.learn(mdp, "algorithm1-safe", episodes=400, seed=0)
    assert run.realised_resets[-1] == 1
    assert rf.solve(mdp).value[0] == 1.0
    assert run.columns["v_r"][-1] > 0.9
    assert not [c.claim for c in certify(run) if c.status == "proved" and not c.holds]


def test_both_theorems_are_certified_against_a_learning_dual_player() -> None:
    run = rf.learn("grid-v0", "algorithm1-safe", "adagrad-norm", episodes=400, seed=3, feedback="realised")
    found = {c.claim: c for c in certify(run)}
    rates = [found[claim] for claim in RATES]
    assert [c.status for c in rates] == ["proved"] * 3
    assert all(c.holds for c in rates)
    assert rates[2].detail["on_paths"] == 18
    lam = float(run.columns["lam"].max())
    assert lam > 0
    path = next(c for c in found.values() if "unsafe pairs (s, a)" in c.claim)
    assert (path.rhs, path.holds) == (18, True)
    problem, primal = rf.make("grid-v0").problem(), make_player("primal", "algorithm1-safe")
    alone = primal.primal_regret_bound(problem, 400, 400).regret
    assert rates[0].rhs == pytest.approx(alone + lam * rates[2].rhs)
    assert rates[1].rhs < alone  # the model says more of the pairs


def test_certified_regret_is_below_all_that_can_be_earned() -> None:
    """On grid-v0 from 10^5 episodes on: less than K H."""
    mdp, primal, K = rf.make("grid-v0"), make_player("primal", "algorithm1-safe", {"anytime": True}), 10**5
    problem = mdp.problem()
    with_model = primal.regret_with_model(mdp, problem, K, K)
    assert with_model < primal.primal_regret_bound(problem, K, K).regret < 8 * K
    assert with_model < 0.4 * 8 * K
