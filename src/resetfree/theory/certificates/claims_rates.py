"""Regret and Resets against the explicit bounds that the two players' own bounds add up to, with B known or not."""

from math import ceil, e, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from resetfree.core import NotCertifiable
from resetfree.core.certificate import Certificate, beside, resting_on
from resetfree.game.capabilities import (
    BoundsDelayedRegret,
    BoundsPrimalRegret,
    CapsMultiplier,
    Comparator,
    PrimalRegretBound,
    RaisesMultiplier,
    SharperWithModel,
)
from resetfree.theory.certificates.anytime import DELTA
from resetfree.theory.certificates.claims_dual import DualSide
from resetfree.theory.certificates.claims_paths import ResetsBound, by_falls, by_paths, expected_on_paths
from resetfree.theory.certificates.claims_reduction import (
    OTHER_START,
    Cover,
    Truth,
    largest_primal_regret,
    likely,
    over_bound,
    primal_cover,
    proof_of,
)
from resetfree.theory.certificates.record import (
    TOLERANCE,
    Record,
    began_with,
    held_actions,
    known_player,
    past_plan,
    plan_ages,
)
from resetfree.theory.regret import Rounds, primal_regret, regret, resets

RATES = ("R_p(pi*) is at most its rate", "Regret is at most its rate", "Resets are at most their rate")


def rates(run: Record, known: Truth | str, cover: Cover, side: DualSide) -> list[Certificate]:
    """R_p, Regret and Resets against their explicit bounds, at the last round.

    Paper: rates for linear MDPs (theorem); in the tabular setting d = |S| |A|, hence |S|^3 |A|^3 for d^3.

    R_p(pi*) <= P, the primal player's own bound (its `primal_regret_bound` has the formula; if Resets are in it,
    with the bound on them),
    Regret <= P + dual bound against 0, and <= what the primal player bounds it by alone (its V_c is not negative),
    m Resets <= P + dual bound against a comparator that is m above lambda_hat (lambda*: m = 1; `farther`: more)
    + what the dual's signal adds:
      optimistic  nothing: weighted with the comparator in place of lam, the overestimates are at most P as well;
      exact       nothing;
      realised    sum (lam - comparator)(C_k - V_c), a martingale: see `_with_chance`.
    With probability at least 1 - p, and 1 - p - delta for Resets with realised costs. Resets are bounded in other ways
    as well (`claims_paths`): by paths alone where no path has many, else the smallest bound counts, and the
    probabilities with which the bounds fail add up. "vacuous" in the detail:
    a bound is no smaller than what is true of every run: Regret <= K H, Resets <= K.
    """
    try:
        if isinstance(known, str):
            raise NotCertifiable(known)
        proved = primal_bound(run)
    except NotCertifiable as error:
        found = [Certificate.not_applicable(claim, str(error)) for claim in RATES]
        by_path = None if isinstance(known, str) else expected_on_paths(run, RATES[2], float(resets(known.rounds)[-1]))
        return found if by_path is None else [*found[:2], by_path]
    k, rounds, solution = len(run), known.rounds, known.solution
    stated = run.statements["dual"]
    both = cover
    lacks = past_plan(run, "dual") if stated["covered"] else stated["why"]
    if lacks:
        both = cover._replace(status="tuned", why=lacks if cover.status == "proved" else f"{cover.why}; {lacks}")
    lam, dual = float(np.abs(rounds.lam).max()), DualBounds(side, both)
    fewest = _fewest_resets(run, rounds, dual, proved, cover)
    few, delta = (float(k), 0.0)
    if not isinstance(fewest, str) and fewest.most < k and fewest.cover.status in ("proved", cover.status):
        few, delta = fewest.most, fewest.chance
    most = proved.most + proved.per_root_reset * sqrt(few) + (lam * few if proved.pays_resets else 0.0)
    if proved.regret is not None:  # R_p is Regret and the sum of lam V_c
        most = min(most, proved.regret + lam * few)
    chance = proved.chance + (delta if proved.regret is not None or proved.per_root_reset else 0.0)
    left = primal_regret(rounds, solution)[-1]
    primal = _rate(RATES[0], left, most, largest_primal_regret(run), cover, run=run, detail={}, delta=chance)
    found = [primal, _regret_rate(run, known, dual, proved, primal, cover=cover)]
    if isinstance(fewest, str):
        return [*found, Certificate.not_applicable(RATES[2], fewest)]
    detail = {**fewest.detail, "by": fewest.by}
    left = resets(rounds)[-1]
    return [
        *found,
        _rate(RATES[2], left, fewest.most, float(k), fewest.cover, run=run, detail=detail, delta=fewest.chance),
    ]


