"""Baselines for constrained and for persistent problems."""

from collections import defaultdict
from math import exp, log, sqrt
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from tests.players.linear.naive import Sample, record

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players import Method, Setting, discover, own_methods
from resetfree.players.dual.one_multiplier import ConstantPenalty, OneMultiplier, VirtualQueue
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.players.linear.baselines import GhoshSoftmax
from resetfree.players.tabular.constrained import OptCmdp, OptCmdpState, TripleQ
from resetfree.players.tabular.counts import Counted
from resetfree.players.tabular.mirror import Opdop, OptPrimalDual
from resetfree.players.testing.trial_problems import Scripted, corners
from resetfree.problems.finite.mdp import FiniteProblem
from resetfree.theory.oracle import Evaluator
from resetfree.theory.oracle.dynamic_programming import solve

Floats = NDArray[np.float64]
PRIMALS: list[rf.PrimalPlayer[Any]] = [
    GhoshSoftmax(B=3.0), Opdop(), OptCmdp(), OptCmdp(width="theory"), OptPrimalDual(B=3.0), TripleQ(),
]  # fmt: skip
METHODS = [method for cls in dict.fromkeys(map(type, PRIMALS)) for method in own_methods(cls)]
CORNERS = ["physical", "literal", "layered", "one-step", "features"]


def rounds_of(
    problem: FiniteProblem, primal: rf.PrimalPlayer[Any], dual: rf.DualPlayer[Any], episodes: int, seed: int = 3
) -> list[rf.Round]:
    game = begin(problem, primal, dual, episodes=episodes, seed=seed)
    return list(play(problem, primal, dual, game, episodes=episodes))


@pytest.mark.parametrize("env", ["grid-v0", "doors-v0", "contexts-v0"])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_every_method_plays(method: Method, env: str) -> None:
    mdp = rf.make(env)
    problem, setting = mdp.problem(), Setting(B=10.0, width=0.1, pooled=method.pools and mdp.stationary)
    assert method.kind == "baseline"
    assert not method.guaranteed
    assert method.inapplicable(mdp) is None
    primal, dual, feedback = method.build(setting)
    game = begin(problem, primal, dual, episodes=300, seed=0)
    seen = list(play(problem, primal, dual, game, episodes=300, feedback=feedback))
    assert len(seen) == 300
    assert all(np.isfinite(this.lam) and 0 <= this.plan.v_c <= 1 for this in seen)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(rf.InvalidInput, match="must"):
        GhoshSoftmax(lagged=True)
    layered, continuum = rf.make("doors-v0").problem(), rf.make("continuous-linear-v0").problem()
    with pytest.raises(rf.InvalidInput, match="'B' of opt-primal-dual"):
        OptPrimalDual().init(layered, 10, 0)
    with pytest.raises(rf.InvalidInput, match="first_start_only"):
        OneMultiplier(B=1.0, first_start_only=True).init(continuum, 10, 0)


def test_opt_cmdp_refuses_what_it_could_not_plan() -> None:
    huge = rf.FiniteMDP([[[1.0]]], [[0.0]], [False], 1).problem()
    huge.n_states, huge.n_actions, huge.horizon = 2500, 5, 8
    with pytest.raises(rf.InvalidInput, match="all triples"):
        OptCmdp().init(huge, 10, 0)
    method = next(m for m in METHODS if m.name == "OptCMDP")
    assert "triples" in str(method.inapplicable(cast(rf.FiniteMDP, huge)))  # the sizes are all it looks at


# The primal player of Ghosh et al.


