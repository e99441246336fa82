"""What players behind a shield share: optimistic planning on counts, among the actions that the shield lets through.

Legend: h from 0; n how often a pair was tried; beta the bonus of a pair that was tried once.
"""

from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, Ints, NonNegative, jit
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.players import Method, penalised
from resetfree.players.tabular.counts import Counted, Counts
from resetfree.problems import FiniteMDP, Problem, State, model_behind
from resetfree.problems.finite.backward import Model
from resetfree.problems.finite.safety import reachable_starts, safe_sets
from resetfree.theory.oracle.dynamic_programming import solve


@dataclass
class ShieldState:
    """Counts, and the shield."""

    seen: Counted
    allowed: Bools = field(metadata={"saved": False})  # [n, S, A]
    layer_of_step: Ints = field(metadata={"saved": False})  # [H] which of them each step uses


class ShieldPlayer(PrimalPlayer[ShieldState]):
    """A player with the settings `scale`, of the bonus scale H / sqrt(n), and `pooled`."""

    prediction: ClassVar[Prediction] = "none"
    scale: float
    pooled: bool

    def plan(self, state: ShieldState, s1: State, lam: float) -> Plan:
        """One backward pass; v_c = 0 is what a shield is for, and no estimate."""
        horizon, n_states = len(state.layer_of_step), state.allowed.shape[1]
        policy, v_r = np.empty((horizon, n_states), dtype=np.int16), np.empty(n_states)
        counted = (state.seen.counts, state.seen.n_transitions, self.scale * horizon)
        shielded_plan(*counted, state.allowed, state.layer_of_step, policy, v_r)
        return Plan(policy, float(v_r[s1]), 0.0)

    def update(self, state: ShieldState, round: Round) -> ShieldState:
        """Count the steps of the episode."""
        state.seen.absorb(round.episode)
        return state


def one_step_safe(mdp: FiniteMDP) -> Bools:
    """[H, S, A] the actions that cannot be reset at the very next step, from the support of the exact model."""
    allowed = np.empty((mdp.horizon, mdp.n_states, mdp.n_actions), dtype=np.bool_)
    one_step_actions(mdp.model, allowed)
    return allowed


def never_reset(problem: Problem, constants: dict[str, Any], given: str) -> Statement:
    """Of a player that keeps to Abar: no resets on any path, if every start that can occur has a reset-free policy."""
    mdp = model_behind(problem)
    if (reachable_starts(mdp).states & ~safe_sets(mdp).states(1)).any():
        return Statement(constants, False, "some start that can occur has no reset-free policy")
    return Statement(constants, True, f"only actions of Abar are played, so no path has a reset (given {given})")


@jit
def arrivals(c: Counts, layer: int, s: int, a: int, is_reset: Bools, value: Floats) -> tuple[float, float]:
    """Empirical mean of `value` after a pair, and the share of arrivals in reset states, whose value is 0."""
    pay, cost = 0.0, 0.0
    for j in range(c.seen.shape[3]):
        times = c.seen[layer, s, a, j]
        if times == 0:
            break
        t = c.successor[layer, s, a, j]
        if is_reset[t]:
            cost += times
        else:
            pay += times * value[t]
    moves = c.moved[layer, s, a]
    return pay / moves, cost / moves


@jit
def optimistic_value(
    c: Counts, layer: int, s: int, a: int, moving: bool, left: float, beta: float, is_reset: Bools, after: Floats
) -> float:
    """min(left, mean reward + mean value afterwards + beta / sqrt(n)), and `left` for a pair that was never tried."""
    n = c.tried[layer, s, a]
    if n == 0 or (moving and c.moved[layer, s, a] == 0):
        return left
    pay = c.earned[layer, s, a] / n + beta / sqrt(n)
    if moving:
        pay += arrivals(c, layer, s, a, is_reset, after)[0]
    return float(min(max(pay, 0.0), left))


