"""Known features phi(s, a) of pairs where states are not finite: vectors or numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from resetfree.core.arrays import Floats


class PairFeatures(ABC):
    """Features of every action in states that are vectors; a problem that has them can be played by linear players.

    Rewards and transitions should be linear in them: r(s,a) = phi(s,a).omega, P(.|s,a) = sum_j phi_j(s,a) nu_j.
    """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number d of features."""

    @property
    @abstractmethod
    def norm_bound(self) -> float:
        """An upper bound on |phi(s, a)| over all states and actions; proved widths are for at most 1."""

    @abstractmethod
    def __call__(self, states: Floats) -> Floats:
        """Phi [n, A, d] of states [n, D]."""