@pytest.mark.parametrize("name", CORNERS)
def test_ghosh_pass_is_algorithm_1_with_cap_h(name: str) -> None:
    problem = corners()[name]
    player = GhoshSoftmax(B=4.0, scale=0.5, reg=1.0, alpha=2.0)
    game = begin(problem, player, Scripted(), episodes=40, seed=1)
    data: list[list[Sample]] = [[] for _ in range(problem.horizon)]
    phi = np.eye(8).reshape(4, 2, 8) if problem.phi is None else problem.phi
    for this in play(problem, player, Scripted(), game, episodes=40):
        policy, v_r, v_c = naive_ghosh(data, phi, alpha=2.0, lam=this.lam, beta_r=0.5 * problem.horizon, beta_c=0.5)
        np.testing.assert_allclose(this.plan.policy, policy, atol=1e-8)
        assert (this.plan.v_r, this.plan.v_c) == pytest.approx((v_r[this.s1], v_c[this.s1]), abs=1e-8)
        record(data, this.episode, problem.n_actions)


def naive_ghosh(
    data: list[list[Sample]], phi: Floats, *, alpha: float, lam: float, beta_r: float, beta_c: float
) -> tuple[Floats, Floats, Floats]:
    """Policy, V_r and V_c with every sum written out; targets of resets are 0 and 1."""
    n_states, n_actions, d = phi.shape
    horizon = len(data)
    policy, v_r, v_c = np.empty((horizon, n_states, n_actions)), np.zeros(n_states), np.zeros(n_states)
    for h in reversed(range(horizon)):
        gram, t_r, t_c = np.eye(d), np.zeros(d), np.zeros(d)
        for i, r, successor, reset in data[h]:
            x = phi.reshape(-1, d)[i]
            gram += np.outer(x, x)
            t_r += x * (r + (0.0 if reset or successor is None else v_r[successor]))
            t_c += x * (1.0 if reset else 0.0 if successor is None else v_c[successor])
        inverse = np.linalg.inv(gram)
        width = np.sqrt(np.einsum("sai,ij,saj->sa", phi, inverse, phi))
        q_r = np.clip(phi @ inverse @ t_r + beta_r * width, 0.0, horizon)
        q_c = np.clip(phi @ inverse @ t_c - beta_c * width, 0.0, 1.0)
        weight = np.exp(alpha * (q_r - lam * q_c))
        policy[h] = weight / weight.sum(axis=1, keepdims=True)
        v_r, v_c = (policy[h] * q_r).sum(axis=1), (policy[h] * q_c).sum(axis=1)
    return policy, v_r, v_c


# Mirror ascent: OPDOP and OptPrimalDual.


@pytest.mark.parametrize("name", ["physical", "literal", "layered", "one-step"])
@pytest.mark.parametrize("which", ["opdop", "opt-primal-dual"])
def test_mirror_ascent_step_by_step(name: str, which: str) -> None:
    """pi^{k+1} from pi^k, its values on the data before round k and the multiplier of round k."""
    problem, K, H, n = corners()[name], 30, corners()[name].horizon, corners()[name].n_actions
    player: rf.PrimalPlayer[Any] = Opdop(0.3) if which == "opdop" else OptPrimalDual(4.0, 0.3)
    step = sqrt(log(n)) / (H**2 * sqrt(K)) if which == "opdop" else sqrt(2 * log(n) / (H**2 * 17.0 * K))
    mixing = 1 / K if which == "opdop" else 0.0
    policy = np.full((H, 4, n), 1 / n)
    data: list[rf.Episode] = []
    for this in rounds_of(problem, player, Scripted(), K):
        np.testing.assert_allclose(this.plan.policy, policy, atol=1e-10)
        q_r, q_c = naive_values(data, policy, problem, 0.3)
        mean_r, mean_c = (float(policy[0, this.s1] @ q[0, this.s1]) for q in (q_r, q_c))
        assert (this.plan.v_r, this.plan.v_c) == pytest.approx((mean_r, mean_c), abs=1e-10)
        policy = ((1 - mixing) * policy + mixing / n) * np.exp(step * (q_r - this.lam * q_c))
        policy /= policy.sum(axis=2, keepdims=True)
        data.append(this.episode)


