"""Algorithm 1 with the smallest proved widths: fast equals naive, it is optimistic, and it learns where they bite."""

from functools import partial
from itertools import pairwise, product
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.players.linear.naive import Sample, record, with_features
from tests.players.linear.test_linear_ucb import bellman_slack, game_of

import resetfree as rf
from resetfree.players.linear.greedy_composite import GreedyComposite
from resetfree.players.linear.intervals import IntervalState
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.players.linear.regression import DeterminantState
from resetfree.theory.certificates import OPTIMISM, RATES, certify
from resetfree.theory.proved_widths import CORNERS, SETS, determinant_betas

Floats = NDArray[np.float64]


def largest(share: float, x: float) -> float:
    """The largest q with kl(share, q) <= x, by bisection."""
    low, high = share, 1.0
    for _ in range(60):
        q = (low + high) / 2
        pairs = ((share, q), (1 - share, 1 - q))
        inside = q < 1 and sum(a * log(a / b) for a, b in pairs if a > 0) <= x
        low, high = (q, high) if inside else (low, q)
    return high if share < 1 else 1.0


def mean(samples: list[float], values: list[float], x: float, upper: bool) -> float:
    """The integral over t of the end of the interval of {V > t}."""
    levels, total = sorted({*values, *samples}), 0.0
    for low, high in pairwise(levels):
        share = sum(v > low for v in samples) / len(samples)
        total += (high - low) * (largest(share, x) if upper else 1 - largest(1 - share, x))
    return levels[0] + total


def naive(
    data: list[list[Sample]], dead: list[list[bool]], state: Any, alpha: float, lam: float, n_transitions: int
) -> tuple[Floats, Floats, Floats]:
    """The policy, and V_r and V_c at step 1, with every sum written out; data and dead: by layer."""
    H, S, A = state.shape
    policy, v_r, v_c = np.empty((H, S, A)), np.zeros(S), np.zeros(S)
    for h in reversed(range(H)):
        samples, died = data[h if len(data) > 1 else 0], dead[h]
        live = [t for t in range(S) if not died[t]]
        q_r, q_c = np.empty((S, A)), np.empty((S, A))
        for s in range(S):
            for a in range(A):
                own = [one for one in samples if one[0] == s * A + a]
                moved = [t for _, _, t, _ in own if t is not None]
                pay, cost = sum(r for _, r, _, _ in own) / len(own) if own else 1.0, 0.0
                if own and state.width.noise:
                    n, logs = len(own), 2 * state.width.noise_log
                    pay = min(pay + state.width.noise * sqrt((n + 1) * (log(n + 1) + logs)) / n, 1.0)
                if h < n_transitions:
                    all_r, all_c = [0.0, *v_r[live]], [1.0, *v_c[live]]
                    if not moved:
                        pay, cost = pay + max(all_r), min(all_c)
                    else:
                        x = (state.width.log_term + log(2 * sqrt(len(moved)))) / len(moved)
                        pay += mean([0.0 if died[t] else v_r[t] for t in moved], all_r, x, True)
                        cost = mean([1.0 if died[t] else v_c[t] for t in moved], all_c, x, False)
                q_r[s, a], q_c[s, a] = min(pay, H - h), cost
        score = alpha * (q_r - lam * q_c)
        policy[h] = np.exp(score - score.max(axis=1, keepdims=True))
        policy[h] /= policy[h].sum(axis=1, keepdims=True)
        v_r, v_c = (policy[h] * q_r).sum(axis=1), (policy[h] * q_c).sum(axis=1)
    return policy, v_r, v_c


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "ledge": (rf.make("ledge-v0", places=2, horizon=3), {}),
    "pooled": (rf.make("ledge-v0", places=3, horizon=3, fall=0.2), {"pooled": True}),
    "anytime": (rf.make("ledge-v0", horizon=2), {"anytime": True}),
    "literal": (rf.make("thresholds-v0").replace(boundary="literal"), {}),
    "layered": (rf.make("coin-chain-v0", m=2), {}),
    "ends reset": (rf.make("pits-v0", n=3, slip=0.2, horizon=3), {}),
    "noise": (rf.make("thresholds-v0").replace(noise="bernoulli"), {"pooled": True}),
    "one action": (rf.make("edge-one-action-v0"), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_fast_pass_is_the_integral_over_all_levels(case: str) -> None:
    mdp, settings = CASES[case]
    primal, game, rounds = game_of(mdp, 40, B=5.0, width="proved", **settings)
    state, H = game.primal, mdp.horizon
    assert isinstance(state, IntervalState)
    data: list[list[Sample]] = [[] for _ in range(H)]
    known = np.zeros((2, mdp.n_states), dtype=bool)
    for k, this in enumerate(rounds, start=1):
        if k % 13 == 1 or k == 40:
            alpha = primal.temperature(mdp.problem(), 40) * (k if primal.anytime else 1)
            layers = [[one for layer in data for one in layer]] if primal.pooled else data
            dead = [known[int(h == mdp.n_transitions - 1)].tolist() for h in range(H)]
            policy, v_r, v_c = naive(layers, dead, state, alpha, this.lam, mdp.n_transitions)
            live = ~mdp.reset
            np.testing.assert_allclose(np.asarray(this.plan.policy)[:, live], policy[:, live], atol=1e-6)
            assert (this.plan.v_r, this.plan.v_c) == pytest.approx((v_r[this.s1], v_c[this.s1]), abs=1e-9)
        record(data, this.episode, mdp.n_actions)
        if this.episode.reset:
            early = len(this.episode.actions) < mdp.n_transitions or not mdp.problem().end_resets
            known[:, this.episode.states[-1]] |= [early, True]


PROBLEMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ledge": (rf.make("ledge-v0", places=3, horizon=3, fall=0.3), {}),
    "ledge, pooled": (rf.make("ledge-v0", places=3, horizon=3, fall=0.3), {"pooled": True}),
    "ledge, pooled, literal": (
        rf.make("ledge-v0", places=3, horizon=3, fall=0.3).replace(boundary="literal"),
        {"pooled": True},
    ),
    "features": (rf.make("random-linear-v0", n_states=5, n_actions=3, d=3, horizon=2), {}),
    "features, pooled": (rf.make("random-linear-v0", n_states=5, n_actions=3, d=3, horizon=2), {"pooled": True}),
}


