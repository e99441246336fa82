"""Algorithm 1 and the greedy composite on a continuum of states: their plans, and the policies that these hold.

Legend: as in `pair_values`; level the multiplier that is planned for, which is not below the one played.

**Why a level may be above the multiplier.** V_c of pi* is zero and every V_c is not negative, so for lam <= level
    V* - (V_r^pi - lam V_c^pi) <= V* - (V_r^pi - level V_c^pi):
what is proved of the plan for the level bounds the primal regret at lam, and the same upper bound is above V*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from resetfree.core import Bools, Floats, Ints, InvalidInput, longer, require, within
from resetfree.game.contract import Round
from resetfree.game.replay_buffer import NO_ACTION, ReplayBuffer, empty_buffer
from resetfree.players import check_room
from resetfree.players.linear.pair_values import Widths, greedy_pass, greedy_rows, learn_pairs, soft_pass, soft_rows
from resetfree.problems import Episode, Problem, State
from resetfree.problems.action_spaces import PairFeatures
from resetfree.problems.continuum import RowPolicy
from resetfree.theory.proved_widths import CoverWidth, cover_betas

# What linear players keep on a continuum of states: every transition, rank-one regressions, and what plans rest on.
#
# Legend: as in `pair_values`. A plan is made from the data at the last switch and kept, for each multiplier that is
# planned for, until some determinant has doubled: that happens O(H d log K) times, at numbers of transitions that grow
# geometrically, so that passes over all of them cost the same per episode however many there are.

Read: TypeAlias = tuple[Floats, Ints, Bools, Ints, Ints, Ints, Floats, Floats]  # what a pass reads


@dataclass
class Regressions:
    """Ridge regressions of so many rows, one per layer."""

    rows: int
    inverse: Floats  # [L, d, d] Lam^-1
    pay: Floats  # [L, d] sum phi r
    log_det: Floats  # [L] log det Lam, less its value without data
    counts: Ints  # [L] samples

    def copy(self) -> Regressions:
        """The same numbers in other arrays."""
        sums = (self.inverse.copy(), self.pay.copy(), self.log_det.copy())
        return Regressions(self.rows, *sums, counts=self.counts.copy())


@dataclass
class PairRows:
    """All transitions, the regressions on them, and those at the last switch, which plans are made from."""

    rows: ReplayBuffer
    now: Regressions
    then: Regressions
    switches: int
    pairs: PairFeatures = field(metadata={"saved": False})
    layer_of_step: Ints = field(metadata={"saved": False})  # [H]
    seen: int = field(metadata={"saved": False})  # rows whose features are in `psi`: after loading, none
    psi: Floats = field(metadata={"saved": False})  # [room, A, d] 0 in the reset state
    step: Ints = field(metadata={"saved": False})  # [room] the step of each row, from 0

    def check_loaded(self) -> None:
        """Actions that there are, and a switch between two episodes."""
        rows = self.rows
        require(within(rows.action[: rows.n], NO_ACTION, self.psi.shape[1]), "actions must be among those there are")
        require(self.now.rows == rows.n, "regressions must be of all rows")
        require(rows.ends_at(self.then.rows), "plans must rest on whole episodes")

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.layer_of_step)

    def add(self, episode: Episode) -> None:
        """Store the transitions of an episode, and add them to the regressions."""
        first = self.rows.n
        self.rows.add(episode)
        self.look()
        new, now = slice(first, self.rows.n), self.now
        data = (self.psi[new], self.rows.action[first : self.rows.n - 1], self.rows.reward[first : self.rows.n - 1])
        learn_pairs(*data, self.layer_of_step, now.inverse, now.pay, now.log_det, now.counts)
        now.rows = self.rows.n

    def switch(self, *, rare: bool) -> bool:
        """Let plans rest on all rows so far: always, or if some determinant has doubled since; returns whether."""
        if rare and (self.now.log_det - self.then.log_det).max() < log(2.0):
            return False
        self.then = self.now.copy()
        self.switches += 1
        return True

    def look(self) -> None:
        """Compute the features of rows that have none yet, episode by episode, as they came: so bits are the same."""
        rows = self.rows
        if self.seen == rows.n:
            return
        self.psi, self.step = longer(self.psi, rows.n, 0), longer(self.step, rows.n, 0)
        ends = self.seen + 1 + np.flatnonzero(rows.action[self.seen : rows.n] == NO_ACTION)
        for end in ends.tolist():
            live = end - bool(rows.terminated[end - 1])
            self.psi[self.seen : live] = self.pairs(rows.state[self.seen : live])
            self.psi[live:end] = 0.0
            self.step[self.seen : end] = np.arange(end - self.seen)
            self.seen = end

    def fitted(self) -> Read:
        """What a pass reads: features, actions, resets, rows by layer, layers, and the regressions then."""
        self.look()
        n = self.then.rows
        taken = np.flatnonzero(self.rows.action[:n] != NO_ACTION)
        layer = self.layer_of_step[self.step[taken]]
        order = taken[np.argsort(layer, kind="stable")]
        ends = np.append(0, np.bincount(layer, minlength=len(self.then.pay)).cumsum())
        psi, action, terminated = self.psi[:n], self.rows.action[:n], self.rows.terminated[:n]
        return psi, action, terminated, order, ends, self.layer_of_step, self.then.inverse, self.then.pay


def no_pairs(problem: Problem, name: str, *, pooled: bool, reg: float, episodes: int) -> PairRows:
    """No data yet; refuses what has no features of pairs, what pools over steps that differ, and what is too large."""
    if problem.pairs is None:
        raise InvalidInput(
            f"The player '{name}' needs known features phi(s, a) of pairs on a continuum of states. "
            f"Got '{problem.name}' without 'pairs' instead."
        )
    if pooled and not problem.stationary:
        raise InvalidInput(f"The 'pooled' of {name} must be false for dynamics that change with the step. Got True.")
    if problem.end_resets or problem.n_transitions != problem.horizon:
        raise InvalidInput(
            f"On a continuum of states '{name}' needs episodes in which every action moves the agent and no end alone "
            f"is a reset. Got '{problem.name}' instead."
        )
    H, A, d = problem.horizon, problem.n_actions, problem.pairs.dimension
    size = 8 * A * d * (H + 1) * max(episodes, 1)
    check_room(problem, name, size, "features of states", "use fewer episodes, or features of smaller dimension")
    layers = 1 if pooled else H
    empty = Regressions(
        0,
        np.tile(np.eye(d) / reg, (layers, 1, 1)),
        np.zeros((layers, d)),
        np.zeros(layers),
        counts=np.zeros(layers, dtype=np.int64),
    )
    layer_of_step = np.zeros(H, dtype=np.int64) if pooled else np.arange(H)
    return PairRows(
        empty_buffer(problem),
        empty,
        empty.copy(),
        0,
        problem.pairs,
        layer_of_step=layer_of_step,
        seen=0,
        psi=np.zeros((1, A, d)),
        step=np.zeros(1, dtype=np.int64),
    )


# --------------------------------------------------------------------------------------------------------------------


class Fitted(NamedTuple):
    """What policies read of the data at a switch."""

    pairs: PairFeatures
    inverse: Floats  # [H, d, d] Lam^-1 of each step
    betas: Floats  # [2, H]


@dataclass(frozen=True, eq=False)
class SoftPairs(RowPolicy):
    """The softmax of optimistic values for reward and cost, as a function of vector states."""

    fit: Fitted
    w_r: Floats  # [H, d]
    w_c: Floats  # [H, d]
    alpha: float
    lam: float

    def rows(self, h: int, states: Floats) -> Floats:
        """[n, A] probabilities in states [n, D] at step h."""
        return self.values(h, states)[0]

    def values(self, h: int, states: Floats) -> tuple[Floats, Floats, Floats]:
        """Probabilities [n, A], V_r and V_c [n]."""
        psi = np.ascontiguousarray(self.fit.pairs(states))
        out = (np.empty(psi.shape[:2]), np.empty(len(psi)), np.empty(len(psi)))
        (beta_r, beta_c), cap = self.fit.betas[:, h - 1], float(len(self.w_r) - h + 1)
        weights = (self.fit.inverse[h - 1], self.w_r[h - 1], self.w_c[h - 1])
        soft_rows(psi, *weights, beta_r, beta_c, self.alpha, self.lam, cap, *out)
        return out


@dataclass(frozen=True, eq=False)
class GreedyPairs(RowPolicy):
    """Greedy on the optimistic composite, as a function of vector states."""

    fit: Fitted
    w: Floats  # [H, 3, d] of the composite, of rewards and of costs
    aware: bool
    lam: float

    def rows(self, h: int, states: Floats) -> Floats:
        """[n, A] all on the greedy action, in states [n, D] at step h."""
        return np.asarray(np.eye(self.fit.pairs(states[:1]).shape[1])[self.values(h, states)[0]])

    def values(self, h: int, states: Floats) -> tuple[Any, Floats]:
        """Actions [n]; V, V_r and V_c [3, n]."""
        psi = np.ascontiguousarray(self.fit.pairs(states))
        actions, values = np.empty(len(psi), dtype=np.int64), np.empty((3, len(psi)))
        (beta_r, beta_c), cap = self.fit.betas[:, h - 1], float(len(self.w) - h + 1)
        weights = (self.fit.inverse[h - 1], self.w[h - 1])
        greedy_rows(psi, *weights, beta_r, beta_c, self.aware, self.lam, cap, actions, values)
        return actions, values


@dataclass
class ContinuumState:
    """What has been learned on a continuum, and the plans that are kept until the next switch."""

    k: int  # episodes seen
    data: PairRows
    rare: bool = field(metadata={"saved": False})
    width: CoverWidth | None = field(metadata={"saved": False})  # of the width "proved", which grows with the data
    beta_r: float = field(metadata={"saved": False})  # of the others
    beta_c: float = field(metadata={"saved": False})
    alpha: float = field(metadata={"saved": False})
    n_actions: int = field(metadata={"saved": False})
    plans: dict[Any, Any] = field(default_factory=dict, metadata={"saved": False})  # a cache, made from the rest
    read: int = field(default=0, metadata={"saved": False})  # transitions that passes of this process have read

    @property
    def shape(self) -> tuple[int, int, int]:
        """H, 0 as there is no number of states, A."""
        return self.data.horizon, 0, self.n_actions

    def learn(self, round: Round) -> None:
        """Store the steps of an episode; let plans rest on them if it is time."""
        self.data.add(round.episode)
        if self.data.switch(rare=self.rare):
            self.plans.clear()

    def fit(self) -> Fitted:
        """What plans read of the data at the last switch."""
        then, layers = self.data.then, self.data.layer_of_step
        if self.width is None:
            betas = np.outer([self.beta_r, self.beta_c], np.ones(len(layers)))
        else:
            betas = cover_betas(self.width, then.log_det[layers], then.counts[layers].astype(np.float64))
        return Fitted(self.data.pairs, then.inverse[layers], betas)

    def plan(self, s1: State, widths: Widths, caps: Floats) -> tuple[SoftPairs, float, float]:
        """The softmax policy for a level, and its V_r and V_c at s1."""
        policy = self.soft(widths)
        _, v_r, v_c = policy.values(1, self.start(s1))
        return policy, float(v_r[0]), float(v_c[0])

    def soft(self, widths: Widths) -> SoftPairs:
        """The pass of Algorithm 1 for a level; kept until the next switch."""
        key = (widths.lam, widths.alpha)
        if key not in self.plans:
            fit, d, fitted = self.fit(), self.data.pairs.dimension, self._fitted()
            w_r, w_c = np.zeros((self.data.horizon, d)), np.zeros((self.data.horizon, d))
            soft_pass(*fitted, fit.betas, widths.alpha, widths.lam, w_r, w_c)
            self.plans[key] = SoftPairs(fit, w_r, w_c, widths.alpha, widths.lam)
        found: SoftPairs = self.plans[key]
        return found

    def greedy(self, lam: float, *, aware: bool) -> GreedyPairs:
        """The greedy pass for a level; kept until the next switch."""
        if lam not in self.plans:
            fit, fitted = self.fit(), self._fitted()
            w = np.zeros((self.data.horizon, 3, self.data.pairs.dimension))
            greedy_pass(*fitted, fit.betas, aware, lam, w)
            self.plans[lam] = GreedyPairs(fit, w, aware, lam)
        found: GreedyPairs = self.plans[lam]
        return found

    def _fitted(self) -> Read:
        """What a pass reads, which is counted: each step reads the rows of its layer."""
        self.read += int(self.data.then.counts[self.data.layer_of_step].sum())
        return self.data.fitted()

    def start(self, s1: State) -> Floats:
        """[1, D] a start as a row."""
        return np.asarray(s1, dtype=np.float64).reshape(1, -1)


def no_states(
    player: Any, problem: Problem, episodes: int, width: CoverWidth | None, alpha: float = float("inf")
) -> ContinuumState:
    """No data yet on a continuum of states, for a player with `pooled`, `switching`, `ridge` and `betas`."""
    data = no_pairs(problem, player.name, pooled=player.pooled, reg=player.ridge(), episodes=episodes)
    rare = plans_rarely(player.switching, problem, player.name)
    beta_r, beta_c = (0.0, 0.0) if width else player.betas(problem, episodes)
    return ContinuumState(0, data, rare, width, beta_r, beta_c=beta_c, alpha=alpha, n_actions=problem.n_actions)


def on_continuum(problem: Problem) -> bool:
    """Whether states are not finite, and pairs have known features."""
    return problem.n_states is None and problem.pairs is not None


def plans_rarely(switching: Literal["every", "rare"] | None, problem: Problem, name: str) -> bool:
    """Whether plans are kept, as `switching` says; by default on a continuum, where a pass reads every transition."""
    if switching == "rare" and not on_continuum(problem):
        raise InvalidInput(
            f"The 'switching' of {name} must be every for finite states. Got 'rare' for '{problem.name}' instead."
        )
    return on_continuum(problem) if switching is None else switching == "rare"
