"""The reduction, on the rounds of a run: Regret and Resets by the players' regrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.certificate import Certificate, beside, in_every_round
from resetfree.core.errors import ResetFreeError
from resetfree.theory.certificates.record import TOLERANCE, Record
from resetfree.theory.oracle.nodes import AtStarts
from resetfree.theory.regret import Rounds, Solved, best_values
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