def naive_values(data: list[rf.Episode], policy: Floats, problem: FiniteProblem, scale: float) -> tuple[Floats, Floats]:
    """Optimistic values from lists of what was seen at each step (these problems end with their reset set)."""
    H, S, A = policy.shape
    seen: dict[tuple[int, int, int], list[tuple[float, int | None]]] = defaultdict(list)
    dead = {int(e.states[-1]) for e in data if e.reset}
    for e in data:
        for h, a in enumerate(e.actions):
            after = int(e.states[h + 1]) if h + 1 < len(e.states) else None
            seen[h, int(e.states[h]), int(a)].append((float(e.rewards[h]), after))
    q_r, q_c = np.zeros((H, S, A)), np.zeros((H, S, A))
    v_r, v_c = np.zeros(S), np.zeros(S)
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                what = seen[h, s, a]
                if not what:
                    q_r[h, s, a] = H - h
                    continue
                pay = [r + (0.0 if t is None or t in dead else v_r[t]) for r, t in what]
                cost = [0.0 if t is None else 1.0 if t in dead else v_c[t] for _, t in what]
                bonus = scale / sqrt(len(what))
                q_r[h, s, a] = min(max(float(np.mean(pay)) + H * bonus, 0.0), H - h)
                q_c[h, s, a] = min(max(float(np.mean(cost)) - bonus, 0.0), 1.0)
        v_r, v_c = (policy[h] * q_r[h]).sum(axis=1), (policy[h] * q_c[h]).sum(axis=1)
    return q_r, q_c


# OptCMDP.


@pytest.mark.parametrize("name", ["physical", "literal", "layered", "one-step"])
@pytest.mark.parametrize("scale", [0.05, 0.4, 1.5])
def test_opt_cmdp_solves_the_linear_program(name: str, scale: float) -> None:
    """At budget zero the dynamic program and the program over z_h(s,a,s') have the same value at every start."""
    problem, player = corners()[name], OptCmdp(scale=scale)
    game = begin(problem, player, ConstantPenalty(C=0.0), episodes=60, seed=2)
    feasible = 0
    for this in play(problem, player, ConstantPenalty(C=0.0), game, episodes=60):
        if this.k % 20:
            continue
        state: OptCmdpState = game.primal
        for s in range(3):
            plan, value = player.plan(state, s, 0.0), naive_program(state, s, scale**2)
            assert (plan.v_c == 0.0) == (value is not None)
            if value is not None:
                feasible += 1
                assert plan.v_r == pytest.approx(value, abs=1e-7)
                assert plan.upper == plan.v_r
    assert feasible > 0


def naive_program(state: OptCmdpState, start: int, L: float) -> float | None:
    """max sum (r + bonus) z subject to flow, intervals and no mass into known reset states; None if infeasible."""
    table, H = state.table, state.horizon
    layers, S, A = table.tried.shape
    index = {key: i for i, key in enumerate((h, s, a, t) for h in range(H) for s in range(S) for a in range(A)
                                            for t in range(S))}  # fmt: skip
    gain, upper = np.zeros(len(index)), np.ones(len(index))
    rows_ub, rows_eq, b_eq = [], [], []
    for h in range(H):
        layer = h if layers > 1 else 0
        moves = h < table.n_transitions
        dead = table.known_last if h == table.n_transitions - 1 else table.known
        for s in range(S):
            flow = np.zeros(len(index))
            for a in range(A):
                n, m = int(table.tried[layer, s, a]), int(table.moved[layer, s, a])
                mean = min(max(table.earned[layer, s, a] / n + sqrt(L / n), 0.0), 1.0) if n else 1.0
                share = np.zeros(S)
                for j, times in enumerate(table.seen[layer, s, a]):
                    if times:
                        share[table.successor[layer, s, a, j]] = times / m
                pair = [index[h, s, a, t] for t in range(S)]
                gain[pair] = mean
                flow[pair] = 1.0
                for t in range(S):
                    if moves and dead[t]:
                        upper[index[h, s, a, t]] = 0.0
                    if not (moves and m):
                        continue
                    b = 2 * sqrt(share[t] * (1 - share[t]) * L / m) + 14 * L / (3 * m)
                    for sign, bound in ((1.0, min(share[t] + b, 1.0)), (-1.0, max(share[t] - b, 0.0))):
                        row = np.zeros(len(index))
                        row[pair] = -sign * bound
                        row[index[h, s, a, t]] += sign
                        rows_ub.append(row)
            if h:
                flow[[index[h - 1, s0, a, s] for s0 in range(S) for a in range(A)]] -= 1.0
            rows_eq.append(flow)
            b_eq.append(1.0 if h == 0 and s == start else 0.0)
    found = linprog(
        -gain,
        A_ub=np.array(rows_ub) if rows_ub else None,
        b_ub=np.zeros(len(rows_ub)) if rows_ub else None,
        A_eq=np.array(rows_eq),
        b_eq=b_eq,
        bounds=np.stack([np.zeros(len(index)), upper], axis=1),
        method="highs",
    )
    assert found.status in (0, 2)
    return None if found.status == 2 else -float(found.fun)


