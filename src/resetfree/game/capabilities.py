"""Optional protocols of players beyond the contract: callers test for them by type, never by a player's name.

A player implements those that fit it in its own module; `auto`, certificates, reports and `run.policy` find them.
Those of primal players come first, then those of dual players, then `choose`, which takes the best offer to `auto`.

Legend: K rounds so far; g_k in [0, 1] the cost signal of round k, x_k = xi(s_1^k) g_k its gradient, theta_k the dual
player's parameter, u a comparator, lambda_c(s) = <xi(s), u> its multiplier function; pi* the best reset-free policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import hypot
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, InvalidInput, NotCertifiable
from resetfree.game.contract import MultiplierFunctions, PrimalPlayer
from resetfree.game.contract import Partner as Partner  # for players that say what is beyond the required
from resetfree.game.contract import Proof as Proof
from resetfree.game.contract import Suited as Suited
from resetfree.problems import LIST_THEM, Episode, Factors, FiniteMDP, Problem, State


def offer_of(player: type[PrimalPlayer[Any]], problem: Problem, *, bound_known: bool) -> Suited | None:
    """How well a class of players suits a problem; None if it does not, or is not for `auto`.

    Only players whose `suited_states` have the problem's `states_kind` are considered: no others are read.
    """
    suited = player.suited_states
    if suited is not None and problem.states_kind not in suited:
        return None
    return player.suits(problem, bound_known=bound_known)


def always(offer: Suited) -> Any:
    """The method `suits` of a player whose offer is the same for all problems with its `suited_states`."""
    return classmethod(lambda cls, problem, *, bound_known: offer)


@runtime_checkable
class Eliminates(Protocol):
    """A primal player that after each reset never takes again an unsafe pair (s, a), or triple (h, s, a)."""

    def keeps_steps_apart(self, problem: Problem) -> bool:
        """Whether it eliminates triples."""


@runtime_checkable
class LearnsRules(Protocol):
    """A primal player whose resets are also bounded by the size of the rules that describe which pairs fall."""

    def rule_bound(self, problem: Problem, fatal: Bools, episodes: int) -> float | None:
        """The bound if each pair of `fatal` [1, S, A] always falls and no other does; None if it knows no rules."""


class PrimalRegretBound(NamedTuple):
    """A bound on R_p(pi*) after some rounds."""

    most: float
    # Whether it also bounds the overestimates weighted with any multipliers in [0, B] in place of those played, so that
    # the player's own V_c may be the dual player's feedback.
    any_weights: bool = False
    per_root_reset: float = 0.0  # R_p(pi*) <= most + per_root_reset sqrt(Resets)
    regret: float | None = None  # above Regret itself, whatever the multipliers were; None if no more is known
    pays_resets: bool = False  # whether the largest multiplier times Resets is to be added to `most`
    chance: float = 0.0  # with which it may fail beside the player's own failure probability


@runtime_checkable
class BoundsPrimalRegret(Protocol):
    """A primal player with a theorem that bounds its regret against pi*."""

    def primal_regret_bound(self, problem: Problem, episodes: int, rounds: int) -> PrimalRegretBound | None:
        """The bound after `rounds` of `episodes`; if there is none, None, or raises NotCertifiable with the reason."""


class FallsBound(NamedTuple):
    """Above Resets in two parts: see `theory.visit_sums`."""

    counted: float  # rounds in which a fall was new, at most, on every path
    penalised: float  # Resets of all others, at most, expected given the past


@runtime_checkable
class CountsFalls(Protocol):
    """A primal player whose resets are bounded by the number of unsafe edges of a model where resets are expensive."""

    def falls(self, mdp: FiniteMDP, problem: Problem, episodes: int, lam: Floats) -> FallsBound | None:
        """The bound after rounds with the multipliers lam [K] and plans that are new; None where there is none."""


@runtime_checkable
class SharperWithModel(Protocol):
    """A primal player whose bound on Regret is smaller if the model is known that it is certified with."""

    def regret_with_model(self, mdp: FiniteMDP, problem: Problem, episodes: int, rounds: int) -> float:
        """Above Regret after so many rounds whose plans are new."""


@dataclass(frozen=True, eq=False)
class PlanAges:
    """What the plans of a game with delay rest on: see `theory.delay`."""

    based_on: NDArray[np.int64]  # [K] the round that the plan of round k rests on
    delays: NDArray[np.int64]  # [K] k - 1 - based_on_k
    made_for: NDArray[Any]  # [K] by j = 0 .. K - 1: the start that the plan of j is made for
    own_start: Bools  # [K] whether the plan of round k was made for the start of round k

    @property
    def all_new(self) -> bool:
        """Whether every plan was as in a game without delay."""
        return bool(self.own_start.all() and not self.delays.any())


@runtime_checkable
class BoundsDelayedRegret(Protocol):
    """A primal player with a theorem that bounds its regret where plans are old."""

    def delayed_regret_bound(self, problem: Problem, episodes: int, ages: PlanAges) -> PrimalRegretBound | None:
        """As `primal_regret_bound`, after the rounds whose plans' ages are given."""