@jit
def shielded_plan(
    c: Counts,
    n_transitions: int,
    beta: float,
    allowed: Bools,  # [n, S, A] what the shield lets through; all actions where it lets nothing through
    layer_of_step: Ints,  # [H] which of them each step uses
    policy: NDArray[np.int16],  # [H, S] out
    v_r: Floats,  # [S] out, at step 1
) -> None:
    """Value iteration with bonuses (rewards alone) over the allowed actions; ties go to the smaller action."""
    horizon, n_states = policy.shape
    n_actions = allowed.shape[2]
    after = np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        is_reset = c.known_last if h == n_transitions - 1 else c.known
        mask = allowed[layer_of_step[h]]
        for s in range(n_states):
            free = not mask[s].any()
            v_r[s], policy[h, s] = -1.0, 0
            for a in range(n_actions):
                if free or mask[s, a]:
                    q = optimistic_value(c, layer, s, a, h < n_transitions, horizon - h, beta, is_reset, after)
                    if q > v_r[s]:
                        v_r[s], policy[h, s] = q, a
        after[:] = v_r


@jit
def one_step_actions(
    m: Model,
    allowed: Bools,  # [H, S, A] out: no successor is a reset state (on arrival at the end, one that calls for a reset)
) -> None:
    """The actions that a shield with one step of lookahead allows, from the support alone."""
    horizon, n_states, n_actions = allowed.shape
    for h in range(horizon):
        is_reset = m.last_reset if h == m.n_transitions - 1 else m.reset
        for s in range(n_states):
            for a in range(n_actions):
                allowed[h, s, a] = not m.reset[s]
                if h < m.n_transitions:
                    row = m.row_of_step[h] + s * n_actions + a
                    for j in range(m.indptr[row], m.indptr[row + 1]):
                        if is_reset[m.indices[j]]:
                            allowed[h, s, a] = False


