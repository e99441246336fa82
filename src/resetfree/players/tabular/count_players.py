"""What the players on counts share: one interface of counts, and the form of it that keeps all pairs.

`CountState` keeps every pair, and its passes go over all states: fastest where the problem is small.
`large_problems.LargeCounts` keeps what was seen. Both give the same numbers, so players need not distinguish them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Count, Floats, Ints, check, jit
from resetfree.core.compiled import jit_inlined
from resetfree.game.contract import Plan, Round, check_multiplier
from resetfree.players import check_room, sizes
from resetfree.players.tabular.counts import ALL, ROOM, Counts, HasCounts, empty_counts
from resetfree.players.tabular.sparse_counts import SMALL
from resetfree.problems import Episode, Problem, State

# Optimistic and perturbed backward passes on counts, for one multiplier: what the tabular players plan with.
#
# Legend: h from 0; n how often a pair was tried (or moved), rest = H - h - 1 the reward that can come after this step,
# V the composite value V_r - lam V_c (a known reset state has -lam on arrival), L the logarithm in the widths.

L = TypeVar("L")
TIE = 1e-9  # composite values closer than this are equal
HOEFFDING, BERNSTEIN, TWO_SIDED = 0, 1, 2


class Bonus(NamedTuple):
    """Which width the optimism has."""

    form: int  # HOEFFDING, BERNSTEIN (variances of the estimates) or TWO_SIDED (variances between two bounds)
    log_term: float  # L
    noise: float  # sub-Gaussian constant of the rewards' noise
    cost_part: float  # 1 or 0: whether the width covers the cost of the comparator
    lam: float


class Ahead(NamedTuple):
    """What comes after an episode, for plans that look beyond it."""

    after: Floats  # [S] the value of ending it there, or [0]: only the episode counts
    beyond: float  # the most that can be
    toll: Floats  # [L, S, A] what it costs to try a pair for the first time, or [0, 0, 0]: nothing
    again: int  # pairs that were tried so often at most are tried as if for the first time


NOTHING_AHEAD = Ahead(np.empty(0), 0.0, np.empty((0, 0, 0)), 0)


class Rows(NamedTuple):
    """Counts as rows of pairs, wherever they are kept."""

    tried: Ints  # [R, A]
    earned: Floats  # [R, A]
    moved: Ints  # [R, A]
    begin: Ints  # [R, A] where the successors of a pair begin, or [0, 0]: pair i has those from i stride on
    used: NDArray[np.int32]  # [R, A] how many there are, or [0, 0]: at most `stride`, fewer where one has no times
    successor: NDArray[np.int32]  # [E]
    times: Ints  # [E]
    stride: int


@jit_inlined
def _sharp(x: Bonus, moves: int, square: float, gap: float, mean_c: float, rest: float) -> float:
    """The width of a pair from variances: of the rewards to come, or of the two bounds on the value.

    square, gap: `moves` times the variance of the next value, and the mean square of upper minus lower bound.
    mean_c: the estimated cost of the pair.  rest: the most reward that can come after this step.
    """
    inverse = 1.0 / moves
    root, fast = sqrt(2.0 * x.log_term * inverse), 7.0 * x.log_term / (3.0 * (moves - 1.0))
    if x.form == BERNSTEIN:
        sharp = root * sqrt(square * inverse) + rest * fast
        return sharp + x.cost_part * x.lam * (root * sqrt(max(mean_c * (1.0 - mean_c), 0.0)) + fast)
    unbiased = 1.0 / (moves - 1.0)
    return root * (sqrt(square * unbiased) + sqrt(gap * unbiased)) + (rest + x.cost_part * x.lam) * fast


@jit_inlined
def _greedy(q: Floats, tried: Ints, r: int, prefer: Floats, may: Bools, k: int) -> tuple[int, float]:
    """The best action and its value; of equally good ones that tried more often, then the one preferred most.

    q: [A] the values; those of actions that may not be taken are set to minus infinity.
    tried: [R, A] how often each pair was tried.  r: the row of the state in `tried`, -1 for none.
    prefer: [n, A].  may: [n, A] the actions that may be taken if there are any, or [0, 0]: all.  k: the row in both.
    """
    if len(may) > 0:
        some = False
        for a in range(len(q)):
            some = some or may[k, a]
        if some:
            for a in range(len(q)):
                if not may[k, a]:
                    q[a] = -np.inf
    best = 0
    for a in range(1, len(q)):
        if q[a] > q[best]:
            best = a
    top = q[best]
    for a in range(len(q)):
        if q[a] >= top - TIE:
            more = tried[r, a] - tried[r, best] if r >= 0 else 0
            if more > 0 or (more == 0 and prefer[k, a] > prefer[k, best]):
                best = a
    return best, top


@jit
def composite_step(
    c: Rows,
    moves_on: bool,  # whether this step is followed by a transition
    x: Bonus,
    cap: float,  # H - h
    beyond: float,  # the most that can come after the episode, 0 if only the episode counts
    toll: Floats,  # [R, A] what it costs to try a pair for the first time, or [0, 0]: nothing
    again: int,  # pairs that were tried so often at most are tried as if for the first time
    v: Floats,  # values of the next step: those of successor t are at where[t], or at `grave` if it is a reset state
    v_r: Floats,
    v_c: Floats,
    low: Floats,
    where: NDArray[np.int64] | NDArray[np.int32],
    is_reset: Bools,
    grave: int,
    rows: Ints,  # [n] the row of each state of this step, -1 where nothing was tried
    known: Bools,  # [n] whether it is a reset state
    prefer: Floats,  # [n, A] which of equally good and equally often tried actions to take: the largest
    may: Bools,  # [n, A] actions that may be taken where there are any, or [0, 0]: all
    stretch: Floats,  # [R, A] multiples of the width to add, or [0, 0]: the width itself
    now_v: Floats,  # [n] out
    now_r: Floats,  # [n] out
    now_c: Floats,  # [n] out
    now_low: Floats,  # [n] out
    action: NDArray[np.int32],  # [n] out
) -> None:
    """Q = min(H - h + beyond, rhat + Phat V + b), greedy; ties go to the pair tried more often, then to `prefer`."""
    n_actions, form, log_term, noise, lam = prefer.shape[1], x.form, x.log_term, x.noise, x.lam
    rest, most, span = cap - 1.0, cap + beyond, cap - 1.0 + x.cost_part * lam
    q, q_r, q_c = np.empty(n_actions), np.empty(n_actions), np.empty(n_actions)
    for k in range(len(rows)):
        if known[k]:
            action[k], now_v[k], now_r[k], now_c[k], now_low[k] = 0, 0.0, 0.0, 0.0, 0.0
            continue
        now_low[k] = -lam
        r = rows[k]
        for a in range(n_actions):
            n = c.tried[r, a] if r >= 0 else 0
            if n <= again:
                q[a], q_r[a], q_c[a] = most, cap, 0.0
                if len(toll) > 0 and r >= 0:
                    q[a] -= toll[r, a]
                continue
            moves, bonus = c.moved[r, a] if moves_on else 0, 0.0
            mean, mean_r, mean_c, mean_low = 0.0, 0.0, 0.0, 0.0
            if moves_on and moves == 0:
                mean, mean_r, mean_low = rest + beyond, rest, -lam
            elif moves > 0:
                first = (r * n_actions + a) * c.stride if c.stride > 0 else c.begin[r, a]
                end = first + (c.stride if c.stride > 0 else c.used[r, a])
                for j in range(first, end):
                    times = float(c.times[j])
                    if times == 0.0:
                        break
                    t = c.successor[j]
                    at = grave if is_reset[t] else where[t]
                    mean += times * v[at]
                    mean_r += times * v_r[at]
                    mean_c += times * v_c[at]
                    mean_low += times * low[at]
                inverse = 1.0 / moves
                mean, mean_r, mean_c, mean_low = mean * inverse, mean_r * inverse, mean_c * inverse, mean_low * inverse
                bonus = span * sqrt(0.5 * log_term * inverse)
                if form != HOEFFDING and moves > 1:
                    square, gap = 0.0, 0.0
                    for j in range(first, end):
                        times = float(c.times[j])
                        if times == 0.0:
                            break
                        t = c.successor[j]
                        at = grave if is_reset[t] else where[t]
                        if form == BERNSTEIN:
                            square += times * (v_r[at] - mean_r) ** 2
                        else:
                            square += times * (v[at] - mean) ** 2
                            gap += times * (v[at] - low[at]) ** 2
                    bonus = min(bonus, _sharp(x, moves, square, gap, mean_c, rest))
            if noise > 0.0:
                bonus += noise * sqrt(2.0 * log_term / n)
            if len(stretch) > 0:
                bonus *= stretch[r, a]
            pay = c.earned[r, a] / n
            q[a] = max(min(pay + mean + bonus, most), -lam)
            q_r[a], q_c[a] = min(max(pay + mean_r, 0.0), cap), min(mean_c, 1.0)
            now_low[k] = max(now_low[k], pay + mean_low - bonus)
        best, top = _greedy(q, c.tried, r, prefer, may, k)
        action[k], now_v[k], now_r[k], now_c[k] = best, top, q_r[best], q_c[best]


@jit
def composite_plan(
    c: Counts,
    n_transitions: int,
    form: int,  # HOEFFDING, BERNSTEIN (variances of the estimates) or TWO_SIDED (variances between two bounds)
    log_term: float,  # L
    noise: float,  # sub-Gaussian constant of the rewards' noise
    cost_part: float,  # 1 or 0: whether the width covers the cost of the comparator
    lam: float,
    draw: Floats,  # [L, S, A] multiples of the width to add, or [0, 0, 0]: the width itself
    prefer: Floats,  # [S, A] which of equally good and equally often tried actions to take: the largest
    allowed: Bools,  # [1 or H, S, A] actions that may be taken where there are any, or [0, 0, 0]: all
    after: Floats,  # [S] what comes after an episode that ends there, or [0]: nothing counts that does
    beyond: float,  # the most of that
    toll: Floats,  # [L, S, A] what it costs to try a pair for the first time, or [0, 0, 0]: nothing
    again: int,  # pairs that were tried so often at most are tried as if for the first time
    policy: Floats,  # [H, S, A] out, one action each
    v: Floats,  # [S] out: V at step 1
    v_r: Floats,  # [S] out: V_r of the policy on the counts; what was never tried pays all and costs nothing
    v_c: Floats,  # [S] out
) -> None:
    """The backward pass over all states; see `composite_step`."""
    horizon, n_states, n_actions = policy.shape
    n_layers, width = len(c.tried), c.seen.shape[3]
    flat = (n_layers * n_states, n_actions)
    tried, earned, moved = c.tried.reshape(flat), c.earned.reshape(flat), c.moved.reshape(flat)
    begin, used = np.empty((0, 0), dtype=np.int64), np.empty((0, 0), dtype=np.int32)
    edges, times = c.successor.reshape(-1), c.seen.reshape(-1)
    rows = Rows(tried, earned, moved, begin, used, successor=edges, times=times, stride=width)
    bonus, stretch = Bonus(form, log_term, noise, cost_part, lam), draw.reshape((-1, draw.shape[2] or 1))
    fee = toll.reshape((-1, toll.shape[2] or 1))
    next_v, next_r, next_c = np.zeros(n_states + 1), np.zeros(n_states + 1), np.zeros(n_states + 1)
    next_low, low = np.zeros(n_states + 1), np.empty(n_states)
    next_v[n_states], next_c[n_states], next_low[n_states] = -lam, 1.0, -lam
    if len(after) > 0:
        next_v[:n_states] = after
    itself, action = np.arange(n_states), np.empty(n_states, dtype=np.int32)
    no_sets = np.empty((0, 0), dtype=np.bool_)
    policy[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        is_reset = c.known_last if h == n_transitions - 1 else c.known
        ahead = (next_v, next_r, next_c, next_low, itself, is_reset, n_states)
        row = itself + h * n_states if n_layers > 1 else itself
        # One layer of sets is for all steps, but an action that leads nowhere (literal boundary) is never unsafe.
        bound = len(allowed) > 0 and h < n_transitions
        may = allowed[h if len(allowed) > 1 else 0] if bound else no_sets
        here, made = (row, c.known, prefer, may, stretch), (v, v_r, v_c, low, action)
        cap, more = float(horizon - h), beyond if h < n_transitions else 0.0
        composite_step(rows, h < n_transitions, bonus, cap, more, fee, again, *ahead, *here, *made)
        if h >= n_transitions and len(after) > 0:  # nothing moves: the next episode begins here, whatever is done
            v += after
        for s in range(n_states):
            policy[h, s, action[s]] = 1.0
        next_v[:n_states], next_r[:n_states], next_c[:n_states], next_low[:n_states] = v, v_r, v_c, low


JITTER = 0.1  # weight of chance beside what was learned about actions
Ties: TypeAlias = Literal["first", "random", "learned"]


@dataclass
class CountData(ABC):
    """What was seen, with the constants of this run; the counts themselves are kept in one of two forms."""

    k: int  # episodes seen
    largest_lam: float  # largest multiplier so far
    opened: Bools  # [S, A] pairs tried at some step
    fatal: Bools  # [S, A] pairs that were reset
    visited: Bools  # [S] states seen
    found: Floats  # [A] states that an action was the first to find
    log_term: float = field(metadata={"saved": False})  # L in the widths
    noise: float = field(metadata={"saved": False})  # sub-Gaussian constant of the rewards in the widths
    jitter: Floats = field(metadata={"saved": False})  # [S, A] chance in breaking ties
    ties: Ties = field(metadata={"saved": False})

    def learn(self, round: Round) -> None:
        """Count the steps that were taken; remember a state that turned out to be a reset state."""
        self.count(round.episode)
        new = self._discover(round.episode) if self.ties == "learned" else None
        if new is not None:
            self.rank(*new)
        self.k += 1
        self.largest_lam = max(self.largest_lam, float(round.lam))

    def _discover(self, episode: Episode) -> tuple[Floats, Floats] | None:
        """How many pairs of each action were tried and were reset for the first time, None if nothing new was seen.

        Preferred are actions that elsewhere found new states and were not reset, per pair tried; chance decides the
        rest.
        """
        states, actions = episode.states, episode.actions
        if not episode.reset and self.opened[states[: len(actions)], actions].all() and self.visited[states].all():
            return None
        opened, fatal = np.zeros_like(self.found), np.zeros_like(self.found)
        self.visited[states[0]] = True
        for h, a in enumerate(actions):
            s = states[h]
            opened[a] += not self.opened[s, a]
            self.opened[s, a] = True
            if h + 1 == len(states):
                break
            if episode.reset and h + 1 == len(actions):
                fatal[a] += not self.fatal[s, a]
                self.fatal[s, a] = True
            elif not self.visited[states[h + 1]]:
                self.visited[states[h + 1]] = True
                self.found[a] += 1.0
        return opened, fatal

    @abstractmethod
    def count(self, episode: Episode) -> None:
        """Count the steps of an episode."""

    @abstractmethod
    def rank(self, opened: Floats, fatal: Floats) -> None:
        """Prefer other actions after these numbers of pairs [A] were tried, and were reset, for the first time."""

    @abstractmethod
    def plan(self, s1: State, bonus: Bonus) -> Plan:
        """The optimistic plan; `upper` is V(s1), `v_r` and `v_c` are the policy's values on the counts alone."""


