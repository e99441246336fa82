"""`cart-pole`: a pole on a cart, balanced by a force of any size up to a limit.

Legend: p position of the cart, m; q angle of the pole from upright, rad; v, w their rates; F = FORCE u the force on the
cart, N. The pole is a uniform rod of the length 2 HALF. The equations of motion are those of Barto, Sutton and Anderson
(1983), "Neuronlike adaptive elements that can solve difficult learning control problems", without friction:

    w' = (GRAVITY sin q - cos q (F + POLE HALF w^2 sin q) / (CART + POLE))
         / (HALF (4/3 - POLE cos^2 q / (CART + POLE)))
    v' = (F + POLE HALF (w^2 sin q - w' cos q)) / (CART + POLE)

Their force is one of two, this one is continuous.
"""

from math import cos, radians, sin

import numpy as np

from resetfree.core import Floats
from resetfree.problems.machines.set_points import BalancedMachine, closeness

CART, POLE, HALF, GRAVITY = 1.0, 0.1, 0.5, 9.8  # kg, kg, m, m/s^2
FORCE = 10.0  # N, the most
END, LEAN = 2.4, radians(12.0)  # m, rad: where the machine must be reset
FAST = 10.0  # m/s, rad/s: faster than it gets between its limits
NEAR = 0.05  # of each number of the state after a reset


def energy(x: Floats) -> float:
    """The mechanical energy of (p, v, q, w), J: constant without force."""
    _, v, q, w = map(float, x)
    moving = 0.5 * (CART + POLE) * v**2 + POLE * HALF * v * w * cos(q) + 0.5 * (4 / 3) * POLE * HALF**2 * w**2
    return moving + POLE * GRAVITY * HALF * cos(q)


class CartPole(BalancedMachine):
    """The cart-pole: keep the pole upright and the cart in the middle.

    Observation: p, v, q, w. Action: u, the force as a share of the most. Reward: 1 upright in the middle without force,
    less towards both limits. Reset: |p| > 2.4 m or |q| > 12 degrees. Its set point, the middle, never changes.
    """

    dt, substeps = 0.02, 2

    def __init__(self) -> None:
        super().__init__([2 * END, FAST, 2 * LEAN, FAST])

    def rates(self, x: Floats, u: Floats) -> Floats:
        """The equations of motion."""
        _, v, q, w = x.tolist()
        c, s = cos(q), sin(q)
        push = (FORCE * float(u[0]) + POLE * HALF * w**2 * s) / (CART + POLE)
        turning = (GRAVITY * s - c * push) / (HALF * (4 / 3 - POLE * c**2 / (CART + POLE)))
        return np.array([v, push - POLE * HALF * turning * c / (CART + POLE), w, turning])

    def resting(self) -> Floats:
        """Nearly upright, nearly at rest, nearly in the middle."""
        return self.np_random.uniform(-NEAR, NEAR, 4)

    def tracking(self) -> float:
        """How far both limits are."""
        return (closeness(abs(float(self.x[0])), END) + closeness(abs(float(self.x[2])), LEAN)) / 2.0

    def at_limit(self) -> bool:
        """At an end of the rail, or leaning too far."""
        return bool(abs(self.x[0]) > END or abs(self.x[2]) > LEAN)


def controller(observation: Floats) -> Floats:
    """A simple controller: feedback of all four numbers, with gains of a linear-quadratic regulator, rounded."""
    p, v, q, w = observation.tolist()
    return np.clip(np.array([1.0 * p + 2.0 * v + 30.0 * q + 6.0 * w]) / FORCE, -1.0, 1.0)
