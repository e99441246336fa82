"""Players made for one long stream of steps, in episodes: POLITEX, and UCRL2.

**`Politex`.**
Legend: qhat_i = Q_r^i - lam^i Q_c^i the action values of round i's policy under round i's multiplier; eta step size;
B bound on the multipliers; K episodes.

**`UCRL2`.**
After Jaksch, Ortner and Auer (2010). Kept: L1 balls of radius sqrt(14 S ln(2 A t / delta) / n) around the empirical
transitions and intervals of half-width sqrt(7 ln(2 S A t / delta) / (2 n)) around the mean rewards, extended value
iteration, epochs that end when some pair's count has doubled, t and the counts frozen at the start of an epoch.
Adapted: the planning horizon is H with backward induction instead of average reward; whether a count has doubled is
checked between episodes, as a policy is committed for an episode; arriving in a state that was seen to be a reset state
has value -lam (lam = 0: rewards alone); `scale` multiplies both radii. From memory: the constants 14 and 7/2.

Legend of the compiled code: h from 0; n how often a pair was tried; d_p the radius of the L1 ball around its empirical
transitions, d_r that of the interval around its mean reward, both sqrt(factor / n).
"""

from dataclasses import dataclass, field
from math import log, sqrt
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bound, Floats, Ints, InvalidInput, NonNegative, NotCertifiable, Range, jit
from resetfree.game.capabilities import PlanAges, PrimalRegretBound
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Proof, Round, Statement, check_multiplier
from resetfree.players import Method, bound_of, check_episodes, finite_states, free_and_penalised
from resetfree.players.tabular.counts import Counted, Counts, HasCounts, counted_values, empty_counts, true_values
from resetfree.problems import Problem, State, model_behind
from resetfree.problems.finite.backward import Model, exponential_weights
from resetfree.problems.finite.safety import reachable_starts

Values: TypeAlias = Literal["counts", "exact"]
LARGEST_SUM = 50_000_000  # entries of summed values that are still sensible (400 MB)


@dataclass
class PolitexState(HasCounts):
    """Summed values, and the counts from which values are estimated (empty where the model is known)."""

    total: Floats  # [1 or S, H, S, A] sum of qhat_i, one for all starts or one per start
    eta: float = field(metadata={"saved": False})
    model: Model | None = field(metadata={"saved": False})  # the truth, if it is known


