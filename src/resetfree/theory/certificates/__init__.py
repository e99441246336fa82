"""Every claim that can be checked on a run, each with both sides computed and its status (see `certificate`).

Legend: K rounds; s_1^k the start, lam^k the multiplier, pi^k the policy of round k; V_r, V_c its exact values at s_1^k
(an oracle's); V_r^k, V_c^k the primal player's own, upper_k what it holds to be above V*(s_1^k); g_k what the dual
player was told; lambda_hat the least optimal multipliers, lambda* >= lambda_hat + 1; R_p, R_d the players' regrets.

A claim is "proved" if a theorem stands behind it with the constants of this run: if it fails all the same, the record,
the code or the theorem is wrong, or the stated small probability came true. "tuned" claims have none, or one that rests
on what cannot be checked here, and may fail. An "identity" is algebra that holds on any numbers: it checks the
arithmetic here, and says nothing about the players.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from resetfree.core.certificate import Certificate, Status, in_every_round, over_rounds
from resetfree.core.errors import NotCertifiable, ResetFreeError
from resetfree.problems.finite.transitions import Floats
from resetfree.theory.assumptions import feasibility, linearity, unsafe_pairs
from resetfree.theory.certificates import anytime
from resetfree.theory.certificates.asked import as_recorded, unasked
from resetfree.theory.certificates.record import TOLERANCE, Record, record
from resetfree.theory.certificates.replay import Comparator, DualSide, dual_claims, dual_lemma, dual_side
from resetfree.theory.oracle.dynamic_programming import Solution
from resetfree.theory.regret import Rounds, best_values, primal_regret, regret, resets
from resetfree.theory.theorems import reduction, saddle_gap

NO_ORACLE = "needs an oracle: the model behind this run is not known"
REDUCTION = (
    "Regret equals R_p(pi*) + R_d(0)",
    "Resets are at most R_p(pi*) + R_d(lambda*)",
    "the gap to the saddle-point (pi*, lambda_hat) is at most R_p(pi*)",
    "V_r - lambda_hat V_c is at most V* in every round",
)
FIXED = "Resets are at most R_p(pi*) / (C - max lambda_hat), for fixed C"
OPTIMISM = (
    "V* is at most what the primal player names as above it, in every round",
    "the primal player's V_r is at least that of the policy it played, in every round",
    "the primal player's V_c is at most that of the policy it played, in every round",
    "R_p(pi*) is at most the sum of the primal player's overestimates",
)
RATES = ("R_p(pi*) is at most its rate", "Regret is at most its rate", "Resets are at most their rate")
RATE_CONSTANTS = ("beta_r", "beta_c", "alpha", "p", "d", "B")
CAPS = ("B", "C", "ceiling")  # what a dual player's multipliers never exceed, as its statement names it
# By whether the player keeps the steps of an episode apart.
EVERY_PATH = (
    "no more resets happened than there are unsafe pairs (s, a)",
    "no more resets happened than there are unsafe triples (h, s, a)",
)
IF_FEASIBLE = "it holds if Assumption 1 does, which cannot be checked without the model"
IF_LINEAR = "it holds if Assumption 1 does and the problem is linear, which cannot be checked without the model"
NO_UPPER = "the primal player names no upper bound on V*"


@dataclass(frozen=True, eq=False)
class Truth:
    """What only an oracle knows of a run."""

    rounds: Rounds
    solution: Solution
    best: Floats  # [K] V*(s_1^k)
    hat: Floats  # [K] lambda_hat(s_1^k)


class Cover(NamedTuple):
    """Whether theorems speak of a player with the constants of this run."""

    status: Status
    why: str


def certify(run: Record) -> list[Certificate]:
    """Every claim that can be checked on a run; without an oracle, what needs one says so.

    What the players say is proved of them is asked of the players, never read from a file.

    >>> import resetfree as rf
    >>> found = certify(rf.learn("grid-v0", episodes=50, seed=1))
    >>> [c.claim for c in found if c.status == "proved" and not c.holds]
    []
    """
    if not len(run):
        return [Certificate.not_applicable("every claim about rounds", "no round was played")]
    found = record(run)
    if run.mdp is not None and not found[0].holds:
        return [*found, Certificate.not_applicable("every other claim", "some starts are none of this problem")]
    known, cover = truth(run), primal_cover(run)
    rounds, hat = (known, known) if isinstance(known, str) else (known.rounds, known.hat)
    side = dual_side(run, hat)
    return [
        *found, as_recorded(run), *_reduction(run, known), *dual_claims(run, side), *dual_lemma(run, rounds, side),
        *optimism(run, known, cover), *rates(run, known, cover, side), *anytime_resets(run),
        *anytime_regret(run, known, cover), *on_every_path(run),
    ]  # fmt: skip


def on_every_path(run: Record) -> list[Certificate]:
    """Resets that happened against the number that no path can exceed, of players that have one.

    What each reset rules out for good is a pair (s, a), or a triple (h, s, a) where the player keeps steps apart: it
    says which, and the same is counted in the model.
    """
    said = run.statements["primal"]
    most = said.get("most_resets")
    if most is None:
        return unasked(run, EVERY_PATH[0])
    per_step = said["constants"].get("eliminates") != "(s, a)"
    claim, resets = EVERY_PATH[per_step], float(run.realised_resets[-1])
    if run.mdp is None:
        why = f"counted are all of them, safe or not; {IF_FEASIBLE}"
        return [Certificate(claim, resets, float(most), 0.0, status="tuned", why=why)]
    finding = feasibility(run.mdp)
    if not finding.holds:
        return [Certificate.not_applicable(claim, finding.sentence)]
    return [Certificate(claim, resets, float(unsafe_pairs(run.mdp, per_step)), 0.0)]


def truth(run: Record) -> Truth | str:
    """The oracle's side of a run, or why there is none."""
    if run.mdp is None:
        return NO_ORACLE
    if np.isnan(run.columns["v_r"]).all():
        return "needs the exact values of the policies, which this run did not record"
    try:
        rounds, solution = run.rounds, run.solution
        return Truth(rounds, solution, best_values(rounds, solution), solution.lambda_hat[rounds.s1])
    except ResetFreeError as error:
        return str(error)


