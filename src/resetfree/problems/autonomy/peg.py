"""`peg-edge`: a hand puts a peg into a hole on a small table; a peg that is pushed over the edge has fallen off.

After the task of PAINT (Xie et al. 2022, "When to ask for help"), as plane geometry of our own: the hand carries the
peg, or pushes it aside where it touches it. The block with the hole stands on the right; a peg gets into it only in
line with the hole.

Legend: x = (hand, peg, held): two places in the plane, metres, and 1 if the hand holds the peg, else -1. The place of
the peg is that of its tip.
"""

import numpy as np
from gymnasium import spaces

from resetfree.core.arrays import Floats
from resetfree.problems.autonomy.goal_task import GoalTask

STEP = 0.05  # m, the most that the hand moves along an axis
TABLE = np.array([0.5, 0.3])  # m, half of its sides
BLOCK, DEPTH, HOLE = 0.3, 0.12, 0.04  # m: where the block begins, how deep the hole is, half of its height
GRASP, RADIUS = 0.08, 0.04  # m: within which the hand can take the peg, and touches it
CLOSE = 0.04  # m, of the peg from the bottom of the hole
START: Floats = np.array([0.0, 0.15, -0.25, 0.0])
GOALS: Floats = np.array([[0.0, 0.15, BLOCK + DEPTH, 0.0]])


def moved(x: Floats, action: Floats) -> Floats:
    """[5] the state after an action [3] in [-1, 1].

    >>> moved(np.array([0.0, 0.0, 0.05, 0.0, -1.0]), np.array([1.0, 0.0, 1.0])).round(6).tolist()
    [0.05, 0.0, 0.1, 0.0, 1.0]
    >>> moved(np.array([0.0, 0.0, 0.05, 0.0, -1.0]), np.array([1.0, 0.0, -1.0])).round(6).tolist()
    [0.05, 0.0, 0.09, 0.0, -1.0]
    """
    hand, peg, held = x[:2], x[2:4], bool(x[4] > 0)
    held = bool(action[2] > 0) and (held or np.hypot(*(hand - peg)) < GRASP)
    to = np.clip(hand + STEP * action[:2], -(TABLE + GRASP), TABLE + GRASP)
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

    goals, starts, near = GOALS, START[None], 0.1

    def __init__(self) -> None:
        high = np.concatenate([TABLE + 2 * GRASP, TABLE + 2 * GRASP, [1.0], TABLE, TABLE])
        self.observation_space = spaces.Box(-high, high, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), dtype=np.float64)

    def beginning(self) -> Floats:
        """The peg on the left, within a few centimetres."""
        return np.concatenate([START + self.np_random.uniform(-0.03, 0.03, 4), [-1.0]])

    def moved(self, action: Floats) -> Floats:
        """By plane geometry."""
        return moved(self.x, action)

    def is_stuck(self) -> bool:
        """The peg is over an edge; the block stands on the right one."""
        return bool((np.abs(self.x[2:4]) > TABLE).any())

    def achieved(self, states: Floats) -> Floats:
        """Where hand and peg are."""
        return states[:, :4]

    def rewards(self, states: Floats) -> Floats:
        """1 where the peg is at its goal."""
        off = (states[:, 2:4] - states[:, 7:9]) ** 2
        return np.asarray(off.sum(axis=1) <= CLOSE**2, dtype=np.float64)

    def expert(self, observation: Floats) -> Floats:
        """To the peg from above, with it in line with the hole, and in; or out again and back."""
        hand, peg, goal, held = observation[:2], observation[2:4], observation[7:9], observation[4] > 0
        off = goal - peg
        if np.hypot(*off) <= 0.5 * CLOSE:
            return np.array([0.0, 0.0, -1.0])
        if not held:
            if np.hypot(*(hand - peg)) < 0.9 * GRASP:
                return np.array([0.0, 0.0, 1.0])
            return np.append(np.clip((peg - hand) / STEP, -1.0, 1.0), -1.0)
        beside = abs(peg[1]) > 0.5 * HOLE and goal[0] > BLOCK
        way = np.array([min(0.0, BLOCK - 0.05 - peg[0]), -peg[1]]) if beside else off
        if not beside and peg[0] > BLOCK and goal[0] <= BLOCK:
            way = np.array([off[0], -peg[1]])
        return np.append(np.clip(way / STEP, -1.0, 1.0), 1.0)
