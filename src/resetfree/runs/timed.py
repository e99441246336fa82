"""Timed runs: their rounds, their four columns (`columns.TIMING`), and what their checkpoints hold besides.

A run is timed if its plans may be older than the round before: with a delay in rounds, or by the clock. Its spec says
so under "timing": {"delay": D} or {"rate": HZ, ...}.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput
from resetfree.core.plain_tree import decode, encode
from resetfree.game.contract import Round
from resetfree.game.delayed import Delay, DelayedGame, HeldPlan, Schedule, play_delayed, reset_chance, with_delay
from resetfree.game.loop import Game, play
from resetfree.problems.blueprint import check_start
from resetfree.problems.contract import Problem, State
from resetfree.runs.setup import Setup

SAVED = "timing"  # the name of the plans among the arrays of a checkpoint
STARTS = ("fell", "life", "ahead")  # what is kept of a `DelayedGame` besides the plans


def as_timed(setup: Setup, timing: Mapping[str, Any] | None) -> Setup:
    """The setup of a timed run; itself if `timing` is None."""
    if timing is None:
        return setup
    game = with_delay(setup.game, setup.world.problem, setup.spec["seed"])
    return dataclasses.replace(setup, spec={**setup.spec, "timing": dict(timing)}, game=game)


def rounds_of(
    setup: Setup,
    *,
    problem: Problem | None = None,
    episodes: int | None = None,
    oracle: Callable[[Any, State], tuple[float, float] | None] | None = None,
    schedule: Schedule | None = None,
) -> Iterator[Round]:
    """The rounds of a run that are still to be played.

    problem: where they are played (default: its own).  episodes: up to which round (default: all).
    schedule: of a timed run (default: its delay).
    """
    problem = setup.world.problem if problem is None else problem
    players = (setup.primal, setup.dual)
    episodes, feedback = setup.spec["episodes"] if episodes is None else episodes, setup.spec["feedback"]
    if not isinstance(setup.game, DelayedGame):
        return play(problem, *players, setup.game, episodes=episodes, feedback=feedback, oracle=oracle)
    schedule = Delay(setup.spec["timing"]["delay"]) if schedule is None else schedule
    return play_delayed(
        problem, *players, setup.game, episodes=episodes, schedule=schedule, feedback=feedback, oracle=oracle
    )


def timing_of(game: Game, this: Round) -> tuple[int, int, int, float] | tuple[()]:
    """The values for `columns.TIMING` of a round that was just played in a world that waits; none if not timed."""
    if not isinstance(game, DelayedGame):
        return ()
    return this.based_on, game.plans[this.based_on].digest, 0, math.nan


def saved_plans(game: Game) -> dict[str, NDArray[Any]]:
    """The plans that later rounds may rest on, as an array for the checkpoint; none if not timed."""
    if not isinstance(game, DelayedGame):
        return {}
    plans = [np.frombuffer(held.data, dtype=np.uint8) for held in game.plans.values()]
    tree = {"fell": game.fell, "life": game.life, "ahead": game.ahead, "plans": plans}
    return {SAVED: np.frombuffer(encode(tree), dtype=np.uint8)}


def restore_plans(problem: Problem, game: Game, k: int, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put the plans of a checkpoint of round k back; raises InvalidInput."""
    if not isinstance(game, DelayedGame):
        return
    found = arrays.get(SAVED)
    if found is None or found.dtype != np.uint8:
        raise InvalidInput("The checkpoint has no plans.")
    tree = decode(found.tobytes(), {})
    if not isinstance(tree, dict) or tree.keys() != {*STARTS, "plans"} or not isinstance(tree["plans"], list):
        raise InvalidInput("The checkpoint's plans must be a list, with the newest reset and two starts.")
    if not all(isinstance(data, np.ndarray) and data.dtype == np.uint8 for data in tree["plans"]):
        raise InvalidInput("The checkpoint's plans must be bytes.")
    held = [HeldPlan.read(data.tobytes()) for data in tree["plans"]]
    numbers = [one.based_on for one in held]
    if type(tree["fell"]) is not int or not 0 <= tree["fell"] <= k:
        raise InvalidInput("The checkpoint's newest reset must be one of its rounds.")
    if numbers != sorted(set(numbers)) or any(not 0 <= j <= k for j in numbers):
        raise InvalidInput("The checkpoint's plans must rest on its rounds.")
    if k > 0:
        check_start(problem, tree["life"])
        check_start(problem, tree["ahead"])
    game.fell, game.life, game.ahead = (tree[name] for name in STARTS)
    game.plans = {one.based_on: one for one in held}
    game.rng = reset_chance(game.seed, k + 1)
