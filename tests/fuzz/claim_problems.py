"""Random small problems on which claims are tried: every corner of the dynamics, from a seed."""

from random import Random

import numpy as np
from numpy.typing import NDArray

import resetfree as rf
from resetfree.problems.finite.composed import with_contexts

Floats = NDArray[np.float64]
TINY = (1e-2, 1e-6, 1e-12, 1e-100, 1e-200, 1e-310)


def problem(rng: Random) -> rf.FiniteMDP:
    """A problem with at most five states; seven in eight are closed, so that every start is feasible."""
    if rng.random() < 0.15:
        return _linear(rng)
    n_states, n_actions, horizon = rng.randint(2, 5), rng.choice((1, 2, 2, 3)), rng.randint(1, 4)
    if rng.random() < 0.1:
        tasks = [_task(rng, 3, n_actions, horizon) for _ in range(2)]
        found = with_contexts(
            [tasks[0], tasks[1].replace(boundary=tasks[0].boundary, noise=tasks[0].noise)], _rows(rng, (2, 2)), start=0
        )
    else:
        found = _task(rng, n_states, n_actions, horizon)
    return rf.close(found) if rng.random() < 0.875 else found


def _linear(rng: Random) -> rf.FiniteMDP:
    sizes = {"n_states": rng.randint(3, 6), "n_actions": rng.randint(2, 3), "d": rng.randint(2, 4)}
    mdp: rf.FiniteMDP = rf.make("random-linear-v0", horizon=rng.randint(1, 4), seed=rng.randrange(1000), **sizes)
    xi = rng.choice((None, np.eye(mdp.n_states), mdp.xi))
    return mdp.replace(boundary=rng.choice(("physical", "physical", "literal")), xi=xi)


def _task(rng: Random, n_states: int, n_actions: int, horizon: int) -> rf.FiniteMDP:
    """State 0 can stay where it is, at every step."""
    layers, steps = (rng.choice((1, 1, horizon)) for _ in range(2))
    transition = _rows(rng, (layers, n_states, n_actions, n_states))
    transition[:, 0, 0] = np.eye(n_states)[0]
    reset = np.array([False, *(rng.random() < rng.choice((0.1, 0.5, 0.9)) for _ in range(n_states - 1))])
    shape, chance = (steps, n_states, n_actions), np.random.default_rng(rng.randrange(2**32))
    reward = rng.choice(
        (np.zeros(shape), chance.random(shape), chance.integers(0, 2, shape), 1e-9 * chance.random(shape))
    )
    homes = np.where(reset, 0.0, chance.integers(0, 2, n_states))
    homes[0] += 1.0
    homes /= homes.sum()
    end_reset = np.array([False, *(rng.random() < 0.3 for _ in range(n_states - 1))])
    return rf.FiniteMDP(
        transition if layers > 1 else transition[0],
        reward if steps > 1 else reward[0],
        reset,
        horizon,
        start=rng.choice((0, homes)),
        restart=rng.choice((None, homes)),
        end_reset=rng.choice((None, None, end_reset)),
        boundary=rng.choice(("physical", "literal")),
        noise=rng.choice((0.0, 0.0, 0.0, "bernoulli", 0.3)),
        xi=rng.choice((None, None, np.eye(n_states), chance.random((n_states, 2)) / 2)),
        name="fuzz",
    )


def _rows(rng: Random, shape: tuple[int, ...]) -> Floats:
    """Deterministic, nearly so, rare in any size, or dense and sparse rows, each by itself or all alike."""
    kinds = ("certain", "nearly", "sparse", "dense")
    common, chance = rng.choice((None, "certain", *kinds)), np.random.default_rng(rng.randrange(2**32))
    found = np.zeros((int(np.prod(shape[:-1])), shape[-1]))
    for row in found:
        kind = common or rng.choice(kinds)
        to, other = rng.randrange(len(row)), rng.randrange(len(row))
        if kind == "certain":
            row[to] = 1.0
        elif kind == "nearly":
            row[other] = rng.choice(TINY)
            row[to] += 1.0 - row[other]
        else:
            row[:] = chance.dirichlet(np.ones(len(row)))
            row[:] = np.where(chance.random(len(row)) < 0.5, 0.0, row) if kind == "sparse" else row
            row[:] = row / row.sum() if row.sum() else np.eye(len(row))[to]
    return found.reshape(shape)
