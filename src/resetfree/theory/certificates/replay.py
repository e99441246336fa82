"""The dual player of a run, played again alone on what the run recorded, and what it is measured against.

Legend: g_k in [0, 1] the cost signal of round k, x_k = xi(s_1^k) g_k its gradient, theta_k what the player held, U its
set, u a comparator in U with the multiplier function lambda_c(s) = <xi(s), u>; D_k = max_{i <= k} |theta_i - u|.
In a game with delay the multiplier of round k is that of the state after round based_on_k, for the start of that plan.
"""

from math import hypot
from typing import Any, NamedTuple

import numpy as np

from resetfree.core.arrays import Floats, Ints
from resetfree.core.errors import NotCertifiable, ResetFreeError
from resetfree.game.capabilities import (
    ChoosesFunction,
    Comparator,
    DualHistory,
    DualReplay,
    MultiplierFunctions,
    TakesHints,
)
from resetfree.game.contract import DualPlayer, Plan, Round
from resetfree.problems.continuum import Continuum
from resetfree.problems.contract import Episode, Problem
from resetfree.theory.assumptions import dual_class, reachable_starts
from resetfree.theory.assumptions.multipliers import constant_multipliers
from resetfree.theory.certificates.record import Record, plan_ages

SLACK = 1e-9  # relative, what rounding may do to a norm


class DualStart(NamedTuple):
    """The dual player of a run before its first round."""

    problem: Problem
    player: DualPlayer[Any]
    state: Any

    @property
    def functions(self) -> MultiplierFunctions | None:
        """Among which it chooses; None where it has one multiplier for all starts."""
        player: Any = self.player
        return player.functions(self.state) if isinstance(player, ChoosesFunction) else None


class Farther(NamedTuple):
    """A comparator above lambda*."""

    against: Comparator
    margin: float  # how far it is above lambda_hat, at least, at every possible start
    times: float  # lambda*


def dual_start(run: Record) -> DualStart:
    """The dual player as it began. Nothing that a run file names is imported: see `statements`."""
    problem: Problem = run.problem_again()
    player: DualPlayer[Any] = run.player_again("dual")
    return DualStart(problem, player, player.init(problem, run.spec["episodes"], run.spec["seed"]))


def comparators(run: Record, begun: DualStart, lambda_hat: Floats | str) -> dict[str, Comparator | str]:
    """The multiplier functions 0 and lambda* by name, or why it cannot be one.

    begun: the dual player's start.  lambda_hat: [K] at the starts, or why it is not known.

    lambda* is the function of least norm in the player's class that is at least lambda_hat + 1 at every feasible start
    that any behaviour can bring about. It depends on the problem alone: one that is fitted to the starts that occurred
    would be chosen after the fact, and what holds with a stated probability holds for a comparator chosen before.
    """
    among = begun.functions
    zero = 0.0 if among is None else among.zero()
    found: dict[str, Comparator | str] = {"0": Comparator("0", zero, np.zeros(len(run)), 0.0)}
    if not isinstance(lambda_hat, str) and run.continuum is not None:
        return {**found, "lambda*": _on_continuum(run, begun, zero, run.continuum)}
    if isinstance(lambda_hat, str) or run.mdp is None:
        return {**found, "lambda*": str(lambda_hat)}
    s1 = run.columns["s1"].astype(np.int64)
    possible = reachable_starts(run.mdp).states
    if not possible[s1].all():
        k = int(np.argmin(possible[s1]))
        where = f"round {k + 1} starts in state {run.mdp.state_names[s1[k]]}"
        return {**found, "lambda*": f"{where}, where no behaviour starts an episode: lambda* is not known there"}
    finding = dual_class(run.mdp)
    if "largest_lambda_star" not in finding.detail:
        n, work = finding.detail["starts"], finding.detail["kernel_steps"]
        why = f"lambda* must cover all {n} possible starts, which would take about {work:.0e} steps"
        return {**found, "lambda*": why if n and "beyond_floats" not in finding.detail else finding.sentence}
    top = float(finding.detail["largest_lambda_star"])
    if among is None:
        return {**found, "lambda*": Comparator("lambda*", top, np.full(len(run), top), top)}
    if not finding.holds:
        return {**found, "lambda*": finding.sentence}
    theta = np.asarray(finding.detail["theta"], dtype=np.float64)
    u: Any = float(theta[0]) if isinstance(zero, float) else theta
    size, scale = hypot(*theta), float(np.abs(theta).max()) or 1.0  # in units of its largest entry no square overflows
    away = np.subtract(among.moved(u, int(s1[0]), 0.0) / scale, u / scale)
    if not hypot(*np.ravel(away)) <= SLACK * hypot(*(theta / scale)):  # P_U(u) is not u
        return {**found, "lambda*": f"lambda* needs |theta| = {size:.6g}, which is outside of the dual player's set"}
    values = np.full(len(possible), top) if run.mdp.xi is None else run.mdp.xi @ theta
    return {**found, "lambda*": Comparator("lambda*", u, values[s1], float(values[possible].max()))}


