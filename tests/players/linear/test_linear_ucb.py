"""Algorithm 1's primal player: fast equals naive, optimism holds where it is proved, and nothing overflows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests import bank
from tests.players.linear.naive import Sample, backward, check_why_not_proved, record, with_features

import resetfree as rf
from resetfree.core.state import dump
from resetfree.game.loop import Game
from resetfree.players.linear import linear_ucb
from resetfree.players.linear.algorithm1 import Algorithm1, algorithm1
from resetfree.players.linear.linear_ucb import LargeLinearState, LinearState, LinearUCB
from resetfree.players.linear.regression import features_of

Floats = NDArray[np.float64]


def game_of(
    mdp: rf.FiniteMDP, episodes: int, seed: int = 0, B: float = 5.0, **settings: Any
) -> tuple[LinearUCB, Game, Iterator[rf.Round]]:
    primal, dual = algorithm1(B=B, **settings)
    return primal, *bank.game_of(mdp, primal, dual, episodes, seed, feedback="optimistic")


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "one-hot": (rf.make("grid-v0"), {}),
    "dense": (with_features(rf.make("grid-v0"), 60), {}),
    "few features": (rf.make("random-linear-v0", n_states=12, n_actions=3), {}),
    "lagged": (rf.make("grid-v0"), {"lagged": True}),
    "anytime": (rf.make("grid-v0"), {"anytime": True}),
    "joint widths": (rf.make("grid-v0"), {"split": False}),
    "literal": (rf.make("grid-v0").replace(boundary="literal"), {}),
    "literal, as printed": (rf.make("grid-v0").replace(boundary="literal"), {"lagged": True, "split": False}),
    "layered": (rf.make("doors-v0"), {}),
    "ends reset": (rf.make("pits-v0", slip=0.2), {}),
    "noise": (rf.make("grid-v0").replace(noise=0.3), {}),
    "contexts": (rf.make("contexts-v0"), {}),
    "ridge": (with_features(rf.make("thresholds-v0"), 4), {"reg": 0.1}),
    "one action": (rf.make("edge-one-action-v0"), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_fast_player_is_the_pseudocode(case: str) -> None:
    """Every plan of 60 episodes, from the data of the very same game."""
    mdp, settings = CASES[case]
    primal, game, rounds = game_of(mdp, 60, **settings)
    phi = features_of(mdp.problem()).reshape(mdp.n_states, mdp.n_actions, -1)
    data: list[list[Sample]] = [[] for _ in range(mdp.horizon)]
    old = np.full((mdp.horizon, mdp.n_states, mdp.n_actions), 1 / mdp.n_actions) if primal.lagged else None
    state = game.primal
    for k, this in enumerate(rounds, start=1):
        alpha = primal.temperature(mdp.problem(), 60) * (k if primal.anytime else 1)
        slow = backward(
            data, phi, alpha=alpha, lam=this.lam, beta_r=state.beta_r, beta_c=state.beta_c, reg=primal.ridge(), old=old
        )
        assert this.plan.v_r == pytest.approx(slow.v_r[0, this.s1], abs=1e-9)
        assert this.plan.v_c == pytest.approx(slow.v_c[0, this.s1], abs=1e-9)
        live = ~mdp.reset  # on reset states the fast player fixes the values, which no target uses otherwise
        if case != "anytime":
            np.testing.assert_allclose(this.plan.policy[:, live], slow.policy[:, live], atol=1e-6)
        record(data, this.episode, mdp.n_actions)
        old = this.plan.policy if primal.lagged else None


@pytest.mark.parametrize(("id", "d"), [("grid-v0", 0), ("random-linear-v0", 0), ("grid-v0", 60)])
def test_it_is_still_the_pseudocode_after_ten_thousand_episodes(id: str, d: int) -> None:
    """Rounding of ten thousand rank-one updates stays below 1e-8 in every Q."""
    mdp = rf.make(id) if d == 0 else with_features(rf.make(id), d)
    episodes = 10_000
    primal, game, rounds = game_of(mdp, episodes)
    data: list[list[Sample]] = [[] for _ in range(mdp.horizon)]
    for this in rounds:
        record(data, this.episode, mdp.n_actions)
    lam = 3.0
    phi = features_of(mdp.problem()).reshape(mdp.n_states, mdp.n_actions, -1)
    state = game.primal
    slow = backward(data, phi, alpha=state.alpha, lam=lam, beta_r=state.beta_r, beta_c=state.beta_c, reg=primal.ridge())
    _, _, _, q_r, q_c = primal.backward(state, lam)
    np.testing.assert_allclose(q_r.reshape(slow.q_r.shape), slow.q_r, atol=1e-8)
    np.testing.assert_allclose(q_c.reshape(slow.q_c.shape), slow.q_c, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(state.regression.width2).reshape(slow.width.shape), slow.width, atol=1e-8)


@pytest.mark.parametrize("id", ["grid-v0", "random-linear-v0", "doors-v0", "pits-v0"])
@pytest.mark.parametrize("width", ["theory", "tuned"])
def test_bellman_inequalities_and_optimism_against_the_true_model(id: str, width: str) -> None:
    """With the proved width, for every (h, s, a) of every episode:

    Q_r >= r + P V_r and Q_c <= P V_c, each within two widths; the played policy is worth at most v_r and costs at least
    v_c; and the composite is above that of every policy tried, pi* among them. A tuned width has no such promise: with
    width zero the inequalities fail, so the check can fail. Here Q_r is at its cap and Q_c at zero; `test_bellman` is
    about widths where they are not.
    """
    mdp = rf.make(id)
    solution = rf.solve(mdp)
    B = float(np.nanmax(solution.lambda_hat)) + 1
    settings: dict[str, Any] = {"width": "theory"} if width == "theory" else {"scale": 0.0}
    episodes = 150
    primal, game, rounds = game_of(mdp, episodes, B=B, **settings)
    rng = np.random.default_rng(0)
    others = [solution.policy, *(rng.integers(mdp.n_actions, size=(mdp.horizon, mdp.n_states)) for _ in range(3))]
    values = [rf.evaluate(mdp, policy) for policy in others]
    worst = np.inf
    state = game.primal
    for this in rounds:
        exact = this.exact
        assert exact is not None
        slack_h = mdp.horizon * np.log(mdp.n_actions) / state.alpha if state.alpha else 0.0
        gaps = [this.plan.v_r - exact[0], exact[1] - this.plan.v_c]
        for v in values:
            composite = float(v.v_r[this.s1] - this.lam * v.v_c[this.s1])
            gaps.append(this.plan.v_r - this.lam * this.plan.v_c + slack_h - composite)
        worst = min(worst, *gaps)
        policy, _, _, q_r, q_c = primal.backward(state, this.lam)
        worst = min(worst, bellman_slack(mdp, policy, q_r, q_c, np.sqrt(state.regression.width2), state))
    if width == "theory":
        assert worst >= -1e-9
    else:
        assert worst < -1e-3


def bellman_slack(mdp: rf.FiniteMDP, policy: Floats, q_r: Floats, q_c: Floats, width: Floats, state: Any) -> float:
    """The least slack of the four inequalities over all (h, s, a) with s not a reset state."""
    shape = (mdp.horizon, mdp.n_states, mdp.n_actions)
    q_r, q_c, width = q_r.reshape(shape), q_c.reshape(shape), width.reshape(shape)
    v_r, v_c = np.zeros(mdp.n_states), np.zeros(mdp.n_states)
    least = np.inf
    for h in reversed(range(mdp.horizon)):
        dead = mdp.last_reset if h == mdp.n_transitions - 1 else mdp.reset
        layer = mdp.transition.matrix(0 if mdp.transition.stationary else h)
        target_r = mdp.reward[mdp.model.reward_of_step[h]] + (layer @ np.where(dead, 0.0, v_r)).reshape(shape[1:])
        target_c = (layer @ np.where(dead, 1.0, v_c)).reshape(shape[1:]) * (h < mdp.n_transitions)
        live = ~mdp.reset
        for slack in (
            q_r[h] - target_r,
            target_c - q_c[h],
            target_r + 2 * state.beta_r * width[h] - q_r[h],
            q_c[h] + 2 * state.beta_c * width[h] - target_c,
        ):
            least = min(least, float(slack[live].min()))
        v_r, v_c = (policy[h] * q_r[h]).sum(axis=1), (policy[h] * q_c[h]).sum(axis=1)
    return least


@pytest.mark.parametrize("alpha", [0.0, 1.0, 1e8, 1e300])
def test_no_temperature_overflows(alpha: float) -> None:
    mdp = rf.make("grid-v0")
    _, _, rounds = game_of(mdp, 50, alpha=alpha)
    for this in rounds:
        assert np.isfinite(this.plan.policy).all()
        np.testing.assert_allclose(this.plan.policy.sum(axis=2), 1.0, atol=1e-12)


def test_before_any_data_it_is_optimistic() -> None:
    """Q_r^1 is the clipped bonus, not zero; Q_c^1 is zero (readings.md, A3)."""
    mdp = rf.make("grid-v0")
    primal = LinearUCB(B=40.0)
    state = primal.init(mdp.problem(), 100, 0)
    assert isinstance(state, LinearState)
    _, _, _, q_r, q_c = primal.backward(state, 5.0)
    np.testing.assert_array_equal(q_r, np.broadcast_to(np.arange(8, 0, -1.0)[:, None], (8, 60)))
    assert not q_c.any()


def test_both_forms_of_the_regression_agree() -> None:
    """The same game in the pairs form and in the features form."""
    from resetfree.players.linear import ridge as regression

    phi = features_of(rf.make("random-linear-v0", n_states=8, n_actions=3).problem())
    rng = np.random.default_rng(3)
    wide, _ = regression.empty(np.concatenate([phi, np.zeros((24, 60))], axis=1), 8, 1, 1.0)
    narrow, kept = regression.empty(phi, 8, 1, 1.0)
    assert kept.size > 0
    assert wide.gram.shape == (1, 24, 24)
    out = [np.empty(24) for _ in range(4)]
    for _ in range(2_000):
        sample = (0, int(rng.integers(24)), float(rng.random()), int(rng.integers(-1, 8)))
        regression.learn(wide, np.empty((0, 0)), *sample)
        regression.learn(narrow, kept, *sample)
    v_r, v_c = rng.random(8), rng.random(8)
    regression.expect(wide, np.empty((0, 0)), 0, v_r, v_c, out[0], out[1])
    regression.expect(narrow, kept, 0, v_r, v_c, out[2], out[3])
    np.testing.assert_allclose(out[0], out[2], atol=1e-10)
    np.testing.assert_allclose(out[1], out[3], atol=1e-10)
    np.testing.assert_allclose(wide.width2, narrow.width2, atol=1e-12)


def test_pooling_uses_one_regression_and_only_where_it_may() -> None:
    mdp = rf.make("grid-v0")
    state = LinearUCB(B=1.0, pooled=True).init(mdp.problem(), 10, 0)
    assert isinstance(state, LinearState)
    assert state.regression.pay.shape == (1, 60)
    with pytest.raises(rf.InvalidInput, match="must be false for dynamics that change"):
        LinearUCB(B=1.0, pooled=True).init(rf.make("doors-v0").problem(), 10, 0)


def test_statements_tell_proved_from_tuned() -> None:
    problem = rf.make("random-linear-v0").problem()
    proved = LinearUCB(B=3.0, width="theory").statement(problem, 1000)
    assert proved.covered
    assert float(proved.constants["beta_r"]) > float(proved.constants["beta_c"]) > 1
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "tuned"),
        ({"width": "paper"}, "paper"),
        ({"width": "theory", "lagged": True}, "lagged"),
        ({"width": "theory", "pooled": True}, "pooled"),
        ({"width": "theory", "alpha": 3.0}, "temperature"),
        ({"width": "theory", "reg": 2.0}, "ridge"),
    ]
    check_why_not_proved(LinearUCB, cases)


def test_it_needs_a_bound_and_a_finite_problem_of_sensible_size() -> None:
    with pytest.raises(rf.InvalidInput, match="'B' of linear-ucb must be a bound"):
        LinearUCB().init(rf.make("grid-v0").problem(), 10, 0)
    with pytest.raises(rf.InvalidInput, match="'lagged' of linear-ucb must be false on a continuum"):
        LinearUCB(B=1.0, lagged=True).init(rf.make("continuous-linear-v0").problem(), 10, 0)
    with pytest.raises(rf.InvalidInput, match="'switching' of linear-ucb must be every for finite states"):
        LinearUCB(B=1.0, switching="rare").init(rf.make("grid-v0").problem(), 10, 0)
    with pytest.raises(rf.InvalidInput, match="GB of regression"):
        LinearUCB(B=1.0).init(with_features(rf.make("pits-v0", n=40), 2_000).problem(), 10, 0)
    primal = LinearUCB(B=1.0)
    state = primal.init(rf.make("grid-v0").problem(), 10, 0)
    before = dump(state)
    for lam in (-1.0, float("nan"), float("inf")):
        with pytest.raises(rf.InvalidInput, match="A multiplier must be"):
            primal.plan(state, 0, lam)
    assert all(np.array_equal(before[name], value) for name, value in dump(state).items())


@pytest.mark.parametrize("horizon", [1, 2, 5])
@pytest.mark.parametrize("paying", [0, 1])
def test_an_untried_action_is_tried(horizon: int, paying: int) -> None:
    """One state, one action pays 1 and the other 0: the default finds it at every step, ridge 1 may never."""
    mdp = rf.FiniteMDP(np.ones((1, 2, 1)), np.eye(2)[paying][None], [False], horizon)
    for seed in range(5):
        *_, last = game_of(mdp, 200, seed=seed)[2]
        assert last.exact is not None
        assert last.exact[0] > 0.95 * horizon


READABLE = {name: case for name, case in CASES.items() if not set(case[1]) & {"anytime", "split"}}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", READABLE)
def test_the_readable_player_makes_the_same_plans(case: str, seed: int) -> None:
    """`algorithm1` is to be read, `linear-ucb` is compiled: one game, the same plan in every round, to rounding."""
    mdp, settings = READABLE[case]
    readable, problem = Algorithm1(B=5.0, **settings), mdp.problem()
    state = readable.init(problem, 60, seed)
    live = ~mdp.reset  # on reset states the compiled player fixes the values, which no target uses otherwise
    for this in game_of(mdp, 60, seed, **settings)[2]:
        plan = readable.plan(state, this.s1, this.lam)
        values = (plan.v_r, plan.v_c, plan.upper)
        assert values == pytest.approx((this.plan.v_r, this.plan.v_c, this.plan.upper), abs=1e-9)
        np.testing.assert_allclose(plan.policy[:, live], this.plan.policy[:, live], atol=1e-6)
        state = readable.update(state, this)


def test_the_readable_player_is_the_large_form_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only what was seen is kept, plans are those of the sums over all pairs."""
    monkeypatch.setattr(linear_ucb, "SMALL", 0)
    mdp = rf.make("grid-v0")
    readable, problem = Algorithm1(B=5.0), mdp.problem()
    state = readable.init(problem, 60, 0)
    _, game, rounds = game_of(mdp, 60)
    assert isinstance(game.primal, LargeLinearState)
    for this in rounds:
        plan = readable.plan(state, this.s1, this.lam)
        assert (plan.v_r, plan.v_c) == pytest.approx((this.plan.v_r, this.plan.v_c), abs=1e-9)
        state = readable.update(state, this)
