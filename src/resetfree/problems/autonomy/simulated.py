"""Tasks on simulators of others: a door and a peg, a kitchen, MuJoCo's half-cheetah and its four-legged robot.

`sawyer-door` and `sawyer-peg` (extra `earl`): after Sharma et al. (2022, "Autonomous reinforcement learning: formalism
and benchmarking"), whose tasks these are: an arm closes a door, or puts a peg into a hole; the reward is sparse. The
expert is Meta-World's own script, which knows only the way forth.

`kitchen` (extra `earl`): a cabinet of gymnasium-robotics' Franka kitchen, to be opened or closed, after the kitchen of
the same paper, whose demonstrations of its other parts no script makes. The expert knows both ways.

`flip-cheetah` (extra `envs`): after PAINT (Xie et al. 2022, "When to ask for help"): its pitch beyond 2/3 pi is a state
that it cannot leave, and the requested speed changes every 500 steps. There is no scripted expert.

`quadruped` (extra `envs`): after Ha, Xu, Tan, Levine and Tan (2020, "Learning to walk in the real world with minimal
human effort"): a four-legged robot that must stay in its workspace and on its legs, with four directions as tasks. The
robot is MuJoCo's ant, so figures are not comparable with theirs. The expert is a trot whose numbers were searched for.
"""

import sys
import warnings
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from resetfree.core import Floats, Ints
from resetfree.problems.autonomy import GoalTask
from resetfree.problems.knowledge import Demonstration

FRAME, OBJECT, TARGET = 18, slice(4, 7), slice(36, 39)  # of an observation of Meta-World


class Measures(NamedTuple):
    """Where the observed place of an object is when it is at its target, and how near counts."""

    beside: tuple[float, float, float]  # m
    close: float  # m


MEASURES = {
    "door-close-v3": Measures((0.0, 0.0, 0.0), 0.08),
    "peg-insert-side-v3": Measures((0.2, 0.0, 0.0), 0.07),  # the target is for the peg's head
}


class Sawyer(GoalTask):
    """Bring the object to its goal.

    Observation: Meta-World's newest frame (hand, gripper, object), and the goal, the object's place. Action: three of
    motion, one of the gripper. Reward: 1 where the object is at its goal, else 0. Reset: never.

    task: an id of Meta-World.
    """

    both_ways, longest, near = False, 250, 0.1

    def __init__(self, task: str = "door-close-v3") -> None:
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE as WORLDS
        from metaworld.policies import ENV_POLICY_MAP as SCRIPTS

        self._arm: Any = WORLDS[f"{task}-goal-observable"](seed=0)
        self._arm.max_path_length = sys.maxsize
        self._script, self._measures = SCRIPTS[task](), MEASURES[task]
        self._beside = np.array(self._measures.beside)
        frame = np.asarray(self._arm.reset()[0], dtype=np.float64)
        self.goals, self.starts = (frame[TARGET] + self._beside)[None], frame[OBJECT][None].copy()
        far = np.full(FRAME + 3, np.inf)
        self.observation_space = spaces.Box(-far, far, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (4,), dtype=np.float64)

    def beginning(self) -> Floats:
        """Where Meta-World puts arm and object."""
        return self._frame(self._arm.reset()[0])

    def moved(self, action: Floats) -> Floats:
        """By MuJoCo."""
        return self._frame(self._arm.step(action.astype(np.float32))[0])

    def _frame(self, seen: Any) -> Floats:
        return np.asarray(seen, dtype=np.float64)[:FRAME]

    def is_stuck(self) -> bool:
        """Never."""
        return False

    def achieved(self, states: Floats) -> Floats:
        """Where the object is."""
        return states[:, OBJECT]

    def rewards(self, states: Floats) -> Floats:
        """1 where it is at its goal."""
        off = ((states[:, OBJECT] - states[:, FRAME:]) ** 2).sum(axis=1)
        return np.asarray(off <= self._measures.close**2, dtype=np.float64)

    def expert(self, observation: Floats) -> Floats:
        """Meta-World's script."""
        frame, goal = observation[:FRAME], observation[FRAME:] - self._beside
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it would move faster than it can
            action = self._script.get_action(np.concatenate([frame, frame, goal]))
        return np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)

    def close(self) -> None:
        """Close MuJoCo's."""
        self._arm.close()


ARM, SLIDE = 9, 19  # joints of the arm and its fingers, and the place of the cabinet's among all positions
HAND, DOOR = slice(18, 21), 21  # in an observation
SHUT, OPEN, AJAR = 0.0, 0.37, 0.05  # m, and how near counts
BEFORE, BESIDE, DEEP = 0.25, 0.13, 0.02  # m that the hand is in front of the handle, beside it, and less deep than it
REACHED, TOWARDS = 0.06, 7.5  # m, and 1/s
REST, ROUND = 0.3, 1e-3  # weight of the arm's first pose; what keeps the inverse bounded


