"""Every claim that can be checked on a run, each with both sides computed and its status (see `certificate`).

Legend: K rounds; s_1^k the start, lam^k the multiplier, pi^k the policy of round k; V_r, V_c its exact values at s_1^k
(an oracle's); V_r^k, V_c^k the primal player's own, upper_k what it holds to be above V*(s_1^k); g_k the dual
player's feedback; lambda_hat the least optimal multipliers, lambda* >= lambda_hat + 1; R_p, R_d the players' regrets.

A claim is "proved" if a theorem covers it with the constants of this run: if it fails all the same, the record,
the code or the theorem is wrong, or an event of small probability occurred. "tuned" claims have none, or one that needs
what cannot be checked here, and may fail. What is "checked" is no theorem, but true of every honest record. An
"identity" is algebra that holds on any numbers: it checks the arithmetic here, and shows nothing about the players.
"""

from collections.abc import Callable
from math import isfinite

import numpy as np

from resetfree.core import ResetFreeError
from resetfree.core.certificate import Certificate
from resetfree.theory.certificates.claims_dual import dual_claims, dual_lemma, dual_side, nearly_in_class
from resetfree.theory.certificates.claims_paths import (
    EVERY_PATH,
    anytime_regret,
    anytime_resets,
    by_rules,
    on_every_path,
)
from resetfree.theory.certificates.claims_rates import RATES, primal_bound, rates, unknown_bound
from resetfree.theory.certificates.claims_reduction import (
    OPTIMISM,
    Truth,
    optimism,
    primal_cover,
    reduction_claims,
    truth,
)
from resetfree.theory.certificates.record import FLEET, Record, age_claims, as_recorded, record_claims

# Of the groups of claims, those that hold whatever the order of rounds depends on.
OF_FLEETS = ("what the record says", "the reduction", "resets on every path", "Resets at any time")
ORDER = "the rounds of a fleet are in an order that depends on what happened in them: a fall ends an episode sooner"
BEYOND_FLOATS = "a side is not a finite number: multipliers, or sums and squares of them, exceed what a float can hold"


def certify(run: Record) -> list[Certificate]:
    """Every claim that can be checked on a run; without an oracle, claims that need one are "not applicable".

    The players' statements are made again from the players, never read from a file. A claim whose sides are beyond what
    a float can hold is "not applicable"; one that cannot be computed takes no other down.

    >>> import resetfree as rf
    >>> found = certify(rf.learn("grid-v0", episodes=50, seed=1))
    >>> [c.claim for c in found if c.status == "proved" and not c.holds]
    []
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is not finite, and found below
        found = _every_claim(run)
    if not all(np.isfinite(run.columns[name]).all() for name in ("lam", "cost_signal", "reward")):
        return found  # no run records such numbers: what fails because of them fails
    return [_within_floats(one) for one in found]


def _every_claim(run: Record) -> list[Certificate]:
    if not len(run):
        return [Certificate.not_applicable("every claim about rounds", "no round was played")]
    found = record_claims(run)
    if (run.mdp is not None or run.continuum is not None) and not found[0].holds:
        return [*found, Certificate.not_applicable("every other claim", "some starts are not states of this problem")]
    ages = age_claims(run)
    found += ages
    if ages and not ages[0].holds:
        return [*found, Certificate.not_applicable("every other claim", "some plans rest on rounds that were not over")]
    known, cover = truth(run), primal_cover(run)
    rounds, hat = (known, known) if isinstance(known, str) else (known.rounds, known.hat)
    side = dual_side(run, hat)
    groups: dict[str, Callable[[], list[Certificate]]] = {
        "what the record says": lambda: [as_recorded(run)],
        "the reduction": lambda: reduction_claims(run, known),
        "the dual player's online regret": lambda: dual_claims(run, side),
        "the dual player's regret": lambda: dual_lemma(run, rounds, side),
        "the primal player's optimism": lambda: optimism(run, known, cover),
        "the rates": lambda: rates(run, known, cover, side),
        "multipliers without a known bound": lambda: unknown_bound(run, side),
        "a class without lambda*": lambda: nearly_in_class(run, known, side),
        "Resets at any time": lambda: anytime_resets(run),
        "Regret at any time": lambda: anytime_regret(run, known, cover),
        "resets on every path": lambda: on_every_path(run),
        "resets by rules": lambda: by_rules(run),
    }
    for words, made in groups.items():
        if FLEET in run.columns and words not in OF_FLEETS:
            found.append(Certificate.not_applicable(f"claims about {words}", ORDER))
            continue
        try:
            found += made()
        except (ArithmeticError, ValueError, ResetFreeError) as error:
            found.append(Certificate.not_applicable(f"claims about {words}", f"they cannot be computed: {error}"))
    return found


def _within_floats(one: Certificate) -> Certificate:
    """The claim, or that it is not applicable where a side is not a finite number."""
    if one.status == "not applicable" or (isfinite(one.lhs) and isfinite(one.rhs)):
        return one
    return Certificate.not_applicable(one.claim, BEYOND_FLOATS)


__all__ = [
    "EVERY_PATH",
    "OPTIMISM",
    "RATES",
    "Truth",
    "certify",
    "optimism",
    "primal_bound",
    "primal_cover",
    "rates",
    "truth",
]
