"""Regret, Resets and the two players' regrets, as cumulative sums over rounds, and what rewards compare with.

Legend: K rounds; s1 the start of a round, lam its multiplier lambda^k(s_1^k), v_r and v_c the exact values of its
policy pi^k at s1; L^k(pi, lambda) = V_r^pi(s_1^k) - lambda(s_1^k) V_c^pi(s_1^k).
Entry k-1 of a sum is that over the first k rounds, never clipped. Regret can be negative: an unsafe policy earns more.

The paper's comparator is the best policy that is never reset, over one episode from where it begins. `possible` adds
the one that has for ever: a learner in a poor place may earn all of the first and little of the second.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resetfree.core import AssumptionViolated, Floats, InvalidInput, NotCertifiable, expect
from resetfree.core.readable import number
from resetfree.problems import FiniteMDP
from resetfree.problems.finite.mdp import check_start
from resetfree.theory.oracle.dynamic_programming import Solution, Values, evaluate
from resetfree.theory.oracle.nodes import AtStarts

Solved: TypeAlias = Solution | AtStarts  # on a continuum the starts of rounds are numbered, and s1 are the numbers


@dataclass(frozen=True, eq=False)
class Rounds:
    """What every quantity of the reduction is made of: K starts, multipliers and exact values."""

    s1: NDArray[Any]  # [K] starts
    lam: Floats  # [K] multipliers played at the starts
    v_r: Floats  # [K] expected reward of the policy played, from its start
    v_c: Floats  # [K] reset probability of the policy played, from its start

    def __post_init__(self) -> None:
        for name in ("s1", "lam", "v_r", "v_c"):
            array = np.asarray(getattr(self, name), dtype=None if name == "s1" else np.float64)
            if array.ndim < 1 or (name != "s1" and array.ndim > 1) or len(array) != len(np.atleast_1d(self.s1)):
                raise InvalidInput(
                    f"The '{name}' of Rounds must have one entry per round. Got shape {array.shape} instead."
                )
            if name != "s1" and not np.isfinite(array).all():
                raise InvalidInput(f"The '{name}' of Rounds must be finite. Got a number that is not instead.")
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.lam)


def exact_rounds(mdp: FiniteMDP, policies: Iterable[ArrayLike], multipliers: ArrayLike, starts: ArrayLike) -> Rounds:
    """Rounds whose policies are evaluated exactly.

    policies: K policies (see `as_policy`); one that is the same object as its predecessor is not evaluated again.
    multipliers: [K], or one number for all rounds.  starts: [K].

    >>> import resetfree as rf
    >>> mdp = rf.make("grid-v0")
    >>> sol = rf.solve(mdp)
    >>> rounds = exact_rounds(mdp, [sol.policy] * 3, 0.0, [0, 3, 11])
    >>> regret(rounds, sol).tolist(), resets(rounds).tolist()
    ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    """
    states = np.asarray(starts, dtype=np.int64)
    expect(states.ndim == 1, "'starts' of exact_rounds", "have shape [K]", got=f"{states.shape}")
    for s in np.unique(states):
        check_start(mdp, s)
    v_r, v_c = np.empty(len(states)), np.empty(len(states))
    last: object = None
    values: Values | None = None
    k = 0
    for policy in policies:
        expect(k != len(states), "'policies' of exact_rounds", "be one per start", got=f"more than {k}")
        if values is None or policy is not last:
            values, last = evaluate(mdp, policy), policy
        v_r[k], v_c[k] = values.v_r[states[k]], values.v_c[states[k]]
        k += 1
    if k < len(states):
        raise InvalidInput(f"The 'policies' of exact_rounds must be one per start, {len(states)}. Got {k} instead.")
    lam = np.asarray(multipliers, dtype=np.float64)
    return Rounds(states, np.full(len(states), lam) if lam.ndim == 0 else lam, v_r, v_c)


def regret(rounds: Rounds, solution: Solved) -> Floats:
    """[K] Regret(k) = sum_{i <= k} V*(s_1^i) - V_r^{pi^i}(s_1^i).

    Paper: Regret(K).
    """
    return np.cumsum(best_values(rounds, solution) - rounds.v_r)


def resets(rounds: Rounds) -> Floats:
    """[K] Resets(k) = sum_{i <= k} V_c^{pi^i}(s_1^i): expected, given the policies and starts, not realised.

    Paper: Resets(K).
    """
    return np.cumsum(rounds.v_c)


def primal_regret(rounds: Rounds, comparator: Solved | Values) -> Floats:
    """[K] R_p(k) = sum_{i <= k} L^i(pi_c, lambda^i) - L^i(pi^i, lambda^i).

    Paper: regret of the primal player.

    comparator: pi* of a solution (its reset probability is exactly zero), or the values [S] of any policy pi_c.
    """
    if isinstance(comparator, Values):
        lagrangian = comparator.v_r[rounds.s1] - rounds.lam * comparator.v_c[rounds.s1]
    else:
        lagrangian = best_values(rounds, comparator)
    return np.cumsum(lagrangian - (rounds.v_r - rounds.lam * rounds.v_c))


def dual_regret(rounds: Rounds, comparator: ArrayLike | None = None, *, at_starts: ArrayLike | None = None) -> Floats:
    """[K] R_d(k) = sum_{i <= k} L^i(pi^i, lambda^i) - L^i(pi^i, lambda_c).

    Equal to sum_{i <= k} (lambda_c(s_1^i) - lambda^i(s_1^i)) V_c^{pi^i}(s_1^i).

    Paper: regret of the dual player.

    comparator: a multiplier function [S] over the states, or one number.  at_starts: or else its values [K] at the
    starts of the rounds.
    """
    if (comparator is None) == (at_starts is None):
        raise InvalidInput("dual_regret takes either 'comparator' or 'at_starts'. Got both or neither instead.")
    if at_starts is not None:
        values = np.asarray(at_starts, dtype=np.float64)
        if values.shape != (len(rounds),):
            raise InvalidInput(
                f"The 'at_starts' of dual_regret must have shape [{len(rounds)}]. Got {values.shape} instead."
            )
    else:
        function = np.asarray(comparator, dtype=np.float64)
        if function.ndim > 1 or (function.ndim == 1 and len(rounds) and rounds.s1.max() >= len(function)):
            raise InvalidInput(
                "The 'comparator' of dual_regret must be a number or have one entry per state. "
                f"Got shape {function.shape} instead."
            )
        values = np.asarray(function if function.ndim == 0 else function[rounds.s1])
    return np.cumsum((values - rounds.lam) * rounds.v_c)


def best_values(rounds: Rounds, solution: Solved) -> Floats:
    """[K] V*(s_1^k); a start that admits no reset-free policy breaks the paper's first assumption."""
    bad = ~solution.feasible[rounds.s1]
    if bad.any() and isinstance(solution, Solution):  # on a continuum every start is feasible
        k = int(np.argmax(bad))
        s = int(rounds.s1[k])
        why = (
            f"Round {k + 1} starts in state {solution.mdp.state_names[s]} (index {s}), from which no reset-free policy "
        )
        why += "exists: its regret is not defined."
        raise AssumptionViolated(why, assumption="feasibility", witness=s)
    return np.asarray(solution.value[rounds.s1])