class Kitchen(GoalTask):
    """Open or close the sliding cabinet.

    Observation: positions and speeds of the arm's joints, the hand's place, the cabinet's, and its goal. Action: nine
    speeds of joints. Reward: 1 where the cabinet is within 5 cm of its goal, else 0. Reset: never.
    """

    goals, starts = np.array([[OPEN]]), np.array([[SHUT]])
    hold, longest, near = 250, 200, AJAR

    def __init__(self) -> None:
        import mujoco
        from gymnasium_robotics.envs.franka_kitchen.kitchen_env import KitchenEnv

        options = {"terminate_on_tasks_completed": False, "remove_task_when_completed": False}
        self._room: Any = KitchenEnv(tasks_to_complete=["slide cabinet"], **options)
        self._model, self._data, self._jacobian = self._room.model, self._room.data, mujoco.mj_jacSite
        names = ("end_effector", "slide_site")
        self._hand, self._handle = (mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_SITE, one) for one in names)
        far = np.full(23, np.inf)
        self.observation_space = spaces.Box(-far, far, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (ARM,), dtype=np.float64)

    def beginning(self) -> Floats:
        """The arm in its first pose, the cabinet shut."""
        self._room.reset(seed=int(self.np_random.integers(2**31)))
        return self._now()

    def moved(self, action: Floats) -> Floats:
        """By MuJoCo."""
        self._room.step(action.astype(np.float32))
        return self._now()

    def _now(self) -> Floats:
        place, speed = self._data.qpos, self._data.qvel
        return np.concatenate([place[:ARM], speed[:ARM], self._data.site_xpos[self._hand], place[SLIDE : SLIDE + 1]])

    def is_stuck(self) -> bool:
        """Never."""
        return False

    def achieved(self, states: Floats) -> Floats:
        """How far the cabinet is open."""
        return states[:, DOOR : DOOR + 1]

    def rewards(self, states: Floats) -> Floats:
        """1 where that is its goal."""
        return np.asarray(np.abs(states[:, DOOR] - states[:, -1]) <= AJAR, dtype=np.float64)

    def expert(self, observation: Floats) -> Floats:
        """In front of the handle, beside it, and on with it; by the inverse of the hand's Jacobian."""
        hand, off = observation[HAND], float(observation[-1] - observation[DOOR])
        if abs(off) <= AJAR / 2:
            return np.zeros(ARM)
        way, handle = np.sign(off), self._data.site_xpos[self._handle]
        ahead = way * (handle[0] - hand[0])
        at = np.array([handle[0] - way * BESIDE, handle[1] - DEEP, handle[2]])
        if 0.0 < ahead < BESIDE + REACHED and abs(hand[2] - at[2]) < REACHED:
            if hand[1] > at[1] - REACHED:
                at[0] = hand[0] + off + way * AJAR
        elif hand[1] > at[1] - BEFORE + REACHED:
            at[:2] = hand[0], at[1] - BEFORE
        else:
            at[1] -= BEFORE
        jacobian, turning = np.zeros((2, 3, self._model.nv))
        self._jacobian(self._model, self._data, jacobian, turning, self._hand)
        j, speed = jacobian[:, : ARM - 2], np.clip(TOWARDS * (at - hand), -0.6, 0.6)
        inverse = j.T @ np.linalg.inv(j @ j.T + ROUND * np.eye(3))
        rest = REST * (self._room.robot_env.init_qpos[: ARM - 2] - observation[: ARM - 2])
        joints = inverse @ speed + rest - inverse @ (j @ rest)
        return np.asarray(np.clip(np.append(joints, [0.0, 0.0]), -1.0, 1.0))

    def close(self) -> None:
        """Close MuJoCo's."""
        self._room.close()


PITCH, SPEED = 1, 8  # their places in an observation
BACK = 2.0 * np.pi / 3.0  # rad
WIDTH = 2.0  # m/s from the requested speed at which the reward ends


