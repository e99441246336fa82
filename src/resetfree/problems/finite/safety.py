"""Whether every start admits a reset-free policy, how each start is reached, and the repair of a problem that fails.

Legend: I the states in which an episode can start under some policy; Z_1 the states from which a reset can be avoided
for certain; W the largest set of starts from which an episode can avoid resets for certain and end in W again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools
from resetfree.core.errors import AssumptionViolated
from resetfree.problems.finite.findings import Finding
from resetfree.problems.finite.mdp import FiniteMDP, check_model
from resetfree.problems.finite.reachability import episode_ends
from resetfree.problems.finite.safe_sets import safe_sets

START, RESTART, UNREACHED = -1, -2, -3


@dataclass(frozen=True, eq=False)
class ReachableStarts:
    """The states in which an episode can start under some policy, and how each is reached."""

    mdp: FiniteMDP = field(repr=False)
    states: Bools  # [S] I
    origin: NDArray[np.int64]  # [S] the start whose episode can end here; or START, RESTART, UNREACHED

    def path(self, state: int) -> list[int]:
        """Starts of consecutive episodes that lead to `state`, from a given start or restart to `state` itself."""
        back = [state]
        while self.origin[back[-1]] >= 0:
            back.append(int(self.origin[back[-1]]))
        return back[::-1]

    def explain(self, state: int) -> str:
        """How `state` becomes a start, in words."""
        if self.origin[state] == UNREACHED:
            return "no behaviour starts an episode there"
        names = [self.mdp.state_names[s] for s in self.path(state)]
        given = "a start" if self.origin[self.path(state)[0]] == START else "a restart"
        if len(names) == 1:
            return f"it is {given}"
        shown = names if len(names) <= 6 else [*names[:3], "...", *names[-2:]]
        n = len(names) - 1
        return f"{n} episode{'' if n == 1 else 's'} after {given}, along {' -> '.join(shown)}"


def reachable_starts(mdp: FiniteMDP) -> ReachableStarts:
    """I: starts and restarts, and every next start of an episode from I that ends without a reset, under any actions.

    With contexts, a next start takes any context that the chain allows next; restarts count in every context that the
    chain can ever choose. A next start may be a reset state of its new context: it is kept, and is infeasible.

    >>> import resetfree as rf
    >>> found = reachable_starts(rf.make("grid-v0"))
    >>> int(found.states.sum()), found.explain(4)
    (10, '1 episode after a start, along 0,0 -> 1,0')
    """
    origin = np.full(mdp.n_states, UNREACHED, dtype=np.int64)
    origin[_restarts(mdp)] = RESTART
    origin[mdp.start > 0] = START
    fresh = np.flatnonzero((origin != UNREACHED) & ~mdp.reset)
    while len(fresh):
        label = episode_ends(mdp.model, fresh, mdp.transition.stationary)
        ends = np.flatnonzero(label >= 0)
        starts, owners = _next_starts(mdp, ends, label[ends])
        new = origin[starts] == UNREACHED
        starts, first = np.unique(starts[new], return_index=True)
        origin[starts] = owners[new][first]
        fresh = starts[~mdp.reset[starts]]
    return ReachableStarts(mdp, origin != UNREACHED, origin)


def _restarts(mdp: FiniteMDP) -> Bools:
    """[S] the possible states after a reset: in every context that the chain can reach after the first episode."""
    rows = mdp.restart > 0
    if mdp.contexts is None:
        return np.asarray(rows[0])
    possible = mdp.contexts > 0
    reached = possible[(mdp.start > 0).reshape(len(possible), -1).any(axis=1)].any(axis=0)
    for _ in range(len(possible)):
        reached = reached | possible[reached].any(axis=0)
    return np.asarray(rows & reached[:, None]).ravel()


def _next_starts(
    mdp: FiniteMDP, ends: NDArray[np.int64], labels: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The starts that can follow episodes that end in `ends`, and the label of each."""
    if mdp.contexts is None:
        return ends, labels
    n_base = mdp.n_states // len(mdp.contexts)
    which, context = np.nonzero(mdp.contexts[ends // n_base] > 0)
    return context * n_base + ends[which] % n_base, labels[which]


def feasibility(mdp: FiniteMDP) -> Finding:
    """Whether every start that is reachable under some policy admits a reset-free policy: I within Z_1.

    Paper: reset-free feasibility (assumption).

    >>> import resetfree as rf
    >>> feasibility(rf.make("grid-v0")).holds
    True
    """
    found = reachable_starts(mdp)
    bad = found.states & ~safe_sets(mdp).states(1)
    detail = {"reachable_starts": int(found.states.sum()), "infeasible_starts": int(bad.sum())}
    if not bad.any():
        sentence = f"From every reachable start ({detail['reachable_starts']}) some policy is never reset."
        return Finding("feasibility", True, sentence, None, detail)
    depth = [
        (len(found.path(int(s))), int(s)) for s in np.flatnonzero(bad)[:1000]
    ]  # the shortest path is the clearest witness
    witness = min(depth)[1]
    where = f"state {mdp.state_names[witness]} (index {witness})"
    what = (
        f"S{where[1:]} is a reset state" if mdp.reset[witness] else f"From {where} no policy avoids resets for certain"
    )
    sentence = (
        f"{what}, and an episode can start there: {found.explain(witness)}. "
        f"Starts that fail: {detail['infeasible_starts']} of {detail['reachable_starts']}."
    )
    return Finding("feasibility", False, sentence, witness, {**detail, "path": found.path(witness)})


def largest_closed_set(mdp: FiniteMDP) -> Bools:
    """[S] W: greatest fixpoint of X -> {s in X: from s, resets can be avoided and the next start lies in X}."""
    within = ~mdp.reset
    while True:
        if mdp.n_transitions == 0:  # an episode ends where it starts, and no reset state can be entered
            smaller = within & mdp.ends_within(within)
        else:
            smaller = within & safe_sets(mdp, last=~mdp.end_reset & mdp.ends_within(within)).states(1)
        if np.array_equal(smaller, within):
            return within
        within = smaller


def close(mdp: FiniteMDP) -> FiniteMDP:
    """The problem in which ending an episode outside W is a reset, so that every start admits a reset-free policy.

    This is the paper's own remedy: "if the agent is at a state where no such reset-free policy exists, reset should
    happen". Starts and restarts are conditioned on W. A feasible problem is returned unchanged.
    """
    check_model(mdp, "Closing")
    if feasibility(mdp).holds:
        return mdp
    within = largest_closed_set(mdp)
    stuck = ~mdp.reset & ~mdp.ends_within(within)
    start, restart = np.where(within, mdp.start, 0.0), np.where(within.reshape(mdp.restart.shape), mdp.restart, 0.0)
    for what, mass, given in (("start", start[None], mdp.start[None]), ("restart", restart, mdp.restart)):
        empty = ~(mass > 0).any(axis=1)
        if empty.any():
            row = int(np.argmax(empty))
            witness = int(np.argmax(given[row] > 0)) + row * given.shape[1]
            raise AssumptionViolated(
                f"'{mdp.name}' cannot be closed: no {what} state admits a reset-free policy "
                f"(for example state {mdp.state_names[witness]}).",
                assumption="feasibility",
                witness=witness,
            )
    return mdp.replace(
        end_reset=mdp.end_reset | stuck, start=start / start.sum(), restart=restart / restart.sum(axis=1, keepdims=True)
    )


def unsafe_pairs(mdp: FiniteMDP, per_step: bool = False) -> int:
    """The number of pairs that can lead where a reset cannot be avoided: a bound on the resets of support elimination.

    Counts pairs (s, a) if nothing depends on the step, the context or the end of an episode, else triples (h, s, a).

    per_step: triples in any case, for a player that keeps the steps of an episode apart.

    >>> import resetfree as rf
    >>> unsafe_pairs(rf.make("grid-v0")), unsafe_pairs(rf.make("grid-v0"), per_step=True)
    (18, 144)
    """
    changes = not mdp.stationary or mdp.contexts is not None or bool((mdp.last_reset != mdp.reset).any())
    if not (changes or per_step):
        t, within = mdp.transition, largest_closed_set(mdp)
        leaves = np.append(~within[t.indices], False)
        out = np.logical_or.reduceat(leaves, t.indptr[:-1]) & (np.diff(t.indptr) > 0)
        return int((out.reshape(mdp.n_states, mdp.n_actions) & ~mdp.reset[:, None]).sum())
    safe = safe_sets(mdp)
    return int(sum((~safe.actions(h)[~mdp.reset]).sum() for h in range(1, mdp.n_transitions + 1)))