def _reduction(run: Record, known: Truth | str) -> list[Certificate]:
    if isinstance(known, str):
        return [Certificate.not_applicable(claim, known) for claim in REDUCTION]
    rounds, tolerance = known.rounds, TOLERANCE * float(run.spec["horizon"] + known.hat.max())
    played = rounds.v_r - known.hat * rounds.v_c
    found = [
        *reduction(rounds, known.solution),
        *saddle_gap(rounds, known.solution),
        in_every_round(REDUCTION[3], played, known.best, tolerance),
    ]
    if (rounds.lam == rounds.lam[0]).all() and not any("fixed C" in c.claim for c in found):
        why = f"C = {rounds.lam[0]:.6g} is not above max lambda_hat = {known.hat.max():.6g}"
        found.append(Certificate.not_applicable(FIXED, why))
    return found


def primal_cover(run: Record) -> Cover:
    """Whether the primal player's optimism is proved here: its own statement, and what that rests on.

    Whatever the statement rests on is checked on this run: multipliers up to the B that it names, or only one of them,
    the noise in rewards, Assumption 1, and linearity of players that say their widths. What cannot be checked is no
    proof.
    """
    said, lam = run.statements["primal"], run.columns["lam"]
    constants = said["constants"]
    if not said["covered"]:
        return Cover("tuned", said["why"])
    if over := _over_bound(run):
        return Cover("tuned", f"the theorem is {over}")
    if constants.get("one_multiplier") and (lam != lam[0]).any():
        return Cover("tuned", f"the theorem is for a multiplier that never changes; here are {len(np.unique(lam))}")
    linear = "beta_r" in constants
    if run.mdp is None:
        return Cover("tuned", f"{said['why']}; {IF_LINEAR if linear else IF_FEASIBLE}")
    noise = run.mdp.reward_noise
    if linear and run.mdp.noise != "bernoulli" and noise > 0:
        return Cover("tuned", "the proved width is for rewards in [0, 1], and these have Gaussian noise")
    if noise > float(constants.get("noise", noise)):
        return Cover("tuned", f"the proved width is for less noise in rewards than there is ({noise:g}-sub-Gaussian)")
    finding = feasibility(run.mdp)
    if not finding.holds:
        return Cover("tuned", f"Assumption 1 fails: {finding.sentence}")
    if linear and not (finding := linearity(run.mdp)).holds:
        return Cover("tuned", f"the problem is not known to be linear in its features: {finding.sentence}")
    return Cover("proved", said["why"])


def _over_bound(run: Record) -> str:
    """Which multiplier is above the B that the primal player's constants are made for; empty if none is."""
    B, largest = run.statements["primal"]["constants"].get("B"), float(run.columns["lam"].max())
    if B is None or largest <= float(B) * (1 + TOLERANCE):
        return ""
    return f"for multipliers up to B = {float(B):.6g}, and here one is {largest:.6g}"


