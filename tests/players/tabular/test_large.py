"""Large problems: the lazy forms of players and evaluation give the numbers of the whole ones, and stay small."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.property.random_mdps import rough_mdp, sparse_policy

import resetfree as rf
from resetfree.core.state import dump, load
from resetfree.game.loop import Game, begin, play
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.players.elimination import EliminationState, LargeEliminationState
from resetfree.players.elimination.support_elimination import SupportElimination
from resetfree.players.linear import linear_ucb
from resetfree.players.linear.baselines import GhoshSoftmax
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.players.tabular import large_problems as _large
from resetfree.players.tabular.counts import Counted
from resetfree.players.tabular.sparse_counts import SeenCounts
from resetfree.players.tabular.ucbvi import RLSVI, UCBVI
from resetfree.problems.finite.tabular_policy import LazyPolicy, as_policy
from resetfree.theory.assumptions import reachable_starts
from resetfree.theory.oracle import Evaluator

Floats = NDArray[np.float64]


@dataclass
class Told:
    """A round with its whole policy and what that is worth by the backward pass over all states."""

    round: rf.Round
    policy: Floats
    exact: tuple[float, float]


def told(mdp: rf.FiniteMDP, player: rf.PrimalPlayer[Any], episodes: int, seed: int, whole: bool) -> Iterator[Told]:
    """Play with every state kept whole, or with none."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (linear_ucb, _large):
            patch.setattr(module, "SMALL", 10**12 if whole else -1)
        problem, dual, evaluator = mdp.problem(), ProjectedGradient(B=5.0), Evaluator(mdp)
        game = begin(problem, player, dual, episodes=episodes, seed=seed)
    kept: list[Any] = []

    def oracle(policy: Any, s1: int) -> tuple[float, float]:
        assert isinstance(policy, LazyPolicy) is not whole
        values = evaluator(policy, s1)
        table = np.array(policy)
        kept[:] = [table, evaluator(table, s1)]
        return values

    for this in play(problem, player, dual, game, episodes=episodes, oracle=oracle):
        yield Told(this, *kept)


def assert_same(mdp: rf.FiniteMDP, player: rf.PrimalPlayer[Any], episodes: int, seed: int = 0) -> None:
    """The same rounds: episodes and greedy policies equal, softmax and values to rounding."""
    exact = not isinstance(player, LinearUCB)  # counts are added up in the same order; the regression is not
    pairs = zip(told(mdp, player, episodes, seed, True), told(mdp, player, episodes, seed, False), strict=True)
    for one, other in pairs:
        a, b = one.round, other.round
        np.testing.assert_array_equal(a.episode.states, b.episode.states)
        np.testing.assert_array_equal(a.episode.actions, b.episode.actions)
        np.testing.assert_array_equal(a.episode.rewards, b.episode.rewards)
        if exact:
            np.testing.assert_array_equal(one.policy, other.policy)
            assert (a.plan.v_r, a.plan.v_c, a.plan.upper) == (b.plan.v_r, b.plan.v_c, b.plan.upper)
        else:
            np.testing.assert_allclose(one.policy, other.policy, atol=1e-12 * mdp.horizon * episodes)
            np.testing.assert_allclose(
                (a.plan.v_r, a.plan.v_c, a.plan.upper), (b.plan.v_r, b.plan.v_c, b.plan.upper), rtol=1e-12, atol=1e-12
            )
        assert b.exact is not None
        np.testing.assert_allclose(b.exact, other.exact, rtol=1e-12, atol=1e-300)


PROBLEMS = {
    "grid": rf.make("grid-v0"),
    "ends reset": rf.make("pits-v0", n=7, slip=0.1),
    "literal": rf.make("pits-v0", slip=0.2).replace(boundary="literal"),
    "layered": rf.make("doors-v0"),
    "contexts": rf.make("contexts-v0"),
    "noise": rf.make("grid-v0").replace(noise=0.3),
}
PLAYERS: dict[str, rf.PrimalPlayer[Any]] = {
    "algorithm 1": LinearUCB(B=5.0),
    "algorithm 1, anytime": LinearUCB(B=5.0, anytime=True, split=False),
    "cap H": GhoshSoftmax(B=5.0),
    "ucbvi": UCBVI(),
    "ucbvi, two-sided": UCBVI(bonus="bernstein", width="theory", cost_part=True),
    "ucbvi, noisy": UCBVI(bonus="bernstein", noise=0.5, cost_part=True, ties="random", monotone=True),
    "elimination": SupportElimination(),
    "elimination, per step": SupportElimination(pooled=False, ties="first", width="theory"),
}
POOLED: dict[str, rf.PrimalPlayer[Any]] = {
    "algorithm 1, pooled": LinearUCB(B=5.0, pooled=True),
    "ucbvi, pooled": UCBVI(pooled=True),
}


