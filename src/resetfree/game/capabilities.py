"""What a player may offer beyond the contract: small protocols that others ask for by type, never by name.

A player has the methods that fit it, in its own module, and `auto`, certificates, reports and `run.policy` find them.
Primal players: `Suits` (who is chosen, and why), `NamesPartner`, `HasProof`, `BoundsPrimalRegret`, `Eliminates`,
`PlansAhead`, `Exploits`. Dual players: `BoundsOnlineRegret`, `StatesOtherBounds`, `CapsMultiplier`, `ChoosesFunction`,
`TakesHints`.

Legend: K rounds so far; g_k in [0, 1] the cost signal of round k, x_k = xi(s_1^k) g_k its gradient, theta_k what a dual
player held then, u a comparator with the multiplier function lambda_c(s) = <xi(s), u>; pi* the best reset-free policy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import hypot
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from resetfree.core.errors import NotCertifiable
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.transitions import Floats


@dataclass(frozen=True)
class Partner:
    """The dual player that a primal player is played with, its settings, and the feedback that it gets."""

    dual: str
    feedback: str  # see `loop.FEEDBACK`
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Suited:
    """An offer to play a problem: `auto` takes the one with the highest rank.

    rank: 1 for a player that can always play such problems, more for one that makes more of what is known here.
    """

    rank: float
    why: str  # one sentence, for the run's record
    partner: Partner
    settings: dict[str, Any] = field(default_factory=dict)  # of the primal player


@runtime_checkable
class Suits(Protocol):
    """A primal player's class that `auto` may choose."""

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """How well it suits a problem; None if it does not. Look only at what a learner may know.

        bound_known: whether a bound B on the multipliers is given or can be computed by an oracle.
        """


@runtime_checkable
class NamesPartner(Protocol):
    """A primal player that says with whom it is played where only it is named."""

    @classmethod
    def partner(cls) -> Partner:
        """Its dual player, for `dual="auto"`."""


class Proof(NamedTuple):
    """What the proof behind a primal player's statement rests on, and what it says of the player's own values.

    Certificates check on the run what can be checked, and call proved only what passed.
    """

    failure: float = 0.0  # the probability with which it may fail
    largest_multiplier: float | None = None  # B, up to which multipliers it holds; None for any
    one_multiplier: bool = False  # whether the multiplier must never change
    noise: float | None = None  # the sub-Gaussian constant up to which rewards may be random; None for any
    linear: bool = False  # whether it needs dynamics and rewards in [0, 1] that are linear in the features
    values_are_bounds: bool = False  # whether its V_r lies above, and its V_c below, those of the policy it plays


@runtime_checkable
class HasProof(Protocol):
    """A primal player whose proof has conditions; that of others is `Proof()`."""

    def proof(self, problem: Problem) -> Proof:
        """What its proof rests on here."""


@runtime_checkable
class Eliminates(Protocol):
    """A primal player each of whose resets rules out for good an unsafe pair (s, a), or a triple (h, s, a)."""

    def keeps_steps_apart(self, problem: Problem) -> bool:
        """Whether it is triples."""


class PrimalRegretBound(NamedTuple):
    """A bound on R_p(pi*) after some rounds."""

    most: float
    # Whether the same bounds the overestimates weighted with any multipliers in [0, B] in place of those played, so
    # that a dual player may be given the player's own V_c.
    any_weights: bool = False


@runtime_checkable
class BoundsPrimalRegret(Protocol):
    """A primal player whose regret against pi* a theorem bounds."""

    def primal_regret_bound(self, problem: Problem, episodes: int, rounds: int) -> PrimalRegretBound | None:
        """The bound after `rounds` of `episodes`; None, or NotCertifiable with the reason, where there is none."""


@runtime_checkable
class PlansAhead(Protocol):
    """A primal player that looks a fixed number of steps ahead, which may not be those of an episode."""

    def steps_ahead(self, horizon: int) -> int:
        """How many, in a problem whose episodes have `horizon` actions."""