@runtime_checkable
class PlansAhead(Protocol):
    """A primal player that plans a fixed number of steps ahead, which may differ from the horizon."""

    def steps_ahead(self, horizon: int) -> int:
        """The number of steps, in a problem with this horizon."""


@runtime_checkable
class Exploits(Protocol):
    """A primal player whose policy after learning differs from the one it explores with."""

    def greedy(self, state: Any, lam: float) -> Any:
        """The policy under the multiplier lam, without exploration."""


class Decision(NamedTuple):
    """A decision of a player about itself: who plays, what is tried, and why."""

    k: int  # the round after which it was made
    what: str  # one sentence


@runtime_checkable
class Decides(Protocol):
    """A primal player that changes within a run how it plays, and records it."""

    def decisions(self, state: Any) -> list[Decision]:
        """Its decisions so far."""


class DangerMap(NamedTuple):
    """What a player believes about the danger of every pair, with the factors of the states."""

    belief: Floats  # [S, A] that a pair can lead to a reset; 1 where it was ruled out
    factors: Factors
    limit: float = 0.5  # what is believed more than that is held back


@runtime_checkable
class MapsDanger(Protocol):
    """A primal player whose beliefs about danger can be drawn."""

    def danger(self, state: Any) -> DangerMap | None:
        """What it believes; None where states have no factors."""


@runtime_checkable
class LearnsFromEpisodes(Protocol):
    """A primal player that can learn from episodes that it did not choose: data from before the first round."""

    def absorb(self, state: Any, episode: Episode) -> Any:
        """Learn from an episode; may change `state` and return it."""


@runtime_checkable
class Follows(Protocol):
    """A primal player that improves on behaviour that it is shown: a controller's, or that of a few good episodes."""

    def act_beside(self, state: Any) -> Any:
        """A controller acts wherever its policies leave the states that were safe; may change `state`."""

    def gain(self, state: Any) -> float:
        """What a step of its last plan is predicted to earn, less resets, more than what it was shown; 0: unknown."""

    def follow(self, state: Any, episode: Episode) -> Any:
        """Learn from an episode, and take what was done in it as a policy to improve on; may change `state`."""


@runtime_checkable
class StartsFromPolicy(Protocol):
    """A primal player that can begin with a policy that was learned elsewhere."""

    def adopt(self, state: Any, policy: Mapping[str, NDArray[Any]]) -> Any:
        """Play it first, after all data were absorbed; raises InvalidInput for one that it cannot play.

        policy: its "kind", the "lam" that it was learned with, and its arrays; from a file, which may be forged.
        """


@dataclass(frozen=True, eq=False)
class Comparator:
    """A multiplier function that a dual player's regret is measured against."""

    name: str
    u: Any  # its parameter: a number or [d'], as the player's own theta
    at_starts: Floats  # [K] lambda_c(s_1^k)
    largest: float  # lambda_c, over all starts that can occur

    @property
    def size(self) -> float:
        """The norm |u|."""
        return hypot(*np.ravel(self.u))  # finite where the squares are not


@runtime_checkable
class ChoosesFunction(Protocol):
    """A dual player that chooses among functions of the start; any other has one multiplier for all starts."""

    def functions(self, state: Any) -> MultiplierFunctions:
        """The functions among which it chooses."""

    def parameter(self, state: Any) -> Any:
        """The current theta_k; never changed in place."""


@runtime_checkable
class TakesHints(Protocol):
    """A dual player that predicts the cost of a round before it is played."""

    def expected_cost(self, state: Any, s1: State) -> float:
        """The hint: the cost that it predicts for the next round, which starts at s1."""


@runtime_checkable
class CapsMultiplier(Protocol):
    """A dual player whose multipliers have an upper bound that is known before the first round."""

    def largest_multiplier(self, problem: Problem, episodes: int) -> float:
        """The upper bound on its multipliers."""


