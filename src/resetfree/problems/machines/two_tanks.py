"""`two-tanks`: two tanks side by side, joined by a pipe, each with its own pump and an outlet to the reservoir below.

Legend: h1, h2 levels, m; u1, u2 the pumps, each in [0, 1] of its full flow. By Torricelli's law, a hole of the
effective area a passes a sqrt(2 GRAVITY d) m^3/s where the levels of water on its two sides differ by d, so that

    AREA h1' = PUMP u1 - OUTLET sqrt(2 GRAVITY h1) - PIPE sign(h1 - h2) sqrt(2 GRAVITY |h1 - h2|)
    AREA h2' = PUMP u2 - OUTLET sqrt(2 GRAVITY h2) + PIPE sign(h1 - h2) sqrt(2 GRAVITY |h1 - h2|)

Where d is below LAMINAR the flow is proportional to d: the law of slow flow, which also makes the equations smooth.
"""

from math import copysign, sqrt

import numpy as np
from gymnasium import spaces

from resetfree.core import Floats
from resetfree.problems.machines.set_points import SetPointMachine, closeness

AREA, OUTLET, PIPE, GRAVITY = 0.02, 5e-5, 3e-5, 9.81  # m^2 of a tank, of the holes; m/s^2
PUMP = 4e-4  # m^3/s, the most of each pump
LAMINAR = 1e-3  # m
DRY, FULL = 0.05, 0.6  # m: where the machine must be reset
LOWEST, HIGHEST = 0.15, 0.45  # m, set points
WIDTH = 0.15  # m, the distance of a level from its set point at which the reward ends
GAIN = 10.0  # of the controller: how much of its full flow a pump adds per metre of error


def flow(area: float, d: float) -> float:
    """The flow through a hole, m^3/s, in the direction of the sign of d.

    >>> round(flow(1e-4, 0.45), 6), flow(1e-4, -0.45) == -flow(1e-4, 0.45)
    (0.000297, True)
    """
    size = abs(d)
    if size < LAMINAR:
        return area * sqrt(2.0 * GRAVITY / LAMINAR) * d
    return copysign(area * sqrt(2.0 * GRAVITY * size), d)


class TwoTanks(SetPointMachine):
    """The tanks: hold both levels at their set points; none may overflow or run dry.

    Observation: h1, h2, and what each lacks to its set point, m. Action: u1, u2. Reward: the mean over both tanks, each
    1 at its set point with its pump off and at most EFFORT from 0.15 m away. Reset: a level below 0.05 m or above
    0.6 m. The state has a third entry, the volume that has left through the outlets.
    """

    dt, substeps, hold = 2.0, 2, (50, 150)

    def __init__(self) -> None:
        low, high = np.repeat([0.0, LOWEST - 2 * FULL], 2), np.repeat([2 * FULL, HIGHEST], 2)
        self.observation_space = spaces.Box(low, high, dtype=np.float64)
        self.action_space = spaces.Box(0.0, 1.0, (2,), dtype=np.float64)

    def rates(self, x: Floats, u: Floats) -> Floats:
        """The balance of volumes."""
        h1, h2, _ = x.tolist()
        across, out1, out2 = flow(PIPE, h1 - h2), flow(OUTLET, h1), flow(OUTLET, h2)
        first, second = PUMP * float(u[0]) - out1 - across, PUMP * float(u[1]) - out2 + across
        return np.array([first / AREA, second / AREA, out1 + out2])

    def resting(self) -> Floats:
        """Both tanks about half full."""
        return np.append(self.np_random.uniform(0.25, 0.35, 2), 0.0)

    def new_set_point(self) -> Floats:
        """Uniform, for each tank on its own; the pipe is narrow enough that every pair can be held."""
        return self.np_random.uniform(LOWEST, HIGHEST, 2)

    def observation(self) -> Floats:
        """Both levels, and what they lack."""
        return np.concatenate([self.x[:2], self.set_point - self.x[:2]])

    def tracking(self) -> float:
        """How close both levels are to their set points."""
        error = np.abs(self.x[:2] - self.set_point).tolist()
        return (closeness(error[0], WIDTH) + closeness(error[1], WIDTH)) / 2.0

    def effort(self, u: Floats) -> float:
        """The mean of both pumps' flows."""
        return float(u.mean())

    def at_limit(self) -> bool:
        """A tank runs dry, or overflows."""
        return bool((self.x[:2] < DRY).any() or (self.x[:2] > FULL).any())


def controller(observation: Floats) -> Floats:
    """A simple controller: the flow that holds the set points, and more in proportion to the error."""
    lacking = observation[2:]
    first, second = (observation[:2] + lacking).tolist()  # the set points
    across = flow(PIPE, first - second)
    holding = np.array([flow(OUTLET, first) + across, flow(OUTLET, second) - across]) / PUMP
    return np.clip(holding + GAIN * lacking, 0.0, 1.0)
