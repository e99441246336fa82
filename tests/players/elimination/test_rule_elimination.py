"""Rule elimination: its beliefs against their definition, both of its bounds, and what it learns in words."""

from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.players.elimination.naive_rules import Forgetful, naive_beliefs
from tests.players.elimination.test_elimination_bound import KINDS, small
from tests.players.elimination.test_support_elimination import resets_of

import resetfree as rf
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.elimination.danger_beliefs import DOUBT, HALF
from resetfree.players.elimination.rule_class import (
    Rules,
    believe,
    cautious_sets,
    least_suspect,
    note,
    rows_of,
    rules_of,
)
from resetfree.players.elimination.rule_elimination import RuleElimination, RuleState
from resetfree.players.elimination.support_elimination import SharedElimination, SupportElimination
from resetfree.problems import Factor, Factors
from resetfree.problems.finite.mdp import FiniteProblem
from resetfree.theory.certificates.claims_paths import BY_RULES, EVERY_PATH

FREE = ConstantPenalty(C=0.0)
PLACES = (Factor("mine", "place", False), Factor("yours", "place", False))


def board(n: int, fatal: NDArray[np.bool_], horizon: int = 6, seed: int = 0) -> rf.FiniteMDP:
    """n x n states; action 0 stays, action 1 moves at random places on, action 2 pays and falls where `fatal` [n n]."""
    rng, n_states = np.random.default_rng(seed), n * n + 1
    transition = np.zeros((n_states, 3, n_states))
    order = rng.permutation(n * n)
    for i, s in enumerate(order):
        transition[s, 0, s] = transition[s, 1, order[(i + 1) % (n * n)]] = 1.0
        transition[s, 2, n * n if fatal[s] else s] = 1.0
    transition[n * n, :, n * n] = 1.0
    reward = np.zeros((n_states, 3))
    reward[: n * n, 2] = ~fatal * np.arange(1, n * n + 1) / (20 * n * n)
    return rf.FiniteMDP(transition, reward, np.arange(n_states) == n * n, horizon)


def with_factors(mdp: rf.FiniteMDP, n: int) -> FiniteProblem:
    """Its states as pairs of places."""
    problem = mdp.problem()
    values = np.vstack([np.stack(np.divmod(np.arange(n * n), n), axis=1), [[-1, -1]]])
    problem.factors = Factors(PLACES, values)
    return problem


def learned(problem: Any, player: Any, episodes: int = 150, seed: int = 0) -> rf.Run:
    return rf.learn(problem, player, FREE, episodes=episodes, seed=seed, feedback="realised")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_beliefs_are_those_of_every_labelling(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_rows, n_rules = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    local = rng.integers(0, 3, (n_rules, n_rows))
    local[-1] = np.arange(n_rows)
    sizes = [int(cell.max()) + 1 for cell in local]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    cells = (local + first[:-1, None]).astype(np.int32)
    prior = rng.random(n_rules) / n_rules
    falls, stays = rng.integers(0, 2, n_rows), rng.integers(0, 4, n_rows)
    n_falls, n_stays = np.zeros((2, int(first[-1])), dtype=np.int32)
    for r in rng.permutation(n_rows).tolist():
        note(cells, r, int(falls[r]), 0, n_falls, n_stays)
        note(cells, r, 0, int(stays[r]), n_falls, n_stays)
    weights, (fatal, fall) = np.empty((4, n_rules)), np.empty((2, n_rows))
    believe(cells, first, np.log(prior), n_falls, n_stays, weights, fatal, fall)
    expected = naive_beliefs(local, prior, falls, stays)
    np.testing.assert_allclose(fatal, expected[0], atol=1e-8)
    np.testing.assert_allclose(fall, expected[1], atol=1e-8)


def test_the_class_begins_with_the_simplest_rule_and_ends_with_the_pairs() -> None:
    found = rules_of(PLACES, np.stack(np.divmod(np.arange(9), 3), axis=1))
    assert len(np.unique(found.cell[0])) == 1
    assert len(np.unique(found.cell[-1])) == 9
    assert np.exp(found.prior).sum() <= 1.0
    partitions = {np.unique(cell, return_inverse=True)[1].tobytes() for cell in found.cell}
    assert len(partitions) == len(found.cell)  # no partition twice
    differ = np.arange(9) // 3 != np.arange(9) % 3
    bits, which = found.bits(differ)
    assert [f.words[1] for f in found.features[which]] == ["mine and yours are the same"]
    assert bits < found.bits(np.random.default_rng(0).random(9) < 0.5)[0]


def test_steps_are_a_factor_where_counts_are_kept_apart() -> None:
    assert rows_of(None, 4, 1) is None
    found = rows_of(None, 4, 3)
    assert found is not None
    assert [part.name for part in found[0]] == ["state", "step"]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from(["pairs", "relative"]))