def farther(begun: DualStart, star: Comparator, s1: Any) -> Farther | None:
    """The largest multiple of lambda* that the dual player can be measured against; None if it is not above lambda*.

    A larger comparator is farther above lambda_hat, and Resets are divided by that: see `claims_rates`. It depends on
    the player's settings and the problem alone. Its margin is at least 1 + (t - 1) lambda*: lambda* >= lambda_hat + 1.

    begun: the dual player's start.  s1: any start, at which its multiplier before the first round is read.
    """
    among, player = begun.functions, begun.player
    t = 1.0
    if among is not None and star.size > 0:
        low, high = 1.0, 2.0
        while _inside(among, high, star, s1) and high < 1e12:
            low, high = high, 2.0 * high
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if _inside(among, middle, star, s1) else (low, middle)
        t = low * (1 - 10 * SLACK)  # inside, and not by rounding
    elif among is None and star.largest > 0:
        try:
            t = float(player.multiplier(begun.state, s1, _no_plans)) / star.largest
        except NotCertifiable:
            return None
    if not t > 1.01:
        return None
    constant = among is None or begun.problem.xi is None
    least = star.largest if constant else 1.0  # which lambda* is never below
    scaled = Comparator("farther", t * star.u, t * star.at_starts, t * star.largest)
    return Farther(scaled, 1.0 + (t - 1.0) * least, t)


def _inside(among: MultiplierFunctions, t: float, star: Comparator, s1: Any) -> bool:
    """Whether t times lambda* is one of the functions: the projection leaves it where it is."""
    u = t * star.u
    return bool(np.linalg.norm(np.subtract(among.moved(u, s1, 0.0), u)) <= SLACK * t * star.size)


def _on_continuum(run: Record, begun: DualStart, zero: Any, model: Continuum) -> Comparator | str:
    """The constant lambda* of a continuum, which is at least lambda_hat + 1 at every start that there is."""
    top, among = float(constant_multipliers(model).detail["B"]), begun.functions
    if among is not None and not isinstance(zero, float):
        return "lambda* on a continuum is known for xi = 1 only"
    if among is not None and abs(among.moved(top, 0, 0.0) - top) > SLACK * top:
        return f"lambda* needs |theta| = {top:.6g}, which is outside of the dual player's set"
    return Comparator("lambda*", top, np.full(len(run), top), top)


def replay(run: Record, begun: DualStart, against: list[Comparator]) -> DualReplay:
    """Play the dual player on the recorded starts, signals and resets; raises NotCertifiable if that is not enough."""
    problem, state = begun.problem, begun.state
    player: Any = begun.player
    chooses, expects = isinstance(player, ChoosesFunction), isinstance(player, TakesHints)
    c, n, finite, ages = run.columns, len(run), begun.problem.n_states is not None, plan_ages(run)
    made, lam, fresh, aged, hints = np.empty(n), np.empty(n), np.empty(n), np.full(n, np.nan), np.full(n, np.nan)
    thetas: list[Any] = []
    away = {comparator.name: np.empty(n) for comparator in against}
    farthest, last = dict.fromkeys(away, 0.0), None
    no_action: Ints = np.empty(0, dtype=np.int64)
    names = ("s1", "reset", "next_start", "reward", "v_r_hat", "v_c_hat", "upper", "cost_signal", "v_r", "v_c")
    for k, (s1, reset, end, reward, v_r_hat, v_c_hat, upper, signal, v_r, v_c) in enumerate(
        zip(*(c[name].tolist() for name in names), strict=True)
    ):
        played = made[k] = fresh[k] = player.multiplier(state, s1, _no_plans)
        theta = player.parameter(state) if chooses else None
        if ages is not None:
            j = int(ages.based_on[k])
            made[k] = player.multiplier(state, _plain(ages.made_for[k]), _no_plans)
            played = float(made[j])
            thetas.append(theta)
            aged[k] = player.functions(state).at(thetas[j], s1) if chooses else np.nan
        lam[k] = played
        for comparator in against:
            if theta is not None and theta is not last:
                distance = hypot(*np.ravel(np.subtract(theta, comparator.u)))
                farthest[comparator.name] = max(farthest[comparator.name], distance)
            away[comparator.name][k] = farthest[comparator.name]
        last = theta
        if expects:
            hints[k] = player.expected_cost(state, s1)
        episode = Episode(np.array([s1]), no_action, np.array([reward]), bool(reset), end)
        exact = (v_r, v_c) if np.isfinite(v_r) else None
        plan = Plan(None, v_r_hat, v_c_hat, upper)
        state = player.update(
            state, Round(k=k + 1, s1=s1, lam=played, plan=plan, episode=episode, cost_signal=signal, exact=exact)
        )
    xi2 = np.ones(n) if problem.xi is None or not finite else (problem.xi**2).sum(axis=1)[c["s1"].astype(np.int64)]
    g = c["cost_signal"]
    moves = {"distance": away, "squares": xi2 * g**2, "misses": xi2 * (g - hints) ** 2}
    return DualReplay(state, lam, fresh, aged, **moves)


def _plain(start: Any) -> Any:
    """A start as the problem gives it: numbers are plain."""
    return start.item() if isinstance(start, np.generic) else start


def _no_plans(lam: float) -> Plan:
    raise NotCertifiable("The dual player queries the primal player's plans; a record of rounds does not hold them.")


def dual_history(run: Record, begun: DualStart, against: list[Comparator]) -> DualHistory:
    """The dual player's inputs, and its replay or the reason it failed."""
    again: DualReplay | str
    try:
        again = replay(run, begun, against)
    except ResetFreeError as error:
        again = str(error)
    return DualHistory(begun.problem, run.spec["episodes"], run.spec["feedback"], run.columns["cost_signal"], again)
