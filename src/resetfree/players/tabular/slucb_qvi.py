"""SLUCB-QVI: optimistic values where every single step must be safe enough, beginning from a known safe action.

After Amani, Thrampoulidis and Yang (2021, "Safe reinforcement learning with linear function approximation"), in its
randomised form for finitely many actions. Kept: the constraint is on each step's own cost, here the probability of a
reset at the next step, which must be at most tau; a safe action is known in every state, with known cost; the cost of
the others is bounded from above by its confidence set, and a distribution over the actions is played whose bounded cost
is at most tau, so that the safe set grows from the known action; optimistic values of rewards, inflated by
kappa = 2 H / (tau - tau_0) + 1 (`inflated`). Adapted: one-hot features, for which taking out the safe action's
direction leaves the other pairs' counts as they are; the known action is the first safe one of the oracle, so
tau_0 = 0; where the problem has none, its assumption fails and the action least likely to be reset replaces it; tuned
widths scale H / sqrt(n) and scale / sqrt(n). From memory: kappa and the regression on the orthogonal complement.

With tau = 0 only the known action's bound is ever small enough: the safe set never grows, and nothing is learned. And a
tau above 0 bounds each step's risk, not the episode's: up to tau per step, and more where a danger lies further ahead.

Legend of the compiled code: h from 0; up(a) upper confidence bound on the probability that action a is reset at the
next step; theta the distribution over the actions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.compiled import jit
from resetfree.core.settings import Fraction, NonNegative
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.players.method import Build, Method, penalised
from resetfree.players.tabular.counts import Counted, Counts
from resetfree.players.tabular.shields import arrivals, one_step_safe, optimistic_value
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.mdp import FiniteMDP, model_behind
from resetfree.theory.oracle.dynamic_programming import solve


@dataclass
class SlucbState:
    """Counts, and the known safe actions."""

    seen: Counted
    safe: NDArray[np.int16] = field(metadata={"saved": False})  # [H, S]
    n_actions: int = field(metadata={"saved": False})


@dataclass(frozen=True)
class SlucbQvi(PrimalPlayer[SlucbState]):
    """The best mixture of actions whose bounded one-step risk is at most tau; the multiplier does not enter.

    tau: threshold on the risk of each step.  scale: of the bonuses.  inflated: multiply the reward's bonus by kappa.
    pooled: one set of counts for all steps (stationary problems).

    >>> import resetfree as rf
    >>> problem = rf.make("grid-v0").problem()
    >>> SlucbQvi(tau=0.1).kappa(problem.horizon)
    161.0
    >>> SlucbQvi(tau=0.0).statement(problem, 100).why
    'at threshold zero its safe set never grows: it always plays the known safe action (given a safe action per state)'
    """

    name: ClassVar[str] = "slucb-qvi"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "none"
    tau: Fraction = 0.05
    scale: NonNegative = 0.1
    inflated: bool = False
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> SlucbState:
        """Read the safe actions from the exact model."""
        seen = Counted.nothing(problem, self.pooled, self.name)
        return SlucbState(seen, known_safe(model_behind(problem)), problem.n_actions)

    def plan(self, state: SlucbState, s1: State, lam: float) -> Plan:
        """One backward pass; it bounds steps and not episodes, so v_c = 0 promises nothing."""
        horizon, n_states = state.safe.shape
        policy, v_r = np.empty((horizon, n_states, state.n_actions)), np.empty(n_states)
        beta = self.scale * horizon * (self.kappa(horizon) if self.inflated else 1.0)
        safe_mixture_plan(
            state.seen.counts, state.seen.n_transitions, beta, self.scale, self.tau, state.safe, policy, v_r
        )
        return Plan(policy, float(v_r[s1]), 0.0)

    def update(self, state: SlucbState, round: Round) -> SlucbState:
        """Count the steps of the episode."""
        state.seen.absorb(round.episode)
        return state

    def kappa(self, horizon: int) -> float:
        """The inflation 2 H / (tau - tau_0) + 1 with tau_0 = 0."""
        return 2.0 * horizon / self.tau + 1.0 if self.tau > 0 else 1.0

    @staticmethod
    def methods() -> list[Method]:
        """With a threshold above zero, which it needs, and with that of the reset-free problem."""

        def needs_safe_actions(mdp: FiniteMDP) -> str | None:
            found = without_safe_action(mdp)
            return found and (
                "It needs a known safe action in every state, and in state "
                f"{mdp.state_names[found[1]]} at step {found[0]} every action can be reset at once."
            )

        def threshold_zero(mdp: FiniteMDP) -> str | None:
            return (
                "It needs a threshold above zero: at zero no action but the known safe one ever has a confidence bound "
                "that is small enough, so its safe set never grows."
            )

        def build(tau: float) -> Build:
            return penalised(lambda s: SlucbQvi(**s.own, tau=tau), 0.0)

        text = "Each step's risk at most 1/20, given a safe action per state."
        same, name = "The same with the threshold of the reset-free problem.", "slucb-qvi, tau ="
        return [
            Method(f"{name} 1/20", "oracle", text, build(0.05), rank=55, inapplicable=needs_safe_actions),
            Method(f"{name} 0", "oracle", same, build(0.0), rank=55, inapplicable=threshold_zero),
        ]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Its theorem is about another constraint."""
        constants: dict[str, float | str | bool] = {"tau": self.tau, "scale": self.scale}
        constants |= {"kappa": self.kappa(problem.horizon), "inflated": self.inflated, "oracle": True}
        if self.tau == 0:
            why = "at threshold zero its safe set never grows: it always plays the known safe action"
        else:
            why = (
                "its theorem bounds each step's risk by tau > 0, with proved widths; resets may then grow like K H tau"
            )
        return Statement(constants, False, why + " (given a safe action per state)")


