"""Small tasks that no default was tuned to, as Gymnasium environments: `small/NAME-v0`, registered by importing this.

Held out until the end: twolink, switch, press, lane. They are started once and run on; `terminated` is the reset event.

Legend: x the state; g the goal, which changes where it was reached.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Vector = NDArray[np.float64]
HELD_OUT = ("twolink", "switch", "press", "lane")


class Small(gymnasium.Env[Any, Any]):
    """What the tasks share: a state x, its motion, and what a step pays."""

    x: Vector

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The beginning."""
        super().reset(seed=seed)
        self.begin()
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step."""
        reward, fell = self.act(action)
        return self.seen(), float(reward), bool(fell), False, {}

    def begin(self) -> None:
        """Set the first state."""
        raise NotImplementedError

    def seen(self) -> Any:
        """The observation."""
        return self.x.copy()

    def act(self, action: Any) -> tuple[float, bool]:
        """Move, and say what it pays and whether it is a reset event."""
        raise NotImplementedError


def box(size: int, high: float = np.inf) -> spaces.Box:
    """A symmetric box."""
    return spaces.Box(-high, high, (size,), np.float64)


class Goal(Small):
    """A sparse goal in the observation: 1 where it is reached, then another is drawn in place."""

    near: ClassVar[float]
    size: ClassVar[int]
    action_space = box(2, 1.0)
    g: Vector

    def __init__(self) -> None:
        n = len(self.draw_from(np.random.default_rng(0)))
        parts = {"observation": box(self.size), "achieved_goal": box(n), "desired_goal": box(n)}
        self.observation_space = spaces.Dict(parts)  # type: ignore[arg-type]

    def draw_from(self, rng: np.random.Generator) -> Vector:
        """A goal."""
        raise NotImplementedError

    def reached(self) -> Vector:
        """The goal that is achieved."""
        raise NotImplementedError

    def move(self, a: Vector) -> None:
        """The next state."""
        raise NotImplementedError

    def seen(self) -> Any:
        """State, goal achieved, goal desired."""
        return {"observation": self.x.copy(), "achieved_goal": self.reached(), "desired_goal": self.g.copy()}

    def act(self, action: Any) -> tuple[float, bool]:
        """1 at the goal."""
        self.move(np.clip(np.asarray(action, np.float64), -1.0, 1.0))
        at_goal = bool(np.linalg.norm(self.reached() - self.g) < self.near)
        if at_goal:
            self.g = self.draw_from(self.np_random)
        return float(at_goal), False


class Puck(Goal):
    """A round finger (radius 0.12) pushes a puck on a table, whose edge stops it; the finger can reach behind it."""

    near, size = 0.12, 4

    def draw_from(self, rng: np.random.Generator) -> Vector:
        """A place on the table."""
        return rng.uniform(-0.6, 0.6, 2)

    def begin(self) -> None:
        """The finger beside the puck."""
        self.x, self.g = np.array([-0.5, -0.5, 0.0, 0.0]), self.draw_from(self.np_random)

    def reached(self) -> Vector:
        """Where the puck is."""
        return self.x[2:].copy()

    def move(self, a: Vector) -> None:
        """The finger moves, and the puck out of its way."""
        finger = np.clip(self.x[:2] + 0.1 * a, -1.0, 1.0)
        puck, way = self.x[2:], self.x[2:] - finger
        if (away := float(np.linalg.norm(way))) < 0.12:
            puck = puck + (way if away > 1e-9 else a) * (0.12 / max(away, 1e-9) - 1.0)
        self.x = np.concatenate([finger, np.clip(puck, -0.75, 0.75)])


class TwoLink(Goal):
    """Two joints with torques, to a posture: angles within 0.15 of the goal's."""

    near, size = 0.15, 4

    def draw_from(self, rng: np.random.Generator) -> Vector:
        """A posture."""
        return rng.uniform([-1.5, -1.5], [1.5, 1.5])

    def begin(self) -> None:
        """Straight down, at rest."""
        self.x, self.g = np.zeros(4), self.draw_from(self.np_random)

    def reached(self) -> Vector:
        """The angles."""
        return self.x[:2].copy()

    def move(self, a: Vector) -> None:
        """Two rods in a plane, with friction."""
        for _ in range(5):
            (p, q), (v, w) = self.x[:2], self.x[2:]
            c = np.cos(q)
            mass = np.array([[1.67 + c, 0.33 + 0.5 * c], [0.33 + 0.5 * c, 0.33]])
            twist = 0.5 * np.sin(q) * np.array([-(2 * v * w + w * w), v * v])
            weight = 1.0 * np.array([1.5 * np.sin(p) + 0.5 * np.sin(p + q), 0.5 * np.sin(p + q)])
            push = a * [4.0, 1.5] - [1.0 * v, 0.4 * w] - twist - weight
            rates = np.clip(self.x[2:] + 0.01 * np.linalg.solve(mass, push), -8.0, 8.0)
            angles = self.x[:2] + 0.01 * rates
            stop = np.abs(angles) > 2.5
            self.x = np.concatenate([np.clip(angles, -2.5, 2.5), np.where(stop, 0.0, rates)])


class Maze(Small):
    """A point in a U: along one arm, around the wall's end and back along the other; the goal is at the other end.

    Observed: the place, and which end is next. 1 at that end, else 0.
    """

    action_space, observation_space = box(2, 1.0), box(3)

    def begin(self) -> None:
        """At one end."""
        self.x = np.array([-0.8, -0.5, 1.0])

    def act(self, action: Any) -> tuple[float, bool]:
        """Slide along walls."""
        a = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        at, turn = self.x[:2], self.x[2]
        for axis in (0, 1):
            new = at.copy()
            new[axis] += 0.1 * a[axis]
            if np.abs(new).max() <= 1.0 and not (abs(new[1]) < 0.15 and new[0] < 0.5):
                at = new
        won = np.linalg.norm(at - [-0.8, 0.5 * turn]) < 0.2
        self.x = np.append(at, -turn if won else turn)
        return float(won), False


