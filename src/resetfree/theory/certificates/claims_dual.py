"""The dual player of a run played again alone, what its online regret is at most, and what is left without lambda*.

Legend: g_k in [0, 1] the cost signal of round k, x_k = xi(s_1^k) g_k its gradient, theta_k what the player held, U its
set, u a comparator in U with the multiplier function lambda_c(s) = <xi(s), u>; D_k = max_{i <= k} |theta_i - u|; online
regret = sum_{i <= k} (lambda_c(s_1^i) - lambda^i) g_i, which knows the signals only and not V_c; R_d the regret in
terms of V_c. In a game with delay the multiplier of round k is that of the state after round based_on_k, for the start
of that plan, and every bound has what that cost added (`theory.delay`).
"""

from contextlib import suppress
from math import hypot
from typing import Any, NamedTuple

import numpy as np

from resetfree.core import Floats, Ints, NotCertifiable, ResetFreeError
from resetfree.core.certificate import Certificate, Status, beside, over_rounds
from resetfree.game.capabilities import (
    BoundsOnlineRegret,
    CapsMultiplier,
    ChoosesFunction,
    Comparator,
    DualHistory,
    DualReplay,
    MovesBySteps,
    PlanAges,
    StatesOtherBounds,
    TakesHints,
)
from resetfree.game.contract import DualPlayer, MultiplierFunctions, Plan, Round
from resetfree.problems import Episode, Problem
from resetfree.problems.continuum import Continuum
from resetfree.theory.assumptions import constant_multipliers, dual_class, reachable_starts
from resetfree.theory.assumptions.linearity import nearest_multipliers
from resetfree.theory.certificates.claims_reduction import Truth
from resetfree.theory.certificates.record import TOLERANCE, Record, plan_ages
from resetfree.theory.delay import lateness_cost, missed_steps
from resetfree.theory.regret import Rounds, dual_regret, primal_regret, resets
from resetfree.theory.theorems import SIGNS

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


ALGEBRA = "holds for any multipliers, signals and policies: a check of arithmetic"
MISSED = "what old plans cost the dual player is at most the steps that they missed"


class DualSide(NamedTuple):
    """What is known of the dual player: its history, the comparators and the bounds, or the reason they are missing."""

    player: Any
    met: DualHistory | str
    against: dict[str, Comparator | str]
    bounds: dict[str, Floats | str]
    ages: PlanAges | None = None  # of the plans; None if they were always new
    farther: Farther | None = None  # a comparator above lambda*, and what the online regret against it is at most
    most: Floats | None = None


def dual_side(run: Record, lambda_hat: Floats | str) -> DualSide:
    """History, comparators and bounds of the dual player.

    lambda_hat: [K] at the starts, or why it is not known.
    """
    try:
        begun = dual_start(run)
        against = comparators(run, begun, lambda_hat)
    except (ResetFreeError, ArithmeticError) as error:
        why = str(error)
        return DualSide(None, why, {"0": why, "lambda*": why}, {"0": why, "lambda*": why})
    star = against["lambda*"]
    far = farther(begun, star, _plain(run.columns["s1"][0])) if isinstance(star, Comparator) else None
    measured = [c for c in against.values() if isinstance(c, Comparator)] + ([far.against] if far else [])
    met, ages = dual_history(run, begun, measured), plan_ages(run)
    bounds: dict[str, Floats | str] = {}
    for name, c in against.items():
        try:
            bounds[name] = c if isinstance(c, str) else online_bound(begun.player, met, c, late=ages is not None)
        except (NotCertifiable, ArithmeticError) as error:
            bounds[name] = str(error)
    most: Floats | None = None
    if far is not None:
        with suppress(NotCertifiable):
            most = online_bound(begun.player, met, far.against, late=ages is not None)
    return DualSide(begun.player, met, against, bounds, ages, farther=None if most is None else far, most=most)


def online_bound(player: DualPlayer[Any], met: DualHistory, against: Comparator, late: bool = False) -> Floats:
    """[K] what the online regret of the dual player against a comparator is at most after k rounds.

    late: whether plans may be old; then the bound, which is that of new plans, has `lateness_cost` added.
    Raises NotCertifiable if the player has no such bound.
    """
    each_round = player.each_round
    if not isinstance(player, BoundsOnlineRegret):
        raise NotCertifiable(f"No bound on the online regret of the dual player '{player.name}' is known.")
    if isinstance(player, ChoosesFunction) and player.functions(met.replay.state).largest_xi > 1.0 + SLACK:
        raise NotCertifiable("Some |xi(s)| is larger than 1, so the multiplier played is not <xi(s), theta>.")
    most = np.asarray(player.online_regret_bound(met, against))
    return most + _lateness(met) if late and not each_round else most


