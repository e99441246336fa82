"""Batches for networks from the stored transitions: float32, actions on [-1, 1]."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.players.neural.networks import FAR
from resetfree.players.replay_buffer import StoredRows
from resetfree.problems.action_spaces import to_unit
from resetfree.problems.finite.transitions import Floats


class Batch(NamedTuple):
    """Transitions, the same leading axes in each field."""

    state: Any  # [..., D]
    action: Any  # [..., A] in [-1, 1]
    reward: Any  # [...]
    after: Any  # [..., D]
    dead: Any  # [...] 1 where `after` is a reset state


def replayed(rows: StoredRows, index: NDArray[np.int64], ends: tuple[Floats, Floats]) -> Batch:
    """The transitions that begin at rows `index` [...]; ends: [A] each, of the box of actions."""
    return Batch(
        state=narrow(rows.state[index]),
        action=narrow(to_unit(rows.action[index], *ends)),
        reward=narrow(rows.reward[index]),
        after=narrow(rows.state[index + 1]),
        dead=narrow(rows.dead[index + 1]),
    )


def narrow(numbers: Any) -> NDArray[np.float32]:
    """Numbers as float32, cut where it would overflow."""
    return np.asarray(np.clip(numbers, -FAR, FAR), dtype=np.float32)