class DualBounds(NamedTuple):
    """The dual player's bounds, and the cover of a claim that rests on them and on the primal player's."""

    side: DualSide
    cover: Cover


def _regret_rate(
    run: Record, known: Truth, dual: DualBounds, proved: PrimalRegretBound, primal: Certificate, cover: Cover
) -> Certificate:
    """Regret by the reduction, or by the primal player alone: V* <= V_r^k - lam V_c^k + slack <= V_r^k + slack."""
    left, trivial = regret(known.rounds, known.solution)[-1], float(len(run) * run.spec["horizon"])
    if proved.regret is not None:
        right, player, ages = proved.regret, known_player(run, "primal"), plan_ages(run)
        if run.mdp is not None and isinstance(player, SharperWithModel) and (ages is None or ages.all_new):
            problem, episodes = run.problem_again(), run.spec["episodes"]
            right = min(right, player.regret_with_model(run.mdp, problem, episodes, len(run)))
        detail: dict[str, Any] = {"primal": right, "dual": 0.0}
        return _rate(RATES[1], left, right, trivial, cover, run=run, detail=detail, delta=proved.chance)
    online = dual.side.bounds["0"]
    if isinstance(online, str):
        return Certificate.not_applicable(RATES[1], online)
    detail = {"primal": primal.rhs, "dual": float(online[-1])}
    return _rate(RATES[1], left, primal.rhs + float(online[-1]), trivial, dual.cover, run=run, detail=detail)


def _fewest_resets(
    run: Record, rounds: Rounds, dual: DualBounds, proved: PrimalRegretBound, cover: Cover
) -> ResetsBound | str:
    """By paths where no path has many, else by the smaller of unsafe edges and the reduction; or why by none."""
    paths = by_paths(run)
    if paths is not None:
        return paths
    falls = by_falls(run, rounds, cover)
    by_regrets = _resets_rate(run, rounds, dual, proved, cover.proof.largest_multiplier)
    if isinstance(by_regrets, str) or (falls is not None and dual.cover.status != cover.status):
        return by_regrets if falls is None else falls
    if falls is None:
        return by_regrets
    least = min(falls, by_regrets, key=lambda one: one.most)
    return least._replace(chance=falls.chance + by_regrets.chance, detail={**by_regrets.detail, **falls.detail})


def _resets_rate(
    run: Record, rounds: Rounds, dual: DualBounds, proved: PrimalRegretBound, B: float | None
) -> ResetsBound | str:
    """A bound on Resets by both players' regrets, or why there is none; B: see `_check_signals`.

    Where P = P_0 + P_1 sqrt(Resets), m Resets <= P + rest is solved for Resets. A comparator with twice lambda* or more
    is taken in place of it, whatever happened in the run; where nothing is left to chance, whichever is better.
    """
    side = dual.side
    online, star = side.bounds["lambda*"], side.against["lambda*"]
    if isinstance(online, str) or isinstance(star, str):
        return str(online)
    if proved.pays_resets:
        return "the primal player's regret is bounded by its resets, and not they by it"
    measured = [(star, 1.0, float(online[-1]))]
    if side.farther is not None and side.most is not None:
        measured.append((side.farther.against, side.farther.margin, float(side.most[-1])))
    realised = run.spec["feedback"] == "realised"
    if realised:
        measured = measured[-1:] if side.farther is not None and side.farther.times >= 2 else measured[:1]
    found: list[ResetsBound] = []
    why = ""
    for against, margin, most in measured:
        try:
            parts = Parts(margin, most, *_weighed(run, rounds, against, proved, B))
            fewest = _with_chance(run, rounds, parts, against, side) if realised else (parts.solved(len(run)), 0.0)
        except NotCertifiable as error:
            why = why or str(error)
            continue
        detail = {"primal": proved.most, "dual": most, "per_root": parts.root, "margin": margin, "reduction": fewest[0]}
        found.append(ResetsBound(*fewest, "the reduction", dual.cover, detail))
    return min(found, key=lambda one: one.most) if found else why


