"""The paper's assumptions, each a check that returns a witness when it fails, and the repair of what fails.

Legend: W the largest set of starts from which an episode can avoid resets for certain and end in W again.
"""

from __future__ import annotations

import numpy as np

from resetfree.errors import AssumptionViolated
from resetfree.finite import FiniteMDP
from resetfree.oracle.dynamic_programming import safe_sets
from resetfree.transitions import Bools


def ends_within(mdp: FiniteMDP, starts: Bools) -> Bools:
    """[S] states in which an episode may end so that the next start lies in `starts`, whatever context comes next."""
    if mdp.contexts is None:
        return starts
    possible = mdp.contexts > 0  # [m, m]
    by_context = starts.reshape(len(possible), -1)
    return np.stack([by_context[row].all(axis=0) for row in possible]).ravel()


def largest_closed_set(mdp: FiniteMDP) -> Bools:
    """[S] W: greatest fixpoint of X -> {s in X: from s, resets can be avoided and the next start lies in X}."""
    within = ~mdp.reset
    while True:
        smaller = within & safe_sets(mdp, last=~mdp.end_reset & ends_within(mdp, within)).states(1)
        if np.array_equal(smaller, within):
            return within
        within = smaller


def close(mdp: FiniteMDP) -> FiniteMDP:
    """The problem in which ending an episode outside W is a reset, so that every start admits a reset-free policy.

    This is the paper's own remedy: "if the agent is at a state where no such reset-free policy exists, reset should
    happen". Starts and restarts are conditioned on W. A problem that needs no repair comes back as it is.
    """
    within = largest_closed_set(mdp)
    stuck = ~mdp.reset & ~ends_within(mdp, within)
    start, restart = np.where(within, mdp.start, 0.0), np.where(within.reshape(mdp.restart.shape), mdp.restart, 0.0)
    for what, mass, given in (("start", start[None], mdp.start[None]), ("restart", restart, mdp.restart)):
        empty = ~(mass > 0).any(axis=1)
        if empty.any():
            row = int(np.argmax(empty))
            witness = int(np.argmax(given[row] > 0)) + row * given.shape[1]
            raise AssumptionViolated(
                f"'{mdp.name}' cannot be closed: no {what} state admits a reset-free policy "
                f"(for example state {mdp.state_names[witness]}).",
                assumption="feasibility", witness=witness,
            )  # fmt: skip
    same = not (stuck & ~mdp.end_reset).any() and (start == mdp.start).all() and (restart == mdp.restart).all()
    if same:
        return mdp
    return mdp.replace(
        end_reset=mdp.end_reset | stuck, start=start / start.sum(), restart=restart / restart.sum(axis=1, keepdims=True)
    )
