"""What the players that plan greedily on the composite r - lam c share: their data, and checks of what they are given.

Legend: phi features of pairs [S*A, d]; reg the ridge constant; L layers of data, one per step or one for all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.players.shared.counts import mark_reset
from resetfree.players.shared.kernels.composite import learn_counted
from resetfree.players.shared.kernels.ridge import Regression, empty
from resetfree.players.shared.pair_features import features_of
from resetfree.players.shared.requirements import check_room, sizes
from resetfree.problems.contract import Episode, Problem
from resetfree.problems.finite.transitions import Bools, Floats

Switching: TypeAlias = Literal["every", "rare"]  # when a player plans again


@dataclass
class Samples:
    """The regression of all steps taken, which reset states are known, and the sizes of the problem."""

    k: int  # episodes seen
    regression: Regression
    log_det: Floats  # [L] log det Lam, less its value without data
    known: Bools  # [S] states seen to be reset states
    known_last: Bools  # [S] states in which the end of an episode was seen to be a reset
    phi: Floats = field(metadata={"saved": False})  # what the regression's form needs of the features
    layer_of_step: NDArray[np.int64] = field(metadata={"saved": False})  # [H]
    shape: tuple[int, int, int] = field(metadata={"saved": False})  # H, S, A
    n_transitions: int = field(metadata={"saved": False})
    end_resets: bool = field(metadata={"saved": False})

    @property
    def fitted(self) -> tuple[Regression, Floats, NDArray[np.int64], int]:
        """What every backward pass reads first."""
        return self.regression, self.phi, self.layer_of_step, self.n_transitions


def no_samples(problem: Problem, name: str, *, pooled: bool, reg: float, by_features: bool = False) -> Samples:
    """No data yet; refuses problems that are not finite and layered problems if pooled.

    by_features: keep the regression in the form of features unless they are one-hot.
    """
    n_layers, n_states, n_actions = sizes(problem, pooled, name)
    horizon, n_pairs = problem.horizon, n_states * n_actions
    d = n_pairs if problem.phi is None else problem.phi.shape[2]
    width = d if by_features else min(n_pairs, d)
    entries = n_layers * (width**2 + n_states * width)
    check_room(problem, name, 8 * entries, "regression", "use features of smaller dimension")
    phi = features_of(problem)
    if by_features and problem.phi is not None:
        gram = np.tile(np.eye(d) / reg, (n_layers, 1, 1))
        width2 = np.tile((phi**2).sum(axis=1) / reg, (n_layers, 1))
        regression = Regression(gram, np.zeros((n_layers, n_states, d)), np.zeros((n_layers, d)), width2)
    else:
        regression, phi = empty(phi, n_states, n_layers, reg)
    return Samples(
        k=0,
        regression=regression,
        log_det=np.zeros(n_layers),
        known=np.zeros(n_states, dtype=np.bool_),
        known_last=np.zeros(n_states, dtype=np.bool_),
        phi=phi,
        layer_of_step=np.zeros(horizon, dtype=np.int64) if pooled else np.arange(horizon),
        shape=(horizon, n_states, problem.n_actions),
        n_transitions=problem.n_transitions,
        end_resets=problem.end_resets,
    )


def add(data: Samples, episode: Episode) -> None:
    """Add the steps that were taken; remember which states turned out to be reset states."""
    fitted = (data.regression, data.phi, data.log_det, data.layer_of_step, data.shape[2])
    learn_counted(*fitted, episode.states, episode.actions, episode.rewards)
    remember(data, episode)


def remember(data: Samples, episode: Episode) -> None:
    """One more episode, and the reset state in which it ended, if it did."""
    if episode.reset:
        mark_reset(data, episode)
    data.k += 1


def doubled(data: Samples, log_det: Floats) -> bool:
    """Whether the determinant of some layer is at least twice what it was."""
    return bool((data.log_det - log_det).max() >= log(2.0))
