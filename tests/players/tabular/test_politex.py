"""POLITEX: its trap with linear resets, the ways out of it, and its values against plain transcriptions."""

from collections import Counter
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.property.random_mdps import rough_mdp

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.players.tabular.average_reward import Politex
from resetfree.players.tabular.references import BestResponse
from resetfree.players.testing.trial_problems import Scripted
from resetfree.theory.oracle import Evaluator
from resetfree.theory.oracle.dynamic_programming import solve

ROOT5 = sqrt(5.0)  # |(2, 1)|: lambda* is 2 at A and 1 at B
A = 0  # the dangerous start


def trap(primal: rf.PrimalPlayer[Any], episodes: int, xi: NDArray[np.float64] | None = None) -> tuple[float, int]:
    """Expected resets, and how often an episode began at A; the dual player is told the exact V_c."""
    mdp = rf.make("politex-trap-v0")
    mdp = mdp if xi is None else mdp.replace(xi=xi)
    problem, dual = mdp.problem(), ProjectedGradient(B=ROOT5)
    game = begin(problem, primal, dual, episodes=episodes, seed=0)
    resets, dangerous = 0.0, 0
    for this in play(problem, primal, dual, game, episodes=episodes, feedback="exact", oracle=Evaluator(mdp)):
        assert this.exact is not None
        resets += this.exact[1]
        dangerous += this.s1 == A
    return resets, dangerous


def test_summed_values_reset_for_ever() -> None:
    """Each start at A (one in 11 episodes) is a reset: about K / 11, so 455 and 1818."""
    for episodes in (5_000, 20_000):
        resets, dangerous = trap(Politex(B=ROOT5, model="exact"), episodes)
        assert resets >= 0.95 * dangerous
        assert resets == pytest.approx(episodes / 11, rel=0.1)


def test_a_copy_per_start_resets_like_the_root_of_the_episodes() -> None:
    few, many = (trap(Politex(B=ROOT5, model="exact", copies=True), k)[0] for k in (5_000, 20_000))
    assert (few, many) == pytest.approx((74, 146), abs=6)
    assert many / few == pytest.approx(2.0, abs=0.15)


def test_one_multiplier_for_all_starts_is_a_way_out() -> None:
    few, many = (trap(Politex(B=ROOT5, model="exact"), k, np.ones((5, 1)))[0] for k in (5_000, 20_000))
    assert (few, many) == pytest.approx((10, 17), abs=2)


def test_a_best_response_is_reset_until_the_multiplier_is_1_and_never_again() -> None:
    """One reset if A comes up within five episodes (sqrt(5) / sqrt(k) >= 1), as it does here; a few if later."""
    assert [trap(BestResponse(), k)[0] for k in (5_000, 20_000)] == [1.0, 1.0]


def test_the_trap_is_not_the_knowledge_of_the_model() -> None:
    resets, dangerous = trap(Politex(B=ROOT5), 5_000)
    assert resets >= 0.9 * dangerous
    assert trap(Politex(B=ROOT5, copies=True), 5_000)[0] < 150


def test_the_bound_of_the_statement_holds_with_a_copy_per_start() -> None:
    mdp, episodes = rf.make("politex-trap-v0"), 2_000
    problem, value = mdp.problem(), solve(mdp).value
    player, dual = Politex(B=4.0, model="exact", copies=True), Scripted((0.0, 4.0, 0.5))
    bound = player.statement(problem, episodes).constants["primal_regret_bound"]
    game = begin(problem, player, dual, episodes=episodes, seed=1)
    regret = 0.0
    for this in play(problem, player, dual, game, episodes=episodes, oracle=Evaluator(mdp)):
        assert this.exact is not None
        regret += float(value[this.s1]) - (this.exact[0] - this.lam * this.exact[1])
    assert 0.0 < regret <= float(bound)


def test_statements_say_what_is_covered() -> None:
    problem, lonely = rf.make("politex-trap-v0").problem(), rf.FiniteMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [False], 2)
    said = Politex(B=2.0, model="exact").statement(problem, 100)
    assert not said.covered
    assert "different starts" in said.why
    assert "politex-trap-v0" in said.why
    assert said.constants["eta"] == pytest.approx(sqrt(8 * log(2) / 100) / 4)
    assert Politex(B=2.0, model="exact", copies=True).statement(problem, 100).covered
    alone = Politex(B=2.0, model="exact").statement(lonely.problem(), 100)
    assert alone.covered
    assert alone.constants["primal_regret_bound"] == pytest.approx(2 * 2 * 4 * sqrt(100 * log(2) / 8))
    assert "estimated" in Politex(B=2.0).statement(problem, 100).why


@pytest.mark.parametrize("seed", range(10))
def test_exact_values_are_those_of_the_policy_played(seed: int) -> None:
    mdp = rough_mdp(seed)
    problem, player = mdp.problem(), Politex(B=3.0, model="exact")
    game = begin(problem, player, Scripted(), episodes=25, seed=seed)
    total = np.zeros((mdp.horizon, mdp.n_states, mdp.n_actions))
    for this in play(problem, player, Scripted(), game, episodes=25):
        values = rf.evaluate(mdp, this.plan.policy)
        assert (this.plan.v_r, this.plan.v_c) == pytest.approx((values.v_r[this.s1], values.v_c[this.s1]), abs=1e-12)
        total += naive_true(mdp, this)
    np.testing.assert_allclose(game.primal.total[0], total, atol=1e-9)


