"""The game with plans that are old: what stays of the reduction and of the players' bounds, each with its proof.

Legend: S_j the players' states after rounds 1 .. j; round k is played with the plan of j = based_on_k < k, which is a
multiplier lam^k and a policy pi^k made from S_j alone; its delay is d_k = k - 1 - based_on_k, and d the largest.
g_k in [0, 1] the cost signal of round k, x_k = xi(s_1^k) g_k its gradient, theta_j the dual player's parameter in S_j,
u a comparator with lambda_c(s) = <xi(s), u>, U a convex set of parameters.

The reduction (`played`) and the number of resets of support elimination (`before_resets`) hold for plans of any age.
Of the two players' regrets (which player has which: docs/readings.md, "Plans that are old"):
  dual, any whose bound holds for every sequence of signals: `lateness_cost` is added, computed from the record. Proved.
  dual, gradient steps: beforehand, `missed_steps`. Proved. For other players nothing is claimed beforehand.
  dual, a bound of each round by itself (`DualPlayer.each_round`): nothing is added. Proved by the player.
  primal, least squares or counts with optimism: `doubled_rounds` of regret at most H + B, and sqrt(2) before the sum of
    the widths. Proved, and used where the bound without delay is known; other players claim no regret at all.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from resetfree.core import Bools, Floats, Ints, InvalidInput
from resetfree.problems import FiniteMDP
from resetfree.theory.regret import Rounds, exact_rounds


def delays(based_on: ArrayLike) -> Ints:
    """[K] d_k = k - 1 - based_on_k: the rounds that were over and that the plan of round k did not rest on.

    >>> delays([0, 0, 1, 3]).tolist()
    [0, 1, 1, 0]
    """
    on = np.asarray(based_on)
    if on.ndim != 1 or on.dtype.kind not in "iu" or not ((on >= 0) & (on <= np.arange(len(on)))).all():
        raise InvalidInput("The 'based_on' of each round k must be one of the rounds 0 .. k - 1. Got others instead.")
    return np.arange(len(on)) - on.astype(np.int64)


def played(mdp: FiniteMDP, plans: Sequence[tuple[ArrayLike, float]], based_on: ArrayLike, starts: ArrayLike) -> Rounds:
    """The rounds of a game with delay, evaluated exactly: what `theorems.reduction` takes.

    Theorem. Let every start be feasible. For ANY policies pi^k and numbers lam^k, of whatever age, with R_p and R_d
    those of the policies and numbers that were PLAYED, at the starts at which they were played,
        Regret <= R_p(pi*) + R_d(0)  and  Resets <= R_p(pi*) + R_d(lambda*).
    Proof. V_c of pi* is zero at every feasible start, so that each round adds V* - V_r^{pi^k} + lam^k V_c^{pi^k} to
    R_p(pi*) and (lambda_c - lam^k) V_c^{pi^k} to R_d(lambda_c). The numbers lam^k cancel: the sum is
    Regret + sum lambda_c(s_1^k) V_c^{pi^k}, which is Regret for lambda_c = 0. For lambda* = lambda_hat + 1 it is
    sum (V* - V_r^{pi^k} + lambda_hat V_c^{pi^k}) + Resets, and each term of the sum is at least 0, because
    (pi*, lambda_hat) is a saddle-point. Neither the order in which policies were found nor the start that they were
    planned for enters. (It fails with the regrets of another sequence, such as the plans that were new at the time.)

    plans: j = 0, 1, ..: policy (see `as_policy`) and multiplier of each plan.  based_on: [K].  starts: [K].
    """
    delays(based_on)
    rest = [plans[int(j)] for j in np.asarray(based_on)]
    return exact_rounds(mdp, [policy for policy, _ in rest], [lam for _, lam in rest], starts)


def before_resets(based_on: ArrayLike, reset: ArrayLike) -> Bools:
    """[K] whether a round was played with a plan from before the newest reset; a game that waits has no such round.

    Theorem. Let Assumption 1 hold, and let support elimination play rounds with plans of any age that rest on the
    newest reset before the round. Then no more resets happen than there are unsafe pairs (s, a), or triples (h, s, a)
    where steps are kept apart, on every path.
    Proof. Let E_j be the pairs that S_j excludes. Data only add edges and reset states, so that E_j grows with j; every
    pair in E_j is truly unsafe; and W_j, the states that S_j holds to be safe, contains all that are. Suppose that
    round k ends in a reset, with the plan of j. Its start is feasible, hence in W_j. Inside W_j the plan takes no pair
    of E_j; so at the first step out of W_j, or at the last one, a pair p outside of E_j led to a state outside of W_j
    or to the reset state. This edge is known in S_k, where its end is excluded as well (W_k is within W_j), so that p
    is in E_k and not in E_j. Let k' be the reset before k. As j >= k', E_j contains E_{k'}: p is in E_k and not in
    E_{k'}. So each reset has a pair of its own among the unsafe ones. (Rounds between resets may exclude more pairs in
    the meantime, which the plan does not know: the argument does not count those.)

    A plan from before k' may take the pair that was fatal in k' again, up to d times: there the bound fails.

    >>> before_resets([0, 0, 1, 3], [False, True, False, True]).tolist()
    [False, False, True, False]
    """
    on, k = np.asarray(based_on), np.arange(len(np.asarray(reset)))
    newest = np.maximum.accumulate(np.append(0, np.where(reset, k + 1, 0)))[:-1]  # before each round
    return np.asarray(on < newest)


def falls_of_fleet(based_on: ArrayLike, reset: ArrayLike) -> tuple[Bools, Bools]:
    """[K] falls that were news, and [K] rounds that were under way when such a fall became known: of a fleet.

    A fall is news if its plan rests on the newest fall before it that was news.
    Theorem. Let Assumption 1 hold, and let n machines play support elimination, with one learner that learns rounds in
    the order in which they are over, and plans that rest on all rounds that were over when their episode began. Then on
    every path no more falls are news than there are unsafe pairs (s, a), or triples (h, s, a) where steps are kept
    apart; so all machines together fall at most as often as that, and once more for each episode that was under way
    when a fall that was news became known; there are at most n - 1 of these for each.
    Proof. Let k_1 < k_2 < .. be the falls that are news. As in `before_resets`, whose proof takes one episode at a time
    and nothing from the order of starts, fall k_i with the plan of j_i has a pair p_i in E_{k_i} and not in E_{j_i}. As
    j_i >= k_{i-1}, E_{j_i} contains E_{k_{i-1}}, hence p_1, .., p_{i-1}: all p_i differ, and all are unsafe. Any other
    fall k has a plan of j < k_i < k for the newest k_i before it: its episode had begun when k_i was over, and was not
    over. Of n machines at most n - 1 others are under way then.

    >>> news, late = falls_of_fleet([0, 0, 0, 2, 2], [True, True, False, True, True])
    >>> news.tolist(), late.tolist()
    ([True, False, False, True, False], [False, True, True, False, True])
    """
    on, fell = np.asarray(based_on), np.asarray(reset, dtype=np.bool_)
    news, late, newest = np.zeros(len(on), dtype=np.bool_), np.zeros(len(on), dtype=np.bool_), 0
    for k in range(len(on)):
        late[k] = on[k] < newest
        if fell[k] and not late[k]:
            news[k], newest = True, k + 1
    return news, late


def lateness_cost(fresh: ArrayLike, lam: ArrayLike, signals: ArrayLike) -> Floats:
    """[K] sum_{i <= k} (f_i - lam^i) g_i, where f_i = lambda(S_{i-1}, s_1^i) is what a new plan would have played.

    Theorem. Let a dual player's bound on sum (lambda_c(s_1^i) - f_i) g_i hold for every sequence of starts and signals,
    however they were chosen, and let its states depend on starts and signals alone. Then its online regret with plans
    of any age, for whatever starts they were made, is at most that bound plus this sum.
    Proof. S_{i-1} is what the player would be after these starts and signals in a game without delay, so that the bound
    applies to the f_i; and (lambda_c - lam^i) g_i = (lambda_c - f_i) g_i + (f_i - lam^i) g_i.
    Corollary. With realised costs, plans that rest on every reset, and a player whose multiplier is the same at all
    starts and does not change in rounds with g = 0, the sum is 0: since the round that the plan rests on no cost came.

    >>> lateness_cost([1.0, 2.0], [0.0, 1.5], [1.0, 1.0]).tolist()
    [1.0, 1.5]
    """
    new, old, g = (np.asarray(column, dtype=np.float64) for column in (fresh, lam, signals))
    return np.cumsum((new - old) * g)


def missed_steps(sizes: ArrayLike, steps: ArrayLike, based_on: ArrayLike) -> Floats:
    """[K] sum_{i <= k} |x_i| sum_{based_on_i < l < i} b_l: what the lateness of gradient steps costs at most.

    Theorem. Let theta_l = P_U(theta_{l-1} + eta_l x_l) with eta_l |x_l| <= b_l, and lam = clip(<xi(s), theta>, 0, B).
    Then sum_{i <= k} (f_i - clip(<xi(s_1^i), theta_{based_on_i}>)) g_i is at most this.
    Proof. P_U moves no two points apart, so |theta_l - theta_{l-1}| <= b_l; f_i is played with theta_{i-1}, which is
    at most sum_{based_on_i < l < i} b_l away from theta_{based_on_i}; neither does clip move numbers apart, and
    |<xi, theta - theta'>| g <= |x| |theta - theta'|.

    With gradients up to G this is eta G^2 sum d_i for one step size eta (see `fixed_step`), and at most
    2 d B G^2 sqrt(k) for eta_l = B / sqrt(l): step l is missed by rounds l < i <= l + d_i only, hence by at most d of
    them, and sum_{l < k} 1 / sqrt(l) <= 2 sqrt(k). (Each round by itself misses at most d_i / sqrt(based_on_i + 1), but
    these add up to more than that: to d (d + 1) / 2 where d + 1 rounds are played with the first plan.) A multiplier
    that was made for another start adds (lambda(theta_j, s_1^i) - lam^i) g_i, nothing where xi = 1.

    sizes: [K] |x_k|.  steps: [K] b_k.

    >>> missed_steps([1.0, 1.0, 1.0], [0.5, 0.25, 0.0], based_on=[0, 0, 0]).tolist()
    [0.0, 0.5, 1.25]
    """
    late = delays(based_on)
    until = np.append(0.0, np.cumsum(np.asarray(steps, dtype=np.float64)))
    k = np.arange(len(late))
    return np.cumsum(np.asarray(sizes, dtype=np.float64) * (until[k] - until[k - late]))


def fixed_step(size: float, eta: float, largest: float, based_on: ArrayLike) -> Floats:
    """[K] |u|^2 / (2 eta) + eta G^2 (k / 2 + sum_{i <= k} d_i): the regret of gradient steps eta with delays d_i.

    Proof. With new plans |theta_k - u|^2 <= |theta_{k-1} - u|^2 - 2 eta <x_k, u - theta_{k-1}> + eta^2 |x_k|^2, from
    theta_0 = 0, adds up to |u|^2 / (2 eta) + (eta / 2) sum |x_k|^2; `lateness_cost` and `missed_steps` with b_l = eta G
    add eta G^2 sum d_i.
    (As Quanrud and Khashabi, 2015, for delayed gradients; here states learn all rounds in order and plans are late.)

    size: |u|.  largest: G.

    >>> fixed_step(1.0, 0.5, 1.0, [0, 0, 0]).tolist()
    [1.25, 2.0, 3.25]
    """
    late = delays(based_on)
    k = np.arange(1, len(late) + 1)
    return np.asarray(size / (2 * eta) * size + eta * largest**2 * (k / 2 + np.cumsum(late)))


def doubled_rounds(largest_delay: int, log_growth: float) -> float:
    """In at most d log2(m_K / m_0) rounds k is m_{k-1} > 2 m_j, j = based_on_k, for positive m that never fall.

    Proof. Let k_1 be the first such round, k_{n+1} the first one with based_on >= k_n - 1. Then m_{k_n - 1} >
    2 m_{based_on} >= 2 m_{k_{n-1} - 1}, so there are at most log2(m_K / m_0) of them. Each other such round k lies
    after some k_n and has based_on_k < k_n - 1, hence k_n < k < k_n + d_k: with k_n itself at most d rounds.

    Use. m = det of the regularised sum of phi phi^T at one step: where it has not doubled, widths |phi| in S_j are at
    most sqrt(2) times those in S_{k-1}, which add up as without delay; for a pair that was tried n >= 1 times, m = n.
    Which rounds have doubled is known before they are played, so that martingales stay martingales.

    largest_delay: d.  log_growth: ln(m_K / m_0).

    >>> round(doubled_rounds(3, np.log(16)), 9)
    12.0
    """
    return float(largest_delay * log_growth / np.log(2.0))