@runtime_checkable
class Exploits(Protocol):
    """A primal player whose policy for use is another than the one it explores with."""

    def greedy(self, state: Any, lam: float) -> Any:
        """The policy under the multiplier lam that explores nothing any more."""


@dataclass(frozen=True, eq=False)
class Comparator:
    """A multiplier function that a dual player is measured against."""

    name: str
    u: Any  # its parameter: a number or [d'], as the player's own theta
    at_starts: Floats  # [K] lambda_c(s_1^k)
    largest: float  # over all starts that can come about

    @property
    def size(self) -> float:
        """|u|."""
        return hypot(*np.ravel(self.u))  # finite where the squares are not


class MultiplierFunctions(Protocol):
    """The functions lambda(s) = <xi(s), theta> with theta in a set U, as far as comparators need them."""

    @property
    def largest_xi(self) -> float:
        """G, the largest |xi(s)|."""

    def zero(self) -> Any:
        """The parameter 0."""

    def moved(self, theta: Any, s1: State, step: float) -> Any:
        """P_U(theta + step xi(s1))."""


@runtime_checkable
class ChoosesFunction(Protocol):
    """A dual player that chooses among functions of the start; any other has one multiplier for all starts."""

    def functions(self, state: Any) -> MultiplierFunctions:
        """Among which it chooses."""

    def parameter(self, state: Any) -> Any:
        """theta_k, a value that is never changed in place."""


@runtime_checkable
class TakesHints(Protocol):
    """A dual player that expects a cost before it is seen."""

    def expected_cost(self, state: Any, s1: State) -> float:
        """The hint: what it expects of the coming round, which starts at s1."""


@runtime_checkable
class CapsMultiplier(Protocol):
    """A dual player whose multipliers have an upper end that is known before the first round."""

    def largest_multiplier(self, problem: Problem, episodes: int) -> float:
        """What no multiplier of it exceeds."""


@dataclass(frozen=True, eq=False)
class DualReplay:
    """What a dual player does on recorded starts and signals."""

    state: Any  # where it ended
    lam: Floats  # [K] the multipliers it plays
    distance: dict[str, Floats]  # by comparator, [K] max_{i <= k} |theta_i - u|; 0 if it has no theta
    squares: Floats  # [K] |x_k|^2
    misses: Floats  # [K] |xi(s_1^k)|^2 (g_k - hint)^2, nan for players without hints


@dataclass(frozen=True, eq=False)
class DualHistory:
    """What a dual player met in a run, and what it did about it."""

    problem: Problem
    episodes: int  # that it was to play
    feedback: str  # what it was given as cost signal, see `loop.FEEDBACK`
    signals: Floats  # [K] g_k
    again: DualReplay | str  # or why it cannot be played again

    @property
    def replay(self) -> DualReplay:
        """Raises NotCertifiable where there is none."""
        if isinstance(self.again, str):
            raise NotCertifiable(self.again)
        return self.again

    @property
    def k(self) -> Floats:
        """[K] 1, 2, ..., K."""
        return np.arange(1, len(self.signals) + 1, dtype=np.float64)


@runtime_checkable
class BoundsOnlineRegret(Protocol):
    """A dual player whose regret on the signals it is given is bounded, whatever they are."""

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """[K] what sum_{i <= k} (lambda_c(s_1^i) - lambda^i) g_i is at most; NotCertifiable where there is none."""


class OnlineBound(NamedTuple):
    """Another bound on the online regret."""

    formula: str
    most: Floats | str  # [K], or why it is not proved here


@runtime_checkable
class StatesOtherBounds(Protocol):
    """A dual player of which the literature prints other bounds than its own."""

    def other_bounds(self, met: DualHistory, against: Comparator) -> list[OnlineBound]:
        """Each becomes a claim of its own."""
