"""The players on counts (`ucbvi`, `support-elimination`) for many rows at once, as in `count_players`.

Legend: n tries and m moves of a pair, rest = H - h - 1, L the logarithm in the widths, V the composite value.
"""

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from resetfree.core import InvalidInput
from resetfree.players import BatchedForm
from resetfree.players.batched import (
    FEW,
    BatchedPlan,
    BatchedScene,
    EpisodePaths,
    Shape,
    Tables,
    Turn,
    Values,
    at_state,
    greedy_backward,
    layer,
    over_steps,
    summed,
    take,
)
from resetfree.players.tabular.count_players import BERNSTEIN, HOEFFDING, JITTER, TIE, TWO_SIDED, CountState
from resetfree.players.tabular.ucbvi import UCBVI
from resetfree.problems import Problem

# What was seen of a finite problem, as counts: enough for one-hot features and for the players on counts.
#
# Legend: L layers of data (1 if pooled over the steps, else H), W listed successors, rows last. Where rewards are no
# noise their sum is tries times reward and is not stored; where a pair has one successor its moves are its tries.


class CountRows(NamedTuple):
    """How often what was seen."""

    tried: Any  # [L, A, S, rows] int32
    seen: Any  # [L, A, W, S, rows] int32, or None: as tried
    earned: Any  # [L, A, S, rows], or None: tries times reward
    known: Any  # [S, rows] states whose entering was a reset
    known_last: Any  # [S, rows] likewise at the end of an episode


def no_counts(shape: Shape, n_layers: int, rows: int) -> CountRows:
    """Nothing seen, on the host."""
    S, pairs = shape.n_states, (n_layers, shape.n_actions)
    return CountRows(
        np.zeros((*pairs, S, rows), dtype=np.int32),
        np.zeros((*pairs, shape.n_successors, S, rows), dtype=np.int32) if shape.counts_moves else None,
        np.zeros((*pairs, S, rows)) if shape.noise != "none" else None,
        np.zeros((S, rows), dtype=np.bool_),
        np.zeros((S, rows), dtype=np.bool_),
    )


def count(shape: Shape, c: CountRows, path: EpisodePaths) -> CountRows:
    """Add the steps that were taken."""
    n_layers, A, S, rows = c.tried.shape
    W = shape.n_successors
    kind = jnp.int64 if n_layers * A * W * S * rows >= 2**31 else jnp.int32
    row, step = jnp.arange(rows, dtype=kind), jnp.arange(shape.horizon, dtype=kind)[:, None]
    pair = path.action.astype(kind) + (step * A if n_layers > 1 else 0)
    where = (pair * S + path.state) * rows + row
    tried = _added(c.tried, where, path.taken, n_layers > 1)
    seen, earned = c.seen, c.earned
    if seen is not None:
        seen = _added(seen, ((pair * W + path.slot) * S + path.state) * rows + row, path.moved, n_layers > 1)
    if earned is not None:
        pay = jnp.where(path.taken, path.reward, 0.0)
        if n_layers > 1:
            earned = _added(earned, where, pay, True)
        else:  # steps may meet, and the order in which numbers are added is kept
            for h in range(shape.horizon):
                earned = _added(earned, where[h], pay[h], True)
    return CountRows(tried, seen, earned, *learn_resets(shape, c.known, c.known_last, path))


def _added(table: Array, where: Array, what: Array, unique: bool) -> Array:
    """Add at flat places; `unique` where no two of them are the same."""
    flat = (
        table.reshape(-1)
        .at[where]
        .add(what.astype(table.dtype), mode="promise_in_bounds", unique_indices=unique, wrap_negative_indices=False)
    )
    return flat.reshape(table.shape)