@dataclass(frozen=True)
class OracleShield(ShieldPlayer):
    """Shielding with known support: an optimistic learner that chooses among the truly safe actions only.

    Kept: the shield of safe reinforcement learning via shielding (Alshiekh et al. 2018), which passes exactly the
    actions after which a reset is still avoidable for certain; inside, optimistic value iteration (UCBVI, Azar et al.
    2017) on rewards alone. Adapted: the shield comes from the oracle's safe sets and so needs the true support, which
    no other learner has; the bonus is scale H / sqrt(n). From memory: UCBVI's form; its constants are not used.

    UCBVI on rewards within Abar_h(s); the multiplier does not enter. The lower envelope of resets: none at all.

    scale: of the bonus scale H / sqrt(n).  pooled: one set of counts for all steps (stationary problems).

    >>> import resetfree as rf
    >>> player = OracleShield()
    >>> player.statement(rf.make("grid-v0").problem(), 100).covered
    True
    """

    name: ClassVar[str] = "oracle-shield"
    baseline: ClassVar[bool] = True
    scale: NonNegative = 0.1
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> ShieldState:
        """Read the safe actions from the exact model."""
        seen = Counted.nothing(problem, self.pooled, self.name)
        safe = safe_sets(model_behind(problem))
        return ShieldState(seen, safe.layers, safe.layer_of_step)

    @staticmethod
    def methods() -> list[Method]:
        """The oracle line of the comparison: no resets."""
        text = "UCBVI among the truly safe actions: no resets at all."
        build = penalised(lambda s: OracleShield(**s.own), 0.0)
        return [Method("shield with known support", "oracle", text, build, rank=56, guaranteed=True)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """No resets on any path, if every start that can occur has a reset-free policy."""
        constants = {"scale": self.scale, "pooled": self.pooled, "oracle": True}
        return never_reset(problem, constants, "the support; regret tuned")


@dataclass(frozen=True)
class OneStepShield(ShieldPlayer):
    """A shield with one step of lookahead: it forbids the actions that can be reset at the very next step, no others.

    Kept: the idea of one-step safety filters, whose constraint is on the next step's cost alone (as in Amani,
    Thrampoulidis and Yang 2021), inside which an optimistic learner maximises rewards. Adapted: the one-step support is
    given by the oracle, so that nothing but the missing foresight can be blamed; where every action can be reset at
    once, all are allowed. From memory: nothing beyond UCBVI's form.

    UCBVI on rewards among actions whose next step cannot be a reset; the multiplier does not enter.

    Where a danger lies several steps ahead (`doors-v0`) it walks into it, as rewards are good and no single step can be
    reset, and is reset episode after episode.

    scale: of the bonus scale H / sqrt(n).  pooled: one set of counts for all steps (stationary problems).

    >>> import resetfree as rf
    >>> player = OneStepShield()
    >>> state = player.init(rf.make("doors-v0").problem(), 10, 0)
    >>> state.allowed[0, 0].tolist()  # the fork: both doors are allowed
    [True, True]
    """

    name: ClassVar[str] = "one-step-shield"
    baseline: ClassVar[bool] = True
    scale: NonNegative = 0.1
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> ShieldState:
        """Read the support of single steps from the exact model."""
        seen = Counted.nothing(problem, self.pooled, self.name)
        return ShieldState(seen, one_step_safe(model_behind(problem)), np.arange(problem.horizon))

    @staticmethod
    def methods() -> list[Method]:
        """A shield with one step of lookahead."""
        build = penalised(lambda s: OneStepShield(**s.own), 0.0)
        text = "UCBVI among actions that cannot be reset at the next step."
        return [Method("one-step shield", "oracle", text, build, rank=57)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved."""
        why = "no theorem: a state from which a reset is certain later may be entered (given the one-step support)"
        return Statement({"scale": self.scale, "pooled": self.pooled, "oracle": True}, False, why)


@dataclass
class ConstantSafeState:
    """Nothing is learned; the policy is made once."""

    rows: Floats = field(metadata={"saved": False})  # [H, S, A]


@dataclass(frozen=True)
class ConstantSafe(PrimalPlayer[ConstantSafeState]):
    """A fixed reset-free policy, and no learning: what safety alone costs in reward.

    Kept: the "safe policy that is known beforehand" of many constrained methods. Adapted: it is taken from the oracle's
    safe sets and is not pi*, which would have no regret at all. From memory: nothing.

    Safe actions only, the same in every episode; where no action is safe, those that are least likely to be reset.

    choice: "uniform" over the safe actions, or always the "first" of them.

    >>> import resetfree as rf
    >>> player = ConstantSafe()
    >>> player.plan(player.init(rf.make("doors-v0").problem(), 10, 0), 0, 1.0).policy[0, 0].tolist()
    [0.0, 1.0]
    """

    name: ClassVar[str] = "constant-safe"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "none"
    learns: ClassVar[bool] = False
    choice: Literal["uniform", "first"] = "uniform"

    def init(self, problem: Problem, episodes: int, seed: int) -> ConstantSafeState:
        """Read the safe actions from the exact model."""
        solution = solve(model_behind(problem), starts=[])
        safe = solution.safe_actions
        fallback = np.eye(safe.shape[2])[solution.policy]
        if self.choice == "first":
            rows = np.eye(safe.shape[2])[safe.argmax(axis=2)]
        else:
            rows = safe / np.maximum(safe.sum(axis=2, keepdims=True), 1)
        return ConstantSafeState(np.where(safe.any(axis=2, keepdims=True), rows, fallback))

    def plan(self, state: ConstantSafeState, s1: State, lam: float) -> Plan:
        """The same for every start and multiplier; it has no estimate of V_r, and v_r = 0 promises nothing."""
        return Plan(state.rows, 0.0, 0.0)

    def update(self, state: ConstantSafeState, round: Round) -> ConstantSafeState:
        """Learns nothing."""
        return state

    @staticmethod
    def methods() -> list[Method]:
        """Never reset, and it learns nothing."""
        build, text = penalised(lambda s: ConstantSafe(), 0.0), "Uniform over the truly safe actions, no learning."
        return [Method("constant safe policy", "oracle", text, build, rank=58, widths=(), pools=False, guaranteed=True)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """No resets on any path, if every start that can occur has a reset-free policy."""
        return never_reset(problem, {"choice": self.choice, "oracle": True}, "the support")