def known_safe(mdp: FiniteMDP) -> NDArray[np.int16]:
    """[H, S] the first action of Abar, else the first that is not reset at once, else pi*'s."""
    solution = solve(mdp, starts=[])
    result = solution.policy
    for mask in (one_step_safe(mdp), solution.safe_actions):
        result = np.where(mask.any(axis=2), mask.argmax(axis=2), result).astype(np.int16)
    return result


def without_safe_action(mdp: FiniteMDP) -> tuple[int, int] | None:
    """A step (from 1) and a state in which every action can be reset at once, or None if no state is like that."""
    found = np.argwhere(~one_step_safe(mdp).any(axis=2) & ~mdp.reset)
    return None if len(found) == 0 else (int(found[0, 0]) + 1, int(found[0, 1]))


@jit
def best_mixture(q: Floats, up: Floats, tau: float, theta: Floats) -> float:
    """Largest theta.q with theta.up <= tau, by vertices, which have at most two actions; some up must be <= tau."""
    best, first, second, share = -np.inf, 0, 0, 0.0
    for i in range(len(q)):
        if up[i] > tau:
            continue
        if q[i] > best:
            best, first, second, share = q[i], i, i, 0.0
        for j in range(len(q)):
            if up[j] > tau:
                weight = (tau - up[i]) / (up[j] - up[i])
                value = (1.0 - weight) * q[i] + weight * q[j]
                if value > best:
                    best, first, second, share = value, i, j, weight
    theta[:] = 0.0
    theta[first] += 1.0 - share
    theta[second] += share
    return best


@jit
def safe_mixture_plan(
    c: Counts,
    n_transitions: int,
    beta_r: float,
    beta_c: float,
    tau: float,
    safe: NDArray[np.int16],  # [H, S] the known safe action, whose risk counts as 0
    policy: Floats,  # [H, S, A] out
    v_r: Floats,  # [S] out, at step 1
) -> None:
    """Optimistic values of rewards, the best mixture in every state and step."""
    horizon, n_states, n_actions = policy.shape
    after, q, up = np.zeros(n_states), np.empty(n_actions), np.empty(n_actions)
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        is_reset = c.known_last if h == n_transitions - 1 else c.known
        for s in range(n_states):
            for a in range(n_actions):
                q[a] = optimistic_value(c, layer, s, a, h < n_transitions, horizon - h, beta_r, is_reset, after)
                n = c.moved[layer, s, a]
                up[a] = 1.0
                if a == safe[h, s] or h >= n_transitions:
                    up[a] = 0.0
                elif n > 0:
                    up[a] = min(arrivals(c, layer, s, a, is_reset, after)[1] + beta_c / sqrt(n), 1.0)
            v_r[s] = best_mixture(q, up, tau, policy[h, s])
        after[:] = v_r
