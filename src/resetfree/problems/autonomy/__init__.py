"""Tasks of reset-free reinforcement learning: a mug, a peg, a door, robots in their workspace.

Each task has its physics, its environment, a scripted expert, and its `Guidance` for methods that bring the
system back themselves. Importing this package registers the environments with Gymnasium under their own names, so that
`resetfree run tabletop-v0` finds them. `docs/autonomy.md` compares methods on them.

What they share is here: a goal in the observation that changes on a schedule, and experts that are recorded.

Legend: x [n] the state of the system; an observation is x and the goal [G].
"""

from abc import abstractmethod
from functools import lru_cache
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.envs.registration import register

from resetfree.core import Floats, Ints
from resetfree.problems.knowledge import Demonstration, Guidance

_HERE = "resetfree.problems.autonomy"
IDS: dict[str, tuple[str, dict[str, object]]] = {
    "tabletop-v0": (f"{_HERE}.plane:Tabletop", {}),
    "tabletop-edge-v0": (f"{_HERE}.plane:Tabletop", {"walls": False}),
    "tabletop-small-v0": (f"{_HERE}.plane:Tabletop", {"size": 0.4, "hold": 100}),
    "tabletop-small-edge-v0": (f"{_HERE}.plane:Tabletop", {"walls": False, "size": 0.4, "hold": 100}),
    "peg-edge-v0": (f"{_HERE}.plane:Peg", {}),
    "workspace-v0": (f"{_HERE}.plane:Workspace", {}),
    "flip-cheetah-v0": (f"{_HERE}.simulated:FlipCheetah", {}),
    "kitchen-v0": (f"{_HERE}.simulated:Kitchen", {}),
    "quadruped-v0": (f"{_HERE}.simulated:Quadruped", {}),
    "sawyer-door-v0": (f"{_HERE}.simulated:Sawyer", {"task": "door-close-v3"}),
    "sawyer-peg-v0": (f"{_HERE}.simulated:Sawyer", {"task": "peg-insert-side-v3"}),
}
RECORDED = 12  # demonstrations of each kind
SWERVE = 0.1  # deviation of the noise in an expert's actions

for _id, (_class, _options) in IDS.items():
    register(_id, entry_point=_class, kwargs=_options)


