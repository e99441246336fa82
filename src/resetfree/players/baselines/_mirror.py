"""Mirror ascent on tables, which OPDOP and OptPrimalDual share: values of the last policy in the exponent of the next.

Legend: pi^k the policy of round k, Q_r^k and Q_c^k its values on the counts before round k, Y^k the multiplier played.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from resetfree.game.contract import Plan, Round
from resetfree.players.shared.counts import Counted
from resetfree.players.shared.kernels.action_values import counted_values
from resetfree.players.shared.requirements import check_multiplier
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.backward import exponential_weights
from resetfree.problems.finite.transitions import Floats

FAST = 100.0  # factor on the steps in the fast rows of the comparison; one round number for all, not tuned
TRAP = (
    "each state's values are summed over episodes from different starts, so where multipliers differ by start resets "
    "can grow linearly (politex-trap-v0)"
)


@dataclass
class MirrorState:
    """The exponents of the next policy, and what was counted."""

    exponent: Floats  # [H, S, A]
    table: Counted
    step: float = field(metadata={"saved": False})  # of the ascent
    mixing: float = field(metadata={"saved": False})  # weight of the uniform policy before each step
    scale: float = field(metadata={"saved": False})  # of the bonus


def begin(problem: Problem, pooled: bool, step: float, mixing: float, scale: float, name: str) -> MirrorState:
    """Uniform at first."""
    table = Counted.nothing(problem, pooled, name)
    shape = (problem.horizon, *table.tried.shape[1:])
    return MirrorState(np.zeros(shape), table, step, mixing, scale)


def next_plan(state: MirrorState, s1: State, lam: float) -> Plan:
    """The softmax of the exponents; the current multiplier does not enter, only past ones."""
    check_multiplier(lam)
    policy = np.empty(state.exponent.shape)
    exponential_weights(state.exponent, 1.0, policy)
    q_r, q_c = values(state, policy)
    v_r, v_c = float(policy[0, s1] @ q_r[0, s1]), float(policy[0, s1] @ q_c[0, s1])
    return Plan(policy, min(max(v_r, 0.0), float(len(policy))), min(max(v_c, 0.0), 1.0))


def learn(state: MirrorState, round: Round) -> None:
    """pi^{k+1} from pi^k mixed with the uniform policy and the values of pi^k under Y^k; then count the episode."""
    policy = round.plan.policy
    q_r, q_c = values(state, policy)
    if state.mixing > 0.0:
        state.exponent = np.log((1.0 - state.mixing) * policy + state.mixing / policy.shape[2])
    state.exponent += state.step * (q_r - round.lam * q_c)
    state.table.learn(round.episode)


def values(state: MirrorState, policy: Floats) -> tuple[Floats, Floats]:
    """Q_r from above and Q_c from below [H, S, A] of a policy, on the counts."""
    q_r, q_c = np.empty(policy.shape), np.empty(policy.shape)
    counted_values(state.table.counts, state.table.n_transitions, state.scale, policy, q_r, q_c)
    return q_r, q_c