def learn_resets(shape: Shape, known: Array, known_last: Array, path: EpisodePaths) -> tuple[Array, Array]:
    """Remember the state in which an episode was reset; a reset at its end may show nothing about other steps."""
    here = (jnp.arange(shape.n_states, dtype=jnp.int32)[:, None] == path.last) & path.reset
    sure = here & (path.steps < shape.n_transitions) if shape.end_resets else here
    return known | sure, known_last | here


def tries(c: CountRows, h: Any) -> list[Array]:
    """[S, rows] per action."""
    table = layer(c.tried, h)
    return [table[a].astype(jnp.float64) for a in range(len(table))]


def earnings(tables: Tables, c: CountRows, h: Any) -> list[Array]:
    """Sum of rewards, [S, rows] per action."""
    if c.earned is not None:
        table = layer(c.earned, h)
        return [table[a] for a in range(len(table))]
    pay = layer(tables.reward, h)
    return [n * pay[a][:, None] for a, n in enumerate(tries(c, h))]


def over_successors(tables: Tables, c: CountRows, h: Any, *values: Array) -> list[list[Array]]:
    """sum_t N(s, a, t) V(t) for each V [S, rows]: per V and per action [S, rows].

    Learners know no successor list; one that was never seen has count zero, so this is the sum over what was seen.
    """
    successor = layer(tables.successor, h)  # [A, W, S]
    seen = layer(c.seen, h) if c.seen is not None else layer(c.tried, h)[:, None]  # [A, W, S, rows]
    n_actions, width = successor.shape[:2]

    def total(a: int, v: Array) -> Array:
        return summed(width, lambda j: seen[a, j] * take(v, successor[a, j]))

    return [[total(a, v) for a in range(n_actions)] for v in values]


# What can still be safe, given what was seen, for many rows at once: `support_elimination`, rows last.


def _stays(tables: Tables, c: CountRows, h: Any, good: Array) -> Array:
    """[A, S, rows] whether all successors seen of a pair are good [S, rows]."""
    successor = layer(tables.successor, h)  # [A, W, S]
    seen = layer(c.seen, h) if c.seen is not None else layer(c.tried, h)[:, None]
    return jnp.all((seen == 0) | take(good, successor), axis=1)


