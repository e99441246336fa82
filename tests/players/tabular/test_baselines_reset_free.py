"""Baselines from the literature on learning without resets, and shields: they run, and their formulas hold.

Transcriptions here are written out with every sum and share nothing with the compiled passes.
"""

from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from tests.property.random_mdps import closed_mdp, rough_mdp

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players import Method, Setting, own_methods
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.linear.baselines import MdpExp2, OlsviFH, estimates
from resetfree.players.tabular.average_reward import UCRL2, best_in_ball
from resetfree.players.tabular.mirror import SlucbQvi, best_mixture, known_safe, without_safe_action
from resetfree.players.tabular.references import Uniform
from resetfree.players.tabular.reset_free import LeaveNoTrace, Medal, epsilon_greedy, learn_backwards, matching_reward
from resetfree.players.tabular.shields import ConstantSafe, OneStepShield, OracleShield
from resetfree.problems.finite.tabular_policy import as_policy, check_policy
from resetfree.theory.oracle import Evaluator

Floats = NDArray[np.float64]
PLAYERS: list[type[rf.PrimalPlayer[Any]]] = [
    LeaveNoTrace, Medal, OlsviFH, MdpExp2, UCRL2, SlucbQvi, OracleShield, OneStepShield, ConstantSafe,
]  # fmt: skip
METHODS = [method for cls in (*PLAYERS, Uniform) for method in own_methods(cls)]
BY_NAME = {method.name: method for method in METHODS}


def rounds_of(
    mdp: rf.FiniteMDP, primal: rf.PrimalPlayer[Any], episodes: int, *, penalty: float = 0.0, seed: int = 0
) -> tuple[list[rf.Round], Any]:
    """The rounds of a game against a constant penalty, and the primal player's state after it."""
    problem, dual = mdp.problem(), ConstantPenalty(C=penalty)
    game = begin(problem, primal, dual, episodes=episodes, seed=seed)
    rounds = list(
        play(problem, primal, dual, game, episodes=episodes, feedback="realised", oracle=Evaluator(mdp))
    )  # fmt: skip
    return rounds, game.primal


# They run, and what they say of themselves is true.


@pytest.mark.parametrize("problem", ["grid-v0", "doors-v0", "contexts-v0"])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_every_method_plays_every_problem(method: Method, problem: str) -> None:
    mdp = rf.make(problem)
    pooled = method.pools and mdp.stationary
    primal, dual, feedback = method.build(Setting(B=10.0, width=0.1, pooled=pooled))
    game = begin(mdp.problem(), primal, dual, episodes=300, seed=1)
    rounds = list(play(mdp.problem(), primal, dual, game, episodes=300, feedback=feedback))
    assert len(rounds) == 300
    for this in rounds[::50]:
        check_policy(this.plan.policy, mdp)
    if method.guaranteed:
        assert not any(this.episode.reset for this in rounds)


@pytest.mark.parametrize("seed", range(12))
def test_every_player_plays_rough_problems(seed: int) -> None:
    """Contexts, the literal boundary, one state that can do nothing: nobody stumbles."""
    mdp = rough_mdp(seed)
    for cls in PLAYERS:
        rounds, _ = rounds_of(mdp, cls(), 25, penalty=2.0, seed=seed)
        for this in rounds[::8]:
            check_policy(this.plan.policy, mdp)


@pytest.mark.parametrize("problem", ["grid-v0", "doors-v0", "contexts-v0", "pits-v0", "random-linear-v0"])
@pytest.mark.parametrize("player", [OracleShield(), ConstantSafe(), ConstantSafe(choice="first")], ids=str)
def test_the_oracles_shield_is_never_reset(problem: str, player: rf.PrimalPlayer[Any]) -> None:
    mdp = rf.make(problem)
    assert player.statement(mdp.problem(), 300).covered
    rounds, _ = rounds_of(mdp, player, 300)
    assert all(this.exact is not None and this.exact[1] == 0.0 for this in rounds)


@pytest.mark.parametrize("seed", range(8))
def test_the_oracles_shield_is_never_reset_in_random_problems(seed: int) -> None:
    for player in (OracleShield(), ConstantSafe()):
        rounds, _ = rounds_of(closed_mdp(seed), player, 60, seed=seed)
        assert not any(this.episode.reset for this in rounds)


def test_the_oracles_shield_finds_the_best_safe_policy() -> None:
    mdp = rf.make("grid-v0")
    value = rf.solve(mdp).value
    rounds, _ = rounds_of(mdp, OracleShield(pooled=True, scale=0.05), 600)
    lost = [float(value[this.s1]) - this.exact[0] for this in rounds if this.exact is not None]
    assert min(lost) >= -1e-9
    assert sum(lost[300:]) < 15


