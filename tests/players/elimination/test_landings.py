"""Danger that belongs to where one lands: effects, places, beliefs by their definition, bounds on every path."""

from itertools import product
from math import gamma
from typing import Any

import numpy as np
import pytest
from tests.players.elimination.naive_rules import Forgetful
from tests.players.elimination.test_elimination_bound import KINDS, small
from tests.players.elimination.test_support_elimination import resets_of

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.elimination.danger_beliefs import LargeRuleState, with_exceptions
from resetfree.players.elimination.landings import (
    ALONE,
    SILENT,
    Edges,
    Landings,
    all_alike,
    believe_places,
    danger_of_pairs,
    filled,
    tally,
)
from resetfree.players.elimination.rule_elimination import RuleElimination
from resetfree.players.tabular import count_players
from resetfree.problems import Factor, Factors
from resetfree.problems.finite.mdp import FiniteProblem
from resetfree.theory.assumptions import unsafe_pairs

FREE = ConstantPenalty(C=0.0)
GRID = (Factor("row"), Factor("column"))


def field(rows: int, columns: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The factors of a grid, row by row."""
    return np.stack(np.divmod(np.arange(rows * columns), columns), axis=1)


def edges(*found: tuple[int, int, int]) -> Edges:
    return Edges(*np.array(found, dtype=np.int64).reshape(-1, 3).T)


def test_beliefs_about_places_are_those_of_the_definition() -> None:
    """Every rule by hand: Beta(1/4, 3/4) for the share of deadly places in each cell."""
    features = np.array([[1, 1, 2, 2], [1, 2, 1, 2]], dtype=np.int32)
    rules = np.array([[-1, -1], [0, -1], [0, 1]], dtype=np.int32)
    sizes, first = np.array([3, 3], dtype=np.int32), np.array([0, 1, 4, 13], dtype=np.int32)
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    n_bad, n_good = np.zeros((2, 13), dtype=np.int32)
    states, bad = np.array([0, 1, 2], dtype=np.int32), np.array([True, True, False])
    tally(features, sizes, rules, first, states, bad, n_bad, n_good)
    weights, belief = np.empty(4), np.empty(4)
    believe_places(features, sizes, rules, first, np.log(prior), n_bad, n_good, weights, belief)

    def evidence(b: int, g: int) -> float:
        return gamma(b + 0.25) * gamma(g + 0.75) / (gamma(b + g + 1) * gamma(0.25) * gamma(0.75))

    def rate(b: int, g: int) -> float:
        return (b + 0.25) / (b + g + 1)

    mass = prior * [
        evidence(2, 1),
        evidence(2, 0) * evidence(0, 1),
        evidence(1, 0) ** 2 * evidence(0, 1),
        ALONE**2 * (1 - ALONE),
    ]
    beside = [rate(2, 1), rate(0, 1), rate(0, 0), ALONE]  # what each says of the last state, which has no label
    np.testing.assert_allclose(np.exp(weights), mass)
    np.testing.assert_allclose(belief[3], mass @ beside / mass.sum())


def test_effects_are_differences_and_a_wall_leads_nowhere() -> None:
    places = Landings(GRID, field(3, 4), 2)
    places.learn(edges((4, 0, 0), (5, 0, 1), (0, 0, 0), (9, 0, 5), (10, 0, 6)), np.ones(12, bool), np.zeros(12, bool))
    up = places.target[np.argmax(places.ways[0])]
    assert up.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7]  # row - 1, and the first row stays
    assert places.ways[0].max() == 1.0  # to stand still against the wall is no other effect
    assert not places.ways[1].any()  # never tried


def test_a_teleport_has_no_effects() -> None:
    places = Landings(GRID, field(4, 4), 1)
    anywhere = np.random.default_rng(0).permutation(16)
    places.learn(edges(*((s, 0, int(t)) for s, t in enumerate(anywhere))), np.ones(16, bool), np.zeros(16, bool))
    assert not places.ways.any()


def test_the_place_of_a_fall_that_is_not_shown_is_the_one_that_never_was_survived() -> None:
    """A 2 x 3 field whose falls lead to a state without factors (6); "right" slips down: the cell below is deadly."""
    values = np.vstack([field(2, 3), [[-1, -1]]])
    good = np.array([True, True, True, False, False, False, False])
    bad = np.arange(7) == 6
    places = Landings(GRID, values, 1)
    seen = [(0, 0, 1), (1, 0, 2), (0, 0, 3), (1, 0, 4), (2, 0, 5), (3, 0, 4), (4, 0, 5), (2, 0, 2)]
    places.learn(edges(*seen), np.arange(7) < 6, np.zeros(7, bool))  # both ways are learned
    places = Landings(GRID, values, 1)
    places.learn(edges(*seen, (0, 0, 6)), good, bad)
    assert places.label.tolist() == [-1, -1, -1, 1, 0, 0, 0]
    assert places.fatal[0, 0] == 1.0
    assert places.falls[0, 0] < 1.0


def test_falls_that_share_a_place_point_at_it() -> None:
    """One fall alone leaves two places in question; a second one from another side, which share one, tells which."""
    places = Landings(GRID, field(3, 3), 1)
    places._unsure = [{4: 0.5, 1: 0.5}]
    places._believe()
    one = places.belief.copy()
    assert one[4] == pytest.approx(one[1])
    places._unsure = [{4: 0.5, 1: 0.5}, {4: 0.5, 7: 0.5}]
    places._believe()
    assert places.belief[4] > one[4] > places.belief[1]
    assert places.belief[1] == pytest.approx(places.belief[7])
    prior, exact = {t: Landings(GRID, field(3, 3), 1).belief[t] for t in (1, 4, 7)}, np.zeros(2)
    for one_, four, seven in product((0, 1), repeat=3):
        chance = (0.5 * four + 0.5 * one_) * (0.5 * four + 0.5 * seven)
        for t, deadly in ((1, one_), (4, four), (7, seven)):
            chance *= prior[t] if deadly else 1.0 - prior[t]
        exact += chance * np.array([four, 1.0])
    assert places.belief[4] == pytest.approx(exact[0] / exact[1], abs=0.15)  # passes in place of all combinations


def test_a_place_is_labelled_once_the_falls_leave_little_doubt() -> None:
    """A row whose last cell is never survived: falls of "right" and of "left", which slip, are explained by it."""
    values = np.vstack([field(1, 5), [[-1, -1]]])
    slips = [(0, 0, 1), (1, 0, 2), (1, 0, 0), (2, 0, 1), (2, 0, 3), (3, 0, 2)]
    slips += [(s, 1, t) for s, _, t in slips]
    good, bad = np.array([True, True, True, True, False, False]), np.arange(6) == 5
    places = Landings(GRID, values, 2)
    places.learn(edges(*slips, (3, 1, 5)), good, bad)
    assert places.label.tolist() == [-1, -1, -1, -1, 1, 0]


def test_an_action_may_do_what_the_others_do_until_it_was_tried_often() -> None:
    """ "Right" slipped down; "left" was seen to go left only: down is a risk of it that shrinks, and no way to go."""
    places, all_good, none = Landings(GRID, field(5, 5), 2), np.ones(25, bool), np.zeros(25, bool)
    right = [(0, 0, 1), (1, 0, 2), (5, 0, 6), (6, 0, 11), (7, 0, 12), (8, 0, 9)]
    left = [(s, 1, s - 1) for s in (1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17)]
    places.learn(edges(*right, *left[:2]), all_good, none)
    down = int(np.flatnonzero(places.target[:, 0] == 5)[0])
    early = places.risked[1, down]
    assert places.ways[1, down] == 0.0 < early
    places.learn(edges(*right, *left), all_good, none)
    assert 0.0 < places.risked[1, int(np.flatnonzero(places.target[:, 0] == 5)[0])] < early
    np.testing.assert_allclose(places.risked.sum(axis=1), 1.0)


def test_danger_of_a_pair_is_that_of_the_places_it_can_lead_to() -> None:
    target, ways = np.array([[0, 1, 2], [1, 2, 2]], dtype=np.int32), np.array([[0.25, 0.75], [0.0, 0.0]])
    target[0, 0] = 2
    fatal, falls = np.empty((2, 3, 2))
    danger_of_pairs(target, ways, np.array([0.2, 0.6, 0.5]), fatal, falls)
    np.testing.assert_allclose(fatal[:, 0], [1 - 0.5 * 0.4, 0.5, 0.0])  # to stand where one stands is no danger
    np.testing.assert_allclose(falls[:, 0], [0.25 * 0.5 + 0.75 * 0.6, 0.75 * 0.5, 0.0])
    assert (fatal[:, 1] == SILENT).all()


def meaningless(problem: FiniteProblem) -> Factors:
    """Factors that say nothing about what a state does."""
    n = problem.n_states or 0
    return Factors(GRID, np.stack(np.divmod(np.random.default_rng(n).permutation(n), 2), axis=1))


@pytest.mark.parametrize("kind", KINDS)
def test_no_path_exceeds_the_unsafe_pairs_whatever_the_factors_mean(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random problems of every kind, in tables (with adversarial choices) and without."""
    monkeypatch.setattr(FiniteProblem, "factors", property(meaningless))
    for seed in range(6):
        mdp, player = small(kind, 2, seed), RuleElimination(moves="relative")
        resets, bound = resets_of(mdp, 60, seed, player)  # type: ignore[arg-type]
        assert resets <= bound, seed
        with monkeypatch.context() as patch:
            patch.setattr(count_players, "SMALL", -1)
            run = rf.learn(mdp, player, FREE, episodes=60, seed=seed, feedback="realised")
        assert run.realised_resets[-1] <= unsafe_pairs(mdp), seed


def pits(n: int = 7) -> rf.FiniteMDP:
    """A slippery field whose inside is doomed: only the outer rings can be walked for ever."""
    mdp: rf.FiniteMDP = rf.make("pits-v0", n=n, slip=0.1, horizon=30, density=0.4)
    return mdp


def test_places_save_resets_where_elimination_pays_for_every_pair() -> None:
    """Of a fixed seed: less than half of 37 resets."""
    plain = rf.learn(pits(12), "support-elimination", FREE, episodes=80, seed=1, feedback="realised")
    run = rf.learn(pits(12), RuleElimination(moves="relative"), FREE, episodes=80, seed=1, feedback="realised")
    assert run.realised_resets[-1] < 0.5 * plain.realised_resets[-1]


def test_a_player_that_forgets_its_resets_breaks_the_bound() -> None:
    mdp = rf.make("grid-v0")
    assert rf.learn(mdp, Forgetful(moves="relative"), FREE, episodes=200).realised_resets[-1] > unsafe_pairs(mdp)


def test_the_bound_of_the_rules_has_bits_of_all_actions() -> None:
    """One bit, one for each of five actions, the bits of all of them, and the first falls of two."""
    problem = rf.make("grid-v0").problem()
    fatal = np.zeros((1, problem.n_states or 0, problem.n_actions), dtype=np.bool_)
    fatal[0, 0, 1] = fatal[0, 2, 0] = fatal[0, 3, 1] = True
    plain, relative = (RuleElimination(moves=m).rule_bound(problem, fatal, 8) for m in ("pairs", "relative"))
    never = -np.log2(1 / 8 * 0.4 * 0.9)  # one cell in which nothing falls
    assert plain is not None
    assert relative == pytest.approx(plain + 1 + 5 + 2 + 3 * never)


def test_large_beliefs_are_made_again_from_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_players, "SMALL", -1)
    problem, player = pits().problem(), RuleElimination(moves="relative")
    state: Any = player.init(problem, 40, 0)
    rng, s1 = np.random.default_rng(0), 0
    for k in range(25):
        plan = player.plan(state, s1, 0.0)
        episode = problem.rollout(plan.policy, s1, rng.random(problem.n_uniforms))
        state = player.update(state, rf.Round(k + 1, s1, 0.0, plan, episode, 0.0, None))
        s1 = episode.next_start
    assert isinstance(state, LargeRuleState)
    assert state.landings is not None
    before = state.belief.copy()
    assert (before > 0.5).any()
    state.check_loaded()
    player.plan(state, s1, 0.0)
    assert np.array_equal(state.belief, before)