def _lateness(met: DualHistory) -> Floats:
    return lateness_cost(met.replay.fresh, met.replay.lam, met.signals)


def dual_claims(run: Record, side: DualSide) -> list[Certificate]:
    """The multipliers are the dual player's, and its online regret is within its bound.

    Paper: regret of the dual player under projected gradient (lemma).
    """
    lam = run.columns["lam"]
    claim = "the multipliers are those of the dual player on the recorded signals, bit for bit (rounds that differ)"
    again = side.met if isinstance(side.met, str) else side.met.again
    if isinstance(again, str):
        found = [Certificate.not_applicable(claim, again)]
    else:
        differ = np.flatnonzero(again.lam != lam)
        where = f"round {differ[0] + 1}" if len(differ) else None
        found = [Certificate(claim, len(differ), 0.0, 0.0, "==", witness=where, status="checked")]
    found += _missed(run, side)
    own = "its bound" if side.ages is None else "its bound + what old plans cost"
    for name, c in side.against.items():
        claim = f"the dual player's online regret against {name} is at most"
        bound = side.bounds[name]
        if isinstance(bound, str) or isinstance(c, str):
            found.append(Certificate.not_applicable(f"{claim} {own}", str(bound)))
            continue
        online = np.cumsum((c.at_starts - lam) * run.columns["cost_signal"])
        found.append(_within(f"{claim} {own}", run, c, online, bound, detail={"comparator": c.size}))
        if isinstance(side.player, StatesOtherBounds) and isinstance(side.met, DualHistory):
            for formula, most in side.player.other_bounds(side.met, c):
                if side.ages is not None and not isinstance(most, str):
                    formula, most = f"{formula} + what old plans cost", most + _lateness(side.met)
                found.append(_within(f"{claim} {formula}", run, c, online, most))
    return found


def _missed(run: Record, side: DualSide) -> list[Certificate]:
    """What the age of plans costs a player of gradient steps; what another start costs is apart, and not bounded."""
    if side.ages is None or not isinstance(side.met, DualHistory) or not isinstance(side.player, MovesBySteps):
        return []
    if isinstance(side.met.again, str):
        return [Certificate.not_applicable(MISSED, side.met.again)]
    again, on = side.met.replay, side.ages.based_on
    cost = lateness_cost(again.fresh, again.aged, side.met.signals)
    most = missed_steps(np.sqrt(again.squares), side.player.step_lengths(side.met), on)
    starts = float(lateness_cost(again.aged, again.lam, side.met.signals)[-1])
    detail = {"largest_delay": int(side.ages.delays.max()), "delays": int(side.ages.delays.sum()), "starts": starts}
    return [over_rounds(MISSED, cost, most, SLACK * np.cumsum(np.abs(run.columns["lam"]) + 1.0), detail=detail)]


def _within(
    claim: str, run: Record, against: Comparator, regret: Floats, most: Floats | str, detail: Any = None
) -> Certificate:
    """A regret [K] is at most a bound [K] (or why there is none); against 0 it is, whatever was played."""
    if isinstance(most, str):
        return Certificate.not_applicable(claim, most)
    status: Status = "identity" if against.name == "0" else "proved"
    why = SIGNS if against.name == "0" else ""
    found = over_rounds(claim, regret, most, _rounding(run, against), detail=detail, status=status, why=why)
    # Multipliers are not negative, signals and costs at most 1: no player can regret more than lambda_c every time.
    return found if status == "identity" else beside(found, most=float(against.at_starts.sum()))


