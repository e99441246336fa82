"""Finite problems: every kind of bad input, episodes, and single precision."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse, stats

import resetfree as rf
from resetfree.problems.finite.composed import with_contexts
from resetfree.problems.finite.tabular_policy import check_policy, random_policy, uniform

Arrays = dict[str, Any]


def parts() -> Arrays:
    """A small right problem: state 2 is the reset state."""
    p: NDArray[np.float64] = np.zeros((3, 2, 3))
    p[0, 0, 0] = p[0, 1, 1] = p[1, 0, 0] = 1
    p[1, 1] = [0.25, 0.25, 0.5]
    return {
        "transition": p, "reward": np.full((3, 2), 0.5), "reset": [False, False, True], "horizon": 4, "start": 0,
        "restart": np.array([0.5, 0.5, 0.0]),
    }  # fmt: skip


def changed(index: tuple[int, ...], value: float) -> NDArray[np.float64]:
    p: NDArray[np.float64] = parts()["transition"].copy()
    p[index] = value
    return p


BAD: list[tuple[str, Arrays, str]] = [
    ("row sum", {"transition": changed((1, 1, 2), 0.4)}, "Got 0.9 for state 1, action 1 instead"),
    ("empty row", {"transition": changed((0, 0, 0), 0.0)}, "Got 0 for state 0, action 0 instead"),
    ("negative", {"transition": changed((1, 1, 0), -0.25)}, "Got -0.25 for next state 0 of state 1, action 1"),
    ("nan", {"transition": changed((1, 1, 0), np.nan)}, "Got nan for next state 0 of state 1, action 1"),
    ("reward above", {"reward": np.full((3, 2), 1.5)}, "must lie in [0, 1]. Got 1.5 for state 0, action 0"),
    ("reward nan", {"reward": np.full((3, 2), np.nan)}, "must lie in [0, 1]. Got nan"),
    ("reward shape", {"reward": np.zeros((2, 2))}, "must have shape (3, 2) or (4, 3, 2). Got (2, 2)"),
    ("transition shape", {"transition": np.ones((3, 2, 4)) / 4}, "must have shape [S, A, S]"),
    ("transition layers", {"transition": np.ones((3, 3, 2, 3)) / 3}, "must have shape [S, A, S]"),
    ("transition flat", {"transition": np.ones(3)}, "must have shape [S, A, S]"),
    ("transition ragged", {"transition": [[1.0], [1.0, 2.0]]}, "must be an array of numbers"),
    ("sparse shape", {"transition": sparse.csr_array(np.ones((4, 3)) / 3)}, "must have shape [S, A, S]"),
    ("reset shape", {"reset": [[False]]}, "must be Boolean, one entry per state"),
    ("reset values", {"reset": [0, 2, 1]}, "must be Boolean, one entry per state"),
    ("empty restart", {"restart": np.zeros(3)}, "'restart' of FiniteMDP must give some state positive probability"),
    ("no restart", {"restart": []}, "'restart' of FiniteMDP must give some state positive probability"),
    ("restart sum", {"restart": [0.5, 0.4, 0]}, "'restart' of FiniteMDP must sum to one. Got 0.9"),
    ("restart in reset", {"restart": [0.5, 0, 0.5]}, "'restart' of FiniteMDP must lie outside the reset set"),
    ("start in reset", {"start": 2}, "'start' of FiniteMDP must lie outside the reset set"),
    ("start outside", {"start": 3}, "'start' of FiniteMDP must be a state in 0..2"),
    ("start nan", {"start": [np.nan, 1, 0]}, "'start' of FiniteMDP must hold probabilities"),
    ("horizon 0", {"horizon": 0}, "The 'horizon' of FiniteMDP must be an integer from 1 to 100000. Got 0 instead."),
    ("horizon -1", {"horizon": -1}, "an integer from 1 to 100000. Got -1"),
    ("horizon 2.5", {"horizon": 2.5}, "an integer from 1 to 100000. Got 2.5"),
    ("no actions", {"transition": np.zeros((3, 0, 3)), "reward": np.zeros((3, 0))}, "at least one action"),
    ("support", {"support": changed((1, 1, 2), 0.0) > 0}, "must contain every positive probability. Got support False"),
    ("support shape", {"support": np.ones((4, 3, 2, 3))}, "must have the shape of 'transition'"),
    ("boundary", {"boundary": "elastic"}, "must be physical or literal. Got 'elastic'"),
    ("noise", {"noise": -0.1}, "standard deviation that is not negative. Got -0.1"),
    ("noise name", {"noise": "loud"}, "standard deviation that is not negative. Got 'loud'"),
    ("phi", {"phi": np.zeros((3, 3, 4))}, "'phi' of FiniteMDP must be finite numbers of shape (3, 2, 'd')"),
    ("xi", {"xi": np.full((3, 1), np.inf)}, "'xi' of FiniteMDP must be finite numbers"),
    ("contexts", {"contexts": np.eye(2)}, "'contexts' of FiniteMDP must be a square [m, m] with m a divisor of 3"),
    ("contexts restart", {"contexts": np.eye(3), "restart": None}, "must be given if there are contexts"),
    ("names", {"state_names": ["a"]}, "'state_names' of FiniteMDP must have 3 entries. Got 1"),
]


@pytest.mark.parametrize(("change", "sentence"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_input_is_refused_with_one_sentence(change: Arrays, sentence: str) -> None:
    with pytest.raises(rf.InvalidInput) as caught:
        rf.FiniteMDP(**{**parts(), **change})
    message = str(caught.value)
    assert sentence in message
    assert "\n" not in message
    assert "instead" in message or "refuses" in message


def test_every_form_of_the_same_dynamics_gives_the_same_answer() -> None:
    given = parts()
    p = given.pop("transition")
    p[2] = 0  # rows of reset states may be empty
    flat = p.reshape(6, 3)
    forms = [
        p,
        p.tolist(),
        np.broadcast_to(p, (4, 3, 2, 3)),
        sparse.csr_array(flat),
        sparse.coo_matrix(flat),
        [sparse.csc_array(flat)] * 4,
        rf.FiniteMDP(p, **given).transition,
    ]
    answers = [rf.solve(rf.FiniteMDP(form, **given)) for form in forms]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer.value, answers[0].value)
        np.testing.assert_array_equal(answer.policy, answers[0].policy)
        np.testing.assert_array_equal(answer.lambda_hat, answers[0].lambda_hat)
        np.testing.assert_array_equal(answer.safe_actions, answers[0].safe_actions)


def test_layered_rows_are_named_with_their_step() -> None:
    p = np.broadcast_to(parts()["transition"], (4, 3, 2, 3)).copy()
    p[2, 1, 0, 0] = 0.5
    with pytest.raises(rf.InvalidInput, match=r"Got 0\.5 for state 1, action 0, step 3 instead"):
        rf.FiniteMDP(**{**parts(), "transition": p})


def test_an_underflowed_probability_stays_possible() -> None:
    """A reset whose probability is too small for a float is still a reset: the support says so."""
    given = parts()
    p = given["transition"]
    p[0, 1] = [1.0, 0.0, 0.0]
    support = p > 0
    support[0, 1, 2] = True
    blind, seeing = rf.solve(rf.FiniteMDP(**given)), rf.solve(rf.FiniteMDP(**given, support=support))
    assert blind.safe_actions[0, 0, 1]
    assert not seeing.safe_actions[0, 0, 1]


def test_explicit_zeros_of_a_sparse_matrix_are_not_support() -> None:
    given = parts()
    dense = given["transition"].reshape(6, 3).copy()
    dense[0, 2] = 7.0
    flat = sparse.csr_array(dense)
    flat.data[flat.data == 7.0] = 0.0
    assert rf.FiniteMDP(**{**given, "transition": flat}).transition.nnz == int((given["transition"] > 0).sum())


def test_arrays_cannot_be_changed_behind_the_problem() -> None:
    mdp = rf.make("grid-v0")
    for array in (mdp.reward, mdp.reset, mdp.start, mdp.restart, mdp.transition.prob):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_contexts_must_fit_together() -> None:
    grid = rf.make("grid-v0")
    with pytest.raises(rf.InvalidInput, match="task 1 that differs"):
        with_contexts([grid, rf.make("grid-v0", horizon=3)], np.eye(2))
    with pytest.raises(rf.InvalidInput, match="at least one problem"):
        with_contexts([], np.eye(1))
    with pytest.raises(rf.InvalidInput, match="must sum to one"):
        with_contexts([grid, grid], np.full((2, 2), 0.4))


def test_replace_keeps_everything_else() -> None:
    mdp = rf.make("grid-v0")
    other = mdp.replace(horizon=3)
    assert other.horizon == 3
    assert other.state_names == mdp.state_names
    np.testing.assert_array_equal(other.transition.prob, mdp.transition.prob)


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


S, A, H = 40, 3, 4


def rows(seed: int, *shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Random sparse rows, normalised in single precision, as a simulator in float32 would hand them over."""
    rng = np.random.default_rng(seed)
    weights = (rng.random(shape) * (rng.random(shape) < 0.5)).astype(np.float32)
    weights[..., 0] += np.float32(0.1)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True, dtype=np.float32))


