"""The smallest problems at the edges of the definitions: one step, one action, no danger, no reset state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import register
from resetfree.problems.zoo._tables import ANY, rewards, transitions


@register("edge-first-step-v0", "The first action of the first episode may already cause a reset.")
def first_step() -> FiniteMDP:
    """At home "safe" pays 0 and stays, "risky" pays 1 and resets; three steps."""
    moves = {("home", "safe"): {"home": 1.0}, ("home", "risky"): {"pit": 1.0}}
    return _edge("first-step", ("home", "pit"), ("safe", "risky"), moves, {("home", "risky"): 1.0}, horizon=3)


@register("edge-one-step-v0", "An episode is one action.")
def one_step() -> FiniteMDP:
    """At home "safe" pays 1/2 and stays, "risky" pays 1 and resets half of the time."""
    moves = {("home", "safe"): {"home": 1.0}, ("home", "risky"): {"pit": 0.5, "home": 0.5}}
    pay = {("home", "safe"): 0.5, ("home", "risky"): 1.0}
    return _edge("one-step", ("home", "pit"), ("safe", "risky"), moves, pay, horizon=1)


@register("edge-one-action-v0", "There is nothing to choose.")
def one_action() -> FiniteMDP:
    """From idle half of the time to busy, which pays 1 and goes back to idle; two steps."""
    moves = {("idle", "wait"): {"idle": 0.5, "busy": 0.5}, ("busy", "wait"): {"idle": 1.0}}
    return _edge("one-action", ("idle", "busy", "pit"), ("wait",), moves, {("busy", "wait"): 1.0}, horizon=2)


@register("edge-all-safe-v0", "There is a reset state that cannot be reached.")
def all_safe() -> FiniteMDP:
    """Two rooms, "stay" and "go", being in the right one pays 1; four steps."""
    return _edge("all-safe", ("left", "right", "pit"), ("stay", "go"), _ROOMS, {("right", ANY): 1.0}, horizon=4)


@register("edge-no-reset-v0", "The reset set is empty.")
def no_reset() -> FiniteMDP:
    """Two rooms, "stay" and "go", being in the right one pays 1; four steps."""
    return _edge("no-reset", ("left", "right"), ("stay", "go"), _ROOMS, {("right", ANY): 1.0}, horizon=4)


_ROOMS = {
    ("left", "stay"): {"left": 1.0},
    ("left", "go"): {"right": 1.0},
    ("right", "stay"): {"right": 1.0},
    ("right", "go"): {"left": 1.0},
}


def _edge(
    kind: str,
    states: Sequence[str],
    actions: Sequence[str],
    moves: Mapping[tuple[str, str], Mapping[str, float]],
    pay: Mapping[tuple[str, str], float],
    horizon: int,
) -> FiniteMDP:
    """The problem of these tables; start and restart are the first state."""
    return FiniteMDP(
        transitions(states, actions, moves),
        rewards(states, actions, pay),
        reset=[name == "pit" for name in states],
        horizon=horizon,
        name=f"edge-{kind}-v0",
        state_names=states,
        action_names=actions,
    )
