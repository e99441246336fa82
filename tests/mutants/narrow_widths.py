"""Mutants of the smallest proved widths: imported wherever the battery is run."""

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tests.mutants.battery import forged, mutant
from tests.mutants.honest import features, learn, nearly_linear

import resetfree as rf
from resetfree.players.linear import regression as proved_linear
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.theory.certificates import OPTIMISM, certify


@dataclass(frozen=True)
class Narrow(LinearUCB):
    """The smallest proved widths, and a part of them."""

    part: float = 1.0

    def init(self, *given: Any) -> Any:
        """With less than the proved width."""
        state: Any = super().init(*given)
        names = ("part",) if hasattr(state.width, "part") else ("sigma_r", "sigma_c", "ridge_r", "ridge_c")
        state.width = state.width._replace(**{name: self.part * getattr(state.width, name) for name in names})
        return state


def narrowed(mdp: rf.FiniteMDP) -> list[rf.Certificate]:
    """Certificates of the first part of the widths, 1, 1/4, 1/16, ..., with which the player is not optimistic."""
    found: list[rf.Certificate] = []
    for quarters in range(0, 16, 2):
        broken = learn(Narrow(width="proved", part=4.0**-quarters), problem=mdp, episodes=400)
        del broken.spec["primal"]["settings"]["part"]  # the record is one of the player that it says it is
        found = certify(broken)
        if any(c.refuted and c.claim in OPTIMISM for c in found):
            break
    return found


@mutant("intervals made narrower until they are wrong")
def _() -> list[rf.Certificate]:
    return narrowed(rf.make("ledge-v0", places=2, horizon=2))


@mutant("widths of determinants made narrower until they are wrong")
def _() -> list[rf.Certificate]:
    return narrowed(features())


@dataclass(frozen=True)
class Unwidened(LinearUCB):
    """Says that its widths are for a problem that is nearly linear, and makes those of a linear one."""

    def init(self, *given: Any) -> Any:
        """Without epsilon."""
        state: Any = super().init(*given)
        state.width = state.width._replace(z_r=0 * state.width.z_r, z_c=0 * state.width.z_c)
        return state


@mutant("widths without epsilon on a problem that is only nearly linear")
def _() -> list[rf.Certificate]:
    mdp, settings = nearly_linear()
    return certify(learn(Unwidened(**settings), problem=mdp, episodes=3000))


@mutant("data pooled over actions that lead nowhere, as if they were samples of r + V(s')")
def _() -> list[rf.Certificate]:
    mdp = rf.make("random-linear-v0", n_states=4, n_actions=2, d=2, horizon=3).replace(boundary="literal")
    with patch.object(proved_linear, "pooled_lacks", lambda *_: {}):
        player = LinearUCB(width="proved", pooled=True)
        return certify(learn(player, problem=mdp, episodes=2000, feedback="realised"))


@mutant("falls in every round of a small problem")
def _() -> list[rf.Certificate]:
    return forged("algorithm 1, intervals", v_c=1.0)