def test_both_bounds_hold_with_and_without_structure(seed: int, structured: bool, moves: Any) -> None:
    """Falls that always happen: bits of the rules, log2(K) + 1, and never more than the unsafe pairs."""
    rng, n, episodes = np.random.default_rng(seed), 3, 60
    mine, yours = np.divmod(np.arange(n * n), n)
    shapes = [mine != yours, mine == rng.integers(n), (mine == 0) | (yours == rng.integers(n))]
    fatal = shapes[int(rng.integers(3))] if structured else rng.random(n * n) < rng.random()
    mdp = board(n, fatal, seed=seed)
    problem, player = with_factors(mdp, n), RuleElimination(moves=moves)
    run = learned(problem, player, episodes, seed % 1000)
    known = np.zeros((1, n * n + 1, 3), dtype=np.bool_)
    known[0, : n * n, 2] = fatal
    bound = player.rule_bound(problem, known, episodes)
    assert bound is not None
    assert run.realised_resets[-1] <= min(bound, fatal.sum())


@pytest.mark.parametrize("kind", KINDS)
def test_no_path_exceeds_the_unsafe_pairs(kind: str) -> None:
    """On random problems of every kind, pooled and not, with adversarial choices among what is allowed."""
    for seed in range(10):
        mdp = small(kind, 2, seed)
        for player in (RuleElimination(moves="pairs"), RuleElimination(pooled=False)):
            resets, bound = resets_of(mdp, 80, seed, player)  # type: ignore[arg-type]
            assert resets <= bound, (seed, player.pooled)


def test_a_rule_saves_resets_and_is_said_in_words() -> None:
    n = 7
    mine, yours = np.divmod(np.arange(n * n), n)
    mdp = board(n, mine != yours, horizon=60)
    plain = learned(with_factors(mdp, n), SupportElimination(), 300)
    run = learned(with_factors(mdp, n), RuleElimination(), 300)
    assert plain.realised_resets[-1] == n * n - n
    assert run.realised_resets[-1] <= 12
    assert run.columns["reward"][-30:].mean() >= 0.9 * plain.columns["reward"][-30:].mean()
    assert [one.what for one in run.decisions] == ["action 2 is fatal unless mine and yours are the same"]


def test_without_factors_it_is_support_elimination() -> None:
    mdp = board(3, np.arange(9) % 2 == 1)
    one, other = learned(mdp, RuleElimination()), learned(mdp, SupportElimination())
    for name in ("s1", "reset", "reward", "upper"):
        np.testing.assert_array_equal(one.columns[name], other.columns[name])
    assert not one.decisions


def test_tests_come_ever_more_rarely() -> None:
    """An action that falls everywhere: after the first fall each further one waits twice as long."""
    n, episodes = 4, 300
    mdp = board(n, np.ones(n * n, dtype=np.bool_))
    run = learned(with_factors(mdp, n), RuleElimination(), episodes)
    assert 2 <= run.realised_resets[-1] <= 2 + log2(episodes)
    waits = np.diff(np.flatnonzero(run.columns["reset"]))[1:]
    assert (waits[1:] >= waits[:-1]).all()


def test_auto_takes_it_where_coordinates_are_named() -> None:
    """Of the boards below only one has names; elimination pays for each of 12 unsafe pairs."""
    n = 4
    mine, yours = np.divmod(np.arange(n * n), n)
    mdp = board(n, mine != yours, horizon=60)
    named, plain = rf.learn(with_factors(mdp, n), episodes=200), rf.learn(mdp, episodes=200)
    assert named.spec["primal"]["name"] == "rule-elimination"
    assert plain.spec["primal"]["name"] == "support-elimination"
    assert named.realised_resets[-1] < plain.realised_resets[-1] == n * n - n


def test_what_is_nearly_certain_is_tested_later() -> None:
    """After 4 idle episodes, times odds of 3 to 1, or times 16 if they are larger; at once for who earns nothing."""
    n = 3
    problem, player = with_factors(board(n, np.ones(n * n, dtype=np.bool_)), n), RuleElimination()
    state: Any = player.init(problem, 100, 0)
    state.refresh()
    for belief, waits in ((0.75, 12), (0.99, 64)):
        state.beliefs.fatal[0, :, 2] = belief
        cautious_sets(state.allowed, state.beliefs.fatal, 0.5, state.cautious)
        for idle, needy, due in ((waits - 4, False, False), (waits, False, True), (0, True, False), (1, True, True)):
            state.idle = idle
            assert (state._opened(0, needy) is not None) == due, (belief, idle, needy)


