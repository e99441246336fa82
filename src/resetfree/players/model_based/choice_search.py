"""Policy search among choices: a fitted model per action, and policies that take the action of largest score.

Legend: z = (s - centre) / scale; the model z' - z = W (1, z, waves), one W per action; theta [A, D+1] a policy, which
takes the action of largest score theta.(z, 1), scores in the compiled code; lam the price of a reset; P steps planned
ahead; f waves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import pi, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.core.compiled import jit
from resetfree.core.state import require, within
from resetfree.game.replay_buffer import NO_ACTION, ReplayBuffer, vectors
from resetfree.players.model_based.search_state import LEAST_SPREAD, SearchSettings, SearchState
from resetfree.problems.contract import ChoicePolicy, State
from resetfree.problems.features.scaling import Scaling, fit_scaling

GONE = 1e-6  # a rollout whose probability of still going on is smaller has ended
FAR = 50.0  # z is clipped there, if not at the bounds of states: a model that diverges predicts nothing
NEIGHBOURS = 10  # states beside each reset state, and each that paid, that decide how far it reaches
RARE = 0.05  # part of the steps up to which those that pay more than all others are a prize
PRIZES = 50  # latest of them, near which a prize is predicted
PATIENCE, IMPATIENCE = 200, 0.05  # steps without a prize after which there is a new plan, at least so many of all rows
SOONER = 0.5  # how much more a prize at once counts than one at the end of a rollout
AGAIN = 4  # further rollouts from the agent's state
MANY, FEW = 16, 2  # prizes after which rollouts start where these led, and starts elsewhere from then on
SEARCHES = 3  # one after the other, where there is a prize
NEARBY, FINE = (
    0.3,
    0.01,
)  # first and least deviation of all but the first, around the best so far; its largest weight is 1
BLOW = 6.0  # times the median miss of a model: a step that is missed by more, such as one into a wall, is no motion
FIRM = 10.0  # ridge of what else an action does than push, on rows of about unit size
FITS = 3  # of the model, the last without blows
NONE: Floats = np.empty((0, 0))


@dataclass
class LinearScores(ChoicePolicy):
    """The action of largest weight[a].s + bias[a]; without weights, every action is equally likely."""

    kind = "LinearScores"
    axes: ClassVar[dict[str, str]] = {"weight": "AD", "bias": "A"}
    stationary = True
    weight: Floats  # [A, D]
    bias: Floats = field(metadata={"saved_as": "offset"})  # [A]

    def __call__(self, h: int, s: State) -> Floats:
        """Probabilities [A], the same at every step."""
        if not self.weight.any():
            return np.full(len(self.bias), 1.0 / len(self.bias))
        scores = self.weight @ np.atleast_1d(np.asarray(s, dtype=np.float64)) + self.bias
        row = np.zeros(len(scores))
        row[scores.argmax()] = 1.0
        return row


@dataclass
class ChoiceSearchState(SearchState[LinearScores]):
    """The state of a search among choices, with the models and policies that follow from its rows."""

    models: dict[int, tuple[Scaling, FittedModel]] = field(metadata={"saved": False})
    found: dict[tuple[int, float], LinearScores] = field(metadata={"saved": False})

    def check_loaded(self) -> None:
        """Actions that there are, and a policy that rests on whole episodes."""
        actions = self.rows.action[: self.rows.n]
        require(within(actions, NO_ACTION, len(self.policy.bias)), "actions must be among those there are")
        super().check_loaded()

    def search(self, n: int, s1: State, lam: float, settings: SearchSettings) -> LinearScores:
        """The cross-entropy method over theta in the model of the first n rows, compared with the policy in play."""
        if (n, lam) in self.found:
            return self.found[n, lam]
        rng = np.random.default_rng([self.seed, n])
        scaling, model = self.model(n, settings)
        visited = settings.starts if model.n_paid < MANY else min(FEW, settings.starts)
        starts = scaling(_starts(self.rows, n, visited, rng))
        rounds = settings.rounds
        if model.n_paid > 0:  # the run goes on from here and from where prizes lead: it must not get stuck there
            here = np.repeat(starts[-1 - visited :][:1], AGAIN, axis=0)
            starts, rounds = np.concatenate([starts, here, model.led]), SEARCHES * rounds
        noise = rng.normal(size=(len(starts), settings.planning, starts.shape[1]))
        best = _scaled(self.policy, scaling)
        mean, spread, value = np.zeros_like(best), np.ones_like(best), -np.inf  # any direction: scores have no size
        spread[0] = 0.0  # only differences of scores matter
        values, least = np.empty(settings.population), LEAST_SPREAD
        for turn in range(rounds):
            if turn and turn % settings.rounds == 0:  # how soon a prize is won depends more finely on it than risk does
                best = best / max(float(np.abs(best).max()), GONE)
                mean, spread[1:], least = best, NEARBY, FINE
            candidates = mean + spread * rng.normal(size=(settings.population, *mean.shape))
            candidates[0], candidates[1] = mean, best
            evaluate(model, candidates, starts, noise, lam, values)
            elite = np.argsort(-values, kind="stable")[: max(2, settings.population // 5)]
            mean = candidates[elite].mean(axis=0)
            spread[1:] = candidates[elite, 1:].std(axis=0) + least
            if values[elite[0]] > value:
                best, value = candidates[elite[0]], values[elite[0]]
        evaluate(model, mean[None], starts, noise, lam, values[:1])
        self.found.clear()
        self.found[n, lam] = _unscaled(mean if values[0] >= value else best, scaling)
        return self.found[n, lam]

    def model(self, n: int, settings: SearchSettings) -> tuple[Scaling, FittedModel]:
        """The model of the first n rows, and the scale of its states."""
        if n in self.models:
            return self.models[n]
        rows, size = self.rows, self.rows.state.shape[1]
        scaling = fit_scaling(rows.state[:n], self.low, self.high)
        z, terminated = scaling(rows.state[:n]), rows.terminated[:n]
        rng = np.random.default_rng([self.seed, settings.waves, size])
        wave, phase = (
            rng.normal(size=(size, settings.waves)) / settings.bandwidth,
            rng.uniform(0.0, 2.0 * pi, settings.waves),
        )
        taken = np.flatnonzero(rows.taken(n))
        earned = rows.reward[taken]
        won = taken[prizes(earned)]
        taken = np.setdiff1d(taken, won, assume_unique=True)  # what follows a prize, such as a new start, is no motion
        height = sqrt(2.0 / max(1, settings.waves))
        inputs = np.concatenate([np.ones((len(taken), 1)), z[taken], height * np.cos(z[taken] @ wave + phase)], axis=1)
        targets = np.concatenate([z[taken + 1] - z[taken], rows.reward[taken, None]], axis=1)
        ridge = np.full(inputs.shape[1], settings.reg)
        ridge[: 1 + size] /= 10.0  # prefer linear terms
        fit = partial(_fit, inputs, targets, rows.action[taken], len(self.policy.bias), ridge)
        kept = np.ones(len(taken), dtype=np.bool_)
        coefficient, missed = fit(kept, pushes=self.never_resets)
        for _ in range(FITS - 1 if self.never_resets else 0):
            kept = no_blow(missed[:, :size])
            coefficient, missed = fit(kept, pushes=True)
        spread = np.zeros((len(coefficient), size))
        for a in range(len(coefficient)):
            mine = kept & (rows.action[taken] == a)
            if mine.any():
                spread[a] = missed[mine, :size].std(axis=0)
        coefficient[:, 1 + size :] *= height
        fell, lived = z[terminated], z[~terminated]
        if self.limits is not None:
            fell = np.concatenate([fell, scaling(self.limits.examples(rows.state[:n][~terminated]))])
        known = _with_neighbours(fell, lived)
        low, high = lived.min(axis=0), lived.max(axis=0)
        # Rollouts are clipped to the bounds of the states: a fitted model does not keep to them by itself.
        least, most = (np.clip((end - scaling.centre) / scaling.scale, -FAR, FAR) for end in (self.low, self.high))
        self.models.clear()
        dynamics, bounds = (wave, phase, coefficient, spread), (low, high, least, most)
        caution = settings.caution
        if self.never_resets:  # no risk: new states are rewarded until rewards differ
            caution = 0.0 if np.ptp(earned) else -caution
        fitted = FittedModel(*dynamics, known, len(fell), *bounds, caution)
        if len(won):
            won, others = won[-PRIZES:], np.setdiff1d(taken, np.flatnonzero(terminated))
            paying = _with_neighbours(z[won], z[others])
            fitted = fitted._replace(paying=paying, n_paid=len(won), led=z[won + 1], prize=float(earned.max()))
        self.models[n] = scaling, fitted
        return self.models[n]

    def weigh(self, *, reset: bool) -> None:
        """Plan again where there is a prize to win, and none was won for long: the policy may be stuck."""
        since = self.rows.n - self.at
        if not self.stale and since >= max(PATIENCE, IMPATIENCE * self.at):
            won = prizes(self.rows.reward[: self.rows.n][self.rows.taken(self.rows.n)])
            self.stale = bool(won.any() and not won[-PATIENCE:].any())

    def foresee(self, n: int, policy: LinearScores, s1: State, settings: SearchSettings) -> tuple[float, float]:
        """What the model of the first n rows predicts of an episode from s1: its reward, the probability of a reset."""
        scaling, model = self.model(n, settings)
        out = np.empty(2)
        start = scaling(vectors(np.asarray([s1])))[0]
        rollout(model, _scaled(policy, scaling), start, np.zeros((self.horizon, len(start))), out)
        return float(out[0]), float(out[1])


def _ridge(inputs: Floats, targets: Floats, ridge: Floats) -> Floats:
    return np.asarray(np.linalg.solve(inputs.T @ inputs + np.diag(ridge), inputs.T @ targets))


def _fit(
    inputs: Floats,
    targets: Floats,
    action: NDArray[Any],
    n_actions: int,
    ridge: Floats,
    kept: Bools,
    *,
    pushes: bool,
) -> tuple[Floats, Floats]:
    """One regression per action on what that of all actions leaves open: [A, F, O], and what is missed [n, O].

    pushes: whether each action adds a push of its own to the motion of all, and little else. A policy takes each action
    where it has its place, and what that of one action says elsewhere, where it was never taken, is made up.
    """
    features, own = len(ridge), ridge
    if pushes:
        one_hot = (action[:, None] == np.arange(n_actions)).astype(np.float64)
        whole = _ridge(
            np.concatenate([inputs, one_hot], axis=1)[kept],
            targets[kept],
            np.append(ridge, ridge[:1].repeat(n_actions)),
        )
        coefficient, own = np.tile(whole[:features], (n_actions, 1, 1)), np.full(features, FIRM)
        coefficient[:, 0] += whole[features:]
    else:
        coefficient = np.tile(_ridge(inputs[kept], targets[kept], ridge), (n_actions, 1, 1))
    missed = np.empty_like(targets)
    for a in range(n_actions):
        mine, known = action == a, kept & (action == a)
        if known.any():
            coefficient[a] += _ridge(inputs[known], targets[known] - inputs[known] @ coefficient[a], own)
        missed[mine] = targets[mine] - inputs[mine] @ coefficient[a]
    return coefficient, missed


def no_blow(missed: Floats) -> Bools:
    """[n] the steps to fit a model to: all but the few that it misses [n, D] by many times what is usual.

    A car that runs into a wall stops at once. No smooth function does, and one that tries takes the rest for noise.
    """
    size = np.abs(missed)
    worst = (size / (np.median(size, axis=0) + GONE)).max(axis=1, initial=0.0)
    return np.asarray(worst <= max(BLOW, float(np.quantile(worst, 1.0 - RARE))))


def prizes(earned: Floats) -> Bools:
    """[n] the steps that earned the same rare prize, where all others earned one and the same; else none.

    No smooth function fits such rewards: what it says elsewhere sums up to more than the prize.
    """
    won = np.asarray(earned == earned.max(initial=-np.inf))
    rest = earned[~won]
    return won & bool(len(rest) and rest.min() == rest.max() and won.sum() <= max(1.0, RARE * len(earned)))


def _with_neighbours(reset_states: Floats, lived: Floats) -> Floats:
    """Reset states (or states that paid), then the nearest other states to each of them."""
    near: set[int] = set()
    for z in reset_states:
        distance = ((lived - z) ** 2).sum(axis=1)
        near |= set(np.argpartition(distance, min(NEIGHBOURS, len(lived) - 1))[:NEIGHBOURS].tolist())
    return np.concatenate([reset_states, lived[sorted(near)]]) if near else np.empty((0, lived.shape[1]))


def _starts(rows: ReplayBuffer, n: int, count: int, rng: np.random.Generator) -> Floats:
    """The last three starts after a reset, the agent's state, and states that it has visited."""
    lived = np.flatnonzero(~rows.terminated[:n])
    began = np.flatnonzero(np.append(True, rows.terminated[: n - 1]))[-3:]
    return np.asarray(rows.state[np.concatenate([began, lived[-1:], rng.choice(lived, count)])])


