"""The reduction on the rounds of a run, and whether its primal player is optimistic, as a theorem may prove."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, ResetFreeError
from resetfree.core.certificate import Certificate, Status, beside, in_every_round, over_rounds, resting_on
from resetfree.game.contract import PrimalPlayer, Proof
from resetfree.problems import FiniteMDP
from resetfree.theory.assumptions import feasibility, feasible, linear, linearity
from resetfree.theory.assumptions.linearity import nearest_linear
from resetfree.theory.certificates.record import TOLERANCE, Record, began_with, known_player, past_plan, plan_ages
from resetfree.theory.oracle.nodes import AtStarts
from resetfree.theory.regret import Rounds, Solved, best_values, primal_regret
from resetfree.theory.theorems import reduction, saddle_gap

NO_ORACLE = "needs an oracle: the model behind this run is not known"
REDUCTION = (
    "Regret equals R_p(pi*) + R_d(0)",
    "Resets are at most R_p(pi*) + R_d(lambda*)",
    "the gap to the saddle-point (pi*, lambda_hat) is at most R_p(pi*)",
    "V_r - lambda_hat V_c is at most V* in every round",
)
FIXED = "Resets are at most R_p(pi*) / (C - max lambda_hat), for fixed C"


@dataclass(frozen=True, eq=False)
class Truth:
    """What only an oracle knows of a run."""

    rounds: Rounds
    solution: Solved
    best: Floats  # [K] V*(s_1^k)
    hat: Floats  # [K] lambda_hat(s_1^k)

    @property
    def error(self) -> float:
        """Of V*: 0 up to rounding in a finite problem, that of quadrature on a continuum."""
        return self.solution.error if isinstance(self.solution, AtStarts) else 0.0

    def value_of(self, states: NDArray[Any]) -> Floats:
        """[n] V* of any states that a record names."""
        if isinstance(self.solution, AtStarts):
            return self.solution.value_of(states)
        return np.asarray(self.solution.value[states.astype(np.int64)])


def truth(run: Record) -> Truth | str:
    """The oracle's side of a run, or the reason it is missing."""
    if run.mdp is None and run.continuum is None:
        return NO_ORACLE
    if np.isnan(run.columns["v_r"]).all():
        return "needs the exact values of the policies, which this run did not record"
    try:
        rounds, solution = run.rounds, run.solution
        return Truth(rounds, solution, best_values(rounds, solution), solution.lambda_hat[rounds.s1])
    except ResetFreeError as error:
        return str(error)


def reduction_claims(run: Record, known: Truth | str) -> list[Certificate]:
    """Regret, Resets and the gap to the saddle-point against the regrets of the two players."""
    if isinstance(known, str):
        return [Certificate.not_applicable(claim, known) for claim in REDUCTION]
    rounds, tolerance = known.rounds, TOLERANCE * float(run.spec["horizon"] + known.hat.max())
    played, horizon = rounds.v_r - known.hat * rounds.v_c, float(run.spec["horizon"])
    found = [
        *(_beside(claim, len(run), horizon) for claim in reduction(rounds, known.solution)),
        *saddle_gap(rounds, known.solution),
        beside(
            in_every_round(REDUCTION[3], played, known.best, tolerance),
            most=horizon,
            always=bool((known.best >= horizon).all()),
        ),
    ]
    if (rounds.lam == rounds.lam[0]).all() and not any("fixed C" in c.claim for c in found):
        why = f"C = {rounds.lam[0]:.6g} is not above max lambda_hat = {known.hat.max():.6g}"
        found.append(Certificate.not_applicable(FIXED, why))
    return found


def _beside(claim: Certificate, k: int, horizon: float) -> Certificate:
    """What is proved of Resets and Regret beside what is true of every run: Resets <= K, Regret >= -K H."""
    if claim.status != "proved":
        return claim
    return beside(claim, most=float(k)) if claim.claim.startswith("Resets") else beside(claim, least=-k * horizon)