@dataclass
class CountState(HasCounts, CountData):
    """The counts of all pairs."""

    prefer: Floats  # [S, A] which action to take among equally good ones
    horizon: int = field(metadata={"saved": False})
    seed: int = field(metadata={"saved": False})
    nothing: Floats = field(metadata={"saved": False})  # [0, 0, 0]

    def count(self, episode: Episode) -> None:
        """See `CountData`."""
        self.absorb(episode)

    def rank(self, opened: Floats, fatal: Floats) -> None:
        """See `CountData`."""
        score = (self.found - self.fatal.sum(axis=0)) / (1.0 + self.opened.sum(axis=0))
        self.prefer[:] = score + JITTER * self.jitter

    def plan(
        self,
        s1: State,
        bonus: Bonus,
        allowed: Bools = ALL,
        draw: Floats | None = None,
        counts: Counts | None = None,
        ahead: Ahead = NOTHING_AHEAD,
    ) -> Plan:
        """See `CountData`, inside the actions that are allowed; `upper` counts what is ahead as well.

        draw: [L, S, A] multiples of the width to add.  counts: what to plan with in place of what was seen.
        """
        policy, v, v_r, v_c = self.values(bonus, allowed, draw, counts, ahead)
        return Plan(policy, float(v_r[s1]), float(v_c[s1]), float(v[s1]))

    def values(
        self,
        bonus: Bonus,
        allowed: Bools = ALL,
        draw: Floats | None = None,
        counts: Counts | None = None,
        ahead: Ahead = NOTHING_AHEAD,
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """The policy [H, S, A] of `plan`, and V, V_r and V_c [S] of all starts."""
        n_states, n_actions = self.tried.shape[1:]
        policy, v, v_r, v_c = np.empty((self.horizon, n_states, n_actions)), *np.empty((3, n_states))
        stretch = self.nothing if draw is None else draw
        seen = self.counts if counts is None else counts
        composite_plan(seen, self.n_transitions, *bonus, stretch, self.prefer, allowed, *ahead, policy, v, v_r, v_c)
        return policy, v, v_r, v_c


def begin(
    large: Callable[[Problem, bool, dict[str, Any]], L],
    problem: Problem,
    name: str,
    pooled: bool,
    ties: Ties,
    log_term: float,
    noise: float,
    seed: int,
) -> CountState | L:
    """Nothing seen yet, in the form that suits the problem: `large` makes it where tables would be large."""
    shape = sizes(problem, pooled, name)
    if whole_size(problem, shape) > SMALL and seed >= 0:
        return large(problem, pooled, no_data(shape, ties, log_term, noise, seed))
    return fresh(problem, name, pooled, ties, log_term, noise=noise, seed=seed)


def fresh(
    problem: Problem, name: str, pooled: bool, ties: Ties, log_term: float, noise: float, seed: int
) -> CountState:
    """No data yet; refuses what is not finite, pooling over steps that differ, and what does not fit in memory."""
    shape = sizes(problem, pooled, name)
    check(seed, Count, f"'seed' of {name}")
    size = whole_size(problem, shape)
    check_room(problem, name, size, "counts and policy", "" if pooled else "pool the steps if the dynamics allow it")
    data = no_data(shape, ties, log_term, noise, seed)
    data |= {"horizon": problem.horizon, "seed": seed, "prefer": data["jitter"].copy(), "nothing": np.zeros((0, 0, 0))}
    return CountState(**empty_counts(problem, shape), **data)


def no_data(shape: tuple[int, int, int], ties: Ties, log_term: float, noise: float, seed: int) -> dict[str, Any]:
    """The fields of `CountData` before the first episode; shape: L, S, A."""
    pairs = shape[1:]
    return {
        "k": 0,
        "largest_lam": 0.0,
        "log_term": log_term,
        "noise": noise,
        "ties": ties,
        "opened": np.zeros(pairs, dtype=np.bool_),
        "fatal": np.zeros(pairs, dtype=np.bool_),
        "visited": np.zeros(shape[1], dtype=np.bool_),
        "found": np.zeros(shape[2]),
        "jitter": np.random.default_rng(seed).random(pairs) if ties != "first" else np.zeros(pairs),
    }


def whole_size(problem: Problem, shape: tuple[int, int, int]) -> int:
    """Bytes of the counts of all [L, S, A] pairs, and of a policy."""
    return shape[0] * shape[1] * shape[2] * (24 + 12 * ROOM) + 8 * problem.horizon * shape[1] * shape[2]


def multiplier(state: CountData, lam: float, monotone: bool) -> float:
    """The multiplier to plan with: as named, or the largest so far (rounding up costs the dual nothing)."""
    named = check_multiplier(lam)
    return max(named, state.largest_lam) if monotone else named


def noise_of(problem: Problem, noise: float, width: str) -> float:
    """The noise in rewards that a width is made for: a proved one covers at least what the problem may have.

    >>> import resetfree as rf
    >>> coins = rf.make("grid-v0").replace(noise="bernoulli").problem()
    >>> noise_of(coins, 0.0, "tuned"), noise_of(coins, 0.0, "theory"), noise_of(coins, 0.8, "theory")
    (0.0, 0.5, 0.8)
    """
    return max(noise, problem.reward_noise) if width == "theory" else noise
