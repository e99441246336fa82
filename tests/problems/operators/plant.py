"""A small machine that is somewhere by itself: a real simulator whose state lives in this process and nowhere else."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import resetfree as rf
from resetfree.core import EnvironmentFailed
from resetfree.problems import Intervention, State
from resetfree.problems.operators import Automatic, Operator, Request


class Plant(rf.Problem):
    """The grid, but only a reset tells where it stands; whoever thinks it stands elsewhere finds out."""

    name, persistent = "plant", True

    def __init__(self, slip: float = 0.1, delay: float = 0.0, operator: Operator | None = None) -> None:
        self._inner = rf.make("grid-v0", slip=slip).problem()
        for size in ("horizon", "n_actions", "n_states", "stationary", "n_transitions", "end_resets", "phi", "xi"):
            setattr(self, size, getattr(self._inner, size))
        self.operator: Operator = operator or Automatic()
        self.at: int | None = None
        self.fails_after_reset = False
        self._delay, self._detail = delay, "it was switched on"
        self._performed: list[Intervention] = []

    def problem(self) -> "Plant":
        return self

    @property
    def n_uniforms(self) -> int:
        return int(self._inner.n_uniforms)

    def first_start(self, u: float) -> State:
        raise AssertionError("a persistent problem starts by a reset")

    def rollout(self, policy: Any, start: State, u: NDArray[np.float64]) -> rf.Episode:
        if self.at is None or start != self.at:
            raise EnvironmentFailed(f"The plant stands at {self.at}, not at {start}.")
        time.sleep(self._delay)
        episode = self._inner.rollout(policy, start, u)
        self.at = None if episode.reset else episode.next_start
        self._detail = f"it ran into state {episode.states[-1]}"
        return rf.Episode(episode.states, episode.actions, episode.rewards, episode.reset, self.at)

    def perform_reset(self, u: float, why: str, operator: Operator | None = None) -> State:
        asked, then = datetime.now(UTC).isoformat(), time.monotonic()
        answer = (operator or self.operator).perform(Request(self.name, why, self._detail))
        answered = datetime.now(UTC).isoformat()
        self._performed.append(
            Intervention(0, why, answer.note or self._detail, answer.who, asked, answered, time.monotonic() - then)
        )
        if self.fails_after_reset:
            raise EnvironmentFailed("The plant does not start.")
        self.at = self._inner.first_start(u)
        return self.at

    def interventions(self) -> list[Intervention]:
        performed, self._performed = self._performed, []
        return performed


def make(slip: float = 0.1, delay: float = 0.0) -> Plant:
    """For the command line: tests.problems.operators.plant:make."""
    return Plant(slip, delay)


@dataclass
class Counts:
    starts: NDArray[np.int64]  # [S] episodes per start
    policy: NDArray[np.float64]  # [H, S, A]
    steps: int = 0
    resets: int = 0


@dataclass(frozen=True)
class Counter(rf.PrimalPlayer[Counts]):
    """Plays at random; what it has learned can be told from the rounds alone."""

    name: ClassVar[str] = "counter"

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Counts:
        assert problem.n_states is not None
        shape = (problem.horizon, problem.n_states, problem.n_actions)
        return Counts(np.zeros(problem.n_states, dtype=np.int64), np.full(shape, 1.0 / problem.n_actions))

    def plan(self, state: Counts, s1: State, lam: float) -> rf.Plan:
        return rf.Plan(state.policy, 0.0, 0.0)

    def update(self, state: Counts, round: rf.Round) -> Counts:
        state.starts[round.s1] += 1
        state.steps += len(round.episode.actions)
        state.resets += round.episode.reset
        return state
