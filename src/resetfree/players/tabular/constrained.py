"""Baselines for constrained problems: OptCMDP, and Triple-Q.

**`OptCmdp`.**
Original: Efroni, Mannor, Pirotta, "Exploration-exploitation in constrained MDPs" (2020), their first algorithm: in each
episode a linear program over z_h(s,a,s'), with a Bernstein-type interval for every transition probability.
Kept: the intervals p +- (2 sqrt(p (1 - p) L / n) + 14 L / (3 n)), the bonus sqrt(L / n) on rewards, joint optimism over
  model and policy, and the constraint solved inside the episode; no multiplier.
Adapted: the start is the current s_1^k; the budget of resets is zero, charged on arrival in a state that has been seen
  to be a reset state; mean rewards with their bonus are cut to [0, 1]; where no allowed model has a reset-free policy
  the least reset probability is played (the original's program would have no solution); counts may be pooled.
  With budget zero no program need be solved: a sum of terms that are not negative is zero only if each of them is, so
  pairs that must touch a reset state are dropped and the rest is dynamic programming over intervals, for all starts
  at once. The tests compare it with the linear program.
From memory: the constants of the intervals, and L = ln(4 S^2 A H K / p).

Legend of the compiled code: h from 0; n how often a pair was seen to move, p the frequencies of its successors; a model
is allowed if |P(t|s,a) - p(t)| <= b(t) for every t, with the intervals above; free means: costs nothing.

**`TripleQ`.**
Original: Wei, Liu, Ying, "Triple-Q: a model-free algorithm for constrained reinforcement learning with sublinear regret
and zero constraint violation" (2021).
Kept: two optimistic tables Q and C that begin at H, frames of K^0.6 episodes, the rate (chi + 1) / (chi + t) with
  chi = K^0.2, greedy play on Q + (Z / eta) C, visits forgotten and Q raised when a frame begins. The third "Q", the
  virtual queue Z, is the dual player `virtual-queue`, whose multiplier is H Z / eta.
Adapted: the utility of an episode is H without a reset and 0 with one, so C is in [0, H] as in the original and
  1 - C / H is the reset probability; the demanded utility is rho = H, and its tightening eps is 0, since rho + eps
  cannot be reached; entries of both tables are cut at H, one table at a time (the original sets both back to H where
  one reaches it, which here, where safe pairs have C = H, would wipe out Q in every frame).
Rescaled: the bonus sqrt(H^2 iota (chi + 1) / (chi + t)) / 4 is H scale sqrt((chi + 1) / (chi + t)), and what Q is
  raised by, 2 H^3 sqrt(iota) / eta, is 8 H scale / eta: the same with scale for sqrt(iota) / 4 and with H for H^3,
  without which every entry would be back at H in every frame.
From memory: the constants.

Legend of the compiled code: h from 0; n visits since the frame began; chi of the learning rate.
"""

from dataclasses import dataclass, field
from math import log, sqrt
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Floats, Ints, InvalidInput, NonNegative, Probability, jit
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players import Method, Players, Setting, against, check_episodes, finite_states, no_margin, penalised
from resetfree.players.dual import frames
from resetfree.players.tabular.counts import LARGEST, Counted, Counts
from resetfree.problems import FiniteMDP, Problem, State

LARGEST_PASS = 200_000_000  # H S^2 A, the work of one plan, that is still sensible (about a second)
ROUNDING = 1e-12


@dataclass
class OptCmdpState:
    """What was counted."""

    table: Counted
    horizon: int = field(metadata={"saved": False})
    log_term: float = field(metadata={"saved": False})  # L


