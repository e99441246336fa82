"""Resets that happened, and their expectation: against what no path exceeds, by unsafe edges, at any time.

**Bounds on expected Resets that do without the dual player's regret: by what no path exceeds, and by unsafe edges.**
Legend: N_k the resets that happened, Resets(k) their expectation given policies and starts; DELTA as in `anytime`.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from resetfree.core import Floats
from resetfree.core.certificate import Certificate, Status, beside, over_rounds, resting_on
from resetfree.core.readable import counted, number, percent
from resetfree.game.capabilities import CountsFalls, Eliminates, LearnsRules
from resetfree.game.contract import Proof
from resetfree.problems import FiniteMDP, has_factors
from resetfree.theory.assumptions import feasibility, unsafe_pairs
from resetfree.theory.certificates import anytime
from resetfree.theory.certificates.anytime import DELTA, resets_upper
from resetfree.theory.certificates.claims_reduction import IF_FEASIBLE, NO_UPPER, Cover, Truth, likely
from resetfree.theory.certificates.record import (
    FLEET,
    TOLERANCE,
    Record,
    began_with,
    held_actions,
    known_player,
    plan_ages,
    unknown_cap,
)
from resetfree.theory.delay import before_resets, falls_of_fleet
from resetfree.theory.regret import Rounds, regret
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
    if FLEET in run.columns:
        return _of_fleet(run, claim, per_step)
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


UNDER_WAY = ", and episodes under way when a fall became known, of all machines together"


def _of_fleet(run: Record, claim: str, per_step: bool) -> list[Certificate]:
    """The same of a fleet: proved in `delay.falls_of_fleet`."""
    claim += UNDER_WAY
    if run.mdp is None:
        return [Certificate.not_applicable(claim, "the model is not known, and with it the number of unsafe pairs")]
    finding = feasibility(run.mdp)
    if not finding.holds:
        return [Certificate.not_applicable(claim, finding.sentence)]
    news, late = falls_of_fleet(run.columns["based_on"], run.columns["reset"])
    unsafe, data = _pathwise(run.mdp, per_step)[0], began_with(run)
    detail = {"unsafe": unsafe, "under_way": int(late.sum()), "news": int(news.sum())}
    most, resets = float(unsafe + late.sum()), float(run.realised_resets[-1])
    status: Status = "tuned" if data else "proved"
    return [beside(Certificate(claim, resets, most, 0.0, detail=detail, status=status, why=data), most=float(len(run)))]


def in_order_of_begin(run: Record) -> Record:
    """A fleet's rounds in the order in which their episodes began, up to the first one that was not over.

    Which episode is over next depends on what happens in it: a fall ends it. In the order in which they begin, what
    happens in an episode has the expectation of its policy given all episodes before it.
    """
    if FLEET not in run.columns:
        return run
    number = run.columns["number"]
    order = np.argsort(number)
    order = order[: int((number[order] == np.arange(1, len(number) + 1)).cumprod().sum())]
    return dataclasses.replace(run, columns={name: column[order] for name, column in run.columns.items()})  # type: ignore[type-var]


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


ON_PATHS = "no path has more resets than there are unsafe pairs, whatever the players' constants are"


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
    return ResetsBound(most, DELTA, "what no path exceeds", Cover("proved", ON_PATHS, Proof()), {"on_paths": limit})


def by_falls(run: Record, rounds: Rounds, cover: Cover) -> ResetsBound | None:
    """See `theory.visit_sums`; for plans that are new, a known model and a player whose proof it is part of."""
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
    limit = counted(int(found.detail["on_paths"]), "reset")
    why = f"with probability at least {1 - found.chance:g}; no path has more than {limit}"
    bounded = Certificate(claim, left, found.most, 1e-9 * k, witness=f"round {len(run)}", detail=detail, why=why)
    return resting_on(bounded, signals=found.chance)


def anytime_resets(run: Record) -> list[Certificate]:
    """Resets between two bounds that need nothing but the number of resets, after every round at once."""
    run = in_order_of_begin(run)
    if not len(run):
        return [Certificate.not_applicable("Resets at any time", "the first episode is not over")]
    k, n = np.arange(1, len(run) + 1), run.realised_resets
    shown, v_c = (anytime.resets_lower(n, anytime.SHOWN), anytime.resets_bound(n, k)), run.columns["v_c"]
    sure = f"with {percent(1 - anytime.SHOWN)} confidence"
    if np.isnan(v_c).all() or held_actions(run):  # then the expectation is of what was done, not of the policies
        claim = "Resets lie between what the resets so far need and allow"
        why = f"each end {sure} after every round at once; no assumption is needed"
        detail = {"realised": int(n[-1]), "lower": float(shown[0][-1]), "upper": float(shown[1][-1])}
        return [beside(_interval(claim, *shown, detail, why), most=float(len(run)))]
    lower, upper = anytime.resets_interval(n, k)
    detail = {"realised": int(n[-1]), "lower": float(lower[-1]), "upper": float(upper[-1])}
    total = np.cumsum(v_c)
    most, least = "Resets are at most what the resets so far allow", "Resets are at least what the resets so far need"
    often = f"with probability at least {1 - anytime.DELTA:g} after every round at once; no assumption is needed"
    below, above = (f"{often}; {sure} it is {number(one[-1])}, the bound shown beside a run" for one in shown)
    found = [
        beside(over_rounds(most, total, upper, TOLERANCE * k, detail=detail, why=above), most=float(len(run))),
        beside(over_rounds(least, lower, total, TOLERANCE * k, detail=detail, why=below), least=0.0),
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
