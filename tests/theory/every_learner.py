"""The least resets that a deterministic learner can be sure of, by going through all of them: a game tree.

Independent of the package: a problem here is a table of outcomes, written as tuples; the learner knows the list of all
problems that it may be in, and after each step the problems that agree with everything it has seen.
"""

from dataclasses import dataclass
from functools import cache
from itertools import permutations, product

RESET = -1


@dataclass(frozen=True)
class Table:
    """A deterministic problem: by node (a state, or a step and a state) and action the next state, or RESET."""

    n: int  # states
    layers: int  # 1 if the dynamics are stationary
    horizon: int
    outcome: tuple[tuple[int, ...], ...]  # [layers * n][A]
    start: int
    restart: int

    def step(self, h: int, s: int, a: int) -> int:
        return self.outcome[(h if self.layers > 1 else 0) * self.n + s][a]

    def feasible(self) -> bool:
        """Assumption 1, word by word: every start that some behaviour can bring about can avoid resets for H steps."""
        starts, waiting = set(), [self.start, self.restart]
        while waiting:
            s = waiting.pop()
            if s not in starts:
                starts.add(s)
                waiting += self.ends(s)
        return all(self.safe(0, s) for s in starts)

    def ends(self, s: int) -> set[int]:
        here = {s}
        for h in range(self.horizon):
            here = {self.step(h, s, a) for s in here for a in range(len(self.outcome[0]))} - {RESET}
        return here

    def safe(self, h: int, s: int) -> bool:
        if h == self.horizon:
            return True
        after = [self.step(h, s, a) for a in range(len(self.outcome[0]))]
        return any(s2 != RESET and self.safe(h + 1, s2) for s2 in after)


def all_tables(n: int, n_actions: int, horizon: int, layers: int = 1) -> list[Table]:
    """Every feasible deterministic problem of these sizes that starts in state 0."""
    row = list(product([RESET, *range(n)], repeat=n_actions))
    made = (
        Table(n, layers, horizon, outcome, 0, restart)
        for outcome in product(row, repeat=n * layers)
        for restart in range(n)
    )
    return [table for table in made if table.feasible()]


def renamings(table: Table) -> list[Table]:
    """The problem with its actions named anew in each node."""
    rows = [sorted(set(permutations(row))) for row in table.outcome]
    return [Table(table.n, table.layers, table.horizon, o, table.start, table.restart) for o in product(*rows)]


Position = tuple[int, int, int]  # step, state, and the problems that agree with what was seen, a bit for each
Move = set[tuple[int, Position]]  # resets and next positions that an action may have


class Tree:
    """The positions of a game whose learner does not know in which of the problems it is."""

    def __init__(self, tables: list[Table]) -> None:
        self.tables = tables
        self.of_outcome: dict[tuple[int, int, int], int] = {}  # (node, action, outcome): the problems that have it
        self.of_restart: dict[int, int] = {}
        for i, table in enumerate(tables):
            for node, row in enumerate(table.outcome):
                for a, out in enumerate(row):
                    self.of_outcome[node, a, out] = self.of_outcome.get((node, a, out), 0) | 1 << i
            self.of_restart[table.restart] = self.of_restart.get(table.restart, 0) | 1 << i

    def move(self, position: Position, a: int) -> Move:
        """What can come of an action: each answer that some problem which agrees with what was seen gives."""
        (h, s, left), first, found = position, self.tables[0], set()
        node = (h if first.layers > 1 else 0) * first.n + s
        for out in range(-1, first.n):
            agree = left & self.of_outcome.get((node, a, out), 0)
            if agree and out == RESET:
                found |= {(1, (0, s2, agree & bits)) for s2, bits in self.of_restart.items() if agree & bits}
            elif agree:
                found.add((0, (0 if first.layers == 1 or h + 1 == first.horizon else h + 1, out, agree)))
        return found


def least_worst(tables: list[Table]) -> int:
    """The value of the game: the learner chooses actions, the adversary a problem that agrees, for ever.

    Values after t steps grow with t and are bounded: the least solution is reached from 0.
    """
    tree, n_actions = Tree(tables), len(tables[0].outcome[0])
    moves: dict[Position, list[Move]] = {}
    first = (0, tables[0].start, (1 << len(tables)) - 1)
    waiting: list[Position] = [first]
    while waiting:
        position = waiting.pop()
        if position not in moves:
            moves[position] = [tree.move(position, a) for a in range(n_actions)]
            waiting += [after for move in moves[position] for _, after in move]
    value = dict.fromkeys(moves, 0)
    changed = True
    while changed:
        changed = False
        for position, actions in moves.items():
            now = min(max(cost + value[after] for cost, after in move) for move in actions)
            changed |= now != value[position]
            value[position] = now
    return value[first]


def least_mean(tables: list[Table], episodes: int) -> float:
    """The least expected resets in so many episodes, over all learners, where every problem is equally likely."""
    tree, n_actions, horizon = Tree(tables), len(tables[0].outcome[0]), tables[0].horizon

    @cache
    def value(left: int, step: int, s: int, agree: int) -> float:
        if left == 0:
            return 0.0
        return min(mean(left, step, tree.move((step, s, agree), a)) for a in range(n_actions))

    def mean(left: int, step: int, move: Move) -> float:
        total, weights = 0.0, 0
        for cost, (_, s, agree) in move:
            ends = cost or step + 1 == horizon
            rest = value(left - 1, 0, s, agree) if ends else value(left, step + 1, s, agree)
            total += (cost + rest) * agree.bit_count()
            weights += agree.bit_count()
        return total / weights

    return value(episodes, 0, tables[0].start, (1 << len(tables)) - 1)
