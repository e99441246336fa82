"""One unbroken life: no episodes, a reset only on arrival in a reset state, and a bound on resets for every path.

Legend: T steps; W the largest set of states outside the reset set in which every state has an action that stays in W
for certain; unsafe pairs: (s, a) with s not a reset state and a successor outside W; g* the best average reward of a
policy that stays in W; n how often a pair was tried.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import log, sqrt
from typing import Annotated, Literal, TypeAlias

import numpy as np
import scipy  # loads its optimisers when they are used: every command imports this module, few solve a program
from scipy import sparse
from scipy.special import ndtri

from resetfree.core import (
    AssumptionViolated,
    Bools,
    Count,
    Floats,
    Ints,
    InvalidInput,
    NonNegative,
    NotCertifiable,
    Probability,
    Range,
    checked,
)
from resetfree.players.nonepisodic.kernel import DOUBLED, LifeCounts, extended_iteration, safe_core, walk
from resetfree.problems import FiniteMDP, Problem, model_behind
from resetfree.problems.finite.backward import safe_actions

Width: TypeAlias = Literal["tuned", "theory"]
Steps: TypeAlias = Annotated[int, Range(1, 10**7)]  # each is kept
MOST_ITERATIONS = 2000  # of extended value iteration in one epoch
LARGEST_COUNTS = 2_000_000_000  # bytes that are still sensible


@dataclass(frozen=True, eq=False)
class Gain:
    """The exact answer for a life without resets."""

    states: Bools  # [S] W
    actions: Bools  # [S, A] the actions that stay in W, none outside it
    gain: Floats  # [S] best average reward within W from each state, nan outside

    @property
    def value(self) -> float:
        """g*, where it is the same from every state of W."""
        inside = self.gain[self.states]
        if len(inside) == 0:
            raise AssumptionViolated("No state admits a life without resets.", assumption="feasibility", witness=None)
        if np.ptp(inside) > 1e-7:
            why = f"The best average reward depends on the state, from {inside.min():.6g} to {inside.max():.6g}: the "
            why += "problem is not weakly communicating within its safe set, and no regret is defined."
            lowest = int(np.nanargmin(self.gain))
            raise AssumptionViolated(why, assumption="weakly communicating", witness=lowest)
        return float(inside.mean())


@dataclass(frozen=True, eq=False)
class UnbrokenLife:
    """What happened in one life of T steps."""

    mdp: FiniteMDP = field(repr=False)
    states: Ints  # [T] where each step began; after a reset, where the agent was put
    actions: Ints  # [T]
    rewards: Floats  # [T]
    reset: Bools  # [T] whether the step entered a reset state
    safe: Bools  # [S] the learned safe set at the end, never smaller than W
    allowed: Bools  # [S, A] the actions that are allowed in it
    epochs: int
    constants: dict[str, float | str]

    @property
    def resets(self) -> int:
        """How many resets there were."""
        return int(self.reset.sum())

    @cached_property
    def bound(self) -> int:
        """The number of unsafe pairs: no path has more resets."""
        return int(unsafe_pairs(self.mdp).sum())

    @cached_property
    def regret(self) -> Floats:
        """[T] t g* - (rewards of the first t steps); can be negative."""
        return np.asarray(optimal_gain(self.mdp).value * np.arange(1, len(self.rewards) + 1) - self.rewards.cumsum())


@checked
def live(
    mdp: FiniteMDP | Problem,
    steps: Steps,
    *,
    seed: Count = 0,
    width: Width = "tuned",
    scale: NonNegative = 0.02,
    noise: NonNegative = 0.0,
    p: Probability = 0.05,
) -> UnbrokenLife:
    """Learn for `steps` steps in one piece: support elimination outside, UCRL2 inside.

    The learned safe set is the greatest set of states, none seen to be a reset state, in which every state has an
    action all of whose seen successors lie in the set; those actions are allowed. In it the best policy of the best
    model within L1 balls is played, for epochs that end when a pair has doubled its count or an action is ruled out.
    Among equally good actions it takes the one tried most often, then one drawn once per pair.

    On every path the resets are at most the number of unsafe pairs, for every T and whatever is played among the
    allowed actions, if start and restart lie in W: take the first step after a restart whose successor is outside the
    learned set that includes this very step. Its action was allowed, so the edge is new, and it rules the pair out for
    good; the pair is unsafe, because the learned set never loses a state of W.

    width: "theory", UCRL2's balls sqrt(14 S log(2 A t / p) / n), with which the regret is O(D S sqrt(A T log T)) with
      probability 1 - p where W is communicating with diameter D; "tuned", `scale` times these, proved for resets only.
    noise: sub-Gaussian constant of the noise in rewards (0: deterministic; 0.5 is right for anything within [0, 1]);
      with width "theory" it is never less than the problem's.

    The horizon of the problem plays no part. Problems with layers, contexts or resets at the end of episodes are
    refused: there are no episodes here.

    >>> import resetfree as rf
    >>> life = live(rf.make("grid-v0"), 20_000, seed=1)
    >>> life.resets <= life.bound, life.bound, round(optimal_gain(life.mdp).value, 6)
    (True, 18, 1.0)
    """
    model = mdp if isinstance(mdp, FiniteMDP) else model_behind(mdp)
    outside = ~optimal_core(model)[0] & ((model.start > 0) | (model.restart[0] > 0))
    if outside.any():
        witness = int(np.argmax(outside))
        why = f"A life can begin in state {model.state_names[witness]} (index {witness}), from which resets cannot be "
        why += "avoided for ever: no bound on resets holds."
        raise AssumptionViolated(why, assumption="feasibility", witness=witness)
    factor = 1.0 if width == "theory" else scale
    if width == "theory":  # a proved width covers the rewards there are
        noise = max(noise, model.reward_noise)
    constants: dict[str, float | str] = {"width": width, "scale": factor, "noise": noise, "p": p}
    return _live(model, steps, seed, factor, noise, p=p, constants=constants)


def _live(
    mdp: FiniteMDP, steps: int, seed: int, factor: float, noise: float, p: float, constants: dict[str, float | str]
) -> UnbrokenLife:
    """Run epochs of extended value iteration and of walks until `steps` steps are taken."""
    n, n_actions = mdp.n_states, mdp.n_actions
    rng = np.random.default_rng(seed)
    first, prefer, u = rng.random(), rng.random((n, n_actions)), rng.random((steps, 3))
    state = min(int(np.searchsorted(mdp.start.cumsum(), first, side="right")), int(np.flatnonzero(mdp.start)[-1]))
    disturbance = np.zeros(0)
    if mdp.noise != "bernoulli" and mdp.noise > 0:
        disturbance = mdp.noise * ndtri(np.clip(u[:, 1], 1e-16, 1 - 1e-16))
    seen, most = _fresh(mdp), MOST_ITERATIONS
    cumulative = mdp.restart[0].cumsum()
    cumulative[np.flatnonzero(mdp.restart[0])[-1] :] = 1.0
    states, actions = np.zeros(steps, dtype=np.int64), np.zeros(steps, dtype=np.int64)
    path = (states, actions, np.zeros(steps), np.zeros(steps, dtype=np.bool_))
    within, allowed = np.empty(n, dtype=np.bool_), np.empty((n, n_actions), dtype=np.bool_)
    safe_core(seen, within, allowed)
    values, policy, before = np.zeros(n), np.zeros(n, dtype=np.int64), allowed.copy()
    t, epochs = 0, 0
    while t < steps:
        epochs += 1
        ball = factor * sqrt(14.0 * n * log(2.0 * n_actions * (t + 1) / p))
        margin = 2.0 * noise * factor * sqrt(3.5 * log(2.0 * n * n_actions * (t + 1) / p))
        extended_iteration(seen, within, allowed, ball, margin, 1.0 / sqrt(t + 1), most, prefer, values, policy)
        limit = np.maximum(2 * seen.tried, 1)
        over = False
        while t < steps and not over:
            walking = (mdp.model, cumulative, seen, limit, policy, t, state, u, disturbance, mdp.noise == "bernoulli")
            t, state, why = walk(*walking, *path)
            over = why == DOUBLED or bool((seen.tried >= limit).any())
            if why != DOUBLED:
                safe_core(seen, within, allowed)
                over = over or not np.array_equal(allowed, before)
                before[:] = allowed
    staying = allowed & within[:, None]
    return UnbrokenLife(mdp, *path, safe=within, allowed=staying, epochs=epochs, constants=constants)


def optimal_core(mdp: FiniteMDP) -> tuple[Bools, Bools]:
    """W [S] and the actions [S, A] that stay in it for certain, from the support alone."""
    _check(mdp)
    t = mdp.transition
    within = ~mdp.reset
    allowed = np.empty((mdp.n_states, mdp.n_actions), dtype=np.bool_)
    while True:
        smaller = np.empty(mdp.n_states, dtype=np.bool_)
        safe_actions(t.indptr, t.indices, 0, ~within, within, allowed, smaller)
        if np.array_equal(smaller, within):
            return within, allowed
        within = smaller


def unsafe_pairs(mdp: FiniteMDP) -> Bools:
    """[S, A] pairs, outside the reset set, that can lead out of W: at most so many resets in a life.

    >>> import resetfree as rf
    >>> int(unsafe_pairs(rf.make("grid-v0")).sum())
    18
    """
    within, _ = optimal_core(mdp)
    outside = np.logical_or.reduceat(np.append(~within[mdp.transition.indices], False), mdp.transition.indptr[:-1])
    outside &= np.diff(mdp.transition.indptr) > 0
    return np.asarray(outside.reshape(mdp.n_states, mdp.n_actions) & ~mdp.reset[:, None])


def optimal_gain(mdp: FiniteMDP) -> Gain:
    """Best average reward within W from each of its states, by linear programming (right for several chains, too).

    Minimise sum g subject to g(s) >= P g and g(s) + h(s) >= r + P h for every action that stays in W.

    >>> import resetfree as rf
    >>> optimal_gain(rf.make("pits-v0")).value
    1.0
    """
    within, allowed = optimal_core(mdp)
    gain = np.full(mdp.n_states, np.nan)
    inside = np.flatnonzero(within)
    if len(inside) == 0:
        return Gain(within, allowed, gain)
    pairs = np.flatnonzero(allowed.ravel())
    owner = np.searchsorted(inside, pairs // mdp.n_actions)
    n = len(inside)
    moves = mdp.transition.matrix()[pairs][:, inside]
    here = sparse.csr_array((np.ones(len(pairs)), (np.arange(len(pairs)), owner)), shape=(len(pairs), n))
    less = here - moves
    left = sparse.vstack([sparse.hstack([less, sparse.csr_array((len(pairs), n))]), sparse.hstack([here, less])])
    right = np.concatenate([np.zeros(len(pairs)), mdp.reward[0].ravel()[pairs]])
    goal = np.concatenate([np.ones(n), np.zeros(n)])
    found = scipy.optimize.linprog(goal, A_ub=-left.tocsr(), b_ub=-right, bounds=(None, None), method="highs")
    if not found.success:
        raise NotCertifiable(f"The linear program of the gain was not solved: {found.message}")
    gain[inside] = found.x[:n]
    return Gain(within, allowed, gain)


def _fresh(mdp: FiniteMDP) -> LifeCounts:
    """Nothing seen, and room for as many successors as any pair has (storage only: the learner does not read it)."""
    room = int(np.diff(mdp.transition.indptr).max(initial=1))
    shape = (mdp.n_states, mdp.n_actions)
    if shape[0] * shape[1] * (16 + 12 * room) > LARGEST_COUNTS:
        raise InvalidInput(
            f"A life keeps counts of at most {LARGEST_COUNTS / 1e9:.0f} GB. Got {shape[0]} states, {shape[1]} actions "
            f"and up to {room} successors instead."
        )
    tried, earned = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    successor, times = np.zeros((*shape, room), dtype=np.int32), np.zeros((*shape, room), dtype=np.int64)
    return LifeCounts(tried, earned, successor, times, np.zeros(mdp.n_states, dtype=np.bool_))


def _check(mdp: FiniteMDP) -> None:
    """A life needs one layer, and nothing that happens at the end of an episode."""
    for wrong, what in (
        (not mdp.stationary, "dynamics that change with the step"),
        (mdp.contexts is not None, "contexts, which change between episodes"),
        (mdp.contexts is None and bool(mdp.end_reset.any()), "resets at the end of episodes ('end_reset')"),
    ):
        if wrong:
            raise InvalidInput(f"A life without episodes needs a stationary problem. Got {what} instead.")
