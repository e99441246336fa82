"""The best average reward per step of a policy that is never reset, for ever: by iteration, program, fractions.

The paper's comparator earns the most within one episode, from where the learner stands. Episodes follow on, so that
standing in a poor place costs it no regret. This one earns the most in the long run, from the same place.

Legend: a node (h, s) is a state at a step, or a state alone where steps do not differ; after the last step the next
episode begins where the last one ended (in its next context). W the states from which a life without a reset is
possible; only pairs that stay in it for certain are taken. d a policy, P_d, r_d its chain and rewards; g its average
reward from each node (it differs between recurrent classes), b its bias: g = P_d g, g + b = r_d + P_d b.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from resetfree.core import Bools, Floats, InvalidInput, NotCertifiable
from resetfree.problems import FiniteMDP, check_model
from resetfree.problems.finite.safety import largest_closed_set, safe_sets
from resetfree.problems.finite.transitions import simplest_fraction
from resetfree.theory.oracle.fractions import ONE, ZERO, distribution

LARGEST = 400_000  # pairs of nodes and actions; beyond this, the factorisations take minutes
SAME = 1e-9  # gains, and values relative to the largest, that are equal
MOST_ROUNDS = 1000  # of policy iteration; a handful is usual


@dataclass(frozen=True, eq=False)
class LongRunSolution:
    """The best that a policy that is never reset earns on average, from every state in which an episode can begin."""

    mdp: FiniteMDP = field(repr=False)
    gain: Floats  # [S] reward per step, nan where no life without a reset begins
    policy: NDArray[np.int16]  # [H, S] a policy that earns it, 0 where there is none

    @property
    def per_episode(self) -> Floats:
        """[S] reward per episode of H actions."""
        return np.asarray(self.gain * self.mdp.horizon)


class AverageProblem(NamedTuple):
    """What is left for a policy that is never reset: pairs that are safe for ever, between nodes that are."""

    nodes: NDArray[np.int64]  # [n] h S + s
    pairs: NDArray[np.int64]  # [m] the node of each pair, by its place in `nodes`; in ascending order
    actions: NDArray[np.int64]  # [m]
    P: Any  # sparse [m, n]
    reward: Floats  # [m]
    n_steps: int  # H, or 1 where steps do not differ


def forever_safe(mdp: FiniteMDP) -> tuple[Bools, int]:
    """[H or 1, S, A] the pairs after which, for certain, no reset need ever come, and the number of steps.

    >>> import resetfree as rf
    >>> safe, n_steps = forever_safe(rf.make("grid-v0"))
    >>> n_steps, [rf.make("grid-v0").action_names[a] for a in range(5) if safe[0, 1, a]]
    (1, ['up', 'stay'])
    """
    check_model(mdp, "The long-run optimum")
    closed = largest_closed_set(mdp)
    sets = safe_sets(mdp, last=~mdp.end_reset & mdp.ends_within(closed))
    pairs = sets.layers[sets.layer_of_step]
    pairs[0] &= closed[:, None]
    if mdp.contexts is not None and not mdp.n_transitions:
        pairs[:] &= mdp.ends_within(closed)[:, None]
    alike = mdp.stationary and mdp.contexts is None and mdp.boundary == "physical"
    if alike and all(np.array_equal(one, pairs[0]) for one in pairs[1:]):
        return pairs[:1], 1
    return pairs, mdp.horizon


def average_problem(mdp: FiniteMDP) -> AverageProblem:
    """The average-reward problem inside the pairs that are safe for ever.

    Raises NotCertifiable if it is too large.
    """
    safe, n_steps = forever_safe(mdp)
    if safe.size > LARGEST:
        raise NotCertifiable(
            f"The long-run optimum is for problems of at most {LARGEST:,} pairs (times steps, where steps differ). "
            f"Got {safe.size:,} in '{mdp.name}' instead."
        )
    n_states, n_actions = mdp.n_states, mdp.n_actions
    next_start = sparse.eye_array(n_states, format="csr")
    if mdp.contexts is not None:
        next_start = sparse.kron(mdp.contexts, sparse.eye_array(n_states // len(mdp.contexts)), format="csr")
    stay = sparse.kron(sparse.eye_array(n_states), np.ones((n_actions, 1)), format="csr")
    blocks: list[list[Any]] = [[None] * n_steps for _ in range(n_steps)]
    for h in range(n_steps):
        move = mdp.transition.matrix(0 if mdp.transition.stationary else h) if h < mdp.n_transitions else stay
        last = h == n_steps - 1
        blocks[h][(h + 1) % n_steps] = move @ next_start if last and n_steps == mdp.horizon else move
    whole = sparse.block_array(blocks, format="csr")
    kept = np.flatnonzero(safe.ravel())
    nodes, pairs = np.unique(kept // n_actions, return_inverse=True)
    P = whole[kept][:, nodes]
    P.eliminate_zeros()
    rewards = np.broadcast_to(mdp.reward, (n_steps, n_states, n_actions)).ravel()[kept]
    return AverageProblem(nodes=nodes, pairs=pairs, actions=kept % n_actions, P=P, reward=rewards, n_steps=n_steps)


def solve_long_run(mdp: FiniteMDP) -> LongRunSolution:
    """Policy iteration for chains of any structure: several recurrent classes, periodic ones, transient states.

    Raises NotCertifiable if the problem is too large, or its numbers too small for floats.

    >>> import resetfree as rf
    >>> found = solve_long_run(rf.make("grid-v0"))
    >>> [round(float(x), 9) for x in found.per_episode[[0, 3, 8, 5]]]
    [8.0, 8.0, 8.0, nan]
    """
    problem = average_problem(mdp)
    gain, chosen = _policy_iteration(problem)
    return _by_state(mdp, problem, gain, problem.actions[chosen])


def _by_state(mdp: FiniteMDP, problem: AverageProblem, gain: Floats, actions: NDArray[np.int64]) -> LongRunSolution:
    policy = np.zeros((problem.n_steps, mdp.n_states), dtype=np.int16)
    policy.ravel()[problem.nodes] = actions
    if problem.n_steps < mdp.horizon:
        policy = np.repeat(policy, mdp.horizon, axis=0)
    return LongRunSolution(mdp, gain_of_starts(mdp, problem, gain), policy)


def gain_of_starts(mdp: FiniteMDP, problem: AverageProblem, gain: Floats) -> Floats:
    """[S] the gain of the nodes of the first step, nan where there is none."""
    result, first = np.full(mdp.n_states, np.nan), problem.nodes < mdp.n_states
    result[problem.nodes[first]] = gain[first] + 0.0  # no -0.0
    return result


def _policy_iteration(problem: AverageProblem) -> tuple[Floats, NDArray[np.int64]]:
    """The best gain [n], and the pair [n] that is taken in each node: first for the gain, then for the bias."""
    begin = np.flatnonzero(np.diff(problem.pairs, prepend=-1))
    chosen = _first_best(problem.reward, problem.pairs, begin)
    for _ in range(MOST_ROUNDS):
        gain, bias = _evaluate(problem.P[chosen], problem.reward[chosen])
        ahead = problem.P @ gain
        better = _improved(chosen, ahead, SAME, problem.pairs, begin)
        if np.array_equal(better, chosen):
            value = problem.reward + problem.P @ bias
            value[ahead < gain[problem.pairs] - SAME] = -np.inf
            better = _improved(
                chosen, value, SAME * max(1.0, float(np.abs(bias).max(initial=0.0))), problem.pairs, begin
            )
        if np.array_equal(better, chosen):
            return gain, chosen
        chosen = better
    raise NotCertifiable(f"Policy iteration must end within {MOST_ROUNDS} rounds. Got values that still change.")


def _first_best(values: Floats, pairs: NDArray[np.int64], begin: NDArray[np.int64]) -> NDArray[np.int64]:
    """[n] the first pair of each node with the largest value."""
    if not len(begin):
        return begin
    best = np.flatnonzero(values == np.maximum.reduceat(values, begin)[pairs])
    return best[np.unique(pairs[best], return_index=True)[1]]


def _improved(
    chosen: NDArray[np.int64], values: Floats, by: float, pairs: NDArray[np.int64], begin: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The best pairs where they are better than the chosen ones by more than so much, else these."""
    best = _first_best(values, pairs, begin)
    return np.where(values[best] > values[chosen] + by, best, chosen)


