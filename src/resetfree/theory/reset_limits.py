"""How many resets no learner can avoid: by the sizes of a problem, and by the names of its actions.

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

**The resets that every learner has on some problem of a size, and the proof that elimination never has more.**
Legend: n states outside the reset set, A actions, T actions per episode that move the agent (H, or H - 1 with the
literal boundary), K episodes. A node is what elimination keeps apart: a state, or a step and a state (h, s) with h <= T
where dynamics, contexts or ends of episodes differ; N is their number, n or n T. A fall is a transition that is a
reset. Assumption 1: every start that some behaviour can bring about (the first one, restarts, ends of episodes without
a reset) admits a policy that is never reset.

The class: all problems with these n, A and T, whatever their reset states, for which Assumption 1 holds; if nodes are
states, stationary ones. The learner may know n, A, T, the class and Assumption 1, and need not earn anything.

**No learner stays below it on every problem.** For every deterministic learner and every K there are a problem of the
class and a path of positive probability on which it is reset at least min(K, N (A - 1)) times; a randomised learner is,
in some problem, with positive probability.
  Proof. In each node all actions but one fall; the one that does not leads from (h, s) to (h + 1, s) and from the last
  step to s + 1, after the last state to 0 (if nodes are states: from s to s + 1). No fall is necessary, so Assumption
  1 holds. Restarts are uniform over the n states. Which action is the one is decided while the learner plays: each
  action that it tries for the first time in a node falls, unless it is the last one of the node. Take the path on which
  restarts are in state 0 until all its nodes have shown A - 1 falls, then in 1, and so on. Each episode meets a node in
  which not all of A - 1 falls were seen, and there an action that falls (new, or known to) or is the last one, so each
  episode is a reset until N (A - 1) were seen. The problems that can be so chosen are finitely many, and for each
  outcome of a randomised learner's own coins one of them does it: so one does it with positive probability.  []

**In expectation.** For every learner, randomised or not, some problem of the class has at least M (A - 1) / 2 expected
resets in K episodes, M the largest number of nodes, at most N, with M (A - 1) (1 + floor((M - 1) / T)) <= K.
  Proof. The same problem with restarts in state 0 only, so that its nodes form a chain 0, 1, .., N - 1, and with the
  action that does not fall drawn uniformly in each node. A learner that has not passed the first M nodes is reset at
  least once in every 1 + floor((M - 1) / T) episodes in a row, since these have at least M steps, each of which falls
  or moves on along the chain. So either it passes them within K episodes, or it is reset M (A - 1) times. In the first
  case it was reset at least as often as it tried new actions in them that fell; given what was seen before, each action
  not tried yet in a node is equally likely to be the one, so these are (A - 1) / 2 in expectation in each node,
  and in the second case they would not have been more. Some draw is at least as bad as the mean.  []

**Elimination stays within it.** A learner that takes only actions which can still be safe, as long as there are some,
is reset at most N (A - 1) times, on every path of every problem for which Assumption 1 holds, whatever its support.
  Proof. Call a node lost once none of its pairs (node, action) is allowed. A start never is, by Assumption 1. In an
  episode with a reset, blame the pair at which the agent first fell or entered a node that was lost before: it was
  allowed, and is never again. So there are as many resets as blamed pairs, and it suffices to name for each node a pair
  that is never blamed, all of them different. A node that is never lost names a pair that stays allowed. Of the nodes
  that are lost after some episode: if it was no reset, each names one of its own pairs that was allowed until now. If
  it was, let x be the node of the blamed pair; other nodes do the same. If x is lost too, let y_0, .., y_m = x be the
  nodes from the start of the episode to x by first visits, p_i the pair of y_(i-1) that was taken when y_i was first
  visited, and j the last index for which y_j is not lost now (there is one, as y_0 is never lost): for i > j the node
  y_i names p_i instead. None of these pairs is the blamed one. All were allowed until now, so none was blamed before;
  none is allowed from now on, as each belongs or leads to a lost node, so none will be blamed, or named at another
  time. And they differ: y_i names a pair of y_(i-1), and these nodes differ; all others name their own.  []

So N (A - 1) is the value of the game, elimination is a best learner for the class, and its bound by unsafe pairs can
be larger only by pairs that it never has to try. `tests/theory/test_limits.py` finds the same numbers by going through
all deterministic learners on all tiny problems.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from resetfree.core import Count, check
from resetfree.problems import FiniteMDP, check_model
from resetfree.problems.finite.safety import feasibility, unsafe_pairs

POSITIONS, ENTRIES = 4_000, 400_000  # that are searched at most: about a second
Found = tuple[tuple[int, ...], ...]  # by node, by kind: names found
Position = tuple[int, Found]


class PermutationBound(NamedTuple):
    """A number of resets that some problem of the class costs every learner, and whether no larger one does."""

    resets: int
    exact: bool


@dataclass(frozen=True)
class NamingGame:
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


def _game(mdp: FiniteMDP) -> NamingGame:
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
    return NamingGame(tuple(kinds), tuple(sizes), tuple(starts), tuple(restarts))


def _least(game: NamingGame) -> PermutationBound:
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


@dataclass(frozen=True)
class Limit:
    """Resets that every learner has on some problem of these sizes, beside what elimination promises here."""

    n_states: int  # n
    n_actions: int  # A
    steps: int  # T
    per_step: bool  # whether nodes are (h, s)
    resets: int  # N (A - 1): over problems of these sizes, on some path, from as many episodes on
    expected: float  # N (A - 1) / 2: likewise, in expectation
    episodes: int  # from which K on it is expected
    unsafe: int  # unsafe pairs (s, a) or triples (h, s, a) of this problem: elimination's bound on it
    feasible: bool  # whether Assumption 1 holds here, so that the problem is one of the class
    renamed: PermutationBound | None  # over this problem with its actions named anew, on some path; None if not known

    @property
    def promised(self) -> int | None:
        """Resets that elimination never exceeds on this problem: the smaller of its two bounds; None if infeasible."""
        return min(self.resets, self.unsafe) if self.feasible else None

    def after(self, episodes: int) -> int:
        """The limit on some path after so many episodes: min(K, N (A - 1))."""
        return min(check_episodes(episodes), self.resets)

    def expected_after(self, episodes: int) -> float:
        """The limit in expectation after so many episodes: M (A - 1) / 2."""
        nodes, others = self.nodes, self.n_actions - 1
        most, least = nodes, 0
        check_episodes(episodes)
        while least < most and others:  # the condition on M is monotone
            middle = (least + most + 1) // 2
            fits = needed(middle, others, self.steps) <= episodes
            least, most = (middle, most) if fits else (least, middle - 1)
        return least * others / 2

    @property
    def nodes(self) -> int:
        """N, 0 if nothing can fall."""
        return self.resets // max(self.n_actions - 1, 1)


def limit(mdp: FiniteMDP) -> Limit:
    """The resets that every learner has on some problem of the sizes of this one.

    >>> import resetfree as rf
    >>> found = limit(rf.make("grid-v0"))   # 10 states that are no reset states, 5 actions
    >>> found.resets, found.expected, found.unsafe
    (40, 20.0, 18)
    >>> [found.after(k) for k in (10, 100)], [found.expected_after(k) for k in (10, 100)]
    ([10, 40], [4.0, 20.0])
    """
    check_model(mdp, "A limit")
    per_step = depends_on_step(mdp)
    most = size_limit(mdp, per_step)
    nodes = most // max(mdp.n_actions - 1, 1)
    finding, unsafe = feasibility(mdp), unsafe_pairs(mdp)
    return Limit(
        n_states=int((~mdp.reset).sum()),
        n_actions=mdp.n_actions,
        steps=mdp.n_transitions,
        per_step=per_step,
        resets=most,
        expected=most / 2,
        episodes=needed(nodes, mdp.n_actions - 1, mdp.n_transitions),
        unsafe=unsafe,
        feasible=bool(finding.holds),
        renamed=permutation_bound(mdp) if finding.holds else None,
    )


def depends_on_step(mdp: FiniteMDP) -> bool:
    """Whether dynamics, rewards, contexts or ends of episodes differ, so that nodes are (h, s)."""
    return not mdp.stationary or mdp.contexts is not None or bool((mdp.last_reset != mdp.reset).any())


def size_limit(mdp: FiniteMDP, per_step: bool) -> int:
    """N (A - 1); 0 where nothing is a reset, or nothing moves."""
    if not mdp.last_reset.any() or mdp.n_transitions == 0:
        return 0
    n = int((~mdp.reset).sum())
    return n * (mdp.n_transitions if per_step else 1) * (mdp.n_actions - 1)


def needed(nodes: int, others: int, steps: int) -> int:
    """M (A - 1) (1 + floor((M - 1) / T)): episodes after which M nodes were passed, or as many resets seen.

    >>> needed(10, 4, 8)
    80
    """
    return nodes * others * (1 + (nodes - 1) // steps) if nodes and others else 0


def check_episodes(episodes: int) -> int:
    """The number of episodes, which must not be negative; raises InvalidInput otherwise."""
    check(episodes, Count, "number of episodes of a limit")
    return int(episodes)
