"""LSVI-UCB++ and perturbed history: their formulas again, plainly, and what they promise."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests import bank
from tests.players.linear.naive import PROBLEMS, CompositePass, Naive, with_features

import resetfree as rf
from resetfree.game.loop import Game, begin, play
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.players.linear.lsvi import PerturbedHistory, WeightedLSVI
from resetfree.players.linear.regression import features_of
from resetfree.players.testing.trial_problems import Scripted
from resetfree.theory.oracle.dynamic_programming import best_response

GROWING = Scripted((0.0, 0.5, 1.0, 1.0, 4.0, 2.0))


def game_of(
    mdp: rf.FiniteMDP, episodes: int, dual: Any = GROWING, **settings: Any
) -> tuple[WeightedLSVI, Game, Iterator[rf.Round]]:
    primal = WeightedLSVI(**settings)
    return primal, *bank.game_of(mdp, primal, dual, episodes)


def weights(slow: Naive, made: CompositePass, episode: rf.Episode, scale: float, lam: float) -> list[float]:
    """One over the relative variance of each step, from the data before the episode."""
    horizon, found = slow.mdp.horizon, []
    reach = horizon + lam
    for h, a in enumerate(episode.actions):
        x = slow.phi[int(episode.states[h]) * slow.mdp.n_actions + int(a)]
        fit = slow.fit(h)
        v, low = made.values[h], made.below[h]
        mean = np.clip(fit.w((v + lam).__getitem__, False) @ x, 0.0, reach)
        square = np.clip(fit.w(((v + lam) ** 2).__getitem__, False) @ x, 0.0, reach**2)
        gap = np.clip(fit.w((v - low).__getitem__, False) @ x, 0.0, reach)
        spread = (max(square - mean**2, 0.0) + reach * gap) / reach**2
        found.append(1.0 / float(np.clip(max(spread, scale * np.sqrt(x @ fit.inverse @ x)), 1.0 / horizon, 1.0)))
    return found


@pytest.mark.parametrize("case", ["one-hot", "few features", "literal", "layered", "ends reset", "one action"])
@pytest.mark.parametrize("running", [False, True])
def test_the_fast_player_is_the_pseudocode(case: str, running: bool) -> None:
    """Every plan of 25 episodes, and the weight of every sample."""
    mdp = PROBLEMS[case]()
    primal, game, rounds = game_of(mdp, 25, running=running)
    slow = Naive(mdp, features_of(mdp.problem()), primal.ridge())
    above: NDArray[np.float64] | None = None
    under: NDArray[np.float64] | None = None
    top = 0.0
    for this in rounds:
        lam = max(this.lam, top) if running else this.lam

        def bonus(h: int, i: int, width: float, cost: float, reach: float = mdp.horizon + lam) -> float:
            return primal.scale * reach * width

        made = slow.backward(this.plan.policy, lam, bonus, above, None if under is None else under - (lam - top))
        assert this.plan.upper == pytest.approx(made.v[this.s1], abs=1e-6)
        assert this.plan.v_r == pytest.approx(made.v_r[this.s1], abs=1e-6)
        assert this.plan.v_c == pytest.approx(made.v_c[this.s1], abs=1e-6)
        slow.record(this.episode, weights(slow, made, this.episode, primal.scale, lam))
        if running:
            above, under, top = made.q, made.q_check, lam
    for h in range(mdp.horizon):
        inverse = slow.fit(h).inverse
        width2 = np.einsum("id,de,ie->i", slow.phi, inverse, slow.phi)
        np.testing.assert_allclose(game.primal.data.regression.width2[h], width2, rtol=1e-5, atol=1e-9)


def test_running_bounds_only_tighten_and_the_multiplier_never_falls() -> None:
    primal, game, rounds = game_of(rf.make("grid-v0"), 200, running=True)
    state = game.primal
    q, low, top = state.last.q.copy(), state.last.q_check.copy(), 0.0
    for this in rounds:
        assert state.top == max(top, this.lam)
        assert (state.last.q <= np.maximum(q, -state.top) + 1e-12).all()
        assert (state.last.q_check >= low - (state.top - top) - 1e-12).all()
        q, low, top = state.last.q.copy(), state.last.q_check.copy(), state.top
    lower, higher = primal.plan(state, 0, 0.0), primal.plan(state, 0, top)
    np.testing.assert_array_equal(lower.policy, higher.policy)
    assert primal.plan(state, 0, top + 5.0).upper <= higher.upper + 1e-12


@pytest.mark.parametrize("id", ["grid-v0", "random-linear-v0"])
def test_with_a_large_width_the_best_value_lies_between(id: str) -> None:
    mdp = rf.make(id)
    _, game, rounds = game_of(mdp, 150, ConstantPenalty(C=2.0), running=True, scale=10.0, reg=1.0)
    response = best_response(mdp, 2.0)
    best = response.v_r - 2.0 * response.v_c
    for this in rounds:
        assert this.plan.upper >= best[this.s1] - 1e-9
        lower = game.primal.last.q_check[0].reshape(mdp.n_states, -1).max(axis=1)
        assert lower[this.s1] <= best[this.s1] + 1e-9


def test_rare_switching_saves_passes() -> None:
    mdp, K = rf.make("random-linear-v0", seed=2), 1000
    _, game, rounds = game_of(mdp, K, ConstantPenalty(C=3.0), switching="rare", pooled=True)
    resets = sum(this.episode.reset for this in rounds)
    assert game.primal.passes < K / 5 + resets
    _, each, rounds = game_of(mdp, 50, ConstantPenalty(C=3.0))
    for _ in rounds:
        pass
    assert each.primal.passes == 50


def test_certain_outcomes_count_up_to_the_horizon_times() -> None:
    """One state that leads to itself and pays half: in the end a sample counts H times as much as a plain one."""
    mdp = rf.FiniteMDP(np.ones((1, 1, 1)), [[0.5]], [False], 4)
    _, game, rounds = game_of(mdp, 3000, ConstantPenalty(C=1.0))
    counted = []
    for this in rounds:
        counted.append(1.0 / game.primal.data.regression.width2[0, 0])
        assert this.plan.upper >= 2.0 - 1e-9
    gains = np.diff(counted)
    assert gains.min() > 1 - 1e-6
    assert gains.max() < 4 + 1e-6
    assert gains[-1] > 2.0


def perturbed_game(
    mdp: rf.FiniteMDP, episodes: int, seed: int = 0, **settings: Any
) -> tuple[PerturbedHistory, Game, Iterator[rf.Round]]:
    primal, dual, problem = PerturbedHistory(**settings), ProjectedGradient(B=5.0), mdp.problem()
    game = begin(problem, primal, dual, episodes=episodes, seed=seed)
    return primal, game, play(problem, primal, dual, game, episodes=episodes, feedback="realised")


@pytest.mark.parametrize("case", PROBLEMS)
def test_the_fast_player_is_the_pseudocode_of_perturbed_history(case: str) -> None:
    """Plans of 60 episodes, the noise given."""
    mdp = PROBLEMS[case]()
    primal, game, rounds = perturbed_game(mdp, 60)
    slow = Naive(mdp, features_of(mdp.problem()), primal.ridge())
    noise = primal.noise(game.primal)
    for this in rounds:
        if this.k % 6 == 1:

            def bonus(h: int, i: int, width: float, cost: float, z: Any = noise, lam: float = this.lam) -> float:
                return float(primal.scale * (mdp.horizon - h + lam) * z[h, i])

            there = slow.backward(this.plan.policy, this.lam, bonus)
            assert np.isnan(this.plan.upper)
            assert this.plan.v_r == pytest.approx(there.v_r[this.s1], abs=1e-6)
            assert this.plan.v_c == pytest.approx(there.v_c[this.s1], abs=1e-6)
        slow.record(this.episode)
        noise = primal.noise(game.primal)


@pytest.mark.parametrize("mdp", [rf.make("grid-v0"), with_features(rf.make("grid-v0"), 5)], ids=["one-hot", "features"])
def test_the_noise_has_the_covariance_of_the_regression(mdp: rf.FiniteMDP) -> None:
    """Over many seeds: mean zero and covariance phi Lam^-1 phi^T with one draw; larger with more."""
    primal, game, rounds = perturbed_game(mdp, 30, draws=1, reg=1.0)
    slow = Naive(mdp, features_of(mdp.problem()), 1.0)
    for this in rounds:
        slow.record(this.episode)
    state, n = game.primal, 4000
    draws = []
    for seed in range(n):
        state.seed = seed
        draws.append(primal.noise(state)[0])
    cov = slow.phi @ slow.fit(0).inverse @ slow.phi.T
    assert np.abs(np.mean(draws, axis=0)).max() < 6 / np.sqrt(n)
    assert np.abs(np.cov(np.array(draws).T) - cov).max() < 10 / np.sqrt(n)
    many = PerturbedHistory(draws=8, reg=1.0).noise(state)
    assert many.mean() > 0.5 * np.sqrt(np.diag(cov)).mean()


def test_the_noise_comes_from_the_seed_and_the_episode() -> None:
    primal, game, rounds = perturbed_game(rf.make("grid-v0"), 3)
    state = game.primal
    seen = []
    for _ in rounds:
        seen.append(primal.noise(state))
        np.testing.assert_array_equal(primal.noise(state), seen[-1])
    assert not np.array_equal(seen[0], seen[1])
    state.seed = 1
    assert not np.array_equal(primal.noise(state), seen[-1])


def test_pooled_data_share_their_noise() -> None:
    primal, game, _ = perturbed_game(rf.make("grid-v0"), 3, pooled=True)
    assert primal.noise(game.primal).shape == (1, 60)