def optimism(run: Record, known: Truth | str, cover: Cover) -> list[Certificate]:
    """V* <= upper in every round, and the player's values are on the right side of those of the policy it played.

    Paper: regret of the primal player under optimism (lemma).

    V_r^k >= V_r^{pi*} and V_c^k <= V_c^{pi*} need not hold one by one; only the composite does (A12).
    """
    c = run.columns
    if isinstance(known, str) or np.isnan(c["upper"]).any():
        why = known if isinstance(known, str) else NO_UPPER
        return [Certificate.not_applicable(claim, why) for claim in OPTIMISM]
    rounds, status, why = known.rounds, cover.status, _likely(run, cover)
    tolerance = TOLERANCE * float(run.spec["horizon"] + np.abs(rounds.lam).max())
    separate = "alpha" in run.statements["primal"]["constants"]  # two values, each on its side of the truth
    over = np.cumsum(c["upper"] - (rounds.v_r - rounds.lam * rounds.v_c))
    r_p, summed = primal_regret(rounds, known.solution), tolerance * np.arange(1, len(run) + 1)
    sides = [
        in_every_round(OPTIMISM[1], rounds.v_r, c["v_r_hat"], tolerance, status=status, why=why),
        in_every_round(OPTIMISM[2], c["v_c_hat"], rounds.v_c, tolerance, status=status, why=why),
    ]
    if not separate:
        estimates = "the player's V_r and V_c are estimates, not bounds"
        sides = [Certificate.not_applicable(claim, estimates) for claim in OPTIMISM[1:3]]
    return [
        in_every_round(OPTIMISM[0], known.best, c["upper"], tolerance, status=status, why=why),
        *sides,
        over_rounds(OPTIMISM[3], r_p, over, summed, status=status, why=why),
    ]


def rates(run: Record, known: Truth | str, cover: Cover, side: DualSide) -> list[Certificate]:
    """R_p, Regret and Resets against their explicit bounds, at the last round.

    Paper: rates for linear MDPs (theorem).

    R_p(pi*) <= P = K H ln|A| / alpha + 2 (beta_r + B beta_c) H sqrt(2 d K ln(1 + K/d)) + 2 (H + B) sqrt(K H ln(2/p)),
    Regret <= P + dual bound against 0,  Resets <= P + dual bound against lambda* + what the dual's signal adds:
      optimistic  nothing: weighted with lambda* in place of lam, the overestimates are at most P as well;
      exact       nothing;
      realised    sum (lam - lambda*)(C_k - V_c), a martingale: see `_with_chance`.
    With probability at least 1 - p, and 1 - p - delta for Resets with realised costs. "vacuous" in the detail says that
    a bound is no smaller than what is true of every run: Regret <= K H, Resets <= K.
    """
    try:
        if isinstance(known, str):
            raise NotCertifiable(known)
        primal = primal_bound(run)
    except NotCertifiable as error:
        return [Certificate.not_applicable(claim, str(error)) for claim in RATES]
    k, horizon, rounds, solution = len(run), run.spec["horizon"], known.rounds, known.solution
    said = run.statements["dual"]
    both = cover
    if not said["covered"]:
        both = Cover("tuned", said["why"] if cover.status == "proved" else f"{cover.why}; {said['why']}")
    largest = k * (horizon + float(np.abs(rounds.lam).max()))
    found = [_rate(run, RATES[0], primal_regret(rounds, solution)[-1], primal, largest, cover, {})]
    for claim, left, trivial, name in (
        (RATES[1], regret(rounds, solution)[-1], float(k * horizon), "0"),
        (RATES[2], resets(rounds)[-1], float(k), "lambda*"),
    ):
        online, against = side.bounds[name], side.against[name]
        if isinstance(online, str) or isinstance(against, str):
            found.append(Certificate.not_applicable(claim, str(online)))
            continue
        bound, delta = primal + float(online[-1]), 0.0
        if name == "lambda*" and run.spec["feedback"] == "realised":
            bound, delta = _with_chance(run, bound, against), anytime.DELTA
        elif name == "lambda*" and (lacks := _unfaithful(run, rounds, against)):
            found.append(Certificate.not_applicable(claim, lacks))
            continue
        detail = {"primal": primal, "dual": float(online[-1])}
        found.append(_rate(run, claim, left, bound, trivial, both, detail, delta))
    return found