def dual_lemma(run: Record, rounds: Rounds | str, side: DualSide) -> list[Certificate]:
    """R_d(lambda_c) <= online bound + sum (lam - lambda_c)(g - V_c), and the identity behind it.

    Paper: regret of the dual player under projected gradient (lemma).

    rounds: with exact values, or the reason they are missing.
    """
    found = []
    for name, c in side.against.items():
        same = f"R_d({name}) equals the online regret + sum of (lam - {name})(signal - V_c)"
        most = f"R_d({name}) is at most the dual player's bound + sum of (lam - {name})(signal - V_c)"
        if isinstance(rounds, str) or isinstance(c, str):
            why = rounds if isinstance(rounds, str) else str(c)
            found += [Certificate.not_applicable(claim, why) for claim in (same, most)]
            continue
        g, bound = run.columns["cost_signal"], side.bounds[name]
        exact = dual_regret(rounds, at_starts=c.at_starts)
        online = np.cumsum((c.at_starts - rounds.lam) * g)
        mismatch = np.cumsum((rounds.lam - c.at_starts) * (g - rounds.v_c))
        found.append(
            over_rounds(same, exact, online + mismatch, _rounding(run, c), "==", status="identity", why=ALGEBRA)
        )
        found.append(_within(most, run, c, exact, bound if isinstance(bound, str) else bound + mismatch))
    return found


def _rounding(run: Record, against: Comparator) -> Floats:
    """[K] what rounding may do to the sums."""
    return np.asarray(SLACK * np.cumsum(np.abs(run.columns["lam"]) + np.abs(against.at_starts) + 1.0))


NEARLY = (
    "(1 - eps) Resets are at most R_p(pi*) + R_d(lambda_c), lambda_c within eps of lambda*",
    "the dual player's online regret against lambda_c, within eps of lambda*, is at most its bound",
)


def nearly_in_class(run: Record, known: Truth | str, side: DualSide) -> list[Certificate]:
    """The reduction and the dual player's bound, with the function of its class that is nearest to lambda*.

    `assumptions.linearity` has the proof. Only where lambda* itself is not in the class: else it is used.
    """
    if isinstance(known, str) or run.mdp is None or isinstance(side.against["lambda*"], Comparator):
        return []
    try:
        begun = dual_start(run)
        if begun.functions is None:
            return []
        nearest, eps = _nearest(run, begun)
        if eps >= 1:
            raise NotCertifiable(
                f"the nearest function of the class is {eps:.6g} from lambda*, and 1 or more is too far"
            )
        met = dual_history(run, begun, [nearest])
        most = online_bound(begun.player, met, nearest, late=plan_ages(run) is not None)
    except ResetFreeError as error:
        return [Certificate.not_applicable(claim, str(error)) for claim in NEARLY]
    rounds, k, lam = known.rounds, np.arange(1, len(run) + 1), run.columns["lam"]
    both = primal_regret(rounds, known.solution) + dual_regret(rounds, at_starts=nearest.at_starts)
    tolerance = TOLERANCE * (run.spec["horizon"] + nearest.largest + float(np.abs(lam).max())) * k
    online = np.cumsum((nearest.at_starts - lam) * run.columns["cost_signal"])
    why = f"eps = {eps:.6g}, measured"
    return [
        beside(over_rounds(NEARLY[0], (1 - eps) * resets(rounds), both, tolerance, why=why), most=(1 - eps) * len(run)),
        beside(over_rounds(NEARLY[1], online, most, tolerance, why=why), most=float(nearest.at_starts.sum())),
    ]


def _nearest(run: Record, begun: DualStart) -> tuple[Comparator, float]:
    """lambda_c in the dual player's set, and eps over every start that some behaviour can bring about."""
    mdp, among, player = run.mdp, begun.functions, begun.player
    assert mdp is not None
    assert among is not None
    if not isinstance(player, CapsMultiplier):
        raise NotCertifiable(f"The dual player '{player.name}' declares no bound on its multipliers.")
    xi = np.ones((mdp.n_states, 1)) if mdp.xi is None else np.asarray(mdp.xi, dtype=np.float64)
    cap = player.largest_multiplier(begun.problem, run.spec["episodes"])
    theta, wanted = nearest_multipliers(mdp, xi, cap)
    s1 = run.columns["s1"].astype(np.int64)
    u: Any = float(theta[0]) if isinstance(among.zero(), float) else theta
    u = among.moved(u, int(s1[0]), 0.0)  # the nearest point of its set
    values = xi @ np.atleast_1d(np.asarray(u, dtype=np.float64))
    possible = ~np.isnan(wanted)
    eps = max(0.0, float((wanted - values)[possible].max()))
    return Comparator("lambda_c", u, values[s1], float(values[possible].max())), eps
