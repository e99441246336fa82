"""Randomised value iteration on counts: what is drawn, from what, and how few resets it needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.core.errors import InvalidInput
from resetfree.game.contract import Round
from resetfree.game.loop import Game, begin, play
from resetfree.players.dual.penalties import ConstantPenalty
from resetfree.players.tabular.ucbvi import RLSVI, UCBVI
from resetfree.players.testing.battery import check_primal
from resetfree.theory.oracle import Evaluator


def game_of(mdp: rf.FiniteMDP, player: Any, C: float, episodes: int, seed: int = 0) -> tuple[Game, Iterator[Round]]:
    problem, dual = mdp.problem(), ConstantPenalty(C=C)
    game = begin(problem, player, dual, episodes=episodes, seed=seed)
    return game, play(problem, player, dual, game, episodes=episodes, feedback="realised", oracle=Evaluator(mdp))


def naive_q(state: Any, mdp: rf.FiniteMDP, scale: float, cost_part: bool, lam: float) -> Any:
    """Q [H, S, A] from the counts of a pooled game, with the draw of its episode, written out."""
    z = np.random.default_rng([state.seed, state.k]).standard_normal(state.tried.shape)[0]
    H, S, A = mdp.horizon, mdp.n_states, mdp.n_actions
    n = np.maximum(state.tried[0], 1)
    P = np.zeros((S, A, S))
    for s, a, j in np.argwhere(state.seen[0] > 0):
        P[s, a, state.successor[0, s, a, j]] += state.seen[0, s, a, j] / n[s, a]
    Q, V = np.zeros((H, S, A)), np.zeros(S)
    for h in reversed(range(H)):
        V[state.known_last if h == H - 1 else state.known] = -lam
        sigma = scale * (H - h - 1 + cost_part * lam) / np.sqrt(n)
        Q[h] = np.clip(state.earned[0] / n + P @ V + sigma * z, -lam, H - h)
        Q[h][state.tried[0] == 0] = H - h
        V = Q[h].max(axis=1)
    return Q


@pytest.mark.parametrize("cost_part", [False, True])
def test_the_plan_is_greedy_on_the_perturbed_composite(cost_part: bool) -> None:
    mdp = rf.make("grid-v0")
    player = RLSVI(scale=0.3, pooled=True, cost_part=cost_part)
    game, rounds = game_of(mdp, player, 4.0, 60)
    for _ in rounds:
        Q = naive_q(game.primal, mdp, 0.3, cost_part, 4.0)
        chosen = player.plan(game.primal, game.s1, 4.0).policy.argmax(axis=2)
        live = ~game.primal.known
        got = np.take_along_axis(Q, chosen[..., None], axis=2)[..., 0]
        np.testing.assert_allclose(got[:, live], Q.max(axis=2)[:, live], atol=1e-8)


def test_the_draw_comes_from_seed_and_episode_alone() -> None:
    mdp = rf.make("grid-v0")
    player = RLSVI(scale=1.0, cost_part=True)
    game, rounds = game_of(mdp, player, 4.0, 200)
    list(rounds)
    state = game.primal
    first = player.plan(state, 0, 4.0).policy
    np.random.default_rng().random()
    assert (player.plan(state, 0, 4.0).policy == first).all()
    state.k += 1
    later = player.plan(state, 0, 4.0).policy
    state.k -= 1
    state.seed += 1
    other = player.plan(state, 0, 4.0).policy
    assert not (later == first).all()
    assert not (other == first).all()


def test_without_noise_it_is_ucbvi_without_bonus() -> None:
    mdp = rf.make("grid-v0")
    games = [
        [this.episode.states.tolist() for this in game_of(mdp, player, 10.0, 100)[1]]
        for player in (RLSVI(scale=0.0, pooled=True), UCBVI(scale=0.0, pooled=True))
    ]
    assert games[0] == games[1]


def test_it_needs_few_resets_on_the_grid() -> None:
    """Mean over 6 seeds, K = 2000, pooled, fixed penalty B."""
    mdp = rf.make("grid-v0")
    runs = [game_of(mdp, RLSVI(scale=0.02, pooled=True), 38.8664632, 2000, seed)[1] for seed in range(6)]
    assert np.mean([sum(this.episode.reset for this in rounds) for rounds in runs]) <= 16


@pytest.mark.parametrize("options", [{"cost_part": True}, {"monotone": True, "noise": 0.5}], ids=str)
def test_options_keep_the_contract(options: dict[str, Any]) -> None:
    check_primal(RLSVI(**options))


def test_nothing_is_claimed_and_bad_settings_are_refused() -> None:
    problem = rf.make("grid-v0").problem()
    assert not RLSVI().statement(problem, 10).covered
    assert np.isnan(RLSVI().plan(RLSVI().init(problem, 10, 0), 0, 1.0).upper)
    with pytest.raises(InvalidInput, match="scale"):
        RLSVI(scale=-1.0)
    with pytest.raises(InvalidInput, match="noise"):
        RLSVI(noise=float("inf"))
    with pytest.raises(InvalidInput, match="seed"):
        RLSVI().init(problem, 10, -1)
