"""`doors-v0`: behind the left door the pay is good, nothing looks dangerous, and the reset is already certain."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from resetfree.core.settings import PositiveInt, Range, expect
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import LAYER, Size, register
from resetfree.problems.zoo._tables import ANY, LAYERS, table_mdp, transitions

ACTIONS = ("left", "right")


@register(
    "doors-v0",
    "A door whose reset comes many steps later: looking one step ahead does not help.",
    lambda length, horizon: Size(2 * (length + 3) * horizon, LAYER * horizon),
)
def doors(length: PositiveInt = 3, horizon: Annotated[int, Range(1, LAYERS)] = 10) -> FiniteMDP:
    """At the fork "left" pays 0 and enters a chamber that pays 1 for `length` = L steps and then resets for certain;
    "right" pays 1/2 and leads to a loop that pays 1/2 for ever, and "left" in the loop leads back to the fork.

    The door opens at steps h <= H - L only (after that "left" pays 0 and stays), so an agent that enters is reset in
    the same episode, and no episode ends inside the chamber: every start admits a reset-free policy.
    """
    what = "option 'horizon' of problem 'doors-v0'"
    expect(horizon > length, what, f"be larger than 'length' ({length})", horizon)
    chamber = [f"c{i}" for i in range(1, length + 1)]
    states = ("fork", "loop", *chamber, "pit")
    inside = {(c, ANY): {after: 1.0} for c, after in pairwise([*chamber, "pit"])}

    def layer(door: str) -> object:
        moves = {
            ("fork", "left"): {door: 1.0},
            ("fork", "right"): {"loop": 1.0},
            ("loop", "left"): {"fork": 1.0},
            ("loop", "right"): {"loop": 1.0},
        }
        return transitions(states, ACTIONS, moves | inside)

    pay = {("fork", "right"): 0.5, ("loop", ANY): 0.5} | {(c, ANY): 1.0 for c in chamber}
    layers = [layer("c1")] * (horizon - length) + [layer("fork")] * length
    return table_mdp("doors-v0", states, ACTIONS, layers, pay, horizon=horizon)
