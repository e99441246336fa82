"""What the literature on learning without resets does, and what shields do, as methods of the comparison.

The width of a method that has no confidence bonus is what it explores or steps with: epsilon for the two agents of
Leave No Trace and MEDAL, eta for MDP-EXP2; for UCRL2 it is a factor on its radii.
"""

from __future__ import annotations

from typing import Any

from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.players.baselines.constant_safe import ConstantSafe
from resetfree.players.baselines.leave_no_trace import LeaveNoTrace
from resetfree.players.baselines.mdp_exp2 import MdpExp2
from resetfree.players.baselines.medal import Medal
from resetfree.players.baselines.olsvi_fh import OlsviFH
from resetfree.players.baselines.one_step_shield import OneStepShield
from resetfree.players.baselines.oracle_shield import OracleShield
from resetfree.players.baselines.slucb_qvi import SlucbQvi, without_safe_action
from resetfree.players.baselines.ucrl2 import UCRL2
from resetfree.players.dual.constant_penalty import ConstantPenalty
from resetfree.players.primal.uniform import Uniform
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.studies.suites.method import Method, Setting

TAU = 0.05  # threshold for Amani et al., who need one above zero


def _with(primal: Any, factor: float = 0.0) -> Any:
    """The player against a constant multiplier `factor` B; zero for those who take no notice of it."""

    def build(s: Setting) -> tuple[PrimalPlayer[Any], DualPlayer[Any], str]:
        return primal(s), ConstantPenalty(C=factor * s.B), "realised"

    return build


def _trace(s: Setting) -> LeaveNoTrace:
    return LeaveNoTrace(epsilon=s.width, pooled=s.pooled)


def _one_way(s: Setting) -> LeaveNoTrace:
    return LeaveNoTrace(epsilon=s.width, pooled=s.pooled, returns=False)


def _medal(s: Setting) -> Medal:
    return Medal(epsilon=s.width, pooled=s.pooled)


def _olsvi(s: Setting) -> OlsviFH:
    return OlsviFH(scale=s.width, pooled=s.pooled)


def _exp2(s: Setting) -> MdpExp2:
    return MdpExp2(eta=s.width, pooled=s.pooled)


def _ucrl2(s: Setting) -> UCRL2:
    return UCRL2(scale=s.width, pooled=s.pooled)


def _slucb(tau: float) -> Any:
    return lambda s: SlucbQvi(tau=tau, scale=s.width, pooled=s.pooled)


def _oracle_shield(s: Setting) -> OracleShield:
    return OracleShield(scale=s.width, pooled=s.pooled)


def _one_step(s: Setting) -> OneStepShield:
    return OneStepShield(scale=s.width, pooled=s.pooled)


def _needs_safe_actions(mdp: FiniteMDP) -> str | None:
    found = without_safe_action(mdp)
    if found is None:
        return None
    step, state = found
    return (
        "It needs a known safe action in every state, and in state "
        f"{mdp.state_names[state]} at step {step} every action can be reset at once."
    )


def _threshold_zero(mdp: FiniteMDP) -> str | None:
    return (
        "It needs a threshold above zero: at zero no action but the known safe one ever has a confidence bound that is "
        "small enough, so its safe set never grows."
    )


METHODS = [
    Method("leave no trace", "baseline", "Forward and reset Q-learners, abort where min Q_reset < 0.7.", _with(_trace)),
    Method("leave no trace, one way", "baseline", "The same with no episodes spent on the way back.", _with(_one_way)),
    Method("medal", "oracle", "Forward and backward Q-learners, given ten trajectories of pi*.", _with(_medal)),
    Method("olsvi.fh", "baseline", "LSVI-UCB, artificial episodes of T^(1/4) steps; resets are free.", _with(_olsvi)),
    Method("olsvi.fh, penalty B", "baseline", "The same with a constant penalty B for a reset.", _with(_olsvi, 1.0)),
    Method("mdp-exp2", "baseline", "Exponential weights of values fitted per epoch; resets are free.", _with(_exp2)),
    Method("mdp-exp2, penalty B", "baseline", "The same with a constant penalty B for a reset.", _with(_exp2, 1.0)),
    Method("ucrl2", "baseline", "L1 balls, extended value iteration, doubling epochs; resets are free.", _with(_ucrl2)),
    Method("ucrl2, penalty B", "baseline", "The same with a constant penalty B for a reset.", _with(_ucrl2, 1.0)),
    Method(
        "slucb-qvi, tau = 1/20",
        "oracle",
        "Each step's risk at most 1/20, told a safe action per state.",
        _with(_slucb(TAU)),
        inapplicable=_needs_safe_actions,
    ),
    Method(
        "slucb-qvi, tau = 0",
        "oracle",
        "The same with the threshold of the reset-free problem.",
        _with(_slucb(0.0)),
        inapplicable=_threshold_zero,
    ),
    Method(
        "shield with known support",
        "oracle",
        "UCBVI among the truly safe actions: no resets at all.",
        _with(_oracle_shield),
        guaranteed=True,
    ),
    Method("one-step shield", "oracle", "UCBVI among actions that cannot be reset at the next step.", _with(_one_step)),
    Method(
        "constant safe policy",
        "oracle",
        "Uniform over the truly safe actions, no learning.",
        _with(lambda s: ConstantSafe()),
        widths=(),
        pools=False,
        guaranteed=True,
    ),
    Method("uniform", "baseline", "Every action equally likely.", _with(lambda s: Uniform()), widths=(), pools=False),
]
