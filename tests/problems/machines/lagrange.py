"""Lagrange's equations by differences: what a Lagrangian says of an acceleration, without solving anything by hand."""

from collections.abc import Callable

import numpy as np

from resetfree.core import Floats

STEP = 1e-4
Lagrangian = Callable[[Floats, Floats], float]  # (q, w) -> L


def slope(function: Callable[[Floats], float], at: Floats) -> Floats:
    """[n] the gradient by central differences."""
    return np.array([(function(at + STEP * e) - function(at - STEP * e)) / (2 * STEP) for e in np.eye(len(at))])


def generalised_force(lagrangian: Lagrangian, q: Floats, w: Floats, acceleration: Floats) -> Floats:
    """[n] the forces that this acceleration takes: d/dt dL/dw - dL/dq."""

    def momentum(t: float) -> Floats:
        place, speed = q + t * w + 0.5 * t**2 * acceleration, w + t * acceleration
        return slope(lambda v: lagrangian(place, v), speed)

    rate = (momentum(STEP) - momentum(-STEP)) / (2 * STEP)
    return rate - slope(lambda p: lagrangian(p, w), q)
