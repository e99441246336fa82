"""`upright-pendulum`: a rod on a pivot with a motor too weak to lift it, held upright.

Legend: q angle from upright, rad; w its rate; T = TORQUE u the torque, N m. The rod is uniform, of the length ROD and
the mass MASS, so that its moment of inertia about the pivot is MASS ROD^2 / 3, and

    w' = (3 GRAVITY / (2 ROD)) sin q + 3 T / (MASS ROD^2)

These are the rod, the motor and the equation of Gymnasium's Pendulum.
"""

from math import cos, radians, sin

import numpy as np

from resetfree.core import Floats
from resetfree.problems.machines.set_points import BalancedMachine, closeness

MASS, ROD, GRAVITY = 1.0, 1.0, 10.0  # kg, m, m/s^2
TORQUE = 2.0  # N m, the most
LEAN = radians(60.0)  # where the machine must be reset; from 24 degrees on the motor cannot bring it back
FAST = 8.0  # rad/s: faster than a fall to the limit
NEAR = 0.1  # rad, rad/s: the most after a reset


def energy(x: Floats) -> float:
    """The mechanical energy of (q, w), J: constant without torque."""
    q, w = map(float, x)
    return MASS * ROD**2 / 6.0 * w**2 + MASS * GRAVITY * ROD / 2.0 * cos(q)


class UprightPendulum(BalancedMachine):
    """The pendulum: keep it upright.

    Observation: q, w. Action: u, the torque as a share of the most. Reward: 1 upright without torque, less towards the
    limit. Reset: |q| > 60 degrees. Its set point, upright, never changes.
    """

    dt, substeps = 0.05, 4

    def __init__(self) -> None:
        super().__init__([2 * LEAN, FAST])

    def rates(self, x: Floats, u: Floats) -> Floats:
        """The equation of motion."""
        q, w = x.tolist()
        return np.array([w, 1.5 * GRAVITY / ROD * sin(q) + 3.0 * TORQUE * float(u[0]) / (MASS * ROD**2)])

    def resting(self) -> Floats:
        """Nearly upright, nearly at rest."""
        return self.np_random.uniform(-NEAR, NEAR, 2)

    def tracking(self) -> float:
        """How far the limit is."""
        return closeness(abs(float(self.x[0])), LEAN)

    def at_limit(self) -> bool:
        """Leaning too far."""
        return bool(abs(self.x[0]) > LEAN)


def controller(observation: Floats) -> Floats:
    """A simple controller: torque against the angle and against its rate."""
    q, w = observation.tolist()
    return np.clip(np.array([-(10.0 * q + 3.0 * w)]) / TORQUE, -1.0, 1.0)
