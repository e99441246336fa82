"""`quadrotor`: a flying machine in a vertical plane, with a rotor at each end of a beam.

Legend: p, z position, m, z upwards; q angle, rad, positive when it leans to the left; v, y, w their rates; u1, u2 in
[0, 1] the thrusts of the right and of the left rotor, each F = THRUST u along the machine's own up direction. With m
its mass and I its moment of inertia, and DRAG against the air,

    m v' = -(F1 + F2) sin q - DRAG v
    m y' =  (F1 + F2) cos q - m GRAVITY - DRAG y
    I w' =  ARM (F1 - F2) - TURNING w
"""

from math import cos, sin

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from resetfree.core import Floats
from resetfree.problems.machines.set_points import SetPointMachine, closeness

MASS, INERTIA, ARM, GRAVITY = 0.5, 4e-3, 0.15, 9.81  # kg, kg m^2, m, m/s^2
THRUST = 0.9 * MASS * GRAVITY  # N, the most of a rotor
DRAG, TURNING = 0.1, 2e-3  # N s/m, N m s
SIDE, HIGH, LEAN = 2.0, 1.5, 0.9  # m, m, rad: where the machine must be reset
FAST = 12.0  # m/s, rad/s: faster than it gets within its limits
FAR = np.array([1.2, 0.8])  # m, the farthest set point from the middle
WIDTH = 1.0  # m, the distance from the set point at which the reward ends
REACH = (0.6, 0.5)  # m, the largest errors that the controller reacts to
STIFF, DAMPED = (3.0, 4.0), (3.0, 3.0)  # of the controller: 1/s^2 and 1/s, sideways and upwards
UPRIGHT, STEADY, MOST_LEAN = 120.0, 18.0, 0.35  # 1/s^2, 1/s, rad


def energy(x: Floats) -> float:
    """The mechanical energy of (p, z, q, v, y, w), J: constant without thrust and drag."""
    _, z, _, v, y, w = map(float, x)
    return 0.5 * MASS * (v**2 + y**2) + 0.5 * INERTIA * w**2 + MASS * GRAVITY * z


class Quadrotor(SetPointMachine):
    """The quadrotor: fly to a set point and hover there; it must not leave its cage or lean too far.

    Observation: p, z, q, v, y, w, and the way to the set point, m. Action: u1, u2. Reward: 1 at the set point, at most
    EFFORT from a metre away; EFFORT is less the farther the thrusts are from hovering. Reset: |p| > 2 m, |z| > 1.5 m or
    |q| > 0.9 rad.

    mass: a factor of its mass and its inertia.
    """

    dt, substeps, hold = 0.05, 2, (60, 160)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 (as Gymnasium has it)

    def __init__(self, mass: float = 1.0) -> None:
        reach = np.array([2 * SIDE, 2 * HIGH, 2 * LEAN, FAST, FAST, 3 * FAST, 2 * SIDE + FAR[0], 2 * HIGH + FAR[1]])
        self.observation_space = spaces.Box(-reach, reach, dtype=np.float64)
        self.action_space = spaces.Box(0.0, 1.0, (2,), dtype=np.float64)
        self.mass = mass

    def rates(self, x: Floats, u: Floats) -> Floats:
        """The equations of motion."""
        _, _, q, v, y, w = x.tolist()
        right, left, m = THRUST * float(u[0]), THRUST * float(u[1]), self.mass * MASS
        lift, turn = right + left, ARM * (right - left) - TURNING * w
        sideways, upwards = -lift * sin(q) - DRAG * v, lift * cos(q) - m * GRAVITY - DRAG * y
        return np.array([v, y, w, sideways / m, upwards / m, turn / (self.mass * INERTIA)])

    def resting(self) -> Floats:
        """Nearly hovering, near the middle."""
        return np.concatenate([self.np_random.uniform(-0.2, 0.2, 2), self.np_random.uniform(-0.05, 0.05, 4)])

    def new_set_point(self) -> Floats:
        """Uniform in a box well within the cage."""
        return self.np_random.uniform(-FAR, FAR)

    def observation(self) -> Floats:
        """The state, and the way to the set point."""
        return np.concatenate([self.x, self.set_point - self.x[:2]])

    def tracking(self) -> float:
        """How close it is to the set point."""
        return closeness(float(np.hypot(*(self.x[:2] - self.set_point))), WIDTH)

    def effort(self, u: Floats) -> float:
        """The squared distance of the thrusts from hovering."""
        return float(((u - 1.0 / 1.8) ** 2).mean()) / (1.0 / 1.8) ** 2

    def at_limit(self) -> bool:
        """It has left its cage, or leans too far."""
        return bool(abs(self.x[0]) > SIDE or abs(self.x[1]) > HIGH or abs(self.x[2]) > LEAN)

    def render(self) -> NDArray[np.uint8]:
        """The cage, the set point as a ring, and the machine, twice its size."""
        picture = Image.new("RGB", (440, 340), "white")
        pen, q = ImageDraw.Draw(picture), float(self.x[2])

        def at(along: float, above: float, middle: Floats = self.x) -> tuple[float, float]:
            """Pixels of a point in the machine's own directions."""
            p, z = middle[0] + along * cos(q) - above * sin(q), middle[1] + along * sin(q) + above * cos(q)
            return 220.0 + 100.0 * p, 170.0 - 100.0 * z

        pen.rectangle((20, 20, 420, 320), outline="#b2182b", width=3)
        x, y = at(0.0, 0.0, self.set_point)
        pen.ellipse((x - 10, y - 10, x + 10, y + 10), outline="#009e73", width=4)
        pen.line([at(-2 * ARM, 0.0), at(2 * ARM, 0.0)], "#0072b2", 6)
        for rotor in (-2 * ARM, 2 * ARM):
            pen.line([at(rotor, 0.0), at(rotor, 0.08)], "#4d4d4d", 3)
            pen.line([at(rotor - 0.12, 0.08), at(rotor + 0.12, 0.08)], "#4d4d4d", 3)
        return np.asarray(picture)


def controller(observation: Floats) -> Floats:
    """A simple controller: position decides how far to lean and how much to lift, the angle how to turn.

    The errors and the lean are cut, so that it flies slowly to far set points.
    """
    _, _, q, v, y, w, ahead, above = observation.tolist()
    ahead, above = (min(max(one, -most), most) for one, most in zip((ahead, above), REACH, strict=True))
    lean = min(max(-(STIFF[0] * ahead - DAMPED[0] * v) / GRAVITY, -MOST_LEAN), MOST_LEAN)
    lift = MASS * (GRAVITY + STIFF[1] * above - DAMPED[1] * y)
    turn = INERTIA * (UPRIGHT * (lean - q) - STEADY * w) / ARM
    return np.clip(np.array([lift + turn, lift - turn]) / (2.0 * THRUST), 0.0, 1.0)
