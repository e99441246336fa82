"""What the baselines from reset-free learning share: where steps lead, checks of settings, epsilon-greedy rows."""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput, NotCertifiable
from resetfree.problems.contract import Episode, Problem
from resetfree.problems.finite.transitions import Floats


def successors(episode: Episode) -> NDArray[np.int64]:
    """[m] where the agent stood after each action: after the last one, where the next episode starts."""
    return np.append(episode.states[1 : len(episode.actions)], episode.next_start).astype(np.int64)


def restarts_are_told(problem: Problem, name: str) -> None:
    """Refuse problems in which an episode that is reset does not say where the next one starts."""
    if problem.persistent:
        raise NotCertifiable(
            f"The player '{name}' must see where a reset puts the agent. Got '{problem.name}', in which somebody does "
            "that later, instead."
        )


def check(name: str, **settings: tuple[float, float, float]) -> None:
    """Each setting as (value, least, largest)."""
    for what, (value, least, largest) in settings.items():
        if not (isfinite(value) and least <= value <= largest):
            raise InvalidInput(
                f"The '{what}' of {name} must be a number from {least:g} to {largest:g}. Got {value} instead."
            )


def epsilon_greedy(q: Floats, epsilon: float) -> Floats:
    """Rows over the last axis: uniform with probability epsilon, else uniform over the maximisers."""
    best = q == q.max(axis=-1, keepdims=True)
    return np.asarray((1.0 - epsilon) * best / best.sum(axis=-1, keepdims=True) + epsilon / q.shape[-1])