@dataclass(frozen=True)
class Politex(PrimalPlayer[PolitexState]):
    """Exponential weights of summed action values, with the trap that varying starts set for it, and the ways out.

    pi^k_h(a|s) proportional to exp(eta sum_{i<k} qhat_i(h,s,a)), eta = sqrt(8 ln A / K) / (H + B).

    Paper: variation of POLITEX (other instantiations).

    B: bound on the multipliers (None: filled in when a run is set up).
    model: "counts" estimates the values from what was seen, with a bonus of scale H / sqrt(n) on rewards and
      scale / sqrt(n) off costs; "exact" takes them from the true model (an oracle player, for experiments).
    scale: of the bonus; 0 leaves exploration to chance.
    copies: keep one sum per start, S times the memory.

    The trap: each state's values are summed over all episodes with equal weight, but what the reduction weighs them by
    is how often pi* visits the state from that episode's start. Where the multiplier depends on the start, many
    harmless starts, whose multiplier stays 0, outvote a rare dangerous one for ever, and resets grow linearly
    (`politex-trap-v0`). Ways out: `copies=True` (resets grow like sqrt(K), times the number of starts), a multiplier
    that is the same for every start (xi = 1), a fixed penalty, or a best response to the current multiplier.

    >>> import resetfree as rf
    >>> problem = rf.make("politex-trap-v0").problem()
    >>> [Politex(B=3.0, model="exact", copies=copies).statement(problem, 100).covered for copies in (False, True)]
    [False, True]
    """

    name: ClassVar[str] = "politex"
    prediction: ClassVar[Prediction] = "low"
    B: Bound | None = None
    model: Values = "counts"
    scale: NonNegative = 0.1
    copies: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> PolitexState:
        """No values summed yet, so every action is equally likely at first."""
        n, n_actions = finite_states(problem, self.name), problem.n_actions
        shape = (n if self.copies else 1, problem.horizon, n, n_actions)
        entries = shape[0] * shape[1] * shape[2] * shape[3]
        if entries > LARGEST_SUM:
            raise InvalidInput(
                f"The summed values of politex must have at most {LARGEST_SUM:,} entries. Got {entries:,} instead"
                f"{': one copy per start is too much here.' if self.copies else '.'}"
            )
        known = self.model == "exact"
        rows = (0, 0, 0) if known else (1 if problem.stationary else problem.horizon, n, n_actions)
        counts = empty_counts(problem, rows) | {name: np.zeros(n, dtype=np.bool_) for name in ("known", "known_last")}
        return PolitexState(
            total=np.zeros(shape),
            **counts,
            eta=self.eta(problem, episodes),
            model=model_behind(problem).model if known else None,
        )

    def plan(self, state: PolitexState, s1: State, lam: float) -> Plan:
        """The exponential weights for this start; the current multiplier does not enter, only past ones."""
        check_multiplier(lam)
        total = self._total(state, s1)
        policy = np.empty(total.shape)
        exponential_weights(total, state.eta, policy)
        q_r, q_c = self._values(state, policy)
        v_r, v_c = float(policy[0, s1] @ q_r[0, s1]), float(policy[0, s1] @ q_c[0, s1])
        return Plan(policy, min(max(v_r, 0.0), float(len(policy))), min(max(v_c, 0.0), 1.0))

    def update(self, state: PolitexState, round: Round) -> PolitexState:
        """Learn what the episode showed, then add the values of the policy that was played."""
        if state.model is None:
            state.absorb(round.episode)
        q_r, q_c = self._values(state, round.plan.policy)
        q_c *= round.lam
        q_r -= q_c
        total = self._total(state, round.s1)
        total += q_r
        return state

    def eta(self, problem: Problem, episodes: int) -> float:
        """The step size that is best for K rounds of values within an interval of length H + B."""
        check_episodes(episodes, self.name)
        return sqrt(8.0 * log(problem.n_actions) / episodes) / (problem.horizon + bound_of(self))

    def proof(self, problem: Problem) -> Proof:
        """Multipliers within [0, B], from which its step size is made."""
        return Proof(largest_multiplier=bound_of(self))

    def primal_regret_bound(self, problem: Problem, episodes: int, rounds: int) -> PrimalRegretBound | None:
        """See `statement`; that of all K rounds, whose step size it has."""
        most = self.statement(problem, episodes).constants.get("primal_regret_bound")
        return None if most is None else PrimalRegretBound(float(most))

    def delayed_regret_bound(self, problem: Problem, episodes: int, ages: PlanAges) -> PrimalRegretBound | None:
        """The same, and H eta (H + B)^2 / 4 for each round that a plan lacks, where plans are for their own starts.

        Values lie in an interval of length H + B. A sum that lacks m of them is off by at most m (H + B) / 2 around
        some number, weights by eta times that (summed over actions), and the mean of values by (H + B) / 2 times that.
        """
        without = self.primal_regret_bound(problem, episodes, len(ages.delays))
        if without is None:
            return None
        if not ages.own_start.all():
            raise NotCertifiable("The regret bound of politex is for plans that are made for the start of their round.")
        horizon, reach = problem.horizon, problem.horizon + bound_of(self)
        lacking = self.eta(problem, episodes) * reach * reach / 4 * float(ages.delays.sum())
        return PrimalRegretBound(without.most + horizon * lacking)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Proved for exact values and one start per sum: R_p <= (n + 1) H (H + B) sqrt(K ln A / 8) for n starts.

        Per sum and step exponential weights lose at most ln A / eta + eta (H + B)^2 K_n / 8 over its K_n rounds.
        """
        eta = self.eta(problem, episodes)
        constants: dict[str, float | str | bool] = {"eta": eta, "B": bound_of(self), "model": self.model}
        constants |= {"scale": self.scale, "copies": self.copies}
        trap = (
            "values are summed over episodes from different starts, whose multipliers differ: resets can grow linearly "
            "(politex-trap-v0)"
        )
        if self.model == "counts":
            lacks = "values are estimated with a tuned bonus" + ("" if self.copies else "; where starts vary, " + trap)
            return Statement(constants, False, f"no theorem covers this run: {lacks}")
        n_starts = int(reachable_starts(model_behind(problem)).states.sum())
        if n_starts > 1 and not self.copies:
            return Statement(constants, False, f"no theorem covers this run: {trap}")
        horizon, root = problem.horizon, sqrt(episodes * log(problem.n_actions) / 8.0)
        constants["primal_regret_bound"] = (n_starts + 1) * horizon * (horizon + bound_of(self)) * root
        why = "exponential weights per start on exact values (given the model), for multipliers in [0, B]"
        return Statement(constants, True, why)

    def _total(self, state: PolitexState, s1: State) -> Floats:
        """[H, S, A] the sum that this start plays from."""
        return np.asarray(state.total[s1 if self.copies else 0])

    def _values(self, state: PolitexState, policy: Floats) -> tuple[Floats, Floats]:
        """Q_r and Q_c [H, S, A] of a policy, true or estimated."""
        q_r, q_c = np.empty(policy.shape), np.empty(policy.shape)
        if state.model is not None:
            true_values(state.model, policy, q_r, q_c)
        else:
            counted_values(state.counts, state.n_transitions, self.scale, policy, q_r, q_c)
        return q_r, q_c


@dataclass
class UCRL2State:
    """Counts now, and as they were when the epoch began."""

    seen: Counted
    frozen: Counted
    t: int  # steps before the epoch
    steps: int  # steps so far
    epoch: int  # counted from 1
    horizon: int = field(metadata={"saved": False})


@dataclass(frozen=True)
class UCRL2(PrimalPlayer[UCRL2State]):
    """UCRL2 for episodes of H steps without resets in between: the best policy in the best plausible model.

    Extended value iteration over H steps on r - lam c, with frozen counts within an epoch.

    scale: factor on both radii; 1 is the original.  delta: its failure probability.
    pooled: one set of counts for all steps, as in the original (stationary problems).

    >>> import resetfree as rf
    >>> player = UCRL2()
    >>> state = player.init(rf.make("grid-v0").problem(), 10, 0)
    >>> player.plan(state, 0, 0.0).v_r  # nothing is known, so everything is possible
    8.0
    """

    name: ClassVar[str] = "ucrl2"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "none"
    scale: Annotated[float, Range(0, 1e100)] = 1.0
    delta: Annotated[float, Range(above=0, most=1)] = 0.05
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> UCRL2State:
        """No data yet."""
        seen = Counted.nothing(problem, self.pooled, self.name)
        return UCRL2State(seen, seen.copy(), t=0, steps=0, epoch=1, horizon=problem.horizon)

    def plan(self, state: UCRL2State, s1: State, lam: float) -> Plan:
        """One pass on the epoch's counts; it has no estimate of V_c of its own, and v_c = 0 promises nothing."""
        lam = check_multiplier(lam)
        n_states = state.frozen.tried.shape[1]
        policy, v = np.empty((state.horizon, n_states), dtype=np.int16), np.empty(n_states)
        factor_p, factor_r = self.factors(state)
        extended_plan(state.frozen.counts, state.frozen.n_transitions, factor_p, factor_r, lam, policy, v)
        upper = float(v[s1])
        return Plan(policy, min(max(upper, 0.0), float(state.horizon)), 0.0, upper)

    def update(self, state: UCRL2State, round: Round) -> UCRL2State:
        """Count; a new epoch begins when some pair was tried as often in this one as in all before."""
        state.seen.absorb(round.episode)
        state.steps += len(round.episode.actions)
        before = state.frozen.tried
        if (state.seen.tried - before >= np.maximum(before, 1)).any():
            state.frozen, state.t, state.epoch = state.seen.copy(), state.steps, state.epoch + 1
        return state

    def factors(self, state: UCRL2State) -> tuple[float, float]:
        """The squared radii of transitions and rewards, times n."""
        n_states, n_actions = state.frozen.tried.shape[1:]
        t = max(state.t, 1)
        factor_p = 14.0 * n_states * log(2.0 * n_actions * t / self.delta)
        factor_r = 3.5 * log(2.0 * n_states * n_actions * t / self.delta)
        return self.scale**2 * factor_p, self.scale**2 * factor_r

    @staticmethod
    def methods() -> list[Method]:
        """Without and with a penalty for a reset; its width is a factor on its radii."""
        text = "L1 balls, extended value iteration, doubling epochs"
        return free_and_penalised("ucrl2", text, lambda s: UCRL2(**s.own), 54)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Its theorem is about another criterion."""
        why = "its theorem is about the average reward of a communicating stationary problem without resets"
        why += "" if self.scale == 1.0 else ", and with the radii as they were"
        return Statement({"scale": self.scale, "delta": self.delta, "pooled": self.pooled}, False, why)


@jit
def best_in_ball(row: Floats, radius: float, value: Floats, order: Ints) -> float:
    """Largest p.value over distributions p with |p - row|_1 <= radius; `order` sorts `value` upwards; `row` is changed.

    Half of the radius is put on the best state and taken off the worst ones: linear in S.
    """
    best = order[-1]
    moved = min(1.0 - row[best], radius / 2.0)
    row[best] += moved
    for j in order[:-1]:
        if moved <= 0.0:
            break
        taken = min(row[j], moved)
        row[j] -= taken
        moved -= taken
    total = 0.0
    for s in range(len(row)):
        total += row[s] * value[s]
    return total


@jit
def extended_plan(
    c: Counts,
    n_transitions: int,
    factor_p: float,
    factor_r: float,
    lam: float,
    policy: NDArray[np.int16],  # [H, S] out
    v: Floats,  # [S] out, at step 1: an upper bound on max V_r - lam V_c where the confidence set holds the truth
) -> None:
    """Backward induction on r - lam c; a pair that was never tried pays 1 and leads to the best state."""
    horizon, n_states = policy.shape
    n_actions = c.tried.shape[2]
    after, row = np.zeros(n_states), np.empty(n_states)
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        is_reset = c.known_last if h == n_transitions - 1 else c.known
        for s in range(n_states):
            if h < n_transitions and is_reset[s]:
                after[s] = -lam
        order = np.argsort(after)
        for s in range(n_states):
            v[s], policy[h, s] = -np.inf, 0
            for a in range(n_actions):
                n = c.tried[layer, s, a]
                q = 1.0 if n == 0 else min(c.earned[layer, s, a] / n + sqrt(factor_r / n), 1.0)
                moves = c.moved[layer, s, a]
                if h < n_transitions and moves == 0:
                    q += after[order[-1]]
                elif h < n_transitions:
                    row[:] = 0.0
                    for j in range(c.seen.shape[3]):
                        if c.seen[layer, s, a, j] == 0:
                            break
                        row[c.successor[layer, s, a, j]] = c.seen[layer, s, a, j] / moves
                    q += best_in_ball(row, sqrt(factor_p / moves), after, order)
                if q > v[s]:
                    v[s], policy[h, s] = q, a
        after[:] = v