def test_untried_pairs_are_filled_in_with_the_effects_of_other_places() -> None:
    """A field of 2 x 2, "right" tried in the first cell: it is known in the second, where it meets a wall."""
    problem = rf.make("pits-v0", n=2, density=0.0).problem()
    state: Any = RuleElimination(moves="relative").init(problem, 10, 0)
    data, places = state.data, Landings(GRID, field(2, 2), 4)
    data.tried[0, 0, 3], data.moved[0, 0, 3], data.successor[0, 0, 3, 0], data.seen[0, 0, 3, 0] = 1, 1, 1, 1
    visited = np.array([True, True, False, False])
    places.learn(edges((0, 3, 1)), visited, np.zeros(4, bool))
    counts, nothing = filled(data, places, visited)  # type: ignore[misc]
    assert nothing == 0.0
    assert counts.tried[0, 1].tolist() == [0, 0, 0, 1000]  # the other actions are not known anywhere
    assert counts.successor[0, 1, 3, 0] == 1  # the wall
    assert counts.seen[0, 0, 3].sum() == 1  # what was seen stays
    assert data.tried[0, 1].sum() == 0  # and the data are not touched
    assert all_alike(data)
    data.tried[0, 1, 0], data.earned[0, 1, 0] = 1, 1.0
    assert not all_alike(data)


