"""Who plays with whom: the partner of a primal player, and the methods of a comparison, made for a problem.

**A method of the comparison: two players and the dual's feedback, made for a problem, a width and pooling or not.**
A player may declare the methods under which it is compared with others: a static method `methods()` returns
them. A method with two players is declared by the primal one, which names the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from resetfree.game.capabilities import AdaptsToProblem, NamesPartner, Partner
from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.players import discover, make_player
from resetfree.problems.contract import Problem
from resetfree.problems.finite.mdp import FiniteMDP

ALGORITHM_1 = ("linear-ucb", "projected-gradient")  # its primal and its dual player
OF_ALGORITHM_1 = Partner(ALGORITHM_1[1], "optimistic")


def partner_of(primal: Any) -> Partner:
    """The partner that a primal player, or the one of that name, names; else the dual player of Algorithm 1.

    >>> partner_of("uniform").dual
    'projected-gradient'
    """
    player = _known(primal)
    return player.partner() if isinstance(player, NamesPartner) else OF_ALGORITHM_1


def paired(primal: Any, problem: Problem) -> tuple[Partner, dict[str, Any]]:
    """The partner of a named primal player on a problem, and its own settings there.

    A player that is given itself, not by its name or class, has settings already.
    """
    player = _known(primal)
    offer = player.named(problem) if isinstance(player, AdaptsToProblem) else None
    if offer is None:
        return partner_of(primal), {}
    return offer.partner, offer.settings if isinstance(primal, str | type) else {}


def fitting(primal: Any, problem: Problem) -> Any:
    """A named primal player, or the player of the same method if that alone can play the problem's actions."""
    player = _known(primal) if isinstance(primal, str) else None
    if player is None or not player.counterpart or isinstance(problem.actions, player.action_spaces):
        return primal
    return player.counterpart


def _known(primal: Any) -> Any:
    return discover("primal").get(primal) if isinstance(primal, str) else primal


Kind: TypeAlias = Literal["ours", "paper", "baseline", "oracle"]
Players: TypeAlias = tuple[PrimalPlayer[Any], DualPlayer[Any], str]  # and the feedback, see `game.FEEDBACK`
WIDTHS = (0.02, 0.05, 0.1, 0.2)  # every method with a width gets this sweep


@dataclass(frozen=True)
class Setting:
    """What a method may use when it is made for a problem."""

    B: float  # the bound on the multipliers that the paper's algorithm must know too
    width: float  # scale of the bonuses, from WIDTHS; 0 where a method has none
    pooled: bool  # one set of data for all steps; only where the dynamics are stationary
    problem: Problem | None = None  # what a learner sees, for methods that choose by it

    @property
    def own(self) -> dict[str, Any]:
        """The settings that most primal players have."""
        return {"scale": self.width, "pooled": self.pooled}


Build: TypeAlias = Callable[[Setting], Players]


@dataclass(frozen=True)
class Method:
    """A row of the comparison.

    build: makes the players for a setting, and chooses the dual's feedback.
    rank: tables list methods by rank; those of one rank stay in the order in which their player declares them.
    widths: the sweep its width is chosen from, on other instances than those reported; () if it has no width.
    pools: whether it has a pooled version.
    guaranteed: whether a theorem covers its resets or its regret with the constants used here (else tuned).
    inapplicable: why it cannot run on a problem, or None.
    """

    name: str
    kind: Kind
    summary: str
    build: Build
    rank: int = 100
    widths: tuple[float, ...] = WIDTHS
    pools: bool = True
    guaranteed: bool = False
    inapplicable: Callable[[FiniteMDP], str | None] = lambda mdp: None


def against(primal: PrimalPlayer[Any], dual: str, feedback: str = "realised", **settings: Any) -> Players:
    """A primal player and a named dual player, with its settings and its feedback."""
    return primal, make_player("dual", dual, settings), feedback


def penalised(primal: Callable[[Setting], PrimalPlayer[Any]], factor: float | None = None) -> Build:
    """A primal player against a constant multiplier: B, or `factor` times B; 0 where resets are free."""

    def build(s: Setting) -> Players:
        penalty: dict[str, Any] = {"B": s.B} if factor is None else {"C": factor * s.B}
        return against(primal(s), "constant-penalty", **penalty)

    return build


def free_and_penalised(name: str, text: str, primal: Callable[[Setting], PrimalPlayer[Any]], rank: int) -> list[Method]:
    """A baseline without a penalty for a reset, and the same with B."""
    same = "The same with a constant penalty B for a reset."
    return [
        Method(name, "baseline", f"{text}; resets are free.", penalised(primal, 0.0), rank=rank),
        Method(f"{name}, penalty B", "baseline", same, penalised(primal, 1.0), rank=rank),
    ]


def own_methods(cls: Any) -> list[Method]:
    """The methods that a class of players declares itself; those of its base classes are not repeated."""
    return list(cls.methods()) if "methods" in vars(cls) else []