def test_looking_one_step_ahead_is_reset_for_ever_behind_the_door() -> None:
    """The chamber pays 1 for three steps, each of which looks harmless until the last, where nothing can be done."""
    mdp = rf.make("doors-v0")
    best = rf.solve(mdp).policy
    assert rf.evaluate(mdp, best).v_c[0] == 0.0
    rounds, _ = rounds_of(mdp, OneStepShield(), 1000)
    costs = np.array([0.0 if this.exact is None else this.exact[1] for this in rounds])
    assert costs[200:600].sum() >= 0.95 * 400
    assert costs[600:].sum() >= 0.95 * 400
    rounds, _ = rounds_of(mdp, OracleShield(), 1000)
    assert sum(this.episode.reset for this in rounds) == 0


def test_only_those_who_may_look_claim_anything() -> None:
    problem = rf.make("grid-v0").problem()
    for cls in PLAYERS:
        said = cls().statement(problem, 100)
        assert said.covered == (cls in (OracleShield, ConstantSafe))
        assert said.why
    broken = rf.make("footnote-v0").problem()  # a start that can occur has no reset-free policy
    assert not OracleShield().statement(broken, 100).covered
    assert not ConstantSafe().statement(broken, 100).covered
    assert "radii" in UCRL2(scale=0.1).statement(problem, 100).why
    assert "never grows" in SlucbQvi(tau=0.0).statement(problem, 100).why


def test_methods_say_what_they_use() -> None:
    looking = {Medal, SlucbQvi, OracleShield, OneStepShield, ConstantSafe}
    for method in METHODS:
        primal, dual, _ = method.build(Setting(B=3.0, width=0.1, pooled=True))
        assert (method.kind == "oracle") == (type(primal) in looking)
        assert method.guaranteed == (type(primal) in (OracleShield, ConstantSafe))
        assert getattr(dual, "C", None) == (3.0 if "penalty B" in method.name else 0.0)
    assert len(BY_NAME) == len(METHODS)


def test_amani_et_al_are_inapplicable_where_they_are() -> None:
    zero, positive = BY_NAME["slucb-qvi, tau = 0"], BY_NAME["slucb-qvi, tau = 1/20"]
    grid, doors = rf.make("grid-v0"), rf.make("doors-v0")
    assert "never grows" in str(zero.inapplicable(grid))
    assert positive.inapplicable(grid) is None
    assert "state c3" in str(positive.inapplicable(doors))
    found = without_safe_action(doors)
    assert found is not None
    assert doors.state_names[found[1]] == "c3"


def test_settings_that_make_no_sense_are_refused() -> None:
    layered, continuum = rf.make("doors-v0").problem(), rf.make("continuous-linear-v0").problem()
    for cls in PLAYERS:
        with pytest.raises(rf.NotCertifiable):
            cls().init(continuum, 10, 0)
        if cls is not ConstantSafe:
            with pytest.raises(rf.InvalidInput, match="pooled"):
                cls(pooled=True).init(layered, 10, 0)  # type: ignore[call-arg]


# UCRL2.


@pytest.mark.parametrize("seed", range(20))
def test_the_best_model_in_an_l1_ball(seed: int) -> None:
    """Against the linear program: p >= 0, sum 1, |p - row|_1 <= radius."""
    rng = np.random.default_rng(seed)
    n = 5
    row, value, radius = rng.dirichlet(np.full(n, 0.5)), rng.normal(size=n), float(rng.choice([0.0, 0.3, 1.0, 2.5]))
    eye, zero = np.eye(n), np.zeros((n, n))
    found = linprog(
        np.concatenate([-value, np.zeros(n)]),
        A_ub=np.block([[eye, -eye], [-eye, -eye], [np.zeros((1, n)), np.ones((1, n))]]),
        b_ub=np.concatenate([row, -row, [radius]]),
        A_eq=np.block([np.ones((1, n)), zero[:1]]), b_eq=[1.0], bounds=(0, None),
    )  # fmt: skip
    assert best_in_ball(row.copy(), radius, value, np.argsort(value)) == pytest.approx(-found.fun, abs=1e-9)