def test_a_file_may_say_that_any_number_of_tests_fell() -> None:
    n = 3
    problem = with_factors(board(n, np.ones(n * n, dtype=np.bool_)), n)
    for player in (RuleElimination(), SharedElimination()):
        state: Any = player.init(problem, 100, 0)
        state.idle = state.confirmed = 2**63 - 1
        player.plan(state, 0, 0.0)


def test_the_claim_is_checked_on_the_model() -> None:
    run = learned(rf.make("grid-v0"), RuleElimination(), 60)
    claim = next(c for c in run.certificates() if c.claim == BY_RULES)
    assert claim.holds or claim.status == "not applicable"
    assert not [c.claim for c in run.certificates() if c.status == "proved" and not c.holds]


def test_the_claim_is_for_states_whose_factors_are_known_before_they_are_seen() -> None:
    n = 3
    for missing, status in ((0, "proved"), (1, "not applicable")):
        problem = with_factors(board(n, np.arange(n * n) % 2 == 0), n)
        assert problem.factors is not None
        problem.factors.values[:missing] = -1
        claim = next(c for c in learned(problem, RuleElimination(), 30).certificates() if c.claim == BY_RULES)
        assert claim.status == status


def test_the_claim_is_vacuous_beyond_what_elimination_never_exceeds() -> None:
    """Nine states hold too few unsafe pairs for rules to pay: their bits are more than the pairs."""
    n = 3
    claims = learned(with_factors(board(n, np.arange(n * n) % 2 == 0), n), RuleElimination(), 100).certificates()
    rules, pairs = (next(c for c in claims if c.claim == claim) for claim in (BY_RULES, EVERY_PATH[0]))
    assert rules.rhs >= pairs.rhs
    assert rules.rhs < 100
    assert rules.vacuous == f"vacuous: no run can exceed {pairs.rhs:g}"


def test_a_player_that_forgets_a_reset_breaks_both_bounds() -> None:
    n = 3
    mine, yours = np.divmod(np.arange(n * n), n)
    mdp = board(n, mine != yours)
    problem = with_factors(mdp, n)
    known = np.zeros((1, n * n + 1, 3), dtype=np.bool_)
    known[0, : n * n, 2] = mine != yours
    resets = learned(problem, Forgetful(), 100).realised_resets[-1]
    bound = RuleElimination().rule_bound(problem, known, 100)
    assert bound is not None
    assert resets > bound
    assert resets > n * n - n


