"""Players that are registered nowhere: commands reach them as module:Class."""

from dataclasses import dataclass

from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.tabular.references import Uniform


@dataclass(frozen=True)
class OwnPrimal(Uniform):
    """A primal player of a user."""

    name = "own-primal"


@dataclass(frozen=True)
class OwnDual(ConstantPenalty):
    """A dual player of a user, with a setting that its file keeps."""

    name = "own-dual"
