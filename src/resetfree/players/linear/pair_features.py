"""Known features phi of state-action pairs in finite problems."""

from __future__ import annotations

import numpy as np

from resetfree.core.errors import InvalidInput
from resetfree.problems.contract import Problem
from resetfree.problems.finite.transitions import Floats


def features_of(problem: Problem) -> Floats:
    """[S*A, d] the known features, one-hot if there are none.

    >>> import resetfree as rf
    >>> features_of(rf.make("grid-v0").problem()).shape, features_of(rf.make("random-linear-v0").problem()).shape
    ((60, 60), (120, 6))
    """
    assert problem.n_states is not None
    n = problem.n_states * problem.n_actions
    if problem.phi is None and 8 * n * n > problem.room:
        raise InvalidInput(
            f"One-hot features must take at most {problem.room / 1e9:.0f} GB. Got {n:,} pairs, which take "
            f"{8e-9 * n * n:.1f} GB: give the problem features 'phi' of smaller dimension."
        )
    return np.eye(n) if problem.phi is None else np.ascontiguousarray(problem.phi.reshape(n, -1))


def dimension_of(problem: Problem) -> int:
    """d, which is the number of pairs where there are no features."""
    if problem.n_states is None and problem.pairs is not None:
        return problem.pairs.dimension
    return (problem.n_states or 0) * problem.n_actions if problem.phi is None else problem.phi.shape[2]


def is_one_hot(problem: Problem) -> bool:
    """Whether each pair has a feature of its own: none are given, or they are unit vectors, all different.

    >>> import resetfree as rf
    >>> [is_one_hot(rf.make(id).problem()) for id in ("grid-v0", "random-linear-v0")]
    [True, False]
    """
    if problem.phi is None:
        return problem.pairs is None
    flat = problem.phi.reshape(-1, problem.phi.shape[2])
    ones = flat == 1.0
    return bool((ones | (flat == 0.0)).all() and (ones.sum(axis=1) == 1).all() and (ones.sum(axis=0) <= 1).all())


def longer_than_one(problem: Problem) -> bool:
    """Whether some feature is longer than 1, for which no width is proved."""
    if problem.pairs is not None and problem.pairs.norm_bound > 1 + 1e-12:
        return True
    return problem.phi is not None and bool((problem.phi**2).sum(axis=2).max() > 1 + 1e-12)
