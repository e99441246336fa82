"""Exact answers in rational arithmetic, in plain loops to be read: the third way, for small problems.

Legend: L layers (1 or H), S states, A actions, h from 0; V_r expected reward until a reset or the end; V_c
probability of a reset; y a multiplier; a state is feasible if its least V_c, computed as a number, is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import NamedTuple, TypeAlias

from numpy.typing import ArrayLike

from resetfree.core import AssumptionViolated, InvalidInput, NotCertifiable
from resetfree.problems import FiniteMDP
from resetfree.problems.finite.tabular_policy import check_policy
from resetfree.problems.finite.transitions import simplest_fraction

LARGEST = 200_000  # row entries times steps; beyond this, rational arithmetic takes minutes
ZERO, ONE = Fraction(0), Fraction(1)
Row: TypeAlias = list[tuple[int, Fraction]]


@dataclass(frozen=True)
class ExactModel:
    """A finite problem in fractions."""

    rows: list[list[list[Row]]]  # [L][S][A] successors and their probabilities; empty for reset states
    reward: list[list[list[Fraction]]]  # [1 or H][S][A]
    reset: list[bool]  # [S]
    last_reset: list[bool]  # [S] the reset set on arrival in the last state of an episode
    horizon: int
    n_transitions: int

    @property
    def n_states(self) -> int:
        """How many states there are."""
        return len(self.reset)

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return len(self.reward[0][0])

    def act(self, h: int, s: int, a: int, next_r: Sequence[Fraction], next_c: Sequence[Fraction]) -> Pair:
        """V_r and V_c of taking a in s at step h, when `next_r`, `next_c` [S] follow."""
        q_r, q_c = self.reward[h % len(self.reward)][s][a], ZERO
        if h < self.n_transitions:
            is_reset = self.last_reset if h == self.n_transitions - 1 else self.reset
            for t, p in self.rows[h % len(self.rows)][s][a]:
                q_r += ZERO if is_reset[t] else p * next_r[t]
                q_c += p if is_reset[t] else p * next_c[t]
        return Pair(q_r, q_c)


class Pair(NamedTuple):
    """Expected reward and reset probability of one choice."""

    v_r: Fraction
    v_c: Fraction


class ExactValues(NamedTuple):
    """The values of a policy from every start; a reset state has value 0 and cost 1."""

    v_r: list[Fraction]  # [S]
    v_c: list[Fraction]  # [S]


Act: TypeAlias = Callable[[int], Pair]  # what an action leads to, in some state at some step


@dataclass(frozen=True)
class ExactSolution:
    """The solution for every start; None where it does not exist."""

    value: list[Fraction | None]  # [S] V*, None where infeasible
    lambda_hat: list[Fraction | None]  # [S] least optimal multiplier, None where infeasible or not requested
    policy: list[list[int]]  # [H][S]
    feasible: list[bool]  # [S]
    least_cost: list[list[Fraction]]  # [H+1][S] least reset probability from each step on; after the last, all 0


def exact_model(mdp: FiniteMDP) -> ExactModel:
    """Read every float of a problem as the fraction it represents.

    A row whose simplest fractions sum to one is that row; any other row is its floats as they are, divided by their
    sum. Rewards are simplest fractions.

    Raises InvalidInput if the problem is too large, NotCertifiable if a possible successor has probability 0.0.

    >>> import resetfree as rf
    >>> exact_model(rf.make("grid-v0")).rows[0][0][3]
    [(0, Fraction(1, 10)), (1, Fraction(4, 5)), (4, Fraction(1, 10))]
    """
    t = mdp.transition
    size = t.nnz // t.n_layers * mdp.horizon
    if size > LARGEST:
        raise InvalidInput(
            f"Exact fractions are for problems of at most {LARGEST} row entries times steps. Got {size} instead."
        )

    def row(layer: int, s: int, a: int) -> Row:
        successors, floats = t.row(layer, s, a)
        if mdp.reset[s]:
            return []
        if (floats == 0.0).any():
            raise NotCertifiable(
                "Exact fractions need the probability of every possible successor. "
                f"Got 0.0 in state {mdp.state_names[s]}, action {mdp.action_names[a]} instead."
            )
        return list(zip(successors.tolist(), distribution(floats.tolist()), strict=True))

    pairs = [[(s, a) for a in range(mdp.n_actions)] for s in range(mdp.n_states)]
    rows = [[[row(layer, *pair) for pair in of_state] for of_state in pairs] for layer in range(t.n_layers)]
    reward = [[[simplest_fraction(x) for x in of_state] for of_state in step] for step in mdp.reward.tolist()]
    return ExactModel(
        rows, reward, mdp.reset.tolist(), mdp.last_reset.tolist(), horizon=mdp.horizon, n_transitions=mdp.n_transitions
    )


def distribution(floats: list[float]) -> list[Fraction]:
    """The simplest fractions of a row if they sum to one, else its floats divided by their sum."""
    simple = [simplest_fraction(x) for x in floats]
    if sum(simple) == 1:
        return simple
    exact = [Fraction(x) for x in floats]
    total = sum(exact)
    return [x / total for x in exact]


def solve_exactly(mdp: FiniteMDP, starts: Sequence[int] | None = None) -> ExactSolution:
    """V*, pi* and multipliers as fractions; feasibility is the number min_pi V_c being zero.

    Paper: pi*, hat lambda, V_{r,1}^{pi*}.

    starts: states for which `lambda_hat` is computed (default: every feasible one).
    Raises AssumptionViolated for a start without a reset-free policy, and what `exact_model` raises.

    >>> import resetfree as rf
    >>> exact = solve_exactly(rf.make("grid-v0"), starts=[2])
    >>> exact.value[2], exact.lambda_hat[2]
    (Fraction(98424317, 50000000), Fraction(47333079, 1250000))
    """
    model = exact_model(mdp)
    n = model.n_states
    policy = [[0] * n for _ in range(model.horizon)]

    def safest(h: int, s: int, act: Act) -> Pair:
        choices = [act(a) for a in range(model.n_actions)]
        policy[h][s] = min(range(model.n_actions), key=lambda a: (choices[a].v_c, -choices[a].v_r))
        return choices[policy[h][s]]

    steps = _backward(model, safest)
    feasible = [c == 0 for c in steps[0].v_c]
    value = [r if ok else None for r, ok in zip(steps[0].v_r, feasible, strict=True)]
    wanted = [s for s in range(n) if feasible[s]] if starts is None else [int(s) for s in starts]
    lambda_hat: list[Fraction | None] = [None] * n
    for s in wanted:
        best_safe = value[s] if 0 <= s < n else None
        if best_safe is None:
            why = f"No reset-free policy exists from state {s}: it has no multiplier."
            raise AssumptionViolated(why, assumption="feasibility", witness=s)
        lambda_hat[s] = _newton(model, s, best_safe)
    return ExactSolution(value, lambda_hat, policy, feasible, [step.v_c for step in steps])


def _backward(model: ExactModel, choose: Callable[[int, int, Act], Pair]) -> list[ExactValues]:
    """[H+1] the values from each step on; choose(h, s, act): what is played in s at step h, of act(a) for all a."""
    n = model.n_states
    steps = [ExactValues([ZERO] * n, [ZERO] * n)]
    for h in reversed(range(model.horizon)):
        now = ExactValues([ZERO] * n, [ONE] * n)
        for s in range(n):
            if not model.reset[s]:
                act = partial(model.act, h, s, next_r=steps[0].v_r, next_c=steps[0].v_c)
                now.v_r[s], now.v_c[s] = choose(h, s, act)
        steps.insert(0, now)
    return steps


def _newton(model: ExactModel, s: int, value: Fraction) -> Fraction:
    """The least root of F(y) = max_pi V_r - y V_c - V*, which is convex, piecewise linear and never negative.

    Where F(y) > 0 the maximiser has V_c > 0, and its line F(y) - V_c (y' - y) <= F(y') meets zero at or before the
    root. At that point either F is zero, or another policy with a smaller V_c is the maximiser: the loop ends.
    """
    y = ZERO
    while True:
        v_r, v_c = best_lagrangian(model, y)
        above = v_r[s] - y * v_c[s] - value
        if above == 0:
            return y
        y += above / v_c[s]


def best_lagrangian(model: ExactModel, y: Fraction) -> ExactValues:
    """V_r and V_c of the policy that maximises V_r - y V_c over all policies; ties go to the smaller V_c."""

    def best(h: int, s: int, act: Act) -> Pair:
        return max(map(act, range(model.n_actions)), key=lambda q: (q.v_r - y * q.v_c, -q.v_c))

    return _backward(model, best)[0]


def exact_policy(mdp: FiniteMDP, policy: ArrayLike) -> list[list[list[Fraction]]]:
    """[H][S][A] a policy in fractions; its rows are read as `exact_model` reads a problem's."""
    return [[distribution(row) for row in step] for step in check_policy(policy, mdp).tolist()]


def evaluate_exactly(mdp: FiniteMDP, policy: ArrayLike) -> ExactValues:
    """V_r and V_c of a Markov policy as fractions; its rows are read as `exact_model` reads a problem's.

    Paper: value function V_{r,1}^pi, V_{c,1}^pi.

    policy: any form that `as_policy` accepts; every row must be a distribution (InvalidInput otherwise).
    """
    rows = exact_policy(mdp, policy)

    def average(h: int, s: int, act: Act) -> Pair:
        weighted = [(weight, act(a)) for a, weight in enumerate(rows[h][s]) if weight]
        return Pair(sum((w * q.v_r for w, q in weighted), ZERO), sum((w * q.v_c for w, q in weighted), ZERO))

    return _backward(exact_model(mdp), average)[0]
