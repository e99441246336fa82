"""What the players with a ridge regression share: its constant, its data, and the greedy pass on r - lam c.

Legend: phi features of pairs [S*A, d]; reg the ridge constant; L layers of data, one per step or one for all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from typing import Any, Literal, TypeAlias

import numpy as np

from resetfree.core.arrays import Bools, Floats, Ints
from resetfree.core.errors import InvalidInput
from resetfree.players.linear.ridge import Regression, empty, greedy_plan, learn_counted
from resetfree.players.requirements import check_room, sizes
from resetfree.players.tabular.counts import mark_reset
from resetfree.problems.contract import Episode, Problem

# Known features phi of state-action pairs in finite problems.


def features_of(problem: Problem) -> Floats:
    """[S*A, d] the known features, one-hot if there are none.

    >>> import resetfree as rf
    >>> features_of(rf.make("grid-v0").problem()).shape, features_of(rf.make("random-linear-v0").problem()).shape
    ((60, 60), (120, 6))
    """
    assert problem.n_states is not None
    n = problem.n_states * problem.n_actions
    if problem.phi is None and 8 * n * n > problem.room:
        raise InvalidInput(
            f"One-hot features must take at most {problem.room / 1e9:.0f} GB. Got {n:,} pairs, which take "
            f"{8e-9 * n * n:.1f} GB: give the problem features 'phi' of smaller dimension."
        )
    return np.eye(n) if problem.phi is None else np.ascontiguousarray(problem.phi.reshape(n, -1))


def dimension_of(problem: Problem) -> int:
    """d, which is the number of pairs where there are no features."""
    if problem.n_states is None and problem.pairs is not None:
        return problem.pairs.dimension
    return (problem.n_states or 0) * problem.n_actions if problem.phi is None else problem.phi.shape[2]


def is_one_hot(problem: Problem) -> bool:
    """Whether each pair has a feature of its own: none are given, or they are unit vectors, all different.

    >>> import resetfree as rf
    >>> [is_one_hot(rf.make(id).problem()) for id in ("grid-v0", "random-linear-v0")]
    [True, False]
    """
    if problem.phi is None:
        return problem.pairs is None
    flat = problem.phi.reshape(-1, problem.phi.shape[2])
    ones = flat == 1.0
    return bool((ones | (flat == 0.0)).all() and (ones.sum(axis=1) == 1).all() and (ones.sum(axis=0) <= 1).all())


def longer_than_one(problem: Problem) -> bool:
    """Whether some feature is longer than 1, for which no width is proved."""
    if problem.pairs is not None and problem.pairs.norm_bound > 1 + 1e-12:
        return True
    return problem.phi is not None and bool((problem.phi**2).sum(axis=2).max() > 1 + 1e-12)


# --------------------------------------------------------------------------------------------------------------------

Switching: TypeAlias = Literal["every", "rare"]  # when a player plans again


class HasRidge:
    """A player with the settings `reg` and `scale`, and perhaps `width`."""

    reg: float | None
    scale: float

    def ridge(self) -> float:
        """The ridge constant of this run: `reg`, else scale^2 with a tuned width, 1 with a proved one."""
        if self.reg is not None:
            return self.reg
        return self.scale**2 if self.scale > 0 and getattr(self, "width", "tuned") == "tuned" else 1.0


@dataclass
class Regressed:
    """The regression of all steps taken, which reset states are known, and the sizes of the problem."""

    k: int  # episodes seen
    regression: Regression
    known: Bools  # [S] states seen to be reset states
    known_last: Bools  # [S] states in which the end of an episode was seen to be a reset
    phi: Floats = field(metadata={"saved": False})  # what the regression's form needs of the features
    layer_of_step: Ints = field(metadata={"saved": False})  # [H]
    shape: tuple[int, int, int] = field(metadata={"saved": False})  # H, S, A
    n_transitions: int = field(metadata={"saved": False})
    end_resets: bool = field(metadata={"saved": False})

    @property
    def fitted(self) -> tuple[Regression, Floats, Ints, int]:
        """What every backward pass reads first."""
        return self.regression, self.phi, self.layer_of_step, self.n_transitions


@dataclass
class Samples(Regressed):
    """A regression whose determinants are kept."""

    log_det: Floats  # [L] log det Lam, less its value without data

    def greedy(
        self, lam: float, widths: tuple[float, float, bool, Floats]
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The whole greedy pass: policy [H, S, A]; V, V_r and V_c [S] at step 1; Q [H, S*A].

        widths: beta_r, beta_c, variance_aware and noise of `greedy_plan`.
        """
        horizon, n_states, n_actions = self.shape
        policy, q = np.empty(self.shape), np.empty((horizon, n_states * n_actions))
        v, v_r, v_c = np.empty(n_states), np.empty(n_states), np.empty(n_states)
        greedy_plan(*self.fitted, *widths, lam, self.known, self.known_last, policy, q, v, v_r, v_c)
        return policy, v, v_r, v_c, q


def regression_size(problem: Problem, rows: tuple[int, int, int], by_features: bool = False) -> int:
    """Bytes of a regression; rows: L, S, A.  by_features: see `no_regression`."""
    n_layers, n_states, n_actions = rows
    width = dimension_of(problem) if by_features else min(n_states * n_actions, dimension_of(problem))
    return 8 * n_layers * (width**2 + n_states * width)


def no_regression(
    problem: Problem, name: str, *, pooled: bool, reg: float, by_features: bool = False
) -> dict[str, Any]:
    """The fields of `Regressed` without data; refuses problems that are not finite and layered problems if pooled.

    by_features: keep the regression in the form of features unless they are one-hot.
    """
    rows = sizes(problem, pooled, name)
    n_layers, n_states, n_actions = rows
    size = regression_size(problem, rows, by_features)
    check_room(problem, name, size, "regression", "use features of smaller dimension")
    horizon, by_pairs = problem.horizon, not by_features or problem.phi is None
    regression, phi = empty(features_of(problem), n_states, n_layers, reg, by_pairs)
    return {
        "k": 0,
        "regression": regression,
        "known": np.zeros(n_states, dtype=np.bool_),
        "known_last": np.zeros(n_states, dtype=np.bool_),
        "phi": phi,
        "layer_of_step": np.zeros(horizon, dtype=np.int64) if pooled else np.arange(horizon),
        "shape": (horizon, n_states, n_actions),
        "n_transitions": problem.n_transitions,
        "end_resets": problem.end_resets,
    }


def no_samples(problem: Problem, name: str, *, pooled: bool, reg: float, by_features: bool = False) -> Samples:
    """No data yet; see `no_regression`."""
    empty_fields = no_regression(problem, name, pooled=pooled, reg=reg, by_features=by_features)
    return Samples(**empty_fields, log_det=np.zeros(1 if pooled else problem.horizon))


def add(data: Samples, episode: Episode) -> None:
    """Add the steps that were taken; remember which states turned out to be reset states."""
    fitted = (data.regression, data.phi, data.log_det, data.layer_of_step, data.shape[2])
    learn_counted(*fitted, episode.states, episode.actions, episode.rewards)
    remember(data, episode)


def remember(data: Samples, episode: Episode) -> None:
    """One more episode, and the reset state in which it ended, if it did."""
    if episode.reset:
        mark_reset(data, episode, episode.states[-1])
    data.k += 1


def doubled(data: Samples, log_det: Floats) -> bool:
    """Whether the determinant of some layer is at least twice what it was."""
    return bool((data.log_det - log_det).max() >= log(2.0))