def _evaluate(P: Any, reward: Floats) -> tuple[Floats, Floats]:
    """Gain and bias [n] of a chain; the bias of the first node of each recurrent class is 0."""
    n = len(reward)
    count, label = connected_components(P, directed=True, connection="strong")
    edges = P.tocoo()
    is_open = np.zeros(count, dtype=np.bool_)
    is_open[label[edges.row[label[edges.row] != label[edges.col]]]] = True
    inside = ~is_open[label]
    R, T = np.flatnonzero(inside), np.flatnonzero(~inside)
    gain, bias = np.zeros(n), np.zeros(n)
    flow = (sparse.eye_array(n, format="csr") - P).tocsr()
    _, first, of_class = np.unique(label[R], return_index=True, return_inverse=True)
    at = sparse.csr_array((np.ones(len(R)), (np.arange(len(R)), first[of_class])), shape=(len(R), len(R)))
    others = np.ones(len(R))
    others[first] = 0.0
    # Where the bias is 0 by choice, its column stands for the gain of the class.
    found = _solved(flow[R][:, R] @ sparse.diags_array(others) + at, reward[R])
    gain[R], bias[R] = found[first][of_class], found * others
    if len(T):
        leave, enter = flow[T][:, T], P[T][:, R]
        gain[T] = _solved(leave, enter @ gain[R])
        bias[T] = _solved(leave, reward[T] - gain[T] + enter @ bias[R])
    return gain, bias


