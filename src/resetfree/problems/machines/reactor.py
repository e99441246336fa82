"""`reactor`: a stirred tank with a cooling jacket, in which A reacts to B and sets heat free.

Legend: c concentration of A, mol/l; T temperature, K; u1, u2 in [0, 1]: the feed's flow q from 60 to 140 l/min and the
temperature Tc of the coolant from 280 to 330 K. With the rate k(T) = RATE exp(-ACTIVATION / T), balances of A and of
heat are

    VOLUME c' = q (FEED - c) - VOLUME k(T) c
    VOLUME HEAT T' = q HEAT (WARM - T) + VOLUME REACTION k(T) c + JACKET (Tc - T)

The numbers are those of a problem that is common in textbooks of process control. At q = 100 and Tc = 300 there are
three steady states, and the middle one (c = 0.5, T = 350) is unstable: left alone the reactor goes out or runs away.
"""

from math import exp

import numpy as np
from gymnasium import spaces

from resetfree.core import Floats
from resetfree.problems.machines.set_points import SetPointMachine, closeness

VOLUME, FEED, WARM = 100.0, 1.0, 350.0  # l; mol/l and K of the feed
RATE, ACTIVATION = 7.2e10, 8750.0  # 1/min, K
REACTION, HEAT, JACKET = 5e4, 239.0, 5e4  # J/mol, J/(l K), J/(min K)
SLOW, FAST, COLD, HOT = 60.0, 140.0, 280.0, 330.0  # l/min and K, what u = 0 and u = 1 stand for
OUT, AWAY = 325.0, 380.0  # K: where the machine must be reset
LEAST, MOST = np.array([85.0, 344.0]), np.array([115.0, 353.0])  # flow and temperature of set points
WIDTHS = (0.1, 5.0)  # mol/l and K from the set point at which the reward ends
NOMINAL = np.array([0.5, 0.4])  # of the controller: the actions that hold c = 0.5 and T = 350
FLOW_GAIN, COOLANT_GAIN = 2.0, 0.1  # 1/(mol/l), 1/K


def rate(T: float) -> float:
    """k(T), 1/min.

    >>> round(rate(350.0), 3)
    1.0
    """
    return RATE * exp(-ACTIVATION / T)


class Reactor(SetPointMachine):
    """The reactor: hold concentration and temperature at their set points; it must neither go out nor run away.

    Observation: c and what it lacks, mol/l, T and what it lacks, K. Action: u1, u2. Reward: the mean over both, each 1
    at its set point and 0 from 0.1 mol/l or 5 K away, and at most EFFORT for actions near the nominal ones. Reset: T
    below 325 K or above 380 K.

    reaction: a factor of the heat that the reaction sets free.
    """

    dt, substeps, hold = 0.05, 2, (100, 300)

    def __init__(self, reaction: float = 1.0) -> None:
        low, high = np.array([0.0, -FEED, 2 * OUT - WARM, -100.0]), np.array([FEED, FEED, 2 * AWAY - WARM, 100.0])
        self.observation_space = spaces.Box(low, high, dtype=np.float64)
        self.action_space = spaces.Box(0.0, 1.0, (2,), dtype=np.float64)
        self.reaction = reaction

    def rates(self, x: Floats, u: Floats) -> Floats:
        """The balances, in mol/(l min) and K/min."""
        c, T = x.tolist()
        q, coolant = SLOW + (FAST - SLOW) * float(u[0]), COLD + (HOT - COLD) * float(u[1])
        turned = rate(T) * c
        heat = q * HEAT * (WARM - T) + VOLUME * self.reaction * REACTION * turned + JACKET * (coolant - T)
        return np.array([q * (FEED - c) / VOLUME - turned, heat / (VOLUME * HEAT)])

    def resting(self) -> Floats:
        """Near the nominal point, which it does not hold by itself."""
        return np.array([0.5, 350.0]) + self.np_random.uniform(-1.0, 1.0, 2) * (0.02, 1.0)

    def new_set_point(self) -> Floats:
        """The steady state of a flow and a temperature, each uniform: concentration and temperature."""
        q, T = self.np_random.uniform(LEAST, MOST).tolist()
        return np.array([FEED * q / (q + VOLUME * rate(T)), T])

    def observation(self) -> Floats:
        """Both, and what they lack."""
        return np.ravel(np.stack([self.x, self.set_point - self.x], axis=1))

    def tracking(self) -> float:
        """How close both are to their set points."""
        error = np.abs(self.x - self.set_point).tolist()
        return (closeness(error[0], WIDTHS[0]) + closeness(error[1], WIDTHS[1])) / 2.0

    def effort(self, u: Floats) -> float:
        """The mean distance from the middle of the actions."""
        return float(np.abs(2.0 * u - 1.0).mean())

    def at_limit(self) -> bool:
        """It has gone out, or runs away."""
        return not OUT <= self.x[1] <= AWAY


def controller(observation: Floats) -> Floats:
    """A simple controller: the nominal actions, and more in proportion to the errors.

    The flow acts on the concentration, the coolant on the temperature. Off the nominal point it leaves an offset, as
    proportional control does.
    """
    return np.clip(NOMINAL + observation[[1, 3]] * (FLOW_GAIN, COOLANT_GAIN), 0.0, 1.0)
