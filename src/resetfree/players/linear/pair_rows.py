"""What linear players keep on a continuum of states: every transition, rank-one regressions, and what plans rest on.

Legend: as in `pair_values`. A plan is made from the data at the last switch and kept, for each multiplier that
is planned for, until some determinant has doubled: that happens O(H d log K) times, at numbers of transitions that grow
geometrically, so that passes over all of them cost the same per episode however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from typing import TypeAlias

import numpy as np

from resetfree.core.errors import InvalidInput
from resetfree.core.state import require, within
from resetfree.players.linear.pair_values import learn_pairs
from resetfree.players.replay_buffer import NO_ACTION, StoredRows, no_rows
from resetfree.players.requirements import check_room
from resetfree.players.tabular.sparse_counts import longer
from resetfree.problems.contract import Episode, Problem
from resetfree.problems.finite.backward import Bools, Floats, Ints
from resetfree.problems.pairs import PairFeatures

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

    rows: StoredRows
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
            live = end - bool(rows.dead[end - 1])
            self.psi[self.seen : live] = self.pairs(rows.state[self.seen : live])
            self.psi[live:end] = 0.0
            self.step[self.seen : end] = np.arange(end - self.seen)
            self.seen = end

    def fitted(self) -> Read:
        """What a pass reads: features, actions, dead rows, rows by layer, layers, and the regressions then."""
        self.look()
        n = self.then.rows
        taken = np.flatnonzero(self.rows.action[:n] != NO_ACTION)
        layer = self.layer_of_step[self.step[taken]]
        order = taken[np.argsort(layer, kind="stable")]
        ends = np.append(0, np.bincount(layer, minlength=len(self.then.pay)).cumsum())
        psi, action, dead = self.psi[:n], self.rows.action[:n], self.rows.dead[:n]
        return psi, action, dead, order, ends, self.layer_of_step, self.then.inverse, self.then.pay


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
    nothing = (0, np.zeros((1, A, d)), np.zeros(1, dtype=np.int64))
    return PairRows(no_rows(problem), empty, empty.copy(), 0, problem.pairs, layer_of_step, *nothing)
