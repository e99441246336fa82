"""Known features phi of state-action pairs in finite problems."""

from __future__ import annotations

import numpy as np

from resetfree.problem import Problem
from resetfree.transitions import Floats

LARGEST_STATE = 2_000_000_000  # bytes of regression that are still sensible


def features_of(problem: Problem) -> Floats:
    """[S*A, d] the known features, one-hot if there are none.

    >>> import resetfree as rf
    >>> features_of(rf.make("grid-v0").problem()).shape, features_of(rf.make("random-linear-v0").problem()).shape
    ((60, 60), (120, 6))
    """
    assert problem.n_states is not None
    n = problem.n_states * problem.n_actions
    return np.eye(n) if problem.phi is None else np.ascontiguousarray(problem.phi.reshape(n, -1))