def test_a_number_of_the_class_that_is_too_small_is_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits of the simplest rule, whatever is fatal, in place of those of a rule that is true."""
    n = 4
    rng = np.random.default_rng(1)
    fatal = rng.random(n * n) < 0.6
    mdp = board(n, fatal)
    player = RuleElimination(moves="pairs")
    run = learned(with_factors(mdp, n), player, 100)
    true, _ = rules_of(*rows_of(with_factors(mdp, n).factors, n * n + 1, 1)).bits(np.append(fatal, False))  # type: ignore[misc]
    monkeypatch.setattr(Rules, "bits", lambda self, fatal: (0.0, 0))
    known = np.zeros((1, n * n + 1, 3), dtype=np.bool_)
    known[0, : n * n, 2] = fatal
    small = player.rule_bound(with_factors(mdp, n), known, 1)
    assert small is not None
    assert small < run.realised_resets[-1] <= true + log2(100) + 1


def test_the_least_suspect_pair_is_within_reach() -> None:
    successor = np.array([[[[1], [0]], [[1], [1]], [[2], [2]]]], dtype=np.int32)  # 0 -> 1; 2 cannot be reached
    seen, known = np.ones((1, 3, 2, 1), dtype=np.int64), np.zeros(3, dtype=np.bool_)
    allowed, belief = np.ones((1, 3, 2), dtype=np.bool_), np.array([[[0.1, 0.9], [0.1, 0.8], [0.1, 0.6]]])
    cautious = np.empty_like(allowed)
    cautious_sets(allowed, belief, 0.5, cautious)
    assert cautious[0].tolist() == [[True, False]] * 3
    assert least_suspect(0, 5, 5, successor, seen, known, allowed, cautious, belief) == 0.8
    assert least_suspect(2, 5, 5, successor, seen, known, allowed, cautious, belief) == 0.6


@pytest.mark.parametrize("moves", ["pairs", "relative"])
def test_a_state_is_made_again_from_its_counts(moves: Any) -> None:
    """After a load nothing but counts is there: beliefs and plan must be the same, bit for bit."""
    n = 4
    mdp = board(n, np.random.default_rng(2).random(n * n) < 0.5)
    problem, player = with_factors(mdp, n), RuleElimination(moves=moves)
    state: Any = player.init(problem, 100, 0)
    rng, s1 = np.random.default_rng(0), 0
    for k in range(40):
        plan = player.plan(state, s1, 0.0)
        episode = problem.rollout(plan.policy, s1, rng.random(problem.n_uniforms))
        state = player.update(state, rf.Round(k + 1, s1, 0.0, plan, episode, 0.0, None))
        s1 = episode.next_start
    assert isinstance(state, RuleState)
    assert state.beliefs is not None
    before, sets = state.beliefs.fatal.copy(), state.cautious.copy()
    state.check_loaded()
    state.refresh()
    assert np.array_equal(state.beliefs.fatal, before)
    assert np.array_equal(state.cautious, sets)
    assert DOUBT <= HALF == 0.5  # both bounds rest on it


def trap() -> FiniteProblem:
    """A row of cells 0 to 5 with the goal at 2 and a pit at each end; the way back from 4 is the one move that fell.

    From 2 the goal pays, and chance leads to 4 now and then: there only "left" leads back, which fell at 1.
    """
    transition, reward = np.zeros((6, 3, 6)), np.zeros((6, 3))
    for s in range(1, 5):
        transition[s, 0, s - 1] = transition[s, 1, s + 1] = transition[s, 2, s] = 1.0
    transition[2, 2] = [0.0, 0.0, 0.9, 0.0, 0.1, 0.0]
    transition[0, :, 0] = transition[5, :, 5] = 1.0
    reward[2] = 1.0
    mdp = rf.FiniteMDP(transition, reward, np.arange(6) % 5 == 0, 6, start=1, restart=1)
    problem = mdp.problem()
    problem.factors = Factors((Factor("cell", "cell", True),), np.arange(6)[:, None])
    return problem


def test_who_has_nothing_to_live_on_does_not_wait_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is held back in 4 from the only way to the reward; without the rule it waits there much longer."""
    from resetfree.players.elimination import rule_elimination

    earned = []
    for living in (rule_elimination.LIVING, 0.0):
        monkeypatch.setattr(rule_elimination, "LIVING", living)
        earned.append(learned(trap(), RuleElimination(), 200, seed=1).columns["reward"].sum())
    assert earned[0] > 2 * earned[1]


def test_in_states_never_seen_what_fell_elsewhere_is_left_aside() -> None:
    """Action 0 falls in two states of five, action 1 survives in all of them; the sixth state was never seen."""
    transition = np.zeros((7, 2, 7))
    for s in range(6):
        transition[s, 0, 6 if s < 2 else s] = transition[s, 1, (s + 1) % 6] = 1.0
    transition[6, :, 6] = 1.0
    problem = rf.FiniteMDP(transition, np.zeros((7, 2)), np.arange(7) == 6, 2).problem()
    values = np.array([[0], [1], [2], [3], [4], [-1], [-1]])
    problem.factors = Factors((Factor("place", ordered=False),), values)
    player = RuleElimination()
    state = player.init(problem, 50, 0)
    assert isinstance(state, RuleState)

    def took(s: int, a: int, after: int) -> None:
        episode = rf.Episode(np.array([s, after]), np.array([a]), np.zeros(1), after == 6, next_start=0)
        player.update(state, rf.Round(1, s, 0.0, rf.Plan(None, 0.0, 0.0), episode, float(after == 6), None))

    took(0, 0, 6)
    took(1, 0, 6)
    for s in (2, 3, 4) * 3:
        took(s, 0, s)
    for s in range(4):
        took(s, 1, s + 1)
    assert state.cautious[0, 5].all()  # four survivals are too few
    took(4, 1, 5)
    assert state.cautious[0, 5].tolist() == [False, True]
    took(5, 1, 0)
    problem.factors = state.factors = Factors(problem.factors.parts, np.array([[0], [1], [2], [3], [4], [5], [-1]]))
    state.refresh()
    assert not (state.factors.values[:6, 0] == -1).any()  # it is a state like others now, and rules speak of it
    assert state.beliefs is not None
    assert state.cautious[0, 5, 0] == (state.beliefs.fatal[0, 5, 0] <= DOUBT)
