"""Regret and Resets between bounds that need no model and hold after every round at once (see `anytime`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.certificate import Certificate, Status, beside, over_rounds, resting_on
from resetfree.theory.certificates import anytime
from resetfree.theory.certificates.claims_optimism import NO_UPPER, Cover, likely
from resetfree.theory.certificates.claims_reduction import Truth
from resetfree.theory.certificates.plan_ages import held_actions, plan_ages
from resetfree.theory.certificates.record import TOLERANCE, Record
from resetfree.theory.regret import regret


def anytime_resets(run: Record) -> list[Certificate]:
    """Resets between two bounds that need nothing but the number of resets, after every round at once."""
    k, n = np.arange(1, len(run) + 1), run.realised_resets
    lower, upper = anytime.resets_interval(n, k)
    why = f"with probability at least {1 - anytime.DELTA:g} after every round at once; no assumption is needed"
    detail = {"realised": int(n[-1]), "lower": float(lower[-1]), "upper": float(upper[-1])}
    v_c = run.columns["v_c"]
    if np.isnan(v_c).all() or held_actions(run):  # then the expectation is of what was done, not of the policies
        claim = "Resets lie between what the resets so far need and allow"
        return [beside(_interval(claim, lower, upper, detail, why), most=float(len(run)))]
    total = np.cumsum(v_c)
    most, least = "Resets are at most what the resets so far allow", "Resets are at least what the resets so far need"
    found = [
        beside(over_rounds(most, total, upper, TOLERANCE * k, detail=detail, why=why), most=float(len(run))),
        beside(over_rounds(least, lower, total, TOLERANCE * k, detail=detail, why=why), least=0.0),
    ]
    return [resting_on(one, resets=anytime.DELTA) for one in found]


def anytime_regret(run: Record, known: Truth | str, cover: Cover) -> list[Certificate]:
    """Regret between two bounds that need no model: the player's upper bounds less the rewards, and -B Resets."""
    c, horizon, delta, noise, B = run.columns, run.spec["horizon"], anytime.DELTA, _noise(run), run.spec["B"]
    k, found = np.arange(1, len(run) + 1), []
    most = "Regret is at most what the primal player's upper bounds and the rewards so far allow"
    least = "Regret is at least -B times what the resets so far allow"
    if held := held_actions(run):
        return [Certificate.not_applicable(claim, held) for claim in (most, least)]
    upper, detail = np.full(len(run), np.nan), {}
    if not np.isnan(c["upper"]).any():
        ages = plan_ages(run)  # a plan for another start says nothing of V* at this one: it is at most H
        named = c["upper"] if ages is None else np.where(ages.own_start, c["upper"], horizon)
        above = anytime.upper_sum(c["s1"], named, horizon)
        upper = anytime.regret_upper(k, above, np.cumsum(c["reward"]), horizon, delta, noise=noise)
        detail = {"upper": float(upper[-1])}
    lower: Floats = -1.0 * horizon * k if B is None else anytime.regret_lower(run.realised_resets, float(B), delta / 2)
    if isinstance(known, str):
        if not detail:
            return [Certificate.not_applicable(claim, NO_UPPER if claim == most else known) for claim in (most, least)]
        why = likely(cover, 1.5 * delta) + ("" if B is None else "; if B is at least every lambda_hat")
        claim = "Regret lies between what the resets, and the upper bounds and rewards, so far allow"
        status: Status = cover.status if B is None else "tuned"  # nothing shows that B is large enough
        interval = _interval(claim, lower, upper, detail, why, status=status)
        return [beside(interval, most=float(len(run) * horizon))]
    rounds, tolerance = known.rounds, TOLERANCE * (horizon + float(B or 0.0)) * k
    total = regret(rounds, known.solution)
    boundary = anytime.mixture_boundary(k * anytime.return_variance(horizon, noise), delta, float(horizon**2))
    often = f"with probability at least {1 - delta:g} after every round at once; no assumption is needed"
    claim = "the rewards collected differ from the sum of V_r by no more than chance allows"
    off, largest = np.abs(np.cumsum(c["reward"] - rounds.v_r)), float(len(run) * horizon)
    bounded = noise in (0.0, "bernoulli")  # else rewards may be any number
    chance = beside(over_rounds(claim, off, boundary, tolerance, why=often), most=largest if bounded else None)
    found.append(resting_on(chance, rewards=delta))
    if detail:
        above_it = over_rounds(
            most, total, upper, tolerance, detail=detail, status=cover.status, why=likely(cover, delta)
        )
        found.append(resting_on(beside(above_it, most=largest), optimism=cover.proof.failure, rewards=delta))
    else:
        found.append(Certificate.not_applicable(most, NO_UPPER))
    if B is None or known.hat.max() > B * (1 + TOLERANCE):
        why = "no bound B on the multipliers is known" if B is None else f"B = {B:.6g} is below some lambda_hat"
        return [*found, Certificate.not_applicable(least, why)]
    why = f"with probability at least {1 - delta / 2:g} after every round at once, as B is at least every lambda_hat"
    # The same event as that of `anytime_resets`: its upper side has delta/2, too.
    return [
        *found,
        resting_on(beside(over_rounds(least, lower, total, tolerance, why=why), least=-largest), resets=delta),
    ]


def _interval(
    claim: str, lower: Floats, upper: Floats, detail: dict[str, Any], why: str, status: Status = "proved"
) -> Certificate:
    """An interval for a quantity that cannot be computed without an oracle: stated if proved, never compared."""
    if status != "proved":
        return Certificate.not_applicable(claim, f"no theorem covers [{lower[-1]:.6g}, {upper[-1]:.6g}]: {why}")
    why = f"{why}; there is no oracle to compare with"
    return Certificate(
        claim, lower[-1], upper[-1], 0.0, "<=", witness=f"round {len(lower)}", detail=detail, status="stated", why=why
    )


def _noise(run: Record) -> float | str:
    noise: float | str = run.mdp.noise if run.mdp is not None else run.spec.get("noise", 0.0)
    return noise