PAIRS = [
    (problem, name)
    for problem, mdp in PROBLEMS.items()
    for name in [*PLAYERS, *(POOLED if mdp.stationary else ())]  # data of different steps cannot be pooled
]


@pytest.mark.parametrize(("problem", "name"), PAIRS)
def test_lazy_players_play_the_same_rounds(problem: str, name: str) -> None:
    assert_same(PROBLEMS[problem], (PLAYERS | POOLED)[name], 60)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), which=st.integers(0, 9))
def test_lazy_players_play_the_same_rounds_on_random_problems(seed: int, which: int) -> None:
    mdp = rough_mdp(seed)
    assume(not (reachable_starts(mdp).states & mdp.reset).any())  # a new context may be one in which nothing can start
    player = list((PLAYERS | POOLED).values())[which]
    if which >= len(PLAYERS) and not mdp.stationary:
        player = PLAYERS["elimination"]
    assert_same(mdp, player, 25, seed=seed % 1000)


class Table(LazyPolicy):
    """A policy that is all there, asked like one that is not."""

    def __init__(self, table: Floats) -> None:
        super().__init__((table.shape[0], table.shape[1], table.shape[2]))
        self.table = table

    def rows(self, h: int, states: NDArray[np.int64]) -> Floats:
        return np.asarray(self.table[h, states])


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_lazy_policy_is_the_array_that_it_stands_for(seed: int) -> None:
    """Its values from every start (forward and backward), its episodes under the same uniforms, and itself."""
    mdp, rng = rough_mdp(seed), np.random.default_rng(seed)
    table = sparse_policy(mdp, rng)
    lazy, evaluator, problem = Table(table), Evaluator(mdp), mdp.problem()
    for s1 in np.flatnonzero(~mdp.reset):
        np.testing.assert_allclose(evaluator(lazy, int(s1)), evaluator(table, int(s1)), rtol=1e-12, atol=1e-300)
        u = rng.random(problem.n_uniforms)
        one, other = problem.rollout(lazy, int(s1), u), problem.rollout(table, int(s1), u)
        np.testing.assert_array_equal(one.states, other.states)
        np.testing.assert_array_equal(one.actions, other.actions)
        np.testing.assert_array_equal(one.rewards, other.rewards)
        assert (one.reset, one.next_start) == (other.reset, other.next_start)
    np.testing.assert_array_equal(as_policy(lazy, mdp), table)


@pytest.mark.parametrize("pooled", [True, False])
def test_counts_of_what_was_seen_are_the_counts(pooled: bool) -> None:
    """Many successors per pair, so that they outgrow their room several times."""
    rng = np.random.default_rng(5)
    n, horizon = 60, 7
    mdp = rf.FiniteMDP(rng.dirichlet(np.ones(n), size=(n, 2)), rng.random((n, 2)), np.arange(n) > 57, horizon)
    problem = mdp.problem()
    few, all_pairs = SeenCounts.nothing(problem, pooled), Counted.nothing(problem, pooled, "test")
    s1 = 0
    for _ in range(400):
        episode = problem.rollout(np.full((n, 2), 0.5), s1, rng.random(problem.n_uniforms))
        few.learn(episode)
        all_pairs.absorb(episode)
        s1 = episode.next_start
    assert few.used.max() > 8
    for layer in range(1 if pooled else horizon):
        for s in range(n):
            i = few.number[s]
            r = -1 if i < 0 else few.row[i, layer]
            if r < 0:
                assert not all_pairs.tried[layer, s].any()
                continue
            assert few.state[i] == s
            assert few.known[i] == all_pairs.known[s]
            np.testing.assert_array_equal(few.tried[r], all_pairs.tried[layer, s])
            np.testing.assert_array_equal(few.moved[r], all_pairs.moved[layer, s])
            np.testing.assert_array_equal(few.earned[r], all_pairs.earned[layer, s])
            for a in range(2):
                used = slice(few.begin[r, a], few.begin[r, a] + few.used[r, a])
                there = all_pairs.seen[layer, s, a] > 0
                np.testing.assert_array_equal(few.state[few.successor[used]], all_pairs.successor[layer, s, a][there])
                np.testing.assert_array_equal(few.times[used], all_pairs.seen[layer, s, a][there])


def game_on(mdp: rf.FiniteMDP, player: rf.PrimalPlayer[Any], episodes: int) -> tuple[Game, Iterator[rf.Round]]:
    problem, dual = mdp.problem(), ProjectedGradient(B=5.0)
    game = begin(problem, player, dual, episodes=episodes, seed=3)
    return game, play(problem, player, dual, game, episodes=episodes, oracle=Evaluator(mdp))