def exact_table(mdp: rf.FiniteMDP, samples: int) -> Counted:
    """Counts as if every pair had been tried `samples` times and chance had been exact."""
    L, S, A = (1 if mdp.transition.stationary else mdp.horizon), mdp.n_states, mdp.n_actions
    dense = np.stack([mdp.transition.matrix(h).toarray().reshape(S, A, S) for h in range(L)])
    pay = np.broadcast_to(mdp.reward, (mdp.horizon, S, A))[:L]
    seen = np.rint(samples * dense).astype(np.int64)
    order = np.argsort(-seen, axis=3, kind="stable")  # free places come last
    return Counted(
        seen.sum(axis=3), pay * seen.sum(axis=3), seen.sum(axis=3), order.astype(np.int32),
        np.take_along_axis(seen, order, axis=3), mdp.reset.copy(), mdp.last_reset.copy(), mdp.n_transitions, False,
    )  # fmt: skip


@pytest.mark.parametrize("env", ["grid-v0", "doors-v0", "contexts-v0", "politex-trap-v0"])
def test_opt_cmdp_approaches_the_best_value_as_counts_grow(env: str) -> None:
    mdp = rf.make(env)
    best, start = solve(mdp).value, solve(mdp).feasible
    player, gaps = OptCmdp(), []
    for samples in (10_000, 100_000_000):
        state = OptCmdpState(exact_table(mdp, samples), mdp.horizon, 0.01)
        plans = [player.plan(state, int(s), 0.0) for s in np.flatnonzero(start)]
        gap = np.array([plan.v_r for plan in plans]) - best[start]
        assert (gap >= -1e-9).all()
        assert all(plan.v_c == 0.0 for plan in plans)
        gaps.append(float(gap.max()))
    assert gaps[1] < 1e-3
    assert gaps[0] < 0.1
    value, cost = Evaluator(mdp)(plans[0].policy, int(np.flatnonzero(start)[0]))
    assert cost == 0.0
    assert value == pytest.approx(best[start][0], abs=1e-3)


def test_opt_cmdp_with_proved_intervals_is_slow_to_give_up() -> None:
    mdp = rf.make("politex-trap-v0")
    tuned, proved = (
        sum(this.episode.reset for this in rounds_of(mdp.problem(), player, ConstantPenalty(C=0.0), 600))
        for player in (OptCmdp(pooled=True), OptCmdp(width="theory", pooled=True))
    )
    assert tuned == 1
    assert proved > 20


# Triple-Q.


