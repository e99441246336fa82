"""A fitted model of a machine with continuous actions: how it moves, what it earns, and where it is reset.

Legend: z = (s - centre) / scale [D]; a in [-1, 1]^A an action on the scale of its box; x = (z, a); B draws of the
dynamics; theta [A, D + 1] a policy, a = tanh(theta.(z, 1)); P steps planned ahead; lam the price of a reset.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.players.model_based.exploring import SOONER, Prize, expected_prize, prizes
from resetfree.players.model_based.reset_classifier import NARROW, ResetClassifier, across_two, fit_classifier, walls
from resetfree.players.model_based.smooth_regression import JUMP, LEAST_GAP, Basis, Draws, draw_functions
from resetfree.problems.features.scaling import Scaling
from resetfree.problems.formula import nearest_row
from resetfree.problems.limits import ActionLimits, Limits

FAR = 30.0  # z is clipped there: a model that diverges predicts nothing
BEYOND = 0.25  # a step may be larger than any seen by this part of their range
CLASSIFIED = 2000  # visited states that the reset classifier is fitted to: half are the latest, half any
FELL = 256  # latest reset states that it is fitted to
STILL = 1e-6  # a sensor with a relative deviation below this never moved
FIRST = 20  # states that make the first box
EXPECTED = 10.0  # prior counts of resets, and of widths outside of the box without one


class Experience(NamedTuple):
    """Transitions, and the states that were visited or were reset states."""

    before: Floats  # [n, D]
    action: Floats  # [n, A] in [-1, 1]
    reward: Floats  # [n]
    after: Floats  # [n, D]
    lived: Floats  # [q, D] visited states, in the order of visit
    reset_states: Floats  # [r, D]


@dataclass(frozen=True)
class MachineModel:
    """Samples of dynamics and rewards, a classifier of reset states, and the box of all visited states."""

    scaling: Scaling
    steps: Draws  # z' - z
    rewards: Draws  # one output
    smallest: Floats  # [D + 1] what steps and rewards are clipped to
    largest: Floats  # [D + 1]
    reset_classifier: ResetClassifier
    low: Floats  # [D] the box
    high: Floats  # [D]
    least: Floats  # [D] what z cannot leave
    most: Floats  # [D]
    caution: float  # the probability of a reset outside of the box, per width
    table: Floats | None = None  # [K, A] the actions there are; None: all of the box
    prize: Prize | None = None  # that a step wins, and with which a rollout ends
    quickest: Floats | None = None  # [D] the most that z may change in a step: beyond is known to be a reset
    eases: Floats | None = None  # [A] the most that an action may change in a step: it is cut to that

    def played(self, pushed: Floats) -> Floats:
        """[n, A] the actions that are nearest to those of a policy."""
        return pushed if self.table is None else np.asarray(self.table[nearest_row(pushed, self.table)])

    @property
    def n_actions(self) -> int:
        """A, the numbers of an action."""
        return len(self.steps.length) - len(self.low)

    def drawn(self, i: int) -> Self:
        """The model of one of its draws."""
        return replace(self, steps=self.steps.only(i), rewards=self.rewards.only(i))

    def surprised(self, seen: Experience) -> Bools:
        """[n] whether the steps of these transitions are missed by far: a set point that moved, a blow."""
        z = self.scaling(seen.before)
        basis = self.steps.features(np.concatenate([z, seen.action], axis=1))
        missed = np.abs(z + basis @ self.steps.weight.mean(axis=0) - self.scaling(seen.after)).max(axis=1)
        return np.asarray(missed > JUMP * max(float(np.median(missed)), LEAST_GAP))

    def outside(self, z: Floats) -> Floats:
        """[n] how far z [n, D] is outside of the box in its farthest sensor, in widths; 0 inside."""
        return np.asarray(np.maximum(self.beyond(z).max(axis=1), 0.0))

    @cached_property
    def widths(self) -> Floats:
        """[D] of the box, in which distances from it are measured."""
        return widths(self.low, self.high)

    def beyond(self, z: Floats) -> Floats:
        """[n, D] how far each sensor of z is outside of the box, in widths; negative inside."""
        return np.asarray(np.maximum(z - self.high, self.low - z) / self.widths)

    def rushed(self, before: Floats, z: Floats) -> Bools | float:
        """[n] whether a step to z changed a number by more than it may; 0 where nothing is said of that."""
        return 0.0 if self.quickest is None else np.asarray((np.abs(z - before) > self.quickest).any(axis=1))

    def danger(self, z: Floats, reached: Floats) -> tuple[Floats, Floats]:
        """[n] the probability that coming to z [n, D] is a reset, and how far outside the rollouts have now been.

        reached: [n] how far they had been.

        It is 1 where the classifier finds a reset state, else in proportion to how much farther it is: a rollout that
        stays a little outside takes that risk once, not in every step.
        """
        farthest = np.maximum(reached, self.outside(z))
        risk = np.minimum(self.caution * (farthest - reached), 1.0)
        return np.maximum(self.reset_classifier.resets(z), risk), farthest


def beyond(z: Floats, low: Floats, high: Floats) -> Floats:
    """[n, D] how far each sensor of z is outside of [low, high], in widths; negative inside."""
    return np.asarray(np.maximum(z - high, low - z) / widths(low, high))


def widths(low: Floats, high: Floats) -> Floats:
    """[D] of a box, in which distances from it are measured."""
    return np.maximum(high - low, NARROW)


def fit_machine(
    seen: Experience,
    bounds: tuple[Floats, Floats],
    *,
    draws: int,
    caution: float,
    rng: np.random.Generator,
    table: Floats | None = None,
    known: tuple[Limits | None, ActionLimits | None] = (None, None),
    dares: bool = False,
) -> MachineModel:
    """The model of all transitions.

    bounds: [D] each, what states cannot leave.
    draws: B.
    caution: the initial probability of a reset outside of the box, per width.
    table: [K, A] the actions there are; None: all of the box.
    dares: whether a reward may be expected that was never earned.
    known: beforehand: walls where they are nearer than what falls suggest, and what limits the actions.

    Steps and rewards are fitted on their own: what a reward depends on closely (a way to a set point) is often what
    the steps hardly depend on, and one set of lengths would serve neither. Rewards are expected to have edges: many
    fall with a distance, which has a tip where most is earned.
    """
    centre, spread = seen.before.mean(axis=0), seen.before.std(axis=0)
    scaling = Scaling(centre, np.where(spread > STILL * (1.0 + np.abs(centre)), spread, 1.0))
    z, lived = scaling(seen.before), scaling(seen.lived)
    won = prizes(seen.reward)
    prize, moved = expected_prize(z, won, float(seen.reward.max())), ~won  # what follows a prize may be a new start
    step, reward, x = scaling(seen.after) - z, seen.reward[:, None], np.concatenate([z, seen.action], axis=1)
    step, reward, x = step[moved], reward[moved], x[moved]
    more, hoped = BEYOND * np.ptp(step, axis=0), BEYOND * float(np.ptp(reward)) * dares
    some, reset_states = lived[latest_and_any(len(lived), CLASSIFIED, rng)], scaling(seen.reset_states[-FELL:])
    low, high = lived.min(axis=0), lived.max(axis=0)
    lowest, highest = walls(low, high, reset_states)
    (limits, acts), stated, quickest = known, None, None
    if limits is not None:
        lowest, highest = np.maximum(lowest, scaling(limits.low)), np.minimum(highest, scaling(limits.high))
        stated = limits.stated(scaling)
        quickest = None if limits.most_change is None else limits.most_change / scaling.scale
    least, most = (np.clip((end - scaling.centre) / scaling.scale, -FAR, FAR) for end in bounds)
    return MachineModel(
        scaling=scaling,
        steps=draw_functions(x, step, draws, rng),
        rewards=draw_functions(x, reward, draws, rng, edges=True),
        smallest=np.append(step.min(axis=0) - more, reward.min()),
        largest=np.append(step.max(axis=0) + more, reward.max() + hoped),
        reset_classifier=ResetClassifier(
            fit_classifier(some, reset_states).weight, lowest, highest, across_two(lived, reset_states), stated
        ),
        low=low,
        high=high,
        least=least,
        most=most,
        caution=learned_caution(lived, len(seen.reset_states), caution),
        table=table,
        prize=prize,
        quickest=quickest,
        eases=None if acts is None else 2.0 * acts.rate / np.ptp(np.array(acts.within.ends), axis=0),
    )


def latest_and_any(n: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """At most so many of n rows: half of them the latest, and any before these."""
    if n <= most:
        return np.arange(n)
    latest = n - most // 2
    return np.concatenate([rng.choice(latest, most - most // 2, replace=False), np.arange(latest, n)])


def learned_caution(lived: Floats, resets: int, caution: float) -> float:
    """The probability of a reset outside of the box, per width, after visits to z [q, D] with so many resets.

    Each of the states was inside or outside of the box of those before it: every width outside without a reset
    decreases the estimate, and every reset increases it.
    """
    low, high = np.minimum.accumulate(lived)[:-1], np.maximum.accumulate(lived)[:-1]
    outside = np.clip(beyond(lived[1:], low, high).max(axis=1), 0.0, 1.0)[FIRST:]
    return caution * (EXPECTED + resets) / (EXPECTED + float(outside.sum()))


# --------------------------------------------------------------------------------------------------------------------

OVERHEAD = 60  # steps of one rollout that take as long as the overhead of a step of all of them
GONE = 1e-3  # a rollout that is less likely than this to go on has ended
SHARPNESS = 10.0  # of the classifier's logit where a gradient is needed: its decision is a step function
LARGEST = 30.0  # logits are clipped there, so that nothing overflows


class Forecast(NamedTuple):
    """The results of model rollouts of m policies from n starts."""

    reward: Floats  # [m, n] expected sum
    reset: Floats  # [m, n] probability of a reset
    effort: int = 0  # steps of all rollouts, and OVERHEAD for each step of the batch

    def value(self, lam: float) -> Floats:
        """[m] of each policy: reward - lam (probability of a reset), averaged over starts."""
        return np.asarray((self.reward - lam * self.reset).mean(axis=1))


class RolloutRules(NamedTuple):
    """What rollouts share: the units of a policy's hidden layer, and how much each step counts."""

    units: Floats | None = None  # [F, D + 1] of z and 1; None: the policy is linear
    counts: Floats | None = None  # [P] weights of the rewards; None: 1 each

    def features(self, z: Floats) -> Floats:
        """[n, D + F] what the weights of a policy are multiplied with, at z [n, D]."""
        if self.units is None:
            return z
        return np.concatenate([z, np.tanh(z @ self.units[:, :-1].T + self.units[:, -1])], axis=1)

    def back(self, features: Floats, by_features: Floats) -> Floats:
        """[n, D] the derivatives by z from those by the features."""
        if self.units is None:
            return by_features
        size = self.units.shape[1] - 1
        inner = by_features[:, size:] * (1.0 - features[:, size:] ** 2)
        return np.asarray(by_features[:, :size] + inner @ self.units[:, :-1])

    def weight(self, t: int) -> float:
        """How much step t counts."""
        return 1.0 if self.counts is None else float(self.counts[t])


