"""Other least-squares value iterations: weighted by variance, and with noise in place of a bonus.

**`WeightedLSVI`.**
Legend: phi features of pairs [S*A, d]; Lam = reg I + sum x phi phi^T with x one over a sample's relative variance; Q
above and Qcheck below the best composite value Q*_lam; R = H + lam its range; top the largest multiplier so far.

**`PerturbedHistory`.**
Legend: phi features of pairs [S*A, d]; Lam their regularised second moments; lam the multiplier; z ~ N(0, I_d).
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from resetfree.core import Bools, Floats, Ints, NonNegative, Positive, PositiveInt, jit
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players import Build, Method, TakesEpisodes, penalised
from resetfree.players.linear.regression import (
    HasRidge,
    Samples,
    Switching,
    add,
    dimension_of,
    doubled,
    no_samples,
    remember,
)
from resetfree.players.linear.ridge import Regression, choose, expect, expect_composite, mark_known
from resetfree.problems import Problem, State


class Pass(NamedTuple):
    """What a backward pass leaves."""

    policy: Floats  # [H, S, A]
    q: Floats  # [H, S*A]
    q_check: Floats  # [H, S*A]
    values: Floats  # [H, S] V on arrival from each step
    below: Floats  # [H, S] Vcheck on arrival
    v: Floats  # [S] at step 1
    v_r: Floats  # [S]
    v_c: Floats  # [S]


@dataclass
class WeightedState:
    """What has been learned, and the last pass, whose bounds the next one tightens."""

    data: Samples
    last: Pass
    top: float  # largest multiplier so far
    level: float  # multiplier that the last pass may still be played for, -1 if none
    log_det: Floats  # [L] the determinants at the last pass
    passes: int  # backward passes for plans that were played


@dataclass(frozen=True)
class WeightedLSVI(HasRidge, PrimalPlayer[WeightedState]):
    """Variance-weighted LSVI-UCB++ on r - lam c, its running bounds valid for a multiplier that only grows.

    Greedy for Q = clip(w.phi + scale R width, -lam, H-h+1), with Qcheck, less the width, below it.

    Both regressions weight a sample by one over its relative variance in [1/H, 1]: the estimated variance of V(s') plus
    R times the estimated V - Vcheck, over R^2, and no less than scale width. Pairs whose outcome is certain count up to
    H times as much, so their widths shrink sooner.

    running: take Q_k = min(new, Q_{k-1}) and Qcheck_k = max(new, Qcheck_{k-1}), as the original does. Why that holds
    with a multiplier: Q*_lam does not grow with lam, and falls by at most the growth of lam. So Q_{k-1} stays above,
    and Qcheck_{k-1} less that growth stays below, if lam never falls. It is kept from falling: the plan is made for the
    largest multiplier played so far, whatever the start; rounding a multiplier up does not increase the dual regret.
    It is off by default: a running minimum makes a failure of optimism permanent,
    and tuned widths do fail at times (with it, regret and resets on random-linear-v0 are over ten times as large).

    The structure follows LSVI-UCB++ (He et al. 2023), whose theorem has the rate d sqrt(H^3 K); it is written from
    memory of that structure, with its constants (of the width, of the variance's corrections, of the ridge) replaced by
    `scale`. So no theorem is claimed. v_r and v_c are the regression's values of the greedy policy without bonus; the
    dual's feedback should be the realised resets.

    scale: of the bonuses.  pooled: one regression for all steps (stationary problems).  reg: ridge; None for scale^2.
    switching: "every" plans in every episode, "rare" (as in the original) when a determinant has doubled, after a
      reset, and when the multiplier is another one.
    """

    name: ClassVar[str] = "lsvi-ucb++"
    prediction: ClassVar[Prediction] = "low"
    scale: NonNegative = 0.05
    pooled: bool = False
    reg: Positive | None = None
    switching: Switching = "every"
    running: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> WeightedState:
        """No data yet: Q is at its cap and Qcheck at its floor."""
        data = no_samples(problem, self.name, pooled=self.pooled, reg=self.ridge())
        horizon, last = problem.horizon, _room(data.shape)
        for array in last:
            array[...] = 0.0
        last.q[...] = horizon - np.arange(horizon)[:, None]
        return WeightedState(data, last, top=0.0, level=-1.0, log_det=np.zeros(len(data.log_det)), passes=0)

    def plan(self, state: WeightedState, s1: State, lam: float) -> Plan:
        """The last pass, if it may still be played; else a new one."""
        level = self.level(state, check_multiplier(lam))
        made = state.last if state.level == level else self.backward(state, level)
        return Plan(made.policy, float(made.v_r[s1]), float(made.v_c[s1]), float(made.v[s1]))

    def backward(self, state: WeightedState, lam: float) -> Pass:
        """The whole pass; with running bounds for a multiplier that is not below the largest so far."""
        data, made = state.data, _room(state.data.shape)
        above, under = np.full_like(made.q, np.inf), np.full_like(made.q, -np.inf)
        if self.running:
            above, under = state.last.q, state.last.q_check - (lam - state.top)
        monotone_plan(*data.fitted, self.scale, lam, data.known, data.known_last, above, under, *made)
        return made

    def update(self, state: WeightedState, round: Round) -> WeightedState:
        """Keep the pass that was played; add the steps that were taken, weighted by its values."""
        data, episode = state.data, round.episode
        level = self.level(state, round.lam)
        if state.level != level:
            state.last = self.backward(state, level)
            state.level, state.top = level, max(level, state.top)
            state.log_det = data.log_det.copy()
            state.passes += 1
        fitted = (data.regression, data.phi, data.log_det, data.layer_of_step, state.last.values, state.last.below)
        constants = (self.scale, 1.0 / data.shape[0], level, data.shape[2])
        walk = (episode.states, episode.actions, episode.rewards)
        learn_by_variance(*fitted, *constants, *walk, np.empty(len(episode.actions)))
        remember(data, episode)
        if self.switching == "every" or episode.reset or doubled(data, state.log_det):
            state.level = -1.0
        return state

    def level(self, state: WeightedState, lam: float) -> float:
        """The multiplier that is planned for: with running bounds it never falls."""
        return max(lam, state.top) if self.running else lam

    @staticmethod
    def methods() -> list[Method]:
        """Against a constant multiplier B."""

        def build(running: bool) -> Build:
            return penalised(lambda s: WeightedLSVI(**s.own, switching="rare", running=running))

        text, same = "Variance-weighted LSVI-UCB on r - B c.", "The same with the running minimum of the original."
        return [
            Method("LSVI-UCB++", "ours", text, build(False), rank=21),
            Method("LSVI-UCB++, running bounds", "ours", same, build(True), rank=21),
        ]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Constants of this run; no theorem."""
        constants: dict[str, Any] = {"scale": self.scale, "reg": self.ridge(), "width": "tuned"}
        constants |= {"switching": self.switching, "d": dimension_of(problem)}
        return Statement(constants, False, "no theorem covers this run: its constants are tuned, not those of a proof")


def _room(shape: tuple[int, int, int]) -> Pass:
    """Arrays for a pass, not yet filled."""
    horizon, n_states, n_actions = shape
    pairs, arrivals = (horizon, n_states * n_actions), (horizon, n_states)
    arrays = (np.empty(size) for size in (shape, pairs, pairs, arrivals, arrivals, *[(n_states,)] * 3))
    return Pass(*arrays)


@jit
def learn_weighted(r: Regression, phi: Floats, layer: int, i: int, reward: float, successor: int, x: float) -> None:
    """Add one sample of weight x: Lam^-1 -= x u u^T / (1 + x phi_i.u) with u = Lam^-1 phi_i."""
    gram, cross, pay, width2 = r.gram[layer], r.cross[layer], r.pay[layer], r.width2[layer]
    n_states = cross.shape[0]
    if phi.size > 0:
        feature = phi[i]
        u = np.dot(gram, feature)
        share = x / (1.0 + x * np.dot(feature, u))
        along = np.dot(phi, u)
        for j in range(len(along)):
            width2[j] = max(width2[j] - share * along[j] * along[j], 0.0)
        for j in range(len(u)):
            f = share * u[j]
            for t in range(len(u)):
                gram[j, t] -= f * u[t]
            pay[j] += x * reward * feature[j]
        if successor >= 0:
            for j in range(len(u)):
                cross[successor, j] += x * feature[j]
        return
    v = gram[i].copy()
    n, share = len(v), x / (1.0 + x * v[i])
    for s in range(n_states):
        change = share * ((1.0 if s == successor else 0.0) - cross[s, i])
        if change != 0.0:
            for j in range(n):
                cross[s, j] += v[j] * change
    change = share * (reward - pay[i])
    for j in range(n):
        pay[j] += v[j] * change
    for j in range(n):
        if v[j] != 0.0:
            f = share * v[j]
            for t in range(n):
                gram[j, t] -= f * v[t]
            width2[j] = max(gram[j, j], 0.0)


@jit
def expect_at(r: Regression, phi: Floats, layer: int, i: int, v: Floats) -> float:
    """The regression of V(s'), without the reward, for one pair."""
    cross = r.cross[layer]
    total = 0.0
    if phi.size > 0:
        u = np.dot(r.gram[layer], phi[i])
        for s in range(len(v)):
            for j in range(len(u)):
                total += v[s] * cross[s, j] * u[j]
        return total
    for s in range(len(v)):
        total += v[s] * cross[s, i]
    return total


@jit
def learn_by_variance(
    r: Regression,
    phi: Floats,
    log_det: Floats,  # [L]
    layer_of_step: Ints,
    values: Floats,  # [H, S] V on arrival from each step
    below: Floats,  # [H, S] Vcheck on arrival
    beta: float,
    floor: float,
    lam: float,
    n_actions: int,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    weights: Floats,  # [steps] out
) -> None:
    """Add the steps taken, each weighted by one over its relative variance in [floor, 1], estimated before it is added.

    With U = V + lam in [0, R] the relative variance is the larger of ([U^2] - [U]^2 + R [V - Vcheck]) / R^2 and
    beta width, where [.] is the regression clipped to its range.
    """
    reach = values.shape[0] + lam
    unit = reach if reach > 1e150 else 1.0  # the squares of larger numbers are no floats
    span = reach / unit
    for t in range(len(actions)):
        layer, i = layer_of_step[t], states[t] * n_actions + actions[t]
        shifted = (values[t] + lam) / unit
        mean = max(min(expect_at(r, phi, layer, i, shifted), span), 0.0)
        square = max(min(expect_at(r, phi, layer, i, shifted * shifted), span * span), 0.0)
        gap = max(min(expect_at(r, phi, layer, i, (values[t] - below[t]) / unit), span), 0.0)
        spread = (max(square - mean * mean, 0.0) + span * gap) / (span * span)
        weights[t] = 1.0 / max(min(max(spread, beta * np.sqrt(r.width2[layer, i])), 1.0), floor)
    for t in range(len(actions)):
        layer, i = layer_of_step[t], states[t] * n_actions + actions[t]
        log_det[layer] += np.log1p(weights[t] * r.width2[layer, i])
        learn_weighted(r, phi, layer, i, rewards[t], states[t + 1] if t + 1 < len(states) else -1, weights[t])


@jit
def monotone_plan(
    r: Regression,
    phi: Floats,
    layer_of_step: Ints,  # [H]
    n_transitions: int,
    beta: float,
    lam: float,
    known: Bools,  # [S]
    known_last: Bools,  # [S]
    above: Floats,  # [H, N] Q of the last pass, for a multiplier not above lam
    under: Floats,  # [H, N] Qcheck of the last pass, already lowered to this multiplier
    policy: Floats,  # [H, S, A] out
    q: Floats,  # [H, N] out
    q_check: Floats,  # [H, N] out
    values: Floats,  # [H, S] out: V on arrival from each step
    below: Floats,  # [H, S] out: Vcheck on arrival
    v: Floats,  # [S] out, at step 1
    v_r: Floats,  # [S] out, of the greedy policy without bonus
    v_c: Floats,  # [S] out
) -> None:
    """Q = min(regression + bonus, Q of the last pass), Qcheck = max(regression - bonus, that of the last pass)."""
    horizon, n_states, n_actions = policy.shape
    n = q.shape[1]
    mean_r, mean_c, unused = np.empty(n), np.empty(n), np.empty(n)
    v_check, nothing = np.zeros(n_states), np.zeros(n_states)
    v[:] = 0.0
    v_r[:] = 0.0
    v_c[:] = 0.0
    policy[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        last = h == n_transitions - 1
        mark_known(lam, last, known, known_last, v, v_r, v_c)
        mark_known(lam, last, known, known_last, v_check, nothing, nothing)
        nothing[:] = 0.0
        values[h] = v
        below[h] = v_check
        layer, left = layer_of_step[h], float(horizon - h)
        now, now_check, width2 = q[h], q_check[h], r.width2[layer]
        expect_composite(r, phi, layer, v, v_r, v_c, now, mean_r, mean_c)
        expect(r, phi, layer, v_check, nothing, now_check, unused)
        for i in range(n):
            bonus = beta * (horizon + lam) * np.sqrt(width2[i])
            now[i] = max(min(now[i] + bonus, left, above[h, i]), -lam)
            now_check[i] = min(max(now_check[i] - bonus, -lam, under[h, i]), left)
        for s in range(n_states):
            a = choose(now, width2, s, n_actions)
            i = s * n_actions + a
            policy[h, s, a] = 1.0
            v[s] = now[i]
            v_check[s] = now_check[s * n_actions]
            for other in range(1, n_actions):
                v_check[s] = max(v_check[s], now_check[s * n_actions + other])
            v_r[s] = max(min(mean_r[i], left), 0.0)
            v_c[s] = max(min(mean_c[i], 1.0), 0.0)


@dataclass
class PerturbedState:
    """The samples, and the seed of the noise."""

    data: Samples
    seed: int = field(metadata={"saved": False})


@dataclass(frozen=True)
class PerturbedHistory(TakesEpisodes, HasRidge, PrimalPlayer[PerturbedState]):
    """Exploration by noise: least-squares values of the composite r - lam c, perturbed once per episode (RLSVI).

    Q = clip(w.phi + scale (H-h+1 + lam) max_m phi.Lam^-1/2 z_m, -lam, H-h+1), greedy, w the regression of r + V(s').

    Noise of this law is what perturbing every target of the history, and the ridge, with independent normal numbers
    gives. For one-hot features it is tabular RLSVI, with noise scale (H-h+1 + lam) / sqrt(n) on a pair tried n times.
    The composite is perturbed as a whole. Each layer of data has its own noise, so pooled data share theirs.

    The noise of episode k comes from the run's seed and k alone: planning is repeatable, and plans for different
    multipliers share it. v_r and v_c are the regression's estimates for the greedy policy without noise.
    Its width is tuned; no theorem is claimed (known bounds take other constants and a known reward range), and none is
    known for the cost alone, so the dual's feedback should be the realised resets.

    scale: size of the noise.  draws: M, the largest of M draws is used per pair (1: plain sampling).
    pooled: one regression for all steps (only for stationary problems).  reg: the ridge; None for scale^2.
    """

    name: ClassVar[str] = "perturbed-history"
    prediction: ClassVar[Prediction] = "low"
    scale: NonNegative = 0.05
    draws: PositiveInt = 4
    pooled: bool = False
    reg: Positive | None = None

    def init(self, problem: Problem, episodes: int, seed: int) -> PerturbedState:
        """No data yet; refuses problems that are not finite and layered problems if pooled."""
        data = no_samples(problem, self.name, pooled=self.pooled, reg=self.ridge(), by_features=True)
        return PerturbedState(data, seed)

    def plan(self, state: PerturbedState, s1: State, lam: float) -> Plan:
        """Draw the noise of this episode, and run the backward pass for this multiplier."""
        policy, _, v_r, v_c, _ = self.backward(state, check_multiplier(lam), self.noise(state))
        return Plan(policy, float(v_r[s1]), float(v_c[s1]))

    def noise(self, state: PerturbedState) -> Floats:
        """[L, S*A] the largest of M draws of phi.Lam^-1/2 z, for the coming episode."""
        regression, phi = state.data.regression, state.data.phi
        rng = np.random.default_rng([state.seed, state.data.k])
        if phi.size == 0:  # one-hot: the entries are independent
            z = rng.standard_normal((self.draws, *regression.width2.shape)).max(axis=0)
            return np.asarray(np.sqrt(regression.width2) * z)
        root = np.linalg.cholesky(regression.gram)  # [L, d, d]
        z = rng.standard_normal((*root.shape[:2], self.draws))
        return np.ascontiguousarray((phi @ (root @ z)).max(axis=2))

    def backward(
        self, state: PerturbedState, lam: float, noise: Floats
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The whole pass: policy [H, S, A]; V, V_r and V_c [S] at step 1; Q [H, S*A]."""
        return state.data.greedy(lam, (self.scale, 0.0, False, noise))

    def update(self, state: PerturbedState, round: Round) -> PerturbedState:
        """Add the steps that were taken; remember which states turned out to be reset states."""
        add(state.data, round.episode)
        return state

    @staticmethod
    def methods() -> list[Method]:
        """Against a constant multiplier B."""
        build = penalised(lambda s: PerturbedHistory(**s.own))
        return [Method("perturbed history", "ours", "RLSVI on r - B c, the largest of four draws.", build, rank=22)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Constants of this run; no theorem."""
        constants: dict[str, Any] = {"scale": self.scale, "draws": self.draws, "reg": self.ridge(), "width": "tuned"}
        constants["d"] = dimension_of(problem)
        return Statement(constants, False, "no theorem covers this run: the size of the noise is tuned, not proved")
