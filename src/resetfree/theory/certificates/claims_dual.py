"""What a dual player's online regret is at most, that its multipliers are its own, and what is left without lambda*.

Legend: see `replay`; online regret = sum_{i <= k} (lambda_c(s_1^i) - lambda^i) g_i, which knows the signals only and
not V_c; R_d the regret in terms of V_c. Where plans were old, every bound has what that cost added (`theory.delay`).
"""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.certificate import Certificate, Status, beside, over_rounds
from resetfree.core.errors import NotCertifiable, ResetFreeError
from resetfree.game.capabilities import (
    BoundsEachRound,
    BoundsOnlineRegret,
    CapsMultiplier,
    ChoosesFunction,
    Comparator,
    DualHistory,
    MovesBySteps,
    PlanAges,
    StatesOtherBounds,
)
from resetfree.theory.assumptions.linearity import nearest_multipliers
from resetfree.theory.certificates.claims_reduction import Truth
from resetfree.theory.certificates.record import TOLERANCE, Record, plan_ages
from resetfree.theory.certificates.replay import (
    SLACK,
    DualStart,
    Farther,
    comparators,
    dual_history,
    dual_start,
    farther,
)
from resetfree.theory.delay import lateness_cost, missed_steps
from resetfree.theory.regret import Rounds, dual_regret, primal_regret, resets
from resetfree.theory.theorems import SIGNS

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
    far = farther(begun, star, _plain_start(run)) if isinstance(star, Comparator) else None
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


def _plain_start(run: Record) -> Any:
    """The first start, as the problem gives it."""
    first = run.columns["s1"][0]
    return first.item() if isinstance(first, np.generic) else first


def online_bound(player: Any, met: DualHistory, against: Comparator, late: bool = False) -> Floats:
    """[K] what the online regret of the dual player against a comparator is at most after k rounds.

    late: whether plans may be old; then the bound, which is that of new plans, has `lateness_cost` added.
    Raises NotCertifiable if the player has no such bound.
    """
    if not isinstance(player, BoundsOnlineRegret):
        raise NotCertifiable(f"No bound on the online regret of the dual player '{player.name}' is known.")
    if isinstance(player, ChoosesFunction) and player.functions(met.replay.state).largest_xi > 1.0 + SLACK:
        raise NotCertifiable("Some |xi(s)| is larger than 1, so the multiplier played is not <xi(s), theta>.")
    most = np.asarray(player.online_regret_bound(met, against))
    return most + _lateness(met) if late and not isinstance(player, BoundsEachRound) else most


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
