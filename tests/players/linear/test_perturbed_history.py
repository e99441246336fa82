"""Perturbed histories: the noise has the law it should, comes from seed and episode alone, and the pass is naive's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.players.linear.naive_composite import PROBLEMS, Naive, with_features

import resetfree as rf
from resetfree.core.errors import InvalidInput
from resetfree.game.contract import Round
from resetfree.game.loop import Game, begin, play
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.players.linear.lsvi import PerturbedHistory
from resetfree.players.linear.regression import features_of


def game_of(
    mdp: rf.FiniteMDP, episodes: int, seed: int = 0, **settings: Any
) -> tuple[PerturbedHistory, Game, Iterator[Round]]:
    primal, dual, problem = PerturbedHistory(**settings), ProjectedGradient(B=5.0), mdp.problem()
    game = begin(problem, primal, dual, episodes=episodes, seed=seed)
    return primal, game, play(problem, primal, dual, game, episodes=episodes, feedback="realised")


@pytest.mark.parametrize("case", PROBLEMS)
def test_the_fast_player_is_the_pseudocode(case: str) -> None:
    """Plans of 60 episodes, the noise given."""
    mdp = PROBLEMS[case]()
    primal, game, rounds = game_of(mdp, 60)
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
    primal, game, rounds = game_of(mdp, 30, draws=1, reg=1.0)
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
    primal, game, rounds = game_of(rf.make("grid-v0"), 3)
    state = game.primal
    seen = []
    for _ in rounds:
        seen.append(primal.noise(state))
        np.testing.assert_array_equal(primal.noise(state), seen[-1])
    assert not np.array_equal(seen[0], seen[1])
    state.seed = 1
    assert not np.array_equal(primal.noise(state), seen[-1])


def test_pooled_data_share_their_noise() -> None:
    primal, game, _ = game_of(rf.make("grid-v0"), 3, pooled=True)
    assert primal.noise(game.primal).shape == (1, 60)


def test_it_claims_nothing_and_refuses_bad_settings() -> None:
    told = PerturbedHistory().statement(rf.make("grid-v0").problem(), 100)
    assert not told.covered
    assert "tuned" in told.why
    assert PerturbedHistory(scale=0.0).ridge() == 1.0
    for bad in ({"scale": -1.0}, {"reg": 0.0}, {"draws": 0}):
        with pytest.raises(InvalidInput, match="of perturbed-history must be"):
            PerturbedHistory(**bad)
