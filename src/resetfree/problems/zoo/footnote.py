"""`footnote-v0`: the first start is safe and the restart is not: one mistake costs a reset in every later episode."""

from __future__ import annotations

from typing import Annotated

from resetfree.core.settings import Range
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import register
from resetfree.problems.zoo._tables import ANY, table_mdp

STATES = ("home", "bad", "pit")
HORIZON = 4
MOST = 1000  # actions


@register(
    "footnote-v0",
    "Fails Assumption 1: a reset puts the agent where every action leads to the next reset.",
    lambda n_actions: 1000 * n_actions,
)
def footnote(n_actions: Annotated[int, Range(1, MOST)] = 4) -> FiniteMDP:
    """One of `n_actions` actions stays at home and pays 1; each of the others falls into the pit, and from there on
    the agent starts in `bad`, where everything falls into the pit.

    Paper: an assumption on only the first start is not enough (footnote).

    A learner whose first action is uniform has at least (1 - 1/n_actions) K expected resets in K episodes.
    """
    actions = ("stay", *(f"leap {i}" for i in range(1, n_actions)))
    moves = {("home", "stay"): {"home": 1.0}, ("bad", ANY): {"pit": 1.0}}
    moves |= {("home", leap): {"pit": 1.0} for leap in actions[1:]}
    restart = STATES.index("bad")
    return table_mdp("footnote-v0", STATES, actions, moves, {("home", "stay"): 1.0}, horizon=HORIZON, restart=restart)