@pytest.mark.parametrize("player", [LinearUCB(B=5.0), UCBVI(), SupportElimination()], ids=lambda p: p.name)
def test_what_is_kept_grows_with_what_was_seen(player: rf.PrimalPlayer[Any]) -> None:
    """90,000 states, 200 steps: a policy alone would take 576 MB, the counts of all pairs and steps ten times that."""
    mdp = rf.make("pits-v0", n=300, horizon=200)
    game, rounds = game_on(mdp, player, 5)
    steps = sum(len(this.episode.actions) for this in rounds)
    state = game.primal
    seen = state.seen if hasattr(state, "seen") else state.data.seen
    assert seen.size[0] <= steps + 5
    assert seen.size[1] <= steps
    assert sum(array.nbytes for array in dump(state).values()) < 6_000_000
    assert player.plan(state, 0, 1.0).policy.n_places <= seen.size[0] * mdp.horizon + 2
    assert player.statement(mdp.problem(), 5).constants


@pytest.mark.parametrize("player", [LinearUCB(B=5.0), UCBVI(), SupportElimination()], ids=lambda p: p.name)
def test_a_large_state_is_saved_and_goes_on(player: rf.PrimalPlayer[Any]) -> None:
    mdp = rf.make("pits-v0", n=120, horizon=60)
    game, rounds = game_on(mdp, player, 30)
    for _ in range(20):
        next(rounds)
    saved = {name: array.copy() for name, array in dump(game.primal).items()}
    again, _ = game_on(mdp, player, 30)
    load(again.primal, saved)
    again.k, again.s1, again.dual = game.k, game.s1, game.dual
    plan, other = (player.plan(g.primal, g.s1, 2.0) for g in (game, again))
    assert (plan.v_r, plan.v_c) == (other.v_r, other.v_c)
    everywhere = np.arange(mdp.n_states)
    np.testing.assert_array_equal(plan.policy.rows(7, everywhere), other.policy.rows(7, everywhere))


def test_a_lazy_policy_is_not_asked_too_late() -> None:
    """Counts grow in place: what was not worked out before is refused then, and never made up from newer counts."""
    mdp = rf.make("pits-v0", n=120, horizon=60)
    player = UCBVI(pooled=True)
    game, rounds = game_on(mdp, player, 10)
    this = next(rounds)
    next(rounds)
    unseen = this.plan.policy.rows(3, np.array([mdp.n_states - 1]))
    assert unseen.sum() == 1.0
    plan = player.plan(game.primal, game.s1, 1.0)
    next(rounds)
    with pytest.raises(rf.InvalidInput, match="must be used before its player learns more"):
        plan.policy.rows(0, np.array([this.s1]))


def test_what_is_too_large_is_refused_in_one_sentence() -> None:
    mdp = rf.make("pits-v0", n=300, horizon=800)
    policy = LinearUCB(B=5.0).plan(LinearUCB(B=5.0).init(mdp.problem(), 10, 0), 0, 0.0).policy
    with pytest.raises(rf.InvalidInput, match=r"at most 2 GB. Got 2.3 instead"):
        policy.dense()
    with pytest.raises(rf.InvalidInput, match=r"GB of counts.*pool the steps"):
        RLSVI().init(mdp.problem(), 10, 0)
    with pytest.raises(rf.InvalidInput, match="GB of regression"):
        LinearUCB(B=5.0, lagged=True).init(mdp.problem(), 10, 0)


def test_sets_that_follow_the_news_are_the_sets_of_all_counts() -> None:
    """Random episodes, not those of the player: after each, what is bad is what the pass over everything says."""
    for seed in range(30):
        mdp = rough_mdp(seed)
        problem, rng = mdp.problem(), np.random.default_rng(seed)
        player = SupportElimination()
        with pytest.MonkeyPatch.context() as patch:
            whole = player.init(problem, 10, 0)
            patch.setattr(_large, "SMALL", -1)
            large = player.init(problem, 10, 0)
        assert isinstance(whole, EliminationState)
        assert isinstance(large, LargeEliminationState)
        s1: Any = problem.first_start(rng.random())
        for k in range(25):
            episode: rf.Episode = problem.rollout(sparse_policy(mdp, rng), s1, rng.random(problem.n_uniforms))
            this = rf.Round(k + 1, s1, 0.0, player.plan(whole, s1, 0.0), episode, 0.0, None)
            player.update(whole, this)
            player.update(large, this)
            s1 = episode.next_start
            good = np.asarray(whole.allowed.any(axis=2))  # [1 or H, S]
            numbers = large.data.seen.number
            seen = numbers >= 0
            np.testing.assert_array_equal(~large.sets.bad[numbers[seen]].T, good[:, seen])
            assert good[:, ~seen].all()