PLAIN = RolloutRules()


def rollout(model: MachineModel, theta: Floats, starts: Floats, noise: Floats, rules: RolloutRules = PLAIN) -> Forecast:
    """Model rollouts of m policies theta [m, A, D + F + 1] from n starts [n, D], on the scale of z.

    noise: [P, n, D] standard normal numbers, the same for every policy (common random numbers).

    Rollouts that have ended, by a reset or by a prize, take no further steps.
    """
    m, (n, size) = len(theta), starts.shape
    order = _by_draw(model, n)
    policy, start = np.tile(np.arange(m), n), np.repeat(order, m)
    draw = start % len(model.steps.weight)
    reset, earned = np.zeros(m * n), np.zeros(m * n)
    on, z, alive, reward, effort = np.arange(m * n), starts[start], np.ones(m * n), np.zeros(m * n), 0
    fell, done = np.zeros(m * n), np.zeros((m * n, theta.shape[1]))
    mine, rows, reached = theta[policy], model.steps.rows_of(draw), model.outside(z)
    for t, step_noise in enumerate(noise):
        effort += len(on) + OVERHEAD
        if model.prize is not None:
            won = model.prize.wins(z)
            reward += alive * won * model.prize.height * (1.0 + SOONER * (len(noise) - t) / len(noise))
            alive = alive * ~won
        action = np.tanh(np.einsum("naf,nf->na", mine[:, :, :-1], rules.features(z)) + mine[:, :, -1])
        if model.eases is not None:
            action = done = _cut(action, done - model.eases, done + model.eases) if t else action
        x, before = np.concatenate([z, model.played(action)], axis=1), z
        outputs = [fit.values_in(fit.features(x), rows) for fit in (model.steps, model.rewards)]
        step = _cut(np.concatenate(outputs, axis=1), model.smallest, model.largest)
        z = _cut(z + step[:, :size] + model.steps.noise * step_noise[start], model.least, model.most)
        reward += rules.weight(t) * alive * step[:, size]
        danger, reached = model.danger(z, reached)
        danger = np.maximum(danger, model.rushed(before, z))
        fell += alive * danger
        alive = alive * (1.0 - danger)
        goes_on = alive > GONE
        if not goes_on.all():
            reset[on], earned[on] = fell, reward
            on, start, draw = on[goes_on], start[goes_on], draw[goes_on]
            z, reached, mine, rows = z[goes_on], reached[goes_on], mine[goes_on], model.steps.rows_of(draw)
            alive, reward, fell, done = alive[goes_on], reward[goes_on], fell[goes_on], done[goes_on]
            if not len(on):
                break
    reset[on], earned[on] = fell, reward
    back = np.argsort(order)
    return Forecast(earned.reshape(n, m)[back].T, reset.reshape(n, m)[back].T, effort)


