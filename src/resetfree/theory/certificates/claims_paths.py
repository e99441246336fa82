"""Resets against the number that no path can exceed."""

from __future__ import annotations

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.certificate import Certificate, beside
from resetfree.game.capabilities import Eliminates, LearnsRules
from resetfree.problems.factors import has_factors
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.theory.assumptions import feasibility, unsafe_pairs
from resetfree.theory.certificates.claims_optimism import IF_FEASIBLE
from resetfree.theory.certificates.plan_ages import held_actions
from resetfree.theory.certificates.record import Record
from resetfree.theory.certificates.statement_checks import began_with, known_player, unknown_cap
from resetfree.theory.delay import before_resets
from resetfree.theory.reset_limits import depends_on_step, size_limit

# By whether the player keeps the steps of an episode apart.
EVERY_PATH = (
    "no more resets happened than there are unsafe pairs (s, a)",
    "no more resets happened than there are unsafe triples (h, s, a)",
)


# The same, by the sizes of the problem alone: proved in `theory.reset_limits`.
BY_SIZES = "no more resets happened than N (A - 1), the most of elimination on any problem of these sizes"


def on_every_path(run: Record) -> list[Certificate]:
    """Resets that happened against the number that no path can exceed, of players that have one.

    What each reset rules out for good is a pair (s, a), or a triple (h, s, a) where the player keeps steps apart: it
    names it, and the same is counted in the model. Plans may be old if they rest on every reset (`before_resets`).
    """
    most, player = run.statements["primal"].get("most_resets"), known_player(run, "primal")
    if most is None or not isinstance(player, Eliminates):
        return unknown_cap(run, EVERY_PATH[0])
    per_step = player.keeps_steps_apart(run.problem_again())
    claim, resets = EVERY_PATH[per_step], float(run.realised_resets[-1])
    if "based_on" in run.columns:
        old = np.flatnonzero(before_resets(run.columns["based_on"], run.columns["reset"]))
        if why := held_actions(run):
            return [Certificate.not_applicable(claim, why)]
        if len(old):
            why = f"the plan of round {old[0] + 1} was made before the newest reset, and may repeat what led to it"
            return [Certificate.not_applicable(claim, why)]
    if run.mdp is None:
        why = f"counted are all of them, safe or not; {IF_FEASIBLE}"
        return [beside(Certificate(claim, resets, float(most), 0.0, status="tuned", why=why), most=float(len(run)))]
    finding = feasibility(run.mdp)
    if not finding.holds:
        return [Certificate.not_applicable(claim, finding.sentence)]
    data = began_with(run)
    why = f"{data} unless they are of this problem" if data else ""
    return [
        beside(
            Certificate(claim, resets, float(most), 0.0, status="tuned" if data else "proved", why=why),
            most=float(len(run)),
        )
        for claim, most in zip((claim, BY_SIZES), _pathwise(run.mdp, per_step), strict=True)
    ]


def _pathwise(mdp: FiniteMDP, per_step: bool) -> tuple[int, int]:
    """What elimination never exceeds: the unsafe pairs or triples, and N (A - 1)."""
    return unsafe_pairs(mdp, per_step), size_limit(mdp, per_step or depends_on_step(mdp))


BY_RULES = "no more resets happened than the rules about danger allow: their bits, and log2(K) + 1"


def by_rules(run: Record) -> list[Certificate]:
    """Resets against the bound of a player that learns rules, where it is proved: pairs that fall always do so.

    Some action must never fall: then there is always something to do that no rule holds back, and no dead end.
    """
    player = known_player(run, "primal")
    if not isinstance(player, LearnsRules) or not isinstance(player, Eliminates) or run.mdp is None:
        return []
    mdp, problem = run.mdp, run.problem_again()
    chance = _chance_of_a_fall(mdp) if mdp.stationary and not problem.end_resets else None
    if chance is None or player.keeps_steps_apart(problem):
        return [Certificate.not_applicable(BY_RULES, "danger changes with the step, the context or the end")]
    if ((chance > 0) & (chance < 1)).any():
        return [Certificate.not_applicable(BY_RULES, "some pair falls only sometimes")]
    if (chance > 0).any(axis=0).all():
        return [Certificate.not_applicable(BY_RULES, "every action can fall somewhere")]
    if data := began_with(run) or held_actions(run):
        return [Certificate.not_applicable(BY_RULES, data)]
    factors = problem.factors
    if factors is not None and factors.parts and not has_factors(factors.values[~mdp.reset]).all():
        return [Certificate.not_applicable(BY_RULES, "some states have no factors before they are seen")]
    bound = player.rule_bound(problem, chance[None] > 0, len(run))
    if bound is None:
        return [Certificate.not_applicable(BY_RULES, "the states have no factors")]
    # It plays inside what elimination allows: beyond what no path of that exceeds, the rules say nothing.
    most = float(min(len(run), *_pathwise(mdp, False)))
    return [beside(Certificate(BY_RULES, float(run.realised_resets[-1]), bound, 0.0), most=most)]


def _chance_of_a_fall(mdp: FiniteMDP) -> Floats:
    """[S, A] the probability that a pair of a stationary problem leads into a reset state; 0 in such states."""
    t = mdp.transition
    rows = np.repeat(np.arange(mdp.n_states * mdp.n_actions), np.diff(t.indptr))
    falls = np.bincount(rows, weights=t.prob * mdp.reset[t.indices], minlength=mdp.n_states * mdp.n_actions)
    chance = falls.reshape(mdp.n_states, mdp.n_actions)
    chance[mdp.reset] = 0.0
    return np.where(chance > 1.0 - 1e-12, 1.0, chance)