class FlipCheetah(GoalTask):
    """Run at the requested speed, and do not fall on your back.

    Observation: that of HalfCheetah-v5, and the requested speed. Action: six torques. Reward: 1 at the requested speed,
    0 from 2 m/s away. Reset: the pitch is beyond 2/3 pi.
    """

    goals, starts = np.array([[1.0], [2.0], [3.0]]), np.zeros((1, 1))
    sparse, hold = False, 500

    def __init__(self) -> None:
        self._body = gymnasium.make("HalfCheetah-v5", max_episode_steps=-1, disable_env_checker=True)
        far = np.full(18, np.inf)
        self.observation_space = spaces.Box(-far, far, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (6,), dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """On its feet, with a speed drawn at random."""
        self._seed = seed
        return super().reset(seed=seed)

    def beginning(self) -> Floats:
        """On its feet."""
        return np.asarray(self._body.reset(seed=self._seed)[0], dtype=np.float64)

    def moved(self, action: Floats) -> Floats:
        """By MuJoCo."""
        return np.asarray(self._body.step(action)[0], dtype=np.float64)

    def is_stuck(self) -> bool:
        """It lies on its back."""
        return bool(abs(self.x[PITCH]) > BACK)

    def achieved(self, states: Floats) -> Floats:
        """The speed."""
        return states[:, SPEED : SPEED + 1]

    def rewards(self, states: Floats) -> Floats:
        """How near it is to that requested."""
        return np.clip(1.0 - np.abs(states[:, SPEED] - states[:, -1]) / WIDTH, 0.0, 1.0)

    def home(self, states: Floats) -> Floats:
        """How level it is."""
        return np.clip(1.0 - np.abs(states[:, PITCH]) / BACK, 0.0, 1.0)

    def onward(self, states: Floats) -> Ints:
        """Any speed, by place; to stand where it leans far."""
        turn = (np.abs(states[:, SPEED]) * 1e4).astype(np.int64) % len(self.goals)
        return np.where(np.abs(states[:, PITCH]) > BACK / 2, len(self.goals), turn)

    def demonstrations(self, seed: int, back: bool) -> list[Demonstration]:
        """None."""
        return []

    def expert(self, observation: Floats) -> Floats:
        """No script makes it run."""
        raise NotImplementedError

    def close(self) -> None:
        """Close MuJoCo's."""
        self._body.close()


AZIMUTH = np.deg2rad([45.0, 135.0, 225.0, 315.0])  # of the legs, in the order of the joints
MOTORS = [3, 0, 1, 2]  # the leg of each pair of motors
OUTWARDS = np.array([1.0, -1.0, -1.0, 1.0])  # the sign of each knee
SWING, LIFT, BEND = 0.51, 0.14, 0.62  # rad: of hips, of knees, and about which these move
STEP, LATER = 0.6, -1.2  # rad of phase in a step, and of a knee behind its hip
STIFFNESS, DAMPING = 1.07, 0.07
FREE = 4.0  # m, half of a side of the workspace
QUATERNION, JOINTS, VELOCITY, RATES = slice(3, 7), slice(7, 15), slice(15, 17), slice(21, 29)


class Quadruped(GoalTask):
    """Walk in the requested direction, without a fall and without leaving the workspace.

    Observation: place and pose of MuJoCo's ant, its speeds, and the direction. Action: eight torques. Reward: the speed
    in that direction, at most 1 m/s. Reset: it lies on its back or crouches, or is 4 m from the middle along an axis.
    """

    goals = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    starts = np.zeros((1, 2))
    sparse, both_ways, hold, longest = False, False, 50, 30

    def __init__(self) -> None:
        options = {"exclude_current_positions_from_observation": False, "include_cfrc_ext_in_observation": False}
        self._body: Any = gymnasium.make("Ant-v5", max_episode_steps=-1, disable_env_checker=True, **options).unwrapped
        far = np.full(31, np.inf)
        self.observation_space = spaces.Box(-far, far, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (8,), dtype=np.float64)

    def beginning(self) -> Floats:
        """On its legs in the middle."""
        self._time = 0
        return np.asarray(self._body.reset(seed=int(self.np_random.integers(2**31)))[0], dtype=np.float64)

    def moved(self, action: Floats) -> Floats:
        """By MuJoCo."""
        self._time += 1
        return np.asarray(self._body.step(action)[0], dtype=np.float64)

    def is_stuck(self) -> bool:
        """It fell, or left its workspace."""
        upright = 1.0 - 2.0 * (self.x[4] ** 2 + self.x[5] ** 2) > 0.0
        return bool(not self._body.is_healthy or not upright or (np.abs(self.x[:2]) > FREE).any())

    def achieved(self, states: Floats) -> Floats:
        """The speeds along both axes."""
        return states[:, VELOCITY]

    def rewards(self, states: Floats) -> Floats:
        """The requested part of them."""
        return np.asarray(np.clip((states[:, VELOCITY] * states[:, 29:]).sum(axis=1), 0.0, 1.0))

    def home(self, states: Floats) -> Floats:
        """How near the middle it is."""
        return np.clip(1.0 - np.hypot(states[:, 0], states[:, 1]) / FREE, 0.0, 1.0)

    def onward(self, states: Floats) -> Ints:
        """The direction that leads back to the middle."""
        return np.asarray((-states[:, :2] @ self.goals.T).argmax(axis=1), dtype=np.int64)

    def expert(self, observation: Floats) -> Floats:
        """A trot: hips swing against the direction on the ground, knees lift on the way forth."""
        w, x, y, z = observation[QUATERNION]
        turned = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        across = np.cos(AZIMUTH + turned) * observation[30] - np.sin(AZIMUTH + turned) * observation[29]
        phase = STEP * self._time + np.array([0.0, np.pi, 0.0, np.pi])
        wanted = np.stack([SWING * across * np.cos(phase), OUTWARDS * (BEND + LIFT * np.sin(phase + LATER))], axis=1)
        joints, rates = (observation[part].reshape(4, 2) for part in (JOINTS, RATES))
        torque = STIFFNESS * (wanted - joints) - DAMPING * rates
        return np.clip(torque[MOTORS].ravel(), -1.0, 1.0)

    def close(self) -> None:
        """Close MuJoCo's."""
        self._body.close()
