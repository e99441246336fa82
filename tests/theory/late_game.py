"""The game with delay as slowly and plainly as it can be written: copies of all states are kept."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np

import resetfree as rf

Rule = Callable[[int, int], int]  # k, newest reset before it -> based_on


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
) -> Iterator[rf.Round]:
    """Play with plans as old as the rule says."""
    rng = np.random.default_rng(seed)
    primals, duals = [primal.init(problem, episodes, seed)], [dual.init(problem, episodes, seed)]
    s1, fell = problem.first_start(rng.random()), 0
    lams: list[float] = []
    plans: list[rf.Plan] = []
    start = s1
    for k in range(1, episodes + 1):
        lams.append(dual.multiplier(deepcopy(duals[-1]), start, lambda y, at=start: primal.plan(primals[-1], at, y)))
        plans.append(deepcopy(primal.plan(deepcopy(primals[-1]), start, lams[-1])))
        j = rule(k, fell)
        plan, lam = plans[j], lams[j]
        episode = problem.rollout(plan.policy, s1, rng.random(problem.n_uniforms))
        cost = float(episode.reset)
        this = rf.Round(k, s1, lam, plan, episode=episode, cost_signal=cost, exact=None, based_on=j)
        yield this
        duals.append(dual.update(deepcopy(duals[-1]), this))
        primals.append(primal.update(deepcopy(primals[-1]), this))
        s1 = start = episode.next_start
        fell = k if episode.reset else fell