def naive_ucrl2(data: list[rf.Round], mdp: rf.FiniteMDP, t: int, scale: float, lam: float) -> Floats:
    """[S] optimistic values at step 1 of a stationary, physical problem, pooled."""
    n_states, n_actions = mdp.n_states, mdp.n_actions
    n, r = np.zeros((n_states, n_actions)), np.zeros((n_states, n_actions))
    p = np.zeros((n_states, n_actions, n_states))
    bad = np.zeros(n_states, dtype=bool)
    for this in data:
        e = this.episode
        for (s, after), a, x in zip(pairwise(e.states), e.actions, e.rewards, strict=True):
            n[s, a] += 1
            r[s, a] += x
            p[s, a, after] += 1
        if e.reset:
            bad[e.states[-1]] = True
    value = np.zeros(n_states)
    for _ in range(mdp.horizon):
        value = np.where(bad, -lam, value)
        new = np.full(n_states, -np.inf)
        for s in range(n_states):
            for a in range(n_actions):
                if n[s, a] == 0:
                    q = 1.0 + value.max()
                else:
                    d_p = scale * sqrt(14 * n_states * log(2 * n_actions * t / 0.05) / n[s, a])
                    d_r = scale * sqrt(7 * log(2 * n_states * n_actions * t / 0.05) / (2 * n[s, a]))
                    row, best, order = p[s, a] / n[s, a], int(value.argmax()), value.argsort()
                    row[best] = min(1.0, row[best] + d_p / 2)
                    i = 0
                    while row.sum() > 1.0 + 1e-15:  # as printed: take it off the worst
                        j = order[i]
                        row[j] = max(0.0, 1.0 - (row.sum() - row[j]))
                        i += 1
                    q = min(1.0, r[s, a] / n[s, a] + d_r) + row @ value
                new[s] = max(new[s], q)
        value = new
    return value


@pytest.mark.parametrize("lam", [0.0, 5.0])
def test_extended_value_iteration_is_the_transcription(lam: float) -> None:
    mdp = rf.make("grid-v0")
    player = UCRL2(scale=0.05, pooled=True)
    rounds, state = rounds_of(mdp, player, 60, penalty=lam)
    steps, frozen = 0, 0
    for frozen in range(61):  # the epoch began after `frozen` episodes
        if steps == state.t:
            break
        steps += len(rounds[frozen].episode.actions)
    expected = naive_ucrl2(rounds[:frozen], mdp, state.t, 0.05, lam)
    for s in np.flatnonzero(~mdp.reset):
        assert player.plan(state, int(s), lam).upper == pytest.approx(expected[s], abs=1e-9)


def test_epochs_end_when_a_count_has_doubled() -> None:
    mdp = rf.make("grid-v0")
    rounds, state = rounds_of(mdp, UCRL2(pooled=True), 400)
    counts, before, epochs = np.zeros((12, 5)), np.zeros((12, 5)), 1
    for this in rounds:
        for s, a in zip(this.episode.states, this.episode.actions, strict=False):
            counts[s, a] += 1
        if (counts - before >= np.maximum(before, 1)).any():
            before, epochs = counts.copy(), epochs + 1
    assert state.epoch == epochs
    assert (state.frozen.tried[0] == before).all()
    assert state.t == before.sum()


# OLSVI.FH and MDP-EXP2.


@pytest.mark.parametrize(("problem", "lam"), [("random-linear-v0", 0.0), ("random-linear-v0", 3.0), ("grid-v0", 3.0)])
def test_artificial_episodes_are_the_transcription(problem: str, lam: float) -> None:
    mdp = rf.make(problem)
    player = OlsviFH(scale=0.1, pooled=True)
    rounds, state = rounds_of(mdp, player, 30, penalty=lam)
    assert state.length == round((30 * mdp.horizon) ** 0.25)
    n = mdp.n_states * mdp.n_actions
    phi = np.eye(n) if mdp.phi is None else mdp.phi.reshape(n, -1)
    samples: list[tuple[int, float, int]] = []
    for this in rounds:
        e = this.episode
        after = [*e.states[1 : len(e.actions)], e.next_start]
        for i, (a, x) in enumerate(zip(e.actions, e.rewards, strict=True)):
            cost = lam if e.reset and i == len(e.actions) - 1 else 0.0
            samples.append((int(e.states[i]) * mdp.n_actions + int(a), float(x) - cost, int(after[i])))
    Lambda = 0.1**2 * np.eye(phi.shape[1]) + sum(np.outer(phi[i], phi[i]) for i, _, _ in samples)
    inverse = np.linalg.inv(Lambda)
    width = np.sqrt(np.einsum("nd,de,ne->n", phi, inverse, phi))
    by_left = [np.zeros(mdp.n_states)]  # value with so many steps left in the artificial episode
    greedy: list[NDArray[np.int64]] = []
    for left in range(1, state.length + 1):
        w = inverse @ sum(phi[i] * (x + by_left[-1][s]) for i, x, s in samples)
        q = np.clip(phi @ w + 0.1 * (state.length + lam) * width, -lam * left, left).reshape(mdp.n_states, -1)
        by_left.append(q.max(axis=1))
        greedy.append(np.where(np.sort(q, axis=1)[:, -1] - np.sort(q, axis=1)[:, -2] > 1e-9, q.argmax(axis=1), -1))
    assert state.steps == len(samples)
    policy = player.plan(state, 0, lam).policy
    for h in range(mdp.horizon):
        expected = greedy[state.length - (state.steps + h) % state.length - 1]
        assert (policy[h] == expected)[expected >= 0].all()  # ties are anybody's
    s1 = int(np.argmax(~mdp.reset))
    first = by_left[state.length - state.steps % state.length][s1]
    assert player.plan(state, s1, lam).v_r == pytest.approx(min(max(first, 0.0), mdp.horizon), abs=1e-9)


