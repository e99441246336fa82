"""Mirror ascent on tables, which OPDOP and OptPrimalDual share, and SLUCB-QVI, whose safe set grows.

Legend: pi^k the policy of round k, Q_r^k and Q_c^k its values on the counts before round k, Y^k the multiplier played.

**`SlucbQvi`.**
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

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import log, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bound, Floats, Fraction, NonNegative, jit
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players import Build, Method, against, bound_of, check_episodes, no_margin, penalised
from resetfree.players.tabular.counts import Counted, Counts, counted_values
from resetfree.players.tabular.shields import arrivals, one_step_safe, optimistic_value
from resetfree.problems import FiniteMDP, Problem, State, model_behind
from resetfree.problems.finite.backward import exponential_weights
from resetfree.theory.oracle.dynamic_programming import solve

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


@dataclass(frozen=True)
class Opdop(MirrorPlayer):
    """OPDOP, optimistic primal-dual proximal policy optimisation, on tables.

    Original: Ding, Wei, Yang, Wang, Jovanovic, "Provably efficient safe exploration via primal-dual policy
    optimization" (2020), for linear kernel (mixture) models.
    Kept: the policy step with its mixing, the step sizes, and values of the last policy that are optimistic for reward
    and for cost. Its dual is `one-multiplier` with the step 1/sqrt(K).
    Adapted: counts in place of the regression on value-dependent features; a bonus of H scale / sqrt(n) on rewards and
    of scale / sqrt(n) off costs; a cost on arrival in [0, 1] in place of the utility; the multiplier stays in [0, B],
    since the original's interval [0, 2 H / gamma] needs a policy that is safe with a margin gamma; `speed` multiplies
    the step.
    From memory: the constants of the steps, and that round k's values use the data before round k.

    pi^k proportional to pitilde^{k-1} exp(alpha (Q_r^{k-1} - Y^{k-1} Q_c^{k-1})).

    alpha = sqrt(log A) / (H^2 sqrt(K)); pitilde = (1 - theta) pi + theta / A with theta = 1/K.

    scale: of the bonus.  speed: factor on alpha (1 in the original).  pooled: one set of counts for all steps.

    >>> import resetfree as rf
    >>> round(Opdop().statement(rf.make("grid-v0").problem(), 100).constants["alpha"], 6)
    0.001982
    """

    name: ClassVar[str] = "opdop"
    baseline: ClassVar[bool] = True
    authors: ClassVar[str] = "Ding et al."
    scale: NonNegative = 0.1
    speed: NonNegative = 1.0
    pooled: bool = False

    def steps(self, problem: Problem, episodes: int) -> tuple[float, float]:
        """The steps alpha and theta."""
        root = sqrt(check_episodes(episodes, self.name))
        return self.speed * sqrt(log(problem.n_actions)) / (problem.horizon**2 * root), 1.0 / episodes

    @staticmethod
    def methods() -> list[Method]:
        """With its dual."""

        def build(speed: float) -> Build:
            dual = {"feedback": "optimistic", "step": "unit"}
            return lambda s: against(Opdop(**s.own, speed=speed), "one-multiplier", B=s.B, **dual)

        return in_two_speeds("OPDOP", "Ding et al. 2020 on counts: mirror ascent with its own small steps.", build, 11)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The constants of this run; no theorem covers them."""
        alpha, theta = self.steps(problem, episodes)
        return self.not_covered({"alpha": alpha, "theta": theta})


@dataclass(frozen=True)
class OptPrimalDual(MirrorPlayer):
    """OptPrimalDual-CMDP: mirror ascent on the policy with optimistic, truncated values.

    Original: Efroni, Mannor, Pirotta, "Exploration-exploitation in constrained MDPs" (2020), their third algorithm.
    Kept: pi^{k+1} proportional to pi^k exp(t_K (Q_r^k - lam^k Q_c^k)) with truncated optimistic values of pi^k on the
    data before round k; the multiplier lam <- [lam + V_c / t_lam]_+ without a cap (`one-multiplier` with capped=False).
    Adapted: maximised reward in place of minimised cost; one constraint, with threshold zero and a cost on arrival in
    [0, 1]; bonuses of H scale / sqrt(n) on rewards and scale / sqrt(n) off costs, which replace the sums of the
    original's reward and transition bonuses; `speed` multiplies the step.
    From memory: t_K = sqrt(2 log A / (H^2 (1 + rho^2) K)) and t_lam = H sqrt(K) / rho, where rho bounds the best
    multiplier: here B.

    pi^{k+1} proportional to pi^k exp(t_K (Q_r^k - lam^k Q_c^k)), t_K = sqrt(2 log A / (H^2 (1 + B^2) K)).

    B: bound on the multipliers.  scale: of the bonus.  speed: factor on t_K (1 in the original).
    pooled: one set of counts for all steps.

    >>> import resetfree as rf
    >>> round(OptPrimalDual(B=3.0).statement(rf.make("grid-v0").problem(), 100).constants["t_K"], 6)
    0.007092
    """

    name: ClassVar[str] = "opt-primal-dual"
    baseline: ClassVar[bool] = True
    authors: ClassVar[str] = "Efroni et al."
    B: Bound | None = None
    scale: NonNegative = 0.1
    speed: NonNegative = 1.0
    pooled: bool = False

    def steps(self, problem: Problem, episodes: int) -> tuple[float, float]:
        """t_K, and no mixing."""
        B = bound_of(self)
        # B * B is infinite where B**2 raises: a multiplier of 1e200 is what a reset probability of 1e-200 needs.
        squared = problem.horizon**2 * (1.0 + B * B) * check_episodes(episodes, self.name)
        return self.speed * sqrt(2.0 * log(problem.n_actions) / squared), 0.0

    @staticmethod
    def methods() -> list[Method]:
        """With its dual."""

        def build(speed: float) -> Build:
            dual: dict[str, Any] = {"feedback": "optimistic", "capped": False}
            return lambda s: against(OptPrimalDual(s.B, **s.own, speed=speed), "one-multiplier", B=s.B, **dual)

        return in_two_speeds("OptPrimalDual", "Efroni et al. 2020: mirror ascent, no cap.", build, 13)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The constants of this run; no theorem covers them."""
        return self.not_covered({"t_K": self.steps(problem, episodes)[0]})


@dataclass
class SlucbState:
    """Counts, and the known safe actions."""

    seen: Counted
    safe: NDArray[np.int16] = field(metadata={"saved": False})  # [H, S]
    n_actions: int = field(metadata={"saved": False})


@dataclass(frozen=True)
class SlucbQvi(PrimalPlayer[SlucbState]):
    """SLUCB-QVI: optimistic values where every single step must be safe enough, beginning from a known safe action.

    The best mixture of actions whose bounded one-step risk is at most tau; the multiplier does not enter.

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
