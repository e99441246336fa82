"""Search within the episode: planning costs no interaction, so try multipliers until the plan is safe enough.

Legend: B the largest multiplier, tol the cost that is small enough, v_c the primal player's own estimate of the reset
probability of its plan, K rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.errors import NotCertifiable
from resetfree.core.settings import Count, NonNegative, PositiveBound
from resetfree.game.capabilities import Comparator, DualHistory
from resetfree.game.contract import DualPlayer, Plan, Round, Statement
from resetfree.players.dual.multiplier_functions import bounded, root
from resetfree.players.requirements import bound_of
from resetfree.problems.contract import Problem, State


@dataclass(slots=True)
class SearchedState:
    """Nothing is learned; the settings are kept where `multiplier` finds it."""

    B: float = field(metadata={"saved": False})
    tol: float = field(metadata={"saved": False})


@dataclass(frozen=True)
class Search(DualPlayer[SearchedState]):
    """The smallest lam in [0, B] whose plan has v_c <= tol, up to B / 2^n_steps; B if even B does not reach it.

    0 is tried first, then B, then the middle of what is left. What is played was planned for, so v_c <= tol holds
    for it even where v_c does not fall with lam (then it need not be the smallest).
    Dual regret against any u in [0, B], counted in the v_c of the plans: at most B tol K, because in each round either
    v_c <= tol or lam = B >= u, however old its plan is; that is B sqrt(K) by default. It costs up to n_steps + 2 plans
    per episode, and while the primal player is so optimistic that v_c is 0 it plays 0, however many resets happen.

    B: bound on the multipliers.  tolerance: tol (default: 1 / sqrt(K)).  n_steps: halvings.

    >>> found = Search().multiplier(SearchedState(B=8.0, tol=0.0), 0, lambda lam: Plan(None, 0.0, max(0.0, 3 - lam)))
    >>> round(found, 4)
    3.0
    """

    name: ClassVar[str] = "search"
    each_round: ClassVar[bool] = True
    B: PositiveBound | None = None
    tolerance: NonNegative | None = None
    n_steps: Count = 20

    def _tolerance(self, episodes: int) -> float:
        return 1.0 / root(episodes) if self.tolerance is None else self.tolerance

    def init(self, problem: Problem, episodes: int, seed: int) -> SearchedState:
        """Nothing to begin with."""
        return SearchedState(bound_of(self), self._tolerance(episodes))

    def multiplier(self, state: SearchedState, s1: State, ask: Callable[[float], Plan]) -> float:
        """Bisection; `high` is always a multiplier whose plan was found safe enough."""
        tol = state.tol
        if ask(0.0).v_c <= tol:
            return 0.0
        low, high = 0.0, state.B
        if not ask(high).v_c <= tol:
            return high
        for _ in range(self.n_steps):
            middle = 0.5 * (low + high)
            if ask(middle).v_c <= tol:
                high = middle
            else:
                low = middle
        return high

    def update(self, state: SearchedState, round: Round) -> SearchedState:
        """Nothing is learned."""
        return state

    def largest_multiplier(self, problem: Problem, episodes: int) -> float:
        """The bound B, the end of the search."""
        return bound_of(self)

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """B tol k, if the signals are v_c of its plans."""
        B = bound_of(self)
        if met.feedback != "optimistic":
            raise NotCertifiable(
                f"The bound of '{self.name}' needs the costs of its plans as feedback. Got other costs."
            )
        if against.size > B:
            raise NotCertifiable(f"The comparator {against.size:.6g} is above B = {B:.6g}.")
        return np.asarray(B * self._tolerance(met.episodes) * met.k)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The tolerance, and the regret that it leaves."""
        B, tol = bound_of(self), self._tolerance(episodes)
        constants = {"B": B, "tolerance": tol, "n_steps": self.n_steps, "tuned": self.tolerance is not None}
        return bounded(constants, B * tol * episodes, episodes)