@dataclass(frozen=True, eq=False)
class DualReplay:
    """A dual player replayed on recorded starts and signals."""

    state: Any  # its last state
    lam: Floats  # [K] the multipliers it plays
    fresh: Floats  # [K] those that it would play with new plans: the same in a game without delay
    aged: Floats  # [K] lambda(s_1^k) by the theta that the plan of round k rests on; nan if it has no theta
    distance: dict[str, Floats]  # by comparator, [K] max_{i <= k} |theta_i - u|; 0 if it has no theta
    squares: Floats  # [K] |x_k|^2
    misses: Floats  # [K] |xi(s_1^k)|^2 (g_k - hint)^2, nan for players without hints


@dataclass(frozen=True, eq=False)
class DualHistory:
    """A dual player's part of a run: its feedback, and its replay."""

    problem: Problem
    episodes: int  # the length of the run that was requested
    feedback: str  # see `loop.FEEDBACK`
    signals: Floats  # [K] g_k
    again: DualReplay | str  # or why it cannot be replayed

    @property
    def replay(self) -> DualReplay:
        """The replay; raises NotCertifiable with the reason if there is none."""
        if isinstance(self.again, str):
            raise NotCertifiable(self.again)
        return self.again

    @property
    def k(self) -> Floats:
        """The rounds [K]: 1, 2, ..., K."""
        return np.arange(1, len(self.signals) + 1, dtype=np.float64)


@runtime_checkable
class BoundsOnlineRegret(Protocol):
    """A dual player with a bound on its regret that holds for every sequence of signals."""

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """[K] a bound on sum_{i <= k} (lambda_c(s_1^i) - lambda^i) g_i; raises NotCertifiable if there is none."""


class Phase(NamedTuple):
    """A part of a run with one multiplier, which ends once the costs that it has borne reach its patience."""

    lam: float
    patience: float


@runtime_checkable
class RaisesMultiplier(Protocol):
    """A dual player that knows no B: its multiplier is constant in phases, and higher in each than before."""

    def phases(self, u: float) -> list[Phase]:
        """The phases up to the first whose multiplier reaches u; raises NotCertifiable if none does."""


@runtime_checkable
class MovesBySteps(Protocol):
    """A dual player that plays clip(<xi(s), theta>) and moves theta by projected gradient steps."""

    def step_lengths(self, met: DualHistory) -> Floats:
        """[K] eta_k |x_k|, before the projection."""


class OnlineBound(NamedTuple):
    """A further bound on the online regret."""

    formula: str
    most: Floats | str  # [K], or why it is not proved here


@runtime_checkable
class StatesOtherBounds(Protocol):
    """A dual player for which the literature has further bounds."""

    def other_bounds(self, met: DualHistory, against: Comparator) -> list[OnlineBound]:
        """The bounds; each becomes a claim."""


@dataclass(frozen=True)
class Choice:
    """Two players, the dual player's feedback, their settings, and the reason in one sentence."""

    primal: str
    dual: str
    feedback: str
    why: str
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)


def choose(problem: Problem, players: Mapping[str, Any], *, bound_known: bool, before: str | None = None) -> Choice:
    """The players of `auto`.

    players: the classes of primal players by name, as `discover("primal")`; of two with one rank the first is taken.
    bound_known: whether a bound B on the multipliers is given or can be computed by an oracle.
    before: the player of a run that goes on, which is kept if it suits: what is installed since changes no run.

    >>> import resetfree as rf
    >>> from resetfree.players import discover
    >>> choose(rf.make("grid-v0").problem(), discover("primal"), bound_known=True).feedback
    'realised'
    """
    answers = {name: offer_of(player, problem, bound_known=bound_known) for name, player in players.items()}
    offers = {name: offer for name, offer in answers.items() if offer is not None}
    if not offers:
        states = "no vectors" if problem.low is None else "vectors with dynamics that change with the step"
        raise InvalidInput(
            f"'auto' has no player for '{problem.name}', whose actions are {problem.actions} and whose states are "
            f"{states}. {LIST_THEM} Or name a player that takes them as they are."
            if problem.actions.n is None
            else f"'auto' chooses players for states that are counted or vectors. Got '{problem.name}' instead."
        )
    primal, best = max(offers.items(), key=lambda one: (one[0] == before, one[1].rank))
    partner, given = best.partner, {"primal": best.settings, "dual": best.partner.settings}
    return Choice(primal, partner.dual, partner.feedback, best.why, {role: own for role, own in given.items() if own})
