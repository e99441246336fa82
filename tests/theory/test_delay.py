"""Plans that are old: the reduction, the bounds and the elimination of pairs hold, and each fails when it is broken."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.property.random_mdps import closed_mdp, sparse_policy
from tests.property.strategies import exact
from tests.theory.late_game import Rule, never_waits, play, waits, waits_at_random

import resetfree as rf
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.dual.online_gradient import AdagradNorm, ConstantStep, ProjectedGradient
from resetfree.players.elimination.support_elimination import SupportElimination
from resetfree.theory.assumptions import unsafe_pairs
from resetfree.theory.delay import before_resets, delays, doubled_rounds, fixed_step, missed_steps, played
from resetfree.theory.regret import dual_regret, primal_regret, regret, resets
from resetfree.theory.theorems import reduction, saddle_gap

seeds = st.integers(0, 2**32 - 1)


def any_age(rng: np.random.Generator, n: int) -> list[int]:
    """Any based_on that a game can have, and some that only the theorem allows: newer plans may give way to older."""
    return [int(rng.integers(k)) for k in range(1, n + 1)]


@exact(100)
@given(seed=seeds)
def test_the_reduction_holds_for_plans_of_any_age(seed: int) -> None:
    mdp, rng, n = closed_mdp(seed), np.random.default_rng(seed), 12
    solution = rf.solve(mdp)
    plans = [(sparse_policy(mdp, rng), float(rng.exponential(3.0) * rng.integers(2))) for _ in range(n)]
    starts = rng.choice(np.flatnonzero(solution.feasible), size=n)
    rounds = played(mdp, plans, any_age(rng, n), starts)
    for certificate in [*reduction(rounds, solution), *saddle_gap(rounds, solution)]:
        assert certificate.holds, certificate


def test_the_regrets_of_the_plans_that_were_new_do_not_bound_those_that_were_played() -> None:
    """The mutant: R_p and R_d of the sequence without delay beside Regret and Resets of the one with delay."""
    mdp = rf.make("grid-v0")
    solution = rf.solve(mdp)
    tables = np.eye(mdp.n_actions)
    best, shape = tables[solution.policy], (mdp.horizon, mdp.n_states, mdp.n_actions)
    first = [np.broadcast_to(tables[a], shape) for a in range(mdp.n_actions)]
    starts, based_on = np.full(120, 0), [max(k - 60, 0) for k in range(1, 121)]
    failed = set()
    for policy in (sparse_policy(mdp, np.random.default_rng(0)), *first):
        plans: list[Any] = [(policy, 1.0)] + [(best, 1.0)] * 119  # one round is enough to learn, and 60 are late
        late, new = played(mdp, plans, based_on, starts), played(mdp, plans, range(120), starts)
        for name, found, against in (
            ("regret", regret(late, solution), 0.0),
            ("resets", resets(late), solution.lambda_star),
        ):
            bounds = [primal_regret(of, solution) + dual_regret(of, np.nan_to_num(against)) for of in (late, new)]
            assert (found <= bounds[0] + 1e-9).all()
            failed |= {name} if found[-1] > bounds[1][-1] + 1e-9 else set()
    assert failed == {"regret", "resets"}


def test_based_on_must_be_a_round_that_was_over() -> None:
    for wrong in ([0, 2], [-1], [0.0], [[0]]):
        with pytest.raises(rf.InvalidInput, match="based_on"):
            delays(np.array(wrong))


def online(dual: Any, mdp: rf.FiniteMDP, rule: Rule, seed: int) -> tuple[Any, ...]:
    """A gradient player against signals that an adversary chose: costs, multipliers, iterates and based_on."""
    problem, rng, n = mdp.problem(), np.random.default_rng(seed), 60
    state = dual.init(problem, n, 0)
    g = rng.random(n) * (rng.random(n) < 0.5)
    thetas, lam, based_on = [0.0], [], []
    for k in range(1, n + 1):
        j = rule(k, 0)
        based_on.append(j)
        lam.append(thetas[j])
        this: Any = type("R", (), {"k": k, "s1": 0, "cost_signal": float(g[k - 1])})
        state = dual.update(state, this)
        thetas.append(float(state.theta))
    return g, np.array(lam), np.array(thetas), based_on


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
@example([*range(31)])  # all rounds with the first plan: where adding up the largest step of each round says too much
def test_the_steps_that_old_plans_miss_are_at_most_twice_the_delay_times_the_root(late: list[int]) -> None:
    k = np.arange(1, len(late) + 1)
    based_on = np.maximum(k - 1 - np.array(late), 0)
    d, roots = delays(based_on).max(), 1.0 / np.sqrt(k)
    most = missed_steps(np.ones(len(k)), roots, based_on)
    assert (most <= 2.0 * d * np.sqrt(k) + 1e-12).all()
    each = np.cumsum(delays(based_on) / np.sqrt(based_on + 1.0))
    assert (most <= each + 1e-12).all()
    if late == [*range(31)]:
        assert each[-1] > 2.0 * d * np.sqrt(k[-1])


@pytest.mark.parametrize(
    "dual", [ConstantStep(B=3.0), ProjectedGradient(B=3.0), AdagradNorm(B=3.0)], ids=lambda d: d.name
)
def test_what_lateness_costs_a_gradient_player_is_at_most_its_missed_steps(dual: Any) -> None:
    close = []
    for seed in range(40):
        rule = waits_at_random(np.random.default_rng(seed), seed % 9)
        g, lam, thetas, based_on = online(dual, rf.make("grid-v0"), rule, seed)
        squares = np.cumsum(g**2)
        k = np.arange(1, len(g) + 1)
        steps = {
            "constant-step": 3.0 / np.sqrt(len(g)) * g,
            "projected-gradient": 3.0 / np.sqrt(k) * g,
            "adagrad-norm": 3.0 / np.sqrt(2.0) * g / np.sqrt(np.maximum(squares, 1e-300)),
        }[dual.name]
        cost, most = np.cumsum((thetas[:-1] - lam) * g), missed_steps(g, steps, based_on)
        assert (cost <= most + 1e-9).all()
        if dual.name == "constant-step":
            for u in (0.0, 1.0, 3.0):
                assert (np.cumsum((u - lam) * g) <= fixed_step(u, 3.0 / np.sqrt(len(g)), 1.0, based_on) + 1e-9).all()
        close.append(cost[-1] / most[-1] if most[-1] > 0 else 1.0)
    assert max(close[1:]) > 0.9  # the bound is close: while the iterate is inside, every missed step counts


def test_the_bound_without_delays_does_not_hold_with_them() -> None:
    """A cost in every round, and plans that never leave the first: |u|^2 / (2 eta) + eta K / 2 is exceeded."""
    u, eta, n = 1.0, 0.1, 100
    late = np.full(n, u).cumsum()  # lam = 0 in every round
    assert late[-1] > fixed_step(u, eta, 1.0, np.arange(n))[-1]
    assert (late <= fixed_step(u, eta, 1.0, np.zeros(n, dtype=np.int64))).all()


@exact(100)
@given(seed=seeds)
def test_information_doubles_unseen_in_few_rounds(seed: int) -> None:
    rng, n = np.random.default_rng(seed), 80
    growth = rng.choice([0.0, 0.05, 1.5], size=n) * rng.random(n)
    m = np.exp(np.append(0.0, np.cumsum(growth)))
    based_on = [max(k - 1 - int(rng.integers(1 + seed % 7)), 0) for k in range(1, n + 1)]
    doubled = sum(m[k - 1] > 2 * m[based_on[k - 1]] for k in range(1, n + 1))
    assert doubled <= doubled_rounds(int(delays(based_on).max()), float(growth.sum()))


def test_each_doubling_may_go_unseen_for_as_many_rounds_as_the_delay() -> None:
    """The bound is attained up to one doubling: m jumps 100-fold now and then."""
    d, n = 4, 100
    m = 3.0 ** (np.arange(n + 1) // 10)
    based_on = [max(k - 1 - d, 0) for k in range(1, n + 1)]
    doubled = sum(m[k - 1] > 2 * m[based_on[k - 1]] for k in range(1, n + 1))
    assert doubled == 9 * d <= doubled_rounds(d, float(np.log(m[-1])))


# Support elimination.


class Adversary(SupportElimination):
    """Any allowed action, chosen at random but with a taste for pairs that were never tried."""

    def plan(self, state: Any, s1: Any, lam: float) -> rf.Plan:
        rng = np.random.default_rng(state.data.k)
        policy = np.zeros((state.data.horizon, *state.allowed.shape[1:]))
        for h, table in enumerate(policy):
            allowed, tried = (rows[min(h, len(rows) - 1)] for rows in (state.allowed, state.data.tried))
            for s, row in enumerate(table):
                may = allowed[s] if allowed[s].any() else np.ones(len(row), dtype=np.bool_)
                fresh = may & (tried[s] == 0)
                row[rng.choice(np.flatnonzero(fresh if fresh.any() and rng.random() < 0.8 else may))] = 1.0
        return rf.Plan(policy, 0.0, 0.0)


def eliminated(mdp: rf.FiniteMDP, rule: Rule, seed: int, player: Any = None) -> tuple[int, int]:
    """Resets in 150 rounds, and how many are allowed; rounds that did not wait are those that the rule lets through."""
    primal = Adversary() if player is None else player
    game = play(mdp.problem(), primal, ConstantPenalty(C=0.0), episodes=150, seed=seed, rule=rule)
    late = list(game)
    fell = [one.episode.reset for one in late]
    if rule is not UNRULY:
        assert not before_resets([one.based_on for one in late], fell).any()
    return sum(fell), unsafe_pairs(mdp)


UNRULY = never_waits(6)


def test_resets_stay_within_the_unsafe_pairs_with_plans_of_any_age() -> None:
    tight = 0
    for seed in range(24):
        mdp, rng = closed_mdp(seed), np.random.default_rng(seed)
        for rule in (waits(1 + seed % 5), waits_at_random(rng, 12)):
            found, most = eliminated(mdp, rule, seed)
            assert found <= most, seed
            tight += found == most > 0
    assert tight > 0


def one_trap(fatal: int) -> rf.FiniteMDP:
    """One state, two actions, one of which is a reset: one unsafe pair."""
    transition = np.zeros((2, 2, 2))
    transition[0, 1 - fatal, 0] = transition[0, fatal, 1] = transition[1, :, 1] = 1
    return rf.FiniteMDP(transition, np.zeros((2, 2)), [False, True], 1)


@pytest.mark.parametrize(
    ("rule", "most"),
    [(UNRULY, 7), (waits(6), 1)],
    ids=["no wait", "wait"],
)
def test_a_pair_is_tried_again_until_the_plan_that_excludes_it_arrives(rule: Rule, most: int) -> None:
    """Of the player itself. Without waiting one unsafe pair costs seven resets."""
    found = [eliminated(one_trap(fatal), rule, 0, SupportElimination()) for fatal in range(2)]
    assert max(resets for resets, _ in found) == most
    assert {bound for _, bound in found} == {1}