class Parts(NamedTuple):
    """margin Resets <= primal + root sqrt(Resets) + dual."""

    margin: float
    dual: float
    primal: float
    root: float

    def solved(self, k: int, more: float = 0.0, times: float = 1.0) -> float:
        """Above Resets, with `more` on the right-hand side, and all of it so many times."""
        rest = (self.primal + self.dual) * times + more
        return solved_for_resets(rest / self.margin, times * self.root / self.margin, k)


def _weighed(
    run: Record, rounds: Rounds, against: Comparator, proved: PrimalRegretBound, B: float | None
) -> tuple[float, float]:
    """P_0 and P_1 for a comparator; with optimistic costs it is the weight of all overestimates, in place of B."""
    if run.spec["feedback"] != "realised" and not _exact_signals(run, rounds):
        _check_signals(run, against, proved, B)
        if B is not None and B > 0:
            return proved.most, proved.per_root_reset * min(against.largest / B, 1.0)
    return proved.most, proved.per_root_reset


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


def _with_chance(run: Record, rounds: Rounds, parts: Parts, against: Comparator, side: DualSide) -> tuple[float, float]:
    """Above Resets, where m Resets <= bound + sum (lam - lambda_c)(C_k - V_c), and the probability that it fails.

    A multiplier that is lambda_c in every round leaves nothing to chance. Else each term lies in an interval of length
    b, the larger of what bounds lam and all lambda_c, and has variance at most b^2 V_c. Both are known before the first
    round: lam by the dual player's own cap, lambda_c at every possible start. Two ways, delta/2 each: Hoeffding and
    Azuma add b sqrt(K ln(2/delta) / 2); Freedman with eta = m / (2 (e - 2) b^2), which is at most 1/b as m <= b, adds
    m Resets / 2 + 2 (e - 2) b^2 ln(2/delta) / m, hence Resets <= 2 bound / m + 4 (e - 2) (b/m)^2 ln(2/delta), in which
    there is no K. The first is for all rounds up to the K that was planned (a maximal inequality); a run that was
    extended may have been so because of what happened in it, and only the second one, which holds in all rounds at
    once, is left.
    """
    if (rounds.lam == against.at_starts).all():
        return parts.solved(len(run)), 0.0
    if not isinstance(side.player, CapsMultiplier):
        name = run.spec["dual"]["name"]
        raise NotCertifiable(f"The dual player '{name}' declares no bound on its multipliers.")
    episodes, problem = run.spec["episodes"], run.problem_again()
    cap = side.player.largest_multiplier(problem, episodes)
    if side.player.largest_multiplier(problem, max(episodes, len(run))) > cap:
        raise NotCertifiable(
            f"Multipliers are bounded by {cap:.6g} for the {episodes} episodes that were planned only."
        )
    b, level = max(against.largest, cap), log(2 / DELTA)
    freedman = parts.solved(len(run), 4 * (e - 2) * b * b / parts.margin * level, 2.0)
    if len(run) > episodes:
        return freedman, DELTA
    return min(parts.solved(len(run), b * sqrt(episodes * level / 2)), freedman), DELTA


def _exact_signals(run: Record, rounds: Rounds) -> bool:
    """Whether the dual player's feedback was the costs of the policies."""
    return bool(np.abs(run.columns["cost_signal"] - rounds.v_c).max() <= TOLERANCE)


def _check_signals(run: Record, against: Comparator, proved: PrimalRegretBound, B: float | None) -> None:
    """Raise NotCertifiable where the rate does not cover the difference between the dual's feedback and V_c.

    B: up to which weights the primal player's bound holds; None for any.
    """
    if not proved.any_weights:
        raise NotCertifiable(
            "the dual player's feedback is not the costs of the policies, and no theorem bounds the difference"
        )
    if (ages := plan_ages(run)) is not None and not ages.own_start.all():
        raise NotCertifiable(f"the dual player's feedback is the primal player's estimates; {OTHER_START}")
    if B is not None and against.largest > B * (1 + TOLERANCE):
        raise NotCertifiable(f"lambda* reaches {against.largest:.6g}, which is above B = {B:.6g}")


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
