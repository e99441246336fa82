"""`arm`: six links on a table, moved by a motor in each joint; its hand reaches for points.

Legend: q [6] angles of the joints, rad, and w [6] their rates; f_i = q_1 + .. + q_i the direction of link i; T [6, 6]
ones on and below the diagonal, so that f = T q; t = TORQUE u the torques, N m. Links are uniform rods of MASS and
LENGTH, all motion is in a horizontal plane. With H_jk = sum_i MASS r_ij r_ik + [j = k] MASS LENGTH^2 / 12, where r_ij
is LENGTH for j < i, LENGTH / 2 for j = i and 0 for j > i, the kinetic energy, with ROTOR the inertia of each geared
motor, is

    E = f'.M(f) f' / 2 + ROTOR w.w / 2,   M_jk = H_jk cos(f_j - f_k),

and Lagrange's equations are

    (T'M T + ROTOR) w' + T'S f'^2 = t - FRICTION w,   S_jk = H_jk sin(f_j - f_k).
"""

import numpy as np
from gymnasium import spaces

from resetfree.core import Floats, jit
from resetfree.problems.machines.set_points import SetPointMachine, closeness

JOINTS, SIZES = 6, (6, 6, 2)  # and the parts of an observation
LENGTH, MASS, ROTOR = 0.2, 0.5, 0.1  # m and kg of a link; kg m^2
TORQUE = np.array([2.0, 1.6, 1.2, 0.8, 0.5, 0.3])  # N m, the most: less for joints that carry less
FRICTION = 0.5 * TORQUE  # N m s
HOME, RANGE, SPEED = 0.4, 1.0, 3.0  # rad: joints may turn by RANGE from HOME; rad/s: how fast they may turn
REACH = 0.5  # rad: set points are where the hand is when every joint is within this of HOME
WIDTH = 0.5  # m, the distance of the hand from its set point at which the reward ends
APPROACH, PULL, STIFF, DAMPED, MARGIN = 2.0, 1.0, 2.0, 0.05, 0.8  # of the controller: 1/s, 1/s, s/rad, m, rad

_ARMS = LENGTH * (np.tri(JOINTS, k=-1) + 0.5 * np.eye(JOINTS))  # r_ij
INERTIA: Floats = MASS * (_ARMS.T @ _ARMS) + MASS * LENGTH**2 / 12 * np.eye(JOINTS)  # H


@jit
def accelerations(q: Floats, w: Floats, torque: Floats, inertia: Floats, rotor: float) -> Floats:
    """[n] w' of the joints by Lagrange's equations; `torque` [n] is what the motors give, less friction."""
    n = len(q)
    direction, turning = np.cumsum(q), np.cumsum(w)
    mass, force = np.empty((n, n)), np.zeros(n)
    for j in range(n):
        for k in range(n):
            mass[j, k] = inertia[j, k] * np.cos(direction[j] - direction[k])
            force[j] -= inertia[j, k] * np.sin(direction[j] - direction[k]) * turning[k] ** 2
    for j in range(n - 2, -1, -1):  # T' from the left, and T from the right: sums over all later links
        mass[j] += mass[j + 1]
        force[j] += force[j + 1]
    for k in range(n - 2, -1, -1):
        mass[:, k] += mass[:, k + 1]
    found = force + torque
    for j in range(n):  # Gauss's elimination: the matrix is positive definite
        mass[j, j] += rotor
        for i in range(j + 1, n):
            factor = mass[i, j] / mass[j, j]
            mass[i, j + 1 :] -= factor * mass[j, j + 1 :]
            found[i] -= factor * found[j]
    for j in range(n - 1, -1, -1):
        found[j] = (found[j] - mass[j, j + 1 :] @ found[j + 1 :]) / mass[j, j]
    return found


def energy(x: Floats) -> float:
    """The kinetic energy of (q, w), J: constant without torque and friction."""
    direction, turning = np.cumsum(x[:JOINTS]), np.cumsum(x[JOINTS:])
    mass = INERTIA * np.cos(direction[:, None] - direction)
    return float(turning @ mass @ turning + ROTOR * x[JOINTS:] @ x[JOINTS:]) / 2.0


