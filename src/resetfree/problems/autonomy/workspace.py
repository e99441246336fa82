"""`workspace`: a walking robot that must stay in its workspace and on its legs, with four tasks that undo each other.

After Ha, Xu, Tan, Levine and Tan (2020, "Learning to walk in the real world with minimal human effort"): forward,
backward, and turning either way; whoever sets the right task keeps the robot in its place. The robot is a body on
springs of our own: where it accelerates its body pitches, and where it is thrown from full speed to the other it falls.

Legend: x = (px, py, f, v, w, q, r): place, m; direction, rad; speed, m/s; rate of turning, rad/s; pitch, rad, and its
rate. u, t in [-1, 1] the commands for v and w. Per DT seconds:
    v' = (SPEED u - v) / LAG,  w' = (TURN t - w) / LAG,  q'' = -STIFF q - DAMPED q' + PITCH v' LAG / SPEED
"""

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.problems.autonomy.goal_task import GoalTask

DT, LAG = 0.05, 0.5  # s
SPEED, TURN = 0.6, 1.2  # m/s, rad/s: the most
STIFF, DAMPED, PITCH = 16.0, 2.4, 6.0  # 1/s^2, 1/s, 1/s^2
FALL = 0.5  # rad of pitch
HALF = 2.0  # m, half of a side of the workspace
EVERY = 2  # steps of DT in a step
AHEAD = 0.7  # the least cosine between where the robot looks and the middle for which it walks there


def moved(x: Floats, u: float, t: float) -> Floats:
    """[7] the state after 2 DT seconds of a command.

    >>> moved(np.zeros(7), 1.0, 0.0).round(4).tolist()
    [0.0087, 0.0, 0.0, 0.114, 0.0, 0.0412, 0.5001]
    """
    px, py, f, v, w, q, r = x.tolist()
    for _ in range(EVERY):
        push = (SPEED * u - v) / LAG
        v += DT * push
        w += DT * (TURN * t - w) / LAG
        f += DT * w
        px += DT * v * np.cos(f)
        py += DT * v * np.sin(f)
        r += DT * (-STIFF * q - DAMPED * r + PITCH * push * LAG / SPEED)
        q += DT * r
    return np.array([px, py, f, v, w, q, r])


class Workspace(GoalTask):
    """Walk or turn as requested, without a fall and without leaving the workspace.

    Observation: place, cosine and sine of the direction, speed, rate of turning, pitch and its rate, and the task:
    (1, 0) forward, (-1, 0) backward, (0, 1) and (0, -1) turning. Action: the commands for speed and turning. Reward:
    the speed that is requested, as a share of the most. Reset: a fall, or a robot outside its workspace.
    """

    goals, starts = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), np.zeros((1, 2))
    sparse, both_ways, hold, longest = False, False, 50, 30

    def __init__(self) -> None:
        high = np.array([HALF, HALF, 1.0, 1.0, SPEED, TURN, 2 * FALL, 10.0, 1.0, 1.0])
        self.observation_space = spaces.Box(-high, high, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), dtype=np.float64)

    def beginning(self) -> Floats:
        """Standing in the middle, in any direction."""
        return np.concatenate([np.zeros(2), self.np_random.uniform(-np.pi, np.pi, 1), np.zeros(4)])

    def moved(self, action: Floats) -> Floats:
        """By the equations of motion."""
        return moved(self.x, float(action[0]), float(action[1]))

    def is_stuck(self) -> bool:
        """It has fallen, or left its workspace."""
        return bool(abs(self.x[5]) > FALL or (np.abs(self.x[:2]) > HALF).any())

    def seen(self) -> Floats:
        """The state, with the direction as cosine and sine."""
        return np.concatenate([self.x[:2], [np.cos(self.x[2]), np.sin(self.x[2])], self.x[3:]])

    def achieved(self, states: Floats) -> Floats:
        """Speeds as shares of the most."""
        return np.asarray(states[:, 4:6] / np.array([SPEED, TURN]))

    def rewards(self, states: Floats) -> Floats:
        """The requested part of them."""
        return np.asarray(np.clip((self.achieved(states) * states[:, 8:10]).sum(axis=1), 0.0, 1.0))

    def home(self, states: Floats) -> Floats:
        """How near the middle it is."""
        return np.asarray(1.0 - np.clip(np.hypot(states[:, 0], states[:, 1]) / HALF, 0.0, 1.0))

    def onward(self, states: Floats) -> NDArray[np.int64]:
        """The task whose direction leads back to the middle: walk if it lies ahead or behind, else turn towards it."""
        far = np.maximum(np.hypot(states[:, 0], states[:, 1]), 1e-9)
        ahead = -(states[:, 0] * states[:, 2] + states[:, 1] * states[:, 3]) / far
        left = -(states[:, 1] * states[:, 2] - states[:, 0] * states[:, 3]) / far
        turn = np.where(left > 0.0, 2, 3)
        return np.where(ahead > AHEAD, 0, np.where(ahead < -AHEAD, 1, turn)).astype(np.int64)

    def expert(self, observation: Floats) -> Floats:
        """Commands that never change by much."""
        wanted, now = observation[8:10], self.achieved(observation[None])[0]
        return np.asarray(np.clip(now + np.clip(wanted - now, -0.4, 0.4), -1.0, 1.0))
