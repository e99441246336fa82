"""A dual player that knows no B: how far its multiplier goes, and how many resets that takes."""

from __future__ import annotations

from math import ceil, e, log

from resetfree.core.certificate import Certificate, beside, resting_on
from resetfree.core.errors import NotCertifiable
from resetfree.game.capabilities import Comparator, RaisesMultiplier
from resetfree.theory.certificates.anytime import DELTA
from resetfree.theory.certificates.claims_dual import DualSide
from resetfree.theory.certificates.claims_optimism import likely, primal_cover
from resetfree.theory.certificates.claims_rates import primal_bound, solved_for_resets
from resetfree.theory.certificates.plan_ages import plan_ages
from resetfree.theory.certificates.record import Record

UNKNOWN_B = (
    "no multiplier exceeds the first of the dual player's that reaches lambda*, which it does not know",
    "no more resets happened than the phases of the dual player allow",
)


def unknown_bound(run: Record, side: DualSide) -> list[Certificate]:
    """The largest multiplier against lam_J, and realised resets against the patience of the phases up to J.

    The dual player has the theorem and its proof. With P the primal player's bound on the expected resets of the phase
    (where it grows with their root, solved for them), its resets exceed (e - 1) P + ln(1/delta) with probability at
    most p + delta; 0 if P is.
    Proved where the patience of phase J is more, and the primal player's proof is for multipliers up to lam_J. Whether
    multipliers exceed them is what is claimed, so that it decides nothing about what is proved.
    """
    player, against = side.player, side.against["lambda*"]
    if not isinstance(player, RaisesMultiplier):
        return []
    ages = plan_ages(run)
    try:
        if not isinstance(against, Comparator):
            raise NotCertifiable(against)
        if run.spec["feedback"] != "realised":
            raise NotCertifiable("its phases must count the resets that happened")
        if ages is not None and not ages.all_new:
            raise NotCertifiable("some plans were made with the multiplier of an earlier phase")
        phases, found = player.phases(against.largest), primal_bound(run, within_bound=False)
    except NotCertifiable as error:
        return [Certificate.not_applicable(claim, str(error)) for claim in UNKNOWN_B]
    cover = primal_cover(run, within_bound=False)
    primal = solved_for_resets(found.most, found.per_root_reset, len(run))
    last, spent = phases[-1], (e - 1) * primal + log(1 / DELTA) if primal > 0 else 0.0
    B, why = cover.proof.largest_multiplier, ""
    if spent >= last.patience:
        why = (
            f"the patience {last.patience:.6g} of the phase that reaches lambda* is proved to suffice above {spent:.6g}"
        )
    elif B is not None and last.lam > B:
        why = f"the primal player's proof is for multipliers up to B = {B:.6g}, and the phase has {last.lam:.6g}"
    both = cover._replace(status="tuned", why=why) if why else cover
    more = DELTA + cover.proof.failure if primal > 0 else 0.0
    words = likely(both, more)
    before = float(sum(ceil(phase.patience) for phase in phases[:-1]))
    detail = {"lambda*": against.largest, "phases": len(phases), "primal": primal}
    return [
        resting_on(
            beside(Certificate(claim, left, right, 0.0, status=both.status, why=words, detail=detail), most=most),
            rate=cover.proof.failure,
            phases=more,
        )
        for claim, left, right, most in (
            (UNKNOWN_B[0], float(run.columns["lam"].max()), last.lam, None),
            (UNKNOWN_B[1], float(run.realised_resets[-1]), before + spent, float(len(run))),
        )
    ]