def joints_at(q: Floats) -> Floats:
    """[7, 2] where the links begin and end, m; the last is the hand.

    >>> joints_at(np.zeros(6))[-1].round(6).tolist()
    [1.2, 0.0]
    """
    direction = np.cumsum(q)
    steps = LENGTH * np.stack([np.cos(direction), np.sin(direction)], axis=1)
    return np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])


class Arm(SetPointMachine):
    """The arm: bring the hand to its set point and hold it there; no joint may reach its limits or turn too fast.

    Observation: q, w, and the vector from the hand to its set point, m. Action: u, the torques as shares of the most.
    Reward: 1 where the hand is at its set point and no torque is used, at most EFFORT from half a metre away. Reset: a
    joint more than 1 rad from 0.4 rad, or faster than 3 rad/s.

    friction: a factor of the friction in all joints.
    """

    dt, substeps, hold = 0.05, 1, (100, 300)

    def __init__(self, friction: float = 1.0) -> None:
        middle, half = np.repeat([HOME, 0.0, 0.0], SIZES), np.repeat([2 * RANGE, 2 * SPEED, 2 * JOINTS * LENGTH], SIZES)
        self.observation_space = spaces.Box(middle - half, middle + half, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (JOINTS,), dtype=np.float64)
        self.friction = friction * FRICTION

    def rates(self, x: Floats, u: Floats) -> Floats:
        """The equations of motion, solved for w'."""
        q, w = x[:JOINTS], x[JOINTS:]
        return np.concatenate([w, accelerations(q, w, TORQUE * u - self.friction * w, INERTIA, ROTOR)])

    def resting(self) -> Floats:
        """Near its home posture, at rest."""
        return np.concatenate([HOME + self.np_random.uniform(-0.1, 0.1, JOINTS), np.zeros(JOINTS)])

    def new_set_point(self) -> Floats:
        """Where the hand of a random posture is that keeps away from all limits."""
        hand: Floats = joints_at(HOME + self.np_random.uniform(-REACH, REACH, JOINTS))[-1]
        return hand

    def observation(self) -> Floats:
        """q, w, and the way from the hand to its set point."""
        return np.concatenate([self.x, self.set_point - joints_at(self.x[:JOINTS])[-1]])

    def tracking(self) -> float:
        """How close the hand is to its set point."""
        return closeness(float(np.hypot(*(self.set_point - joints_at(self.x[:JOINTS])[-1]))), WIDTH)

    def effort(self, u: Floats) -> float:
        """The mean of the squares."""
        return float((u**2).mean())

    def at_limit(self) -> bool:
        """A joint at its limit, or too fast."""
        return bool((np.abs(self.x[:JOINTS] - HOME) > RANGE).any() or (np.abs(self.x[JOINTS:]) > SPEED).any())


def controller(observation: Floats) -> Floats:
    """A simple controller by resolved rates: joint rates that move the hand straight to its set point.

    With J the Jacobian of the hand and J+ its damped inverse, the rates J+ APPROACH e + (1 - J+ J) PULL (HOME - q) move
    the hand towards its set point and, as far as that leaves it still, the joints towards HOME. They are slowed down
    where a joint comes near its limit. Motors push in proportion to what is missing from these rates.
    """
    q, w, e = observation[:JOINTS], observation[JOINTS : 2 * JOINTS], observation[2 * JOINTS :]
    at = joints_at(q)
    away = at[-1] - at[:-1]
    jacobian = np.stack([-away[:, 1], away[:, 0]])  # [2, 6]
    inverse = jacobian.T @ np.linalg.inv(jacobian @ jacobian.T + DAMPED**2 * np.eye(2))
    home = PULL * (HOME - q)
    rates = inverse @ (APPROACH * e - jacobian @ home) + home
    rates *= min(1.0, 0.5 * SPEED / max(1e-9, float(np.abs(rates).max())))
    rates = np.clip(rates, APPROACH * (HOME - MARGIN - q), APPROACH * (HOME + MARGIN - q))
    return np.asarray(np.clip(STIFF * (rates - w) + FRICTION / TORQUE * rates, -1.0, 1.0))