def test_windows_of_exponential_weights() -> None:
    """Of every 2N steps wait N, take one pair and the sum of N rewards from it, through resets, which cost lam."""
    mdp = rf.make("grid-v0")
    player = MdpExp2(eta=0.3, window=3, epoch=20, pooled=True)
    rounds, state = rounds_of(mdp, player, 40, penalty=2.0)
    total = np.zeros(60)
    for epoch in (rounds[:20], rounds[20:]):
        life: list[tuple[int, float]] = []
        for this in epoch:
            e = this.episode
            life += [
                (int(s) * 5 + int(a), float(x)) for s, a, x in zip(e.states, e.actions, e.rewards, strict=False)
            ]  # fmt: skip
            if e.reset:
                life[-1] = (life[-1][0], life[-1][1] - 2.0)
        n, sums = np.zeros(60), np.zeros(60)
        for first in range(3, len(life) - 2, 6):
            n[life[first][0]] += 1
            sums[life[first][0]] += sum(x for _, x in life[first : first + 3])
        total += sums / (n + 1)
    assert state.total.ravel() == pytest.approx(total, abs=1e-12)
    row = np.exp(0.3 * total[:5])
    assert player.plan(state, 0, 0.0).policy[4, 0] == pytest.approx(row / row.sum(), abs=1e-12)


def test_estimates_with_features_are_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    phi, times = rng.random((8, 3)), rng.integers(0, 4, size=(2, 8)).astype(np.float64)
    sums = rng.random((2, 8)) * times
    for layer in range(2):
        Lambda, target = np.eye(3), np.zeros(3)
        for i in range(8):
            Lambda += times[layer, i] * np.outer(phi[i], phi[i])
            target += sums[layer, i] * phi[i]
        expected = phi @ np.linalg.inv(Lambda) @ target
        assert estimates(phi, times, sums)[layer] == pytest.approx(expected, abs=1e-12)
    one_hot = estimates(np.eye(8), times, sums)
    assert estimates(np.empty((0, 0)), times, sums) == pytest.approx(one_hot, abs=1e-12)


# Leave No Trace and MEDAL.


def test_q_learning_is_the_transcription() -> None:
    rng = np.random.default_rng(1)
    q, n = rng.random((3, 4, 2)), rng.integers(0, 5, size=(3, 4, 2))
    states, actions, after = rng.integers(0, 4, 3), rng.integers(0, 2, 3), rng.integers(0, 4, 3)
    gains, stops, used = rng.random(3), np.array([False, False, True]), np.array([True, False, True])
    expected, times = q.copy(), n.copy()
    for i in (2, 0):
        target = gains[i] + (0.0 if stops[i] else 0.9 * expected[(i + 1) % 3, after[i]].max())
        at = (i, states[i], actions[i])
        times[at] += 1
        expected[at] += max(0.3, 1 / times[at]) * (target - expected[at])
    learn_backwards(q, n, states, actions, after, gains, stops, used, 0.9, 0.3)
    assert q == pytest.approx(expected, abs=1e-15)
    assert (n == times).all()


def test_epsilon_greedy_shares_between_the_best() -> None:
    rows = epsilon_greedy(np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0]]), 0.3)
    assert rows == pytest.approx(np.array([[0.45, 0.45, 0.1], [0.1, 0.8, 0.1]]))


