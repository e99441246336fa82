"""R_p, Regret and Resets against the explicit bounds that the two players' own bounds add up to."""

from __future__ import annotations

from math import e, log, sqrt
from typing import Any

import numpy as np

from resetfree.core.certificate import Certificate, beside, resting_on
from resetfree.core.errors import NotCertifiable
from resetfree.game.capabilities import (
    BoundsDelayedRegret,
    BoundsPrimalRegret,
    CapsMultiplier,
    Comparator,
    PrimalRegretBound,
)
from resetfree.theory.certificates.anytime import DELTA
from resetfree.theory.certificates.claims_dual import DualSide
from resetfree.theory.certificates.claims_optimism import (
    OTHER_START,
    Cover,
    largest_primal_regret,
    likely,
    over_bound,
    proof_of,
)
from resetfree.theory.certificates.claims_reduction import Truth
from resetfree.theory.certificates.plan_ages import held_actions, plan_ages
from resetfree.theory.certificates.record import TOLERANCE, Record
from resetfree.theory.certificates.statement_checks import began_with, known_player, past_plan
from resetfree.theory.regret import Rounds, primal_regret, regret, resets

RATES = ("R_p(pi*) is at most its rate", "Regret is at most its rate", "Resets are at most their rate")


def rates(run: Record, known: Truth | str, cover: Cover, side: DualSide) -> list[Certificate]:
    """R_p, Regret and Resets against their explicit bounds, at the last round.

    Paper: rates for linear MDPs (theorem); in the tabular setting d = |S| |A|, hence |S|^3 |A|^3 for d^3.

    R_p(pi*) <= P, the primal player's own bound (its `primal_regret_bound` has the formula; if Resets are in it,
    with the bound on them),
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
    k, horizon, rounds, solution = len(run), run.spec["horizon"], known.rounds, known.solution
    stated = run.statements["dual"]
    both = cover
    lacks = past_plan(run, "dual") if stated["covered"] else stated["why"]
    if lacks:
        both = cover._replace(status="tuned", why=lacks if cover.status == "proved" else f"{cover.why}; {lacks}")
    largest = largest_primal_regret(run)
    fewest = _resets_rate(run, rounds, side, proved, cover.proof.largest_multiplier)
    few, delta = (float(k), 0.0) if isinstance(fewest, str) or both.status != cover.status else fewest
    most = proved.most + proved.per_root_reset * sqrt(min(few, k))
    chance = delta if proved.per_root_reset and few < k else 0.0
    found = [
        _rate(RATES[0], primal_regret(rounds, solution)[-1], most, largest, cover, run=run, detail={}, delta=chance)
    ]
    online = side.bounds["0"]
    if isinstance(online, str):
        found.append(Certificate.not_applicable(RATES[1], online))
    else:
        left, detail = regret(rounds, solution)[-1], {"primal": most, "dual": float(online[-1])}
        right, trivial = most + float(online[-1]), float(k * horizon)
        found.append(_rate(RATES[1], left, right, trivial, both, run=run, detail=detail, delta=chance))
    if isinstance(fewest, str):
        return [*found, Certificate.not_applicable(RATES[2], fewest)]
    detail = {"primal": proved.most, "dual": float(side.bounds["lambda*"][-1]), "per_root": proved.per_root_reset}
    return [
        *found,
        _rate(RATES[2], resets(rounds)[-1], fewest[0], float(k), both, run=run, detail=detail, delta=fewest[1]),
    ]


def _resets_rate(
    run: Record, rounds: Rounds, side: DualSide, proved: PrimalRegretBound, B: float | None
) -> tuple[float, float] | str:
    """A bound on Resets and the probability with which its chance fails, or why there is none; B: see `_check_signals`.

    Where P = P_0 + P_1 sqrt(Resets), Resets <= P + rest is solved for Resets.
    """
    online, against = side.bounds["lambda*"], side.against["lambda*"]
    if isinstance(online, str) or isinstance(against, str):
        return str(online)
    try:
        if run.spec["feedback"] != "realised":
            _check_signals(run, rounds, against, proved, B)
            return solved_for_resets(proved.most + float(online[-1]), proved.per_root_reset, len(run)), 0.0
        return _with_chance(run, proved, float(online[-1]), against, side), DELTA
    except NotCertifiable as error:
        return str(error)


def solved_for_resets(rest: float, root: float, k: int) -> float:
    """Above Resets, which are at most k and at most rest + root sqrt(Resets).

    >>> solved_for_resets(6.0, 1.0, 100), solved_for_resets(7.0, 0.0, 100), solved_for_resets(6.0, 1.0, 1)
    (9.0, 7.0, 7.0)
    """
    if root == 0:
        return rest
    half = root / 2 + sqrt(root * root / 4 + max(rest, 0.0))
    return min(half * half, rest + root * sqrt(k))


def _rate(
    claim: str, left: float, bound: float, trivial: float, cover: Cover, *, run: Record, detail: Any, delta: float = 0.0
) -> Certificate:
    why, where = likely(cover, delta), f"round {len(run)}"
    tolerance = TOLERANCE * trivial
    found = Certificate(claim, left, bound, tolerance, witness=where, detail=detail, status=cover.status, why=why)
    return resting_on(beside(found, most=trivial), rate=cover.proof.failure, signals=delta)


def primal_bound(run: Record, *, within_bound: bool = True) -> PrimalRegretBound:
    """P of `rates`, as the primal player computes it; raises NotCertifiable if it has no such bound.

    within_bound: False for the P of the rounds whose multipliers are at most B.
    """
    player, name = known_player(run, "primal"), run.spec["primal"]["name"]
    if within_bound and (over := over_bound(run, proof_of(run))):
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


def _with_chance(run: Record, proved: PrimalRegretBound, online: float, against: Comparator, side: DualSide) -> float:
    """Resets <= bound + sum (lam - lambda*)(C_k - V_c), solved for Resets, with probability at least 1 - delta.

    Each term lies in an interval of length b, the larger of what bounds lam and all lambda*, and has variance at most
    b^2 V_c. Both are known before the first round: lam by the dual player's own cap, lambda* at every possible
    start. Two ways, delta/2 each: Hoeffding and Azuma add b sqrt(K ln(2/delta) / 2); Freedman with
    eta = 1 / (2 (e - 2) b^2) adds Resets / 2 + 2 (e - 2) b^2 ln(2/delta), hence
    Resets <= 2 bound + 4 (e - 2) b^2 ln(2/delta), in which there is no K. The first is for all rounds up to the K that
    was planned (a maximal inequality); a run that was extended may have been so because of what happened in it, and
    only the second one, which holds in all rounds at once, is left.
    """
    if not isinstance(side.player, CapsMultiplier):
        name = run.spec["dual"]["name"]
        raise NotCertifiable(f"The dual player '{name}' declares no bound on its multipliers.")
    episodes, problem = run.spec["episodes"], run.problem_again()
    cap = side.player.largest_multiplier(problem, episodes)
    if side.player.largest_multiplier(problem, max(episodes, len(run))) > cap:
        raise NotCertifiable(
            f"Multipliers are bounded by {cap:.6g} for the {episodes} episodes that were planned only."
        )
    b = max(against.largest, cap)
    level, bound, root = log(2 / DELTA), proved.most + online, proved.per_root_reset
    freedman = solved_for_resets(2 * bound + 4 * (e - 2) * b * b * level, 2 * root, len(run))
    if len(run) > episodes:
        return freedman
    return min(solved_for_resets(bound + b * sqrt(episodes * level / 2), root, len(run)), freedman)


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