class Lane(Small):
    """Keep a car in the middle of a winding lane: offset, heading, speed, curvature ahead; off the road is a reset."""

    action_space, observation_space = box(2, 1.0), box(4)

    def begin(self) -> None:
        """In the middle, slow."""
        self.x, self.bend = np.array([0.0, 0.0, 5.0, 0.0]), 0.0

    def act(self, action: Any) -> tuple[float, bool]:
        """Steer and accelerate; fast and in the middle pays."""
        a = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        y, heading, speed, bend = self.x
        heading += 0.1 * speed * (0.1 * a[0] - bend)
        y += 0.1 * speed * np.sin(heading)
        speed = np.clip(speed + 0.3 * a[1], 2.0, 15.0)
        bend = np.clip(0.97 * bend + 0.01 * self.np_random.normal(), -0.06, 0.06)
        self.x = np.array([y, heading, speed, bend])
        return max(0.0, 1 - abs(y) / 2) * speed / 15.0, abs(y) > 2.0 or abs(heading) > 1.2


class Heating(Small):
    """A heating plant: room, water and outdoor temperature; comfort less energy; too hot water trips it: -50."""

    action_space, observation_space = box(1, 1.0), box(3)

    def begin(self) -> None:
        """A cold morning."""
        self.x, self.t = np.array([15.0, 35.0, 0.0]), 0

    def act(self, action: Any) -> tuple[float, bool]:
        """Heat."""
        power = 0.5 + 0.5 * float(np.clip(np.ravel(action)[0], -1.0, 1.0))
        room, water, _ = self.x
        self.t += 1
        outside = 5 * np.sin(self.t / 60) + 0.3 * self.np_random.normal()
        water += 6.0 * power - 0.1 * (water - room)
        room += 0.04 * (water - room) - 0.05 * (room - outside)
        self.x = np.array([room, water, outside])
        trip = water > 75.0
        return (-50.0 if trip else -abs(room - 21.0) / 5 - 0.1 * power), trip


class Press(Small):
    """A press: force builds up with lag; parts come after another, each wants another force; too much breaks it."""

    action_space, observation_space = box(1, 1.0), box(3)

    def begin(self) -> None:
        """No force."""
        self.x, self.left = np.array([0.0, 0.0, 3.0]), 40

    def act(self, action: Any) -> tuple[float, bool]:
        """A valve."""
        force, flow, wanted = self.x
        flow = 0.7 * flow + 0.3 * float(np.clip(np.ravel(action)[0], -1.0, 1.0))
        force = max(0.0, force + 0.6 * flow - 0.02 * force)
        self.left -= 1
        if self.left == 0:
            wanted, self.left = self.np_random.uniform(1.0, 8.0), 40
        self.x = np.array([force, flow, wanted])
        return float(np.exp(-(((force - wanted) / 0.7) ** 2))), force > 10.0


class Delayed(Small):
    """A pendulum held upright: the torque comes two steps late, and the angle is noisy; beyond 0.5 rad is a reset."""

    action_space, observation_space = box(1, 1.0), box(1)

    def begin(self) -> None:
        """Nearly upright."""
        self.x = self.np_random.uniform(-0.05, 0.05, 2)
        self.late: deque[float] = deque([0.0, 0.0])

    def seen(self) -> Vector:
        """The angle, not quite."""
        return self.x[:1] + 0.005 * self.np_random.normal(size=1)

    def act(self, action: Any) -> tuple[float, bool]:
        """Gravity, and the torque of two steps ago."""
        self.late.append(float(np.clip(np.ravel(action)[0], -1.0, 1.0)))
        angle, rate = self.x
        rate += 0.05 * (6.0 * np.sin(angle) + 6.0 * self.late.popleft() - 0.2 * rate)
        self.x = np.array([angle + 0.05 * rate, rate])
        return 1.0 - (self.x[0] / 0.5) ** 2, abs(self.x[0]) > 0.5


class Switch(gymnasium.Env[Any, Any]):
    """A grid of 6 x 6 with a pit: press the switch in one corner, then deliver in the other; 1 for each delivery."""

    action_space, observation_space = spaces.Discrete(4), spaces.MultiDiscrete([6, 6, 2])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The middle of an edge."""
        super().reset(seed=seed)
        self.at, self.on = [0, 3], 0
        return np.array([*self.at, self.on]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A move, one in ten slips."""
        move = int(action) if self.np_random.random() > 0.1 else int(self.np_random.integers(4))
        i, by = move // 2, 2 * (move % 2) - 1
        self.at[i] = min(max(self.at[i] + by, 0), 5)
        if self.at == [5, 0]:
            self.on = 1
        won = self.at == [0, 5] and self.on
        self.on = 0 if won else self.on
        fell = self.at in ([2, 2], [3, 2], [2, 3])
        return np.array([*self.at, self.on]), float(won), fell, False, {}


TASKS: dict[str, Any] = {
    "puck": Puck, "maze": Maze, "heating": Heating, "delayed": Delayed,
    "twolink": TwoLink, "switch": Switch, "press": Press, "lane": Lane,
}  # fmt: skip
for _name, _kind in TASKS.items():
    gymnasium.register(f"small/{_name}-v0", entry_point=_kind)
