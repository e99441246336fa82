"""Contexts (multi-task and lifelong learning) as one product problem: the paper's footnote on contextual MDPs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from resetfree.core.arrays import Floats
from resetfree.core.settings import expect
from resetfree.problems.finite.mdp import FiniteMDP

SHARED = ("n_states", "n_actions", "horizon", "boundary", "noise")


def with_contexts(tasks: Sequence[FiniteMDP], chain: ArrayLike, start: ArrayLike | int = 0) -> FiniteMDP:
    """The product of m problems over the same states and actions; the context is constant within an episode.

    Paper: context c^k (footnote to the problem setup).

    tasks: one problem per context, each with its own dynamics, rewards, reset set and restarts.
    chain: [m, m], row c the distribution of the next episode's context after an episode in context c.
    start: the first context, or its distribution [m].

    State index of base state s in context c: c * S + s. Features are lifted block by block, each context with
    coordinates of its own: phi((s, c), a) is task c's phi(s, a) in block c. What was linear with measures mu_c is
    linear with their stack, whose norm is at most sqrt(d) if each one's is; likewise for xi. If only some tasks have
    features, the others get one-hot phi and constant xi.
    """
    expect(tasks, "'tasks' of with_contexts", "hold at least one problem", got="none")
    first = tasks[0]
    for i, task in enumerate(tasks):
        same = all(getattr(task, name) == getattr(first, name) for name in SHARED) and task.contexts is None
        must = "share states, actions, horizon, boundary and noise, and have no contexts of their own"
        expect(same, "'tasks' of with_contexts", must, got=f"task {i} that differs")
    n = first.n_states
    mass = np.asarray(start)
    mass = np.eye(1, len(tasks), int(mass))[0] if mass.ndim == 0 else mass.astype(np.float64)
    expect(mass.shape == (len(tasks),), "'start' of with_contexts", f"be one of {len(tasks)} contexts", start)
    n_layers = 1 if all(task.transition.stationary for task in tasks) else first.horizon

    def layer(task: FiniteMDP, h: int) -> object:
        return task.transition.matrix(0 if task.transition.stationary else h)

    transition = [sparse.block_diag([layer(task, h) for task in tasks], format="csr") for h in range(n_layers)]
    support = [
        sparse.csr_array((np.ones(p.nnz, dtype=np.bool_), p.indices, p.indptr), shape=p.shape) for p in transition
    ]
    steps = 1 if all(len(task.reward) == 1 for task in tasks) else first.horizon
    reward = np.concatenate([np.broadcast_to(task.reward, (steps, *task.reward.shape[1:])) for task in tasks], axis=1)
    return FiniteMDP(
        transition if n_layers > 1 else transition[0],
        reward if steps > 1 else reward[0],
        np.concatenate([task.reset for task in tasks]),
        first.horizon,
        support=support if n_layers > 1 else support[0],
        start=np.concatenate([p * task.start for p, task in zip(mass, tasks, strict=True)]),
        restart=np.stack([task.restart[0] for task in tasks]),
        end_reset=np.concatenate([task.end_reset for task in tasks]),
        contexts=chain,
        boundary=first.boundary,
        noise=first.noise,
        phi=_blocks([task.phi for task in tasks], lambda: np.eye(n * first.n_actions).reshape(n, first.n_actions, -1)),
        xi=_blocks([task.xi for task in tasks], lambda: np.ones((n, 1))),
        name=f"{len(tasks)} contexts of {first.name}",
        state_names=[f"{task.state_names[s]}|{c}" for c, task in enumerate(tasks) for s in range(n)],
        action_names=first.action_names,
    )


def _blocks(features: Sequence[Floats | None], default: Callable[[], Floats]) -> Floats | None:
    """Features [S, ..., d_c] of each context stacked, each in columns of its own; None if no context has any."""
    if all(f is None for f in features):
        return None
    given = [default() if f is None else f for f in features]
    ends = np.cumsum([f.shape[-1] for f in given])
    lifted = np.zeros((len(given), *given[0].shape[:-1], ends[-1]))
    for c, f in enumerate(given):
        lifted[c, ..., ends[c] - f.shape[-1] : ends[c]] = f
    return lifted.reshape(-1, *lifted.shape[2:])