def _rate(
    run: Record, claim: str, left: float, bound: float, trivial: float, cover: Cover, detail: dict[str, Any],
    delta: float = 0.0,
) -> Certificate:  # fmt: skip
    detail = {**detail, "trivial": trivial, "vacuous": bool(bound >= trivial)}
    why = _likely(run, cover, delta)
    return Certificate(claim, left, bound, TOLERANCE * trivial, "<=", f"round {len(run)}", detail, cover.status, why)


def primal_bound(run: Record) -> float:
    """P of `rates` for players that say their widths, else a player's own bound; raises NotCertifiable without one.

    Of a run that was interrupted the martingale's term is that of all K rounds, which bounds it before K as well.
    """
    constants, name = run.statements["primal"]["constants"], run.spec["primal"]["name"]
    if name == "best-response":
        return 0.0
    if over := _over_bound(run):
        raise NotCertifiable(f"The rate is {over}.")
    if not set(RATE_CONSTANTS) <= set(constants):
        own = constants.get("primal_regret_bound")
        if own is None:
            raise NotCertifiable(f"No theorem bounds the regret of the primal player '{name}'.")
        return float(own)
    beta_r, beta_c, alpha, p, d, B = (float(constants[x]) for x in RATE_CONSTANTS)
    k, horizon, n_actions = len(run), run.spec["horizon"], run.spec["n_actions"]
    planned = max(k, run.spec["episodes"])
    growing = run.spec["primal"]["settings"].get("anytime", False)  # alpha_k = alpha k
    rounds = float((1.0 / np.arange(1, k + 1)).sum()) if growing else float(k)
    if n_actions > 1 and alpha <= 0:
        raise NotCertifiable("The rate is for a positive inverse temperature alpha.")
    softmax = rounds * horizon * log(n_actions) / alpha if n_actions > 1 else 0.0
    ridge = float(constants.get("reg", 1.0))
    # sum |phi|^2_{Lam^-1} <= factor d ln(1 + K / (d reg)), since x <= factor ln(1 + x) up to 1/reg (the theorem's: 1).
    factor = 2.0 if ridge >= 1 else 1 / (ridge * log(1 + 1 / ridge))
    bonuses = 2 * (beta_r + B * beta_c) * horizon * sqrt(factor * d * k * log(1 + k / (d * ridge)))
    return float(softmax + bonuses + 2 * (horizon + B) * sqrt(planned * horizon * log(2 / p)))


def _with_chance(run: Record, bound: float, against: Comparator) -> float:
    """Resets <= bound + sum (lam - lambda*)(C_k - V_c), solved for Resets, with probability at least 1 - delta.

    Each term lies in an interval of length b, the larger of what bounds lam and all lambda*, and has variance at most
    b^2 V_c. Both are known before the first round: lam by the dual player's own cap, lambda* at every start that can
    come about. Two ways, delta/2 each: Hoeffding and Azuma add b sqrt(K ln(2/delta) / 2); Freedman with
    eta = 1 / (2 (e - 2) b^2) adds Resets / 2 + 2 (e - 2) b^2 ln(2/delta), hence
    Resets <= 2 bound + 4 (e - 2) b^2 ln(2/delta), in which there is no K.
    """
    constants = run.statements["dual"]["constants"]
    b = max(against.largest, *(float(constants[cap]) for cap in CAPS if cap in constants))
    planned, level = max(len(run), run.spec["episodes"]), log(2 / anytime.DELTA)
    return min(bound + b * sqrt(planned * level / 2), 2 * bound + 4 * (e - 2) * b * b * level)


def _unfaithful(run: Record, rounds: Rounds, against: Comparator) -> str:
    """Why the rate does not count the difference between what the dual player was told and V_c; empty if it does."""
    constants = run.statements["primal"]["constants"]
    if np.abs(run.columns["cost_signal"] - rounds.v_c).max() <= TOLERANCE:
        return ""
    if not set(RATE_CONSTANTS) <= set(constants):
        return "the dual player was told costs that are not those of the policies, and no theorem bounds the difference"
    B, largest = float(constants["B"]), against.largest
    return f"lambda* reaches {largest:.6g}, which is above B = {B:.6g}" if largest > B * (1 + TOLERANCE) else ""