def test_an_abort_hands_over_to_the_reset_agent() -> None:
    mdp = rf.make("grid-v0")
    player = LeaveNoTrace(q_min=0.6, epsilon=0.2, pooled=True)
    _, state = rounds_of(mdp, player, 200)
    weakest = state.back.min(axis=0)[0]
    forward = epsilon_greedy(state.q[0], 0.2)
    s1 = int(np.flatnonzero(state.starts)[0])
    policy = player.plan(state, s1, 0.0).policy[3]
    aborts = 0
    for s in np.flatnonzero(~mdp.reset):
        expected = np.zeros(5)
        home = np.flatnonzero(weakest[s] == weakest[s].max())
        for a in range(5):
            if weakest[s, a] < 0.6:
                aborts += 1
                expected[home] += forward[s, a] / len(home)
            else:
                expected[a] += forward[s, a]
        assert policy[s] == pytest.approx(expected, abs=1e-12)
    assert aborts > 0
    elsewhere = int(np.flatnonzero(~state.starts & ~mdp.reset)[0])
    state.forward = True
    assert player.plan(state, elsewhere, 0.0).policy[0] == pytest.approx(epsilon_greedy(weakest, 0.0))
    assert LeaveNoTrace(returns=False).is_forward(state, elsewhere)


def test_a_higher_threshold_is_reset_less() -> None:
    mdp = rf.make("grid-v0")
    runs = [rounds_of(mdp, LeaveNoTrace(q_min=q, pooled=True), 800)[0] for q in (0.0, 0.9)]
    many, few = (sum(this.episode.reset for this in rounds) for rounds in runs)
    assert few < many / 3


def test_states_of_the_expert_pay_the_backward_agent() -> None:
    expert, visits = np.array([0.5, 0.5, 0.0]), np.array([7, 0, 2])
    met = np.array([8, 1, 3]) / 12
    D = expert / (expert + met)
    assert matching_reward(expert, visits) == pytest.approx(-np.log(1 - D), abs=1e-12)
    assert matching_reward(expert, visits)[2] == 0.0


def test_medal_takes_turns_and_watches_the_expert() -> None:
    mdp = rf.make("doors-v0")
    player = Medal()
    rounds, state = rounds_of(mdp, player, 20)
    met = np.zeros(mdp.n_states)
    for this in rounds[1::2]:
        np.add.at(met, this.episode.states, 1)
    assert (state.visits == met).all()
    chamber = [i for i, name in enumerate(mdp.state_names) if name.startswith("c")]
    assert state.expert[chamber].sum() == 0.0  # pi* never goes there
    state.k = 20
    assert player.plan(state, 0, 0.0).policy[0] == pytest.approx(epsilon_greedy(state.q[0], 0.1))
    state.k = 21
    assert player.plan(state, 0, 0.0).policy[0] == pytest.approx(epsilon_greedy(state.back[0], 0.1))


# SLUCB-QVI.


@pytest.mark.parametrize("seed", range(20))
def test_the_best_mixture_is_the_linear_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, up, tau = rng.random(4), rng.random(4), float(rng.random() * 0.5)
    up[rng.integers(4)] = 0.0
    found = linprog(-q, A_ub=[up], b_ub=[tau], A_eq=np.ones((1, 4)), b_eq=[1.0], bounds=(0, None))
    theta = np.empty(4)
    assert best_mixture(q, up, tau, theta) == pytest.approx(-found.fun, abs=1e-9)
    assert theta @ q == pytest.approx(-found.fun, abs=1e-9)
    assert theta.sum() == pytest.approx(1.0)
    assert theta @ up <= tau + 1e-12


def test_at_threshold_zero_the_safe_set_never_grows() -> None:
    mdp = rf.make("grid-v0")
    rounds, _ = rounds_of(mdp, SlucbQvi(tau=0.0, pooled=True), 200)
    expected = as_policy(known_safe(mdp), mdp)
    for this in rounds:
        assert (this.plan.policy == expected).all()


def test_above_zero_it_grows_and_each_step_keeps_its_bound() -> None:
    """With wide bounds on the cost, the true risk of every single step stays below tau, and resets still come."""
    mdp = rf.make("grid-v0")
    rounds, _ = rounds_of(mdp, SlucbQvi(tau=0.05, scale=1.5, pooled=True), 400)
    arrive = np.zeros((mdp.n_states, mdp.n_actions))
    t = mdp.transition
    for i in range(mdp.n_states * mdp.n_actions):
        row = slice(t.indptr[i], t.indptr[i + 1])
        arrive.flat[i] = t.prob[row][mdp.reset[t.indices[row]]].sum()
    risks = [(this.plan.policy * arrive).sum(axis=2)[:, ~mdp.reset].max() for this in rounds]
    assert max(risks) <= 0.05 + 1e-9
    assert (rounds[-1].plan.policy != rounds[0].plan.policy).any()
    assert sum(0.0 if this.exact is None else this.exact[1] for this in rounds) > 1.0
    assert SlucbQvi(tau=0.05).kappa(8) == pytest.approx(321.0)
