"""The smallest problems at the edges of the definitions: one step, one action, no danger, no reset state."""

from __future__ import annotations

from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import register
from resetfree.problems.zoo._tables import ANY, table_mdp


@register("edge-first-step-v0", "The first action of the first episode may already cause a reset.")
def first_step() -> FiniteMDP:
    """At home "safe" pays 0 and stays, "risky" pays 1 and resets; three steps."""
    moves = {("home", "safe"): {"home": 1.0}, ("home", "risky"): {"pit": 1.0}}
    return table_mdp(
        "edge-first-step-v0", ("home", "pit"), ("safe", "risky"), moves, {("home", "risky"): 1.0}, horizon=3
    )


@register("edge-one-step-v0", "An episode is one action.")
def one_step() -> FiniteMDP:
    """At home "safe" pays 1/2 and stays, "risky" pays 1 and resets half of the time."""
    moves = {("home", "safe"): {"home": 1.0}, ("home", "risky"): {"pit": 0.5, "home": 0.5}}
    pay = {("home", "safe"): 0.5, ("home", "risky"): 1.0}
    return table_mdp("edge-one-step-v0", ("home", "pit"), ("safe", "risky"), moves, pay, horizon=1)


@register("edge-one-action-v0", "There is nothing to choose.")
def one_action() -> FiniteMDP:
    """From idle half of the time to busy, which pays 1 and goes back to idle; two steps."""
    moves = {("idle", "wait"): {"idle": 0.5, "busy": 0.5}, ("busy", "wait"): {"idle": 1.0}}
    return table_mdp(
        "edge-one-action-v0", ("idle", "busy", "pit"), ("wait",), moves, {("busy", "wait"): 1.0}, horizon=2
    )


@register("edge-all-safe-v0", "There is a reset state that cannot be reached.")
def all_safe() -> FiniteMDP:
    """Two rooms, "stay" and "go", being in the right one pays 1; four steps."""
    return table_mdp(
        "edge-all-safe-v0", ("left", "right", "pit"), ("stay", "go"), _ROOMS, {("right", ANY): 1.0}, horizon=4
    )


@register("edge-no-reset-v0", "The reset set is empty.")
def no_reset() -> FiniteMDP:
    """Two rooms, "stay" and "go", being in the right one pays 1; four steps."""
    return table_mdp("edge-no-reset-v0", ("left", "right"), ("stay", "go"), _ROOMS, {("right", ANY): 1.0}, horizon=4)


_ROOMS = {
    ("left", "stay"): {"left": 1.0},
    ("left", "go"): {"right": 1.0},
    ("right", "stay"): {"right": 1.0},
    ("right", "go"): {"left": 1.0},
}
