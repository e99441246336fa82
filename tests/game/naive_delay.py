"""The game with delay in the plainest form: copies of all states are kept, and every plan is made when it is needed."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

import resetfree as rf
from resetfree.game.loop import FEEDBACK

Rule = Callable[[int, int, int], int]  # round, newest reset before it, what the round before rests on -> based_on


def play_naively(
    problem: rf.Problem, primal: Any, dual: Any, rule: Rule, *, episodes: int, seed: int, feedback: str = "optimistic"
) -> list[rf.Round]:
    """All rounds; round k rests on rule(k, newest reset, based_on of the round before)."""
    states = [(primal.init(problem, episodes, seed), dual.init(problem, episodes, seed))]
    rounds: list[rf.Round] = []
    for k in range(1, episodes + 1):
        s1 = rounds[-1].episode.next_start if rounds else problem.first_start(_reset_number(seed, 1))
        if s1 is None:
            s1 = problem.perform_reset(_reset_number(seed, k), "reset")
        falls = [one.k for one in rounds if one.episode.reset]
        j = rule(k, max(falls, default=0), rounds[-1].based_on if rounds else 0)
        start = rounds[j - 1].episode.next_start if j else (rounds[0].s1 if rounds else s1)
        if start is None:
            start = [one.s1 for one in rounds[:j] if one.k == 1 or one.k - 1 in falls][-1]
        mine, other = deepcopy(states[j])
        lam = dual.multiplier(other, start, lambda y, mine=mine, start=start: primal.plan(mine, start, y))
        plan = primal.plan(mine, start, lam)
        if not hasattr(plan.policy, "act"):
            plan = plan._replace(policy=np.array(plan.policy))
        episode = problem.rollout(plan.policy, s1, np.random.default_rng([seed, k]).random(problem.n_uniforms))
        cost = FEEDBACK[feedback](plan, episode, None)
        this = rf.Round(k, s1, lam, plan, episode=episode, cost_signal=cost, exact=None, based_on=j)
        rounds.append(this)
        mine, other = deepcopy(states[-1])
        new = dual.update(other, this)
        states.append((primal.update(mine, this), new))
    return rounds


def _reset_number(seed: int, k: int) -> float:
    return float(np.random.default_rng([seed, k, 1]).random())
