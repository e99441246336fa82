"""Value iteration over visited states of a fitted model, and a policy with hidden units that imitates what it chooses.

A search over weights finds no way of several swings: all policies near one that hangs hang as well. Value iteration
does, where states are short. Values of N visited states are averaged over the nearest of them,

    V(z) = max_a r(z, a) - lam p(z') + g (1 - p(z')) sum_i w_i(z') V(z_i),   z' the model's mean,

which is a contraction, however few they are. States that this policy comes through in the model are added, since the
values there decide whether it goes on. What it chooses there is then learned by weighted regression.

Legend: z [D] a scaled state; a one of K actions [A] in [-1, 1]; p the probability of a reset; F hidden units.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial import cKDTree

from resetfree.core.arrays import Floats
from resetfree.players.model_based.machine_model import MachineModel, RolloutRules

LONGEST = 8  # numbers in a state up to which the nearest states say what the value is
LEVELS = {1: 7, 2: 5, 3: 3, 4: 3}  # of each number of an action
PAIRS = 12_000  # states times actions, at most
NEAREST = 6  # states that a value is averaged over
DISCOUNT = 0.99
SWEEPS, CHANGE = 300, 1e-3  # of value iteration, unless all values change relatively less
TURNS = 3  # value iterations, each with the states of the policy of the one before
UNITS = 24  # F
INNER = 1500  # states whose choices are learned
EVALUATIONS, RIDGE = 200, 1e-5  # of that regression
FIRST_RIDGE = 1e-3  # of the weights that it begins with
FAR_AWAY = 0.25  # deviations from all visited states at which a state is unseen
FARTHEST = 8.0  # times that, up to which it counts for more
NEARLY = 0.95  # actions at the end of the box are learned as this part of it: tanh never gets there


class Aim(NamedTuple):
    """What is maximised."""

    lam: float  # the price of a reset
    bonus: float = 0.0  # the reward of a step to where nothing was seen


class ValueTable(NamedTuple):
    """Values of states, and of all others by their nearest ones."""

    tree: cKDTree
    values: Floats  # [N]

    def weights(self, z: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """[n, NEAREST] the weights of the nearest states of z [n, D], and which these are."""
        away, nearest = self.tree.query(z, k=min(NEAREST, self.tree.n))
        away, nearest = away.reshape(len(z), -1), nearest.reshape(len(z), -1)
        width = np.maximum(0.5 * away[:, -1:], 1e-9)
        weight = np.exp(-0.5 * (away / width) ** 2)
        return weight / weight.sum(axis=1, keepdims=True), nearest

    def __call__(self, z: Floats) -> Floats:
        """[n] the values of z [n, D]."""
        weight, nearest = self.weights(z)
        return np.asarray((weight * self.values[nearest]).sum(axis=1))


class Stepper:
    """The mean step of a model for all actions in a state, its reward and its danger."""

    def __init__(self, model: MachineModel, actions: Floats, visited: Floats, aim: Aim) -> None:
        self.model, self.actions, self.aim = model, actions, aim
        self.seen = cKDTree(visited)
        apart = self.seen.query(visited[:: max(1, len(visited) // 200)], k=2)[0][:, -1]
        self.far = FAR_AWAY + float(np.quantile(apart, 0.9))  # more than visited states lie apart

    def __call__(self, z: Floats) -> tuple[Floats, Floats, Floats]:
        """[n K, D] the next states, and [n K] their rewards and probabilities to go on."""
        model, k = self.model, len(self.actions)
        before = np.repeat(z, k, axis=0)
        x = np.concatenate([before, np.tile(self.actions, (len(z), 1))], axis=1)
        step, reward = (fit.features(x) @ fit.weight.mean(axis=0) for fit in (model.steps, model.rewards))
        size = z.shape[1]
        after = before + np.clip(step, model.smallest[:size], model.largest[:size])
        after = np.clip(after, model.least, model.most)
        earned = np.clip(reward[:, 0], model.smallest[size], model.largest[size])
        danger, _ = model.danger(after, model.outside(before))
        if self.aim.bonus:
            away = self.seen.query(after)[0]
            earned = earned + self.aim.bonus * np.minimum(away / self.far, FARTHEST)
        earned, goes_on = earned - self.aim.lam * danger, 1.0 - danger
        if model.prize is not None:
            won = model.prize.wins(before)
            earned, goes_on = np.where(won, model.prize.height, earned), np.where(won, 0.0, goes_on)
        return after, earned, goes_on

    def choices(self, z: Floats, table: ValueTable) -> tuple[Floats, Floats, Floats]:
        """[n, K] the values of all actions in z [n, D], the next states [n, D] of the best, and their rewards [n]."""
        after, earned, goes_on = self(z)
        n, k = len(z), len(self.actions)
        values = (earned + DISCOUNT * goes_on * table(after)).reshape(n, k)
        best, each = values.argmax(axis=1), np.arange(n)
        return values, after.reshape(n, k, -1)[each, best], earned.reshape(n, k)[each, best]


def action_levels(n_numbers: int) -> Floats:
    """[K, A] a grid of actions; none where there are too many numbers.

    >>> action_levels(1).ravel().round(2).tolist(), len(action_levels(2)), len(action_levels(6))
    ([-1.0, -0.67, -0.33, 0.0, 0.33, 0.67, 1.0], 25, 0)
    """
    if n_numbers not in LEVELS:
        return np.empty((0, n_numbers))
    return np.array(list(product(np.linspace(-1.0, 1.0, LEVELS[n_numbers]), repeat=n_numbers)))


def iterate(step: Stepper, points: Floats, before: ValueTable | None) -> ValueTable:
    """The values of all points; before: values that the iteration begins with."""
    table = ValueTable(cKDTree(points), np.zeros(len(points)) if before is None else before(points))
    after, earned, goes_on = step(points)
    weight, nearest = table.weights(after)
    goes_on, values = DISCOUNT * goes_on, table.values
    for _ in range(SWEEPS):
        new = (earned + goes_on * (weight * values[nearest]).sum(axis=1)).reshape(len(points), -1).max(axis=1)
        moved, values = float(np.abs(new - values).max()), new
        if moved < CHANGE * max(1.0, float(np.abs(new).max())):
            break
    return table._replace(values=values)


def planned(
    step: Stepper, visited: Floats, starts: Floats, length: int, rng: np.random.Generator
) -> tuple[Floats, Floats] | None:
    """Weights theta [A, D + F + 1] and hidden units [F, D + 1] of a policy that does what value iteration chooses.

    None where states are too long, or actions too many.

    visited: z [n, D].  starts: z [., D] from which its rollouts begin.  length: of these.
    """
    if visited.shape[1] > LONGEST or not len(step.actions):
        return None
    room = max(200, PAIRS // len(step.actions))
    points = np.concatenate([starts, _some(visited, room // 2, rng)])
    table, best, kept = None, -np.inf, (points, np.zeros((len(points), len(step.actions))))
    for _ in range(TURNS):
        table = iterate(step, points, table)
        z, met, choices, earned = starts, [], [], 0.0
        for _ in range(length):
            values, after, gained = step.choices(z, table)
            met.append(z)
            choices.append(values)
            z, earned = after, earned + float(gained.mean())
        way, values = np.concatenate(met), np.concatenate(choices)
        if earned > best:
            rows = rng.permutation(len(way))[:INNER]
            best, kept = earned, (way[rows], values[rows])
        points = np.concatenate([points, _some(way, room // (2 * TURNS), rng)])
    return imitated(*kept, step.actions, rng)


def _some(z: Floats, most: int, rng: np.random.Generator) -> Floats:
    return z if len(z) <= most else z[rng.choice(len(z), most, replace=False)]


def imitated(z: Floats, values: Floats, actions: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Weights and hidden units of the policy that takes the best action, most exactly where it matters most.

    values: [n, K] of all actions in z [n, D].
    """
    matters = values.max(axis=1) - values.mean(axis=1)
    share = (matters / max(float(matters.mean()), 1e-9))[:, None] / len(z)
    return learned_actions(z, NEARLY * actions[values.argmax(axis=1)], share, rng)


