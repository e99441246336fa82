"""`cart-load`: an overhead crane. A cart on a rail carries a load that hangs from a rope to set points.

Legend: p position of the cart, m; q angle of the rope from straight down, rad, positive when the load is ahead of the
cart; v, w their rates; F = FORCE u the force on the cart, N. The load is a point on a rigid rope without mass. With the
Lagrangian

    L = CART v^2 / 2 + LOAD ((v + ROPE w cos q)^2 + (ROPE w sin q)^2) / 2 + LOAD GRAVITY ROPE cos q

and friction on the rail and at the pivot, the equations of motion are

    (CART + LOAD) v' + LOAD ROPE (w' cos q - w^2 sin q) = F - RAIL v
    LOAD ROPE (ROPE w' + v' cos q + GRAVITY sin q)      = -PIVOT w
"""

from math import cos, sin

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from resetfree.core import Floats
from resetfree.problems.machines.set_points import SetPointMachine, closeness

CART, LOAD, ROPE, GRAVITY = 2.0, 1.0, 1.0, 9.81  # kg, kg, m, m/s^2
RAIL, PIVOT = 1.0, 0.02  # friction: N s/m, N m s
FORCE = 10.0  # N, the most
END, SWING = 2.0, 0.4  # m, rad: where the machine must be reset
FAST = 10.0  # m/s, rad/s: faster than the force can make it on this rail
FAR = 1.5  # m, the farthest set point from the middle
WIDTH = 1.0  # m, the distance of the load from its set point at which the reward ends
NEAR = 0.8  # m, the largest error that the controller reacts to


def energy(x: Floats) -> float:
    """The mechanical energy of (p, v, q, w), J: constant without force and friction."""
    _, v, q, w = map(float, x)
    ahead, up = v + ROPE * w * cos(q), ROPE * w * sin(q)
    return 0.5 * CART * v**2 + 0.5 * LOAD * (ahead**2 + up**2) - LOAD * GRAVITY * ROPE * cos(q)


class CartLoad(SetPointMachine):
    """The crane: bring the load to its set point, without swinging far and without hitting an end of the rail.

    Observation: p, v, q, w, and the way from the load to its set point, m. Action: u, the force as a share of the most.
    Reward: 1 where the load is at its set point and no force is used, at most EFFORT from a metre away. Reset:
    |p| > 2 m or |q| > 0.4 rad.

    friction: a factor of both frictions.
    """

    dt, substeps, hold = 0.05, 2, (100, 300)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 (as Gymnasium has it)

    def __init__(self, friction: float = 1.0) -> None:
        reach = np.array([2 * END, FAST, 2 * SWING, FAST, 2 * END + ROPE + FAR])
        self.observation_space = spaces.Box(-reach, reach, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)
        self.friction = friction

    def rates(self, x: Floats, u: Floats) -> Floats:
        """The equations of motion, solved for v' and w'."""
        _, v, q, w = x.tolist()
        c, s = cos(q), sin(q)
        turn = -GRAVITY * s - self.friction * PIVOT * w / (LOAD * ROPE)  # ROPE w' + v' cos q
        push = FORCE * float(u[0]) - self.friction * RAIL * v + LOAD * ROPE * w**2 * s
        speeding = (push - LOAD * c * turn) / (CART + LOAD * s**2)
        return np.array([v, speeding, w, (turn - speeding * c) / ROPE])

    def resting(self) -> Floats:
        """Near the middle of the rail, the load at rest."""
        return np.array([self.np_random.uniform(-0.2, 0.2), 0.0, 0.0, 0.0])

    def new_set_point(self) -> Floats:
        """Uniform on the rail, 0.5 m from its ends."""
        return self.np_random.uniform(-FAR, FAR, 1)

    def observation(self) -> Floats:
        """p, v, q, w, and the way to the set point."""
        return np.append(self.x, self._error())

    def tracking(self) -> float:
        """How close the load is to its set point."""
        return closeness(abs(self._error()), WIDTH)

    def _error(self) -> float:
        return float(self.set_point[0] - self.x[0]) - ROPE * sin(self.x[2])

    def effort(self, u: Floats) -> float:
        """The square of the force."""
        return float(u[0]) ** 2

    def at_limit(self) -> bool:
        """At an end of the rail, or swinging too far."""
        return bool(abs(self.x[0]) > END or abs(self.x[2]) > SWING)

    def render(self) -> NDArray[np.uint8]:
        """The rail, the set point of the load as a ring, the angles where it must be reset, and the crane."""
        picture = Image.new("RGB", (460, 200), "white")
        pen, (p, _, q, _) = ImageDraw.Draw(picture), self.x.tolist()

        def at(across: float, below: float) -> tuple[float, float]:
            return 230.0 + 100.0 * across, 40.0 + 120.0 * below

        pen.line([at(-END - 0.15, 0.12), at(END + 0.15, 0.12)], "#4d4d4d", 3)
        for end in (-END - 0.2, END + 0.2):
            pen.line([at(end, -0.2), at(end, 0.15)], "#b2182b", 5)
        for angle in (-SWING, SWING):
            pen.line([at(p, 0.0), at(p + ROPE * sin(angle), ROPE * cos(angle))], "#f4c7cd", 2)
        x, y = at(float(self.set_point[0]), ROPE)
        pen.ellipse((x - 16, y - 16, x + 16, y + 16), outline="#009e73", width=4)
        load = at(p + ROPE * sin(q), ROPE * cos(q))
        pen.line([at(p, 0.0), load], "#4d4d4d", 3)
        pen.rectangle((*at(p - 0.2, -0.12), *at(p + 0.2, 0.1)), fill="#0072b2")
        pen.ellipse((load[0] - 11, load[1] - 11, load[0] + 11, load[1] + 11), fill="#e69f00")
        return np.asarray(picture)


def controller(observation: Floats) -> Floats:
    """A simple controller: feedback of the load's error, of the cart's speed, and of the swing.

    The gains are those of a linear-quadratic regulator for small swings, rounded. The error is cut, or a far set point
    would make the load swing out.
    """
    _, v, q, w, error = observation.tolist()
    ahead = min(max(error, -NEAR), NEAR)
    return np.clip(np.array([14.0 * ahead - 11.0 * v + 19.0 * q - 3.0 * w]) / FORCE, -1.0, 1.0)
