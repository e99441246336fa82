"""The best average reward per step in rational arithmetic, in plain loops to be read: for small problems.

Legend: see `long_run`; P, r and the pairs are those of its average-reward problem, read as the fractions they are.
"""

from fractions import Fraction
from typing import TypeAlias

from resetfree.core.arrays import simplest_fraction
from resetfree.core.errors import InvalidInput
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.theory.oracle.fractions import ONE, ZERO
from resetfree.theory.oracle.long_run import average_problem

LARGEST = 200  # nodes; beyond this, elimination in fractions takes minutes
Row: TypeAlias = dict[int, Fraction]
Choice: TypeAlias = tuple[Row, Fraction]  # where it leads, and its reward


def long_run_exactly(mdp: FiniteMDP) -> list[Fraction | None]:
    """[S] the best average reward per step from each start; None where no life without a reset begins.

    Rows whose simplest fractions sum to one are those; any other is its floats, divided by their sum.

    Raises InvalidInput for a problem of more than LARGEST nodes.

    >>> import resetfree as rf
    >>> found = long_run_exactly(rf.make("grid-v0"))
    >>> found[0], found[5]
    (Fraction(1, 1), None)
    """
    problem = average_problem(mdp)
    n = len(problem.nodes)
    if n > LARGEST:
        raise InvalidInput(f"Exact fractions are for at most {LARGEST} states (times steps). Got {n} instead.")
    choices: list[list[Choice]] = [[] for _ in range(n)]
    for i, node in enumerate(problem.pairs.tolist()):
        part = slice(problem.P.indptr[i], problem.P.indptr[i + 1])
        row = dict(zip(problem.P.indices[part].tolist(), _distribution(problem.P.data[part].tolist()), strict=True))
        choices[node].append((row, simplest_fraction(float(problem.reward[i]))))
    gain = best_gain(choices)
    result: list[Fraction | None] = [None] * mdp.n_states
    for node, g in zip(problem.nodes.tolist(), gain, strict=True):
        if node < mdp.n_states:
            result[node] = g
    return result


def _distribution(floats: list[float]) -> list[Fraction]:
    simple = [simplest_fraction(x) for x in floats]
    exact = simple if sum(simple) == 1 else [Fraction(x) for x in floats]
    return [x / sum(exact) for x in exact]


def best_gain(choices: list[list[Choice]]) -> list[Fraction]:
    """[n] the best average reward from each node; choices: [n] where each leads, and its reward.

    Howard's policy iteration: take what leads to the largest gain; among equals, what has the largest r + P b.

    >>> half = Fraction(1, 2)
    >>> swap = [[({1: ONE}, ZERO)], [({0: ONE}, ONE)]]                      # a chain of period two
    >>> best_gain(swap)
    [Fraction(1, 2), Fraction(1, 2)]
    >>> best_gain([*swap, [({0: half, 3: half}, ZERO)], [({3: ONE}, ONE)]])  # two classes, and a way to either
    [Fraction(1, 2), Fraction(1, 2), Fraction(3, 4), Fraction(1, 1)]
    """
    n = len(choices)
    d = [0] * n
    while True:
        gain, bias = _evaluate([choices[i][d[i]] for i in range(n)])
        changed = False
        for i in range(n):
            ahead = [_mean(row, gain) for row, _ in choices[i]]
            if max(ahead) > ahead[d[i]]:
                d[i], changed = ahead.index(max(ahead)), True
        if changed:
            continue
        for i in range(n):
            equal = [a for a, (row, _) in enumerate(choices[i]) if _mean(row, gain) == gain[i]]
            value = {a: choices[i][a][1] + _mean(choices[i][a][0], bias) for a in equal}
            if max(value.values()) > value[d[i]]:
                d[i], changed = max(value, key=lambda a: value[a]), True
        if not changed:
            return gain


def _mean(row: Row, values: list[Fraction]) -> Fraction:
    return sum((p * values[j] for j, p in row.items()), ZERO)


def _evaluate(chain: list[Choice]) -> tuple[list[Fraction], list[Fraction]]:
    """Gain and bias: g = P g, g + b = r + P b, and b = 0 in the first node of each class that is never left."""
    n = len(chain)
    after = [_reached(chain, i) for i in range(n)]
    recurrent = [all(i in after[j] for j in after[i]) for i in range(n)]
    first = [min(after[i] | {i}) if recurrent[i] else -1 for i in range(n)]
    # Unknowns: g(0..n-1), b(0..n-1).
    rows: list[Row] = []
    right: list[Fraction] = []
    for i, (row, reward) in enumerate(chain):
        fixed = {n + i: ONE} if first[i] == i else {i: ONE, first[i]: -ONE}
        rows.append(fixed if recurrent[i] else _less(i, row, 0))
        right.append(ZERO)
        equation = _less(i, row, n)
        equation[i] = equation.get(i, ZERO) + ONE
        rows.append(equation)
        right.append(reward)
    found = _solved(rows, right, 2 * n)
    return found[:n], found[n:]


def _less(i: int, row: Row, at: int) -> Row:
    """The coefficients of x(i) - sum_j P(j|i) x(j), the unknowns of x beginning at `at`."""
    result = {at + j: -p for j, p in row.items()}
    result[at + i] = result.get(at + i, ZERO) + ONE
    return result


def _reached(chain: list[Choice], start: int) -> set[int]:
    """The nodes that can come after one."""
    found: set[int] = set()
    fresh = [start]
    while fresh:
        new = {j for i in fresh for j in chain[i][0]} - found
        found |= new
        fresh = list(new)
    return found


def _solved(rows: list[Row], right: list[Fraction], n: int) -> list[Fraction]:
    """The solution of n equations, by elimination on sparse rows."""
    left = [({j: x for j, x in row.items() if x}, b) for row, b in zip(rows, right, strict=True)]
    done: list[tuple[int, Row, Fraction]] = []
    for j in range(n):
        having = [k for k, (row, _) in enumerate(left) if j in row]
        row, b = left.pop(min(having, key=lambda k: len(left[k][0])))
        row, b = {i: x / row[j] for i, x in row.items()}, b / row[j]
        for k, (other, c) in enumerate(left):
            if factor := other.get(j, ZERO):
                rest = {i: other.get(i, ZERO) - factor * row.get(i, ZERO) for i in other.keys() | row.keys()}
                left[k] = ({i: x for i, x in rest.items() if x}, c - factor * b)
        done.append((j, row, b))
    found = [ZERO] * n
    for j, row, b in reversed(done):
        found[j] = b - sum((x * found[i] for i, x in row.items() if i != j), ZERO)
    return found
