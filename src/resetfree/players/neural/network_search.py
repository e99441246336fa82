"""The state of a search with networks.

Legend: n rows, the first of the replay buffer; z = (s - centre) / scale.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from resetfree.core.state import require, within
from resetfree.game.capabilities import Decision
from resetfree.game.replay_buffer import ReplayBuffer
from resetfree.players.neural.experience import ScaledRows
from resetfree.players.neural.networks import NeuralState
from resetfree.players.neural.schedule import LearningProgress
from resetfree.problems.features.scaling import Scaling

FREE, CAREFUL, BOLDER = range(3)
WORDS = (
    "nothing has been reset so far: it explores freely, and seeks what the networks disagree about",
    "after the first reset it is careful: disagreement is avoided, and rewards count little at first",
    "exploring: reward has not risen for 1,000 steps without a reset, so rewards count more from here on",
)


@dataclass(kw_only=True)
class NetworkSearchState(NeuralState):
    """All transitions, the networks that learn from them, and how boldly they act.

    The tree holds the ensemble, the actor and the critics, on the scale of z.
    """

    rows: ReplayBuffer
    progress: LearningProgress
    trained: int = 0  # rows that the networks have learned from
    # [m, 2] round and index in WORDS of each decision
    decisions: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64), metadata={"grows": (0,)})
    stored: ScaledRows = field(default_factory=ScaledRows, metadata={"saved": False})

    def check_loaded(self) -> None:
        """Raise InvalidInput unless counters and decisions can be those of a run."""
        require(self.trained <= self.rows.n, "networks must rest on rows that were seen")
        require(within(self.decisions[:, 1], 0, len(WORDS)), "decisions must be known ones")
        require(self.progress.first_fall <= self.rows.n, "the first reset must have been seen")
        require(self.progress.unit >= 0.0 and self.progress.boldness > 0.0, "progress must have units")

    @property
    def fell(self) -> bool:
        """Whether any state was a reset state."""
        return bool(self.rows.terminated[: self.rows.n].any())

    def scaling(self) -> Scaling:
        """The scales of states."""
        scales = self.tree["scales"]
        return Scaling(np.asarray(scales.centre, np.float64), np.asarray(scales.scale, np.float64))

    def decide(self, k: int, word: int) -> None:
        """Record a decision of round k."""
        self.decisions = np.concatenate([self.decisions, [[k, word]]])

    def record(self) -> list[Decision]:
        """All decisions, in the order of rounds."""
        return [Decision(int(k), WORDS[what]) for k, what in self.decisions]