def least_slack(mdp: rf.FiniteMDP, shrunk: float, **settings: Any) -> float:
    """Of Q_r >= r + P V_r and Q_c <= P V_c, over all (h, s, a) of every tenth of 400 rounds; widths times `shrunk`."""
    primal, game, rounds = game_of(mdp, 400, B=3.0, width="proved", **settings)
    state: Any = game.primal
    if isinstance(state, IntervalState):
        state.width = state.width._replace(part=shrunk)
    else:
        names = ("sigma_r", "sigma_c", "ridge_r", "ridge_c")
        state.width = state.width._replace(**{name: shrunk * getattr(state.width, name) for name in names})
    worst = np.inf
    for k, this in enumerate(rounds):
        if k % 10 == 0:
            policy, _, _, q_r, q_c = primal.backward(state, this.lam)
            state.beta_r = state.beta_c = 1.0
            anything = np.full(q_r.shape, 1e3)  # how far off they are is checked elsewhere
            worst = min(worst, bellman_slack(mdp, policy, q_r, q_c, anything, state))
    return worst


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_bellman_inequality_holds_with_the_proved_width_and_fails_with_a_small_part_of_it(name: str) -> None:
    mdp, settings = PROBLEMS[name]
    assert (
        least_slack(mdp, 1.0, **settings) >= -1e-9
    )  # fails with probability at most 0.04 by chance; the seed is fixed
    assert least_slack(mdp, 0.01, **settings) < -1e-3


