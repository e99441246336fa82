"""`coin-chain-v0`: a reset takes m heads in a row, so the multiplier must be 2^m."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import numpy as np

from resetfree.core.settings import Range, expect
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import LAYER, Size, register
from resetfree.problems.zoo._tables import ANY, LAYERS, rewards, table_mdp, transitions

ACTIONS = ("safe", "risky")


@register(
    "coin-chain-v0",
    "The smallest risk is 2^-m, so the smallest optimal multiplier is 2^m.",
    lambda m, horizon: Size(2 * (m + 1) * max(horizon, m), (32 * (m + 1) + LAYER) * max(horizon, m)),
)
def coin_chain(m: Annotated[int, Range(1, 1000)] = 6, horizon: Annotated[int, Range(0, LAYERS)] = 0) -> FiniteMDP:
    """At the base "safe" pays 0 and stays; "risky" pays 1 and sets off along a chain towards the pit.

    Each step of the chain, the first included, goes on with probability 1/2 and else falls back to the base. The m-th
    success is the pit. "risky" is open at steps h <= H - m + 1 only (after that it pays 0 and stays), so every attempt
    is decided within its episode and each episode ends at the base or in the pit.

    horizon: H; 0 means H = m, which leaves room for one attempt.
    """
    # 2^1000 is still a float, and so is 2^-1000.
    what = "option 'horizon' of problem 'coin-chain-v0'"
    expect(horizon == 0 or horizon >= m, what, f"be 0 or at least 'm' ({m})", horizon)
    steps = horizon or m
    chain = [f"c{i}" for i in range(1, m)]
    states = ("base", *chain, "pit")
    flips = {(c, ANY): {after: 0.5, "base": 0.5} for c, after in pairwise([*chain, "pit"])}
    shut = {("base", ANY): {"base": 1.0}} | flips
    opened = {("base", "safe"): {"base": 1.0}, ("base", "risky"): {states[1]: 0.5, "base": 0.5}} | flips
    n_open = steps - m + 1
    reward = np.zeros((steps, len(states), len(ACTIONS)))
    reward[:n_open] = rewards(states, ACTIONS, {("base", "risky"): 1.0})
    layers = [transitions(states, ACTIONS, opened)] * n_open + [transitions(states, ACTIONS, shut)] * (m - 1)
    return table_mdp("coin-chain-v0", states, ACTIONS, layers, reward, horizon=steps)
