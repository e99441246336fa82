"""The game with delay as slowly and plainly as it can be written: copies of all states are kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

import resetfree as rf
from resetfree.game.contract import Plan, Round
from resetfree.problems.finite.mdp import model_behind
from resetfree.runs.columns import COLUMNS, columns_of

Rule = Callable[[int, int], int]  # k, newest reset before it -> based_on


class Late(NamedTuple):
    """A round, the round that its plan rests on, and the players' states before it."""

    round: Round
    based_on: int
    lam: list[float]  # by j, of the plan of S_j
    plans: list[Plan]


def waits(delay: int) -> Rule:
    """Plans are so many rounds old, but after a reset the next one rests on it."""
    return lambda k, fell: max(k - 1 - delay, fell, 0)


def waits_at_random(rng: np.random.Generator, most: int) -> Rule:
    """The same with delays that change."""
    return lambda k, fell: max(int(k - 1 - rng.integers(most + 1)), fell, 0)


def never_waits(delay: int) -> Rule:
    """Plans are so many rounds old, whatever happened."""
    return lambda k, fell: max(k - 1 - delay, 0)


def play(
    problem: Any,
    primal: Any,
    dual: Any,
    *,
    episodes: int,
    seed: int,
    rule: Rule,
    mask: Callable[[Plan, Any], Plan] = lambda plan, newest: plan,
    feedback: str = "realised",
) -> Iterator[Late]:
    """Play; `mask` changes a plan by what the newest primal state knows."""
    rng = np.random.default_rng(seed)
    primals, duals = [primal.init(problem, episodes, seed)], [dual.init(problem, episodes, seed)]
    s1, fell = problem.first_start(rng.random()), 0
    lams: list[float] = []
    plans: list[Plan] = []
    start = s1
    for k in range(1, episodes + 1):
        lams.append(dual.multiplier(deepcopy(duals[-1]), start, lambda y, at=start: primal.plan(primals[-1], at, y)))
        plans.append(deepcopy(primal.plan(deepcopy(primals[-1]), start, lams[-1])))
        j = rule(k, fell)
        plan, lam = mask(plans[j], primals[-1]), lams[j]
        episode = problem.rollout(plan.policy, s1, rng.random(problem.n_uniforms))
        costs = {
            "optimistic": lambda plan=plan: plan.v_c,
            "realised": lambda episode=episode: float(episode.reset),
            "exact": lambda plan=plan, s1=s1: float(rf.evaluate(model_behind(problem), plan.policy).v_c[s1]),
        }
        signal = costs[feedback]()
        this = Round(k, s1, lam, plan, episode=episode, cost_signal=signal, exact=None)
        yield Late(this, j, lams, plans)
        duals.append(dual.update(deepcopy(duals[-1]), this))
        primals.append(primal.update(deepcopy(primals[-1]), this))
        s1 = start = episode.next_start
        fell = k if episode.reset else fell


def late_run(
    mdp: rf.FiniteMDP, primal: Any, dual: Any, rule: Rule, episodes: int = 150, feedback: str = "realised"
) -> rf.Run:
    """A run whose plans were old, as its file would hold it."""
    asked = rf.learn(mdp, primal, dual, episodes=episodes, seed=1, feedback=feedback)
    players = (asked.player_again("primal"), asked.player_again("dual"))
    game = play(asked.problem_again(), *players, episodes=episodes, seed=1, rule=rule, feedback=feedback)
    rows, based_on = [], []
    for late in game:
        values = rf.evaluate(mdp, late.round.plan.policy)
        s1 = late.round.s1
        rows.append(columns_of(late.round._replace(exact=(float(values.v_r[s1]), float(values.v_c[s1])))))
        based_on.append(late.based_on)
    columns = {name: np.array(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    columns["reset"] = columns["reset"].astype(np.bool_)
    return dataclasses.replace(asked, columns={**columns, "based_on": np.array(based_on)}, learned=None)
