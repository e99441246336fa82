"""Whether every start admits a reset-free policy, how each start is reached, and the repair of a problem that fails.

Legend: I the states in which an episode can start under some policy; Z_1 the states from which a reset can be avoided
for certain; W the largest set of starts from which an episode can avoid resets for certain and end in W again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from resetfree.core import AssumptionViolated, Bools, Ints, jit
from resetfree.core.certificate import plain
from resetfree.problems.finite import backward
from resetfree.problems.finite.backward import Model
from resetfree.problems.finite.mdp import FiniteMDP, check_model


@dataclass(frozen=True)
class Finding:
    """The verdict on one assumption, in one sentence that names its witness."""

    assumption: str  # "feasibility", "linearity" or "dual class"
    holds: bool | None  # None: not checked, or not decided; the sentence says why
    sentence: str
    witness: int | None = None  # the state at which it fails
    detail: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; what is not finite becomes None."""
        names = ("assumption", "holds", "sentence", "witness", "detail")
        result: dict[str, Any] = plain({name: getattr(self, name) for name in names})
        return result

    def __str__(self) -> str:
        verdict = {True: "holds", False: "FAILS", None: "not checked"}[self.holds]
        return f"{self.assumption}: {verdict}. {self.sentence}"


@dataclass(frozen=True)
class AssumptionReport:
    """The findings on all assumptions; true if feasibility holds and no assumption fails."""

    problem: str
    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        feasible = any(finding.assumption == "feasibility" and finding.holds for finding in self.findings)
        return feasible and all(finding.holds is not False for finding in self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __getitem__(self, assumption: str) -> Finding:
        """The finding on one assumption, by name."""
        found = {finding.assumption: finding for finding in self.findings}
        return found[assumption]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"problem": self.problem, "holds": bool(self), "findings": [f.to_dict() for f in self.findings]}

    def __str__(self) -> str:
        return "\n".join([f"Assumptions of '{self.problem}'", *(f"  {finding}" for finding in self.findings)])


@jit
def episode_ends(
    m: Model,
    starts: Ints,  # [n] states outside the reset set
    stationary: bool,  # whether all steps have one layer: the labels may then stop changing early
) -> Ints:
    """[S] for each state in which an episode can end without a reset: a start it can end from, else -1.

    A path ends where it arrives in a reset state; at the last arrival the end-of-episode resets count too.
    """
    n_states, n_actions = m.reward.shape[1:]
    label = np.full(n_states, -1, dtype=np.int64)
    after = np.full(n_states, -1, dtype=np.int64)
    for i in range(len(starts)):
        label[starts[i]] = starts[i]
    h = 0
    while h < m.n_transitions:
        is_reset = m.last_reset if h == m.n_transitions - 1 else m.reset
        after[:] = -1
        for s in range(n_states):
            if label[s] < 0:
                continue
            row = m.row_of_step[h] + s * n_actions
            for j in range(m.indptr[row], m.indptr[row + n_actions]):
                t = m.indices[j]
                if after[t] < 0 and not is_reset[t]:
                    after[t] = label[s]
        same = True
        for s in range(n_states):
            same = same and label[s] == after[s]
            label[s] = after[s]
        if stationary and same and h < m.n_transitions - 2:
            h = m.n_transitions - 1  # nothing changes until the last arrival, which has its own reset set
        else:
            h += 1
    return label


@dataclass(frozen=True, eq=False)
class SafeSets:
    """Zero-cost states and actions of every step, from the support alone.

    Paper: restricted action space Abar_s.
    """

    layers: Bools  # [n, S, A] the distinct action sets
    layer_of_step: Ints  # [H] the index of the set at each step
    last: Bools  # [S] Z_{H+1}

    def actions(self, h: int) -> Bools:
        """Abar_h as Boolean [S, A], h = 1..H."""
        return np.asarray(self.layers[self.layer_of_step[h - 1]])

    def states(self, h: int) -> Bools:
        """Z_h as Boolean [S], h = 1..H+1."""
        return self.last if h == len(self.layer_of_step) + 1 else np.asarray(self.actions(h).any(axis=1))


def safe_sets(mdp: FiniteMDP, last: Bools | None = None) -> SafeSets:
    """Z_h = {s not reset: some a has supp P_h(.|s,a) within Z_{h+1}}, backwards from Z_{H+1} = `last`.

    last: Boolean [S], states in which an episode may end (default: all whose entry then is not a reset).

    Under stationary dynamics the loop stops once the sets stop changing.
    """
    t = mdp.transition
    end = np.asarray(~mdp.last_reset if last is None else last & ~mdp.reset)
    if mdp.n_transitions == 0:  # no state is ever entered
        end = ~mdp.reset
    after = end
    layers: list[Bools] = []
    layer_of_step = np.zeros(mdp.horizon, dtype=np.int64)
    for h in range(mdp.horizon - 1, -1, -1):
        allowed = np.empty((mdp.n_states, mdp.n_actions), dtype=np.bool_)
        if h >= mdp.n_transitions:  # the literal boundary's last action moves nothing
            safe = end
            allowed[:] = safe[:, None]
        else:
            safe = np.empty(mdp.n_states, dtype=np.bool_)
            backward.safe_actions(t.indptr, t.indices, int(mdp.model.row_of_step[h]), mdp.reset, after, allowed, safe)
        layer_of_step[h] = len(layers)
        layers.append(allowed)
        if t.stationary and h < mdp.n_transitions and np.array_equal(safe, after):
            layer_of_step[:h] = len(layers) - 1
            break
        after = safe
    return SafeSets(np.stack(layers), layer_of_step, end)


START, RESTART, UNREACHED = -1, -2, -3


@dataclass(frozen=True, eq=False)
class ReachableStarts:
    """The states in which an episode can start under some policy, and how each is reached."""

    mdp: FiniteMDP = field(repr=False)
    states: Bools  # [S] I
    origin: Ints  # [S] the start whose episode can end here; or START, RESTART, UNREACHED

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


def _next_starts(mdp: FiniteMDP, ends: Ints, labels: Ints) -> tuple[Ints, Ints]:
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
