"""R_p, Regret and Resets against the explicit bounds that the two players' own bounds add up to."""

from __future__ import annotations

from math import e, log, sqrt
from typing import Any

import numpy as np

from resetfree.core.certificate import Certificate
from resetfree.core.errors import NotCertifiable
from resetfree.game.capabilities import (
    BoundsDelayedRegret,
    BoundsPrimalRegret,
    CapsMultiplier,
    Comparator,
    PrimalRegretBound,
)
from resetfree.theory.certificates.anytime import DELTA
from resetfree.theory.certificates.asked import began_with, known_player, past_plan
from resetfree.theory.certificates.claims_dual import DualSide
from resetfree.theory.certificates.claims_optimism import OTHER_START, Cover, likely, over_bound, proof_of
from resetfree.theory.certificates.claims_reduction import Truth
from resetfree.theory.certificates.plan_ages import held_actions, plan_ages
from resetfree.theory.certificates.record import TOLERANCE, Record
from resetfree.theory.regret import Rounds, primal_regret, regret, resets

RATES = ("R_p(pi*) is at most its rate", "Regret is at most its rate", "Resets are at most their rate")


def rates(run: Record, known: Truth | str, cover: Cover, side: DualSide) -> list[Certificate]:
    """R_p, Regret and Resets against their explicit bounds, at the last round.

    Paper: rates for linear MDPs (theorem).

    R_p(pi*) <= P, the primal player's own bound (its `primal_regret_bound` has the formula),
    Regret <= P + dual bound against 0,  Resets <= P + dual bound against lambda* + what the dual's signal adds:
      optimistic  nothing: weighted with lambda* in place of lam, the overestimates are at most P as well;
      exact       nothing;
      realised    sum (lam - lambda*)(C_k - V_c), a martingale: see `_with_chance`.
    With probability at least 1 - p, and 1 - p - delta for Resets with realised costs. "vacuous" in the detail:
    a bound is no smaller than what is true of every run: Regret <= K H, Resets <= K.
    """
    try:
        if isinstance(known, str):
            raise NotCertifiable(known)
        proved = primal_bound(run)
    except NotCertifiable as error:
        return [Certificate.not_applicable(claim, str(error)) for claim in RATES]
    primal = proved.most
    k, horizon, rounds, solution = len(run), run.spec["horizon"], known.rounds, known.solution
    stated = run.statements["dual"]
    both = cover
    lacks = past_plan(run, "dual") if stated["covered"] else stated["why"]
    if lacks:
        both = cover._replace(status="tuned", why=lacks if cover.status == "proved" else f"{cover.why}; {lacks}")
    largest = k * (horizon + float(np.abs(rounds.lam).max()))
    found = [_rate(RATES[0], primal_regret(rounds, solution)[-1], primal, largest, cover, run=run, detail={})]
    for claim, left, trivial, name in (
        (RATES[1], regret(rounds, solution)[-1], float(k * horizon), "0"),
        (RATES[2], resets(rounds)[-1], float(k), "lambda*"),
    ):
        online, against = side.bounds[name], side.against[name]
        if isinstance(online, str) or isinstance(against, str):
            found.append(Certificate.not_applicable(claim, str(online)))
            continue
        bound, delta = primal + float(online[-1]), 0.0
        if name == "lambda*":
            try:
                if run.spec["feedback"] == "realised":
                    bound, delta = _with_chance(run, bound, against, side), DELTA
                else:
                    _check_signals(run, rounds, against, proved, cover.proof.largest_multiplier)
            except NotCertifiable as error:
                found.append(Certificate.not_applicable(claim, str(error)))
                continue
        detail = {"primal": primal, "dual": float(online[-1])}
        found.append(_rate(claim, left, bound, trivial, both, run=run, detail=detail, delta=delta))
    return found


def _rate(
    claim: str, left: float, bound: float, trivial: float, cover: Cover, *, run: Record, detail: Any, delta: float = 0.0
) -> Certificate:
    detail = {**detail, "trivial": trivial, "vacuous": bool(bound >= trivial)}
    why, where = likely(cover, delta), f"round {len(run)}"
    tolerance = TOLERANCE * trivial
    return Certificate(claim, left, bound, tolerance, witness=where, detail=detail, status=cover.status, why=why)


def primal_bound(run: Record) -> PrimalRegretBound:
    """P of `rates`, as the primal player computes it; raises NotCertifiable if it has no such bound."""
    player, name = known_player(run, "primal"), run.spec["primal"]["name"]
    if over := over_bound(run, proof_of(run)):
        raise NotCertifiable(f"The rate is {over}.")
    if past := began_with(run) or past_plan(run, "primal"):
        raise NotCertifiable(f"The rate does not hold here: {past}.")
    if held := held_actions(run):
        raise NotCertifiable(held)
    ages = plan_ages(run)
    if ages is not None and not ages.all_new:
        problem, episodes = run.problem_again(), run.spec["episodes"]
        late = player.delayed_regret_bound(problem, episodes, ages) if isinstance(player, BoundsDelayedRegret) else None
        if late is None:
            raise NotCertifiable(f"No theorem bounds the regret of the primal player '{name}' where plans are old.")
        return late
    if isinstance(player, BoundsPrimalRegret):
        found = player.primal_regret_bound(run.problem_again(), run.spec["episodes"], len(run))
        if found is not None:
            return found
    raise NotCertifiable(f"No theorem bounds the regret of the primal player '{name}'.")


def _with_chance(run: Record, bound: float, against: Comparator, side: DualSide) -> float:
    """Resets <= bound + sum (lam - lambda*)(C_k - V_c), solved for Resets, with probability at least 1 - delta.

    Each term lies in an interval of length b, the larger of what bounds lam and all lambda*, and has variance at most
    b^2 V_c. Both are known before the first round: lam by the dual player's own cap, lambda* at every possible
    start. Two ways, delta/2 each: Hoeffding and Azuma add b sqrt(K ln(2/delta) / 2); Freedman with
    eta = 1 / (2 (e - 2) b^2) adds Resets / 2 + 2 (e - 2) b^2 ln(2/delta), hence
    Resets <= 2 bound + 4 (e - 2) b^2 ln(2/delta), in which there is no K.
    """
    if not isinstance(side.player, CapsMultiplier):
        name = run.spec["dual"]["name"]
        raise NotCertifiable(f"The dual player '{name}' declares no bound on its multipliers.")
    episodes = run.spec["episodes"]
    b = max(against.largest, side.player.largest_multiplier(run.problem_again(), episodes))
    planned, level = max(len(run), episodes), log(2 / DELTA)
    return min(bound + b * sqrt(planned * level / 2), 2 * bound + 4 * (e - 2) * b * b * level)


def _check_signals(
    run: Record, rounds: Rounds, against: Comparator, proved: PrimalRegretBound, B: float | None
) -> None:
    """Raise NotCertifiable where the rate does not cover the difference between the dual's feedback and V_c.

    B: up to which weights the primal player's bound holds; None for any.
    """
    if np.abs(run.columns["cost_signal"] - rounds.v_c).max() <= TOLERANCE:
        return
    if not proved.any_weights:
        raise NotCertifiable(
            "the dual player's feedback is not the costs of the policies, and no theorem bounds the difference"
        )
    if (ages := plan_ages(run)) is not None and not ages.own_start.all():
        raise NotCertifiable(f"the dual player's feedback is the primal player's estimates; {OTHER_START}")
    if B is not None and against.largest > B * (1 + TOLERANCE):
        raise NotCertifiable(f"lambda* reaches {against.largest:.6g}, which is above B = {B:.6g}")