def naive_true(mdp: rf.FiniteMDP, this: rf.Round) -> NDArray[np.float64]:
    """qhat of one round, from one dense matrix per step."""
    n, m, policy = mdp.n_states, mdp.n_actions, this.plan.policy
    q = np.zeros((mdp.horizon, n, m))
    after = np.zeros(n)  # V_r - lam V_c
    for h in range(mdp.horizon - 1, -1, -1):
        q[h] = mdp.reward[h if len(mdp.reward) > 1 else 0]
        if h < mdp.n_transitions:
            dead = mdp.last_reset if h == mdp.n_transitions - 1 else mdp.reset
            layer = mdp.transition.matrix(0 if mdp.transition.stationary else h)
            q[h] += (layer @ np.where(dead, -this.lam, after)).reshape(n, m)
        q[h, mdp.reset] = 0.0
        after = (policy[h] * q[h]).sum(axis=1)
    return q


@pytest.mark.parametrize("scale", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(10))
def test_counted_values_equal_a_plain_transcription(seed: int, scale: float) -> None:
    mdp = rough_mdp(seed)
    problem, player = mdp.problem(), Politex(B=3.0, scale=scale)
    game = begin(problem, player, Scripted(), episodes=40, seed=seed)
    total = np.zeros((mdp.horizon, mdp.n_states, mdp.n_actions))
    past: list[rf.Episode] = []
    for this in play(problem, player, Scripted(), game, episodes=40):
        past.append(this.episode)
        total += naive_counted(mdp, past, this, scale)
    np.testing.assert_allclose(game.primal.total[0], total, atol=1e-9)


def naive_counted(mdp: rf.FiniteMDP, past: list[rf.Episode], this: rf.Round, scale: float) -> NDArray[np.float64]:
    """qhat of one round, from dictionaries of everything that was ever seen."""
    tried: Counter[Any] = Counter()
    paid: Counter[Any] = Counter()
    moved: dict[Any, Counter[int]] = {}
    dead, dead_last = set(), set()
    horizon, steps = mdp.horizon, mdp.n_transitions
    end_resets = bool((mdp.reset != mdp.last_reset).any())
    for episode in past:
        for h, (s, a, r) in enumerate(zip(episode.states, episode.actions, episode.rewards, strict=False)):
            key = (0 if mdp.stationary else h, s, a)
            tried[key] += 1
            paid[key] += r
            if h + 1 < len(episode.states):
                moved.setdefault(key, Counter())[int(episode.states[h + 1])] += 1
        if episode.reset:
            dead_last.add(int(episode.states[-1]))
            if len(episode.actions) < steps or not end_resets:
                dead.add(int(episode.states[-1]))
    q = np.zeros((horizon, mdp.n_states, mdp.n_actions))
    v_r, v_c = np.zeros(mdp.n_states), np.zeros(mdp.n_states)
    for h in range(horizon - 1, -1, -1):
        here_r, here_c = np.zeros(q.shape[1:]), np.zeros(q.shape[1:])
        gone = dead_last if h == steps - 1 else dead
        for s in range(mdp.n_states):
            for a in range(mdp.n_actions):
                key = (0 if mdp.stationary else h, s, a)
                n, rows = tried[key], moved.get(key, Counter())
                if n == 0:
                    here_r[s, a] = horizon - h if scale > 0 else 0.0
                    continue
                pay, cost = paid[key] / n, 0.0
                if h < steps and not rows:
                    pay += horizon - h - 1 if scale > 0 else 0.0
                elif h < steps:
                    pay += sum(c * v_r[t] for t, c in rows.items() if t not in gone) / rows.total()
                    cost = sum(c * (1.0 if t in gone else v_c[t]) for t, c in rows.items()) / rows.total()
                here_r[s, a] = np.clip(pay + scale * horizon / sqrt(n), 0.0, horizon - h)
                here_c[s, a] = np.clip(cost - scale / sqrt(n), 0.0, 1.0)
        q[h] = here_r - this.lam * here_c
        v_r, v_c = ((this.plan.policy[h] * x).sum(axis=1) for x in (here_r, here_c))
    return q


def test_bad_settings_and_too_large_problems_are_refused() -> None:
    problem = rf.make("grid-v0").problem()
    with pytest.raises(rf.InvalidInput, match=r"'B' of politex must be a bound on the multipliers\. Got None"):
        Politex().init(problem, 10, 0)
    large = rf.FiniteMDP(np.ones((1, 2, 1)), np.zeros((1, 2)), [False], 40).problem()
    large.n_states = 1000  # what the refusal looks at; nothing of that size is made
    with pytest.raises(
        rf.InvalidInput, match=r"at most 50,000,000 entries\. Got 80,000,000 instead: one copy per start"
    ):
        Politex(B=1.0, copies=True).init(large, 10, 0)
    with pytest.raises(rf.InvalidInput, match="'episodes' of politex must be a positive integer"):
        Politex(B=1.0).init(problem, 0, 0)
