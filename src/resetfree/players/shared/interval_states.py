"""What Algorithm 1 keeps where its widths are intervals of all sets of next states: counts (see `proved_widths`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from resetfree.game.contract import Round
from resetfree.players.shared.count_players import ALL
from resetfree.players.shared.counts import HasCounts, empty_counts
from resetfree.players.shared.kernels.interval_softmax import interval_plan
from resetfree.players.shared.kernels.lazy_softmax import Widths
from resetfree.players.shared.requirements import check_room, sizes
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.transitions import Bools, Floats
from resetfree.theory.proved_widths import IntervalWidth


@dataclass
class IntervalState(HasCounts):
    """The counts of all cells, and the constants of this run."""

    k: int  # episodes seen
    shape: tuple[int, int, int] = field(metadata={"saved": False})  # H, S, A
    width: IntervalWidth = field(metadata={"saved": False})
    alpha: float = field(metadata={"saved": False})
    beta_r: float = field(metadata={"saved": False})  # not used: widths are intervals
    beta_c: float = field(metadata={"saved": False})

    def plan(self, s1: State, widths: Widths, caps: Floats) -> tuple[Floats, float, float]:
        """The policy [H, S, A], and its estimated V_r and V_c at s1."""
        policy, v_r, v_c, _, _ = self.backward(widths, caps)
        return policy, float(v_r[s1]), float(v_c[s1])

    def backward(self, widths: Widths, caps: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """See `LinearUCB.backward`."""
        horizon, n_states, n_actions = self.shape
        policy, q_r, q_c = np.empty((3, *self.shape))
        v_r, v_c = np.empty((2, n_states))
        fixed = (self.counts, self.n_transitions, self.width, widths.alpha, widths.lam, caps, self.among)
        interval_plan(*fixed, policy, q_r, q_c, v_r, v_c)
        flat = (horizon, n_states * n_actions)
        return policy, v_r, v_c, q_r.reshape(flat), q_c.reshape(flat)

    @property
    def among(self) -> Bools:
        """The actions among which the softmax chooses: all."""
        return ALL

    def learn(self, round: Round) -> None:
        """Count the steps of an episode."""
        self.absorb(round.episode)


def no_intervals(problem: Problem, name: str, *, pooled: bool, width: IntervalWidth, alpha: float) -> IntervalState:
    """No data yet; refuses what is not finite, pooling over steps that differ, and what does not fit in memory."""
    rows = sizes(problem, pooled, name)
    size = 100 * rows[0] * rows[1] * rows[2]
    check_room(problem, name, size, "counts", "" if pooled else "pool the steps if the dynamics allow it")
    shape, nan = (problem.horizon, *rows[1:]), float("nan")
    return IntervalState(
        **empty_counts(problem, rows), k=0, shape=shape, width=width, alpha=alpha, beta_r=nan, beta_c=nan
    )