@pytest.mark.parametrize("name", ["physical", "literal", "layered", "one-step"])
def test_triple_q_step_by_step(name: str) -> None:
    """The original's loop, one step at a time, with utility H at the end of an episode without a reset."""
    problem, K, scale = corners()[name], 32, 0.2
    H, S, A = problem.horizon, problem.n_states, problem.n_actions
    assert S is not None
    chi = eta = 2.0
    q, c, n = (np.full((H, S, A), float(H)) for _ in range(3))
    n[...] = 0
    Z, total = 0.0, 0.0
    for this in rounds_of(problem, TripleQ(scale), VirtualQueue(), K):
        assert this.lam == pytest.approx(H * Z / eta)
        act = [[int(np.argmax(q[h, s] + Z / eta * c[h, s])) for s in range(S)] for h in range(H)]
        e = this.episode
        assert [act[h][s] for h, s in enumerate(e.states[: len(e.actions)])] == list(e.actions)
        first = c[0, this.s1, act[0][this.s1]]
        assert this.plan.v_c == pytest.approx(1 - first / H)
        total += H - first
        for h, a in enumerate(e.actions):
            s, last = e.states[h], h == len(e.actions) - 1
            t = -1 if last else e.states[h + 1]
            v = 0.0 if last else q[h + 1, t, act[h + 1][t]]
            w = (0.0 if e.reset else H) if last else c[h + 1, t, act[h + 1][t]]
            n[h, s, a] += 1
            rate = (chi + 1) / (chi + n[h, s, a])
            b = scale * H * sqrt((chi + 1) / (chi + n[h, s, a]))
            q[h, s, a] = min((1 - rate) * q[h, s, a] + rate * (e.rewards[h] + v + b), H)
            c[h, s, a] = min((1 - rate) * c[h, s, a] + rate * (w + b), H)
        if this.k % 8 == 0:
            Z, total = Z + total / 8, 0.0
            q, c, n = np.minimum(q + 8 * scale * H / eta, H), np.minimum(c, H), np.zeros_like(n)


# Duals.


NOTHING = rf.Episode(np.zeros(1), np.zeros(0, dtype=np.int64), np.zeros(0), False, 0)


def said(k: int, g: float, s1: int) -> rf.Round:
    return rf.Round(k, s1, 0.0, rf.Plan(None, 0.0, g), NOTHING, g, None)


@pytest.mark.parametrize(
    ("dual", "eta", "cap"),
    [
        (OneMultiplier(B=4.0), 4.0 / (8 * 10), 4.0),
        (OneMultiplier(B=0.3, step="unit"), 0.1, 0.3),
        (OneMultiplier(B=0.1, capped=False), 0.1 / 80, float("inf")),
    ],
    ids=["ghosh", "ding", "efroni"],
)
def test_one_multiplier_adds_up_costs_from_every_start(dual: OneMultiplier, eta: float, cap: float) -> None:
    problem = rf.make("grid-v0").problem()
    state, Y = dual.init(problem, 100, 0), 0.0
    for k, g in enumerate(np.random.default_rng(0).random(100), start=1):
        assert dual.multiplier(state, k % 5, lambda lam: rf.Plan(None, 0.0, 0.0)) == pytest.approx(Y)
        state = dual.update(state, said(k, float(g), k % 5))
        Y = min(Y + eta * float(g), cap)
    assert dual.statement(problem, 100).constants["eta"] == pytest.approx(eta)


def test_a_dual_for_a_fixed_start_hears_of_no_other() -> None:
    problem = rf.make("grid-v0").problem()
    dual = OneMultiplier(B=8.0, first_start_only=True)
    state = dual.init(problem, 100, 0)
    for k, s1 in enumerate((3, 5, 3, 5, 5), start=1):
        state = dual.update(state, said(k, 1.0, s1))
    assert pytest.approx(2 * 0.1) == state.Y
    assert "other than the first" in dual.statement(problem, 100).why
    assert "no upper end" in OneMultiplier(B=8.0, capped=False).statement(problem, 100).why
    assert OneMultiplier(B=8.0, step="unit").statement(problem, 100).constants["dual_regret_bound"] == 325.0


# The trap of summed values.

ROOT5 = sqrt(5.0)  # |(2, 1)|: lambda* is 2 at the dangerous start and 1 at the others


