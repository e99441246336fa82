"""Random small problems whose every number is a fraction with a small denominator.

A float that stands for such a fraction is read back exactly, so what rational arithmetic says about these problems is
the truth, and the floating-point oracles can be held to it.
"""

from collections.abc import Sequence
from math import prod
from random import Random
from typing import TypeVar

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import resetfree as rf
from resetfree.problems.finite.composed import with_contexts
from resetfree.problems.finite.mdp import Boundary

T = TypeVar("T")
Floats = NDArray[np.float64]
REWARDS = [0.0, 1.0, 0.5, 0.1, 0.3, 2 / 3, 5 / 7]
BOUNDARIES: tuple[Boundary, ...] = ("physical", "literal")


def exact(examples: int) -> settings:
    """The same examples on every run and every machine, however slow it is."""
    return settings(
        derandomize=True,
        max_examples=examples,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


class Pick:
    """Where choices come from: Hypothesis (simple problems, which shrink) or a seed (rich ones, which do not)."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        seeded = draw(st.sampled_from([False, True, True, True]))
        self._random = Random(draw(st.integers(0, 2**32 - 1))) if seeded else None

    def one(self, options: Sequence[T]) -> T:
        """One of the options."""
        return self._draw(st.sampled_from(options)) if self._random is None else self._random.choice(options)

    def distribution(self, n: int) -> Floats:
        """[n] at most three positive entries, each an integer from 1 to 4 over their sum."""
        weights = np.zeros(n)
        for _ in range(self.one([1, 2, 3])):
            weights[self.one(range(n))] = self.one([1, 2, 3, 4])
        return np.asarray(weights / weights.sum())

    def array(self, shape: tuple[int, ...], options: Sequence[float]) -> Floats:
        """Independent choices."""
        return np.array([self.one(options) for _ in range(prod(shape))]).reshape(shape)


@st.composite
def finite_problems(draw: st.DrawFn, boundaries: Sequence[Boundary] = BOUNDARIES) -> rf.FiniteMDP:
    """1..6 states, 1..3 actions, 1..4 steps; stationary or not, with or without contexts and resets at the end."""
    pick = Pick(draw)
    n_contexts = pick.one([1, 1, 1, 2])
    n_states = pick.one([1, 2, 3, 4, 5, 5, 6, 6] if n_contexts == 1 else [1, 2, 3, 3])
    n_actions, horizon, boundary = pick.one([1, 2, 3, 3]), pick.one([1, 2, 3, 4, 4]), pick.one(boundaries)
    tasks = [_task(pick, n_states, n_actions, horizon, boundary) for _ in range(n_contexts)]
    if n_contexts == 1:
        return tasks[0]
    chain = np.array([pick.distribution(n_contexts) for _ in range(n_contexts)])
    return with_contexts(tasks, chain, start=pick.one(range(n_contexts)))


@st.composite
def policies(draw: st.DrawFn, mdp: rf.FiniteMDP) -> Floats:
    """A Markov policy [H, S, A] of fractions."""
    pick = Pick(draw)
    rows = [pick.distribution(mdp.n_actions) for _ in range(mdp.horizon * mdp.n_states)]
    return np.array(rows).reshape(mdp.horizon, mdp.n_states, mdp.n_actions)


def _task(pick: Pick, n_states: int, n_actions: int, horizon: int, boundary: Boundary) -> rf.FiniteMDP:
    reset = pick.array((n_states,), [0, 0, 1]) > 0
    if reset.all():
        reset[0] = False
    layers, steps = pick.one([1, horizon]), pick.one([1, horizon])
    rows = [pick.distribution(n_states) for _ in range(layers * n_states * n_actions)]
    transition = np.array(rows).reshape(layers, n_states, n_actions, n_states)
    reward = pick.array((steps, n_states, n_actions), REWARDS)
    if pick.one([False, True, True]):  # staying is safe and pays little: many states are feasible, and many are tempted
        transition[:, :, 0] = np.eye(n_states)
        reward[:, :, 0] /= 8
    homes = np.flatnonzero(~reset).tolist()
    return rf.FiniteMDP(
        transition if layers > 1 else transition[0],
        reward if steps > 1 else reward[0],
        reset,
        horizon,
        start=pick.one(homes),
        restart=pick.one(homes),
        end_reset=pick.array((n_states,), pick.one([[0], [0], [0, 0, 1]])) > 0,
        boundary=boundary,
        name="random",
    )
