"""Bounds of theorems for the curves of a group: the certificates of `certify`, also after fewer rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.certificate import Certificate
from resetfree.runs.result import Run
from resetfree.show.report.html.groups import BROKEN, Group
from resetfree.show.report.html.series import shown
from resetfree.theory.certificates import EVERY_PATH, RATES, Truth, primal_cover, rates, truth
from resetfree.theory.certificates.claims_dual import dual_side

HALVINGS = 12  # points of a bound: K, K/2, K/4, ...


def rate(group: Group, claim: str) -> tuple[NDArray[np.int64], Floats, Certificate] | str:
    """A rate of `theory.certificates.RATES` for the first run, at K, K/2, K/4 ..., each for the rounds up to then.

    Returns episodes, bounds and the certificate at K; or the reason why no theorem's bound can be drawn, as for a
    tuned rate.
    """
    found = [c for c in group.certificates[0] if c.claim == claim]
    if not found or not found[0].applies:
        return found[0].why.rstrip(".") if found else "the run was not checked"
    if found[0].status != "proved":
        return found[0].why.rstrip(".")
    run, k = group.runs[0], group.rounds
    at: list[tuple[int, float]] = []
    grid = shown(group.rounds, log=True)  # the points of the curve, so that both fit one table
    for wanted in (k / 2**i for i in range(HALVINGS)):
        near = int(grid[np.argmin(np.abs(grid - wanted))])
        bound = _at(run, near, claim)
        if bound is not None and near not in dict(at):
            at.append((near, bound))
    if not at:
        return "it does not apply to the first rounds alone"
    ks, values = zip(*sorted(at), strict=True)
    return np.array(ks), np.array(values), found[0]


def every_path(group: Group) -> Certificate | None:
    """The bound on realised resets on every path, largest over the runs; None if the player has none."""
    found = [c for claims in group.certificates for c in claims if c.claim in EVERY_PATH and c.applies]
    return max(found, key=lambda c: c.rhs) if found and all(c.status == "proved" for c in found) else None


def _at(run: Run, k: int, claim: str) -> float | None:
    """The bound after k rounds."""
    part = replace(run, columns={name: column[:k] for name, column in run.columns.items()})
    try:
        known: Any = truth(part)
        side = dual_side(part, known.hat if isinstance(known, Truth) else known)
        claims = rates(part, known, primal_cover(part), side)
    except BROKEN:
        return None
    found = claims[RATES.index(claim)]
    return found.rhs if found.applies and found.status == "proved" else None