def anytime_resets(run: Record) -> list[Certificate]:
    """Resets between two bounds that need nothing but the number of resets, after every round at once."""
    k, n, half = np.arange(1, len(run) + 1), run.realised_resets, anytime.DELTA / 2
    upper, lower = np.minimum(anytime.resets_upper(n, half), k), anytime.resets_lower(n, half)
    why = f"with probability at least {1 - anytime.DELTA:g} after every round at once; no assumption is needed"
    detail = {"realised": int(n[-1]), "lower": float(lower[-1]), "upper": float(upper[-1])}
    v_c = run.columns["v_c"]
    if np.isnan(v_c).all():
        return [_interval("Resets lie between what the resets so far need and allow", lower, upper, detail, why)]
    total = np.cumsum(v_c)
    most, least = "Resets are at most what the resets so far allow", "Resets are at least what the resets so far need"
    return [
        over_rounds(most, total, upper, TOLERANCE * k, detail=detail, why=why),
        over_rounds(least, lower, total, TOLERANCE * k, detail=detail, why=why),
    ]


def anytime_regret(run: Record, known: Truth | str, cover: Cover) -> list[Certificate]:
    """Regret between two bounds that need no model: the player's upper bounds less the rewards, and -B Resets."""
    c, horizon, delta, noise, B = run.columns, run.spec["horizon"], anytime.DELTA, _noise(run), run.spec["B"]
    k, found = np.arange(1, len(run) + 1), []
    most = "Regret is at most what the primal player's upper bounds and the rewards so far allow"
    least = "Regret is at least -B times what the resets so far allow"
    upper, detail = np.full(len(run), np.nan), {}
    if not np.isnan(c["upper"]).any():
        above = anytime.upper_sum(c["s1"], c["upper"], horizon)
        upper = anytime.regret_upper(k, above, np.cumsum(c["reward"]), horizon, delta, noise)
        trivial = float(len(run) * horizon)
        detail = {"upper": float(upper[-1]), "trivial": trivial, "vacuous": bool(upper[-1] >= trivial)}
    lower: Floats = -1.0 * horizon * k if B is None else anytime.regret_lower(run.realised_resets, float(B), delta / 2)
    if isinstance(known, str):
        if not detail:
            return [Certificate.not_applicable(claim, NO_UPPER if claim == most else known) for claim in (most, least)]
        why = _likely(run, cover, 1.5 * delta) + ("" if B is None else "; if B is at least every lambda_hat")
        claim = "Regret lies between what the resets, and the upper bounds and rewards, so far allow"
        status: Status = cover.status if B is None else "tuned"  # nothing says here that B is large enough
        return [_interval(claim, lower, upper, detail, why, status)]
    rounds, tolerance = known.rounds, TOLERANCE * (horizon + float(B or 0.0)) * k
    total = regret(rounds, known.solution)
    boundary = anytime.mixture_boundary(k * anytime.return_variance(horizon, noise), delta, float(horizon**2))
    often = f"with probability at least {1 - delta:g} after every round at once; no assumption is needed"
    claim = "the rewards collected differ from the sum of V_r by no more than chance allows"
    found.append(over_rounds(claim, np.abs(np.cumsum(c["reward"] - rounds.v_r)), boundary, tolerance, why=often))
    if detail:
        why = _likely(run, cover, delta)
        found.append(over_rounds(most, total, upper, tolerance, detail=detail, status=cover.status, why=why))
    else:
        found.append(Certificate.not_applicable(most, NO_UPPER))
    if B is None or known.hat.max() > B * (1 + TOLERANCE):
        why = "no bound B on the multipliers is known" if B is None else f"B = {B:.6g} is below some lambda_hat"
        return [*found, Certificate.not_applicable(least, why)]
    why = f"with probability at least {1 - delta / 2:g} after every round at once, as B is at least every lambda_hat"
    return [*found, over_rounds(least, lower, total, tolerance, why=why)]


def _interval(
    claim: str, lower: Floats, upper: Floats, detail: dict[str, Any], why: str, status: Status = "proved"
) -> Certificate:
    """Where a quantity lies that cannot be computed without an oracle: said where it is proved, and never compared."""
    if status != "proved":
        return Certificate.not_applicable(claim, f"no theorem stands behind [{lower[-1]:.6g}, {upper[-1]:.6g}]: {why}")
    why = f"{why}; there is no oracle to compare with"
    return Certificate(claim, lower[-1], upper[-1], 0.0, "<=", f"round {len(lower)}", detail, "stated", why)


def _noise(run: Record) -> float | str:
    noise: float | str = run.mdp.noise if run.mdp is not None else run.spec.get("noise", 0.0)
    return noise


def _likely(run: Record, cover: Cover, delta: float = 0.0) -> str:
    """The reason of a status, with the probability that a proof has; a claim that is only tuned has none."""
    p = float(run.statements["primal"]["constants"].get("p", 0.0)) + delta
    return f"with probability at least {1 - p:g}; {cover.why}" if p > 0 and cover.status == "proved" else cover.why