def endless_sets(tables: Tables, c: CountRows, allowed: Array) -> Array:
    """Greatest fixpoint, from the last one: what is seen only grows, so the new one lies inside it."""

    def narrower(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        good, _, _ = state
        may = _stays(tables, c, 0, good) & good
        left = jnp.any(may, axis=0)
        return left, may, jnp.any(left != good)

    good = jnp.any(allowed[0], axis=0) & ~(c.known | c.known_last)
    good, may, _ = jax.lax.while_loop(lambda s: s[2], narrower, (good, allowed[0], jnp.asarray(True)))
    return may[None]


def episode_sets(shape: Shape, tables: Tables, c: CountRows) -> Array:
    """The sets of each step of an episode: successors at the end must not be bad there, before that be inside."""

    def step(after: Array, h: Any) -> tuple[Array, Array]:
        moves = jnp.asarray(h) < shape.n_transitions
        may = ~moves | _stays(tables, c, h, after)
        good = jnp.any(may, axis=0) & ~c.known
        return jnp.where(moves, good, after), may & good

    _, allowed = over_steps(step, ~c.known_last, shape, reverse=True)
    return jnp.stack(allowed) if shape.unrolled else allowed


# --------------------------------------------------------------------------------------------------------------------


class OptimisticRows(NamedTuple):
    """Counts, what decides ties, and which actions elimination leaves."""

    counts: CountRows
    largest_lam: Any  # [rows], or None if not needed
    fatal: Any  # [A, S, rows] pairs that were reset; None, as the next two, where ties are random
    visited: Any  # [S, rows]
    found: Any  # [A, rows] states that an action was the first to find
    allowed: Any  # [1 or H, A, S, rows], or None: all


@dataclass(frozen=True)
class Optimistic:
    """What of a player on counts a program is compiled for; its numbers travel beside it."""

    n_layers: int
    form: int
    learned_ties: bool
    noisy: bool
    monotone: bool = False
    allowed_layers: int = 0  # 0 without elimination
    endless: bool = False  # whether its one layer is for a life without end; an episode of one step has one layer too
    samples_actions: bool = False

    @staticmethod
    def by_seed(problem: Problem, seeds: list[int]) -> dict[str, Any]:
        """[A, S, rows] the chance in breaking ties, which each run draws from its own seed."""
        assert problem.n_states is not None
        pairs = (problem.n_states, problem.n_actions)
        chance = np.array([np.random.default_rng(seed).random(pairs) for seed in seeds])
        return {"jitter": np.ascontiguousarray(chance.transpose(2, 1, 0))}

    def begin(self, shape: Shape, given: dict[str, Any]) -> OptimisticRows:
        """Nothing seen: everything is as good as can be."""
        A, S, rows = given["jitter"].shape
        ties = self.learned_ties
        return OptimisticRows(
            counts=no_counts(shape, self.n_layers, rows),
            largest_lam=np.zeros(rows) if self.monotone else None,
            fatal=np.zeros((A, S, rows), dtype=np.bool_) if ties else None,
            visited=np.zeros((S, rows), dtype=np.bool_) if ties else None,
            found=np.zeros((A, rows)) if ties else None,
            allowed=np.ones((self.allowed_layers, A, S, rows), dtype=np.bool_) if self.allowed_layers else None,
        )

    def plan(self, scene: BatchedScene, state: OptimisticRows, turn: Turn, evaluate: bool) -> BatchedPlan:
        """Q = min(H - h, rhat + Phat V + b), greedy; ties go to the pair tried more often, then to the preferred."""
        (shape, _, given), lam, c = scene, turn.lam, state.counts
        if self.allowed_layers:
            lam = jnp.zeros_like(lam)  # elimination plans for the reward alone
        elif self.monotone:
            lam = jnp.maximum(lam, state.largest_lam)
        prefer = self._prefer(given, state)

        def step(values: Values, h: Any) -> tuple[Values, Array]:
            is_reset = c.known
            if shape.end_resets:
                is_reset = jnp.where(jnp.asarray(h) == shape.n_transitions - 1, c.known_last, c.known)
            worst: tuple[Any, ...] = (-lam, 0.0, 1.0, -lam)
            after = tuple(jnp.where(is_reset, w, v) for w, v in zip(worst, values, strict=False))
            q, q_r, q_c, low = self._estimates(scene, c, h, lam, after)
            if state.allowed is not None:
                may = layer(state.allowed, h)
                some = jnp.any(may, axis=0) if shape.n_actions > FEW else reduce(or_, [may[a] for a in range(len(may))])
                some &= jnp.asarray(h) < shape.n_transitions  # an action that leads nowhere is never unsafe
                q = [jnp.where(some & ~may[a], -jnp.inf, x) for a, x in enumerate(q)]
            tried = layer(c.tried, h)
            top, best = q[0], jnp.zeros(q[0].shape, dtype=jnp.int32)
            most, liked = tried[0], prefer[0] + jnp.zeros_like(q[0])
            for a in range(1, shape.n_actions):
                more = q[a] > top
                top, best = jnp.where(more, q[a], top), jnp.where(more, a, best)
                most, liked = jnp.where(more, tried[a], most), jnp.where(more, prefer[a], liked)
            for a in range(shape.n_actions):
                tie = q[a] >= top - TIE
                rather = tie & ((tried[a] > most) | ((tried[a] == most) & (prefer[a] > liked)))
                best, most = jnp.where(rather, a, best), jnp.where(rather, tried[a], most)
                liked = jnp.where(rather, prefer[a], liked)
            v_r, v_c = _of(best, q_r), _of(best, q_c)
            now = (top, v_r, v_c) if self.form != TWO_SIDED else (top, v_r, v_c, low)
            return tuple(jnp.where(c.known, 0.0, x) for x in now), jnp.where(c.known, 0, best)

        n_values = 4 if self.form == TWO_SIDED else 3
        return greedy_backward(scene, turn, step, n_values, evaluate)

    def _prefer(self, given: dict[str, Any], state: OptimisticRows) -> Array:
        """[A, S, rows] which of equally good and equally often tried actions to take: the largest."""
        jitter: Array = given["jitter"]
        if not self.learned_ties:
            return jitter
        opened = (state.counts.tried > 0).any(axis=0)  # pairs tried at some step
        score = (state.found - state.fatal.sum(axis=1)) / (1.0 + opened.sum(axis=1))
        return jnp.asarray(score[:, None] + JITTER * jitter)

    def _estimates(
        self, scene: BatchedScene, c: CountRows, h: Any, lam: Array, after: Values
    ) -> tuple[list[Array], list[Array], list[Array], Array]:
        """Q, Q_r and Q_c per action [S, rows], and with two-sided widths a lower bound of V."""
        shape, tables, given = scene
        log_term, cost_part = given["log_term"], given["cost_part"]
        cap = jnp.asarray(shape.horizon - h, dtype=jnp.float64)
        rest = cap - 1.0
        reach = rest + cost_part * lam
        can_move = jnp.asarray(h) < shape.n_transitions
        sums = over_successors(tables, c, h, *after)
        tried, earned = tries(c, h), earnings(tables, c, h)
        low = jnp.broadcast_to(-lam, after[0].shape)
        q, q_r, q_c = [], [], []
        for a, n in enumerate(tried):
            moves = n if c.seen is None else layer(c.seen, h)[a].sum(axis=0).astype(jnp.float64)
            moved = can_move & (moves > 0)
            inverse = jnp.where(moved, 1.0 / jnp.maximum(moves, 1.0), 0.0)
            unmoved = can_move & (moves == 0)
            mean = jnp.where(unmoved, rest, sums[0][a] * inverse)
            mean_r = jnp.where(unmoved, rest, sums[1][a] * inverse)
            mean_c = sums[2][a] * inverse
            bonus = reach * jnp.sqrt(0.5 * log_term * inverse)
            if self.form != HOEFFDING:
                root = jnp.sqrt(2.0 * log_term * inverse)
                fewer = jnp.maximum(moves - 1.0, 1.0)
                fast = 7.0 * log_term / (3.0 * fewer)
                if self.form == BERNSTEIN:
                    square = _spread(tables, c, h, a, after[1], mean=mean_r)
                    sharp = root * jnp.sqrt(square * inverse) + rest * fast
                    risk = jnp.sqrt(jnp.maximum(mean_c * (1.0 - mean_c), 0.0))
                    sharp = sharp + cost_part * lam * (root * risk + fast)
                else:
                    square = _spread(tables, c, h, a, after[0], mean=mean)
                    gap = _spread(tables, c, h, a, after[0] - after[3], mean=jnp.zeros_like(mean))
                    sharp = root * (jnp.sqrt(square / fewer) + jnp.sqrt(gap / fewer)) + reach * fast
                bonus = jnp.where(moved & (moves > 1), jnp.minimum(bonus, sharp), bonus)
            if self.noisy:
                bonus = bonus + given["noise"] * jnp.sqrt(2.0 * log_term / jnp.maximum(n, 1.0))
            pay, untried = earned[a] / jnp.maximum(n, 1.0), n == 0
            q.append(jnp.where(untried, cap, jnp.maximum(jnp.minimum(pay + mean + bonus, cap), -lam)))
            q_r.append(jnp.where(untried, cap, jnp.minimum(jnp.maximum(pay + mean_r, 0.0), cap)))
            q_c.append(jnp.where(untried, 0.0, jnp.minimum(mean_c, 1.0)))
            if self.form == TWO_SIDED:
                mean_low = jnp.where(unmoved, -lam, sums[3][a] * inverse)
                low = jnp.where(untried, low, jnp.maximum(low, pay + mean_low - bonus))
        return q, q_r, q_c, low

    def learn(
        self, scene: BatchedScene, state: OptimisticRows, path: EpisodePaths, lam: Array, plan: Any
    ) -> OptimisticRows:
        """Count the steps that were taken; compute again which actions can still be safe."""
        shape, tables = scene.shape, scene.tables
        new = state._replace(counts=count(shape, state.counts, path))
        if self.monotone:
            new = new._replace(largest_lam=jnp.maximum(state.largest_lam, lam))
        if self.learned_ties:
            new = _learn_ties(shape, new, path)
        if self.endless:
            new = new._replace(allowed=endless_sets(tables, new.counts, state.allowed))
        elif self.allowed_layers:
            new = new._replace(allowed=episode_sets(shape, tables, new.counts))
        return new


def learned_ties(name: str, ties: str) -> bool:
    """Whether ties are learned, or random; those that rounding would break are refused."""
    if ties == "first":
        raise InvalidInput(
            f"The 'ties' of {name} must be random or learned in the batched engine, where rounding differs. "
            "Got 'first' instead."
        )
    return ties == "learned"


def _spread(tables: Tables, c: CountRows, h: Any, a: int, v: Array, mean: Array) -> Array:
    """sum_t N(s, a, t) (V(t) - mean)^2, [S, rows]."""
    successor = layer(tables.successor, h)[a]
    seen = layer(c.seen, h)[a] if c.seen is not None else layer(c.tried, h)[a][None]
    return summed(len(successor), lambda j: seen[j] * (take(v, successor[j]) - mean) ** 2)


def _of(best: Array, per_action: list[Array]) -> Array:
    result = per_action[0]
    for a, x in enumerate(per_action[1:], start=1):
        result = jnp.where(best == a, x, result)
    return result


def _learn_ties(shape: Shape, state: OptimisticRows, path: EpisodePaths) -> OptimisticRows:
    """Which pair was fatal, and which action was the first to find a state.

    A state is found by a step if it was not visited before this episode nor earlier in it, and was no reset.
    """
    steps, states, actions = (jnp.arange(n, dtype=jnp.int32) for n in (shape.horizon, shape.n_states, shape.n_actions))
    fatal = path.moved & path.reset & (steps[:, None] == path.steps - 1)
    came = path.moved & ~fatal  # [H, rows] arrived somewhere that is no reset state
    earlier = (path.state[None] == path.arrived[:, None]) & (steps[:, None] >= steps)[:, :, None]
    new = came & ~earlier.any(axis=1) & ~at_state(state.visited, path.arrived)
    acted = path.action[:, None] == actions[:, None]  # [H, A, rows]
    there = path.arrived[:, None] == states[:, None]  # [H, S, rows]
    last = jnp.take_along_axis(path.action * shape.n_states + path.state, path.steps[None] - 1, axis=0)
    pairs = jnp.arange(shape.n_actions * shape.n_states, dtype=jnp.int32)[:, None] == last
    pairs = pairs.reshape(state.fatal.shape) & (path.reset & fatal.any(axis=0))
    visited = state.visited | (path.state[0] == states[:, None]) | (there & came[:, None]).any(axis=0)
    found = state.found + (acted & new[:, None]).sum(axis=0)
    return state._replace(fatal=state.fatal | pairs, visited=visited, found=found)


def ucbvi_form(player: UCBVI, problem: Problem, episodes: int) -> BatchedForm:
    """The same counts in every row."""
    ties, data = learned_ties(player.name, player.ties), cast(CountState, player.init(problem, episodes, 0))
    program = Optimistic(len(data.tried), player.form, ties, data.noise > 0, player.monotone)
    numbers = {"log_term": data.log_term, "noise": data.noise, "cost_part": float(player.cost_part)}
    return BatchedForm(program, numbers)
