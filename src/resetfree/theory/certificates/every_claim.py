"""Every claim that can be checked on a run, in the order in which they are shown."""

from __future__ import annotations

from resetfree.core.certificate import Certificate
from resetfree.theory.certificates.asked import as_recorded
from resetfree.theory.certificates.claims_anytime import anytime_regret, anytime_resets
from resetfree.theory.certificates.claims_dual import dual_claims, dual_lemma, dual_side
from resetfree.theory.certificates.claims_misspecified import nearly_in_class
from resetfree.theory.certificates.claims_optimism import optimism, primal_cover
from resetfree.theory.certificates.claims_paths import by_rules, on_every_path
from resetfree.theory.certificates.claims_rates import rates
from resetfree.theory.certificates.claims_reduction import reduction_claims, truth
from resetfree.theory.certificates.claims_unknown_bound import unknown_bound
from resetfree.theory.certificates.plan_ages import age_claims
from resetfree.theory.certificates.record import Record, record


def certify(run: Record) -> list[Certificate]:
    """Every claim that can be checked on a run; without an oracle, claims that need one are "not applicable".

    The players' statements are made again from the players, never read from a file.

    >>> import resetfree as rf
    >>> found = certify(rf.learn("grid-v0", episodes=50, seed=1))
    >>> [c.claim for c in found if c.status == "proved" and not c.holds]
    []
    """
    if not len(run):
        return [Certificate.not_applicable("every claim about rounds", "no round was played")]
    found = record(run)
    if (run.mdp is not None or run.continuum is not None) and not found[0].holds:
        return [*found, Certificate.not_applicable("every other claim", "some starts are not states of this problem")]
    ages = age_claims(run)
    found += ages
    if ages and not ages[0].holds:
        return [*found, Certificate.not_applicable("every other claim", "some plans rest on rounds that were not over")]
    known, cover = truth(run), primal_cover(run)
    rounds, hat = (known, known) if isinstance(known, str) else (known.rounds, known.hat)
    side = dual_side(run, hat)
    return [
        *found,
        as_recorded(run),
        *reduction_claims(run, known),
        *dual_claims(run, side),
        *dual_lemma(run, rounds, side),
        *optimism(run, known, cover),
        *rates(run, known, cover, side),
        *unknown_bound(run, side),
        *nearly_in_class(run, known, side),
        *anytime_resets(run),
        *anytime_regret(run, known, cover),
        *on_every_path(run),
        *by_rules(run),
    ]