def test_a_reward_is_found_in_fewer_episodes() -> None:
    """An empty field, seeds 0 to 2: after 19 episodes together in place of 32."""
    mdp = rf.make("pits-v0", n=9, slip=0.2, density=0.0, horizon=20)

    def first(moves: Any, seed: int) -> int:
        run = rf.learn(mdp, RuleElimination(moves=moves), FREE, episodes=60, seed=seed, feedback="realised")
        paid = np.flatnonzero(run.columns["reward"] > 0)
        return int(paid[0]) if len(paid) else 60

    assert sum(first("relative", seed) for seed in range(3)) < 0.8 * sum(first("pairs", seed) for seed in range(3))


def test_a_wall_that_no_effect_shows_is_an_exception() -> None:
    """ "Right" is the same in every row, and the last cell of the first is deadly, but a wall stands before it."""
    places, good = Landings(GRID, field(3, 3), 1), np.arange(9) != 2
    seen = edges((0, 0, 1), (3, 0, 4), (4, 0, 5), (6, 0, 7), (7, 0, 8))
    places.learn(seen, good, ~good)
    times = np.zeros((9, 1), dtype=np.int64)
    assert with_exceptions(places, seen, times)[1, 0] == 1.0
    times[1] = 1
    assert with_exceptions(places, seen, times)[1, 0] < 1e-9
    fell = Edges(*(np.append(a, b) for a, b in zip(vars(seen).values(), (1, 0, 2), strict=True)))
    assert with_exceptions(places, fell, times)[1, 0] == 1.0  # it led there once