def _by_draw(model: MachineModel, n: int) -> NDArray[np.int64]:
    """[n] the starts in the order of their draws, which makes those of one draw a slice."""
    return np.argsort(np.arange(n) % len(model.steps.weight), kind="stable")


def value_and_gradient(
    model: MachineModel, theta: Floats, starts: Floats, noise: Floats, lam: float, *, rules: RolloutRules = PLAIN
) -> tuple[float, Floats]:
    """The value of one policy theta [A, D + F + 1], and [A, D + F + 1] its exact gradient.

    The rollouts are those of `rollout`, except that the probability of a reset is a steep smooth function of the
    classifier's logit. Where actions are rounded, the gradient is that without rounding of the actions themselves.
    """
    order = _by_draw(model, len(starts))
    starts, noise = starts[order], noise[:, order]
    rows = model.steps.rows_of(order % len(model.steps.weight))
    z, alive, reached = starts, np.ones(len(starts)), model.outside(starts)
    value, moments = np.zeros(len(starts)), []
    for t, step_noise in enumerate(noise):
        now = _step(
            model, theta, z, alive, reached, rows=rows, step_noise=step_noise, rules=rules, share=rules.weight(t)
        )
        value += alive * now.reward
        z, alive, reached = now.after, alive * (1.0 - now.danger), np.maximum(reached, now.outside)
        moments.append(now)
        if (alive <= GONE).all():
            break
    value -= lam * (1.0 - alive)
    by_theta = np.zeros_like(theta)
    by = _Gradients(np.zeros_like(starts), np.full(len(starts), lam), np.zeros(len(starts)))
    for now in reversed(moments):
        by = _back(model, theta, now, rows, by, by_theta=by_theta, rules=rules)
    return float(value.mean()), by_theta / len(starts)