def trap(primal: rf.PrimalPlayer[Any], dual: rf.DualPlayer[Any], episodes: int) -> tuple[float, int]:
    """Expected resets, and how often an episode began at the dangerous start; the dual is told the exact V_c."""
    mdp = rf.make("politex-trap-v0")
    problem = mdp.problem()
    game = begin(problem, primal, dual, episodes=episodes, seed=0)
    resets, dangerous = 0.0, 0
    for this in play(problem, primal, dual, game, episodes=episodes, feedback="exact", oracle=Evaluator(mdp)):
        assert this.exact is not None
        resets += this.exact[1]
        dangerous += this.s1 == 0
    return resets, dangerous


@pytest.mark.parametrize("primal", [Opdop(), OptPrimalDual(B=ROOT5)], ids=lambda p: p.name)
def test_mirror_ascent_falls_into_the_trap(primal: rf.PrimalPlayer[Any]) -> None:
    """With a multiplier per start nearly every dangerous episode is a reset; with one for all, they grow slower."""
    few, many = (trap(primal, ProjectedGradient(B=ROOT5), k) for k in (2_500, 10_000))
    assert few[0] >= 0.8 * few[1]
    assert many[0] >= 0.9 * many[1]
    assert many[0] > 4 * few[0]
    one = [trap(primal, OneMultiplier(B=ROOT5, step="unit"), k)[0] for k in (2_500, 10_000)]
    assert one[1] == pytest.approx(2 * one[0], rel=0.2)


def test_a_best_response_does_not() -> None:
    few, many = (trap(GhoshSoftmax(B=ROOT5), ProjectedGradient(B=ROOT5), k)[0] for k in (2_500, 10_000))
    assert few <= 3
    assert many == pytest.approx(few, abs=1)
    own = [trap(GhoshSoftmax(B=ROOT5), OneMultiplier(B=ROOT5), k)[0] for k in (2_500, 10_000)]
    assert own[1] == pytest.approx(2 * own[0], rel=0.2)  # the price of its small dual step


def test_a_constraint_at_the_first_start_only_never_sees_the_trap() -> None:
    resets, dangerous = trap(GhoshSoftmax(B=ROOT5), OneMultiplier(B=ROOT5, first_start_only=True), 2_500)
    assert resets >= 0.95 * dangerous


def test_the_softmax_of_ghosh_at_a_known_point() -> None:
    """One state, one step: Q is the mean plus the width, so the weights can be written down."""
    problem = rf.FiniteMDP(np.ones((1, 2, 1)), [[0.2, 0.6]], [False], 1, name="two").problem()
    player = GhoshSoftmax(B=1.0, scale=0.1, reg=1.0)
    game = begin(problem, player, Scripted((0.0,)), episodes=50, seed=0)
    for _ in play(problem, player, Scripted((0.0,)), game, episodes=20):
        pass
    pay = np.array([0.2, 0.6])
    gram = game.primal.regression.gram[0]
    n = np.rint(1 / np.diag(gram) - 1).astype(int)
    q = np.minimum(n * pay / (n + 1) + 0.1 / np.sqrt(n + 1), 1.0)
    alpha = log(2) * 50 / (2 * 3.0)
    weights = [exp(alpha * x) for x in q]
    row = player.plan(game.primal, 0, 0.0).policy[0, 0]
    assert row == pytest.approx(np.array(weights) / sum(weights))


REFUSE = {"leave-no-trace", "medal", "olsvi-fh"}
PLAYERS = [name for name, player in discover("primal").items() if not player.vectors_only]


@pytest.mark.parametrize("name", PLAYERS)
def test_every_player_plays_or_refuses_an_environment_that_somebody_resets(name: str) -> None:
    lake = rf.from_gym("gym:FrozenLake-v1", horizon=5, reset_when="terminated and observation!=15")

    def learn() -> rf.Run:
        settings = {"dual": {"C": 5.0}}
        return rf.learn(lake, name, "constant-penalty", episodes=12, settings=settings, feedback="realised", B=5.0)

    if name in REFUSE:
        with pytest.raises(rf.ResetFreeError, match="must see where a reset puts the agent"):
            learn()
    else:
        assert len(learn()) == 12
