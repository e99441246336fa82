"""A player and a problem that no registry knows, and every bit of a run, to compare two of them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from tests.bank import rows, select

import resetfree as rf
from resetfree.problems import State


def everything(path: Path) -> str:
    """Every bit of every round, and of the state that is left."""
    return rows(path) + repr(select(path, "SELECT k, part, rng, s1, arrays FROM checkpoints"))


@dataclass
class Memory:
    w: NDArray[np.float64]
    k: int = 0


@dataclass(frozen=True)
class Chatty(rf.PrimalPlayer[Memory]):
    """Plays at random by what it has seen; breaks in the middle of an update when it is told to."""

    name: ClassVar[str] = "chatty"
    B: float | None = 1.0
    breaks_at: int = -1
    breaks_with: Any = field(default=RuntimeError)

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Memory:
        return Memory(np.full(problem.n_actions, 1.0 / problem.n_actions))

    def plan(self, state: Memory, s1: State, lam: float) -> rf.Plan:
        return rf.Plan(lambda h, s: state.w, 0.5, float(state.w[0]))

    def update(self, state: Memory, round: rf.Round) -> Memory:
        state.w[int(round.episode.actions[0])] += 0.01
        if round.k == self.breaks_at:
            raise self.breaks_with("half a round")
        state.w /= state.w.sum()
        state.k += 1
        return state


class Walk(rf.Problem):
    """Starts are arrays, and there is no model behind it."""

    name, horizon, n_actions, n_states, stationary = "walk", 2, 3, None, True
    n_transitions, end_resets, phi, xi = 2, False, None, None

    @property
    def n_uniforms(self) -> int:
        return 1

    def first_start(self, u: float) -> State:
        return np.array([u, 0.0])

    def rollout(self, policy: Any, start: State, u: NDArray[np.float64]) -> rf.Episode:
        action = int(np.searchsorted(np.cumsum(policy(1, start)), u[0]))
        end = start + np.array([0.1, -0.1]) * action
        return rf.Episode(np.stack([start, end]), np.array([action]), np.array([0.1 * action]), bool(u[0] > 0.9), end)
