"""`lane`: a car that keeps its lane at a constant speed, on a road whose curvature changes.

Legend: e distance to the left of the middle of the lane, m; h heading relative to the lane, rad; s sideways speed, m/s;
r yaw rate, rad/s; k curvature of the road, 1/m, which goes to its next value K with the time constant EASING; u the
share of the largest steering angle, d = STEER u. With the slip angles of the tyres, linear cornering forces F = C
(angle) and a constant speed V, the "bicycle" model of a car on a road (Rajamani 2012, chapter 2) is

    Ff = FRONT (d - (s + NOSE r) / V),  Fr = -REAR (s - TAIL r) / V
    MASS (s' + V r) = Ff + Fr
    YAW r' = NOSE Ff - TAIL Fr
    e' = s cos h + V sin h
    h' = r - k (V cos h - s sin h) / (1 - k e)
    k' = (K - k) / EASING
"""

from math import cos, sin

import numpy as np
from gymnasium import spaces

from resetfree.core import Floats
from resetfree.problems.machines.set_points import SetPointMachine, closeness

V, MASS, YAW = 20.0, 1500.0, 2500.0  # m/s, kg, kg m^2
NOSE, TAIL, FRONT, REAR = 1.2, 1.5, 8e4, 9e4  # m, m, N/rad, N/rad: from the centre of mass to the axles, and the tyres
STEER, EASING, CURVED = 0.2, 1.0, 0.008  # rad, s, 1/m
EDGE, TURNED = 1.6, 0.5  # m, rad: where the car must be reset
WIDTH = 1.0  # m from the middle of the lane at which the reward ends
LOOK, PULL = 12.0, 0.08  # of the controller: m ahead, rad of steering per metre that the lane lies aside there


class Lane(SetPointMachine):
    """The car: keep to the middle of the lane; it must not leave it.

    Observation: e, h, s, r, k, and how much K differs from k. Action: u. Reward: 1 in the middle of the lane with
    little steering, at most EFFORT a metre off. Reset: |e| > 1.6 m or |h| > 0.5 rad.

    grip: a factor of the forces of all tyres.
    """

    dt, substeps, hold = 0.1, 2, (20, 60)

    def __init__(self, grip: float = 1.0) -> None:
        reach = np.array([2 * EDGE, 2 * TURNED, V, V / 4, CURVED, 2 * CURVED])
        self.observation_space = spaces.Box(-reach, reach, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)
        self.grip = grip

    def rates(self, x: Floats, u: Floats) -> Floats:
        """The equations of motion."""
        e, h, s, r, k = x.tolist()
        front = self.grip * FRONT * (STEER * float(u[0]) - (s + NOSE * r) / V)
        rear = -self.grip * REAR * (s - TAIL * r) / V
        along = (V * cos(h) - s * sin(h)) / (1.0 - k * e)
        sideways = (front + rear) / MASS - V * r
        spin = (NOSE * front - TAIL * rear) / YAW
        return np.array(
            [s * cos(h) + V * sin(h), r - k * along, sideways, spin, (float(self.set_point[0]) - k) / EASING]
        )

    def resting(self) -> Floats:
        """Near the middle of a straight lane."""
        return np.array([*self.np_random.uniform((-0.2, -0.02), (0.2, 0.02)), 0.0, 0.0, 0.0])

    def new_set_point(self) -> Floats:
        """The next curvature, uniform to both sides."""
        return self.np_random.uniform(-CURVED, CURVED, 1)

    def observation(self) -> Floats:
        """The state, and how the curvature is about to change."""
        return np.append(self.x, self.set_point - self.x[4])

    def tracking(self) -> float:
        """How close it is to the middle of the lane."""
        return closeness(abs(float(self.x[0])), WIDTH)

    def effort(self, u: Floats) -> float:
        """The square of the steering."""
        return float(u[0]) ** 2

    def at_limit(self) -> bool:
        """It leaves the lane, or stands across it."""
        return bool(abs(self.x[0]) > EDGE or abs(self.x[1]) > TURNED)


def controller(observation: Floats) -> Floats:
    """A simple controller: steer in proportion to how far aside the lane lies, seen some way ahead on the tangent.

    It does not see curves, so that it leaves an offset in them.
    """
    e, h, *_ = observation.tolist()
    return np.clip(np.array([-PULL * (e + LOOK * h)]) / STEER, -1.0, 1.0)
