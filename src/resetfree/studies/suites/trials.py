"""Trials of the comparison: how one is played, and its outcome.

All methods get the same random numbers: the generator of a game depends on the seed alone, and every episode takes the
same number of uniforms from it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.errors import AssumptionViolated, InvalidInput, NotCertifiable, one_line
from resetfree.game.loop import begin, play
from resetfree.players.method import Setting
from resetfree.problems.finite.mdp import FiniteMDP, FiniteProblem
from resetfree.studies.suites.methods import methods
from resetfree.studies.suites.suite import Instance, instance
from resetfree.studies.trial import LOOK, Trial, with_settings
from resetfree.theory.assumptions import dual_class
from resetfree.theory.certificates.anytime import resets_upper
from resetfree.theory.oracle.dynamic_programming import solve
from resetfree.theory.oracle.exact import Evaluator

Ending: TypeAlias = Literal["done", "stopped", "failed"]


@dataclass(frozen=True)
class MethodPlayers:
    """The players of a method of the comparison, as they are made for a case."""

    case: str
    method: str
    pooled: bool
    width: float  # 0 for a method without one
    tuning: bool  # played to choose a width; never reported


MethodTrial: TypeAlias = Trial[MethodPlayers]


def key_of(trial: MethodTrial) -> str:
    """A unique name, also in files."""
    players, place = trial.players, with_settings(trial.problem, trial.options)
    role = "tuning" if players.tuning else "reported"
    pooling = "pooled" if players.pooled else "per step"
    words = (players.case, role, players.method, pooling, f"{players.width:g}", place)
    return " | ".join([*words, f"seed {trial.seed}", f"K {trial.episodes}"])


@dataclass(frozen=True)
class Measured:
    """The outcome of a trial; sums over the episodes played."""

    status: Ending  # "stopped": by the time limit; "failed": by an exception
    played: int = 0
    regret: float = 0.0  # Regret, exact
    resets: float = 0.0  # Resets, expected and exact
    realised: int = 0  # resets that happened
    last_reset: int = 0  # episode of the last reset that happened, 0 if none did
    seconds: float = 0.0  # wall time of learning, without the oracle's
    bound: float = 0.0  # B
    certificate: float = 0.0  # upper bound on Resets at the end that needs no model
    covered: bool = False  # whether that bound was above Resets after every episode
    error: str | None = None


class Interrupted(Exception):
    """The trial was stopped on request; nothing of it is kept."""


@dataclass(frozen=True, eq=False)
class Ground:
    """An instance with what its trials share."""

    mdp: FiniteMDP
    problem: FiniteProblem
    value: Floats  # [S] V*, nan where no reset-free policy exists
    bound: float  # B


@cache
def ground(on: Instance) -> Ground:
    """Make an instance, once in a process, with its V* and the least B of its multipliers.

    >>> round(ground(Instance("grid-v0")).bound, 4)
    38.8665
    """
    mdp = on.make()
    bound = dual_class(mdp).detail.get("B")
    if bound is None:
        raise NotCertifiable(f"The instance '{on}' has no bound on its multipliers that the oracle can compute.")
    return Ground(mdp, mdp.problem(), solve(mdp, starts=[]).value, float(bound))


def run_trial(trial: MethodTrial, limit: float = float("inf"), stop: Callable[[], bool] = lambda: False) -> Measured:
    """Play a trial; an exception becomes part of the outcome.

    limit: seconds of wall time, checked between episodes.  stop: polled; if it returns true, raises `Interrupted`.
    """
    tally = _Tally()
    try:
        status = _play(trial, tally, limit, stop)
    except (Interrupted, KeyboardInterrupt):
        raise
    except Exception as error:  # a method that fails is a result, and must not end the comparison
        return tally.outcome("failed", one_line(error))
    return tally.outcome(status, None)


class _Tally:
    """Sums over the episodes so far: a trial keeps no rounds."""

    def __init__(self) -> None:
        self.played = self.last_reset = 0
        self.regret = self.resets = self.seconds = self.bound = 0.0
        self.before: list[float] = []  # Resets just before each realised reset, where the bound is tightest

    def outcome(self, status: Ending, error: str | None) -> Measured:
        upper = resets_upper(np.arange(len(self.before) + 1))
        covered = bool((upper >= [*self.before, self.resets]).all())
        sums = {name: value for name, value in vars(self).items() if name != "before"}
        about: dict[str, Any] = {"realised": len(self.before), "certificate": float(upper[-1]), "covered": covered}
        return Measured(status, error=error, **about, **sums)


def _play(trial: MethodTrial, tally: _Tally, limit: float, stop: Callable[[], bool]) -> Ending:
    here, players = ground(instance(trial.problem, **trial.options)), trial.players
    tally.bound = here.bound
    setting = Setting(here.bound, players.width, players.pooled, here.problem)
    primal, dual, feedback = methods()[players.method].build(setting)
    clock, value, evaluator = time.perf_counter, here.value, Evaluator(here.mdp)
    spent = 0.0  # by the oracle, which does not count for the method

    def oracle(policy: Any, s1: Any) -> tuple[float, float]:
        nonlocal spent
        then = clock()
        exact = evaluator(policy, s1)
        spent += clock() - then
        return exact

    began = clock()
    due = began + LOOK
    game = begin(here.problem, primal, dual, episodes=trial.episodes, seed=trial.seed)
    rounds = play(here.problem, primal, dual, game, episodes=trial.episodes, feedback=feedback, oracle=oracle)
    for this in rounds:
        assert this.exact is not None
        v_r, v_c = this.exact
        best = float(value[this.s1])
        if math.isnan(best):
            raise AssumptionViolated(
                f"Episode {this.k} starts in state {this.s1}, from which no reset-free policy exists.",
                assumption="feasibility",
                witness=this.s1,
            )
        if not math.isfinite(v_r + v_c):
            raise InvalidInput(f"The policy of episode {this.k} must have values. Got {v_r} and {v_c} instead.")
        if this.episode.reset:
            tally.before.append(tally.resets)
            tally.last_reset = this.k
        tally.regret += best - v_r
        tally.resets += v_c
        tally.played = this.k
        now = clock()
        tally.seconds = now - began - spent
        if now >= due:
            due = now + LOOK
            if stop():
                raise Interrupted
            if now - began > limit and this.k < trial.episodes:
                return "stopped"
    return "done"
