"""Random problems from a seed: stationary or layered, with or without contexts, both boundaries, closed on request."""

import numpy as np
from numpy.typing import NDArray

import resetfree as rf
from resetfree.problems.finite.composed import with_contexts
from resetfree.problems.finite.mdp import Boundary

Floats = NDArray[np.float64]


def rough_mdp(seed: int) -> rf.FiniteMDP:
    """Sparse random dynamics with some resets; nothing is promised about feasibility, except that it can be closed.

    State 0 can stay where it is at every step and in every context, so it is always a safe place to (re)start.
    """
    rng = np.random.default_rng(seed)
    n_contexts = int(rng.choice([1, 1, 2, 3]))
    n_states, n_actions = int(rng.integers(2, 8 if n_contexts == 1 else 5)), int(rng.integers(1, 4))
    horizon = int(rng.integers(1, 6))
    boundary: Boundary = "physical" if rng.random() < 0.6 else "literal"
    tasks = [_task(rng, n_states, n_actions, horizon, boundary) for _ in range(n_contexts)]
    if n_contexts == 1:
        return tasks[0]
    chain = _sparse_rows(rng, (n_contexts, n_contexts))
    return with_contexts(tasks, chain, start=int(rng.integers(n_contexts)))


def closed_mdp(seed: int) -> rf.FiniteMDP:
    """The same, closed: every start that can come about is feasible."""
    return rf.close(rough_mdp(seed))


def sparse_policy(mdp: rf.FiniteMDP, rng: np.random.Generator, zeros: float = 0.5) -> Floats:
    """[H, S, A] Dirichlet rows, of which a share of entries is exactly zero."""
    return _sparse_rows(rng, (mdp.horizon, mdp.n_states, mdp.n_actions), zeros)


def _task(rng: np.random.Generator, n_states: int, n_actions: int, horizon: int, boundary: Boundary) -> rf.FiniteMDP:
    layers, steps = (int(rng.choice([1, horizon])) for _ in range(2))
    transition = _sparse_rows(rng, (layers, n_states, n_actions, n_states), rng.uniform(0.2, 0.8))
    transition[:, 0, 0] = np.eye(n_states)[0]
    reset = rng.random(n_states) < rng.choice([0.0, 0.2, 0.5])
    reset[0] = False
    reward = rng.random((steps, n_states, n_actions)) * rng.integers(0, 2, size=(steps, n_states, n_actions))
    homes = np.where(reset, 0.0, rng.random(n_states))
    homes[0] += 0.1
    end_reset = rng.random(n_states) < rng.choice([0.0, 0.0, 0.3])
    end_reset[0] = False
    return rf.FiniteMDP(
        transition if layers > 1 else transition[0],
        reward if steps > 1 else reward[0],
        reset,
        horizon,
        start=0 if rng.random() < 0.5 else homes / homes.sum(),
        restart=homes / homes.sum(),
        end_reset=end_reset,
        boundary=boundary,
        name="rough",
    )


def _sparse_rows(rng: np.random.Generator, shape: tuple[int, ...], zeros: float = 0.5) -> Floats:
    rows = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
    keep = rng.random(shape) >= zeros
    keep |= rows == rows.max(axis=-1, keepdims=True)
    rows = np.where(keep, rows, 0.0)
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))