def learned_actions(z: Floats, wanted: Floats, share: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Weights and hidden units of a policy that acts as wanted [n, A], within (-1, 1), in z [n, D].

    share: [n, 1] how much each of them matters.
    """
    (n, size), n_numbers = z.shape, wanted.shape[1]
    inner = rng.normal(size=(UNITS, size))
    middle = z[rng.integers(n, size=UNITS)]
    units = np.concatenate([inner, -(inner * middle).sum(axis=1, keepdims=True)], axis=1)
    cut = units.size

    def loss(flat: Floats) -> tuple[float, Floats]:
        rules, theta = RolloutRules(flat[:cut].reshape(units.shape)), flat[cut:].reshape(n_numbers, -1)
        features = rules.features(z)
        pushed = np.tanh(features @ theta[:, :-1].T + theta[:, -1])
        missed = share * (pushed - wanted)
        by_push = missed * (1.0 - pushed**2)
        by_theta = np.concatenate([by_push.T @ features, by_push.sum(axis=0)[:, None]], axis=1)
        by_inner = (by_push @ theta[:, size:-1]) * (1.0 - features[:, size:] ** 2)
        by_units = np.concatenate([by_inner.T @ z, by_inner.sum(axis=0)[:, None]], axis=1)
        value = 0.5 * float((missed * (pushed - wanted)).sum() + RIDGE * (flat @ flat))
        return value, np.concatenate([by_units.ravel(), by_theta.ravel()]) + RIDGE * flat

    inputs = np.concatenate([RolloutRules(units).features(z), np.ones((n, 1))], axis=1)  # begins with a line's weights
    gram = inputs.T @ (share * inputs) + FIRST_RIDGE * np.eye(inputs.shape[1])
    first = np.concatenate([units.ravel(), np.linalg.solve(gram, inputs.T @ (share * np.arctanh(wanted))).T.ravel()])
    found = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxfun": EVALUATIONS}).x
    return found[cut:].reshape(n_numbers, -1), found[:cut].reshape(units.shape)