def _solved(matrix: Any, right: Floats) -> Floats:
    try:
        found = np.asarray(splu(sparse.csc_array(matrix)).solve(right)) if len(right) else right
    except RuntimeError:  # exactly singular
        found = np.full(1, np.nan)
    if not np.isfinite(found).all():
        raise NotCertifiable("The long-run optimum needs probabilities that floats can tell from 0. Got smaller ones.")
    return found


def gain_by_linear_program(mdp: FiniteMDP) -> Floats:
    """[S] the best gain from each start by a linear program that shares nothing with policy iteration.

    min sum g(i)  subject to, for each pair (i, a):  g(i) >= sum_j P(j|i,a) g(j),
    g(i) + b(i) >= r(i,a) + sum_j P(j|i,a) b(j)     (Denardo and Fox 1968, for chains of any structure).

    >>> import resetfree as rf
    >>> round(float(gain_by_linear_program(rf.make("doors-v0"))[0]), 7)
    0.5
    """
    from scipy.optimize import linprog

    problem = average_problem(mdp)
    n, m = len(problem.nodes), len(problem.pairs)
    own = sparse.csr_array((np.ones(m), (np.arange(m), problem.pairs)), shape=(m, n))
    drift = own - problem.P
    found = linprog(
        np.repeat([1.0, 0.0], n),
        A_ub=-sparse.block_array([[drift, None], [own, drift]], format="csr"),
        b_ub=-np.concatenate([np.zeros(m), problem.reward]),
        bounds=(None, None),
        method="highs-ds",
    )
    if found.status != 0:
        raise NotCertifiable(f"The linear program must be solved to the end. Got this instead: {found.message}")
    return gain_of_starts(mdp, problem, found.x[:n])


# --------------------------------------------------------------------------------------------------------------------

LARGEST_EXACT = 200  # nodes; beyond this, elimination in fractions takes minutes
Row: TypeAlias = dict[int, Fraction]
Choice: TypeAlias = tuple[Row, Fraction]  # where it leads, and its reward


def long_run_exactly(mdp: FiniteMDP) -> list[Fraction | None]:
    """[S] the best average reward per step from each start; None where no life without a reset begins.

    Rows whose simplest fractions sum to one are those; any other is its floats, divided by their sum.

    Raises InvalidInput for a problem of more than LARGEST_EXACT nodes.

    >>> import resetfree as rf
    >>> found = long_run_exactly(rf.make("grid-v0"))
    >>> found[0], found[5]
    (Fraction(1, 1), None)
    """
    problem = average_problem(mdp)
    n = len(problem.nodes)
    if n > LARGEST_EXACT:
        raise InvalidInput(f"Exact fractions are for at most {LARGEST_EXACT} states (times steps). Got {n} instead.")
    choices: list[list[Choice]] = [[] for _ in range(n)]
    for i, node in enumerate(problem.pairs.tolist()):
        part = slice(problem.P.indptr[i], problem.P.indptr[i + 1])
        row = dict(zip(problem.P.indices[part].tolist(), distribution(problem.P.data[part].tolist()), strict=True))
        choices[node].append((row, simplest_fraction(float(problem.reward[i]))))
    gain = best_gain(choices)
    result: list[Fraction | None] = [None] * mdp.n_states
    for node, g in zip(problem.nodes.tolist(), gain, strict=True):
        if node < mdp.n_states:
            result[node] = g
    return result


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
        gain, bias = _evaluate_exactly([choices[i][d[i]] for i in range(n)])
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


def _evaluate_exactly(chain: list[Choice]) -> tuple[list[Fraction], list[Fraction]]:
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
    found = _solved_exactly(rows, right, 2 * n)
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


def _solved_exactly(rows: list[Row], right: list[Fraction], n: int) -> list[Fraction]:
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