OPTIMISM = (
    "V* is at most what the primal player names as above it, in every round",
    "the primal player's V_r is at least that of the policy it played, in every round",
    "the primal player's V_c is at most that of the policy it played, in every round",
    "R_p(pi*) is at most the sum of the primal player's overestimates",
)
IF_FEASIBLE = "it holds if Assumption 1 does, which cannot be checked without the model"
IF_LINEAR = "it holds if Assumption 1 does and the problem is linear, which cannot be checked without the model"
NOT_LINEAR = "the problem is not known to be linear in its features"
NO_UPPER = "the primal player names no upper bound on V*"
OTHER_START = "some plans were made for another start than that of their round, so what they say is of that start"


class Cover(NamedTuple):
    """Whether theorems cover a player with the constants of this run."""

    status: Status
    why: str
    proof: Proof


def primal_cover(run: Record, *, within_bound: bool = True) -> Cover:
    """Whether the primal player's optimism is proved here: its own statement, and what that rests on.

    within_bound: False where it is the claim itself that no multiplier exceeds B.
    Whatever the statement rests on is checked on this run: multipliers up to the B that it names, or only one of them,
    the noise in rewards, Assumption 1, and linearity where the proof needs it. What cannot be checked is no proof.
    """
    stated, proof = run.statements["primal"], proof_of(run)
    over = over_bound(run, proof) if within_bound else ""
    lacks = (f"the theorem is {over}" if over else _lacks(run, proof)) if stated["covered"] else str(stated["why"])
    if lacks:
        return Cover("tuned", lacks, proof)
    measured = f"; {_distances(run.mdp)} of linear, measured" if run.mdp is not None and any(proof.misfit) else ""
    return Cover("proved", f"{stated['why']}{measured}", proof)


def _lacks(run: Record, proof: Proof) -> str:
    """What the proof needs and this run lacks or cannot be checked for; empty if nothing is missing."""
    lam = run.columns["lam"]
    if proof.one_multiplier and (lam != lam[0]).any():
        return f"the theorem is for a multiplier that never changes; here are {len(np.unique(lam))}"
    if past := began_with(run) or past_plan(run, "primal"):
        return past
    outside = next((one.k for one in run.notes if one.tuned), None)
    if outside is not None:
        return f"the theorem is for rewards in [0, 1], which episode {outside} left"
    if run.continuum is not None:
        findings = (feasible(run.continuum), linear(run.continuum))
        return next((f"an assumption fails: {one.sentence}" for one in findings if not one.holds), "")
    if run.mdp is None:
        return f"{run.statements['primal']['why']}; {IF_LINEAR if proof.linear else IF_FEASIBLE}"
    noise = run.mdp.reward_noise
    if proof.linear and run.mdp.noise != "bernoulli" and noise > 0:
        return "the proved width is for rewards in [0, 1], and these have Gaussian noise"
    if proof.noise is not None and noise > proof.noise:
        return f"the proved width is for less noise in rewards than there is ({noise:g}-sub-Gaussian)"
    finding = feasibility(run.mdp)
    if not finding.holds:
        return f"Assumption 1 fails: {finding.sentence}"
    if proof.linear and not (finding := linearity(run.mdp)).holds:
        return _too_far(run.mdp, proof) if any(proof.misfit) else f"{NOT_LINEAR}: {finding.sentence}"
    return ""


def _too_far(mdp: FiniteMDP, proof: Proof) -> str:
    """By how much the problem is farther from linear than a proof allows; empty if it is not."""
    allowed = proof.misfit
    if all(far <= most for far, most in zip(nearest_linear(mdp), allowed, strict=True)):
        return ""
    return f"{NOT_LINEAR}: {_distances(mdp)} of it, and the widths are for {allowed[0]:.6g} and {allowed[1]:.6g}"


def _distances(mdp: FiniteMDP) -> str:
    far = nearest_linear(mdp)
    return f"P is within {far.transition:.6g} and r within {far.reward:.6g}"


def proof_of(run: Record) -> Proof:
    """What the primal player's proof rests on, as the player states it."""
    player: PrimalPlayer[Any] | None = known_player(run, "primal")
    return Proof() if player is None else player.proof(run.problem_again())