# --------------------------------------------------------------------------------------------------------------------

LATE = 10  # the last such part of a run is what it had learned


class Possible(NamedTuple):
    """Rewards per episode of the best policies that are never reset; None where they are not known."""

    within_episode: float | None  # mean over the starts of the last tenth of the episodes
    long_run: float | None  # on average for ever, from the best of all places where an episode began


def possible(solution: Any, starts: NDArray[np.int64]) -> Possible:
    """What was possible in a run whose episodes began in these states.

    >>> import resetfree as rf
    >>> [round(one, 9) for one in possible(rf.solve(rf.make("grid-v0")), np.array([8] * 100))]  # on the small gold
    [2.4, 8.0]
    """
    if not isinstance(solution, Solution) or not len(starts):
        return Possible(None, None)
    within = float(np.mean(solution.value[starts[-max(1, len(starts) // LATE) :]]))
    try:
        found = solution.long_run.per_episode[np.unique(starts)]
    except NotCertifiable:
        found = np.full(1, np.nan)
    best = float(np.nanmax(found)) if not np.isnan(found).all() else None
    return Possible(None if np.isnan(within) else within, None if best is None else round(best, 12))


def in_words(reward: float, found: Possible) -> list[str]:
    """How much of what is possible a reward per episode is, as far as that is known.

    >>> in_words(2.4, Possible(2.4, 8.0))
    ['100 % of what is possible from there within an episode (2.4)', '30 % of what is possible in the long run (8)']
    """
    ways = (("from there within an episode", found.within_episode), ("in the long run", found.long_run))
    return [
        f"{100 * reward / best:.1f}".removesuffix(".0") + f" % of what is possible {way} ({number(best, 4)})"
        for way, best in ways
        if best is not None and best > 0
    ]