class _Moment(NamedTuple):
    """One step of n rollouts, with all that its derivatives need."""

    z: Floats  # [n, D] before it
    alive: Floats  # [n] the probability that a rollout has come so far
    features: Floats  # [n, D + F] of the policy
    share: float  # how much its reward counts
    action: Floats  # [n, A]
    basis: tuple[Basis, Basis]  # of steps and of rewards
    uncut: Floats  # [n, D + 1] step and reward before they are clipped
    reward: Floats  # [n]
    moved: Floats  # [n, D] z' before it is clipped
    after: Floats  # [n, D] z'
    p_reset: Floats  # [n] the probability of a reset by the classifier
    sensor: NDArray[np.int64]  # [n] the one that is farthest outside of the box
    outside: Floats  # [n] how far
    farther: Bools  # [n] whether a rollout was never so far outside
    risk: Floats  # [n] the probability of a reset by how much farther, at most 1
    danger: Floats  # [n] the larger probability of both


class _Gradients(NamedTuple):
    """Derivatives of the value of n rollouts by what goes from one step into the next."""

    z: Floats  # [n, D]
    alive: Floats  # [n]
    reached: Floats  # [n]


def _step(
    model: MachineModel,
    theta: Floats,
    z: Floats,
    alive: Floats,
    reached: Floats,
    rows: list[slice],
    step_noise: Floats,
    *,
    rules: RolloutRules,
    share: float,
) -> _Moment:
    size, features = z.shape[1], rules.features(z)
    action = np.tanh(features @ theta[:, :-1].T + theta[:, -1])
    x = np.concatenate([z, model.played(action)], axis=1)
    basis = model.steps.basis(x), model.rewards.basis(x)
    outputs = [fit.values_in(part.value, rows) for fit, part in zip((model.steps, model.rewards), basis, strict=True)]
    uncut = np.concatenate(outputs, axis=1)
    step = _cut(uncut, model.smallest, model.largest)
    moved = z + step[:, :size] + model.steps.noise * step_noise
    after = _cut(moved, model.least, model.most)
    p_reset = 1.0 / (1.0 + np.exp(np.minimum(-SHARPNESS * model.reset_classifier.logit(after), LARGEST)))
    p_reset = np.maximum(p_reset, model.rushed(z, after))
    out = model.beyond(after)
    sensor = out.argmax(axis=1)
    outside = out[np.arange(len(z)), sensor]
    risk = _cut(model.caution * (outside - reached), 0.0, 1.0)
    return _Moment(
        z=z,
        alive=alive,
        features=features,
        share=share,
        action=action,
        basis=basis,
        uncut=uncut,
        reward=share * step[:, size],
        moved=moved,
        after=after,
        p_reset=p_reset,
        sensor=sensor,
        outside=outside,
        farther=outside > reached,
        risk=risk,
        danger=np.maximum(p_reset, risk),
    )


