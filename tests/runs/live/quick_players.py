"""Primal players that learn within microseconds, for runs at a rate; all they play depends on all that they saw."""

import os
import signal
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import resetfree as rf
from resetfree.players.model_based.model_search import LinearScores
from resetfree.problems import State


@dataclass
class Seen:
    """What was seen."""

    total: Any  # [D] sum of all states, with rounds weighted by their number
    rounds: int
    horizon: int


@dataclass(frozen=True)
class Quick(rf.PrimalPlayer[Seen]):
    """Scores that are linear in the state and in what was seen; it also learns which plans were played."""

    name = "quick"

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Seen:
        """Nothing was seen."""
        return Seen(np.zeros(4), 0, problem.horizon)

    def plan(self, state: Seen, s1: State, lam: float) -> rf.Plan:
        """A plan for this start and multiplier."""
        weight = np.stack([np.sin(state.total + s1), np.cos(state.total - lam)]) + 0.01
        return rf.Plan(LinearScores(weight, np.zeros(2)), float(state.rounds % 7) % state.horizon, 0.5)

    def update(self, state: Seen, round: rf.Round) -> Seen:
        """Add what was seen, in an order that matters."""
        state.rounds += 1
        assert state.rounds == round.k  # every round once, and in order
        state.total = 0.9 * state.total + round.episode.states.sum(axis=0) + round.plan.policy.weight.sum() / round.k
        return state


@dataclass(frozen=True)
class Raising(Quick):
    """Fails in round 3."""

    name = "raising"

    def update(self, state: Seen, round: rf.Round) -> Seen:
        """As before, until it fails."""
        if round.k == 3:
            raise ArithmeticError("too hot")
        return super().update(state, round)


@dataclass(frozen=True)
class WithCode(Quick):
    """Its policy is a function, which no other process can be given."""

    name = "with-code"

    def plan(self, state: Seen, s1: State, lam: float) -> rf.Plan:
        """A function."""
        return super().plan(state, s1, lam)._replace(policy=lambda h, s: [0.5, 0.5])


@dataclass(frozen=True)
class Mortal(Quick):
    """Its process is killed in some rounds, if it has not been before: `folder` remembers."""

    name = "mortal"
    folder: str = ""
    every: int = 7
    slow: float = 0.0  # seconds that a plan takes

    def plan(self, state: Seen, s1: State, lam: float) -> rf.Plan:
        """As before, but late."""
        time.sleep(self.slow)
        return super().plan(state, s1, lam)

    def update(self, state: Seen, round: rf.Round) -> Seen:
        """As before, unless it is killed in the middle."""
        mark = os.path.join(self.folder, f"killed-{round.k}")
        if self.folder and round.k % self.every == 0 and not os.path.exists(mark):
            open(mark, "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().update(state, round)


@dataclass(frozen=True)
class Looping(Quick):
    """Does not come back from round 7: the first time, or always; `folder` remembers how often it began that."""

    name = "looping"
    folder: str = ""
    always: bool = False

    def update(self, state: Seen, round: rf.Round) -> Seen:
        """As before, or for ever."""
        if round.k == 7:
            before = len(os.listdir(self.folder))
            open(os.path.join(self.folder, f"begun-{before}"), "x").close()
            while self.always or not before:
                pass
        return super().update(state, round)


@dataclass(frozen=True)
class Deadlocked(Looping):
    """As before, but it waits for what never comes."""

    name = "deadlocked"

    def update(self, state: Seen, round: rf.Round) -> Seen:
        """As before, or for ever."""
        mark = os.path.join(self.folder, "begun-0")
        if round.k == 7 and not os.path.exists(mark):
            open(mark, "x").close()
            threading.Event().wait()
        return Quick.update(self, state, round)


@dataclass(frozen=True)
class Stalling(Quick):
    """Its process stops in the middle of round 7, until it is continued; `folder` gets its number."""

    name = "stalling"
    folder: str = ""

    def update(self, state: Seen, round: rf.Round) -> Seen:
        """As before, but stopped, once."""
        mark = os.path.join(self.folder, "stalled")
        if round.k == 7 and not os.path.exists(mark):
            with open(mark, "x") as file:
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().update(state, round)