def _scaled(policy: LinearScores, scaling: Scaling) -> Floats:
    """The theta [A, D+1] that scores z as the policy scores s."""
    bias = policy.bias + policy.weight @ scaling.centre
    return np.concatenate([policy.weight * scaling.scale, bias[:, None]], axis=1)


def _unscaled(theta: Floats, scaling: Scaling) -> LinearScores:
    weight = theta[:, :-1] / scaling.scale
    return LinearScores(weight, theta[:, -1] - weight @ scaling.centre)


class FittedModel(NamedTuple):
    """A fitted model of the dynamics, rewards and reset states."""

    wave: Floats  # [D, f]
    phase: Floats  # [f]
    coefficient: Floats  # [A, 1 + D + f, D + 1] of z' - z, and of the reward in the last column
    spread: Floats  # [A, D] of what the model leaves open, per step
    known: Floats  # [q, D] states by whose nearest one a state is classified
    n_reset_states: int  # this many of them, the first, are reset states
    low: Floats  # [D] the box of all visited states
    high: Floats  # [D]
    least: Floats  # [D] what z cannot leave
    most: Floats  # [D]
    caution: (
        float  # the probability of a reset outside of it, per width of the box; negative: the reward of a step there
    )
    paying: Floats = NONE  # [p, D] states by whose nearest one it is predicted whether the next step wins the prize
    n_paid: int = 0  # this many of them, the first, won it
    led: Floats = NONE  # [n_paid, D] where these steps led
    prize: float = 0.0


