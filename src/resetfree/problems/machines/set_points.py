"""What the machines share: motion by Runge-Kutta steps, set points on a schedule, rewards in [0, 1], and a life of one.

Legend: x [n] the state of the machine; u [A] the action, each entry a share of what the motor can give.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats

EFFORT = 0.05  # share of the reward for using little effort
NEVER = (2**62, 2**62)  # steps between two changes of a set point that stays
Rates = Callable[[Floats, Floats], Floats]  # (x, u) -> dx/dt


def runge_kutta(rates: Rates, x: Floats, u: Floats, dt: float, substeps: int) -> Floats:
    """The state after the time dt under a constant action, by `substeps` steps of the classical fourth-order method.

    >>> bool(abs(runge_kutta(lambda x, u: -x, np.ones(1), np.zeros(1), 1.0, 4)[0] - np.exp(-1)) < 2e-5)
    True
    """
    h = dt / substeps
    for _ in range(substeps):
        k1 = rates(x, u)
        k2 = rates(x + 0.5 * h * k1, u)
        k3 = rates(x + 0.5 * h * k2, u)
        k4 = rates(x + h * k3, u)
        x = x + (h / 6.0) * (k1 + 2.0 * (k2 + k3) + k4)
    return x


def closeness(distance: float, width: float) -> float:
    """1 at the set point, falling linearly to 0 at the distance `width`."""
    return max(0.0, 1.0 - distance / width)


class SetPointMachine(gymnasium.Env[Floats, Floats]):
    """A machine that never ends but at a limit; the set point changes after a random number of steps.

    A step holds the action for `dt` seconds. Its reward, in [0, 1], is about the state after the step and the set point
    that was observed before it: (1 - EFFORT) (how close it is) + EFFORT (1 - how hard it worked). All randomness (the
    state after a reset, the set points and when they change) comes from the environment's generator.
    """

    dt: float  # seconds per step
    substeps: ClassVar[int]
    hold: ClassVar[tuple[int, int]]  # least and most steps between two changes of the set point
    x: Floats  # the state
    set_point: Floats
    _left: int  # steps until the set point changes

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """The machine at rest, put where it may start, with a new set point."""
        super().reset(seed=seed)
        self.x = self.resting()
        self._aim()
        return self.observation(), {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Hold the action, cut at its bounds, for `dt` seconds; terminated at a limit, and never truncated."""
        space = self.action_space
        assert isinstance(space, gymnasium.spaces.Box)
        u = np.clip(np.asarray(action, dtype=np.float64), space.low, space.high)
        self.x = runge_kutta(self.rates, self.x, u, self.dt, self.substeps)
        reward = (1.0 - EFFORT) * self.tracking() + EFFORT * (1.0 - self.effort(u))
        self._left -= 1
        if self._left == 0:
            self._aim()
        return self.observation(), reward, self.at_limit(), False, {}

    def _aim(self) -> None:
        self.set_point = self.new_set_point()
        self._left = int(self.np_random.integers(*self.hold, endpoint=True))

    @abstractmethod
    def rates(self, x: Floats, u: Floats) -> Floats:
        """The equations of motion: dx/dt."""

    @abstractmethod
    def resting(self) -> Floats:
        """The state after a reset."""

    @abstractmethod
    def new_set_point(self) -> Floats:
        """A random set point that can be held."""

    @abstractmethod
    def observation(self) -> Floats:
        """What a controller sees: the state, and the way to the set point."""

    @abstractmethod
    def tracking(self) -> float:
        """How close the machine is to its set point, in [0, 1]."""

    @abstractmethod
    def effort(self, u: Floats) -> float:
        """How hard the machine worked, in [0, 1]."""

    @abstractmethod
    def at_limit(self) -> bool:
        """Whether the machine must be reset."""


class BalancedMachine(SetPointMachine):
    """A machine with one motor that shows its whole state, and whose set point, a state upright, never changes.

    Action: the motor's share of its most, in [-1, 1].
    """

    hold = NEVER

    def __init__(self, reach: list[float]) -> None:
        ends = np.array(reach)
        self.observation_space = gymnasium.spaces.Box(-ends, ends, dtype=np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)

    def new_set_point(self) -> Floats:
        """Upright."""
        return np.zeros(1)

    def observation(self) -> Floats:
        """The state."""
        return self.x.copy()

    def effort(self, u: Floats) -> float:
        """The square of the action."""
        return float(u[0]) ** 2


class Trajectory(NamedTuple):
    """What happened in n steps of a machine that was reset only at its limits."""

    observations: Floats  # [n, D] before each step
    actions: Floats  # [n, A]
    rewards: Floats  # [n]
    resets: Bools  # [n] whether the step ended at a limit

    @property
    def summary(self) -> str:
        """Reward per step and resets, in words."""
        return (
            f"{self.rewards.mean():.3f} reward per step, {int(self.resets.sum())} resets in {len(self.rewards)} steps"
        )


def play(machine: gymnasium.Env[Any, Any], act: Callable[[Floats], NDArray[Any]], steps: int, seed: int) -> Trajectory:
    """A life of so many steps under `act(observation)`: started once, reset only at limits."""
    seen, done, rewards, resets = [], [], np.zeros(steps), np.zeros(steps, dtype=np.bool_)
    observation, _ = machine.reset(seed=seed)
    for i in range(steps):
        action = act(observation)
        seen.append(observation)
        done.append(action)
        observation, reward, terminated, _, _ = machine.step(action)
        rewards[i], resets[i] = float(reward), terminated
        if terminated:
            observation, _ = machine.reset()
    return Trajectory(np.array(seen), np.array(done), rewards, resets)
