"""What is common to linear problems on a continuum of states: their model, for oracles, and their features of pairs.

Legend: states x in [0, 1]^D; d features, the last of them that of the reset state; nu_j, j < d, distributions with
densities on [0, 1]^D; I_a where action a is dangerous; omega rewards per feature; phi(x,a) in the simplex.
P(.|x,a) = sum_j phi_j(x,a) nu_j + phi_d(x,a) [reset], r(x,a) = phi(x,a).omega, the same at every step.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from resetfree.core import Bools, Floats
from resetfree.problems.action_spaces import PairFeatures
from resetfree.problems.contract import ChoicePolicy, Problem, State


class Continuum(ABC):
    """The model of a linear problem on [0, 1]^D with one reset state, in which action 0 never falls.

    Paper: Assumption 2 (linear MDP), with infinitely many states.
    """

    name: str
    horizon: int
    omega: Floats  # [d] in [0, 1]
    risk: Floats  # [A] the probability of a reset where an action is dangerous; 0 for action 0

    @property
    @abstractmethod
    def dimension(self) -> int:
        """D."""

    @abstractmethod
    def rows(self, states: Floats) -> Floats:
        """Phi [n, A, d] of states [n, D]."""

    @abstractmethod
    def dangers(self, states: Floats) -> Bools:
        """[n, A] whether states [n, D] lie in I_a."""

    @abstractmethod
    def densities(self, states: Floats) -> Floats:
        """[n, d-1] densities of nu_j at states [n, D].

        Paper: mu_h.
        """

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return len(self.risk)

    @property
    def d(self) -> int:
        """The dimension of phi."""
        return len(self.omega)


class KnownRows(PairFeatures):
    """The features of a continuum: phi(x, a) lies in the simplex."""

    def __init__(self, model: Continuum) -> None:
        self._model = model

    @property
    def dimension(self) -> int:
        """How many features there are."""
        return self._model.d

    @property
    def norm_bound(self) -> float:
        """The bound 1 of the simplex."""
        return 1.0

    def __call__(self, states: Floats) -> Floats:
        """Phi [n, A, d] of states [n, D]."""
        return self._model.rows(states)


def continuum_behind(problem: Problem) -> Continuum | None:
    """The model that a problem on a continuum hides from learners, for oracles; None if there is none."""
    found = problem._continuum
    return found if isinstance(found, Continuum) else None


def as_rows(starts: Any, dimension: int) -> Floats:
    """[n, D] starts of episodes, which are numbers or vectors, in one array.

    >>> as_rows([0.5, 0.25], 1).shape, as_rows([np.zeros(2)], 2).shape
    ((2, 1), (1, 2))
    """
    return np.asarray([np.ravel(start) for start in starts], dtype=np.float64).reshape(-1, dimension)


def inside_continuum(starts: Any, model: Continuum) -> Bools:
    """[n] whether starts, as a file may hold them, are states: vectors (or numbers) in [0, 1]^D."""
    found = np.zeros(len(starts), dtype=np.bool_)
    for k, start in enumerate(starts):
        x = np.ravel(np.nan if start is None else start)
        found[k] = x.dtype.kind in "fiu" and len(x) == model.dimension and bool(((x >= 0) & (x <= 1)).all())
    return found


class RowPolicy(ChoicePolicy):
    """A policy on vectors that answers for many states at once, as the quadrature of `theory.oracle.nodes` asks."""

    @abstractmethod
    def rows(self, h: int, states: Floats) -> Floats:
        """[n, A] probabilities in states [n, D] at step h = 1..H."""

    def __call__(self, h: int, s: State) -> Floats:
        """[A] probabilities in one state, or rows [n, A] for states [n, D]."""
        states = np.asarray(s, dtype=np.float64)
        return self.rows(h, states) if states.ndim == 2 else self.rows(h, states.reshape(1, -1))[0]
