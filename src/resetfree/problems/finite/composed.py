"""Finite problems from parts: contexts as one product problem, and an action that asks for help.

Contexts (multi-task and lifelong learning) are the paper's footnote on contextual MDPs.

Asking for help is one more action of the dynamics, not an event of the game (docs/readings.md, B5): it leads by the
restart distribution to a start, and the episode goes on. So nothing of the paper changes, and Resets(K) counts falls
alone; states that are safe for ever may be worthless without it.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from resetfree.core import Floats, InvalidInput, Range, check, expect
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.transitions import Transitions

SHARED = ("n_states", "n_actions", "horizon", "boundary", "noise")


def with_contexts(tasks: Sequence[FiniteMDP], chain: ArrayLike, start: ArrayLike | int = 0) -> FiniteMDP:
    """The product of m problems over the same states and actions; the context is constant within an episode.

    Paper: context c^k (footnote to the problem setup).

    tasks: one problem per context, each with its own dynamics, rewards, reset set and restarts.
    chain: [m, m], row c the distribution of the next episode's context after an episode in context c.
    start: the first context, or its distribution [m].

    State index of base state s in context c: c * S + s. Features are lifted block by block, each context with
    coordinates of its own: phi((s, c), a) is task c's phi(s, a) in block c. What was linear with measures mu_c is
    linear with their stack, whose norm is at most sqrt(d) if each one's is; likewise for xi. If only some tasks have
    features, the others get one-hot phi and constant xi.
    """
    expect(tasks, "'tasks' of with_contexts", "hold at least one problem", got="none")
    first = tasks[0]
    for i, task in enumerate(tasks):
        same = all(getattr(task, name) == getattr(first, name) for name in SHARED) and task.contexts is None
        must = "share states, actions, horizon, boundary and noise, and have no contexts of their own"
        expect(same, "'tasks' of with_contexts", must, got=f"task {i} that differs")
    n = first.n_states
    mass = np.asarray(start)
    mass = np.eye(1, len(tasks), int(mass))[0] if mass.ndim == 0 else mass.astype(np.float64)
    expect(mass.shape == (len(tasks),), "'start' of with_contexts", f"be one of {len(tasks)} contexts", start)
    n_layers = 1 if all(task.transition.stationary for task in tasks) else first.horizon

    def layer(task: FiniteMDP, h: int) -> object:
        return task.transition.matrix(0 if task.transition.stationary else h)

    transition = [sparse.block_diag([layer(task, h) for task in tasks], format="csr") for h in range(n_layers)]
    support = [
        sparse.csr_array((np.ones(p.nnz, dtype=np.bool_), p.indices, p.indptr), shape=p.shape) for p in transition
    ]
    steps = 1 if all(len(task.reward) == 1 for task in tasks) else first.horizon
    reward = np.concatenate([np.broadcast_to(task.reward, (steps, *task.reward.shape[1:])) for task in tasks], axis=1)
    return FiniteMDP(
        transition if n_layers > 1 else transition[0],
        reward if steps > 1 else reward[0],
        np.concatenate([task.reset for task in tasks]),
        first.horizon,
        support=support if n_layers > 1 else support[0],
        start=np.concatenate([p * task.start for p, task in zip(mass, tasks, strict=True)]),
        restart=np.stack([task.restart[0] for task in tasks]),
        end_reset=np.concatenate([task.end_reset for task in tasks]),
        contexts=chain,
        boundary=first.boundary,
        noise=first.noise,
        phi=_blocks([task.phi for task in tasks], lambda: np.eye(n * first.n_actions).reshape(n, first.n_actions, -1)),
        xi=_blocks([task.xi for task in tasks], lambda: np.ones((n, 1))),
        name=f"{len(tasks)} contexts of {first.name}",
        state_names=[f"{task.state_names[s]}|{c}" for c, task in enumerate(tasks) for s in range(n)],
        action_names=first.action_names,
    )


def _blocks(features: Sequence[Floats | None], default: Callable[[], Floats]) -> Floats | None:
    """Features [S, ..., d_c] of each context stacked, each in columns of its own; None if no context has any."""
    if all(f is None for f in features):
        return None
    given = [default() if f is None else f for f in features]
    ends = np.cumsum([f.shape[-1] for f in given])
    lifted = np.zeros((len(given), *given[0].shape[:-1], ends[-1]))
    for c, f in enumerate(given):
        lifted[c, ..., ends[c] - f.shape[-1] : ends[c]] = f
    return lifted.reshape(-1, *lifted.shape[2:])


T = TypeVar("T", Floats, float)
ASK = "ask for help"
MOST = 30_000_000  # possible transitions of the new action
Price: TypeAlias = Annotated[float, Range(0, 1_000_000)]


def with_help(problem: FiniteMDP, price: float) -> FiniteMDP:
    """The problem with one more action, the last, that asks for help: it leads to a start, and costs `price`.

    The start is drawn from `restart`, that of the present context if there are several. In units of the given problem
    asking earns -price. Rewards must lie in [0, 1], so all are scaled: (r + price) / (1 + price) for other actions, 0
    for asking. A policy without resets takes H actions, so its value is (V_r + H price) / (1 + price), and policies
    are ordered as in units of the given problem (see `original_value` for the way back). What an episode loses when a
    reset cuts it has a higher value in these units, by `price` for every action that is not taken.

    price: what a call costs, in units of rewards: 0.5 is half of the best reward of one step. Asking also takes a step.

    Features stay: one coordinate of phi for each context is added, that of asking. Gaussian noise is scaled as rewards
    are; Bernoulli noise has the scaled mean.

    >>> import resetfree as rf
    >>> helped = with_help(rf.make("grid-v0"), price=0.25)
    >>> helped, helped.action_names[-1]
    (FiniteMDP(12 states, 6 actions, horizon 8, 2 reset states), 'ask for help')
    >>> bool(rf.check(helped))
    True
    """
    check(price, Price, "'price' of with_help")
    if not isinstance(problem, FiniteMDP):
        raise InvalidInput(
            "Help can be requested in finite problems; a machine or an environment is reset when it is stuck "
            f'(ask="when-stuck" of learn). Got {type(problem).__name__} instead.'
        )
    price = float(price)
    steps, (n_states, n_actions) = len(problem.reward), (problem.n_states, problem.n_actions)
    reward = np.zeros((steps, n_states, n_actions + 1))
    reward[:, :, :n_actions] = (problem.reward + price) / (1 + price)
    noise = problem.noise if isinstance(problem.noise, str) else problem.noise / (1 + price)
    return problem.replace(
        transition=_with_asking(problem),
        reward=reward[0] if steps == 1 else reward,
        noise=noise,
        phi=None if problem.phi is None else _with_coordinates(problem.phi, len(problem.restart)),
        action_names=[*problem.action_names, ASK],
        name=f"{problem.name} with help at {price:g}",
    )


def original_value(value: T, price: float, horizon: int) -> T:
    """Values of policies without resets in units of the problem without help: its rewards minus the price of calls.

    >>> original_value(4.0, price=0.25, horizon=8)
    3.0
    """
    found: Any = value
    return cast("T", found * (1 + price) - horizon * price)


def _with_asking(problem: FiniteMDP) -> Transitions:
    """The transitions with one more action; asking in a reset state, which is never possible, has no successors."""
    t, n_states, width = problem.transition, problem.n_states, problem.n_states // len(problem.restart)
    starts = [np.flatnonzero(row) for row in problem.restart]  # by context
    n_starts = np.array([0 if problem.reset[s] else len(starts[s // width]) for s in range(n_states)])
    if (n := int(n_starts.sum()) * t.n_layers) > MOST:
        raise InvalidInput(f"Asking for help must have at most {MOST} possible transitions. Got {n} instead.")
    counts = np.empty((t.n_layers, n_states, t.n_actions + 1), dtype=np.int64)
    counts[:, :, :-1] = np.diff(t.indptr).reshape(t.n_layers, n_states, t.n_actions)
    counts[:, :, -1] = n_starts
    indptr = np.append(0, counts.ravel().cumsum())
    indices, prob = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    rows = np.repeat(np.arange(counts.size), counts.ravel())  # of every entry
    added = rows % (t.n_actions + 1) == t.n_actions
    indices[~added], prob[~added] = t.indices, t.prob
    contexts = [s // width for s in range(n_states) if n_starts[s]] * t.n_layers
    if contexts:
        indices[added] = np.concatenate([starts[c] + c * width for c in contexts])
        prob[added] = np.concatenate([problem.restart[c][starts[c]] for c in contexts])
    return Transitions(n_states, t.n_actions + 1, t.n_layers, indptr=indptr, indices=indices, prob=prob)


def _with_coordinates(phi: Floats, n_contexts: int) -> Floats:
    """The features with a coordinate for asking in each context, [S, A + 1, d + m]."""
    n_states, n_actions, d = phi.shape
    wider = np.zeros((n_states, n_actions + 1, d + n_contexts))
    wider[:, :n_actions, :d] = phi
    wider[np.arange(n_states), n_actions, d + np.arange(n_states) // (n_states // n_contexts)] = 1.0
    return wider
