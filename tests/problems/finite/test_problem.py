"""The protocol: what an episode is, where the next one starts, and that one seed fixes everything."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import resetfree as rf
from resetfree.problems.finite.composed import with_contexts
from resetfree.problems.finite.tabular_policy import check_policy, random_policy, uniform


def same(a: rf.Episode, b: rf.Episode) -> bool:
    return (
        np.array_equal(a.states, b.states)
        and np.array_equal(a.actions, b.actions)
        and np.array_equal(a.rewards, b.rewards)
        and (a.reset, a.next_start) == (b.reset, b.next_start)
    )


def test_an_episode_starts_where_the_last_one_ended_unless_it_was_reset() -> None:
    mdp = rf.make("grid-v0")
    episodes = list(rf.simulate(mdp.problem(), uniform(mdp), 500, seed=3))
    assert any(e.reset for e in episodes)
    for now, after in pairwise(episodes):
        assert after.start == now.next_start
        if now.reset:
            assert mdp.reset[now.states[-1]]
            assert mdp.restart[0, now.next_start] > 0
            assert now.reset_at == len(now.actions) + 1
        else:
            assert now.next_start == now.states[-1]
            assert now.reset_at is None
            assert len(now.actions) == mdp.horizon


def test_one_seed_fixes_everything_and_another_changes_it() -> None:
    mdp = rf.make("grid-v0")
    runs = [list(rf.simulate(mdp.problem(), uniform(mdp), 50, seed=seed)) for seed in (7, 7, 8)]
    assert all(same(a, b) for a, b in zip(runs[0], runs[1], strict=True))
    assert not all(same(a, b) for a, b in zip(runs[0], runs[2], strict=True))


def test_an_episode_takes_the_same_number_of_uniforms_whatever_happens() -> None:
    """So that two policies meet the same chance in episode k, however their episodes before it went."""
    mdp = rf.make("grid-v0")
    problem = mdp.problem()
    starts = [0] * 30
    a = list(rf.simulate(problem, uniform(mdp), 30, seed=5, starts=starts))
    b = list(rf.simulate(problem, rf.solve(mdp).policy, 15, seed=5, starts=starts))
    c = list(rf.simulate(problem, uniform(mdp), 30, seed=5, starts=starts))[15:]
    assert len(b) == 15
    assert all(same(x, y) for x, y in zip(a[15:], c, strict=True))


def test_a_learner_sees_neither_the_model_nor_the_reset_set() -> None:
    mdp = rf.make("grid-v0")
    problem = mdp.problem()
    public = {name: getattr(problem, name) for name in dir(problem) if not name.startswith("_")}
    assert {"transition", "reward", "reset", "restart", "start", "mdp", "model"}.isdisjoint(public)
    for value in public.values():
        assert not isinstance(value, rf.FiniteMDP)
        assert value is not mdp.reset
        assert value is not mdp.transition
    assert isinstance(problem, rf.Problem)


def test_literal_reading_stops_at_the_last_state_and_undoes_nothing() -> None:
    mdp = rf.make("grid-v0").replace(boundary="literal")
    for e in rf.simulate(mdp.problem(), uniform(mdp), 200, seed=1):
        if not e.reset:
            assert len(e.states) == len(e.actions) == mdp.horizon
            assert e.next_start == e.states[-1]


def test_literal_with_one_more_step_and_no_last_reward_is_the_physical_reading() -> None:
    mdp = rf.make("grid-v0")
    h = mdp.horizon
    reward = np.concatenate([np.broadcast_to(mdp.reward, (h, *mdp.reward.shape[1:])), np.zeros((1, 12, 5))])
    literal = mdp.replace(horizon=h + 1, boundary="literal", reward=reward)
    a, b = rf.solve(mdp), rf.solve(literal)
    np.testing.assert_array_equal(a.value, b.value)
    np.testing.assert_array_equal(a.lambda_hat, b.lambda_hat)
    rng = np.random.default_rng(0)
    policy = random_policy(literal, rng)
    np.testing.assert_array_equal(rf.evaluate(mdp, policy[:h]), rf.evaluate(literal, policy))
    start = 0
    for _ in range(200):
        u, v = rng.random(3 * h + 2), np.empty(3 * (h + 1) + 2)
        for part in range(3):  # the same uniform for the same thing
            v[part * (h + 1) : part * (h + 1) + h] = u[part * h : (part + 1) * h]
            v[part * (h + 1) + h] = 0.5
        v[-2:] = u[-2:]
        x = mdp.problem().rollout(policy[:h], start, u)
        y = literal.problem().rollout(policy, start, v)
        np.testing.assert_array_equal(x.states, y.states)
        assert (x.reset, x.next_start, x.total_reward) == (y.reset, y.next_start, y.total_reward)
        start = x.next_start


@pytest.mark.parametrize("boundary", ["physical", "literal"])
def test_frequencies_agree_with_exact_evaluation(boundary: str) -> None:
    """20,000 episodes from one start: both means within 5 standard errors (fails with probability below 2e-6)."""
    mdp = rf.make("grid-v0").replace(boundary=boundary)
    policy, n = uniform(mdp), 20_000
    values = rf.evaluate(mdp, policy)
    episodes = list(rf.simulate(mdp.problem(), policy, n, seed=11, starts=[2] * n))
    for sample, exact in (
        (np.array([e.total_reward for e in episodes]), values.v_r[2]),
        (np.array([float(e.reset) for e in episodes]), values.v_c[2]),
    ):
        assert abs(sample.mean() - exact) < 5 * sample.std() / np.sqrt(n)


@pytest.mark.parametrize("noise", ["bernoulli", 0.3])
def test_noisy_rewards_keep_their_mean(noise: str | float) -> None:
    """5,000 episodes of 8 noisy rewards: within 5 standard errors (fails with probability below 1e-6)."""
    mdp = rf.make("grid-v0").replace(noise=noise)
    sol = rf.solve(mdp)
    n = 5_000
    got = np.array([e.total_reward for e in rf.simulate(mdp.problem(), sol.policy, n, seed=2, starts=[8] * n)])
    assert abs(got.mean() - sol.value[8]) < 5 * got.std() / np.sqrt(n)
    assert got.std() > 0.5


def test_restarts_follow_their_distribution() -> None:
    """Chi-square test of restart cells at level 1e-6, seed fixed."""
    mdp = rf.make("pits-v0", slip=0.2)
    counts = np.zeros(mdp.n_states)
    for e in rf.simulate(mdp.problem(), uniform(mdp), 4_000, seed=9):
        if e.reset:
            counts[e.next_start] += 1
    live = mdp.restart[0] > 0
    assert counts[~live].sum() == 0
    assert stats.chisquare(counts[live], mdp.restart[0][live] * counts.sum()).pvalue > 1e-6


def test_starts_chosen_by_an_adversary() -> None:
    mdp = rf.make("grid-v0")
    seen: list[rf.Episode | None] = []

    def adversary(k: int, last: rf.Episode | None) -> int:
        seen.append(last)
        return (0, 2, 11)[k % 3]

    episodes = list(rf.simulate(mdp.problem(), uniform(mdp), 9, seed=0, starts=adversary))
    assert [e.start for e in episodes] == [2, 11, 0] * 3
    assert seen[0] is None
    assert seen[1:] == episodes[:-1]
    with pytest.raises(rf.InvalidInput, match=r"outside the reset set\. Got 5 instead"):
        next(rf.simulate(mdp.problem(), uniform(mdp), 1, starts=[5]))
    with pytest.raises(rf.InvalidInput, match=r"for each of 3 episodes\. Got 1"):
        next(rf.simulate(mdp.problem(), uniform(mdp), 3, starts=[0]))
    with pytest.raises(rf.InvalidInput, match="adaptive"):
        next(rf.simulate(mdp.problem(), uniform(mdp), 3, starts="sideways"))


def test_contexts_follow_their_chain_and_the_place_is_kept() -> None:
    grid = rf.make("grid-v0")
    chain = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    mdp = with_contexts([grid, grid, grid], chain)
    after_two: list[int] = []
    for e in rf.simulate(mdp.problem(), uniform(mdp), 2_000, seed=4):
        (c, s), (d, t) = divmod(int(e.states[-1]), 12), divmod(e.next_start, 12)
        assert (np.asarray(e.states) // 12 == c).all()
        assert chain[c, d] > 0
        assert t in (0, 11) if e.reset else t == s
        if c == 2:
            after_two.append(d)
    share = np.mean(after_two)  # 0 or 1, each with probability 1/2: within 5 standard errors
    assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(len(after_two))


def test_policies_in_every_form_and_bad_ones() -> None:
    mdp = rf.make("grid-v0")
    actions: NDArray[np.int64] = np.full(12, 4)
    forms = [actions, np.tile(actions, (8, 1)), np.eye(5)[actions], np.tile(np.eye(5)[actions], (8, 1, 1))]
    for form in forms[1:]:
        np.testing.assert_array_equal(rf.evaluate(mdp, form), rf.evaluate(mdp, forms[0]))
    for bad, sentence in (
        (np.full(12, 5), r"must lie in 0\.\.4"),
        (np.zeros((3, 3)), "must be integers of shape"),
        (np.full((12, 5), 0.3), "must be a distribution"),
    ):
        with pytest.raises(rf.InvalidInput, match=sentence):
            check_policy(bad, mdp)


def test_a_change_of_context_never_starts_an_episode_in_a_reset_state() -> None:
    """The same place may be a pit in the next context: standing there when the context changes is a reset."""
    stay = np.eye(2)[:, None, :]
    a = rf.FiniteMDP(stay, np.zeros((2, 1)), [False, False], 1, start=1)
    b = rf.FiniteMDP(stay, np.zeros((2, 1)), [False, True], 1, start=0)
    mdp = with_contexts([a, b], [[0, 1], [1, 0]])
    episodes = list(rf.simulate(mdp.problem(), np.zeros(4, dtype=int), 6))
    assert [e.reset for e in episodes] == [True, False, False, False, False, False]
    assert not mdp.reset[[e.start for e in episodes]].any()