def test_the_bound_on_resets_says_something_and_resets_stop() -> None:
    """On the smallest ledge, with all of Algorithm 1: after 6,000 rounds the rate is below half of them."""
    episodes, ledge = 6_000, rf.make("ledge-v0", fall=0.8)
    settings = {"primal": {"width": "proved"}}
    algorithm = partial(rf.learn, ledge, "linear-ucb", "projected-gradient", seed=3, feedback="optimistic")
    run = algorithm(episodes=episodes, settings=settings)
    found = {c.claim: c for c in certify(run)}
    rate = found[RATES[2]]
    assert rate.status == "proved"
    assert rate.holds
    assert not rate.detail["vacuous"]
    assert rate.rhs < episodes / 2
    assert float(run.resets[-1] - run.resets[episodes // 4]) < 0.05 * float(run.resets[-1])  # flat
    assert all(found[claim].status == "proved" and found[claim].holds for claim in OPTIMISM)
    old = algorithm(episodes=100, settings={"primal": {"width": "theory"}})
    assert float(old.resets[-1]) > 0.2 * 100  # the width that knows K has learned nothing yet


def test_the_statement_says_which_bound_it_is() -> None:
    grid, linear = rf.make("grid-v0").problem(), rf.make("random-linear-v0").problem()
    for problem, bound in ((grid, SETS), (linear, CORNERS)):
        for settings in ({}, {"pooled": True}, {"alpha": 3.0}, {"reg": 2.0}, {"anytime": True}):
            player = LinearUCB(B=3.0, width="proved", **settings)
            stated = player.statement(problem, 1000)
            assert stated.covered
            assert stated.constants["bound"] == bound
            assert bound in stated.why
            assert player.statement(problem, 10**9).constants | {"alpha": 0} == stated.constants | {"alpha": 0}  # no K
    ends = rf.make("pits-v0", slip=0.2).problem()
    assert LinearUCB(B=3.0, width="proved").statement(ends, 10).covered
    if ends.end_resets:
        assert not LinearUCB(B=3.0, width="proved", pooled=True).statement(ends, 10).covered
    phi = with_features(rf.make("grid-v0"), 4).phi
    assert phi is not None
    long = rf.make("grid-v0").replace(phi=2 * phi).problem()
    assert "longer than 1" in LinearUCB(B=3.0, width="proved").statement(long, 10).why


def test_no_theorem_covers_a_pooled_regression_of_actions_that_lead_nowhere() -> None:
    """The last action of a literal episode has no next state: pooled, it is a sample of r + 0, and V_r falls below."""
    moves = rf.make("random-linear-v0", n_states=4, n_actions=2, d=2, horizon=2)
    nowhere = moves.replace(boundary="literal")
    slack = {}
    for mdp, pooled in product((moves, nowhere), (False, True)):
        primal, game, rounds = game_of(mdp, 5_000, B=1.3, width="proved", pooled=pooled)
        for _ in rounds:
            pass
        policy, _, _, q_r, q_c = primal.backward(game.primal, 1.0)
        game.primal.beta_r = game.primal.beta_c = 1.0  # how far off they are is checked elsewhere
        slack[mdp.boundary, pooled] = bellman_slack(mdp, policy, q_r, q_c, np.full(q_r.shape, 1e3), game.primal)
        for player in (primal, GreedyComposite(B=1.3, width="proved", pooled=pooled)):
            stated = player.statement(mdp.problem(), 5_000)
            assert stated.covered == (mdp is moves or not pooled)
            assert stated.covered or "leads nowhere" in stated.why
    assert slack.pop(("literal", True)) < -0.1
    assert min(slack.values()) >= -1e-9
    counted = LinearUCB(B=1.0, width="proved", pooled=True)  # intervals count moves apart
    assert counted.statement(rf.make("ledge-v0", horizon=2).replace(boundary="literal").problem(), 10).covered


@pytest.mark.parametrize("settings", [{"lagged": True}, {"split": False}])
def test_what_the_proof_does_not_have_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(rf.InvalidInput, match="of linear-ucb must be"):
        LinearUCB(B=1.0, width="proved", **settings)
    with pytest.raises(rf.InvalidInput, match="must be tuned, theory or paper in the batched engine"):
        LinearUCB(B=1.0, width="proved").batched_form(rf.make("grid-v0").problem(), 10)


def test_widths_grow_with_the_determinants_of_the_data() -> None:
    mdp, _ = PROBLEMS["features"]
    _, game, rounds = game_of(mdp, 50, B=3.0, width="proved")
    state = game.primal
    assert isinstance(state, DeterminantState)
    first = determinant_betas(state.width, state.data.log_det)
    visits = np.zeros(mdp.horizon, dtype=int)
    for this in rounds:
        visits[: len(this.episode.actions)] += 1
    last = determinant_betas(state.width, state.data.log_det)
    assert (last[1] > first[1]).all()
    for h, n in enumerate(visits):
        assert 0 < state.data.log_det[h] <= 3 * log(1 + n / 3) + 1e-9
