"""The oracle's player: nobody answers a multiplier better, and what it says of itself is exact."""

import numpy as np
import pytest
from tests.property.random_mdps import rough_mdp, sparse_policy

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.players.tabular.references import BestResponse
from resetfree.theory.oracle import Evaluator
from resetfree.theory.oracle.dynamic_programming import best_response, solve

MULTIPLIERS = (0.0, 0.3, 1.0, 7.0, 1e6)


@pytest.mark.parametrize("seed", range(12))
def test_it_equals_the_oracle_and_its_estimates_are_exact(seed: int) -> None:
    mdp = rough_mdp(seed)
    player = BestResponse()
    state = player.init(mdp.problem(), 10, 0)
    starts = np.flatnonzero(~mdp.reset)
    for lam in MULTIPLIERS:
        truth = best_response(mdp, lam, baseline=solve(mdp, starts=[]).policy)
        for s in starts:
            plan = player.plan(state, int(s), lam)
            assert plan.policy.shape == (mdp.horizon, mdp.n_states)
            assert (plan.v_r, plan.v_c) == (truth.v_r[s], min(truth.v_c[s], 1.0))  # the same arithmetic: no tolerance
            assert plan.upper == truth.v_r[s] - lam * truth.v_c[s]
            values = rf.evaluate(mdp, plan.policy)
            assert values.v_r[s] == pytest.approx(plan.v_r, abs=1e-12)
            assert values.v_c[s] == pytest.approx(plan.v_c, abs=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_no_other_policy_is_better(seed: int) -> None:
    mdp = rough_mdp(seed)
    rng = np.random.default_rng(seed)
    player = BestResponse()
    state = player.init(mdp.problem(), 10, 0)
    others = [rf.evaluate(mdp, sparse_policy(mdp, rng)) for _ in range(40)]
    for lam in MULTIPLIERS:
        for s in np.flatnonzero(~mdp.reset):
            upper = player.plan(state, int(s), lam).upper
            for other in others:
                assert other.v_r[s] - lam * other.v_c[s] <= upper + 1e-12 * (1 + lam)


def test_ties_go_to_the_smaller_reset_probability() -> None:
    mdp = rf.make("politex-trap-v0")
    player = BestResponse()
    state = player.init(mdp.problem(), 10, 0)
    start = mdp.state_names.index("A")
    at_the_tie = player.plan(state, start, 1.0)  # risky pays 1 and costs 1: nothing is gained or lost
    assert (at_the_tie.v_r, at_the_tie.v_c, at_the_tie.upper) == (0.0, 0.0, 0.0)
    below = player.plan(state, start, 1.0 - 1e-9)
    assert (below.v_r, below.v_c) == (1.0, 1.0)


def test_with_a_sufficient_multiplier_it_is_never_reset_and_earns_the_best_reset_free_value() -> None:
    mdp = rf.make("grid-v0")
    solution = solve(mdp)
    player = BestResponse()
    state = player.init(mdp.problem(), 10, 0)
    for s in np.flatnonzero(solution.feasible):
        plan = player.plan(state, int(s), float(solution.lambda_hat[s]) + 1.0)
        assert plan.v_c == 0.0
        assert plan.v_r == pytest.approx(solution.value[s], abs=1e-12)
        assert plan.upper >= solution.value[s] - 1e-12


def test_its_upper_bound_holds_in_a_game() -> None:
    mdp = rf.make("grid-v0")
    primal, dual, problem = BestResponse(), ProjectedGradient(B=38.8664632), mdp.problem()
    value = solve(mdp, starts=[]).value
    game = begin(problem, primal, dual, episodes=300, seed=3)
    for this in play(problem, primal, dual, game, episodes=300, oracle=Evaluator(mdp)):
        assert this.exact is not None
        assert this.plan.upper >= value[this.s1] - 1e-12
        assert (this.plan.v_r, this.plan.v_c) == pytest.approx(this.exact, abs=1e-12)
    assert primal.statement(problem, 300).covered


def test_bad_input_and_problems_without_an_oracle_are_refused() -> None:
    player = BestResponse()
    state = player.init(rf.make("grid-v0").problem(), 10, 0)
    for lam in (float("nan"), -0.5, float("inf")):
        with pytest.raises(rf.InvalidInput, match="A multiplier must be a finite number"):
            player.plan(state, 0, lam)
    with pytest.raises(rf.NotCertifiable, match="has no exact oracle"):
        player.init(rf.make("continuous-linear-v0").problem(), 10, 0)
