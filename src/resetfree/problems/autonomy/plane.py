"""Tasks in the plane, with physics of our own and no simulator: a mug on a table, a peg, a robot in its workspace.

`tabletop`: a gripper brings a mug from one side of a table to one of four places, and returns to its middle. After the
description of EARL's tabletop manipulation (Sharma et al. 2022, "Autonomous reinforcement learning: formalism and
benchmarking"), whose numbers it has. Without walls, after PAINT (Xie et al. 2022, "When to ask for help"): a mug that
is carried or left beyond the edge has fallen off, and only a person can put it back.

`peg-edge`: a hand puts a peg into a hole on a small table; a peg that is pushed over the edge has fallen off. After the
task of PAINT: the hand carries the peg, or pushes it aside where it touches it. The block with the hole stands on the
right; a peg gets into it only in line with the hole.

`workspace`: a walking robot that must stay in its workspace and on its legs, with four tasks that undo each other.
After Ha, Xu, Tan, Levine and Tan (2020, "Learning to walk in the real world with minimal human effort"): forward,
backward, and turning either way; whoever sets the right task keeps the robot in its place. The robot is a body on
springs: where it accelerates its body pitches, and where it is thrown from full speed to the other it falls.

Legend: x = (gripper or hand, mug or peg, held): two places in the plane, and 1 if it holds it, else -1; the place of
the peg, in metres, is that of its tip. Of the robot: x = (px, py, f, v, w, q, r): place, m; direction, rad; speed, m/s;
rate of turning, rad/s; pitch, rad, and its rate. u, t in [-1, 1] the commands for v and w. Per DT seconds:
    v' = (SPEED u - v) / LAG,  w' = (TURN t - w) / LAG,  q'' = -STIFF q - DAMPED q' + PITCH v' LAG / SPEED
"""

from typing import Any

import numpy as np
from gymnasium import spaces

from resetfree.core import Floats, Ints
from resetfree.problems.autonomy import GoalTask

MUG_STEP = 0.2  # the most that the gripper moves along an axis
EDGE = 2.8  # of the table, from its middle
REACH = 3.2  # of the gripper, where there are no walls
MUG_GRASP = 0.4  # distance within which the gripper can take the mug
MUG_CLOSE = 0.2  # distance to the goal, of gripper and mug together, that counts as success
MUG_START: Floats = np.array([0.0, 0.0, 2.5, 0.0])
MUG_GOALS: Floats = np.array(
    [[0.0, 0.0, -2.5, -1.0], [0.0, 0.0, -2.5, 1.0], [0.0, 0.0, 0.0, 2.0], [0.0, 0.0, 0.0, -2.0]]
)


def moved_mug(x: Any, action: Any, walls: bool = True, size: float = 1.0, xp: Any = np) -> Any:
    """[n, 5] the states after actions [n, 3] in [-1, 1]: two of motion, and one of the gripper, closed above 0.

    A closed gripper takes a mug within MUG_GRASP and moves it along; an open one lets go of it, before it moves.

    xp: NumPy, or `jax.numpy`.

    >>> moved_mug(np.array([[2.4, 0.0, 2.5, 0.0, -1.0]]), np.array([[-1.0, 0.5, 1.0]])).round(6).tolist()
    [[2.2, 0.1, 2.3, 0.1, 1.0]]
    """
    gripper, mug, held = x[:, :2], x[:, 2:4], x[:, 4] > 0
    closed = action[:, 2] > 0
    held = closed & (held | (xp.sqrt(((gripper - mug) ** 2).sum(axis=1)) < MUG_GRASP))
    edge = size * EDGE
    far = edge if walls else edge + REACH - EDGE
    to = xp.clip(gripper + MUG_STEP * action[:, :2], -far, far)
    mug = mug + (to - gripper) * held[:, None]
    if walls:
        mug = xp.clip(mug, -edge, edge)
    return xp.concatenate([to, mug, xp.where(held, 1.0, -1.0)[:, None]], axis=1)


def mug_at_goal(states: Any) -> Any:
    """[n] whether gripper and mug are at the goal in observations [n, 9], NumPy's or JAX's."""
    return ((states[:, :4] - states[:, 5:9]) ** 2).sum(axis=1) <= MUG_CLOSE**2


def mug_is_lost(x: Any, size: float = 1.0) -> Any:
    """[n] whether the mug is beyond the edge in states [n, 5]."""
    return (abs(x[:, 2:4]) > size * EDGE).any(axis=1)


