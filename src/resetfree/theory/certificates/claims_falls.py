"""Bounds on expected Resets that do without the dual player's regret: by what no path exceeds, and by unsafe edges.

Legend: N_k the resets that happened, Resets(k) their expectation given policies and starts; DELTA as in `anytime`.
"""

from __future__ import annotations

from typing import NamedTuple

from resetfree.core.certificate import Certificate
from resetfree.game.capabilities import CountsFalls, Proof
from resetfree.theory.certificates.anytime import DELTA, resets_upper
from resetfree.theory.certificates.claims_optimism import Cover
from resetfree.theory.certificates.claims_paths import on_every_path
from resetfree.theory.certificates.plan_ages import held_actions, plan_ages
from resetfree.theory.certificates.record import Record
from resetfree.theory.certificates.statement_checks import began_with, known_player
from resetfree.theory.regret import Rounds

EVERY_PATH = "no path has more resets than there are unsafe pairs, whatever the players' constants are"


class ResetsBound(NamedTuple):
    """A bound on Resets after the last round."""

    most: float
    chance: float  # with which it fails, beside what its cover says
    by: str
    cover: Cover
    detail: dict[str, float]


def by_paths(run: Record) -> ResetsBound | None:
    """Where no path has more than U resets, Resets(k) <= `resets_upper`(U) for all k, with probability 1 - delta.

    N_k <= U for all k, and `resets_upper` grows: it bounds Resets(k) by N_k, hence by U.
    """
    proved = [c for c in on_every_path(run) if c.status == "proved"]
    if not proved:
        return None
    limit = min(c.rhs for c in proved)
    most = float(resets_upper(limit, DELTA))
    return ResetsBound(most, DELTA, "what no path exceeds", Cover("proved", EVERY_PATH, Proof()), {"on_paths": limit})


def by_falls(run: Record, rounds: Rounds, cover: Cover) -> ResetsBound | None:
    """See `theory.first_falls`; for plans that are new, a known model and a player whose proof it is part of."""
    player, ages = known_player(run, "primal"), plan_ages(run)
    if run.mdp is None or not isinstance(player, CountsFalls) or (ages is not None and not ages.all_new):
        return None
    if began_with(run) or held_actions(run):
        return None
    found = player.falls(run.mdp, run.problem_again(), run.spec["episodes"], rounds.lam)
    if found is None:
        return None
    most = float(resets_upper(found.counted, DELTA)) + found.penalised
    detail = {"counted": found.counted, "penalised": found.penalised}
    return ResetsBound(most, DELTA, "unsafe edges and the price of a reset", cover, detail)


def expected_on_paths(run: Record, claim: str, left: float) -> Certificate | None:
    """The claim about Resets for a player whose regret no theorem bounds, but whose paths one does."""
    found = by_paths(run)
    if found is None:
        return None
    k = float(len(run))
    detail = {**found.detail, "by": found.by, "trivial": k, "vacuous": bool(found.most >= k)}
    why = f"with probability at least {1 - found.chance:g}; {EVERY_PATH}"
    where = f"round {len(run)}"
    return Certificate(claim, left, found.most, 1e-9 * k, witness=where, detail=detail, why=why)
