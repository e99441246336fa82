"""Lives that are imagined: a learned model is played by many policies at once.

Legend: z a state on one scale [D]; f waves; the model: z' - z and the reward are linear in (1, z, cos(z.wave + phase));
scores [A, D+1] a policy: the action of largest score z.scores[a, :D] + scores[a, D]; lam the price of a reset.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from resetfree.core.compiled import jit
from resetfree.problems.finite.backward import Floats

GONE = 1e-6  # a life whose probability of still going on is smaller has ended


class FittedModel(NamedTuple):
    """A fitted model of the dynamics, rewards and reset states."""

    wave: Floats  # [D, f]
    phase: Floats  # [f]
    coefficient: Floats  # [A, 1 + D + f, D + 1] of z' - z, and of the reward in the last column
    spread: Floats  # [A, D] of what the model leaves open, per step
    known: Floats  # [q, D] states by whose nearest a state is judged
    n_dead: int  # this many of them, the first, are reset states
    low: Floats  # [D] the box of all states that were lived in
    high: Floats  # [D]
    least: Floats  # [D] what z cannot leave
    most: Floats  # [D]
    caution: float  # how dangerous it is to be outside of it, per width of the box


@jit
def _danger(model: FittedModel, z: Floats) -> float:
    """The probability that z is a reset state: judged by its nearest known state, and by how far outside it lies."""
    if model.n_dead > 0:
        best, nearest = np.inf, 0
        for i in range(model.known.shape[0]):
            distance = 0.0
            for j in range(z.shape[0]):
                distance += (z[j] - model.known[i, j]) ** 2
                if distance >= best:
                    break
            if distance < best:
                best, nearest = distance, i
        if nearest < model.n_dead:
            return 1.0
    outside = 0.0
    for j in range(z.shape[0]):
        width = model.high[j] - model.low[j] + 1e-9
        outside = max(outside, (model.low[j] - z[j]) / width, (z[j] - model.high[j]) / width)
    return min(1.0, model.caution * outside)


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
def imagine(model: FittedModel, scores: Floats, start: Floats, noise: Floats, out: Floats) -> None:
    """One rollout of a policy: out[0] its expected reward, out[1] the probability of a reset within len(noise) steps.

    noise: [P, D] standard normal numbers.
    """
    size, n_waves = start.shape[0], model.phase.shape[0]
    z, step = start.copy(), np.empty(size + 1)
    alive = 1.0
    out[:] = 0.0
    for t in range(noise.shape[0]):
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
        alive *= 1.0 - _danger(model, z)
        if alive < GONE:
            alive = 0.0
            break
    out[1] = 1.0 - alive


@jit
def judge(model: FittedModel, policies: Floats, starts: Floats, noise: Floats, lam: float, worth: Floats) -> None:
    """Into worth [m] the mean of reward - lam (probability of a reset) of each policy [m, A, D+1] over starts [n, D].

    noise: [n, P, D], the same for every policy, so that they are compared on the same luck.
    """
    out = np.empty(2)
    for i in range(policies.shape[0]):
        worth[i] = 0.0
        for s in range(starts.shape[0]):
            imagine(model, policies[i], starts[s], noise[s], out)
            worth[i] += (out[0] - lam * out[1]) / starts.shape[0]