def _cut(x: Floats, least: Floats | float, most: Floats | float) -> Floats:
    """What np.clip gives, in a third of its time for small arrays."""
    return np.asarray(np.minimum(np.maximum(x, least), most))


def _back(
    model: MachineModel,
    theta: Floats,
    now: _Moment,
    rows: list[slice],
    by: _Gradients,
    by_theta: Floats,
    *,
    rules: RolloutRules,
) -> _Gradients:
    """The gradients before a step from those after it; what its actions add to by_theta is added there."""
    size, each = now.z.shape[1], np.arange(len(now.z))
    by_danger = -now.alive * by.alive
    by_classifier = now.p_reset >= now.risk
    by_logit = np.where(by_classifier, SHARPNESS * by_danger * now.p_reset * (1.0 - now.p_reset), 0.0)
    by_after = by.z + by_logit[:, None] * model.reset_classifier.gradient(now.after)
    by_risk = np.where(~by_classifier & (now.risk < 1.0), model.caution * by_danger, 0.0)
    by_outside = by_risk + np.where(now.farther, by.reached, 0.0)
    side = np.where(now.after[each, now.sensor] > model.high[now.sensor], 1.0, -1.0)
    by_after[each, now.sensor] += by_outside * side / model.widths[now.sensor]
    by_moved = np.where((now.moved > model.least) & (now.moved < model.most), by_after, 0.0)
    by_uncut = np.concatenate([by_moved, now.share * now.alive[:, None]], axis=1)
    by_uncut = np.where((now.uncut > model.smallest) & (now.uncut < model.largest), by_uncut, 0.0)
    by_x = model.steps.gradients_in(now.basis[0], rows, by_uncut[:, :size])
    by_x += model.rewards.gradients_in(now.basis[1], rows, by_uncut[:, size:])
    by_push = by_x[:, size:] * (1.0 - now.action**2)
    by_theta[:, :-1] += by_push.T @ now.features
    by_theta[:, -1] += by_push.sum(axis=0)
    return _Gradients(
        z=by_moved + by_x[:, :size] + rules.back(now.features, by_push @ theta[:, :-1]),
        alive=now.reward + (1.0 - now.danger) * by.alive,
        reached=np.where(now.farther, 0.0, by.reached) - by_risk,
    )
