"""The limit over one problem whose actions are named anew: the learner knows everything but the names.

Legend: a node is a state, or a step and a state where the dynamics change with the step; a kind is a set of successors
that some actions of a node share; a position is a node and, by node and kind, how many names were found to be of it;
V(position) the resets still to come.

The class: the problem with any permutation of the actions in each node; what is safe, and Assumption 1, are the same in
all of them. Each name that was tried in a node turns out to be an action; names not tried yet are alike. So the learner
chooses a kind that it has a name for, or a new name. Then the adversary chooses which of the actions without a name the
new name is, and chance a successor of positive probability; after a reset it chooses a restart:

  V = min over kinds with a name and "new" of max over actions (if new) and successors of (1 if it is a reset) + V',

the least solution, which is that of long enough games. Along some path, on some problem of the class, every
deterministic learner is reset V times: the adversary's answers are those of every permutation that agrees with them.
Here the learner is shown which action a name turned out to be. One that is not knows less, so V is a limit for it
too; where every action has one successor it can tell kinds apart, and V is the value of the game. V is 0 where kinds
with a name suffice to go on for ever; where a search ends early, the positions that it leaves count 0, which makes V
smaller and leaves it a limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from resetfree.problems.finite.mdp import FiniteMDP

POSITIONS, ENTRIES = 4_000, 400_000  # that are searched at most: about a second
Found = tuple[tuple[int, ...], ...]  # by node, by kind: names found
Position = tuple[int, Found]


class PermutationBound(NamedTuple):
    """A number of resets that some problem of the class costs every learner, and whether no larger one does."""

    resets: int
    exact: bool


@dataclass(frozen=True)
class Game:
    """The graph of the problem, with actions of the same successors taken together."""

    kinds: tuple[tuple[frozenset[int], ...], ...]  # by node: the sets of successors, -1 for a reset
    sizes: Found  # by node and kind: how many actions
    starts: tuple[int, ...]
    restarts: tuple[int, ...]

    def first(self) -> list[Position]:
        """Positions before the first action."""
        nothing = tuple((0,) * len(sizes) for sizes in self.sizes)
        return [(node, nothing) for node in self.starts]

    def stays(self, position: Position) -> bool:
        """Whether kinds with a name suffice never to be reset."""
        node, found = position
        named = {i: [k for k, n in zip(self.kinds[i], found[i], strict=True) if n] for i in range(len(found))}
        inside = {i for i, kinds in named.items() if kinds}
        while True:
            left = {i for i in inside if any(kind <= inside for kind in named[i])}
            if left == inside:
                return node in inside
            inside = left

    def choices(self, position: Position) -> Iterator[list[tuple[int, Position]]]:
        """What the learner can choose: for each choice all answers, as resets and the next position."""
        node, found = position
        new: list[tuple[int, Position]] = []
        for i, (n, size, kind) in enumerate(zip(found[node], self.sizes[node], self.kinds[node], strict=True)):
            if n:
                yield self._answers(kind, found)
            if n < size:
                names = tuple(m + (i == j) for j, m in enumerate(found[node]))
                new += self._answers(kind, (*found[:node], names, *found[node + 1 :]))
        if new:
            yield new

    def _answers(self, kind: frozenset[int], found: Found) -> list[tuple[int, Position]]:
        falls = [(1, (node, found)) for node in self.restarts] if -1 in kind else []
        return falls + [(0, (node, found)) for node in sorted(kind) if node >= 0]


def permutation_bound(mdp: FiniteMDP) -> PermutationBound | None:
    """V of the worst start, if Assumption 1 holds; None with contexts, or with ends of their own of like steps.

    >>> import resetfree as rf
    >>> permutation_bound(rf.make("thresholds-v0"))
    PermutationBound(resets=1, exact=True)
    >>> permutation_bound(rf.make("grid-v0"))
    PermutationBound(resets=2, exact=False)
    """
    if mdp.contexts is not None or (mdp.transition.stationary and bool((mdp.last_reset != mdp.reset).any())):
        return None
    if mdp.n_transitions == 0 or not mdp.last_reset.any():
        return PermutationBound(0, True)
    return _least(_game(mdp))


def _game(mdp: FiniteMDP) -> Game:
    t, n, last = mdp.transition, mdp.n_states, mdp.n_transitions - 1
    layers = 1 if t.stationary else mdp.n_transitions
    kinds: list[tuple[frozenset[int], ...]] = []
    sizes: list[tuple[int, ...]] = []
    for h in range(layers):
        ends = h == last and not t.stationary
        falls = mdp.last_reset if ends else mdp.reset
        base = 0 if ends or t.stationary else (h + 1) * n  # of the nodes of the next step; an end is the next start
        for s in range(n):
            rows = [] if mdp.reset[s] else [t.row(h, s, a)[0] for a in range(mdp.n_actions)]
            found = [frozenset(-1 if falls[j] else base + int(j) for j in row) for row in rows]
            distinct = sorted(set(found), key=sorted)
            kinds.append(tuple(distinct))
            sizes.append(tuple(found.count(kind) for kind in distinct))
    starts, restarts = ((p > 0).nonzero()[0].tolist() for p in (mdp.start, mdp.restart[0]))
    return Game(tuple(kinds), tuple(sizes), tuple(starts), tuple(restarts))


def _least(game: Game) -> PermutationBound:
    """The least solution, from 0 upwards: finitely many positions, and no value above the actions of the problem."""
    moves: dict[Position, list[list[tuple[int, Position]]]] = {}
    waiting = deque(game.first())
    most = min(POSITIONS, ENTRIES // len(game.kinds))
    while waiting and len(moves) < most:
        position = waiting.popleft()
        if position not in moves:
            moves[position] = [] if game.stays(position) else list(game.choices(position))
            waiting += [after for answers in moves[position] for _, after in answers if after not in moves]
    exact = all(position in moves for position in waiting)
    value = dict.fromkeys(moves, 0)
    changed = True
    while changed:
        changed = False
        for position in reversed(moves):  # later positions first: values flow back
            if moves[position]:
                now = min(max(cost + value.get(after, 0) for cost, after in each) for each in moves[position])
                changed |= now != value[position]
                value[position] = now
    return PermutationBound(max(value[position] for position in game.first()), exact)