class Tabletop(GoalTask):
    """Bring the mug to its place and the gripper back to the middle.

    Observation: gripper, mug, 1 or -1 for a mug that is held, and the goal (of gripper and mug). Action: two of motion,
    one of the gripper. Reward: 1 where gripper and mug are within 0.2 of the goal, else 0. Reset: never with walls;
    without them, if the mug is beyond the edge.

    walls: whether the table has walls, through which neither gripper nor mug can pass.
    size: of the table and all distances on it, as a part of the published one; steps and tolerances stay.
    hold: steps between two goals.
    """

    def __init__(self, walls: bool = True, size: float = 1.0, hold: int = 200) -> None:
        self.walls, self.size, self.hold = walls, size, hold
        self.goals, self.starts = size * MUG_GOALS, size * MUG_START[None]
        self.near = min(0.5, 0.5 * size)
        edge = size * EDGE
        far = np.full(4, edge if walls else edge + REACH - EDGE + MUG_GRASP)
        high = np.concatenate([far, [1.0], np.full(4, edge)])
        self.observation_space = spaces.Box(-high, high, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), dtype=np.float64)

    def beginning(self) -> Floats:
        """The gripper in the middle, the mug on its side."""
        return np.append(self.starts[0], -1.0)

    def moved(self, action: Floats) -> Floats:
        """By plane geometry."""
        return np.asarray(moved_mug(self.x[None], action[None], self.walls, self.size)[0])

    def is_stuck(self) -> bool:
        """The mug is beyond the edge."""
        return bool(mug_is_lost(self.x[None], self.size)[0])

    def achieved(self, states: Floats) -> Floats:
        """Where gripper and mug are."""
        return states[:, :4]

    def rewards(self, states: Floats) -> Floats:
        """1 where both are at the goal."""
        return np.asarray(mug_at_goal(states), dtype=np.float64)

    def expert(self, observation: Floats) -> Floats:
        """To the mug, with it to its place, and to the gripper's own place."""
        gripper, mug, goal = observation[:2], observation[2:4], observation[5:9]
        held = observation[4] > 0
        gap = (
            self.size * (EDGE - MUG_START[2]) if self.walls else EDGE
        )  # a wall must not stop the gripper before the mug
        if np.hypot(*(mug - goal[2:])) > MUG_CLOSE / 3:
            if held or np.hypot(*(gripper - mug)) < min(0.5 * MUG_GRASP, gap):
                return np.append(_towards(goal[2:] - mug), 1.0)
            return np.append(_towards(mug - gripper), -1.0)
        return np.append(_towards(goal[:2] - gripper), -1.0)


def _towards(way: Floats) -> Floats:
    """[2] the motion along a way, as a share of MUG_STEP."""
    return np.clip(way / MUG_STEP, -1.0, 1.0)


PEG_STEP = 0.05  # m, the most that the hand moves along an axis
TABLE = np.array([0.5, 0.3])  # m, half of its sides
BLOCK, DEPTH, HOLE = 0.3, 0.12, 0.04  # m: where the block begins, how deep the hole is, half of its height
PEG_GRASP, RADIUS = 0.08, 0.04  # m: within which the hand can take the peg, and touches it
PEG_CLOSE = 0.04  # m, of the peg from the bottom of the hole
PEG_START: Floats = np.array([0.0, 0.15, -0.25, 0.0])
PEG_GOALS: Floats = np.array([[0.0, 0.15, BLOCK + DEPTH, 0.0]])


def moved_peg(x: Floats, action: Floats) -> Floats:
    """[5] the state after an action [3] in [-1, 1].

    >>> moved_peg(np.array([0.0, 0.0, 0.05, 0.0, -1.0]), np.array([1.0, 0.0, 1.0])).round(6).tolist()
    [0.05, 0.0, 0.1, 0.0, 1.0]
    >>> moved_peg(np.array([0.0, 0.0, 0.05, 0.0, -1.0]), np.array([1.0, 0.0, -1.0])).round(6).tolist()
    [0.05, 0.0, 0.09, 0.0, -1.0]
    """
    hand, peg, held = x[:2], x[2:4], bool(x[4] > 0)
    held = bool(action[2] > 0) and (held or np.hypot(*(hand - peg)) < PEG_GRASP)
    to = np.clip(hand + PEG_STEP * action[:2], -(TABLE + PEG_GRASP), TABLE + PEG_GRASP)
    if held:
        new = _stopped(peg, peg + to - hand)
        to = to if np.array_equal(new, peg + to - hand) else hand + (new - peg)
    else:
        away = peg - to
        gap = float(np.hypot(*away))
        push = np.array([1.0, 0.0]) if gap < 1e-9 else away / gap
        new = _stopped(peg, to + RADIUS * push) if gap < RADIUS else peg
    return np.concatenate([to, new, [1.0 if held else -1.0]])