def over_bound(run: Record, proof: Proof) -> str:
    """Which multiplier is above the B that the primal player's proof is for; empty if none is."""
    B, largest = proof.largest_multiplier, float(run.columns["lam"].max())
    if B is None or largest <= B * (1 + TOLERANCE):
        return ""
    return f"for multipliers up to B = {B:.6g}, and here one is {largest:.6g}"


def optimism(run: Record, known: Truth | str, cover: Cover) -> list[Certificate]:
    """V* <= upper in every round, and the player's values are on the right side of those of the policy it played.

    Paper: regret of the primal player under optimism (lemma).

    V_r^k >= V_r^{pi*} and V_c^k <= V_c^{pi*} need not hold one by one; only the composite does (A12).
    Proofs of optimism are for all rounds at once, so that the age of a plan plays no part. What it says is of the start
    that it was made for: there V* is compared, and the values of policies in rounds that began there.
    """
    c = run.columns
    if isinstance(known, str) or np.isnan(c["upper"]).any():
        why = known if isinstance(known, str) else NO_UPPER
        return [Certificate.not_applicable(claim, why) for claim in OPTIMISM]
    rounds, status, why, ages = known.rounds, cover.status, likely(cover), plan_ages(run)
    best, own = known.best, np.ones(len(run), dtype=np.bool_)
    if ages is not None:
        best, own = known.value_of(ages.made_for[ages.based_on]), ages.own_start
    tolerance = known.error + TOLERANCE * float(run.spec["horizon"] + np.abs(rounds.lam).max())
    over = np.cumsum(c["upper"] - (rounds.v_r - rounds.lam * rounds.v_c))
    r_p, summed = primal_regret(rounds, known.solution), tolerance * np.arange(1, len(run) + 1)
    horizon, most_r_p = float(run.spec["horizon"]), largest_primal_regret(run)
    v_r, v_c_hat = _there(rounds.v_r, own), _there(c["v_c_hat"], own)
    # A claim about each round says nothing if it does so in every one of them.
    sides = [
        beside(
            in_every_round(OPTIMISM[1], v_r, c["v_r_hat"], tolerance, status=status, why=why),
            most=horizon,
            always=bool((c["v_r_hat"] >= horizon).all()),
        ),
        beside(
            in_every_round(OPTIMISM[2], v_c_hat, rounds.v_c, tolerance, status=status, why=why),
            least=0.0,
            always=bool((v_c_hat <= 0).all()),
        ),
    ]
    if not cover.proof.values_are_bounds:
        estimates = "the player's V_r and V_c are estimates, not bounds"
        sides = [Certificate.not_applicable(claim, estimates) for claim in OPTIMISM[1:3]]
    found = [
        beside(
            in_every_round(OPTIMISM[0], best, c["upper"], tolerance, status=status, why=why),
            most=horizon,
            always=bool((c["upper"] >= horizon).all()),
        ),
        *sides,
        beside(over_rounds(OPTIMISM[3], r_p, over, summed, status=status, why=why), most=most_r_p)
        if own.all()
        else Certificate.not_applicable(OPTIMISM[3], OTHER_START),
    ]
    return [resting_on(one, optimism=cover.proof.failure) for one in found]


def largest_primal_regret(run: Record) -> float:
    """What R_p(pi*) is at most in any run of these rounds and multipliers: V* <= H, V_r >= 0 and V_c <= 1."""
    return float(len(run) * (run.spec["horizon"] + np.abs(run.columns["lam"]).max()))


def _there(left: Floats, own: Bools) -> Floats:
    """The left side of a claim about each round, which says nothing where the plan was for another start."""
    return np.where(own, left, -np.inf)


def likely(cover: Cover, delta: float = 0.0) -> str:
    """The reason of a status, with the probability that a proof has; a claim that is only tuned has none."""
    p = cover.proof.failure + delta
    return f"with probability at least {1 - p:g}; {cover.why}" if p > 0 and cover.status == "proved" else cover.why