@jit
def _nearest(known: Floats, z: Floats) -> int:
    """The first of the rows nearest to z."""
    best, nearest = np.inf, 0
    for i in range(known.shape[0]):
        distance = 0.0
        for j in range(z.shape[0]):
            distance += (z[j] - known[i, j]) ** 2
            if distance >= best:
                break
        if distance < best:
            best, nearest = distance, i
    return nearest


@jit
def _danger(model: FittedModel, z: Floats) -> float:
    """The probability that z is a reset state, by its nearest known state and by how far outside of the box it lies.

    Negative where no state is a reset: the reward for visiting z.
    """
    if model.n_reset_states > 0 and _nearest(model.known, z) < model.n_reset_states:
        return 1.0
    outside = 0.0
    for j in range(z.shape[0]):
        width = model.high[j] - model.low[j] + 1e-9
        outside = max(outside, (model.low[j] - z[j]) / width, (z[j] - model.high[j]) / width)
    return max(-1.0, min(1.0, model.caution * outside))


@jit
def choose(scores: Floats, z: Floats) -> int:
    """The action of largest score."""
    n_actions, size = scores.shape[0], z.shape[0]
    best, action = -np.inf, 0
    for a in range(n_actions):
        score = scores[a, size]
        for j in range(size):
            score += scores[a, j] * z[j]
        if score > best:
            best, action = score, a
    return action