@dataclass(frozen=True)
class OptCmdp(PrimalPlayer[OptCmdpState]):
    """OptCMDP: the best policy in the best model that the data allow, subject to the constraint.

    max over models P allowed by the counts and policies pi of V_r^{pi,P}(s_1^k), subject to V_c^{pi,P}(s_1^k) = 0.

    A pair is given up once its intervals leave no model that avoids the reset states: with a proved L after about 12 L
    resets, with a small tuned one after the first.

    width: "tuned" (L = scale^2, so that an interval is at most about scale / sqrt(n)) or "theory" (L as above).
    scale: of the tuned intervals.  p: failure probability.  pooled: one set of counts for all steps.
    The multiplier is not used: give it a dual that names none.

    >>> import resetfree as rf
    >>> problem = rf.make("grid-v0").problem()
    >>> player = OptCmdp()
    >>> player.plan(player.init(problem, 100, 0), 0, 0.0).v_r
    8.0
    """

    name: ClassVar[str] = "opt-cmdp"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "low"
    width: Literal["tuned", "theory"] = "tuned"
    scale: NonNegative = 0.1
    p: Probability = 0.05
    pooled: bool = False

    def log_term(self, problem: Problem, episodes: int) -> float:
        """L, the logarithm in the confidence intervals."""
        n_states, episodes = finite_states(problem, self.name), check_episodes(episodes, self.name)
        if self.width == "tuned":
            return self.scale**2
        return log(4.0 * n_states**2 * problem.n_actions * problem.horizon * episodes / self.p)

    def init(self, problem: Problem, episodes: int, seed: int) -> OptCmdpState:
        """No data yet: every model is allowed."""
        work = problem.horizon * finite_states(problem, self.name) ** 2 * problem.n_actions
        if work > LARGEST_PASS:
            raise InvalidInput(
                f"The player 'opt-cmdp' plans over all triples (s, a, s') of each step, at most {LARGEST_PASS:,} of "
                f"them. Got {work:,} instead."
            )
        log_term = self.log_term(problem, episodes)
        return OptCmdpState(Counted.nothing(problem, self.pooled, self.name), problem.horizon, log_term)

    def plan(self, state: OptCmdpState, s1: State, lam: float) -> Plan:
        """One backward pass; v_c is the least reset probability that an allowed model admits, mostly 0."""
        check_multiplier(lam)
        n_states = state.table.tried.shape[1]
        policy = np.zeros((state.horizon, n_states), dtype=np.int16)
        v_r, v_c = np.empty(n_states), np.empty(n_states)
        zero_budget_plan(state.table.counts, state.table.n_transitions, state.log_term, policy, v_r, v_c)
        earn, cost = min(max(float(v_r[s1]), 0.0), float(state.horizon)), min(max(float(v_c[s1]), 0.0), 1.0)
        return Plan(policy, earn, cost, earn if cost == 0.0 else float("nan"))

    def update(self, state: OptCmdpState, round: Round) -> OptCmdpState:
        """Count the episode."""
        state.table.absorb(round.episode)
        return state

    @staticmethod
    def methods() -> list[Method]:
        """Solved inside the episode; it needs no multiplier."""

        def too_large(mdp: FiniteMDP) -> str | None:
            work = mdp.horizon * mdp.n_states**2 * mdp.n_actions
            why = f"it plans over all triples (s, a, s'), and there are {work:,} here"
            return None if work <= LARGEST_PASS else why

        text = "Efroni et al. 2020: best allowed model without resets."
        build = penalised(lambda s: OptCmdp(**s.own), 0.0)
        return [Method("OptCMDP", "baseline", text, build, rank=12, inapplicable=too_large)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Not covered: tuned intervals, or constants that are not proved here."""
        log_term = self.log_term(problem, episodes)
        constants: dict[str, float | str | bool] = {"L": log_term, "width": self.width, "pooled": self.pooled}
        reason = "its intervals are tuned, not proved" if self.width == "tuned" else "its constants are not proved here"
        why = f"no theorem here: that of Efroni et al. is for one start that is the same in every episode, and {reason}"
        return Statement(constants, False, why)


@jit
def limits(c: Counts, layer: int, s: int, a: int, log_term: float, low: Floats, high: Floats) -> None:
    """[S] the least and the largest probability that an allowed model gives to each successor of a pair."""
    n = c.moved[layer, s, a]
    low[:] = 0.0
    if n == 0:
        high[:] = 1.0
        return
    rest = 14.0 * log_term / (3.0 * n)
    high[:] = min(rest, 1.0)
    for j in range(c.seen.shape[3]):
        times = c.seen[layer, s, a, j]
        if times == 0:
            break
        t, p = c.successor[layer, s, a, j], times / n
        b = 2.0 * sqrt(p * (1.0 - p) * log_term / n) + rest
        low[t], high[t] = max(p - b, 0.0), min(p + b, 1.0)


@jit
def fill_up(order: Ints, low: Floats, high: Floats, value: Floats, other: Floats) -> tuple[float, float]:
    """Expected `value` and `other` under the allowed probabilities that put all they can on the first of `order`."""
    left = 1.0
    for t in range(len(low)):
        left -= low[t]
    total, second = 0.0, 0.0
    for t in order:
        p = low[t] + min(high[t] - low[t], max(left, 0.0))
        left -= high[t] - low[t]
        total += p * value[t]
        second += p * other[t]
    return total, second


@jit
def zero_budget_plan(
    c: Counts,
    n_transitions: int,
    log_term: float,  # L
    policy: NDArray[np.int16],  # [H, S] out
    v_r: Floats,  # [S] out, at step 1: the best over models and policies that are free
    v_c: Floats,  # [S] out: 0 where a safe policy exists, else the least reset probability over models and policies
) -> None:
    """The best pair of an allowed model and a policy that never resets in it, from every state at once.

    A pair is free at step h if an allowed model puts all its mass on successors that are neither reset states nor
    states from which nothing is free. Among the free pairs the value is r + max_P P V, with the bonus sqrt(L / n) on
    the mean reward. Where nothing is free, the pair with the least reset probability is played.
    """
    horizon, n_states = policy.shape
    n_actions = c.tried.shape[2]
    low, high = np.empty(n_states), np.empty(n_states)
    next_r, next_c = np.zeros(n_states), np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        is_reset = c.known_last if h == n_transitions - 1 else c.known
        for t in range(n_states):
            if is_reset[t]:
                next_r[t], next_c[t] = 0.0, 1.0
        best_first = np.argsort(-next_r, kind="mergesort")
        free_first = best_first[next_c[best_first] == 0.0]
        safe_first = np.argsort(next_c, kind="mergesort")
        for s in range(n_states):
            v_r[s], v_c[s] = -1.0, 2.0
            for a in range(n_actions):
                pay, cost = 0.0, 0.0
                if h < n_transitions:
                    limits(c, layer, s, a, log_term, low, high)
                    pay, cost = _best_successors(free_first, safe_first, low, high, next_r, next_c)
                n = c.tried[layer, s, a]
                mean = 1.0 if n == 0 else c.earned[layer, s, a] / n + sqrt(log_term / n)
                pay += min(max(mean, 0.0), 1.0)
                if cost < v_c[s] or (cost == v_c[s] and pay > v_r[s]):
                    v_r[s], v_c[s] = pay, cost
                    policy[h, s] = a
        next_r[:], next_c[:] = v_r, v_c


@jit
def _best_successors(
    free_first: Ints, safe_first: Ints, low: Floats, high: Floats, next_r: Floats, next_c: Floats
) -> tuple[float, float]:
    """Expected reward and cost after a pair: the best without cost if that is allowed, else the least cost."""
    room, must = 0.0, 0.0
    for t in free_first:
        room += high[t]
    for t in range(len(low)):
        if next_c[t] > 0.0:
            must += low[t]
    if must > 0.0 or room < 1.0 - ROUNDING:
        cost, pay = fill_up(safe_first, low, high, next_c, next_r)
        return pay, max(cost, ROUNDING)
    pay, _ = fill_up(free_first, low, high, next_r, next_r)
    return pay, 0.0


@dataclass
class TripleQState:
    """The tables of this frame."""

    q: Floats  # [H, S, A] reward to come, at most H
    c: Floats  # [H, S, A] utility to come, at most H
    n: Ints  # [H, S, A] visits in this frame
    k: int  # episodes seen
    frame: int = field(metadata={"saved": False})  # episodes per frame
    chi: float = field(metadata={"saved": False})
    bonus: float = field(metadata={"saved": False})
    lift: float = field(metadata={"saved": False})  # what Q is raised by when a frame begins


@dataclass(frozen=True)
class TripleQ(PrimalPlayer[TripleQState]):
    """Triple-Q, model-free Q-learning of reward and utility under a virtual queue.

    a_h = argmax_a Q_h(s,a) - lam (1 - C_h(s,a) / H); Q and C by Q-learning with bonuses, restarted in frames.

    scale: of the bonus.

    >>> import resetfree as rf
    >>> TripleQ().statement(rf.make("grid-v0").problem(), 1024).constants["frame"]
    64.0
    """

    name: ClassVar[str] = "triple-q"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "low"
    scale: NonNegative = 0.1

    def init(self, problem: Problem, episodes: int, seed: int) -> TripleQState:
        """Both tables at H."""
        n_states, horizon = finite_states(problem, self.name), problem.horizon
        shape = (horizon, n_states, problem.n_actions)
        entries = horizon * n_states * problem.n_actions
        if entries > LARGEST:
            raise InvalidInput(f"A table of triple-q must have at most {LARGEST:,} entries. Got {entries:,}.")
        frame, root = frames(episodes)
        top = float(horizon)
        q, c, n = np.full(shape, top), np.full(shape, top), np.zeros(shape, dtype=np.int64)
        lift = 8.0 * self.scale * top / root
        return TripleQState(q, c, n, k=0, frame=frame, chi=root, bonus=self.scale * top, lift=lift)

    def plan(self, state: TripleQState, s1: State, lam: float) -> Plan:
        """Greedy, ties to the first action; the estimates are the entries of the action it takes first."""
        check_multiplier(lam)
        top = float(len(state.q))
        policy = np.argmax(state.q - lam * (1.0 - state.c / top), axis=2)
        a = policy[0, s1]
        return Plan(policy, float(state.q[0, s1, a]), 1.0 - float(state.c[0, s1, a]) / top)

    def update(self, state: TripleQState, round: Round) -> TripleQState:
        """Learn from the episode; begin a new frame after its last one."""
        e = round.episode
        learn_tables(state.q, state.c, state.n, state.chi, state.bonus, e.states, e.actions, e.rewards, e.reset)
        state.k += 1
        if state.k % state.frame == 0:
            start_frame(state.q, state.c, state.n, state.lift)
        return state

    @staticmethod
    def methods() -> list[Method]:
        """With its virtual queue."""
        text = "Wei, Liu, Ying 2021: two Q-tables and a queue."

        def build(s: Setting) -> Players:
            return against(TripleQ(scale=s.width), "virtual-queue", "optimistic")

        return [Method("Triple-Q", "baseline", text, build, rank=14, pools=False)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The constants of this run; no theorem covers them."""
        frame, root = frames(episodes)
        constants: dict[str, float | str | bool] = {"frame": float(frame), "chi": root, "eta": root}
        constants |= {"scale": self.scale, "eps": 0.0}
        return Statement(constants, False, f"{no_margin('Wei, Liu and Ying', '')}; its constants are rescaled")


@jit
def learn_tables(
    q: Floats,
    c: Floats,
    n: Ints,
    chi: float,
    bonus: float,
    states: Ints,  # [m or m + 1]
    actions: Ints,  # [m]
    rewards: Floats,  # [m]
    reset: bool,
) -> None:
    """One episode, first step first: each step learns from the entry that the next one has not changed yet."""
    top = float(len(q))
    for h in range(len(actions)):
        s, a = states[h], actions[h]
        v, w = 0.0, top
        if h + 1 < len(actions):
            v, w = q[h + 1, states[h + 1], actions[h + 1]], c[h + 1, states[h + 1], actions[h + 1]]
        elif reset:
            w = 0.0
        n[h, s, a] += 1
        rate = (chi + 1.0) / (chi + n[h, s, a])
        more = bonus * sqrt(rate)
        q[h, s, a] = min(max((1.0 - rate) * q[h, s, a] + rate * (rewards[h] + v + more), 0.0), top)
        c[h, s, a] = min(max((1.0 - rate) * c[h, s, a] + rate * (w + more), 0.0), top)


@jit
def start_frame(q: Floats, c: Floats, n: Ints, lift: float) -> None:
    """Forget the visits and raise Q by `lift`, both tables back at H where they reach it."""
    top = float(len(q))
    n[...] = 0
    for h in range(q.shape[0]):
        for s in range(q.shape[1]):
            for a in range(q.shape[2]):
                q[h, s, a] = min(q[h, s, a] + lift, top)
                c[h, s, a] = min(c[h, s, a], top)