@pytest.mark.slow
def test_a_field_of_90000_cells_costs_few_resets() -> None:
    """1,000 episodes, seed 0; there support elimination has 854 resets, rewards of 258 and a regret of 28,643."""
    mdp, player = rf.make("pits-v0", n=300, horizon=200, slip=0.1), RuleElimination(moves="relative")
    problem, value = mdp.problem(), rf.solve(mdp).value
    game, resets, paid, best = begin(problem, player, FREE, episodes=1000, seed=0), 0, 0.0, 0.0
    for k, this in enumerate(play(problem, player, FREE, game, episodes=1000), 1):
        resets, paid = resets + this.episode.reset, paid + float(this.episode.rewards.sum())
        best += float(value[int(this.s1)])
        if k % 100 == 0:
            print(f"\n{k} episodes: {resets} resets, rewards {paid:.0f}, regret {best - paid:.0f}")
    assert resets <= 150
    assert best - paid <= 28643  # rewards that were earned, in place of those expected
    assert player.decisions(game.primal)[0].what.startswith("a place is fatal")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_slippery_cliff_costs_no_more_than_its_cells_and_some_tests(seed: int) -> None:
    """Ten cells of the cliff, at most 16 resets; support elimination has 31 to 36."""
    problem = rf.from_gym(
        "gym:CliffWalking-v1",
        is_slippery=True,
        horizon=100,
        reward=lambda observation, *_: float(observation == 47),
        reset_when="reward<=-100",
    )
    player = RuleElimination(moves="relative")
    run = rf.learn(problem, player, FREE, episodes=1000, seed=seed, feedback="realised")
    print(
        f"\nseed {seed}: {run.realised_resets[-1]} resets, rewards {run.columns['reward'].sum():.0f}, {run.decisions}"
    )
    assert run.realised_resets[-1] <= 16
    assert run.columns["reward"][-100:].mean() > 15.0