def problem(transition: object, **options: object) -> rf.FiniteMDP:
    reward = np.random.default_rng(0).random((S, A)).astype(np.float32)
    return rf.FiniteMDP(transition, reward, np.arange(S) == S - 1, H, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["dense", "layered", "sparse", "list of sparse"])
def test_float32_rows_are_normalised_on_their_own_support(form: str) -> None:
    given = rows(1, S, A, S) if form in ("dense", "sparse") else rows(1, H, S, A, S)
    assert np.abs(given.astype(np.float64).sum(axis=-1) - 1).max() > 1e-9  # what would be refused in float64
    forms = {
        "dense": given, "layered": given, "sparse": sparse.csr_array(given.reshape(-1, S)),
        "list of sparse": [sparse.csr_array(layer) for layer in given.reshape(-1, S * A, S)],
    }  # fmt: skip
    transition = problem(forms[form]).transition
    sums = np.add.reduceat(transition.prob, transition.indptr[:-1])
    assert np.abs(sums - 1).max() <= 1e-9
    assert transition.nnz == np.count_nonzero(given)
    assert np.array_equal(transition.indices, np.nonzero(given.reshape(-1, S))[1])
    assert transition.prob == pytest.approx(given[given > 0].astype(np.float64), rel=1e-5)


def test_the_smallest_float32_is_still_possible() -> None:
    """1e-45 beside a row that needs normalising: a reset with that probability is a reset."""
    transition = np.zeros((4, 1, 4), dtype=np.float32)
    transition[:3, 0, :3] = np.float32(1) / np.float32(3)
    transition[0, 0, 3] = np.float32(1e-45)
    mdp = rf.FiniteMDP(transition, np.zeros((4, 1)), [0, 0, 0, 1], 1)
    assert mdp.transition.row(0, 0, 0)[1][-1] > 0
    assert not rf.solve(mdp).feasible[0]
    assert rf.solve(mdp).feasible[1]


def test_distributions_in_float32_are_accepted_too() -> None:
    homes = rows(2, 1, S)[0]
    homes[-1] = 0.0
    homes /= homes.sum(dtype=np.float32)
    mdp = problem(rows(1, S, A, S), start=homes, restart=homes)
    assert mdp.start.sum() == pytest.approx(1, abs=1e-9)
    assert np.array_equal(mdp.start > 0, homes > 0)
    assert mdp.restart.sum() == pytest.approx(1, abs=1e-9)


def test_what_rounding_does_not_explain_is_refused() -> None:
    given = rows(1, S, A, S)
    given[3, 1] *= np.float32(1.001)
    with pytest.raises(rf.InvalidInput, match=r"must sum to one. Got 1\.00.* for state 3, action 1"):
        problem(given)
    with pytest.raises(rf.InvalidInput, match="must sum to one"):  # double precision is held to its own rounding
        problem(rows(1, S, A, S).astype(np.float64))


def test_rows_in_double_precision_stay_as_they_are() -> None:
    mdp = rf.make("grid-v0")
    dense = np.stack([mdp.transition.matrix().toarray().reshape(12, 5, 12)])[0]
    again = mdp.replace(transition=dense)
    assert np.array_equal(again.transition.prob, mdp.transition.prob)
