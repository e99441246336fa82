"""Mirror ascent on tables, which OPDOP and OptPrimalDual share: values of the last policy in the exponent of the next.

Legend: pi^k the policy of round k, Q_r^k and Q_c^k its values on the counts before round k, Y^k the multiplier played.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.players.method import Build, Method
from resetfree.players.requirements import check_multiplier, no_margin
from resetfree.players.tabular.action_values import counted_values
from resetfree.players.tabular.counts import Counted
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


class MirrorPlayer(PrimalPlayer[MirrorState]):
    """A player with the settings `scale`, `speed` and `pooled`, and steps of its own."""

    authors: ClassVar[str]  # whose theorem needs what is not there
    prediction: ClassVar[Prediction] = "low"
    scale: float
    speed: float
    pooled: bool

    @abstractmethod
    def steps(self, problem: Problem, episodes: int) -> tuple[float, float]:
        """The step of the ascent, and the weight of the uniform policy before each step."""

    def init(self, problem: Problem, episodes: int, seed: int) -> MirrorState:
        """The uniform policy."""
        step, mixing = self.steps(problem, episodes)
        table = Counted.nothing(problem, self.pooled, self.name)
        return MirrorState(np.zeros((problem.horizon, *table.tried.shape[1:])), table, step, mixing, self.scale)

    def plan(self, state: MirrorState, s1: State, lam: float) -> Plan:
        """The softmax of the exponents; the current multiplier does not enter, only past ones."""
        check_multiplier(lam)
        policy = np.empty(state.exponent.shape)
        exponential_weights(state.exponent, 1.0, policy)
        q_r, q_c = values(state, policy)
        v_r, v_c = float(policy[0, s1] @ q_r[0, s1]), float(policy[0, s1] @ q_c[0, s1])
        return Plan(policy, min(max(v_r, 0.0), float(len(policy))), min(max(v_c, 0.0), 1.0))

    def update(self, state: MirrorState, round: Round) -> MirrorState:
        """pi^{k+1} from pi^k mixed with the uniform policy and the values of what was played; then count."""
        policy = round.plan.policy
        q_r, q_c = values(state, policy)
        if state.mixing > 0.0:
            if round.rests_on < round.k - 1:  # an older policy was played: the step is made from the newest
                policy = np.empty(state.exponent.shape)
                exponential_weights(state.exponent, 1.0, policy)
            state.exponent = np.log((1.0 - state.mixing) * policy + state.mixing / policy.shape[2])
        state.exponent += state.step * (q_r - round.lam * q_c)
        state.table.absorb(round.episode)
        return state

    def not_covered(self, constants: dict[str, Any]) -> Statement:
        """The constants of this run; no theorem covers them."""
        return Statement({**constants, "scale": self.scale}, False, f"{no_margin(self.authors)}; {TRAP}")


def in_two_speeds(name: str, text: str, build: Callable[[float], Build], rank: int) -> list[Method]:
    """As in the original, and with faster steps."""
    fast = f"The same with steps {FAST:g} times as large."
    return [
        Method(name, "baseline", text, build(1.0), rank=rank),
        Method(f"{name}, fast", "baseline", fast, build(FAST), rank=rank),
    ]


def values(state: MirrorState, policy: Floats) -> tuple[Floats, Floats]:
    """Q_r from above and Q_c from below [H, S, A] of a policy, on the counts."""
    q_r, q_c = np.empty(policy.shape), np.empty(policy.shape)
    counted_values(state.table.counts, state.table.n_transitions, state.scale, policy, q_r, q_c)
    return q_r, q_c
