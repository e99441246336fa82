"""What is left of the bound on Resets where the dual player's class has no lambda*, or its B is too small."""

from __future__ import annotations

from typing import Any

import numpy as np

from resetfree.core.certificate import Certificate, beside, over_rounds
from resetfree.core.errors import NotCertifiable, ResetFreeError
from resetfree.game.capabilities import CapsMultiplier, Comparator
from resetfree.theory.assumptions.misspecification import nearest_multipliers
from resetfree.theory.certificates.claims_dual import DualSide, online_bound
from resetfree.theory.certificates.claims_reduction import Truth
from resetfree.theory.certificates.plan_ages import plan_ages
from resetfree.theory.certificates.record import TOLERANCE, Record
from resetfree.theory.certificates.replay import DualStart, dual_history, dual_start
from resetfree.theory.regret import dual_regret, primal_regret, resets

NEARLY = (
    "(1 - eps) Resets are at most R_p(pi*) + R_d(lambda_c), lambda_c within eps of lambda*",
    "the dual player's online regret against lambda_c, within eps of lambda*, is at most its bound",
)


def nearly_in_class(run: Record, known: Truth | str, side: DualSide) -> list[Certificate]:
    """The reduction and the dual player's bound, with the function of its class that is nearest to lambda*.

    `assumptions.misspecification` has the proof. Only where lambda* itself is not in the class: else it is used.
    """
    if isinstance(known, str) or run.mdp is None or isinstance(side.against["lambda*"], Comparator):
        return []
    try:
        begun = dual_start(run)
        if begun.functions is None:
            return []
        nearest, eps = _nearest(run, begun)
        if eps >= 1:
            raise NotCertifiable(
                f"the nearest function of the class is {eps:.6g} from lambda*, and 1 or more is too far"
            )
        met = dual_history(run, begun, [nearest])
        most = online_bound(begun.player, met, nearest, late=plan_ages(run) is not None)
    except ResetFreeError as error:
        return [Certificate.not_applicable(claim, str(error)) for claim in NEARLY]
    rounds, k, lam = known.rounds, np.arange(1, len(run) + 1), run.columns["lam"]
    both = primal_regret(rounds, known.solution) + dual_regret(rounds, at_starts=nearest.at_starts)
    tolerance = TOLERANCE * (run.spec["horizon"] + nearest.largest + float(np.abs(lam).max())) * k
    online = np.cumsum((nearest.at_starts - lam) * run.columns["cost_signal"])
    why = f"eps = {eps:.6g}, measured"
    return [
        beside(over_rounds(NEARLY[0], (1 - eps) * resets(rounds), both, tolerance, why=why), most=(1 - eps) * len(run)),
        beside(over_rounds(NEARLY[1], online, most, tolerance, why=why), most=float(nearest.at_starts.sum())),
    ]


def _nearest(run: Record, begun: DualStart) -> tuple[Comparator, float]:
    """lambda_c in the dual player's set, and eps over every start that some behaviour can bring about."""
    mdp, among, player = run.mdp, begun.functions, begun.player
    assert mdp is not None
    assert among is not None
    if not isinstance(player, CapsMultiplier):
        raise NotCertifiable(f"The dual player '{player.name}' declares no bound on its multipliers.")
    xi = np.ones((mdp.n_states, 1)) if mdp.xi is None else np.asarray(mdp.xi, dtype=np.float64)
    cap = player.largest_multiplier(begun.problem, run.spec["episodes"])
    theta, wanted = nearest_multipliers(mdp, xi, cap)
    s1 = run.columns["s1"].astype(np.int64)
    u: Any = float(theta[0]) if isinstance(among.zero(), float) else theta
    u = among.moved(u, int(s1[0]), 0.0)  # the nearest point of its set
    values = xi @ np.atleast_1d(np.asarray(u, dtype=np.float64))
    possible = ~np.isnan(wanted)
    eps = max(0.0, float((wanted - values)[possible].max()))
    return Comparator("lambda_c", u, values[s1], float(values[possible].max())), eps