@jit
def rollout(model: FittedModel, scores: Floats, start: Floats, noise: Floats, out: Floats) -> None:
    """One rollout of a policy: out[0] its expected reward, out[1] the probability of a reset within len(noise) steps.

    noise: [P, D] standard normal numbers.
    """
    size, n_waves = start.shape[0], model.phase.shape[0]
    z, step = start.copy(), np.empty(size + 1)
    alive = 1.0
    out[:] = 0.0
    for t in range(noise.shape[0]):
        if model.n_paid > 0:
            won = _nearest(model.paying, z)
            if won < model.n_paid:
                out[0] += alive * model.prize * (1.0 + SOONER * (noise.shape[0] - t) / noise.shape[0])
                break  # other rollouts start where prizes led
        a = choose(scores, z)
        c = model.coefficient[a]
        for k in range(size + 1):
            step[k] = c[0, k]
            for j in range(size):
                step[k] += z[j] * c[1 + j, k]
        for i in range(n_waves):
            angle = model.phase[i]
            for j in range(size):
                angle += z[j] * model.wave[j, i]
            value = np.cos(angle)
            for k in range(size + 1):
                step[k] += value * c[1 + size + i, k]
        for j in range(size):
            z[j] = min(model.most[j], max(model.least[j], z[j] + step[j] + model.spread[a, j] * noise[t, j]))
        gain = float(step[size])
        out[0] += alive * min(1.0, max(0.0, gain))
        danger = _danger(model, z)
        out[0] += alive * max(0.0, -danger)
        alive *= 1.0 - max(0.0, danger)
        if alive < GONE:
            alive = 0.0
            break
    out[1] = 1.0 - alive


@jit
def evaluate(model: FittedModel, policies: Floats, starts: Floats, noise: Floats, lam: float, values: Floats) -> None:
    """Write into values [m] the mean of reward - lam (probability of a reset) of each policy over starts.

    policies: [m, A, D+1].
    starts: [n, D].
    noise: [n, P, D], the same for every policy (common random numbers).
    """
    out = np.empty(2)
    for i in range(policies.shape[0]):
        values[i] = 0.0
        for s in range(starts.shape[0]):
            rollout(model, policies[i], starts[s], noise[s], out)
            values[i] += (out[0] - lam * out[1]) / starts.shape[0]
