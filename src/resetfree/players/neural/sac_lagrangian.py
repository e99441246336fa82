"""Soft actor-critic with a Lagrangian: critics of cost predict falls, and the dual player's multiplier weighs them.

After Ha, Xu, Tan, Levine and Tan (2020, "Learning to walk in the real world with minimal human effort") and Yang et al.
(2021, "WCSAC"). Kept: separate critics of cost, and a multiplier that is learned beside the actor. Adapted: the
multiplier is that of the dual player (by default it counts falls); of two critics of cost the worse one counts; the
cost is a fall, after which nothing follows; gradient steps come at the end of an episode.
"""

from dataclasses import dataclass
from typing import ClassVar

from resetfree.game.capabilities import Partner
from resetfree.game.contract import Prediction
from resetfree.players.neural.sac import SAC


@dataclass(frozen=True)
class SACLagrangian(SAC):
    """Soft actor-critic whose actor maximises Q - lam C with the multiplier lam of the latest round.

    A plan for another lam has the same policy: it follows the multiplier only as fast as gradient steps do.

    >>> SACLagrangian.partner().dual
    'counting'
    """

    name: ClassVar[str] = "sac-lagrangian"
    prediction: ClassVar[Prediction] = "high"
    costs: ClassVar[bool] = True

    @classmethod
    def partner(cls) -> Partner:
        """A multiplier that grows with each fall: the critics of cost are too often wrong to be its feedback."""
        return Partner("counting", "realised")