def _stopped(peg: Floats, to: Floats) -> Floats:
    """Where a peg that is moved comes to lie: the block stops it, unless it is in line with the hole."""
    if to[0] <= BLOCK:
        return to
    if abs(to[1]) > HOLE or (peg[0] <= BLOCK and abs(peg[1]) > HOLE):
        if peg[0] > BLOCK:  # inside the hole: its walls
            return np.array([min(to[0], BLOCK + DEPTH), np.clip(to[1], -HOLE, HOLE)])
        return np.array([BLOCK, to[1]])
    return np.array([min(to[0], BLOCK + DEPTH), to[1]])


class Peg(GoalTask):
    """Put the peg into the hole.

    Observation: hand, peg, 1 or -1 for a peg that is held, and the goal. Action: two of motion, one of the hand.
    Reward: 1 where the peg is within 4 cm of its goal, else 0. Reset: the peg is over an edge of the table.
    """

    goals, starts, near = PEG_GOALS, PEG_START[None], 0.1

    def __init__(self) -> None:
        high = np.concatenate([TABLE + 2 * PEG_GRASP, TABLE + 2 * PEG_GRASP, [1.0], TABLE, TABLE])
        self.observation_space = spaces.Box(-high, high, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), dtype=np.float64)

    def beginning(self) -> Floats:
        """The peg on the left, within a few centimetres."""
        return np.concatenate([PEG_START + self.np_random.uniform(-0.03, 0.03, 4), [-1.0]])

    def moved(self, action: Floats) -> Floats:
        """By plane geometry."""
        return moved_peg(self.x, action)

    def is_stuck(self) -> bool:
        """The peg is over an edge; the block stands on the right one."""
        return bool((np.abs(self.x[2:4]) > TABLE).any())

    def achieved(self, states: Floats) -> Floats:
        """Where hand and peg are."""
        return states[:, :4]

    def rewards(self, states: Floats) -> Floats:
        """1 where the peg is at its goal."""
        off = (states[:, 2:4] - states[:, 7:9]) ** 2
        return np.asarray(off.sum(axis=1) <= PEG_CLOSE**2, dtype=np.float64)

    def expert(self, observation: Floats) -> Floats:
        """To the peg from above, with it in line with the hole, and in; or out again and back."""
        hand, peg, goal, held = observation[:2], observation[2:4], observation[7:9], observation[4] > 0
        off = goal - peg
        if np.hypot(*off) <= 0.5 * PEG_CLOSE:
            return np.array([0.0, 0.0, -1.0])
        if not held:
            if np.hypot(*(hand - peg)) < 0.9 * PEG_GRASP:
                return np.array([0.0, 0.0, 1.0])
            return np.append(np.clip((peg - hand) / PEG_STEP, -1.0, 1.0), -1.0)
        beside = abs(peg[1]) > 0.5 * HOLE and goal[0] > BLOCK
        way = np.array([min(0.0, BLOCK - 0.05 - peg[0]), -peg[1]]) if beside else off
        if not beside and peg[0] > BLOCK and goal[0] <= BLOCK:
            way = np.array([off[0], -peg[1]])
        return np.append(np.clip(way / PEG_STEP, -1.0, 1.0), 1.0)


DT, LAG = 0.05, 0.5  # s
SPEED, TURN = 0.6, 1.2  # m/s, rad/s: the most
STIFF, DAMPED, PITCH = 16.0, 2.4, 6.0  # 1/s^2, 1/s, 1/s^2
FALL = 0.5  # rad of pitch
HALF = 2.0  # m, half of a side of the workspace
EVERY = 2  # steps of DT in a step
AHEAD = 0.7  # the least cosine between where the robot looks and the middle for which it walks there


def moved_robot(x: Floats, u: float, t: float) -> Floats:
    """[7] the state after 2 DT seconds of a command.

    >>> moved_robot(np.zeros(7), 1.0, 0.0).round(4).tolist()
    [0.0087, 0.0, 0.0, 0.114, 0.0, 0.0411, 0.522]
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
        return moved_robot(self.x, float(action[0]), float(action[1]))

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

    def onward(self, states: Floats) -> Ints:
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
