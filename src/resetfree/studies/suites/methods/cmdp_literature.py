"""Methods of the literature on constrained MDPs, under the reset-free protocol: an episode starts where the last ended.

All of them ask for something that is not there at threshold zero (a policy that is safe with a margin, one start);
what was adapted is said in the file of each player.
"""

from __future__ import annotations

from typing import Any

from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.players.baselines.ghosh_softmax import GhoshSoftmax
from resetfree.players.baselines.opdop import Opdop
from resetfree.players.baselines.opt_cmdp import LARGEST_PASS, OptCmdp
from resetfree.players.baselines.opt_primal_dual import OptPrimalDual
from resetfree.players.baselines.triple_q import TripleQ
from resetfree.players.dual.constant_penalty import ConstantPenalty
from resetfree.players.dual.one_multiplier import OneMultiplier
from resetfree.players.dual.search import Search
from resetfree.players.dual.virtual_queue import VirtualQueue
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.studies.suites.method import Method, Setting

FAST = 100.0  # factor on the steps of mirror ascent in the fast rows; one round number for both, not tuned


def _ghosh_2022(first_start_only: bool) -> Any:
    def build(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
        dual = OneMultiplier(B=s.B, first_start_only=first_start_only)
        return GhoshSoftmax(B=s.B, scale=s.width, pooled=s.pooled), dual, "optimistic"

    return build


def _ghosh_2024(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return GhoshSoftmax(B=s.B, scale=s.width, pooled=s.pooled), Search(B=s.B), "optimistic"


def _opdop(speed: float) -> Any:
    def build(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
        return Opdop(s.width, speed, s.pooled), OneMultiplier(B=s.B, step="unit"), "optimistic"

    return build


def _opt_primal_dual(speed: float) -> Any:
    def build(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
        return OptPrimalDual(s.B, s.width, speed, s.pooled), OneMultiplier(B=s.B, capped=False), "optimistic"

    return build


def _opt_cmdp(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return OptCmdp(scale=s.width, pooled=s.pooled), ConstantPenalty(C=0.0), "realised"


def _triple_q(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
    return TripleQ(scale=s.width), VirtualQueue(), "optimistic"


def _too_large(mdp: FiniteMDP) -> str | None:
    work = mdp.horizon * mdp.n_states**2 * mdp.n_actions
    return None if work <= LARGEST_PASS else f"it plans over all triples (s, a, s'), and there are {work:,} here"


METHODS = [
    Method("Ghosh 2022", "baseline", "Softmax LSVI-UCB with cap H, one multiplier for all starts.", _ghosh_2022(False)),
    Method(
        "Ghosh 2022, first start",
        "baseline",
        "The same, its multiplier learning only from episodes that begin where the first one did.",
        _ghosh_2022(True),
    ),
    Method("Ghosh 2024", "baseline", "Softmax LSVI-UCB with cap H, multiplier searched in the episode.", _ghosh_2024),
    Method("OPDOP", "baseline", "Ding et al. 2020 on counts: mirror ascent with its own small steps.", _opdop(1.0)),
    Method("OPDOP, fast", "baseline", f"The same with steps {FAST:g} times as large.", _opdop(FAST)),
    Method(
        "OptCMDP", "baseline", "Efroni et al. 2020: best allowed model without resets.", _opt_cmdp,
        inapplicable=_too_large,
    ),
    Method("OptPrimalDual", "baseline", "Efroni et al. 2020: mirror ascent, no cap.", _opt_primal_dual(1.0)),
    Method("OptPrimalDual, fast", "baseline", f"The same with steps {FAST:g} times as large.", _opt_primal_dual(FAST)),
    Method("Triple-Q", "baseline", "Wei, Liu, Ying 2021: two Q-tables and a queue.", _triple_q, pools=False),
]  # fmt: skip
