"""Greedy LSVI-UCB on the composite: fast equals naive, optimism where it is proved, and plans that are kept."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests import bank
from tests.players.linear.naive import PROBLEMS, Naive, check_why_not_proved

import resetfree as rf
from resetfree.game.loop import Game, begin, play
from resetfree.players import dyadic
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.players.linear.greedy_composite import GreedyComposite, composite_beta, largest_betas
from resetfree.players.linear.regression import features_of
from resetfree.players.testing.trial_problems import Scripted
from resetfree.theory.oracle import Evaluator
from resetfree.theory.oracle.dynamic_programming import best_response
from resetfree.theory.proved_widths import CORNERS


def game_of(
    mdp: rf.FiniteMDP, episodes: int, dual: Any = None, seed: int = 0, **settings: Any
) -> tuple[GreedyComposite, Game, Iterator[rf.Round]]:
    primal = GreedyComposite(B=5.0, **settings)
    return primal, *bank.game_of(mdp, primal, dual or ProjectedGradient(B=5.0), episodes, seed)


CASES: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in PROBLEMS} | {
    "hoeffding": ("one-hot", {"variance_aware": False}),
    "pooled": ("few features", {"pooled": True}),
    "pooled, ends reset": ("ends reset", {"pooled": True}),
    "theory": ("few features", {"width": "theory"}),
    "ridge": ("few features", {"reg": 0.5, "scale": 0.3}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_fast_player_is_the_pseudocode(case: str) -> None:
    """Plans of 60 episodes, from the data of the very same game."""
    name, settings = CASES[case]
    mdp = PROBLEMS[name]()
    primal, game, rounds = game_of(mdp, 60, **settings)
    slow = Naive(mdp, features_of(mdp.problem()), primal.ridge(), primal.pooled)
    tuned = primal.width == "tuned"
    beta_r, beta_c = game.primal.beta_r, game.primal.beta_c
    for this in rounds:

        def bonus(h: int, i: int, width: float, cost: float, lam: float = this.lam) -> float:
            x = beta_c * width
            if tuned and primal.variance_aware:
                q = min(max(cost, 0.0), 1.0)
                x = min(x, 2 * np.sqrt(q * (1 - q)) * x + x * x)
            return float(beta_r * width + lam * x)

        if this.k % 4 == 0 or this.k < 4:
            there = slow.backward(this.plan.policy, this.lam, bonus)
            assert this.plan.upper == pytest.approx(there.v[this.s1], abs=1e-6)
            assert this.plan.v_r == pytest.approx(there.v_r[this.s1], abs=1e-6)
            assert this.plan.v_c == pytest.approx(there.v_c[this.s1], abs=1e-6)
        slow.record(this.episode)
    _, _, _, _, q = primal.backward(game.primal, 2.0)
    assert q.min() >= -2.0
    assert (q.max(axis=1) <= mdp.horizon - np.arange(mdp.horizon)).all()


@pytest.mark.parametrize("id", ["grid-v0", "random-linear-v0", "doors-v0"])
@pytest.mark.parametrize("width", ["theory", "proved", "none"])
def test_upper_is_above_the_best_composite_value(id: str, width: str) -> None:
    """With the proved width in every episode and for every multiplier; with none it fails, so the check can."""
    mdp = rf.make(id)
    settings: dict[str, Any] = {"scale": 0.0} if width == "none" else {"width": width}
    _, _, rounds = game_of(mdp, 120, Scripted((0.0, 1.0, 5.0)), **settings)
    best = {}
    for lam in (0.0, 1.0, 5.0):
        response = best_response(mdp, lam)
        best[lam] = response.v_r - lam * response.v_c
    worst = min(this.plan.upper - best[this.lam][this.s1] for this in rounds)
    if width == "none":
        assert worst < -1e-3
    else:
        assert worst >= -1e-9


def test_the_smallest_proved_width_grows_with_the_data_and_needs_no_k() -> None:
    """It is a fraction of the one that knows K, serves pooled data, and is proved with any ridge."""
    mdp = rf.make("random-linear-v0", n_states=5, n_actions=3, d=3, horizon=2)
    primal, game, rounds = game_of(mdp, 200, width="proved", pooled=True, reg=0.5)
    state, layers = game.primal, np.zeros(2, dtype=int)
    first = largest_betas(state.width, state.data.log_det[layers])
    assert first == primal.betas(mdp.problem(), 1) == primal.betas(mdp.problem(), 10**6)
    for _ in rounds:
        pass
    grown = largest_betas(state.width, state.data.log_det[layers])
    assert first < grown < (composite_beta(3, 2, 200, 5.0, 0.05) / 4,) * 2
    told = primal.statement(mdp.problem(), 200)
    assert told.covered
    assert told.constants["bound"] == CORNERS
    assert primal.proof(mdp.problem()).largest_multiplier is None
    state.width = state.width._replace(**{name: 0 * part for name, part in state.width._asdict().items()})
    q = primal.backward(state, 1.0)[4]
    state.width = None
    state.beta_r = state.beta_c = 0.0
    np.testing.assert_array_equal(q, primal.backward(state, 1.0)[4])  # what is planned with is this width
    with pytest.raises(rf.InvalidInput, match="must be tuned or theory in the batched engine"):
        primal.batched_form(mdp.problem(), 10)


def test_the_proved_width_bounds_the_error_of_every_target() -> None:
    """|w.phi - (r + P V)| <= beta width at every pair: both directions of the Bellman inequality."""
    mdp = rf.make("random-linear-v0", n_states=12, n_actions=3)
    primal, game, rounds = game_of(mdp, 200, width="theory")
    for _ in rounds:
        pass
    state, lam = game.primal, 3.0
    _, _, _, _, q = primal.backward(state, lam)
    v, live = np.zeros(mdp.n_states), ~mdp.reset
    for h in reversed(range(mdp.horizon)):
        target = mdp.reward[mdp.model.reward_of_step[h]].ravel() + mdp.transition.matrix(0) @ np.where(live, v, -lam)
        width = np.sqrt(state.data.regression.width2[h])
        rows = np.repeat(live, mdp.n_actions)
        assert (q[h] >= target - 1e-9)[rows].all()
        assert (q[h] <= target + 2 * state.beta_r * width + 1e-9)[rows].all()
        v = q[h].reshape(mdp.n_states, -1).max(axis=1)


def test_the_proved_width_grows_with_what_it_must_cover() -> None:
    base = composite_beta(4, 5, 1000, 5.0, 0.05)
    assert composite_beta(4, 5, 1000, 10.0, 0.05) > base
    assert composite_beta(4, 5, 1000, 5.0, 0.001) > base
    assert composite_beta(8, 5, 1000, 5.0, 0.05) > base
    assert base > 5 + 5  # the bonus of an untried pair reaches both caps


def test_ties_go_to_what_was_tried_most() -> None:
    """Two actions that do the same: the first one tried is the only one tried, as nothing speaks for the other."""
    move = np.zeros((1, 3, 1))
    move[:, :, 0] = 1.0
    mdp = rf.FiniteMDP(move, np.ones((1, 3)), [False], 1)
    _, _, rounds = game_of(mdp, 50)
    assert len({int(this.episode.actions[0]) for this in rounds}) == 1


def test_dyadic_levels_round_up_and_stop_at_the_bound() -> None:
    for bound in (0.5, 1.0, 3.7, 40.0):
        for lam in np.linspace(0.0, bound, 50):
            assert lam <= dyadic(float(lam), bound) <= min(max(2 * lam, 1.0), bound)


@pytest.mark.parametrize("id", ["grid-v0", "random-linear-v0"])
def test_rare_switching_plans_as_every_episode_would_when_it_plans(id: str) -> None:
    """At a switch the plan is that of the same data and level; in between it is the very same array; few passes."""
    mdp, K = rf.make(id), 1500
    primal, game, rounds = game_of(mdp, K, ConstantPenalty(C=3.0), switching="rare", pooled=True)
    always = GreedyComposite(B=5.0, pooled=True)
    state, resets, switches, last = game.primal, 0, 0, None
    stale = True
    for this in rounds:
        if stale:
            switches += 1
        else:
            assert last is not None
            assert this.plan.policy is last or np.array_equal(this.plan.policy, last)
        resets += this.episode.reset
        stale = state.kept.level == -1.0
        last = this.plan.policy
        if stale and this.k < K:
            fresh, v, *_ = always.backward(state, 4.0)
            plan = primal.plan(state, game.s1, 3.0)
            np.testing.assert_array_equal(plan.policy, fresh)
            assert plan.upper == v[game.s1]
    assert state.passes == switches
    d = features_of(mdp.problem()).shape[1]
    bound = d * np.log2(1 + mdp.horizon * K / (d * primal.ridge())) + resets + 1
    assert state.passes <= bound
    assert state.passes < K / 4


def test_rare_switching_costs_little() -> None:
    """Regret and resets of the two ways to plan, the same game otherwise."""
    mdp = rf.make("random-linear-v0", seed=3)
    solution = rf.solve(mdp)
    found = {}
    for switching in ("every", "rare"):
        primal, problem = GreedyComposite(B=5.0, pooled=True, switching=switching), mdp.problem()
        game = begin(problem, primal, ConstantPenalty(C=4.0), episodes=1000, seed=1)
        rounds = play(
            problem, primal, ConstantPenalty(C=4.0), game, episodes=1000, feedback="realised", oracle=Evaluator(mdp)
        )
        exact = [(solution.value[this.s1] - this.exact[0], this.exact[1]) for this in rounds if this.exact is not None]
        found[switching] = np.sum(exact, axis=0)
    assert (found["rare"] <= found["every"] + [30.0, 10.0]).all()


def test_a_new_level_is_a_switch() -> None:
    """Where nothing is learned that doubles a determinant, the level alone decides: 1, 1, 2, 2, 1."""
    mdp = rf.FiniteMDP(np.ones((1, 2, 1)), np.ones((1, 2)), [False], 2)
    _, game, rounds = game_of(mdp, 5, Scripted((0.5, 0.9, 1.1, 1.9, 0.2)), switching="rare", reg=1e6)
    passes = [game.primal.passes for _ in rounds]
    assert passes == [1, 1, 2, 2, 3]


def test_statements_tell_proved_from_tuned() -> None:
    problem = rf.make("random-linear-v0").problem()
    proved = GreedyComposite(B=3.0, width="theory").statement(problem, 1000)
    assert proved.covered
    assert float(proved.constants["beta_r"]) > 10
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "tuned"),
        ({"width": "theory", "pooled": True}, "pooled"),
        ({"width": "theory", "reg": 2.0}, "ridge"),
    ]
    check_why_not_proved(GreedyComposite, cases)


def test_it_needs_a_bound_where_it_uses_one_and_a_finite_problem() -> None:
    grid = rf.make("grid-v0").problem()
    with pytest.raises(rf.InvalidInput, match="'B' of greedy-composite must be a bound"):
        GreedyComposite(width="theory").init(grid, 10, 0)
    rare = GreedyComposite(switching="rare")
    with pytest.raises(rf.InvalidInput, match="'B' of greedy-composite must be a bound"):
        rare.plan(rare.init(grid, 10, 0), 0, 1.0)
    rng = np.random.default_rng(0)
    mdp = rf.make("grid-v0").replace(phi=rng.random((12, 5, 20_000)))
    state: Any = GreedyComposite().init(mdp.problem(), 10, 0)
    assert state.data.regression.gram.shape == (8, 60, 60)