class GoalTask(gymnasium.Env[Floats, Floats]):
    """A system that is never put back by itself; its goal changes every `hold` steps, in place.

    An observation is the state of the system and the goal. The reward of a step is for the goal that was observed
    before it. All randomness comes from the environment's generator.
    """

    hold: int = 200  # steps between two goals: a turn of the published tasks
    longest: ClassVar[int] = 100  # steps of a demonstration at most
    goals: Floats  # [n, G]
    starts: Floats  # [m, G]
    x: Floats
    goal: Floats
    _left: int

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """The system where it starts, with a goal drawn at random."""
        super().reset(seed=seed)
        self.x = self.beginning()
        self._aim()
        return self.observation(), {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Act; terminated where only a person can help, and never truncated."""
        space = self.action_space
        assert isinstance(space, gymnasium.spaces.Box)
        self.x = self.moved(np.clip(np.asarray(action, dtype=np.float64), space.low, space.high))
        stuck = self.is_stuck()
        reward = 0.0 if stuck else float(self.rewards(self.observation()[None])[0])
        self._left -= 1
        if self._left == 0:
            self._aim()
        return self.observation(), reward, stuck, False, {"is_success": self.sparse and reward >= 1.0}

    def observation(self) -> Floats:
        """The state of the system, and the goal."""
        return np.concatenate([self.seen(), self.goal])

    def seen(self) -> Floats:
        """What is observed besides the goal."""
        return self.x

    def _aim(self) -> None:
        self.goal = self.goals[int(self.np_random.integers(len(self.goals)))]
        self._left = self.hold

    @property
    def guidance(self) -> Guidance:
        """What the task states about itself."""
        size, goals = len(self.observation_space.low), self.goals  # type: ignore[attr-defined]
        return Guidance(
            goal=slice(size - goals.shape[1], size),
            goals=goals,
            starts=self.starts,
            achieved=self.achieved,
            reward=self.rewards,
            home=self.home,
            onward=self.onward,
            demonstrations=self.demonstrations,
        )

    def demonstrations(self, seed: int, back: bool) -> list[Demonstration]:
        """The recorded expert: towards each goal in turn, or (`back`) from there to the starts, if these are places."""
        options = () if self.spec is None else tuple(sorted(self.spec.kwargs.items()))
        kind: Any = type(self)
        forth, home = _recorded(kind, options, seed)
        return home if back else forth

    def onward(self, states: Floats) -> Ints:
        """[n] the task to set next: back to a start where the system is at a goal, else a goal at random by place."""
        n = len(self.goals)
        home = np.zeros(len(states), dtype=bool)
        at = self.achieved(states)
        for start in self.starts:
            home |= np.linalg.norm(at - start, axis=1) < self.near
        turn = (np.abs(states[:, :2]).sum(axis=1) * 1e4).astype(np.int64) % n
        return np.where(home, turn, n)

    def home(self, states: Floats) -> Floats:
        """[n] the reward for being back where the system starts: that of the first start as a goal."""
        changed = states.copy()
        changed[:, states.shape[1] - self.goals.shape[1] :] = self.starts[0]
        return self.rewards(changed)

    sparse: ClassVar[bool] = True  # whether the reward is 1 at the goal and 0 elsewhere
    both_ways: ClassVar[bool] = True  # whether the expert knows the way back
    near: float = 0.5  # distance from a start that counts as being there

    @abstractmethod
    def beginning(self) -> Floats:
        """The state after a reset."""

    @abstractmethod
    def moved(self, action: Floats) -> Floats:
        """The state after an action."""

    @abstractmethod
    def is_stuck(self) -> bool:
        """Whether only a person can help."""

    @abstractmethod
    def achieved(self, states: Floats) -> Floats:
        """[n, G] the goals that observations [n, D] have reached."""

    @abstractmethod
    def rewards(self, states: Floats) -> Floats:
        """[n] the rewards of arriving in observations [n, D], for the goals in them."""

    @abstractmethod
    def expert(self, observation: Floats) -> Floats:
        """[A] what a scripted expert does on the way to the goal that is observed; it may be any goal or start."""


@lru_cache(maxsize=32)
def _recorded(
    cls: Any, options: tuple[tuple[str, Any], ...], seed: int
) -> tuple[list[Demonstration], list[Demonstration]]:
    """Demonstrations forth and back, from one environment of its own."""
    env, rng = cls(**dict(options)), np.random.default_rng([seed, 77])
    forth, home = [], []
    for i in range(RECORDED):
        env.reset(seed=int(rng.integers(2**31)))
        forth.append(_shown(env, env.goals[i % len(env.goals)], rng))
        if env.both_ways:
            home.append(_shown(env, env.starts[i % len(env.starts)], rng))
    return forth, home


def _shown(env: GoalTask, goal: Floats, rng: np.random.Generator) -> Demonstration:
    """The expert from where the system stands to a goal, until a few steps after it is reached."""
    env.goal, env._left = goal, env.longest + 1
    states, actions, rewards = [env.observation()], [], []
    after = 0
    for _ in range(env.longest):
        action = env.expert(states[-1])
        action = np.clip(action + SWERVE * rng.normal(size=action.shape), -1.0, 1.0)
        observation, reward, stuck, _, _ = env.step(action)
        actions.append(action)
        rewards.append(reward)
        states.append(observation)
        after += env.sparse and reward >= 1.0
        if stuck or after > 5:
            break
    return Demonstration(np.array(states), np.array(actions), np.array(rewards))
